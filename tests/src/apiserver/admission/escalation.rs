//! Nobody hands out rights that he does not hold, unless he may `escalate` or `bind`.

use serde_json::Value;

use crate::apiserver::auth::{
    ApiUser, RequestAttributes, authorize_user, list_rules, role_rules, rule_allows,
};
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// Refuses a role or binding that grants more than the user has.
pub(super) fn review_grant(
    store: &ObjectStore,
    user: &ApiUser,
    kind: &ServedKind,
    value: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    let namespace = object::object_namespace(value);
    let is_binding = kind.plural.ends_with("bindings");
    let field = if is_binding { "subjects" } else { "rules" };
    if live.is_some_and(|live| live.get(field) == value.get(field)) {
        return Ok(());
    }
    let (verb, resource, name, granted) = if is_binding {
        let cluster_wide = text_at(value, "/roleRef/kind") == Some("ClusterRole");
        let resource = if cluster_wide { "clusterroles" } else { "roles" };
        let name = text_at(value, "/roleRef/name").unwrap_or_default();
        ("bind", resource, name, role_rules(store, value, namespace))
    } else {
        let granted = value.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
        ("escalate", kind.plural.as_str(), object::object_name(value), granted)
    };
    let wanted = RequestAttributes {
        verb: verb.to_owned(),
        group: kind.group.clone(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..RequestAttributes::default()
    };
    if authorize_user(store, user, &wanted) {
        return Ok(());
    }
    let held = list_rules(store, user, namespace);
    let missing: Vec<String> = granted
        .iter()
        .filter(|rule| {
            let actions = rule_actions(rule);
            actions.is_empty()
                || !actions.iter().all(|a| held.iter().any(|own| rule_allows(own, a)))
        })
        .map(show_rule)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!(
        "user \"{}\" (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quote_list(user.groups.iter().map(String::as_str)),
        missing.join("\n")
    );
    Err(ApiError::forbidden(&kind.group, &kind.plural, object::object_name(value), &why))
}

fn rule_list<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    let items = rule.get(field).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

/// Every single action of a rule. A wildcard is an action that only a wildcard allows.
fn rule_actions(rule: &Value) -> Vec<RequestAttributes> {
    let names = match rule_list(rule, "resourceNames") {
        names if names.is_empty() => vec![""],
        names => names,
    };
    let mut actions = Vec::new();
    for verb in rule_list(rule, "verbs") {
        for path in rule_list(rule, "nonResourceURLs") {
            actions.push(RequestAttributes {
                verb: verb.to_owned(),
                path: path.to_owned(),
                ..RequestAttributes::default()
            });
        }
        for group in rule_list(rule, "apiGroups") {
            for resource in rule_list(rule, "resources") {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                actions.extend(names.iter().map(|name| RequestAttributes {
                    verb: verb.to_owned(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    subresource: subresource.to_owned(),
                    name: (*name).to_owned(),
                    ..RequestAttributes::default()
                }));
            }
        }
    }
    actions
}

/// A list as Go's `%q` shows it.
fn quote_list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.map(|item| format!("\"{item}\"")).collect();
    format!("[{}]", items.join(" "))
}

fn show_rule(rule: &Value) -> String {
    let fields = [
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    ];
    let parts: Vec<String> = fields
        .iter()
        .filter(|(_, field)| rule.get(*field).is_some())
        .map(|(label, field)| format!("{label}:{}", quote_list(rule_list(rule, field).into_iter())))
        .collect();
    format!("{{{}}}", parts.join(", "))
}
