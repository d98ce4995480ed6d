//! Folders as volumes for claims: provisioned, bound, protected while in use, and removed with their
//! claim.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::folders::{CopyError, PROVISIONER, copy_folder, count_bytes, volume_name};
use super::snapshots::SnapshotRefusal;
use super::{is_over, snapshots};

const CLASS: &str = "standard";
/// Our class where somebody else's has that name.
const OTHER_CLASS: &str = "codebutler-folders";
/// Annotation that names the driver that was asked for a volume.
const ASKED: &str = "volume.kubernetes.io/storage-provisioner";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("volume folder: {0}")]
    Io(#[from] std::io::Error),
    /// The volume can't be a clone of the claim that it names. As a driver does, it is tried again.
    #[error("failed to provision volume: {0}")]
    Clone(#[from] CloneRefusal),
    #[error("failed to provision volume: {0}")]
    Restore(#[from] SnapshotRefusal),
    #[error("failed to provision volume: {0}")]
    Copy(#[from] CopyError),
}

/// Reason why a driver does not clone a claim.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CloneRefusal {
    #[error("{0} is no data source of this driver")]
    Kind(String),
    #[error("the source PVC is not found in the namespace")]
    NotFound,
    #[error("the source PVC is being deleted")]
    Deleted,
    #[error("the source PVC is not bound")]
    NotBound,
    #[error("the source PVC and the destination PVC are of different classes")]
    OtherClass,
    #[error("the source PVC and the destination PVC have different modes")]
    OtherMode,
    #[error("the requested volume is smaller than its source")]
    TooSmall,
}

/// Context of the controllers for volume claims.
pub(super) struct ClaimContext {
    pub client: Client,
    /// Folder in which the volumes' folders are made.
    pub dir: PathBuf,
    /// The class that is served.
    pub class: String,
    /// The namespaces that are served; all if there are none.
    pub namespaces: Vec<String>,
}

impl ClaimContext {
    pub(super) fn serves(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == namespace)
    }
}

/// Makes our class, unless it exists, and names it: the default one, or another where the cluster
/// has one of that name that is not ours.
pub(super) async fn ensure_storage_class(client: &Client) -> kube::Result<&'static str> {
    make_class(client, CLASS).await?;
    let classes: Api<StorageClass> = Api::all(client.clone());
    if classes.get(CLASS).await?.provisioner == PROVISIONER {
        return Ok(CLASS);
    }
    make_class(client, OTHER_CLASS).await?;
    Ok(OTHER_CLASS)
}

async fn make_class(client: &Client, name: &str) -> kube::Result<()> {
    let default = (name == CLASS).to_string();
    let class: StorageClass = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": default},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true,
    }))
    .map_err(kube::Error::SerdeError)?;
    let api: Api<StorageClass> = Api::all(client.clone());
    match api.create(&PostParams::default(), &class).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}

/// Runs the controllers for volume claims until `shutdown`.
pub(super) async fn run_claims(context: Arc<ClaimContext>, shutdown: CancellationToken) {
    let config = watcher::Config::default();
    let client = context.client.clone();
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client);
    let for_claims = Controller::new(claims.clone(), config.clone())
        .watches(pods, config.clone(), |pod| claims_of_pod(&pod))
        .watches(volumes.clone(), config.clone(), |volume| claim_of_volume(&volume))
        .graceful_shutdown_on(shutdown.clone().cancelled_owned())
        .run(reconcile_claim, |_, error, _| retry_claim(error), context.clone());
    let for_volumes = Controller::new(volumes, config.clone())
        .watches(claims, config, |claim| {
            let name = claim.spec.and_then(|spec| spec.volume_name);
            name.map(|name| ObjectRef::<PersistentVolume>::new(&name))
        })
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(reconcile_volume, |_, error, _| retry_claim(error), context);
    tokio::join!(
        for_claims.for_each(|_| std::future::ready(())),
        for_volumes.for_each(|_| std::future::ready(())),
    );
}

fn retry_claim(error: &ClaimError) -> Action {
    tracing::debug!(%error, "claims");
    Action::requeue(Duration::from_millis(300))
}

fn claims_of_pod(pod: &Pod) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let namespace = pod.namespace().unwrap_or_default();
    claim_names(pod).map(|name| ObjectRef::new(name).within(&namespace)).collect()
}

fn claim_names(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

fn claim_of_volume(volume: &PersistentVolume) -> Option<ObjectRef<PersistentVolumeClaim>> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectRef::new(claim.name.as_deref()?).within(claim.namespace.as_deref()?))
}

/// Action that a claim calls for.
#[derive(Debug, PartialEq)]
pub(super) enum Need {
    Nothing,
    /// The claim is being deleted, and nothing but its protection holds it.
    Release,
    Volume,
    /// The claim asks for another size than its volume has. The API server lets sizes only grow.
    Growth(Quantity),
}

pub(super) fn claim_need(claim: &PersistentVolumeClaim, served: &str) -> Need {
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    let bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    if claim.metadata.deletion_timestamp.is_some() {
        let held = claim.finalizers().iter().any(|finalizer| finalizer == CLAIM_FINALIZER);
        return if held { Need::Release } else { Need::Nothing };
    }
    let chosen = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    let ours = chosen.is_none_or(|chosen| chosen == volume_name(claim));
    if !ours || class.is_some_and(|class| class != served) {
        return Need::Nothing;
    }
    if !bound {
        return Need::Volume;
    }
    let wanted = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let given = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let size =
        |all: Option<&std::collections::BTreeMap<String, Quantity>>| all?.get("storage").cloned();
    match (size(wanted), size(given)) {
        (Some(wanted), given) if given.as_ref() != Some(&wanted) => Need::Growth(wanted),
        _ => Need::Nothing,
    }
}

pub(super) async fn reconcile_claim(
    claim: Arc<PersistentVolumeClaim>,
    context: Arc<ClaimContext>,
) -> Result<Action, ClaimError> {
    let namespace = claim.namespace().unwrap_or_default();
    let api: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
    if !context.serves(&namespace) {
        return Ok(Action::await_change());
    }
    match claim_need(&claim, &context.class) {
        Need::Nothing => {}
        Need::Release => {
            let pods: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
            let name = claim.name_any();
            let pods = pods.list(&ListParams::default()).await?;
            // A pod without a node has not mounted anything yet, so it does not hold the volume.
            let scheduled = |pod: &&Pod| pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
            let mut users = pods.iter().filter(scheduled);
            if !users.any(|pod| claim_names(pod).any(|used| used == name)) {
                let left = without_finalizer(claim.finalizers(), CLAIM_FINALIZER);
                ignore_missing(release_object(&api, &name, claim.uid(), &left).await)?;
            }
        }
        Need::Volume => provision_claim(&claim, &api, &context).await?,
        Need::Growth(size) => {
            let capacity = json!({"capacity": {"storage": size}});
            let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
            let params = PatchParams::default();
            let volume = Patch::Merge(json!({"spec": capacity}));
            ignore_missing(volumes.patch(&volume_name(&claim), &params, &volume).await)?;
            let status =
                Patch::Merge(json!({"metadata": {"uid": claim.uid()}, "status": capacity}));
            ignore_missing(api.patch_status(&claim.name_any(), &params, &status).await)?;
        }
    }
    Ok(Action::await_change())
}

async fn provision_claim(
    claim: &PersistentVolumeClaim,
    api: &Api<PersistentVolumeClaim>,
    context: &ClaimContext,
) -> Result<(), ClaimError> {
    let (name, spec) = (volume_name(claim), claim.spec.clone().unwrap_or_default());
    let size = spec.resources.as_ref().and_then(|all| all.requests.as_ref()?.get("storage"));
    let capacity = json!({"storage": size.map_or("1Gi", |size| size.0.as_str())});
    let folder = context.dir.join(&name);
    if spec.data_source.is_some() {
        // The driver is asked before it has made anything, which shows on the claim while it can't.
        let asked = json!({"metadata": {"uid": claim.uid(), "annotations": {ASKED: PROVISIONER}}});
        let params = PatchParams::default();
        ignore_missing(api.patch(&claim.name_any(), &params, &Patch::Merge(asked)).await)?;
    }
    fill_folder(claim, &folder, api, context).await?;
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: PROVISIONER},
            "finalizers": [VOLUME_FINALIZER],
        },
        "spec": {
            "capacity": capacity,
            "accessModes": spec.access_modes,
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": context.class,
            "volumeMode": "Filesystem",
            "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim.uid(),
                "namespace": claim.namespace(), "name": claim.name_any(),
            },
        },
    }))
    .map_err(kube::Error::SerdeError)?;
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    match volumes.create(&PostParams::default(), &volume).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        other => drop(other?),
    }
    let mut finalizers = without_finalizer(claim.finalizers(), CLAIM_FINALIZER);
    finalizers.push(CLAIM_FINALIZER.to_owned());
    let bound = json!({
        "metadata": {
            "uid": claim.uid(),
            "finalizers": finalizers,
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
                ASKED: PROVISIONER,
            },
        },
        "spec": {"volumeName": name},
    });
    let params = PatchParams::default();
    ignore_missing(api.patch(&claim.name_any(), &params, &Patch::Merge(bound)).await)?;
    let status = json!({
        "metadata": {"uid": claim.uid()},
        "status": {"phase": "Bound", "capacity": capacity, "accessModes": spec.access_modes},
    });
    ignore_missing(api.patch_status(&claim.name_any(), &params, &Patch::Merge(status)).await)?;
    Ok(())
}

/// Makes the folder of a volume: empty, or as a clone of another claim's, which is there as a whole or not at all.
async fn fill_folder(
    claim: &PersistentVolumeClaim,
    folder: &Path,
    api: &Api<PersistentVolumeClaim>,
    context: &ClaimContext,
) -> Result<(), ClaimError> {
    let source = claim.spec.as_ref().and_then(|spec| spec.data_source.as_ref());
    let Some(source) = source.filter(|_| !folder.exists()) else {
        return Ok(tokio::fs::create_dir_all(folder).await?);
    };
    let from = if source.kind == snapshots::KIND {
        let wanted = claim.spec.as_ref().and_then(|spec| spec.resources.clone());
        let size = wanted.and_then(|all| all.requests?.remove("storage"));
        let namespace = claim.namespace().unwrap_or_default();
        let snapshot = (namespace.as_str(), source.name.as_str());
        snapshots::find_folder(&context.client, snapshot, size.as_ref()).await??
    } else {
        let found = api.get_opt(&source.name).await?;
        check_source(claim, &source.kind, found.as_ref(), &context.class)?;
        found.map(|found| volume_name(&found)).unwrap_or_default()
    };
    Ok(copy_folder(&context.dir.join(from), folder).await?)
}

/// Refuses what a driver refuses to clone: claims of other kinds, classes, namespaces or modes, such as have no volume
/// yet, and larger ones.
fn check_source(
    claim: &PersistentVolumeClaim,
    kind: &str,
    source: Option<&PersistentVolumeClaim>,
    served: &str,
) -> Result<(), CloneRefusal> {
    if kind != "PersistentVolumeClaim" {
        return Err(CloneRefusal::Kind(kind.to_owned()));
    }
    let source = source.ok_or(CloneRefusal::NotFound)?;
    if source.metadata.deletion_timestamp.is_some() {
        return Err(CloneRefusal::Deleted);
    }
    let status = source.status.clone().unwrap_or_default();
    if status.phase.as_deref() != Some("Bound") {
        return Err(CloneRefusal::NotBound);
    }
    let spec = |claim: &PersistentVolumeClaim| claim.spec.clone().unwrap_or_default();
    let (own, other) = (spec(claim), spec(source));
    // A claim without a class is of the default one, which is this one.
    if other.storage_class_name.as_deref().is_some_and(|class| class != served) {
        return Err(CloneRefusal::OtherClass);
    }
    if own.volume_mode != other.volume_mode {
        return Err(CloneRefusal::OtherMode);
    }
    let wanted = own.resources.as_ref().and_then(|all| all.requests.as_ref()?.get("storage"));
    let given = status.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
    if wanted.and_then(count_bytes) < given.and_then(count_bytes) {
        return Err(CloneRefusal::TooSmall);
    }
    Ok(())
}

async fn reconcile_volume(
    volume: Arc<PersistentVolume>,
    context: Arc<ClaimContext>,
) -> Result<Action, ClaimError> {
    let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
    let claim_ref = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
    let Some(claim_ref) = claim_ref.filter(|_| ours) else { return Ok(Action::await_change()) };
    let api: Api<PersistentVolume> = Api::all(context.client.clone());
    let namespace = claim_ref.namespace.unwrap_or_default();
    if !context.serves(&namespace) {
        return Ok(Action::await_change());
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
    let claim = claims.get_opt(&claim_ref.name.unwrap_or_default()).await?;
    let name = volume.name_any();
    if claim.is_some_and(|claim| claim.uid() == claim_ref.uid) {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Bound") {
            let status = Patch::Merge(json!({"status": {"phase": "Bound"}}));
            ignore_missing(api.patch_status(&name, &PatchParams::default(), &status).await)?;
        }
        return Ok(Action::await_change());
    }
    let folder = context.dir.join(&name);
    tokio::task::spawn_blocking(move || crate::kubelet::volumes::remove_folder(&folder))
        .await
        .map_err(std::io::Error::other)??;
    if volume.metadata.deletion_timestamp.is_none() {
        let uid = volume.uid();
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, ..Preconditions::default() }),
            ..DeleteParams::default()
        };
        ignore_missing(api.delete(&name, &params).await)?;
    }
    let left = without_finalizer(volume.finalizers(), VOLUME_FINALIZER);
    if left.len() < volume.finalizers().len() {
        ignore_missing(release_object(&api, &name, volume.uid(), &left).await)?;
    }
    Ok(Action::await_change())
}

async fn release_object<K>(
    api: &Api<K>,
    name: &str,
    uid: Option<String>,
    left: &[String],
) -> kube::Result<K>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({"metadata": {"uid": uid, "finalizers": left}}));
    api.patch(name, &PatchParams::default(), &patch).await
}

fn without_finalizer(finalizers: &[String], finalizer: &str) -> Vec<String> {
    finalizers.iter().filter(|found| *found != finalizer).cloned().collect()
}

fn ignore_missing<T>(result: kube::Result<T>) -> kube::Result<()> {
    match result {
        Err(error) if is_over(&error) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_cloned_only_as_a_driver_would() {
        let claim = |name: &str, class: &str, size: &str, phase: &str| -> PersistentVolumeClaim {
            serde_json::from_value(json!({
                "metadata": {"name": name},
                "spec": {"storageClassName": class, "volumeMode": "Filesystem",
                         "resources": {"requests": {"storage": size}}},
                "status": {"phase": phase, "capacity": {"storage": size}},
            }))
            .unwrap()
        };
        let kind = "PersistentVolumeClaim";
        let new = claim("new", "standard", "2Gi", "Pending");
        let check =
            |source: &PersistentVolumeClaim| check_source(&new, kind, Some(source), "standard");
        assert_eq!(check(&claim("old", "standard", "2Gi", "Bound")), Ok(()));
        assert_eq!(check(&claim("old", "standard", "1Gi", "Bound")), Ok(()));
        for (source, why) in [
            (claim("old", "standard", "3Gi", "Bound"), "smaller"),
            (claim("old", "other", "2Gi", "Bound"), "classes"),
            (claim("old", "standard", "2Gi", "Pending"), "not bound"),
        ] {
            assert!(check(&source).unwrap_err().to_string().contains(why), "{why}");
        }
        assert!(check_source(&new, kind, None, "standard").is_err());
        assert!(check_source(&new, "Other", None, "standard").is_err());
    }

    #[test]
    fn what_claims_need() {
        let claim = |value| serde_json::from_value::<PersistentVolumeClaim>(value).unwrap();
        let new = claim(json!({"metadata": {"uid": "u"}, "spec": {}}));
        assert_eq!(claim_need(&new, CLASS), Need::Volume);
        for (class, expected) in [("standard", Need::Volume), ("", Need::Nothing)] {
            assert_eq!(
                claim_need(&claim(json!({"spec": {"storageClassName": class}})), CLASS),
                expected
            );
        }
        let half = claim(json!({"metadata": {"uid": "u"}, "spec": {"volumeName": "pvc-u"}}));
        assert_eq!(claim_need(&half, CLASS), Need::Volume, "a start that was interrupted");
        let bound = claim(json!({"spec": {"volumeName": "x"}, "status": {"phase": "Bound"}}));
        assert_eq!(claim_need(&bound, CLASS), Need::Nothing);
        let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z",
                             "finalizers": [CLAIM_FINALIZER]});
        assert_eq!(claim_need(&claim(json!({"metadata": leaving})), CLASS), Need::Release);
    }
}
