//! Applying manifests of any kind.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt as _};

use super::{ClusterError, Result};

/// Applies every object of a multi-document text, in its order.
pub(super) async fn apply_yaml(client: &Client, yaml: &str, manager: &str) -> Result<()> {
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(yaml)
        .map_err(|error| ClusterError::Manifest(error.to_string()))?;
    let params = PatchParams::apply(manager).force();
    for document in documents.into_iter().filter(|d| !d.is_null()) {
        let object: DynamicObject = serde_json::from_value(document)
            .map_err(|error| ClusterError::Manifest(error.to_string()))?;
        let types = object
            .types
            .clone()
            .ok_or_else(|| ClusterError::Manifest("apiVersion or kind is missing".to_owned()))?;
        let name = object.name_any();
        let what = format!("applying {} {name}", types.kind);
        let kind = GroupVersionKind::try_from(&types)
            .map_err(|error| ClusterError::Manifest(error.to_string()))?;
        let (resource, capabilities) = discovery::pinned_kind(client, &kind)
            .await
            .map_err(ClusterError::request(what.clone()))?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
                Api::namespaced_with(client.clone(), &namespace, &resource)
            }
        };
        api.patch(&name, &params, &Patch::Apply(&object))
            .await
            .map_err(ClusterError::request(what))?;
    }
    Ok(())
}
