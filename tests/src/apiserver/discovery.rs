//! Discovery: the served groups, versions and resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::ServerState;
use super::kinds::ServedKind;
use super::render::{self, ApiResponse};
use super::request::ApiRequest;
use super::status::ApiError;

type GroupVersions = BTreeMap<String, Vec<Arc<ServedKind>>>;

/// Answers a path of discovery.
pub(super) fn answer_discovery(
    server: &ServerState,
    request: &ApiRequest,
) -> Result<ApiResponse, ApiError> {
    let groups = list_groups(server);
    let aggregated = render::read_accept(request.header("accept"))?.as_kind.is_some();
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let body = match parts.as_slice() {
        [root @ ("api" | "apis")] if aggregated => {
            let list = aggregated_list(&groups, *root == "api");
            let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            return Ok(render::bytes_answer(200, media, list.to_string()));
        }
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }),
        ["apis"] => {
            let groups: Vec<Value> = groups
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, versions)| group_json(name, versions, false))
                .collect();
            json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
        }
        ["apis", name] => match groups.get(*name) {
            Some(versions) => group_json(name, versions, true),
            None => return Err(ApiError::unknown_path()),
        },
        ["api", version] => list_resources(&groups, "", version)?,
        ["apis", name, version] => list_resources(&groups, name, version)?,
        [""] => {
            let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
            for (name, versions) in groups.iter().filter(|(name, _)| !name.is_empty()) {
                paths.push(format!("/apis/{name}"));
                paths.extend(versions.keys().map(|v| format!("/apis/{name}/{v}")));
            }
            paths.extend(
                ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
                    .map(str::to_owned),
            );
            json!({ "paths": paths })
        }
        _ => return Err(ApiError::unknown_path()),
    };
    Ok(render::json_answer(200, &body))
}

fn list_groups(server: &ServerState) -> BTreeMap<String, GroupVersions> {
    let mut groups: BTreeMap<String, GroupVersions> = BTreeMap::new();
    for kind in server.kinds.all() {
        groups
            .entry(kind.group.clone())
            .or_default()
            .entry(kind.version.clone())
            .or_default()
            .push(kind);
    }
    groups
}

/// Versions in the order of preference: v2, v1, v1beta1, v1alpha1, others.
fn preferred_versions(versions: &GroupVersions) -> Vec<(&String, &Vec<Arc<ServedKind>>)> {
    let mut list: Vec<_> = versions.iter().collect();
    list.sort_by_key(|(name, _)| std::cmp::Reverse(rank_version(name)));
    list
}

fn rank_version(version: &str) -> (u32, u32, u32) {
    let digits = |text: &str| -> (u32, usize) {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        (text[..end].parse().unwrap_or(0), end)
    };
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let (major, end) = digits(rest);
    match &rest[end..] {
        "" => (3, major, 0),
        beta if beta.starts_with("beta") => (2, major, digits(&beta[4..]).0),
        alpha if alpha.starts_with("alpha") => (1, major, digits(&alpha[5..]).0),
        _ => (0, 0, 0),
    }
}

fn group_json(name: &str, versions: &GroupVersions, whole: bool) -> Value {
    let entries: Vec<Value> = preferred_versions(versions)
        .iter()
        .map(
            |(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}),
        )
        .collect();
    let mut group = json!({
        "name": name, "versions": entries, "preferredVersion": entries.first(),
    });
    if whole {
        group["kind"] = "APIGroup".into();
        group["apiVersion"] = "v1".into();
    }
    group
}

fn list_resources(
    groups: &BTreeMap<String, GroupVersions>,
    group: &str,
    version: &str,
) -> Result<Value, ApiError> {
    let kinds =
        groups.get(group).and_then(|v| v.get(version)).ok_or_else(ApiError::unknown_path)?;
    let mut resources = Vec::new();
    for kind in kinds {
        let mut entry = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": kind.verbs(), "storageVersionHash": "",
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        resources.push(entry);
        for sub in list_subresources(kind) {
            resources.push(json!({
                "name": format!("{}/{}", kind.plural, sub.name), "singularName": "",
                "namespaced": kind.namespaced, "group": sub.group, "version": sub.version,
                "kind": sub.kind, "verbs": sub.verbs,
            }));
        }
    }
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": super::object::api_version(group, version), "resources": resources,
    }))
}

struct ServedSubresource<'a> {
    name: &'a str,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: &'static [&'static str],
}

fn list_subresources(kind: &ServedKind) -> Vec<ServedSubresource<'_>> {
    let mut list: Vec<ServedSubresource<'_>> = kind
        .extra
        .iter()
        .map(|&(name, group, version, body)| ServedSubresource {
            name,
            group,
            version,
            kind: body,
            verbs: match name {
                "log" => &["get"],
                "finalize" => &["update"],
                "ephemeralcontainers" => &["get", "patch", "update"],
                _ => &["create"],
            },
        })
        .collect();
    if kind.scale.is_some() {
        list.push(ServedSubresource {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: "Scale",
            verbs: &["get", "patch", "update"],
        });
    }
    if kind.status {
        list.push(ServedSubresource {
            name: "status",
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
            verbs: &["get", "patch", "update"],
        });
    }
    list
}

fn aggregated_list(groups: &BTreeMap<String, GroupVersions>, core: bool) -> Value {
    let items: Vec<Value> = groups
        .iter()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, versions)| {
            let versions: Vec<Value> = preferred_versions(versions)
                .into_iter()
                .map(|(version, kinds)| {
                    let resources: Vec<Value> = kinds.iter().map(|k| aggregated_kind(k)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let mut meta = json!({ "creationTimestamp": null });
            if !name.is_empty() {
                meta["name"] = name.clone().into();
            }
            json!({ "metadata": meta, "versions": versions })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

fn aggregated_kind(kind: &ServedKind) -> Value {
    let identity = |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": identity(&kind.group, &kind.version, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs(),
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    let subresources: Vec<Value> = list_subresources(kind)
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": identity(sub.group, sub.version, sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_are_preferred() {
        let mut names = ["v1alpha1", "v1", "v2beta1", "v2", "v1beta2", "other"];
        names.sort_by_key(|name| std::cmp::Reverse(rank_version(name)));
        assert_eq!(names, ["v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "other"]);
    }
}
