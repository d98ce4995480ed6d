//! Reads what Slack sends field by field: one that does not fit costs itself alone, and is named by its path.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Paths of fields that could not be read, such as `message.files[].size`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UnreadFields(BTreeSet<String>);

impl UnreadFields {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn add(&mut self, path: String) {
        self.0.insert(path);
    }
}

/// A JSON object whose fields are read, and its path for reports.
pub(crate) struct FieldReader<'a> {
    value: &'a Value,
    path: String,
    unread: &'a mut UnreadFields,
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(value: &'a Value, path: &str, unread: &'a mut UnreadFields) -> Self {
        Self { value, path: path.to_owned(), unread }
    }

    /// Returns a field as it is; null if it is absent.
    pub(crate) fn raw(&self, name: &str) -> &'a Value {
        &self.value[name]
    }

    /// Reads a field; `None` where it is absent, null or does not fit.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = &self.value[name];
        if value.is_null() {
            return None;
        }
        let read = T::deserialize(value).ok();
        if read.is_none() {
            self.note(name);
        }
        read
    }

    /// Reads a field like [`Self::take`], for a text that Slack leaves empty where it has none.
    pub(crate) fn take_filled<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        if self.value[name] == "" { None } else { self.take(name) }
    }

    /// Reads a field without which all is nothing; notes it if it is absent, too.
    pub(crate) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        if self.value[name].is_null() {
            self.note(name);
        }
        self.take(name)
    }

    /// Reads the items of a list, and skips those that can't be read.
    pub(crate) fn items<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(&Value, &str, &mut UnreadFields) -> Option<T>,
    ) -> Vec<T> {
        let list = &self.value[name];
        let Some(items) = list.as_array() else {
            if !list.is_null() {
                self.note(name);
            }
            return Vec::new();
        };
        let path = format!("{}.{name}[]", self.path);
        let mut found = Vec::new();
        for item in items {
            match read(item, &path, self.unread) {
                Some(item) => found.push(item),
                None => self.unread.add(path.clone()),
            }
        }
        found
    }

    /// Returns a list whose items are read later; null where there is none.
    pub(crate) fn list(&mut self, name: &str) -> Value {
        let list = &self.value[name];
        match list.as_array() {
            None if list.is_null() => {}
            None => self.note(name),
            Some(items) if items.iter().all(Value::is_object) => return list.clone(),
            Some(_) => {
                self.note(&format!("{name}[]"));
                return list.clone();
            }
        }
        Value::Null
    }

    fn note(&mut self, name: &str) {
        self.unread.add(format!("{}.{name}", self.path));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_does_not_fit_costs_itself_alone() {
        let value = json!({"a": 1, "b": "x", "c": null, "e": "", "list": [1, "two", 3], "no": {}});
        let mut unread = UnreadFields::default();
        let mut reader = FieldReader::new(&value, "message", &mut unread);
        assert_eq!(reader.take::<u64>("a"), Some(1));
        assert_eq!(reader.take::<u64>("b"), None);
        assert_eq!(reader.take::<u64>("c"), None);
        assert_eq!(reader.take_filled::<u64>("e"), None);
        assert_eq!(reader.need::<u64>("d"), None);
        assert_eq!(reader.items("list", |item, _, _| item.as_u64()), [1, 3]);
        assert!(reader.items("no", |item, _, _| item.as_u64()).is_empty());
        assert!(reader.items("absent", |item, _, _| item.as_u64()).is_empty());
        let told: Vec<&str> = unread.iter().collect();
        assert_eq!(told, ["message.b", "message.d", "message.list[]", "message.no"]);
    }
}
