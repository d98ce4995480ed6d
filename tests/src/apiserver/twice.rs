//! Fields that a JSON body names twice. The parser keeps the last one; a client wants to know.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Paths of the fields that stand twice in an object, in the order in which they come. Nothing of a
/// body that is no JSON.
pub(super) fn doubled_fields(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut parser = serde_json::Deserializer::from_slice(body);
    match (FieldWalk { path: String::new(), found: &mut found }).deserialize(&mut parser) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

struct FieldWalk<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for FieldWalk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldWalk<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let dot = if self.path.is_empty() { "" } else { "." };
            let path = format!("{}{dot}{name}", self.path);
            if !seen.insert(name) && !self.found.contains(&path) {
                self.found.push(path.clone());
            }
            map.next_value_seed(FieldWalk { path, found: &mut *self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = format!("{}[{index}]", self.path);
            if items.next_element_seed(FieldWalk { path, found: &mut *self.found })?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_once_with_its_path() {
        let body = br#"{"a": 1, "b": [{"c": {"d": 1, "d": null, "d": 2}}, 3.5], "a": "x"}"#;
        assert_eq!(doubled_fields(body), ["b[0].c.d", "a"]);
        assert!(doubled_fields(b"{\"a\": 1, \"b\": {\"a\": true}}").is_empty());
        assert!(doubled_fields(b"{\"a\": 1, \"a\"").is_empty());
    }
}
