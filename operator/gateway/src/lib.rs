//! The gateway: the one process that holds external secrets.
//!
//! Agents reach it over TLS ([`codebutler_gateway_core::serve`], [`tls`]) with their pod's token
//! ([`codebutler_gateway_core::identity`]). What they may do there is in [`api`]; what it does outside is
//! in crates of their own: [`codebutler_slack`], [`codebutler_models`], [`codebutler_git`],
//! [`codebutler_mcp_servers`]. In here they are wired ([`state`], [`holder`]), and the work that needs several
//! of them is done: [`train`], [`roadmap`], [`parts`], [`radar`], [`watch`], [`close`].

pub mod api;
pub mod args;
pub mod budget_pause;
pub mod builds;
pub mod caches;
pub mod cgroup;
pub mod close;
pub mod collect;
pub mod compared;
pub mod condition_notices;
pub mod described;
pub mod egress_endpoints;
pub mod endpoint_slices;
pub mod forecast;
pub mod guides;
pub mod holder;
pub mod learning;
pub mod naming;
mod offered_work;
pub mod origin;
pub mod overlap;
pub mod pages;
pub mod paid_calls;
pub mod parts;
pub mod png;
pub mod radar;
pub mod receipt;
pub mod receipt_report;
pub mod roadmap;
pub mod shards;
pub mod slack_consent;
pub mod starts;
pub mod state;
pub mod steering;
pub mod tls;
pub mod train;
pub mod watch;
pub mod web;
pub mod work;

use std::time::Duration;

use anyhow::Context as _;
use codebutler_crds::names;
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::dial::OutsideDialer;
use codebutler_gateway_core::egress::ThreadEgress;
use codebutler_gateway_core::history::HistoryKeeper;
use codebutler_gateway_core::identity::{CallerIdentity, PodIndex};
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_git::mirror::RepoMirrors;
use codebutler_mcp_servers::ListStore;
use codebutler_runtime::listen::listen_on;
use codebutler_runtime::metrics::{MetricsServer, ReadyFlag, build_registry};
use codebutler_runtime::scope::WatchScope;
use codebutler_runtime::step;
use codebutler_slack::{SlackGateway, SlackMetrics};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::args::GatewayArgs;

/// Timeout for writing out the end of the history.
const FLUSH: Duration = Duration::from_secs(3);

/// Runs until told to stop.
///
/// # Errors
/// When the Kubernetes API can't be used at all, or a port is taken.
pub async fn run_gateway(args: GatewayArgs) -> anyhow::Result<()> {
    step::arm(args.die_at_step);
    let shutdown = CancellationToken::new();
    // However this ends, the tasks that it started end too.
    let _stop = shutdown.clone().drop_guard();
    stop_on_signals(shutdown.clone())?;
    let api_url = Url::parse(&args.slack_api).context("--slack-api is no URL")?;
    let dialer = OutsideDialer::new(&args.dial)?;
    // Both ports are tried first, so that a wrong flag is told at once.
    drop(listen_on(args.listen).with_context(|| {
        format!("agents can't be served on {}: choose another --listen", args.listen)
    })?);
    let mut registry = build_registry();
    let metrics = GatewayMetrics::register(&mut registry);
    metrics.shards(args.shards);
    let slack_metrics = SlackMetrics::new(&mut registry);
    let ready = ReadyFlag::default();
    let _metrics = MetricsServer::start(args.metrics_address, registry, ready.clone())?;

    let client = codebutler_runtime::platform::open_client(names::GATEWAY).await?;
    let installed = codebutler_runtime::definitions::await_definitions(&client, &ready);
    if shutdown.run_until_cancelled(installed).await.is_none() {
        return Ok(());
    }
    let index = PodIndex::default();
    let scope = WatchScope::of(&args.namespaces);
    let own = (args.namespace.clone(), dialer.clone());
    let started = caches::start_caches(client.clone(), own, &scope, &index, &shutdown).await;
    let Some(mut context) = started else { return Ok(()) };
    context.pages = args.pages.links().map(Into::into);
    if let Some(root) = &args.history {
        let url = args.history_url.as_ref();
        let dialer = context.dialer.clone();
        let history =
            HistoryKeeper::at(root, url, &dialer, (metrics.clone(), args.history_space()))?;
        context.history = history.knowing(&context.threads);
    }
    let tls = tls::server_config(&client, &args, shutdown.clone()).await?;
    let threads = ThreadWriter::new(client.clone(), metrics.clone());
    let slack = SlackGateway::new(context.clone(), threads.clone(), &api_url, slack_metrics);
    let gateway = state::GatewayBase {
        mirrors: RepoMirrors::new(args.git_cache.clone())
            .within(args.git_cache_limit, cgroup::memory_limit()),
        tool_lists: ListStore::in_cache(&args.git_cache),
        identity: CallerIdentity::new(context.clone(), index, metrics.clone()),
        conditions: ConditionWriter::new(client, context.redactors.clone()),
        context,
        threads,
        slack: slack.clone(),
        egress: ThreadEgress::new(dialer),
        search: args.search.clone().into(),
        metrics,
        shutdown: shutdown.clone(),
    };
    offered_work::offer_work(&gateway);
    pages::serve_pages(&args.pages, &gateway, shutdown.clone())?;
    starts::deliveries::serve_deliveries(args.deliveries_listen, &gateway, shutdown.clone())?;
    // Slack is heard by every replica, agents by the holder of their shard's lease alone.
    ready.set(true);
    let agents = holder::hold_lease(&gateway, &args, tls);
    let slack = async {
        // Without Slack the gateway is of no use: stop, so that it is started anew.
        let outcome = slack.run(shutdown.clone()).await;
        shutdown.cancel();
        Ok(outcome.context("Slack's part stopped"))
    };
    let ended = tokio::try_join!(agents, slack);
    gateway.context.history.flush(FLUSH).await;
    let ((), outcome) = ended?;
    ready.set(false);
    outcome
}

fn stop_on_signals(shutdown: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutdown_started");
        shutdown.cancel();
    });
    Ok(())
}
