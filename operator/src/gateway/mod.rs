//! The gateway: the one process that holds external secrets.
//!
//! Agents reach it over TLS ([`serve`], [`tls`]) with their pod's token ([`identity`]). What they may
//! do there is in [`api`]; what it does outside is in [`slack`], [`models`], [`git`] and [`github`].

pub mod api;
pub mod api_error;
pub mod approval;
pub mod asker;
pub mod attended;
pub mod bodies;
pub mod bridges;
pub mod budget;
pub mod builds;
pub mod caches;
pub mod caller;
mod cgroup;
pub mod close;
mod collect;
mod compared;
pub mod conditions;
pub mod consent;
pub mod context;
mod credential;
mod described;
pub mod dial;
mod dispatch;
mod drain;
pub mod drawings;
pub mod egress;
pub mod extract;
mod finished;
mod forecast;
#[cfg(test)]
mod fuzz;
pub mod git;
pub mod github;
pub mod guides;
pub mod history;
pub mod holder;
pub mod identity;
pub mod image_kind;
mod learning;
mod low_priority;
mod mark;
mod masks;
pub mod mcp;
pub mod mcp_facts;
pub mod mcp_grants;
mod mcp_pods;
pub mod metrics;
pub mod models;
pub mod notices;
mod origin;
pub mod overlap;
pub mod pages;
mod parts;
pub mod personal;
mod places;
mod png;
pub mod pulse;
pub mod radar;
mod receipt;
pub mod redact;
pub mod reminders;
pub mod remote;
pub mod repo_key;
mod revisions;
mod rights;
mod roadmap;
pub mod searcher;
pub mod secrets;
mod serve;
pub mod slack;
pub mod slack_consent;
mod sound;
pub mod speech;
pub mod starts;
pub mod state;
mod steering;
pub mod thread_key;
mod thread_queue;
pub mod threads;
pub mod tls;
pub mod told;
mod train;
pub mod watch;
pub mod web;
pub mod work;
mod writes;

use std::time::Duration;

use anyhow::Context as _;
use codebutler_crds::names;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use url::Url;

use self::conditions::ConditionWriter;
use self::git::mirror::RepoMirrors;
use self::identity::{CallerIdentity, PodIndex};
use self::slack::SlackGateway;
use self::threads::ThreadWriter;
use crate::args::GatewayArgs;
use crate::listen::listen_on;
use crate::metrics::{MetricsServer, ReadyFlag, build_registry};
use crate::scope::WatchScope;
use crate::step;

/// How long the end of the history may take.
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
    let dialer = dial::OutsideDialer::new(&args.dial)?;
    // Both ports are tried first, so that a wrong flag is told at once.
    drop(listen_on(args.listen).with_context(|| {
        format!("agents can't be served on {}: choose another --listen", args.listen)
    })?);
    let mut registry = build_registry();
    let metrics = metrics::GatewayMetrics::register(&mut registry);
    let slack_metrics = slack::SlackMetrics::new(&mut registry);
    let ready = ReadyFlag::default();
    let _metrics = MetricsServer::start(args.metrics_address, registry, ready.clone())?;

    let client = crate::platform::open_client(names::GATEWAY).await?;
    let installed = crate::definitions::await_definitions(&client, &ready);
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
        let history = history::HistoryKeeper::at(
            root,
            url,
            &dialer,
            (metrics.clone(), args.history_space()),
        )?;
        context.history = history.knowing(&context.threads);
    }
    let tls = tls::server_config(&client, &args, shutdown.clone()).await?;
    let threads = ThreadWriter::new(client.clone(), metrics.clone());
    let slack = SlackGateway::new(context.clone(), threads.clone(), &api_url, slack_metrics);
    let gateway = state::GatewayBase {
        mirrors: RepoMirrors::new(args.git_cache.clone())
            .within(args.git_cache_limit, cgroup::memory_limit()),
        identity: CallerIdentity::new(context.clone(), index, metrics.clone()),
        conditions: ConditionWriter::new(client, context.redactors.clone()),
        context,
        threads,
        slack: slack.clone(),
        egress: egress::ThreadEgress::new(dialer),
        search: args.search.clone().into(),
        metrics,
        shutdown: shutdown.clone(),
    };
    pages::serve_pages(&args.pages, &gateway, shutdown.clone())?;
    starts::deliveries::serve_deliveries(args.deliveries_listen, &gateway, shutdown.clone())?;
    // Slack is heard by every replica, agents by the holder of the lease alone.
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
        tracing::info!("stopping");
        shutdown.cancel();
    });
    Ok(())
}
