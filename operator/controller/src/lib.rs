//! The controller turns Repos, AgentRoles and Threads into pods and volumes: observe → decide → apply.
//! It has Kubernetes rights and no external secret.
//!
//! [`caches`] watches and says who has to look again, [`drive`] runs the reconcilers of [`repo`],
//! [`role`] and [`thread`]. Each of them gathers what it needs (`observe`), decides in a pure
//! function (`desired`) on a plan, and hands that to [`codebutler_runtime::apply`], the only place that writes.

pub mod args;
mod caches;
mod clock;
mod context;
mod drive;
mod fence;
mod gateway;
mod health;
mod homes;
mod index;
mod informer;
mod labels;
mod metrics;
mod node_room;
mod platform;
mod pod_life;
mod prepared_memory;
mod queues;
mod refusals;
mod remedies;
mod repo;
mod resolvers;
mod retention;
mod rewritten;
mod role;
mod scale_up;
mod schedules;
mod seat_memory;
mod seat_times;
mod seats;
mod servers;
mod serving;
mod slots;
mod snapshots;
mod spelling;
mod spent;
#[cfg(test)]
mod testing;
mod thread;
mod unexpanded;

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{Thread, names};
use codebutler_runtime::apply::ObjectApplier;
use codebutler_runtime::lease;
use codebutler_runtime::metrics::{MetricsServer, ReadyFlag};
use codebutler_runtime::scope::WatchScope;
use codebutler_runtime::tasks::TaskGroup;
use kube::Client;
use kube::runtime::reflector::Store;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::index::ObjectKey;
use crate::args::ControllerArgs;

/// Name of the Lease that the acting replica holds.
const LEASE: &str = "codebutler-controller";

/// Runs until told to stop (SIGTERM, SIGINT), then ends what is in progress.
///
/// # Errors
/// When there is no usable configuration for the Kubernetes API, or the metrics port is taken.
pub async fn run_controller(mut args: ControllerArgs) -> anyhow::Result<()> {
    if args.cluster_dns.is_empty() {
        args.cluster_dns = resolvers::own_resolvers();
    }
    let client = codebutler_runtime::platform::open_client(names::CONTROLLER).await?;
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stopping = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {} _ = int.recv() => {} }
        tracing::info!("shutdown_started");
        stopping.cancel();
    });
    serve_controller(args, client, stop).await
}

/// Runs until `stop`. One replica acts; the others keep their caches filled and wait. One that loses
/// the right to act stops what it does and waits like them.
///
/// # Errors
/// When the metrics port is taken.
pub async fn serve_controller(
    mut args: ControllerArgs,
    client: Client,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let slots = Arc::new(slots::RepoSlots::default());
    let fence = Arc::new(fence::CacheFence::default());
    let (caches, mut watches, queues, mut receivers) =
        caches::start_watches(&client, &args, &slots, &fence);
    let mut registry = codebutler_runtime::metrics::build_registry();
    let shown = metrics::ShownState {
        threads: caches.threads.clone(),
        open: caches.open.clone(),
        closed: caches.closed.clone(),
        repos: caches.repos.clone(),
        slots: slots.clone(),
    };
    let metrics = metrics::ControllerMetrics::register(&mut registry, shown);
    let seat_metrics = metrics.clone();
    caches.ended_seats.report_to(move |repo, waited| seat_metrics.seat_ended(repo, waited));
    let ready = ReadyFlag::default();
    let _server = MetricsServer::start(args.metrics_address, registry, ready.clone())?;
    let prepared = async {
        codebutler_runtime::definitions::await_definitions(&client, &ready).await;
        watches.synced().await;
        platform::settle_user(&client, &mut args).await;
        platform::settle_namespaces(&client, &mut args).await;
    };
    tokio::select! {
        () = prepared => {}
        () = stop.cancelled() => return Ok(()),
    }
    // A standby is ready too: not acting is what it is there for.
    ready.set(true);
    tracing::info!("caches_synced");
    let settings = args.lease.settings(&args.namespace, LEASE);
    let replica = Replica { args, client, caches, slots, fence, queues, metrics };
    while !stop.is_cancelled() {
        let lease = lease::start_campaign(replica.client.clone(), settings.clone());
        let context = replica.begin_term();
        let done = tokio::select! {
            biased;
            () = lease.lost() => false,
            () = replica.term(&lease, &context, &mut receivers, &stop) => true,
        };
        if done {
            ready.set(false);
            // The lease is released only now that nothing of ours is under way any more.
            lease.release().await;
            return Ok(());
        }
        context.looks.cut().await;
        replica.metrics.follows();
        tracing::error!("leadership_lost");
    }
    Ok(())
}

struct Replica {
    args: ControllerArgs,
    client: Client,
    caches: caches::ControllerCaches,
    slots: Arc<slots::RepoSlots>,
    fence: Arc<fence::CacheFence>,
    queues: queues::ControllerQueues,
    metrics: metrics::ControllerMetrics,
}

impl Replica {
    /// State for one term as leader; everything that was decided in an earlier term is forgotten.
    fn begin_term(&self) -> Arc<context::ControllerContext> {
        let caches = &self.caches;
        self.slots.clear();
        self.fence.clear();
        Arc::new(context::ControllerContext {
            args: self.args.clone(),
            clock: clock::ControllerClock::system(),
            apply: ObjectApplier::new(self.client.clone(), names::CONTROLLER),
            metrics: self.metrics.clone(),
            slots: self.slots.clone(),
            fence: self.fence.clone(),
            queues: self.queues.clone(),
            unexpanded: unexpanded::UnexpandedClaims::default(),
            repos: caches.repos.clone(),
            roles: caches.roles.clone(),
            all_threads: caches.threads.clone(),
            open: caches.open.clone(),
            pods: caches.pods.clone(),
            server_pods: caches.server_pods.clone(),
            repo_server_pods: caches.repo_server_pods.clone(),
            seats: caches.seats.clone(),
            spent: spent::SpentSeats::default(),
            seat_memory: seat_memory::SeatMemory::default(),
            prepared: prepared_memory::PreparedVolumeMemory::default(),
            prepared_pods: caches.prepared_pods.clone(),
            prepared_claims: caches.prepared_claims.clone(),
            snapshots: snapshots::SnapshotReader::new(self.client.clone()),
            volumes: caches.volumes.clone(),
            accounts: caches.accounts.clone(),
            policies: caches.policies.clone(),
            authorities: caches.authorities.clone(),
            services: caches.services.clone(),
            serving: caches.serving.clone(),
            prompts: caches.prompts.clone(),
            rewritten: rewritten::RewrittenObjects::default(),
            refusals: refusals::RefusalCounts::default(),
            homes: homes::VolumeHomes::new(self.client.clone()),
            scale_ups: scale_up::ScaleUps::new(self.client.clone()),
            looks: TaskGroup::default(),
        })
    }

    /// Waits for the lease, and acts until `stop`; ends what is in progress then.
    async fn term(
        &self,
        lease: &lease::LeaseHandle,
        context: &Arc<context::ControllerContext>,
        receivers: &mut queues::QueueReceivers,
        stop: &CancellationToken,
    ) {
        let Self { args, client, caches, slots, fence, .. } = self;
        let scope = WatchScope::of(&args.namespaces);
        let elected = async {
            lease.held().await;
            prime_slots(client, &scope, &caches.threads, (slots, fence)).await
        };
        let unread = tokio::select! {
            unread = elected => unread,
            () = receivers.drain() => return,
            () = stop.cancelled() => return,
        };
        self.metrics.leads();
        let late = thread::prime_late(client.clone(), unread, context.clone());
        queue_all(context);
        let work = async {
            let (context, stop) = (|| context.clone(), || stop.clone());
            let queues::QueueReceivers { repos, roles, threads } = receivers;
            tokio::join!(
                drive::drive_reconciler(
                    &caches.repos,
                    repos,
                    context(),
                    seats::look_at_repo,
                    stop()
                ),
                drive::drive_reconciler(
                    &caches.roles,
                    roles,
                    context(),
                    role::reconcile_role,
                    stop()
                ),
                retention::run_retention(context(), stop()),
                drive::drive_reconciler(
                    &caches.threads,
                    threads,
                    context(),
                    servers::look_at_thread,
                    stop()
                ),
            )
        };
        tokio::select! {
            ((), (), (), ()) = work => {}
            () = async { late.await; std::future::pending().await } => {}
        }
    }
}

/// Whatever was told while somebody else acted is looked at now.
fn queue_all(context: &context::ControllerContext) {
    let queues = &context.queues;
    context.repos.state().iter().for_each(|repo| queues.repo(&ObjectKey::of(&**repo)));
    context.roles.state().iter().for_each(|role| queues.role(&ObjectKey::of(&**role)));
    for thread in context.all_threads.state_filter(|thread| !caches::is_over(thread)) {
        queues.thread(&ObjectKey::of(&*thread));
    }
}

/// Learns which slots are given, however often that has to be tried.
/// Answers the namespaces where that can't be learned yet.
async fn prime_slots(
    client: &Client,
    scope: &WatchScope,
    known: &Store<Thread>,
    given: (&slots::RepoSlots, &fence::CacheFence),
) -> Vec<String> {
    loop {
        match thread::prime_queue(client, scope, known, given).await {
            Ok(unread) => return unread,
            Err(error) => {
                tracing::warn!(%error, "running_roles_unknown");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }
}
