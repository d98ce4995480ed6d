//! State that the controllers share: caches, the writer, the clock.

use std::sync::Arc;

use codebutler_crds::{AgentRole, Repo, Thread};
use codebutler_runtime::apply::ObjectApplier;
use codebutler_runtime::shards::GatewayShard;
use codebutler_runtime::tasks::TaskGroup;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};

use super::clock::ControllerClock;
use super::fence::CacheFence;
use super::gateway::{GatewayAddress, GatewayNotFound};
use super::homes::VolumeHomes;
use super::index::{ObjectIndex, ObjectKey};
use super::metrics::ControllerMetrics;
use super::prepared_memory::PreparedVolumeMemory;
use super::queues::ControllerQueues;
use super::refusals::RefusalCounts;
use super::rewritten::RewrittenObjects;
use super::scale_up::ScaleUps;
use super::seat_memory::SeatMemory;
use super::serving::ServingGateways;
use super::slots::RepoSlots;
use super::snapshots::SnapshotReader;
use super::spent::SpentSeats;
use super::unexpanded::UnexpandedClaims;
use crate::args::ControllerArgs;

/// Everything a reconciler needs.
pub(crate) struct ControllerContext {
    pub args: ControllerArgs,
    pub clock: ControllerClock,
    /// The only writer: everything that the controllers write goes through it.
    pub apply: ObjectApplier,
    /// The controller's metrics.
    pub metrics: ControllerMetrics,
    pub slots: Arc<RepoSlots>,
    /// Knowledge of Threads that the cache lacks so far, such as writes of our own.
    pub fence: Arc<CacheFence>,
    /// Queues of objects to reconcile again.
    pub queues: ControllerQueues,
    /// Volumes that could not grow.
    pub unexpanded: UnexpandedClaims,
    pub repos: Store<Repo>,
    pub roles: Store<AgentRole>,
    pub all_threads: Store<Thread>,
    /// Index of open Threads, by their Repo.
    pub open: Arc<ObjectIndex<Thread, ()>>,
    pub pods: Arc<ObjectIndex<Pod, Pod>>,
    /// Pods of servers, by their Thread.
    pub server_pods: Arc<ObjectIndex<Pod, Pod>>,
    /// Pods of servers that belong to a Repo.
    pub repo_server_pods: Arc<ObjectIndex<Pod, Pod>>,
    /// Seats that wait for a Thread, by their Repo.
    pub seats: Arc<ObjectIndex<Pod, Pod>>,
    /// Seats that some Thread has taken, or tried to.
    pub spent: SpentSeats,
    pub seat_memory: SeatMemory,
    pub prepared: PreparedVolumeMemory,
    /// Pods that prepare volumes, by their Repo.
    pub prepared_pods: Arc<ObjectIndex<Pod, Pod>>,
    /// Claims of prepared volumes, by their Repo.
    pub prepared_claims: Arc<ObjectIndex<PersistentVolumeClaim, PersistentVolumeClaim>>,
    /// Snapshots of prepared volumes.
    pub snapshots: SnapshotReader,
    pub volumes: Arc<ObjectIndex<PersistentVolumeClaim, PersistentVolumeClaim>>,
    pub accounts: Store<ServiceAccount>,
    /// The Repos' network policies.
    pub policies: Store<NetworkPolicy>,
    /// The gateway's certificate authority and its copies.
    pub authorities: Store<ConfigMap>,
    pub services: Store<Service>,
    /// Tells if the gateways serve.
    pub serving: Arc<ServingGateways>,
    /// ConfigMaps with instructions for roles.
    pub prompts: Store<ConfigMap>,
    /// Threads whose objects the API server has refused.
    pub refusals: RefusalCounts,
    /// Cached locations of volumes that no pod finds a node for.
    pub homes: VolumeHomes,
    /// Cached answers of autoscalers about pods that find no node.
    pub scale_ups: ScaleUps,
    /// Pods whose images somebody else's admission chose.
    pub rewritten: RewrittenObjects,
    /// Looks that are under way.
    pub looks: TaskGroup,
}

impl ControllerContext {
    pub(crate) fn repo(&self, namespace: &str, name: &str) -> Option<Arc<Repo>> {
        self.repos.get(&ObjectRef::new(name).within(namespace))
    }

    /// An AgentRole by the name that a Repo uses: its own namespace's, else the operator's.
    pub(crate) fn role(&self, namespace: &str, name: &str) -> Option<Arc<AgentRole>> {
        let find = |namespace: &str| self.roles.get(&ObjectRef::new(name).within(namespace));
        find(namespace).or_else(|| find(&self.args.namespace))
    }

    /// The AgentRoles that exist of those that a Repo names, in its order.
    pub(crate) fn roles_of(&self, repo: &Repo) -> Vec<Arc<AgentRole>> {
        let namespace = repo.namespace().unwrap_or_default();
        repo.spec.roles.iter().filter_map(|name| self.role(&namespace, name)).collect()
    }

    /// The shard of the gateways to which a Repo of this name belongs now.
    pub(crate) fn shard(&self, namespace: &str, repo: &str) -> GatewayShard {
        GatewayShard::of_repo(namespace, repo, self.serving.shards())
    }

    /// Reads the address of a shard's leader from the gateway's Service.
    ///
    /// # Errors
    /// When the Service can't be used.
    pub(crate) fn gateway(&self, shard: GatewayShard) -> Result<GatewayAddress, GatewayNotFound> {
        let key = ObjectRef::new(&self.args.gateway_service).within(&self.args.namespace);
        GatewayAddress::read(self.services.get(&key).as_deref(), &self.args, shard)
    }

    /// The same for the pods of a Repo.
    ///
    /// # Errors
    /// When the Service can't be used.
    pub(crate) fn gateway_of(&self, repo: &Repo) -> Result<GatewayAddress, GatewayNotFound> {
        self.gateway(self.shard(&repo.namespace().unwrap_or_default(), &repo.name_any()))
    }

    /// Number of a Repo's Threads that are open.
    pub(crate) fn open_threads(&self, repo: &ObjectKey) -> u32 {
        u32::try_from(self.open.count(repo)).unwrap_or(u32::MAX)
    }
}
