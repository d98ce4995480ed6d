//! Gathers the facts for a decision on a Thread from the caches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use codebutler_crds::prepared::PreparedVolumes;
use codebutler_crds::{AgentRole, Repo, Thread};
use codebutler_runtime::apply::{ApplyRefusal, owned_by};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use super::lineage::ThreadLineage;
use super::volume::{SourceClaim, VolumeState};
use super::{vacant, volume};
use crate::context::ControllerContext;
use crate::gateway::{GatewayAddress, GatewayNotFound};
use crate::homes::VolumeHome;
use crate::index::ObjectKey;
use crate::node_room::lacks_room;
use crate::repo;
use crate::scale_up::ScaleUp;
use crate::serving::GatewayAway;
use crate::slots::RoleSet;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RoleAdmission {
    /// No slots were asked for yet, so no role is held back.
    #[default]
    All,
    /// Only these roles have slots.
    Only {
        roles: RoleSet,
        /// Place in the queue, from 1, if anything has to wait.
        position: Option<u32>,
    },
}

/// The world around a Thread.
#[derive(Clone, Debug)]
pub(crate) struct ObservedThread {
    pub repo: Option<Arc<Repo>>,
    /// The AgentRoles that exist of those that the Repo names, in its order.
    pub roles: Vec<Arc<AgentRole>>,
    /// True if the Repo's pods have all that they need: account, network policy, certificate authority.
    pub prepared: bool,
    pub gateway: Result<GatewayAddress, GatewayNotFound>,
    pub serving: Result<(), GatewayAway>,
    /// Result of checking the Threads above it.
    pub lineage: ThreadLineage,
    pub volume: Option<Arc<PersistentVolumeClaim>>,
    /// Claim that a new volume is to be a clone of.
    pub source: Option<SourceClaim>,
    /// Time since which the volume is being cloned, if it is.
    pub cloning_since: Option<Timestamp>,
    pub pods: Vec<Arc<Pod>>,
    /// Seats of its Repo that nobody has taken.
    pub seats: Vec<Arc<Pod>>,
    pub admission: RoleAdmission,
    /// Refusal of the API server in this look, if there was one.
    pub refusal: Option<ApplyRefusal>,
    /// UIDs of those of its pods that were made with other images than were asked for.
    pub rewritten: Vec<String>,
    /// Location of the volume, if it was looked up.
    pub home: Option<VolumeHome>,
    /// Answers of autoscalers about its pods, by their UID, where they were asked.
    pub scale_ups: BTreeMap<String, ScaleUp>,
    /// Latest warning events about its pods' start on their nodes, by the pods' UIDs, where events were asked for.
    pub warnings: BTreeMap<String, Option<String>>,
    /// Reason why the volume could not grow, if it could not.
    pub unexpanded: Option<String>,
}

pub(crate) fn observe_thread(context: &ControllerContext, thread: &Thread) -> ObservedThread {
    let key = ObjectKey::of(thread);
    let uid = thread.uid().unwrap_or_default();
    let repo = context.repo(&key.namespace, &thread.spec.repo);
    let shard = context.shard(&key.namespace, &thread.spec.repo);
    let volume = own_claim(context, thread);
    let mine = |pod: &Arc<Pod>| owned_by(&**pod, &uid);
    let pods: Vec<_> = context.pods.of(&key).into_iter().filter(mine).collect();
    let rewritten = pods.iter().filter(|pod| context.rewritten.knows(pod));
    let told = pods.iter().filter_map(|pod| {
        let uid = pod.uid()?;
        let words = context.scale_ups.of(&uid)?;
        Some((uid, words))
    });
    let (mut scale_ups, mut warnings) = (BTreeMap::new(), BTreeMap::new());
    for (uid, words) in told {
        scale_ups.insert(uid.clone(), words.scale_up);
        warnings.insert(uid, words.warning);
    }
    ObservedThread {
        scale_ups,
        warnings,
        rewritten: rewritten.filter_map(|pod| pod.uid()).collect(),
        roles: repo.iter().flat_map(|repo| context.roles_of(repo)).collect(),
        seats: repo.as_ref().map(|repo| vacant::free_seats(context, repo)).unwrap_or_default(),
        prepared: repo.as_ref().is_some_and(|repo| repo::observe::is_prepared(context, repo)),
        gateway: context.gateway(shard),
        serving: context.serving.serves(shard, Instant::now()),
        lineage: find_lineage(context, thread),
        home: volume.as_ref().and_then(|claim| context.homes.of(&key, claim)),
        cloning_since: volume
            .as_ref()
            .and_then(|claim| find_cloning(context, (repo.as_deref(), claim), &pods)),
        volume,
        source: repo.as_ref().and_then(|repo| find_source(context, repo)),
        pods,
        admission: RoleAdmission::All,
        refusal: None,
        unexpanded: context.unexpanded.get(&key),
        repo,
    }
}

/// The claim that a new volume is to be a clone of, unless that has failed.
fn find_source(context: &ControllerContext, repo: &Repo) -> Option<SourceClaim> {
    let source = volume::find_source(repo)?;
    if context.prepared.has_failed(repo, source) {
        return None;
    }
    let (key, owner) = (ObjectKey::of(repo), repo.uid().unwrap_or_default());
    let mut claims = context.prepared_claims.of(&key).into_iter();
    let claim = claims.find(|claim| claim.name_any() == source && owned_by(&**claim, &owner))?;
    let is_snapshot = repo.spec.worktree.prepared == PreparedVolumes::Snapshot;
    SourceClaim::of(&claim, is_snapshot)
}

fn find_cloning(
    context: &ControllerContext,
    (repo, claim): (Option<&Repo>, &PersistentVolumeClaim),
    pods: &[Arc<Pod>],
) -> Option<Timestamp> {
    if let (VolumeState::Bound, Some(repo)) = (VolumeState::of(Some(claim)), repo) {
        context.prepared.note_made(repo, claim);
    }
    let lacks = pods.iter().any(|pod| lacks_room(pod));
    volume::is_being_cloned(claim, lacks)
        .then(|| context.prepared.cloning_since(claim, context.clock.now()))
}

/// The Thread's own volume claim.
pub(crate) fn own_claim(
    context: &ControllerContext,
    thread: &Thread,
) -> Option<Arc<PersistentVolumeClaim>> {
    let (key, uid) = (ObjectKey::of(thread), thread.uid().unwrap_or_default());
    let claim = thread.volume_claim();
    let mut claims = context.volumes.of(&key).into_iter();
    claims.find(|volume| volume.name_any() == claim && owned_by(&**volume, &uid))
}

fn find_lineage(context: &ControllerContext, thread: &Thread) -> ThreadLineage {
    let begun = thread.status.iter().flat_map(|status| status.roles.values());
    if begun.into_iter().any(|role| role.state.is_some() || role.done.is_some()) {
        return ThreadLineage::Sound;
    }
    let namespace = thread.namespace().unwrap_or_default();
    ThreadLineage::of(thread, |name| {
        let found = context.all_threads.get(&ObjectRef::new(name).within(&namespace));
        found.map(Arc::unwrap_or_clone)
    })
}
