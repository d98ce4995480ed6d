//! The watches: which kinds, how much of them, and who looks again when one of them changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{AgentRole, Repo, Thread, condition, names};
use codebutler_runtime::scope::{WatchScope, WatchedKind};
use codebutler_runtime::shards::lease_name;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::{Config, Event};
use kube::{Client, Resource, ResourceExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::fence::CacheFence;
use super::index::{ObjectIndex, ObjectKey};
use super::informer::{self, NamedObjects, ObjectTouch};
use super::labels;
use super::queues::{ControllerQueues, QueueReceivers};
use super::seat_times::{EndedSeats, SeatTimes};
use super::serving::ServingGateways;
use super::slots::RepoSlots;
use crate::args::ControllerArgs;
use crate::node_room::lacks_room;

/// Views on everything that is watched.
pub(crate) struct ControllerCaches {
    pub repos: Store<Repo>,
    pub roles: Store<AgentRole>,
    pub threads: Store<Thread>,
    pub open: Arc<ObjectIndex<Thread, ()>>,
    pub closed: Arc<ObjectIndex<Thread, ()>>,
    pub parts: Arc<ObjectIndex<Thread, ()>>,
    pub pods: Arc<ObjectIndex<Pod, Pod>>,
    /// Pods of servers by their Thread, and those that belong to a Repo.
    pub server_pods: Arc<ObjectIndex<Pod, Pod>>,
    pub repo_server_pods: Arc<ObjectIndex<Pod, Pod>>,
    /// Seats that wait for a Thread, by their Repo.
    pub seats: Arc<ObjectIndex<Pod, Pod>>,
    /// Pods that prepare volumes, by their Repo.
    pub prepared_pods: Arc<ObjectIndex<Pod, Pod>>,
    /// Claims of prepared volumes, by their Repo.
    pub prepared_claims: Arc<ObjectIndex<PersistentVolumeClaim, PersistentVolumeClaim>>,
    /// Reports for how long seats have waited that wait no more.
    pub ended_seats: Arc<EndedSeats>,
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
}

pub(crate) struct ControllerWatches {
    tasks: JoinSet<()>,
    synced: Vec<oneshot::Receiver<()>>,
}

impl ControllerWatches {
    /// Waits until every cache has been filled once.
    pub(crate) async fn synced(&mut self) {
        for synced in self.synced.drain(..) {
            // The other end lives as long as its task.
            let _ = synced.await;
        }
    }

    fn watch<K: WatchedKind + Sync>(
        &mut self,
        (client, scope): (&Client, &WatchScope),
        config: &Config,
        on: impl FnMut(&Event<K>) + Send + 'static,
    ) {
        let (sender, receiver) = oneshot::channel();
        self.synced.push(receiver);
        self.tasks.spawn(informer::run_informer(scope.events(client, config), sender, on));
    }
}

/// Starts all watches. They end when the result is dropped.
pub(crate) fn start_watches(
    client: &Client,
    args: &ControllerArgs,
    slots: &Arc<RepoSlots>,
    fence: &Arc<CacheFence>,
) -> (ControllerCaches, ControllerWatches, ControllerQueues, QueueReceivers) {
    let (repos, roles, threads) = (NamedObjects::new(), NamedObjects::new(), NamedObjects::new());
    let (accounts, policies) = (NamedObjects::new(), NamedObjects::new());
    let (authorities, services, prompts) =
        (NamedObjects::new(), NamedObjects::new(), NamedObjects::new());
    let caches = ControllerCaches {
        repos: repos.reader(),
        roles: roles.reader(),
        threads: threads.reader(),
        open: Arc::new(ObjectIndex::new(open_in)),
        closed: Arc::new(ObjectIndex::new(closed_in)),
        parts: Arc::new(ObjectIndex::new(parent_of)),
        pods: Arc::new(ObjectIndex::new(role_pod)),
        server_pods: Arc::new(ObjectIndex::new(server_pod)),
        repo_server_pods: Arc::new(ObjectIndex::new(by_repo)),
        seats: Arc::new(ObjectIndex::new(waiting_seat)),
        prepared_pods: Arc::new(ObjectIndex::new(preparing_pod)),
        prepared_claims: Arc::new(ObjectIndex::new(prepared_claim)),
        ended_seats: Arc::default(),
        volumes: Arc::new(ObjectIndex::new(by_thread)),
        accounts: accounts.reader(),
        policies: policies.reader(),
        authorities: authorities.reader(),
        services: services.reader(),
        serving: Arc::new(ServingGateways::new(args.gateway_shards)),
        prompts: prompts.reader(),
    };
    let (queues, receivers) =
        ControllerQueues::new(caches.repos.clone(), caches.open.clone(), &args.namespace);
    let mut watches = ControllerWatches { tasks: JoinSet::new(), synced: Vec::new() };

    let scope = WatchScope::of(&args.namespaces);
    let (listed, shared) = ((client, &scope), (client, &scope.and(&args.namespace)));
    let own = (client, &WatchScope::of(std::slice::from_ref(&args.namespace)));
    watches.watch(listed, &list_config(), on_repo(repos, queues.clone()));
    watches.watch(shared, &list_config(), on_role(roles, queues.clone()));
    let indices = [&caches.open, &caches.closed, &caches.parts].map(Arc::clone);
    let fenced = (slots.clone(), fence.clone());
    watches.watch(listed, &list_config(), on_thread(threads, indices, fenced, queues.clone()));
    let of_threads = list_config().labels(names::LABEL_THREAD);
    let pods = [&caches.pods, &caches.server_pods].map(Arc::clone);
    watches.watch(listed, &of_threads, on_pod(pods, queues.clone()));
    // Servers and seats: what a Thread takes leaves this watch for the one above.
    let of_repo_alone = format!("{},!{}", names::LABEL_REPO, names::LABEL_THREAD);
    let repo_pods =
        [&caches.repo_server_pods, &caches.seats, &caches.prepared_pods].map(Arc::clone);
    let of_repo_alone = list_config().labels(&of_repo_alone);
    let ended_seats = caches.ended_seats.clone();
    watches.watch(listed, &of_repo_alone, on_repo_pod(repo_pods, ended_seats, queues.clone()));
    watches.watch(listed, &of_threads, on_child(caches.volumes.clone(), queues.clone()));
    let prepared = list_config().labels(&format!("app.kubernetes.io/name={}", labels::PREPARED));
    watches.watch(listed, &prepared, on_prepared(caches.prepared_claims.clone(), queues.clone()));
    let of_repos = list_config().labels(names::LABEL_REPO);
    watches.watch(listed, &of_repos, on_repo_child(accounts, queues.clone()));
    watches.watch(listed, &of_repos, on_repo_child(policies, queues.clone()));
    // Selected by name, so that a right on this one name is enough.
    let authority = list_config().fields(&format!("metadata.name={}", names::CA_CONFIG_MAP));
    watches.watch(shared, &authority, on_shared(authorities, queues.clone()));
    let service = list_config().fields(&format!("metadata.name={}", args.gateway_service));
    watches.watch(own, &service, on_shared(services, queues.clone()));
    for shard in 0..args.gateway_shards {
        let lease = list_config().fields(&format!("metadata.name={}", lease_name(shard)));
        let serving = (caches.serving.clone(), shard);
        watches.watch(own, &lease, on_lease(NamedObjects::new(), serving, queues.clone()));
    }
    watches.tasks.spawn(caches.serving.clone().watch(queues.clone()));
    let prompt = list_config().labels(names::LABEL_PROMPT);
    watches.watch(shared, &prompt, on_prompt(prompts, caches.roles.clone(), queues.clone()));
    (caches, watches, queues, receivers)
}

fn list_config() -> Config {
    Config::default()
}

pub(crate) fn is_open(thread: &Thread) -> bool {
    thread.spec.state == ThreadState::Active
}

/// True for a Thread with work that waits for room in its namespace's quota.
pub(crate) fn lacks_quota(thread: &Thread) -> bool {
    is_open(thread) && ready_reason(thread) == Some("QuotaExceeded")
}

fn ready_reason(thread: &Thread) -> Option<&str> {
    let conditions = &thread.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == condition::READY);
    ready.map(|ready| ready.reason.as_str())
}

/// True if nothing is left to be done about a Thread, for any controller.
pub(crate) fn is_over(thread: &Thread) -> bool {
    let Some(status) = thread.status.as_ref().filter(|_| !is_open(thread)) else { return false };
    condition::is_true(&status.conditions, condition::FINISHED)
        && status.observed_generation == thread.metadata.generation
        && thread.finalizers().is_empty()
        && thread.metadata.deletion_timestamp.is_none()
}

pub(crate) fn closed_in(thread: &Thread) -> Option<(ObjectKey, Option<()>)> {
    let repo = ObjectKey::new(thread.namespace()?, &thread.spec.repo);
    Some((repo, (!is_open(thread)).then_some(())))
}

pub(crate) fn open_in(thread: &Thread) -> Option<(ObjectKey, Option<()>)> {
    Some((ObjectKey::new(thread.namespace()?, &thread.spec.repo), is_open(thread).then_some(())))
}

fn parent_of(thread: &Thread) -> Option<(ObjectKey, Option<()>)> {
    Some((ObjectKey::new(thread.namespace()?, thread.spec.parent.as_ref()?), Some(())))
}

/// Index by the owning Thread. Labels only narrow the watch: anybody may edit them.
fn by_thread<K: Resource + Clone>(child: &K) -> Option<(ObjectKey, Option<K>)> {
    by_owner(child, &Thread::kind(&()))
}

fn by_owner<K: Resource + Clone>(child: &K, kind: &str) -> Option<(ObjectKey, Option<K>)> {
    let mut owners = child.meta().owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true) && owner.kind == kind)?;
    Some((ObjectKey::new(child.meta().namespace.clone()?, &owner.name), Some(child.clone())))
}

fn role_pod(pod: &Pod) -> Option<(ObjectKey, Option<Pod>)> {
    by_thread(pod).filter(|(thread, _)| !is_of_server(pod, thread))
}

fn server_pod(pod: &Pod) -> Option<(ObjectKey, Option<Pod>)> {
    by_thread(pod).filter(|(thread, _)| is_of_server(pod, thread))
}

fn by_repo(pod: &Pod) -> Option<(ObjectKey, Option<Pod>)> {
    by_owner(pod, &Repo::kind(&())).filter(|(repo, _)| is_of_server(pod, repo))
}

fn waiting_seat(pod: &Pod) -> Option<(ObjectKey, Option<Pod>)> {
    let is_seat = |repo: &ObjectKey| names::seat_of_pod(&repo.name, &pod.name_any()).is_some();
    by_owner(pod, &Repo::kind(&())).filter(|(repo, _)| is_seat(repo))
}

fn preparing_pod(pod: &Pod) -> Option<(ObjectKey, Option<Pod>)> {
    let is_one = |repo: &ObjectKey| names::prepared_of_pod(&repo.name, &pod.name_any()).is_some();
    by_owner(pod, &Repo::kind(&())).filter(|(repo, _)| is_one(repo))
}

fn prepared_claim(
    claim: &PersistentVolumeClaim,
) -> Option<(ObjectKey, Option<PersistentVolumeClaim>)> {
    by_owner(claim, &Repo::kind(&()))
}

/// Recognizes a server's pod by its name, which can't be edited, unlike its labels.
fn is_of_server(pod: &Pod, owner: &ObjectKey) -> bool {
    names::server_of_pod(&owner.name, &pod.name_any()).is_some()
}

/// Key that changes when an object changes in a way that its dependents care for, and not with its status.
fn change_identity<K: Resource>(object: &K) -> (Option<String>, Option<i64>, bool) {
    let meta = object.meta();
    (meta.uid.clone(), meta.generation, meta.deletion_timestamp.is_some())
}

fn on_repo(mut repos: NamedObjects<Repo>, queues: ControllerQueues) -> impl FnMut(&Event<Repo>) {
    move |event| {
        for (repo, before, touch) in repos.apply(event) {
            let key = ObjectKey::of(&*repo);
            queues.repo(&key);
            if touch == ObjectTouch::Gone || before.is_none() {
                // Repos of a namespace share some objects.
                queues.repos_in(&key.namespace);
            }
            if touch == ObjectTouch::Gone
                || before.is_none_or(|b| change_identity(&*b) != change_identity(&*repo))
            {
                queues.threads_of(&key);
            }
        }
    }
}

fn on_role(
    mut roles: NamedObjects<AgentRole>,
    queues: ControllerQueues,
) -> impl FnMut(&Event<AgentRole>) {
    move |event| {
        for (role, before, touch) in roles.apply(event) {
            queues.role(&ObjectKey::of(&*role));
            let same = |b: &AgentRole| {
                change_identity(b) == change_identity(&*role) && b.prompt() == role.prompt()
            };
            if touch == ObjectTouch::Gone || before.is_none_or(|before| !same(&before)) {
                queues.users_of_role(&role);
            }
        }
    }
}

/// Open Threads by their Repo, closed ones, and all by their parent.
type ThreadIndices = [Arc<ObjectIndex<Thread, ()>>; 3];

fn on_thread(
    mut threads: NamedObjects<Thread>,
    [open_ones, closed_ones, parts]: ThreadIndices,
    (slots, fence): (Arc<RepoSlots>, Arc<CacheFence>),
    queues: ControllerQueues,
) -> impl FnMut(&Event<Thread>) {
    move |event| {
        open_ones.apply(event);
        closed_ones.apply(event);
        parts.apply(event);
        for (thread, before, touch) in threads.apply(event) {
            // A list brings many Threads that are over: nothing has to be done about those.
            if before.is_some() || !is_over(&thread) {
                queues.thread(&ObjectKey::of(&*thread));
            }
            if before.is_none() {
                let parts = parts.names(&ObjectKey::of(&*thread));
                queues.threads(&thread.namespace().unwrap_or_default(), parts);
            }
            let lacked = before.as_ref().is_some_and(|before| lacks_quota(before));
            if lacked != (touch == ObjectTouch::Seen && lacks_quota(&thread)) {
                queues.warm_repos();
            }
            let open = |thread: &Thread| is_open(thread);
            if touch == ObjectTouch::Gone || before.map(|b| open(&b)) != Some(open(&thread)) {
                let namespace = thread.namespace().unwrap_or_default();
                let repo = ObjectKey::new(namespace, &thread.spec.repo);
                queues.repo(&repo);
                if touch == ObjectTouch::Gone {
                    // Nobody looks at a deleted Thread again.
                    fence.forget(&ObjectKey::of(&*thread));
                    let others = slots.forget(&repo, &thread.name_any());
                    queues.threads(&repo.namespace, others);
                }
            }
        }
    }
}

fn on_pod(
    [roles, servers]: [Arc<ObjectIndex<Pod, Pod>>; 2],
    queues: ControllerQueues,
) -> impl FnMut(&Event<Pod>) {
    let mut waiting = [WaitingOwners::default(), WaitingOwners::default()];
    move |event| {
        let touched = [roles.apply(event), servers.apply(event)];
        touched.iter().flatten().for_each(|thread| queues.thread(thread));
        let mut changed = false;
        for ((known, touched), pods) in waiting.iter_mut().zip(&touched).zip([&roles, &servers]) {
            changed |= known.note(touched, pods);
        }
        if changed {
            queues.warm_repos();
        }
    }
}

/// Owners of pods that wait for room on a node. Seats hold it, or may be made again once nobody waits.
#[derive(Default)]
struct WaitingOwners(BTreeSet<ObjectKey>);

impl WaitingOwners {
    /// True if one of `touched` waits now and did not, or no more.
    fn note(&mut self, touched: &[ObjectKey], pods: &ObjectIndex<Pod, Pod>) -> bool {
        touched.iter().fold(false, |changed, owner| {
            let waits = pods.of(owner).iter().any(|pod| lacks_room(pod));
            let is_new = if waits { self.0.insert(owner.clone()) } else { self.0.remove(owner) };
            changed | is_new
        })
    }
}

fn on_repo_pod(
    [servers, seats, prepared]: [Arc<ObjectIndex<Pod, Pod>>; 3],
    ended_seats: Arc<EndedSeats>,
    queues: ControllerQueues,
) -> impl FnMut(&Event<Pod>) {
    let mut waiting = WaitingOwners::default();
    let mut times = SeatTimes::new(waiting_seat);
    move |event| {
        for (repo, waited) in times.note(event, Timestamp::now()) {
            ended_seats.report(&repo, waited);
        }
        let touched = [servers.apply(event), seats.apply(event), prepared.apply(event)];
        touched.iter().flatten().for_each(|repo| queues.repo(repo));
        if waiting.note(&touched[0], &servers) {
            queues.warm_repos();
        }
    }
}

fn on_child<K: Resource>(
    index: Arc<ObjectIndex<K, K>>,
    queues: ControllerQueues,
) -> impl FnMut(&Event<K>) {
    move |event| index.apply(event).iter().for_each(|thread| queues.thread(thread))
}

fn on_prepared(
    index: Arc<ObjectIndex<PersistentVolumeClaim, PersistentVolumeClaim>>,
    queues: ControllerQueues,
) -> impl FnMut(&Event<PersistentVolumeClaim>) {
    move |event| index.apply(event).iter().for_each(|repo| queues.repo(repo))
}

fn on_repo_child<K>(mut cache: NamedObjects<K>, queues: ControllerQueues) -> impl FnMut(&Event<K>)
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    move |event| {
        for (child, ..) in cache.apply(event) {
            if let Some(repo) = child.labels().get(names::LABEL_REPO) {
                queues
                    .repo_and_threads(&ObjectKey::new(child.namespace().unwrap_or_default(), repo));
            }
        }
    }
}

fn on_prompt(
    mut prompts: NamedObjects<ConfigMap>,
    roles: Store<AgentRole>,
    queues: ControllerQueues,
) -> impl FnMut(&Event<ConfigMap>) {
    move |event| {
        for (prompt, ..) in prompts.apply(event) {
            let ObjectKey { namespace, name } = ObjectKey::of(&*prompt);
            let reads = |role: &AgentRole| {
                let source = role.spec.prompt_from.as_ref();
                role.namespace().as_deref() == Some(&*namespace)
                    && source.is_some_and(|source| source.config_map == name)
            };
            for role in roles.state_filter(reads) {
                queues.role(&ObjectKey::of(&*role));
            }
        }
    }
}

fn on_lease(
    mut leases: NamedObjects<Lease>,
    (serving, shard): (Arc<ServingGateways>, u32),
    queues: ControllerQueues,
) -> impl FnMut(&Event<Lease>) {
    move |event| {
        for (lease, _, touch) in leases.apply(event) {
            let there = Some(&*lease).filter(|_| touch == ObjectTouch::Seen);
            if serving.note(shard, there, Instant::now()) {
                queues.all();
            }
        }
    }
}

fn on_shared<K>(mut cache: NamedObjects<K>, queues: ControllerQueues) -> impl FnMut(&Event<K>)
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    move |event| {
        for (shared, ..) in cache.apply(event) {
            queues.repos_in(&shared.namespace().unwrap_or_default());
        }
    }
}
