//! Strategic merge patch: lists with a merge key are merged item by item, and directives delete,
//! replace and order.

use serde_json::{Map, Value};

use crate::apiserver::schema::SchemaNode;
use crate::apiserver::status::ApiError;

const DELETE_LIST: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Merges `patch` into `target`.
pub(super) fn merge_strategic(
    target: &mut Value,
    patch: &Value,
    node: Option<SchemaNode<'_>>,
) -> Result<(), ApiError> {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    match changes.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = clean_map(changes).into();
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(ApiError::bad_request(format!("unknown patch type found: {other}")));
        }
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else { return Ok(()) };
    if let Some(keep) = changes.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|name, _| keep.iter().any(|k| k == name.as_str()));
    }
    for (name, gone) in changes {
        if let Some(field) = name.strip_prefix(DELETE_LIST)
            && let Some(Value::Array(items)) = map.get_mut(field)
            && let Some(gone) = gone.as_array()
        {
            items.retain(|item| !gone.contains(item));
        }
    }
    for (name, change) in changes.iter().filter(|(name, _)| !name.starts_with('$')) {
        let schema = node.and_then(|n| n.field(name));
        if change.is_null() {
            map.remove(name);
        } else if let Value::Array(items) = change {
            let list = map.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
            let order = changes.get(&format!("{ORDER}{name}")).and_then(Value::as_array);
            merge_list(list, items, order, schema)?;
        } else {
            merge_strategic(map.entry(name.clone()).or_insert(Value::Null), change, schema)?;
        }
    }
    // An order without a change of the list itself.
    for (name, order) in changes {
        if let Some(field) = name.strip_prefix(ORDER)
            && !changes.contains_key(field)
            && let (Some(list), Some(order)) = (map.get_mut(field), order.as_array())
        {
            merge_list(list, &[], Some(order), node.and_then(|n| n.field(field)))?;
        }
    }
    Ok(())
}

fn merge_list(
    list: &mut Value,
    changes: &[Value],
    order: Option<&Vec<Value>>,
    node: Option<SchemaNode<'_>>,
) -> Result<(), ApiError> {
    let keyword = |name: &str| node.and_then(|n| n.keyword(name)).and_then(Value::as_str);
    let merges = keyword("x-kubernetes-patch-strategy")
        .is_some_and(|strategy| strategy.split(',').any(|s| s == "merge"));
    if !merges {
        *list = changes.iter().map(without_directives).collect();
        return Ok(());
    }
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Some(items) = list.as_array_mut() else { return Ok(()) };
    let Some(key) = keyword("x-kubernetes-patch-merge-key") else {
        for change in changes {
            if !items.contains(change) {
                items.push(change.clone());
            }
        }
        sort_by(items, order, Clone::clone);
        return Ok(());
    };
    if changes.iter().any(|c| c.get("$patch").is_some_and(|p| p == "replace")) {
        *items =
            changes.iter().filter(|c| c.get("$patch").is_none()).map(without_directives).collect();
        return Ok(());
    }
    let identity = |item: &Value| item.get(key).cloned().unwrap_or(Value::Null);
    let item_schema = node.and_then(SchemaNode::items);
    for change in changes {
        let id = identity(change);
        if id.is_null() {
            return Err(ApiError::bad_request(format!(
                "map: {change} does not contain declared merge key: {key}"
            )));
        }
        if change.get("$patch").is_some_and(|p| p == "delete") {
            items.retain(|item| identity(item) != id);
        } else if let Some(item) = items.iter_mut().find(|item| identity(item) == id) {
            merge_strategic(item, change, item_schema)?;
        } else {
            let mut item = Value::Object(Map::new());
            merge_strategic(&mut item, change, item_schema)?;
            items.push(item);
        }
    }
    sort_by(items, order, |item| {
        let mut only = Map::new();
        only.insert(key.to_owned(), identity(item));
        only.into()
    });
    Ok(())
}

/// Puts the items that an order names into that order; others keep their place behind those before
/// them.
fn sort_by(items: &mut [Value], order: Option<&Vec<Value>>, identity: impl Fn(&Value) -> Value) {
    let Some(order) = order else { return };
    let rank = |item: &Value| order.iter().position(|wanted| *wanted == identity(item));
    let places: Vec<usize> = (0..items.len()).filter(|&at| rank(&items[at]).is_some()).collect();
    let mut named: Vec<Value> = places.iter().map(|&at| items[at].clone()).collect();
    named.sort_by_key(|item| rank(item));
    for (at, item) in places.into_iter().zip(named) {
        items[at] = item;
    }
}

fn clean_map(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
        .map(|(name, value)| (name.clone(), without_directives(value)))
        .collect()
}

fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => clean_map(map).into(),
        Value::Array(items) => items.iter().map(without_directives).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::definitions;
    use serde_json::json;

    fn patched(live: Value, patch: &Value) -> Value {
        let mut object = live;
        merge_strategic(&mut object, patch, definitions::definition_node("io.k8s.api.core.v1.Pod"))
            .unwrap();
        object
    }

    #[test]
    fn keyed_lists_are_merged_and_others_replaced() {
        let live = json!({"spec": {
            "containers": [{"name": "a", "image": "1", "args": ["x", "y"]}, {"name": "b"}],
            "tolerations": [{"key": "k"}],
        }});
        let patch = json!({"spec": {
            "containers": [
                {"name": "a", "args": ["z"], "env": [{"name": "E", "value": "v"}]},
                {"name": "b", "$patch": "delete"},
                {"name": "c", "image": "3"},
            ],
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "tolerations": [{"key": "other"}],
        }});
        assert_eq!(
            patched(live, &patch),
            json!({"spec": {
                "containers": [
                    {"name": "c", "image": "3"},
                    {"name": "a", "image": "1", "args": ["z"], "env": [{"name": "E", "value": "v"}]},
                ],
                "tolerations": [{"key": "other"}],
            }})
        );
    }

    #[test]
    fn finalizers_are_a_set_and_null_removes() {
        let live = json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1", "y": "2"}}});
        let patch = json!({"metadata": {
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "labels": {"x": null},
        }});
        assert_eq!(
            patched(live, &patch),
            json!({"metadata": {"finalizers": ["b", "c"], "labels": {"y": "2"}}})
        );
    }

    #[test]
    fn a_volume_keeps_only_the_retained_keys() {
        let live = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
        let patch = json!({"spec": {"volumes": [
            {"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}},
        ]}});
        assert_eq!(
            patched(live, &patch),
            json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}})
        );
    }
}
