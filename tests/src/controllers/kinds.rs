//! All kinds of objects that the API server has now, custom ones too.

use kube::Client;
use kube::core::DynamicObject;
use kube::discovery::{ApiCapabilities, ApiGroup, ApiResource, Discovery, Scope, verbs};
use kube::{Api, api::GroupVersionKind};

/// A kind of object whose instances the collector watches.
#[derive(Clone, Debug)]
pub(super) struct WatchedKind {
    pub resource: ApiResource,
    capabilities: ApiCapabilities,
}

impl WatchedKind {
    /// True if the kind is namespaced.
    pub(super) fn is_namespaced(&self) -> bool {
        self.capabilities.scope == Scope::Namespaced
    }

    /// True if the kind supports every verb in `wanted`.
    pub(super) fn can(&self, wanted: &[&str]) -> bool {
        wanted.iter().all(|verb| self.capabilities.supports_operation(verb))
    }

    /// True if objects of this kind can own others and be owned. Events can't: there are many, nothing
    /// depends on them, and they expire by themselves.
    pub(super) fn is_collected(&self) -> bool {
        self.can(&[verbs::WATCH]) && self.resource.kind != "Event"
    }

    /// API for the kind's objects, in the namespace if the kind is namespaced.
    pub(super) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if self.is_namespaced() => {
                Api::namespaced_with(client.clone(), namespace, &self.resource)
            }
            _ => Api::all_with(client.clone(), &self.resource),
        }
    }
}

/// Every kind whose objects can be listed and deleted, in its preferred version.
pub(super) async fn discover_kinds(client: &Client) -> kube::Result<Vec<WatchedKind>> {
    let found = Discovery::new(client.clone()).run().await?;
    let kinds = found.groups().flat_map(ApiGroup::recommended_resources);
    Ok(kinds
        .map(|(resource, capabilities)| WatchedKind { resource, capabilities })
        .filter(|kind| kind.can(&[verbs::LIST, verbs::DELETE]))
        .collect())
}

/// The kind that an owner reference names.
pub(super) fn find_kind<'a>(
    kinds: &'a [WatchedKind],
    api_version: &str,
    kind: &str,
) -> Option<&'a WatchedKind> {
    let group = GroupVersionKind::gvk(
        api_version.rsplit_once('/').map_or("", |(group, _)| group),
        "",
        kind,
    );
    kinds
        .iter()
        .find(|known| known.resource.group == group.group && known.resource.kind == group.kind)
}
