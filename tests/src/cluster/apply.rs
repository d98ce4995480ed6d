//! Applying and creating manifests of any kind.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt as _};

use super::{ClusterError, Result};

/// Applies every object of a multi-document text, in its order.
pub(super) async fn apply_yaml(client: &Client, yaml: &str, manager: &str) -> Result<()> {
    let params = PatchParams::apply(manager).force();
    for object in read_objects(yaml)? {
        let (api, what) = find_api(client, &object).await?;
        api.patch(&object.name_any(), &params, &Patch::Apply(&object))
            .await
            .map_err(ClusterError::request(format!("applying {what}")))?;
    }
    Ok(())
}

/// Creates every object of a multi-document text, in its order.
pub(super) async fn create_yaml(client: &Client, yaml: &str) -> Result<()> {
    for object in read_objects(yaml)? {
        let (api, what) = find_api(client, &object).await?;
        api.create(&PostParams::default(), &object)
            .await
            .map_err(ClusterError::request(format!("creating {what}")))?;
    }
    Ok(())
}

fn read_objects(yaml: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(yaml)
        .map_err(|error| ClusterError::Manifest(error.to_string()))?;
    let objects = documents.into_iter().filter(|document| !document.is_null());
    let objects = objects.map(|document| {
        serde_json::from_value(document).map_err(|error| ClusterError::Manifest(error.to_string()))
    });
    objects.collect()
}

/// The API of an object's kind and namespace, and the object's kind and name for people.
async fn find_api(client: &Client, object: &DynamicObject) -> Result<(Api<DynamicObject>, String)> {
    let types = object
        .types
        .as_ref()
        .ok_or_else(|| ClusterError::Manifest("apiVersion or kind is missing".to_owned()))?;
    let what = format!("{} {}", types.kind, object.name_any());
    let kind = GroupVersionKind::try_from(types)
        .map_err(|error| ClusterError::Manifest(error.to_string()))?;
    let (resource, capabilities) = discovery::pinned_kind(client, &kind)
        .await
        .map_err(ClusterError::request(format!("finding the kind of {what}")))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    Ok((api, what))
}
