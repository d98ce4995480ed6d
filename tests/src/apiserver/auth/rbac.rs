//! Role-based access control over the stored roles and bindings.

use serde_json::Value;

use super::ApiUser;
use crate::apiserver::object;
use crate::apiserver::store::ObjectStore;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of a request that authorization decides by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestAttributes {
    /// `get`, `list`, `watch`, `create`, …, or the lower-case HTTP method for a bare path.
    pub verb: String,
    pub group: String,
    /// Plural name; empty for a bare path.
    pub resource: String,
    /// Subresource, or empty if none is addressed.
    pub subresource: String,
    /// Namespace, or empty for cluster-wide requests.
    pub namespace: String,
    /// Name of the object, or empty for a collection.
    pub name: String,
    /// Path, for what is no resource.
    pub path: String,
}

impl RequestAttributes {
    /// The sentence by which a refusal names the action.
    pub(crate) fn refusal(&self, user: &ApiUser) -> String {
        if self.resource.is_empty() {
            return format!("User \"{}\" cannot {} path \"{}\"", user.name, self.verb, self.path);
        }
        let resource = self.full_resource();
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", self.namespace)
        };
        format!(
            "User \"{}\" cannot {} resource \"{resource}\" in API group \"{}\" {place}",
            user.name, self.verb, self.group
        )
    }

    /// `resource` or `resource/subresource`.
    pub(crate) fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// True if any binding grants the user the action.
pub(crate) fn authorize_user(
    store: &ObjectStore,
    user: &ApiUser,
    wanted: &RequestAttributes,
) -> bool {
    user.groups.iter().any(|g| g == "system:masters")
        || list_rules(store, user, &wanted.namespace).iter().any(|rule| rule_allows(rule, wanted))
}

/// Names the binding that grants the user the action, as reviews tell; `None` if none does.
pub(super) fn find_reason(
    store: &ObjectStore,
    user: &ApiUser,
    wanted: &RequestAttributes,
) -> Option<String> {
    if user.groups.iter().any(|g| g == "system:masters") {
        return Some(String::new());
    }
    let namespace = wanted.namespace.as_str();
    let cluster_wide = store.list(&format!("clusterrolebindings.{GROUP}"), None).0;
    let local = if namespace.is_empty() {
        Vec::new()
    } else {
        store.list(&format!("rolebindings.{GROUP}"), Some(namespace)).0
    };
    let all = cluster_wide.iter().map(|b| (b, "")).chain(local.iter().map(|b| (b, namespace)));
    all.into_iter().find_map(|(binding, namespace)| {
        let value = &binding.value;
        let subject = subject_of(value, user, namespace)?;
        role_rules(store, value, namespace).iter().find(|rule| rule_allows(rule, wanted))?;
        let text = |pointer: &str| object::text_at(value, pointer).unwrap_or_default();
        let (kind, name) = match namespace {
            "" => ("ClusterRoleBinding", object::object_name(value).to_owned()),
            namespace => ("RoleBinding", format!("{}/{namespace}", object::object_name(value))),
        };
        Some(format!(
            "RBAC: allowed by {kind} \"{name}\" of {} \"{}\" to {subject}",
            text("/roleRef/kind"),
            text("/roleRef/name")
        ))
    })
}

/// The subject of a binding that is the user, as reviews show it.
fn subject_of(binding: &Value, user: &ApiUser, namespace: &str) -> Option<String> {
    let subjects = binding.get("subjects").and_then(Value::as_array)?;
    let one = |subject: &&Value| {
        let alone = serde_json::json!({"subjects": [subject]});
        binds_user(&alone, user, namespace)
    };
    let subject = subjects.iter().find(one)?;
    let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
    let home = if text("namespace").is_empty() { namespace } else { text("namespace") };
    Some(match text("kind") {
        "ServiceAccount" => format!("ServiceAccount \"{}/{home}\"", text("name")),
        kind => format!("{kind} \"{}\"", text("name")),
    })
}

/// The rules that hold for a user in a namespace (empty: cluster-wide ones only).
pub(crate) fn list_rules(store: &ObjectStore, user: &ApiUser, namespace: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let (cluster_wide, _) = store.list(&format!("clusterrolebindings.{GROUP}"), None);
    for binding in &cluster_wide {
        if binds_user(&binding.value, user, "") {
            found.extend(role_rules(store, &binding.value, ""));
        }
    }
    if !namespace.is_empty() {
        let (local, _) = store.list(&format!("rolebindings.{GROUP}"), Some(namespace));
        for binding in &local {
            if binds_user(&binding.value, user, namespace) {
                found.extend(role_rules(store, &binding.value, namespace));
            }
        }
    }
    found
}

/// The rules of the role that a binding in a namespace (or none) refers to.
pub(crate) fn role_rules(store: &ObjectStore, binding: &Value, namespace: &str) -> Vec<Value> {
    let name = object::text_at(binding, "/roleRef/name").unwrap_or_default();
    let role = match object::text_at(binding, "/roleRef/kind") {
        Some("Role") => store.get(&format!("roles.{GROUP}"), namespace, name),
        _ => store.get(&format!("clusterroles.{GROUP}"), "", name),
    };
    role.and_then(|r| r.value.get("rules").and_then(Value::as_array).cloned()).unwrap_or_default()
}

fn binds_user(binding: &Value, user: &ApiUser, namespace: &str) -> bool {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    subjects.into_iter().flatten().any(|subject| {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        match text("kind") {
            "User" => text("name") == user.name,
            "Group" => user.groups.iter().any(|g| g == text("name")),
            "ServiceAccount" => {
                let home = match text("namespace") {
                    "" => namespace,
                    other => other,
                };
                !home.is_empty()
                    && user.name == format!("system:serviceaccount:{home}:{}", text("name"))
            }
            _ => false,
        }
    })
}

/// True if a rule covers the action.
pub(crate) fn rule_allows(rule: &Value, wanted: &RequestAttributes) -> bool {
    let has = |field: &str, value: &str| {
        let list = rule.get(field).and_then(Value::as_array);
        list.into_iter().flatten().any(|item| item == "*" || item == value)
    };
    if !has("verbs", &wanted.verb) {
        return false;
    }
    if wanted.resource.is_empty() {
        let paths = rule.get("nonResourceURLs").and_then(Value::as_array);
        return paths.into_iter().flatten().filter_map(Value::as_str).any(|path| {
            match path.strip_suffix('*') {
                Some(prefix) => wanted.path.starts_with(prefix),
                None => wanted.path == path,
            }
        });
    }
    let names = rule.get("resourceNames").and_then(Value::as_array);
    let covers_name = names.is_none_or(|names| {
        names.is_empty() || names.iter().any(|name| name == wanted.name.as_str())
    });
    let resource = has("resources", &wanted.full_resource())
        || (!wanted.subresource.is_empty()
            && has_exactly(rule, &format!("*/{}", wanted.subresource)));
    covers_name && has("apiGroups", &wanted.group) && resource
}

fn has_exactly(rule: &Value, resource: &str) -> bool {
    let list = rule.get("resources").and_then(Value::as_array);
    list.into_iter().flatten().any(|item| item == resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wanted(verb: &str, resource: &str, subresource: &str, name: &str) -> RequestAttributes {
        RequestAttributes {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..RequestAttributes::default()
        }
    }

    #[test]
    fn a_rule_covers_only_what_it_names() {
        let rule = json!({
            "apiGroups": [""], "resources": ["pods", "*/status"], "verbs": ["get"],
            "resourceNames": ["a"],
        });
        assert!(rule_allows(&rule, &wanted("get", "pods", "", "a")));
        assert!(!rule_allows(&rule, &wanted("get", "pods", "", "b")));
        assert!(!rule_allows(&rule, &wanted("get", "pods", "log", "a")));
        assert!(rule_allows(&rule, &wanted("get", "nodes", "status", "a")));
        assert!(!rule_allows(&rule, &wanted("list", "pods", "", "a")));
        let path = RequestAttributes {
            verb: "get".into(),
            path: "/healthz".into(),
            ..RequestAttributes::default()
        };
        assert!(!rule_allows(&rule, &path));
        let urls = json!({"nonResourceURLs": ["/health*"], "verbs": ["get"]});
        assert!(rule_allows(&urls, &path));
        assert!(!rule_allows(&urls, &wanted("get", "pods", "", "a")));
    }
}
