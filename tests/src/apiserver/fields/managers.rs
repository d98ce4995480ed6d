//! `metadata.managedFields` as values.

use serde_json::{Value, json};

use super::set::FieldSet;
use crate::apiserver::object;

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManagerEntry {
    pub manager: String,
    /// True for server-side apply, false for other writes.
    pub applied: bool,
    /// The version of the API it was written in.
    pub api_version: String,
    /// The subresource it was written through, or empty.
    pub subresource: String,
    /// Time of the entry's last change.
    pub time: String,
    /// Fields that the manager owns.
    pub fields: FieldSet,
}

impl ManagerEntry {
    /// True if both entries are of the same manager in the same role.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.applied == other.applied
            && self.subresource == other.subresource
            && (self.applied || self.api_version == other.api_version)
    }

    /// Describes the manager as messages about conflicts do.
    pub(super) fn show(&self) -> String {
        let mut text = format!("\"{}\"", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource \"{}\"", self.subresource);
        }
        if !self.applied {
            text = format!("{text} using {}", self.api_version);
        }
        text
    }
}

/// Reads the entries of an object; nothing if there are none or they are malformed.
pub(super) fn read_managers(value: &Value) -> Option<Vec<ManagerEntry>> {
    let list = object::meta_field(value, "managedFields")?.as_array()?;
    let entries: Option<Vec<ManagerEntry>> = list.iter().map(read_entry).collect();
    entries.filter(|e| !e.is_empty())
}

/// A list of one empty entry asks to forget all managers.
pub(super) fn is_reset(value: &Value) -> bool {
    object::meta_field(value, "managedFields")
        .and_then(Value::as_array)
        .is_some_and(|list| list.len() == 1 && list[0] == json!({}))
}

/// True if the entries of two versions of an object differ at most in their times.
pub(super) fn is_same_but_times(a: &Value, b: &Value) -> bool {
    let timeless = |value: &Value| {
        let mut entries = read_managers(value).unwrap_or_default();
        for entry in &mut entries {
            entry.time.clear();
        }
        entries.sort_by(|a, b| {
            (&a.manager, &a.subresource, a.applied).cmp(&(&b.manager, &b.subresource, b.applied))
        });
        entries
    };
    timeless(a) == timeless(b)
}

fn read_entry(value: &Value) -> Option<ManagerEntry> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    Some(ManagerEntry {
        manager: text("manager").to_owned(),
        applied: match text("operation") {
            "Apply" => true,
            "Update" => false,
            _ => return None,
        },
        api_version: text("apiVersion").to_owned(),
        subresource: text("subresource").to_owned(),
        time: text("time").to_owned(),
        fields: match value.get("fieldsV1") {
            Some(fields) => FieldSet::from_json(fields)?,
            None => FieldSet::default(),
        },
    })
}

/// Writes the entries into an object, oldest first, applied ones before others.
pub(super) fn write_managers(value: &mut Value, mut entries: Vec<ManagerEntry>) {
    entries.retain(|e| !e.fields.is_empty());
    entries.sort_by(|a, b| {
        (!a.applied, &a.time, &a.manager, &a.api_version, &a.subresource).cmp(&(
            !b.applied,
            &b.time,
            &b.manager,
            &b.api_version,
            &b.subresource,
        ))
    });
    let list: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let mut value = json!({
                "manager": entry.manager,
                "operation": if entry.applied { "Apply" } else { "Update" },
                "apiVersion": entry.api_version,
                "time": entry.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": entry.fields.to_json(),
            });
            if !entry.subresource.is_empty() {
                value["subresource"] = entry.subresource.clone().into();
            }
            value
        })
        .collect();
    object::set_meta(value, "managedFields", (!list.is_empty()).then(|| list.into()));
}
