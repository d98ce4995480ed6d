//! What the controllers share: caches, the writer, the clock.

use std::sync::Arc;

use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};

use super::clock::Clock;
use super::gateway::GatewayAddress;
use super::homes::Homes;
use super::index::{Index, ObjectKey};
use super::metrics::ControllerMetrics;
use super::queues::Queues;
use super::refusals::Refusals;
use super::rewritten::Rewritten;
use super::scale_up::ScaleUps;
use super::serving::Serving;
use super::slots::RepoSlots;
use super::thread::Fence;
use super::unexpanded::Unexpanded;
use crate::apply::Apply;
use crate::args::ControllerArgs;
use crate::tasks::Tasks;

/// Everything a reconciler needs.
pub struct Context {
    pub args: ControllerArgs,
    pub clock: Clock,
    /// The only way to write.
    pub apply: Apply,
    /// The controller's metrics.
    pub metrics: ControllerMetrics,
    pub slots: Arc<RepoSlots>,
    /// What is known of Threads beyond the cache.
    pub fence: Arc<Fence>,
    /// Who has to look again.
    pub queues: Queues,
    /// Volumes that could not grow.
    pub unexpanded: Unexpanded,
    pub repos: Store<Repo>,
    pub roles: Store<AgentRole>,
    pub all_threads: Store<Thread>,
    /// Which open Threads a Repo has.
    pub open: Arc<Index<Thread, ()>>,
    pub pods: Arc<Index<Pod, Pod>>,
    pub volumes: Arc<Index<PersistentVolumeClaim, PersistentVolumeClaim>>,
    pub accounts: Store<ServiceAccount>,
    /// The Repos' network policies.
    pub policies: Store<NetworkPolicy>,
    /// The gateway's certificate authority and its copies.
    pub authorities: Store<ConfigMap>,
    pub services: Store<Service>,
    /// Whether a gateway serves.
    pub serving: Arc<Serving>,
    /// ConfigMaps with instructions for roles.
    pub prompts: Store<ConfigMap>,
    /// Threads that the API server says no to.
    pub refusals: Refusals,
    /// Where volumes are that no pod finds a node for.
    pub homes: Homes,
    /// What autoscalers say of pods that find no node.
    pub scale_ups: ScaleUps,
    /// Pods whose images somebody else's admission chose.
    pub rewritten: Rewritten,
    /// Looks that are under way.
    pub looks: Tasks,
}

impl Context {
    pub fn repo(&self, namespace: &str, name: &str) -> Option<Arc<Repo>> {
        self.repos.get(&ObjectRef::new(name).within(namespace))
    }

    /// An AgentRole by the name that a Repo uses: its own namespace's, else the operator's.
    pub fn role(&self, namespace: &str, name: &str) -> Option<Arc<AgentRole>> {
        let find = |namespace: &str| self.roles.get(&ObjectRef::new(name).within(namespace));
        find(namespace).or_else(|| find(&self.args.namespace))
    }

    /// The AgentRoles that exist of those that a Repo names, in its order.
    pub fn roles_of(&self, repo: &Repo) -> Vec<Arc<AgentRole>> {
        let namespace = repo.namespace().unwrap_or_default();
        repo.spec.roles.iter().filter_map(|name| self.role(&namespace, name)).collect()
    }

    /// Where the gateway is.
    ///
    /// # Errors
    /// A sentence that says what is wrong with its Service.
    pub fn gateway(&self) -> Result<GatewayAddress, String> {
        let key = ObjectRef::new(&self.args.gateway_service).within(&self.args.namespace);
        GatewayAddress::read(self.services.get(&key).as_deref(), &self.args)
    }

    /// How many of a Repo's Threads are open.
    pub fn open_threads(&self, repo: &ObjectKey) -> u32 {
        u32::try_from(self.open.count(repo)).unwrap_or(u32::MAX)
    }
}
