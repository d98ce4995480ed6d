//! The agents' port, served by one replica at a time: the one that holds the lease. The Service leads
//! to it by its [`Mark`]; who loses the lease stops at once.

use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use rustls::ServerConfig;

use super::api::Shared;
use super::budget::pause;
use super::mark::Mark;
use super::models::facts::catalog;
use super::models::settle;
use super::{git, serve, told, watch};
use crate::args::GatewayArgs;
use crate::lease::{self, Settings};
use crate::listen::listen;

/// Name of the Lease, in the operator's namespace.
pub const LEASE: &str = "codebutler-gateway";
/// How long paid or half-done work may take once the agents' port is closed.
const GRACE: Duration = Duration::from_secs(8);

/// Campaigns, and serves agents while the lease is held; returns when told to stop.
///
/// # Errors
/// When the lease was lost: another replica may serve already, so the process has to end.
pub async fn run(
    gateway: &Shared,
    args: &GatewayArgs,
    tls: ServerConfig,
    app: Router,
) -> anyhow::Result<()> {
    let client = gateway.context.client.clone();
    let mark = Mark::new(client.clone(), args);
    // A container that is started again in a pod that was the holder's.
    mark.remove().await;
    let identity =
        args.pod.clone().unwrap_or_else(|| format!("gateway-{:08x}", rand::random::<u32>()));
    let settings = Settings {
        namespace: args.namespace.clone(),
        name: LEASE.to_owned(),
        identity,
        duration: Duration::from_secs(args.lease_seconds.max(3)),
    };
    let lease = lease::start(client, settings);
    if gateway.shutdown.run_until_cancelled(lease.held()).await.is_some() {
        tokio::select! {
            served = serve_agents(gateway, args, tls, app, &mark) => served?,
            () = lease.lost() => {
                gateway.shutdown.cancel();
                bail!("the lease is lost: another gateway may serve agents already");
            }
        }
        mark.remove().await;
    }
    lease.release().await;
    Ok(())
}

async fn serve_agents(
    gateway: &Shared,
    args: &GatewayArgs,
    tls: ServerConfig,
    app: Router,
    mark: &Mark,
) -> anyhow::Result<()> {
    gateway.ledger.inherit().await;
    gateway.builds.inherit(&gateway.context);
    let address = args.listen;
    let listener = listen(address)
        .with_context(|| format!("agents can't be served on {address}: choose another --listen"))?;
    mark.take().await;
    gateway.metrics.leads();
    for repo in gateway.context.repos.state() {
        for role in gateway.context.roles_of(&repo) {
            gateway.metrics.expect(&repo, &role);
        }
    }
    tracing::info!(address = %listener.local_addr()?, "serving agents");
    let serving =
        serve::serve(listener, tls, app, serve::Limits::default(), gateway.shutdown.clone());
    // One replica tells people of a Thread's conditions and collects it, and asks GitHub what people
    // did there: two would say it twice.
    let telling = Box::pin(told::run(gateway));
    let watching = Box::pin(watch::run(gateway, args.github_poll()));
    let showing = Box::pin(gateway.slack.show_runs(gateway.shutdown.clone()));
    let tidying = git::tidy(gateway);
    let probing = Box::pin(git::probe::run(gateway));
    let settling = settle::run(gateway, settle::PATIENCE);
    let knowing = Box::pin(catalog::run(gateway));
    let people = async { tokio::join!(telling, watching, showing) };
    let found = mark.keep(&gateway.shutdown);
    let knowing = async { tokio::join!(probing, settling, knowing) };
    tokio::join!(serving, pause::wake(gateway), people, tidying, knowing, found);
    gateway.calls.close();
    if tokio::time::timeout(GRACE, gateway.calls.wait()).await.is_err() {
        tracing::warn!(open = gateway.calls.len(), "work was cut off");
    }
    gateway.ledger.close().await;
    Ok(())
}
