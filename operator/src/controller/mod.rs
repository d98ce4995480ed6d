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
mod repo;
mod role;
#[cfg(test)]
mod testing;
mod thread;

use std::sync::Arc;

use anyhow::Context as _;
use codebutler_crds::names;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::apply::Apply;
use crate::args::ControllerArgs;
use crate::metrics::{Ready, Server};

/// Runs until told to stop (SIGTERM, SIGINT), then ends what is in progress.
///
/// # Errors
/// When there is no usable configuration for the Kubernetes API, or the metrics port is taken.
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    let client = Client::try_default()
        .await
        .context("no Kubernetes API: run inside a cluster, or set KUBECONFIG")?;
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

/// Runs until `stop`.
///
/// # Errors
/// When the metrics port is taken.
pub async fn serve(
    args: ControllerArgs,
    client: Client,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (caches, mut watches, receivers) = caches::start(&client, &args);
    let mut registry = crate::metrics::registry();
    let metrics = metrics::Metrics::register(&mut registry, caches.threads.clone());
    let ready = Ready::default();
    let _server = Server::start(args.metrics_address, registry, ready.clone()).await?;
    tokio::select! {
        () = watches.synced() => {}
        () = stop.cancelled() => return Ok(()),
    }
    ready.set(true);
    tracing::info!("caches are synced");
    let context = Arc::new(context::Context {
        args,
        clock: clock::Clock::system(),
        apply: Apply::new(client, names::CONTROLLER),
        metrics,
        repos: caches.repos.clone(),
        roles: caches.roles.clone(),
        threads: caches.by_repo,
        pods: caches.pods,
        volumes: caches.volumes,
        accounts: caches.accounts,
        policies: caches.policies,
        authorities: caches.authorities,
        services: caches.services,
    });
    tokio::join!(
        drive::drive(caches.repos, receivers.repos, context.clone(), repo::reconcile, stop.clone()),
        drive::drive(caches.roles, receivers.roles, context.clone(), role::reconcile, stop.clone()),
        drive::drive(caches.threads, receivers.threads, context, thread::reconcile, stop),
    );
    ready.set(false);
    Ok(())
}
