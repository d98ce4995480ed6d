//! The gateway: the one process that holds external secrets.
//!
//! Agents reach it over TLS ([`serve`], [`tls`]) with their pod's token ([`identity`]). What they may
//! do there is in [`api`]; what it does outside is in [`slack`], [`models`], [`git`] and [`github`].

pub mod api;
pub mod approval;
pub mod caches;
pub mod close;
pub mod conditions;
pub mod context;
pub mod egress;
#[cfg(test)]
mod fuzz;
pub mod git;
pub mod github;
pub mod identity;
pub mod metrics;
pub mod models;
pub mod redact;
pub mod remote;
mod serve;
pub mod slack;
pub mod threads;
pub mod tls;
pub mod web;

use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use self::conditions::Conditions;
use self::identity::{Identity, PodIndex};
use self::slack::Slack;
use self::threads::Threads;
use crate::args::GatewayArgs;
use crate::metrics::{Ready, Server, registry};

/// How long paid or half-done work may take once the agents' port is closed.
const GRACE: Duration = Duration::from_secs(8);

/// Runs until told to stop.
///
/// # Errors
/// When the Kubernetes API can't be used at all, or a port is taken.
pub async fn run(args: GatewayArgs) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    // However this ends, the tasks that it started end too.
    let _stop = shutdown.clone().drop_guard();
    stop_on_signals(shutdown.clone())?;
    let api_url = Url::parse(&args.slack_api).context("--slack-api is no URL")?;
    // Both ports are taken first, so that a wrong flag is told at once.
    let listener = TcpListener::bind(args.listen).await.with_context(|| {
        format!("agents can't be served on {}: choose another --listen", args.listen)
    })?;
    let mut registry = registry();
    let metrics = metrics::Metrics::register(&mut registry);
    let slack_metrics = slack::Metrics::new(&mut registry);
    let ready = Ready::default();
    let _metrics = Server::start(args.metrics_address, registry, ready.clone()).await?;

    let client = kube::Client::try_default().await.context("no access to the Kubernetes API")?;
    let index = PodIndex::default();
    let started = caches::start(client.clone(), args.namespace.clone(), &index, &shutdown).await;
    let Some(context) = started else { return Ok(()) };
    let tls = tls::server_config(&client, &args, shutdown.clone()).await?;
    let threads = Threads::new(client.clone());
    let slack = Slack::new(context.clone(), threads.clone(), &api_url, slack_metrics)?;
    let calls = TaskTracker::new();
    let gateway = api::Gateway {
        identity: Identity::new(context.clone(), index, metrics.clone()),
        conditions: Conditions::new(client),
        context,
        threads,
        slack: slack.clone(),
        http: http_client()?,
        egress: egress::Egress::new(args.egress_allow.clone()),
        search: args.search.clone().into(),
        metrics,
        calls: calls.clone(),
        shutdown: shutdown.clone(),
    };
    let app = api::router(gateway.into());
    tracing::info!(address = %listener.local_addr()?, "serving agents");
    ready.set(true);
    let agents = serve::serve(listener, tls, app, shutdown.clone());
    let slack = async {
        // Without Slack the gateway is of no use: stop, so that it is started anew.
        let outcome = slack.run(shutdown.clone()).await;
        shutdown.cancel();
        outcome.context("Slack's part stopped")
    };
    let ((), outcome) = tokio::join!(agents, slack);
    ready.set(false);
    calls.close();
    if tokio::time::timeout(GRACE, calls.wait()).await.is_err() {
        tracing::warn!(open = calls.len(), "work was cut off");
    }
    outcome
}

/// For model providers and Git hosts. A redirect would carry a credential to a host that its Secret
/// does not name.
fn http_client() -> anyhow::Result<reqwest::Client> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("codebutler/", env!("CARGO_PKG_VERSION")))
        .build()
        .context("no HTTP client")
}

fn stop_on_signals(shutdown: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        shutdown.cancel();
    });
    Ok(())
}
