//! The fields that a value sets, and the difference of two values, by a schema's rules for lists and maps.

use std::collections::BTreeMap;

use serde_json::Value;

use super::set::{FieldSet, PathElement};
use crate::apiserver::schema::{ListKind, SchemaNode};

/// The fields that a configuration sets.
pub(super) fn fields_of(value: &Value, node: Option<SchemaNode<'_>>) -> FieldSet {
    let mut set = FieldSet::default();
    collect_fields(value, node, &mut Vec::new(), &mut set);
    set
}

fn collect_fields(
    value: &Value,
    node: Option<SchemaNode<'_>>,
    path: &mut Vec<PathElement>,
    set: &mut FieldSet,
) {
    match value {
        Value::Object(map) if !is_atomic_map(node) => {
            for (name, child) in map {
                path.push(PathElement::Field(name.clone()));
                collect_fields(child, field_schema(node, name), path, set);
                let declared = node.is_some_and(|n| n.property(name).is_some());
                if !declared
                    || child.is_null()
                    || child.as_object().is_some_and(serde_json::Map::is_empty)
                {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Value::Array(items) if list_kind(node) != ListKind::Atomic => {
            for item in items {
                let Some(element) = element_of(item, node) else { continue };
                path.push(element);
                if matches!(list_kind(node), ListKind::Map(_)) {
                    collect_fields(item, node.and_then(SchemaNode::items), path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        _ => set.insert(path),
    }
}

/// Fields that a write changed and removed.
#[derive(Debug, Default)]
pub(super) struct FieldDifference {
    /// Set now and not before, or set to something else.
    pub changed: FieldSet,
    /// Fields that are no longer set.
    pub removed: FieldSet,
}

/// Compares two versions of an object.
pub(super) fn compare_objects(
    old: &Value,
    new: &Value,
    node: Option<SchemaNode<'_>>,
) -> FieldDifference {
    let mut difference = FieldDifference::default();
    walk_pair(Some(old), Some(new), node, &mut Vec::new(), &mut difference);
    difference
}

fn walk_pair(
    old: Option<&Value>,
    new: Option<&Value>,
    node: Option<SchemaNode<'_>>,
    path: &mut Vec<PathElement>,
    out: &mut FieldDifference,
) {
    if old == new {
        return;
    }
    let children = match (old, new) {
        (Some(Value::Object(_)) | None, Some(Value::Object(_)))
        | (Some(Value::Object(_)), None)
            if !is_atomic_map(node) =>
        {
            Some((by_name(old), by_name(new)))
        }
        (Some(Value::Array(_)) | None, Some(Value::Array(_))) | (Some(Value::Array(_)), None)
            if list_kind(node) != ListKind::Atomic =>
        {
            Some((by_element(old, node), by_element(new, node)))
        }
        _ => None,
    };
    match children {
        Some((before, after)) => {
            for (element, child) in &after {
                descend_into(before.get(element).copied(), Some(child), node, element, path, out);
            }
            for (element, child) in before.iter().filter(|(e, _)| !after.contains_key(e)) {
                descend_into(Some(child), None, node, element, path, out);
            }
            if old.is_none() {
                out.changed.insert(path);
            } else if new.is_none() {
                out.removed.insert(path);
            }
        }
        None if new.is_none() => out.removed.insert(path),
        None => out.changed.insert(path),
    }
}

fn descend_into(
    old: Option<&Value>,
    new: Option<&Value>,
    node: Option<SchemaNode<'_>>,
    element: &PathElement,
    path: &mut Vec<PathElement>,
    out: &mut FieldDifference,
) {
    let child = match element {
        PathElement::Field(name) => field_schema(node, name),
        PathElement::Key(_) => node.and_then(SchemaNode::items),
        PathElement::Value(_) | PathElement::Index(_) => None,
    };
    path.push(element.clone());
    walk_pair(old, new, child, path, out);
    path.pop();
}

fn by_name(value: Option<&Value>) -> BTreeMap<PathElement, &Value> {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    map.map(|(name, child)| (PathElement::Field(name.clone()), child)).collect()
}

fn by_element<'a>(
    value: Option<&'a Value>,
    node: Option<SchemaNode<'_>>,
) -> BTreeMap<PathElement, &'a Value> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| Some((element_of(item, node)?, item))).collect()
}

/// Path element of a list's item; `None` in an atomic list or for an item without its keys.
pub(super) fn element_of(item: &Value, list: Option<SchemaNode<'_>>) -> Option<PathElement> {
    match list_kind(list) {
        ListKind::Atomic => None,
        ListKind::Set => Some(PathElement::Value(item.to_string())),
        ListKind::Map(keys) => {
            let schema = list.and_then(SchemaNode::items);
            let mut found: BTreeMap<&str, Value> = BTreeMap::new();
            for key in &keys {
                let default = || schema?.property(key)?.keyword("default").cloned();
                if let Some(value) = item.get(key).cloned().or_else(default) {
                    found.insert(key, value);
                }
            }
            if found.is_empty() {
                None
            } else {
                serde_json::to_string(&found).ok().map(PathElement::Key)
            }
        }
    }
}

/// Schema of a field, where it is known.
pub(super) fn field_schema<'a>(node: Option<SchemaNode<'a>>, name: &str) -> Option<SchemaNode<'a>> {
    node.and_then(|n| n.field(name))
}

/// Type of a list; atomic where no schema is known.
pub(super) fn list_kind(node: Option<SchemaNode<'_>>) -> ListKind {
    node.map_or(ListKind::Atomic, SchemaNode::list_kind)
}

/// True if a map is owned and replaced as one value.
pub(super) fn is_atomic_map(node: Option<SchemaNode<'_>>) -> bool {
    node.is_some_and(SchemaNode::is_atomic_map)
}
