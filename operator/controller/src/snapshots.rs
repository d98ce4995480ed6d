//! Snapshots of prepared volumes, in the API of CSI's snapshot controller (`snapshot.storage.k8s.io`). They are asked for
//! and not watched: many clusters serve none, and a watch would never come to an end there.

use std::borrow::Cow;

use codebutler_crds::Repo;
use codebutler_crds::prepared::PreparedVolumes;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::{Deserialize, Serialize};

use crate::labels;

pub(crate) const GROUP: &str = "snapshot.storage.k8s.io";
pub(crate) const KIND: &str = "VolumeSnapshot";
const VERSION: &str = "v1";

/// A snapshot of a claim's volume, with the fields that are needed here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeSnapshot {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: SnapshotSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<SnapshotStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotSpec {
    source: SnapshotSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume_snapshot_class_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotSource {
    /// None for one that somebody has imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    persistent_volume_claim_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotStatus {
    #[serde(default)]
    ready_to_use: Option<bool>,
    #[serde(default)]
    error: Option<SnapshotError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SnapshotError {
    #[serde(default)]
    message: Option<String>,
}

impl Resource for VolumeSnapshot {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_dt: &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group(_dt: &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version(_dt: &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural(_dt: &()) -> Cow<'_, str> {
        "volumesnapshots".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl VolumeSnapshot {
    /// Builds the snapshot of a prepared volume. It has the name of its claim, and goes with it.
    pub(crate) fn build(repo: &Repo, claim: &PersistentVolumeClaim) -> Self {
        let (name, labels) = (claim.name_any(), labels::of_repo(labels::PREPARED, repo));
        let mut metadata = labels::owned_metadata(claim, name.clone(), labels);
        // The claim need not stay for it, and saying that it has to is a right of its own.
        metadata
            .owner_references
            .iter_mut()
            .flatten()
            .for_each(|own| own.block_owner_deletion = None);
        Self {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: KIND.to_owned(),
            metadata,
            spec: SnapshotSpec {
                source: SnapshotSource { persistent_volume_claim_name: Some(name) },
                volume_snapshot_class_name: repo.spec.worktree.snapshot_class_name.clone(),
            },
            status: None,
        }
    }

    /// State of the snapshot, as its controller tells. Readiness counts more than an error of an earlier try.
    pub(crate) fn state(&self) -> SnapshotState<'_> {
        let status = self.status.as_ref();
        if self.metadata.deletion_timestamp.is_some() {
            return SnapshotState::Pending;
        }
        if status.is_some_and(|status| status.ready_to_use == Some(true)) {
            return SnapshotState::Ready;
        }
        match status.and_then(|status| status.error.as_ref()) {
            Some(error) => SnapshotState::Failed(error.message.as_deref().unwrap_or("no reason")),
            None => SnapshotState::Pending,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotState<'a> {
    /// It is being taken, or removed.
    Pending,
    /// Its driver said no, or could not: the driver's words.
    Failed(&'a str),
    /// Volumes can be restored from it.
    Ready,
}

/// The API server's answer about a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SnapshotAnswer {
    /// The cluster serves no snapshots.
    Unserved,
    /// It could not be asked, for this reason.
    Unknown(String),
    Absent,
    Found(Box<VolumeSnapshot>),
}

/// A snapshot that was asked for by its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskedSnapshot {
    pub name: String,
    pub answer: SnapshotAnswer,
}

/// Asks the API server for snapshots, with the controller's rights.
pub(crate) struct SnapshotReader(Client);

impl SnapshotReader {
    pub(crate) const fn new(client: Client) -> Self {
        Self(client)
    }

    /// The snapshot of a Repo's current claim, or of none: whether there can be any. Nothing where the Repo wants none.
    pub(crate) async fn look(&self, repo: &Repo) -> Option<AskedSnapshot> {
        if repo.spec.worktree.prepared != PreparedVolumes::Snapshot {
            return None;
        }
        let prepared = repo.status.as_ref().and_then(|status| status.prepared.as_ref());
        let claim = prepared.and_then(|prepared| prepared.claim.clone());
        let name = claim.unwrap_or_else(|| format!("{}-prep", repo.name_any()));
        let api = Api::<VolumeSnapshot>::namespaced(
            self.0.clone(),
            &repo.namespace().unwrap_or_default(),
        );
        let answer = read_answer(&name, api.get(&name).await);
        Some(AskedSnapshot { name, answer })
    }
}

/// A kind that is not served is not found either, as one of a path, or without the object's name.
fn read_answer(name: &str, found: kube::Result<VolumeSnapshot>) -> SnapshotAnswer {
    match found {
        Ok(snapshot) => SnapshotAnswer::Found(Box::new(snapshot)),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let is_of_object = status.details.as_ref().is_some_and(|details| details.name == name);
            if is_of_object { SnapshotAnswer::Absent } else { SnapshotAnswer::Unserved }
        }
        Err(kube::Error::Api(status)) => SnapshotAnswer::Unknown(status.message),
        Err(error) => SnapshotAnswer::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn a_snapshot_is_of_the_claim_and_goes_with_it() {
        let mut repo = testing::repo();
        repo.spec.worktree.snapshot_class_name = Some("csi".to_owned());
        let claim = json!({"metadata": {"name": "shop-prep-1", "namespace": "team", "uid": "u"}});
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
        let made = serde_json::to_value(VolumeSnapshot::build(&repo, &claim)).unwrap();
        assert_eq!(made["apiVersion"], "snapshot.storage.k8s.io/v1");
        assert_eq!(
            made["spec"],
            json!({"source": {"persistentVolumeClaimName": "shop-prep-1"},
                   "volumeSnapshotClassName": "csi"})
        );
        let owner = &made["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("PersistentVolumeClaim"), &json!("u")));
        assert_eq!(owner["blockOwnerDeletion"], json!(null));
    }

    #[test]
    fn what_its_controller_says_decides() {
        let state = |status: serde_json::Value| {
            let snapshot = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": KIND,
                                  "metadata": {"name": "s"}, "spec": {"source": {}},
                                  "status": status});
            let snapshot: VolumeSnapshot = serde_json::from_value(snapshot).unwrap();
            format!("{:?}", snapshot.state())
        };
        let error = json!({"message": "no such class", "time": "2026-01-01T00:00:00Z"});
        assert_eq!(state(json!(null)), "Pending");
        assert_eq!(state(json!({"readyToUse": false})), "Pending");
        assert_eq!(state(json!({"error": error})), "Failed(\"no such class\")");
        assert_eq!(state(json!({"readyToUse": true, "error": error})), "Ready");
    }

    #[test]
    fn a_cluster_without_snapshots_is_not_one_in_which_this_one_is_missing() {
        let answer = |status: serde_json::Value| {
            let status: Status = serde_json::from_value(status).unwrap();
            read_answer("s", Err(kube::Error::Api(Box::new(status))))
        };
        let named = json!({"code": 404, "reason": "NotFound", "details": {"name": "s"}});
        assert_eq!(answer(named), SnapshotAnswer::Absent);
        let kind =
            json!({"code": 404, "reason": "NotFound", "message": "the server could not find"});
        assert_eq!(answer(kind), SnapshotAnswer::Unserved);
        assert!(matches!(answer(json!({"code": 403})), SnapshotAnswer::Unknown(_)));
    }
}
