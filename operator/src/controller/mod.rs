//! The controller: observe → decide → apply.
//!
//! [`caches`] watches and says who has to look again, [`drive`] runs the reconcilers of [`repo`],
//! [`role`] and [`thread`]. Each of them gathers what it needs (`observe`), decides in a pure
//! function (`desired`) on a plan, and hands that to [`crate::apply`], the only place that writes.

mod backoff;
mod caches;
mod clock;
mod context;
mod drive;
mod gateway;
pub(crate) mod health;
mod index;
mod informer;
mod labels;
mod metrics;
mod queues;
mod refusals;
mod repo;
mod resolvers;
mod retention;
mod rewritten;
mod role;
mod serving;
mod slots;
#[cfg(test)]
mod testing;
mod thread;
mod unexpanded;
mod work;

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::names;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::index::Key;
use crate::apply::Apply;
use crate::args::ControllerArgs;
use crate::lease;
use crate::metrics::{Ready, Server};
use crate::platform;
use crate::scope::Scope;

/// Name of the Lease that the acting replica holds.
const LEASE: &str = "codebutler-controller";

/// Runs until told to stop (SIGTERM, SIGINT), then ends what is in progress.
///
/// # Errors
/// When there is no usable configuration for the Kubernetes API, or the metrics port is taken.
pub async fn run(mut args: ControllerArgs) -> anyhow::Result<()> {
    if args.cluster_dns.is_empty() {
        args.cluster_dns = resolvers::own();
    }
    let client = platform::client(names::CONTROLLER).await?;
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stopping = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {} _ = int.recv() => {} }
        tracing::info!("stopping");
        stopping.cancel();
    });
    serve(args, client, stop).await
}

/// Runs until `stop`. One replica acts; the others keep their caches filled and wait.
///
/// # Errors
/// When the metrics port is taken, or another replica acts instead: the process has to end then.
pub async fn serve(
    mut args: ControllerArgs,
    client: Client,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let slots = Arc::new(slots::Slots::default());
    let fence = Arc::new(thread::Fence::default());
    let (caches, mut watches, queues, mut receivers) =
        caches::start(&client, &args, &slots, &fence);
    let mut registry = crate::metrics::registry();
    let (threads, repos) = (caches.threads.clone(), caches.repos.clone());
    let metrics = metrics::Metrics::register(&mut registry, threads, repos, slots.clone());
    let ready = Ready::default();
    let _server = Server::start(args.metrics_address, registry, ready.clone())?;
    let prepared = async {
        crate::definitions::installed(&client, &ready).await;
        watches.synced().await;
        platform::settle_user(&client, &mut args).await;
    };
    tokio::select! {
        () = prepared => {}
        () = stop.cancelled() => return Ok(()),
    }
    // A standby is ready too: not acting is what it is there for.
    ready.set(true);
    tracing::info!("caches are synced");
    let lease = lease::start(client.clone(), args.lease.settings(&args.namespace, LEASE));
    let elected = tokio::select! {
        () = lease.held() => true,
        () = receivers.drain() => false,
        () = stop.cancelled() => false,
    };
    if !elected {
        lease.release().await;
        return Ok(());
    }
    let scope = Scope::of(&args.namespaces);
    let primed = tokio::select! {
        unread = primed(&client, &scope, &slots, &fence) => Some(unread),
        () = receivers.drain() => None,
        () = stop.cancelled() => None,
        () = lease.lost() => anyhow::bail!("another replica acts: this one ends"),
    };
    let Some(unread) = primed else {
        lease.release().await;
        return Ok(());
    };
    metrics.leads();
    let context = Arc::new(context::Context {
        args,
        clock: clock::Clock::system(),
        apply: Apply::new(client.clone(), names::CONTROLLER),
        metrics,
        slots,
        fence,
        queues,
        unexpanded: unexpanded::Unexpanded::default(),
        repos: caches.repos.clone(),
        roles: caches.roles.clone(),
        all_threads: caches.threads.clone(),
        open: caches.open,
        pods: caches.pods,
        volumes: caches.volumes,
        accounts: caches.accounts,
        policies: caches.policies,
        authorities: caches.authorities,
        services: caches.services,
        serving: caches.serving,
        prompts: caches.prompts,
        rewritten: rewritten::Rewritten::default(),
        refusals: refusals::Refusals::default(),
    });
    let late = thread::prime_late(client, unread, context.clone());
    queue_all(&context);
    let work = async {
        tokio::join!(
            drive::drive(
                caches.repos,
                receivers.repos,
                context.clone(),
                repo::reconcile,
                stop.clone()
            ),
            drive::drive(
                caches.roles,
                receivers.roles,
                context.clone(),
                role::reconcile,
                stop.clone()
            ),
            retention::run(context.clone(), stop.clone()),
            drive::drive(caches.threads, receivers.threads, context, thread::reconcile, stop),
        )
    };
    tokio::select! {
        biased;
        () = lease.lost() => anyhow::bail!("another replica acts: this one ends"),
        ((), (), (), ()) = work => {}
        () = async { late.await; std::future::pending().await } => {}
    }
    ready.set(false);
    // Only now: nothing of ours is under way any more.
    lease.release().await;
    Ok(())
}

/// Whatever was told while somebody else acted is looked at now.
fn queue_all(context: &context::Context) {
    let queues = &context.queues;
    context.repos.state().iter().for_each(|repo| queues.repo(&Key::of(&**repo)));
    context.roles.state().iter().for_each(|role| queues.role(&Key::of(&**role)));
    context.all_threads.state().iter().for_each(|thread| queues.thread(&Key::of(&**thread)));
}

/// Learns which slots are given, however often that has to be tried.
/// Answers the namespaces where that can't be learned yet.
async fn primed(
    client: &Client,
    scope: &Scope,
    slots: &slots::Slots,
    fence: &thread::Fence,
) -> Vec<String> {
    loop {
        match thread::prime(client, scope, slots, fence).await {
            Ok(unread) => return unread,
            Err(error) => {
                tracing::warn!(%error, "which roles run is not known yet, trying again");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }
}
