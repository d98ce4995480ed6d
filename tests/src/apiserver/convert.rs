//! Between the stored form of an object and the version a client asks for.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::kinds::ServedKind;
use super::object;

const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// A stored object as a version of its kind shows it.
pub(super) fn convert_outbound<'a>(kind: &ServedKind, stored: &'a Value) -> Cow<'a, Value> {
    let version = kind.api_version();
    if object::text_at(stored, "/apiVersion") == Some(&version) {
        return Cow::Borrowed(stored);
    }
    let mut shown = stored.clone();
    if kind.is("events.k8s.io", "events") {
        rename_fields(&mut shown, EVENT_FIELDS.iter().copied());
    }
    shown["apiVersion"] = version.into();
    Cow::Owned(shown)
}

/// An object of a version of its kind in the form in which it is stored.
pub(super) fn convert_inbound(kind: &ServedKind, mut value: Value) -> Value {
    if kind.is("events.k8s.io", "events") {
        rename_fields(&mut value, EVENT_FIELDS.iter().map(|&(core, new)| (new, core)));
        value["apiVersion"] = json!("v1");
    }
    value
}

fn rename_fields<'a>(value: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(map) = value.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(field) = map.remove(from) {
            map.insert(to.to_owned(), field);
        }
    }
}
