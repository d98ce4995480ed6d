//! Server-side apply, and the record of what other writes own.

use serde_json::Value;

use super::managers::{self, ManagerEntry};
use super::set::{FieldSet, PathElement, show_path};
use super::walk::{compare_objects, element_of, field_schema, fields_of, is_atomic_map, list_kind};
use crate::apiserver::object;
use crate::apiserver::schema::{ListKind, SchemaNode};
use crate::apiserver::status::ApiError;

/// The manager of a write: its name, API version and subresource.
#[derive(Clone, Debug)]
pub(crate) struct FieldManager<'a> {
    pub name: &'a str,
    /// Version of the API that the request uses.
    pub api_version: &'a str,
    /// Subresource, or empty for the object itself.
    pub subresource: &'a str,
    /// Time of the write, as text.
    pub now: &'a str,
}

impl FieldManager<'_> {
    fn entry(&self, applied: bool, fields: FieldSet) -> ManagerEntry {
        ManagerEntry {
            manager: self.name.to_owned(),
            applied,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: self.now.to_owned(),
            fields,
        }
    }
}

/// Merges a configuration into an object (or nothing) and takes the fields it sets.
pub(crate) fn apply_config(
    live: Option<&Value>,
    config: &Value,
    node: Option<SchemaNode<'_>>,
    manager: &FieldManager<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    let empty = Value::Object(serde_json::Map::new());
    let live = live.unwrap_or(&empty);
    let mut entries = match managers::read_managers(live) {
        Some(entries) => entries,
        // Nobody has been recorded: all that is there belongs to what came before.
        None => before_first_apply(live, node, manager),
    };
    let mut set = fields_of(config, node);
    set.subtract(&never_owned());
    let mine = manager.entry(true, set.clone());
    let last = entries.iter().find(|e| e.is_same(&mine)).cloned();
    entries.retain(|e| !e.is_same(&mine));

    let mut object = merge_config(Some(live), config, node);
    if let Some(last) = &last {
        let mut owned = set.clone();
        for entry in &entries {
            owned.extend(&entry.fields);
        }
        let mut dropped = last.fields.clone();
        dropped.subtract(&owned);
        remove_dropped(&mut object, node, &dropped, &owned);
    }

    let mut difference = compare_objects(&without_managers(live), &without_managers(&object), node);
    difference.changed.subtract(&never_owned());
    let mut conflicts = Vec::new();
    for entry in &mut entries {
        let taken = entry.fields.intersection(&difference.changed);
        // A conflict needs a value in the new configuration; fields that it only lets go conflict with nobody.
        for path in taken.intersection(&set).paths() {
            conflicts.push((entry.show(), show_path(&path)));
        }
        entry.fields.subtract(&taken);
        entry.fields.subtract(&difference.removed);
    }
    if !conflicts.is_empty() && !force {
        return Err(conflict_error(&conflicts));
    }
    entries.push(mine);
    managers::write_managers(&mut object, entries);
    Ok(object)
}

fn before_first_apply(
    live: &Value,
    node: Option<SchemaNode<'_>>,
    manager: &FieldManager<'_>,
) -> Vec<ManagerEntry> {
    if object::object_uid(live).is_empty() {
        return Vec::new();
    }
    let nothing = Value::Object(serde_json::Map::new());
    let mut fields = compare_objects(&nothing, &without_managers(live), node).changed;
    fields.subtract(&never_owned());
    let before = FieldManager { name: "before-first-apply", subresource: "", ..manager.clone() };
    vec![before.entry(false, fields)]
}

/// True if two versions of an object differ at most in the times of their managers' writes.
pub(crate) fn is_same_but_times(a: &Value, b: &Value) -> bool {
    a == b || (without_managers(a) == without_managers(b) && managers::is_same_but_times(a, b))
}

/// Records in `new` who owns what after a write that was no apply.
pub(crate) fn record_update(
    live: Option<&Value>,
    new: &mut Value,
    node: Option<SchemaNode<'_>>,
    manager: &FieldManager<'_>,
) {
    let empty = Value::Object(serde_json::Map::new());
    let live = live.unwrap_or(&empty);
    if managers::is_reset(new) && !object::object_uid(live).is_empty() {
        object::set_meta(new, "managedFields", None);
        return;
    }
    let given = managers::read_managers(new).filter(|_| manager.subresource.is_empty());
    let Some(mut entries) = given.or_else(|| managers::read_managers(live)).or_else(|| {
        // An object without managed fields stays so until its first apply.
        object::object_uid(live).is_empty().then(Vec::new)
    }) else {
        object::set_meta(new, "managedFields", None);
        return;
    };
    let mut difference = compare_objects(&without_managers(live), &without_managers(new), node);
    difference.changed.subtract(&never_owned());
    difference.removed.subtract(&never_owned());
    for entry in &mut entries {
        entry.fields.subtract_below(&difference.removed);
    }
    if !difference.changed.is_empty() {
        let mine = manager.entry(false, FieldSet::default());
        let mut mine_at = None;
        for (at, entry) in entries.iter_mut().enumerate() {
            if entry.is_same(&mine) {
                mine_at = Some(at);
            } else {
                entry.fields.subtract(&difference.changed);
            }
        }
        let at = mine_at.unwrap_or_else(|| {
            entries.push(mine);
            entries.len() - 1
        });
        entries[at].fields.extend(&difference.changed);
        manager.now.clone_into(&mut entries[at].time);
    }
    managers::write_managers(new, entries);
}

fn without_managers(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    value
}

/// Fields that belong to the server.
fn never_owned() -> FieldSet {
    let mut set = FieldSet::default();
    let element = |name: &str| PathElement::Field(name.to_owned());
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[element(name)]);
    }
    for name in [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ] {
        set.insert(&[element("metadata"), element(name)]);
    }
    set
}

fn conflict_error(conflicts: &[(String, String)]) -> ApiError {
    let causes: Vec<(String, String)> = conflicts
        .iter()
        .map(|(manager, path)| (format!("conflict with {manager}"), path.clone()))
        .collect();
    if let [(manager, path)] = conflicts {
        let message = format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
        return ApiError::apply_conflict(message, &causes);
    }
    let mut lines = Vec::new();
    let mut managers: Vec<&String> = conflicts.iter().map(|(manager, _)| manager).collect();
    managers.sort();
    managers.dedup();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        let paths = conflicts.iter().filter(|(m, _)| m == manager);
        lines.extend(paths.map(|(_, path)| format!("- {path}")));
    }
    let message = format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"));
    ApiError::apply_conflict(message, &causes)
}

fn merge_config(live: Option<&Value>, config: &Value, node: Option<SchemaNode<'_>>) -> Value {
    match (live, config) {
        (Some(Value::Object(old)), Value::Object(new)) if !is_atomic_map(node) => {
            let mut merged = old.clone();
            for (name, value) in new {
                merged.insert(
                    name.clone(),
                    merge_config(old.get(name), value, field_schema(node, name)),
                );
            }
            merged.into()
        }
        (Some(Value::Array(old)), Value::Array(new)) if list_kind(node) != ListKind::Atomic => {
            merge_lists(old, new, node).into()
        }
        _ => config.clone(),
    }
}

/// The configuration's items in its order; those it does not name keep their place among them.
fn merge_lists(old: &[Value], new: &[Value], node: Option<SchemaNode<'_>>) -> Vec<Value> {
    let element = |item: &Value| element_of(item, node);
    let wanted: Vec<Option<PathElement>> = new.iter().map(element).collect();
    let mut rest = old.iter().peekable();
    let mut merged = Vec::new();
    for (item, key) in new.iter().zip(&wanted) {
        while let Some(next) = rest.next_if(|next| !wanted.contains(&element(next))) {
            merged.push(next.clone());
        }
        let before = old.iter().find(|o| element(o) == *key);
        merged.push(merge_config(before, item, node.and_then(SchemaNode::items)));
        rest.next_if(|next| wanted.contains(&element(next)));
    }
    merged.extend(rest.filter(|next| !wanted.contains(&element(next))).cloned());
    merged
}

/// Removes what `dropped` names unless something of `owned` is at or below it.
fn remove_dropped(
    value: &mut Value,
    node: Option<SchemaNode<'_>>,
    dropped: &FieldSet,
    owned: &FieldSet,
) {
    let gone = |element: &PathElement| dropped.has(element) && owned.below(element).is_none();
    let empty = FieldSet::default();
    match value {
        Value::Object(map) if !is_atomic_map(node) => {
            map.retain(|name, child| {
                let element = PathElement::Field(name.clone());
                if gone(&element) && !owned.has(&element) {
                    return false;
                }
                let Some(below) = dropped.below(&element) else { return true };
                let before = is_empty(child);
                remove_dropped(
                    child,
                    field_schema(node, name),
                    below,
                    owned.below(&element).unwrap_or(&empty),
                );
                // A map that lost its last entry goes with it.
                before || !is_empty(child) || owned.has(&element)
            });
        }
        Value::Array(items) if list_kind(node) != ListKind::Atomic => {
            items.retain_mut(|item| {
                let Some(element) = element_of(item, node) else { return true };
                if gone(&element) && !owned.has(&element) {
                    return false;
                }
                if let Some(below) = dropped.below(&element) {
                    let owned = owned.below(&element).unwrap_or(&empty);
                    remove_dropped(item, node.and_then(SchemaNode::items), below, owned);
                }
                true
            });
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
