//! Snapshots of volumes that are folders: CSI's snapshot controller with a driver, as an administrator adds them to a
//! cluster. There is nothing of it until somebody does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::folders::{CopyError, PROVISIONER, copy_folder, count_bytes, volume_name};
use super::{ControllerError, is_over};

const GROUP: &str = "snapshot.storage.k8s.io";
pub(super) const KIND: &str = "VolumeSnapshot";
const DEFINITIONS: &str = include_str!("snapshots.yaml");
const CLASS: &str = "folders";
const DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
const FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
const MANAGER: &str = "codebutler-snapshots";
/// Longest time until a definition is served.
const SERVED: Duration = Duration::from_secs(20);
/// Interval between tries of what could not be done.
const AGAIN: Duration = Duration::from_millis(300);

/// A snapshot controller with its driver. Both end when this is dropped.
#[derive(Debug)]
pub struct FolderSnapshots {
    _task: AbortOnDropHandle<()>,
}

impl FolderSnapshots {
    /// Installs the definitions and a default class, and takes snapshots of claims whose folders are in `dir`.
    ///
    /// # Errors
    /// When the API server does not take or serve them.
    pub async fn start(client: Client, dir: PathBuf) -> Result<Self, ControllerError> {
        install_definitions(&client).await?;
        let mut class = DynamicObject::new(CLASS, &class_resource())
            .data(json!({"driver": PROVISIONER, "deletionPolicy": "Delete"}));
        class.annotations_mut().insert(DEFAULT_CLASS.to_owned(), "true".to_owned());
        let classes = Api::<DynamicObject>::all_with(client.clone(), &class_resource());
        let params = PatchParams::apply(MANAGER).force();
        classes.patch(CLASS, &params, &Patch::Apply(&class)).await?;
        let snapshots = Api::<DynamicObject>::all_with(client.clone(), &resource());
        let context = Arc::new(SnapshotContext { client, dir });
        let running = Controller::new_with(snapshots, watcher::Config::default(), resource())
            .run(reconcile_snapshot, |_, _, _| Action::requeue(AGAIN), context)
            .for_each(|_| std::future::ready(()));
        Ok(Self { _task: AbortOnDropHandle::new(tokio::spawn(running)) })
    }
}

struct SnapshotContext {
    client: Client,
    /// Folder with the volumes' folders, and those of snapshots.
    dir: PathBuf,
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1", KIND);
    ApiResource::from_gvk_with_plural(&kind, "volumesnapshots")
}

fn class_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "VolumeSnapshotClass");
    ApiResource::from_gvk_with_plural(&kind, "volumesnapshotclasses")
}

async fn install_definitions(client: &Client) -> Result<(), ControllerError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(DEFINITIONS)
        .map_err(|error| io::Error::other(error.to_string()))?;
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let params = PatchParams::apply(MANAGER).force();
    for document in documents {
        let definition: CustomResourceDefinition =
            serde_json::from_value(document).map_err(io::Error::other)?;
        let name = definition.name_any();
        api.patch(&name, &params, &Patch::Apply(&definition)).await?;
        let served = await_condition(api.clone(), &name, conditions::is_crd_established());
        match tokio::time::timeout(SERVED, served).await {
            Ok(Ok(_)) => {}
            _ => return Err(io::Error::other(format!("{name} is not served")).into()),
        }
    }
    Ok(())
}

/// Reason why a driver takes or restores no snapshot.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotRefusal {
    #[error("error getting snapshot {0}: it is not found")]
    NotFound(String),
    #[error("snapshot {0} is not ready")]
    NotReady(String),
    #[error("the requested volume is smaller than the snapshot")]
    TooSmall,
    #[error("only snapshots of claims are taken here")]
    NoClaim,
    #[error("the PVC {0} is not found")]
    ClaimNotFound(String),
    #[error("the PVC {0} is not yet bound to a PV")]
    ClaimNotBound(String),
    #[error("failed to get the snapshot class {0}: it is not found")]
    ClassNotFound(String),
    #[error("the snapshot class is of another driver")]
    OtherDriver,
    #[error(transparent)]
    Copy(#[from] CopyError),
}

/// Name of the folder of a snapshot.
fn folder_name(snapshot: &DynamicObject) -> String {
    format!("snap-{}", snapshot.uid().unwrap_or_default())
}

fn is_ready(snapshot: &DynamicObject) -> bool {
    snapshot.data.pointer("/status/readyToUse") == Some(&json!(true))
}

/// Finds the folder from which a volume of a size is restored, by the namespace and name of a snapshot; or the driver's
/// reason against it.
pub(super) async fn find_folder(
    client: &Client,
    (namespace, name): (&str, &str),
    size: Option<&Quantity>,
) -> kube::Result<Result<String, SnapshotRefusal>> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource());
    let found = api.get_opt(name).await?;
    Ok(check_snapshot(name, found.as_ref(), size))
}

/// Refuses what a driver refuses to restore: a snapshot that can't be used, and a volume that is smaller.
fn check_snapshot(
    name: &str,
    found: Option<&DynamicObject>,
    size: Option<&Quantity>,
) -> Result<String, SnapshotRefusal> {
    let found = found.ok_or_else(|| SnapshotRefusal::NotFound(name.to_owned()))?;
    if found.metadata.deletion_timestamp.is_some() || !is_ready(found) {
        return Err(SnapshotRefusal::NotReady(name.to_owned()));
    }
    let least = found.data.pointer("/status/restoreSize").and_then(Value::as_str);
    let least = least.and_then(|least| count_bytes(&Quantity(least.to_owned())));
    if size.and_then(count_bytes) < least {
        return Err(SnapshotRefusal::TooSmall);
    }
    Ok(folder_name(found))
}

async fn reconcile_snapshot(
    snapshot: Arc<DynamicObject>,
    context: Arc<SnapshotContext>,
) -> Result<Action, ControllerError> {
    let (namespace, name) = (snapshot.namespace().unwrap_or_default(), snapshot.name_any());
    let api =
        Api::<DynamicObject>::namespaced_with(context.client.clone(), &namespace, &resource());
    let folder = context.dir.join(folder_name(&snapshot));
    let mut finalizers = snapshot.finalizers().to_vec();
    let params = PatchParams::default();
    if snapshot.metadata.deletion_timestamp.is_some() {
        crate::kubelet::volumes::remove_folder(&folder)?;
        finalizers.retain(|own| own != FINALIZER);
        let patch = json!({"metadata": {"uid": snapshot.uid(), "finalizers": finalizers}});
        return match api.patch(&name, &params, &Patch::Merge(patch)).await {
            Err(error) if !is_over(&error) => Err(error.into()),
            _ => Ok(Action::await_change()),
        };
    }
    if is_ready(&snapshot) {
        return Ok(Action::await_change());
    }
    if !finalizers.iter().any(|own| own == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        let patch = json!({"metadata": {"uid": snapshot.uid(), "finalizers": finalizers}});
        api.patch(&name, &params, &Patch::Merge(patch)).await?;
    }
    let now = jiff::Timestamp::now().to_string();
    let (status, next) = match context.take(&snapshot, &namespace, &folder).await? {
        Ok(size) => {
            let status = json!({
                "boundVolumeSnapshotContentName": format!("snapcontent-{}", folder_name(&snapshot)),
                "creationTime": now, "readyToUse": true, "restoreSize": size, "error": null,
            });
            (status, Action::await_change())
        }
        Err(refusal) => {
            let why = refusal.to_string();
            let known = snapshot.data.pointer("/status/error/message");
            if known == Some(&json!(why)) {
                return Ok(Action::requeue(AGAIN));
            }
            let status = json!({"readyToUse": false, "error": {"message": why, "time": now}});
            (status, Action::requeue(AGAIN))
        }
    };
    let patch = json!({"metadata": {"uid": snapshot.uid()}, "status": status});
    api.patch_status(&name, &params, &Patch::Merge(patch)).await?;
    Ok(next)
}

impl SnapshotContext {
    /// Copies the folder of the claim; its size, or why it can't be done.
    async fn take(
        &self,
        snapshot: &DynamicObject,
        namespace: &str,
        folder: &Path,
    ) -> Result<Result<String, SnapshotRefusal>, ControllerError> {
        if let Err(refusal) = self.check_class(snapshot).await? {
            return Ok(Err(refusal));
        }
        let source = snapshot.data.pointer("/spec/source/persistentVolumeClaimName");
        let Some(source) = source.and_then(Value::as_str) else {
            return Ok(Err(SnapshotRefusal::NoClaim));
        };
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), namespace);
        let Some(claim) = claims.get_opt(source).await? else {
            return Ok(Err(SnapshotRefusal::ClaimNotFound(source.to_owned())));
        };
        let status = claim.status.clone().unwrap_or_default();
        if status.phase.as_deref() != Some("Bound") {
            return Ok(Err(SnapshotRefusal::ClaimNotBound(source.to_owned())));
        }
        let size = status.capacity.and_then(|mut all| all.remove("storage"));
        let size = size.map_or_else(|| "1Gi".to_owned(), |size| size.0);
        if folder.exists() {
            return Ok(Ok(size));
        }
        let copied = copy_folder(&self.dir.join(volume_name(&claim)), folder).await;
        Ok(copied.map(|()| size).map_err(SnapshotRefusal::from))
    }

    /// Refuses a class that there is not, or of another driver, as the snapshot controller does.
    async fn check_class(
        &self,
        snapshot: &DynamicObject,
    ) -> Result<Result<(), SnapshotRefusal>, ControllerError> {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &class_resource());
        let named = snapshot.data.pointer("/spec/volumeSnapshotClassName").and_then(Value::as_str);
        let class = if let Some(name) = named {
            api.get_opt(name).await?
        } else {
            let mut classes = api.list(&ListParams::default()).await?.items.into_iter();
            classes
                .find(|class| class.annotations().get(DEFAULT_CLASS).is_some_and(|is| is == "true"))
        };
        let Some(class) = class else {
            let named = named.unwrap_or("default").to_owned();
            return Ok(Err(SnapshotRefusal::ClassNotFound(named)));
        };
        let fits = class.data["driver"] == PROVISIONER;
        Ok(fits.then_some(()).ok_or(SnapshotRefusal::OtherDriver))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_restored_only_as_a_driver_would() {
        let snapshot = |status: Value| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": KIND,
                "metadata": {"name": "s", "uid": "u"}, "status": status,
            }))
            .unwrap()
        };
        let size = Quantity("2Gi".to_owned());
        let check = |status| check_snapshot("s", Some(&snapshot(status)), Some(&size));
        let refused = |status| check(status).unwrap_err().to_string();
        let ready = |least: &str| json!({"readyToUse": true, "restoreSize": least});
        assert_eq!(check(ready("2Gi")).unwrap(), "snap-u");
        assert!(refused(ready("3Gi")).contains("smaller"));
        assert!(refused(json!({"readyToUse": false})).contains("not ready"));
        assert!(refused(json!(null)).contains("not ready"));
        let missing = check_snapshot("s", None, None).unwrap_err().to_string();
        assert!(missing.contains("not found"), "{missing}");
    }
}
