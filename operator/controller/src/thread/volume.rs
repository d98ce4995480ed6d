//! The volume that a Thread's pods share.

use codebutler_crds::prepared::PreparedVolumes;
use codebutler_crds::repo::AccessMode;
use codebutler_crds::{Repo, Thread};
use codebutler_runtime::quantity::parse_bytes;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod, TypedLocalObjectReference,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

use super::security;
use crate::{labels, snapshots};

/// Annotation on a claim: the user whose files it was made for. Absent on one from before pods had another.
const ANNOTATION_USER: &str = "codebutler.dev/user";
/// Annotation on a claim: class and mode as they were asked for.
const ANNOTATION_ASKED: &str = "codebutler.dev/asked-for";
/// Annotations that Kubernetes puts on a claim: the node chosen for its first pod, and the driver that it has asked.
const ANNOTATION_NODE: &str = "volume.kubernetes.io/selected-node";
const ANNOTATIONS_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// The claim that a new volume is to be a clone of.
#[derive(Clone, Debug)]
pub(crate) struct SourceClaim {
    pub claim: String,
    /// True if the volume is restored from the snapshot of that name.
    pub is_snapshot: bool,
    /// Size of its volume, which can be more than was asked for: drivers round it up.
    pub size: Option<String>,
}

impl SourceClaim {
    /// Reads a claim; None for one that has no volume, or is going.
    pub(crate) fn of(claim: &PersistentVolumeClaim, is_snapshot: bool) -> Option<Self> {
        let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
        let size = capacity.and_then(|all| all.get("storage")).map(|size| size.0.clone());
        let bound = VolumeState::of(Some(claim)) == VolumeState::Bound;
        bound.then(|| Self { claim: claim.name_any(), is_snapshot, size })
    }
}

/// The claim, owned by the Thread. With `source`, its volume is a clone of that claim's.
pub(crate) fn build_claim(
    thread: &Thread,
    repo: &Repo,
    source: Option<&SourceClaim>,
) -> PersistentVolumeClaim {
    let name = thread.volume_claim();
    let metadata = labels::owned_metadata(thread, name, labels::of_claim(thread));
    let mut claim = fill_claim(metadata, repo);
    let (Some(spec), Some(source)) = (&mut claim.spec, source) else { return claim };
    let kind = if source.is_snapshot { snapshots::KIND } else { "PersistentVolumeClaim" };
    spec.data_source = Some(TypedLocalObjectReference {
        api_group: source.is_snapshot.then(|| snapshots::GROUP.to_owned()),
        kind: kind.to_owned(),
        name: source.claim.clone(),
    });
    // A driver makes no clone that is smaller than its source.
    let larger =
        |size: &&String| parse_bytes(size.as_str()) > parse_bytes(&repo.spec.worktree.size);
    if let Some(size) = source.size.as_ref().filter(larger) {
        let requests = Some([("storage".to_owned(), Quantity(size.clone()))].into());
        spec.resources = Some(VolumeResourceRequirements { requests, limits: None });
    }
    claim
}

/// The claim of a volume from which those of Threads are made.
pub(crate) fn build_prepared_claim(repo: &Repo, name: &str) -> PersistentVolumeClaim {
    let labels = labels::of_repo(labels::PREPARED, repo);
    fill_claim(labels::owned_metadata(repo, name.to_owned(), labels), repo)
}

/// Finds the prepared claim from which the volume of a new Thread is cloned or restored. It has the class, mode and size
/// that the Repo asks for now, since drivers clone between no others, and the same repository.
pub(super) fn find_source(repo: &Repo) -> Option<&str> {
    let prepared = repo.status.as_ref()?.prepared.as_ref()?;
    let is_fit = match repo.spec.worktree.prepared {
        PreparedVolumes::None => false,
        PreparedVolumes::Clone => prepared.snapshot.is_none(),
        PreparedVolumes::Snapshot => prepared.snapshot == prepared.claim,
    };
    let usable = is_fit
        && prepared.asked == Some(describe_source(repo))
        && prepared.failed != prepared.claim;
    prepared.claim.as_deref().filter(|_| usable)
}

/// The claim whose volume this one's is to be a clone of, while it has none.
pub(crate) fn awaited_source(claim: &PersistentVolumeClaim) -> Option<&str> {
    let source = claim.spec.as_ref()?.data_source.as_ref()?;
    (VolumeState::of(Some(claim)) == VolumeState::Pending).then_some(source.name.as_str())
}

/// True if a driver was asked for the clone that this claim's volume is to be. With `WaitForFirstConsumer` that takes a
/// pod that has found a node. `lacks` is true while a pod finds none for lack of room.
pub(crate) fn is_being_cloned(claim: &PersistentVolumeClaim, lacks: bool) -> bool {
    let has = |name: &&str| claim.annotations().contains_key(*name);
    // A driver that has no room takes the node back.
    let asked = has(&ANNOTATION_NODE) || (!lacks && ANNOTATIONS_PROVISIONER.iter().any(has));
    asked && awaited_source(claim).is_some()
}

/// The claim of a seat, which goes with its pod until a Thread takes both.
pub(crate) fn build_seat_claim(pod: &Pod, seat: &str, repo: &Repo) -> PersistentVolumeClaim {
    let labels = labels::of_repo("codebutler-worktree", repo);
    let mut metadata = labels::owned_metadata(pod, seat.to_owned(), labels);
    // A pod may go before its claim does, and saying otherwise is a right of its own.
    metadata.owner_references.iter_mut().flatten().for_each(|own| own.block_owner_deletion = None);
    fill_claim(metadata, repo)
}

fn fill_claim(mut metadata: ObjectMeta, repo: &Repo) -> PersistentVolumeClaim {
    let worktree = &repo.spec.worktree;
    let access_mode = mode_name(worktree.access_mode);
    let size = Quantity(worktree.size.clone());
    // The cluster writes its default class where none is asked for.
    let own = [(ANNOTATION_ASKED, asked_for(repo)), (ANNOTATION_USER, security::USER.to_string())];
    metadata.annotations = Some(own.map(|(name, value)| (name.to_owned(), value)).into());
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec![access_mode.to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), size)].into()),
                limits: None,
            }),
            storage_class_name: worktree.storage_class_name.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// The key of pods that share a Thread's volume: it may have been a seat's before.
pub(crate) fn sharing_key(thread: &Thread) -> String {
    let taken = thread.status.as_ref().and_then(|status| status.volume.clone());
    taken.or_else(|| thread.uid()).unwrap_or_default()
}

/// User id of pods that work with a claim, or with the one that is made for them: files belong to whoever wrote them.
pub(crate) fn find_user(claim: Option<&PersistentVolumeClaim>) -> i64 {
    let Some(claim) = claim else { return security::USER };
    let user = claim.annotations().get(ANNOTATION_USER);
    user.and_then(|user| user.parse().ok()).unwrap_or(security::OLD_USER)
}

/// True if the Repo wants another kind of volume than this claim asks for.
pub(crate) fn is_outdated(claim: &PersistentVolumeClaim, repo: &Repo) -> bool {
    if let Some(asked) = claim.annotations().get(ANNOTATION_ASKED) {
        return *asked != asked_for(repo);
    }
    // Made before claims said it: a class that was not asked for is the cluster's default.
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    repo.spec.worktree.storage_class_name.as_ref().is_some_and(|wanted| Some(wanted) != class)
}

/// Class and mode as the Repo asks for them.
fn asked_for(repo: &Repo) -> String {
    let worktree = &repo.spec.worktree;
    let class = worktree.storage_class_name.as_deref().unwrap_or_default();
    format!("{class}/{}", mode_name(worktree.access_mode))
}

/// Class, mode and size as the Repo asks for them, and the repository.
pub(crate) fn describe_source(repo: &Repo) -> String {
    format!("{}/{} {}", asked_for(repo), repo.spec.worktree.size, repo.spec.git.url)
}

const fn mode_name(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::ReadWriteOnce => "ReadWriteOnce",
        AccessMode::ReadWriteMany => "ReadWriteMany",
    }
}

/// The size that a bound claim should grow to, if its Repo asks for more than it has.
pub(crate) fn find_expansion(claim: &PersistentVolumeClaim, repo: &Repo) -> Option<String> {
    let requested = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")?;
    let wanted = &repo.spec.worktree.size;
    let grows = parse_bytes(wanted)? > parse_bytes(&requested.0)?;
    (grows && VolumeState::of(Some(claim)) == VolumeState::Bound).then(|| wanted.clone())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeState {
    /// No claim exists.
    Absent,
    /// The claim waits for a volume, which may need its first pod to be scheduled.
    Pending,
    Bound,
    Lost,
    Ending,
}

impl VolumeState {
    pub(crate) fn of(claim: Option<&PersistentVolumeClaim>) -> Self {
        let Some(claim) = claim else { return Self::Absent };
        if claim.metadata.deletion_timestamp.is_some() {
            return Self::Ending;
        }
        match claim.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Bound") => Self::Bound,
            Some("Lost") => Self::Lost,
            _ => Self::Pending,
        }
    }
}
