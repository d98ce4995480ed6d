//! Waiting time of Slack until messages are stored: a burst in many conversations, far above what Slack
//! sends to one app, on the embedded API server.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use anyhow::Context as _;
use codebutler_crds::{Thread, names};
use codebutler_gateway_core::attended::AttendedThreads;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::{DialOptions, OutsideDialer};
use codebutler_gateway_core::metrics::GatewayMetrics as Counted;
use codebutler_gateway_core::redact::RepoRedactors;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_runtime::metrics::build_registry;
use codebutler_runtime::shards::GatewayShard;
use codebutler_slack::{SlackGateway, SlackMetrics};
use codebutler_testbed::apiserver;
use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::slack::{SlackOptions, SlackServer};
use futures::StreamExt as _;
use kube::api::ListParams;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{MeasuredFigure, find_percentile, long_or_short};

const NAMESPACE: &str = "team";
/// Envelopes, conversations that they are in, and the time between two.
const ENVELOPES: usize = long_or_short(1000, 50);
const CONVERSATIONS: usize = long_or_short(100, 10);
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_mins(2);

/// Latency of acknowledgements, and whether every message moved its mark exactly once.
pub(super) async fn measure_ingest() -> anyhow::Result<Vec<MeasuredFigure>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir()?;
    let cluster = TestCluster::embedded(dir.path(), apiserver::ServerOptions::default()).await?;
    cluster.install_crds().await?;
    let slack = SlackServer::start(SlackOptions::default()).await?;
    let ana = slack.create_user("ana", "Ana");
    let channel = slack.create_channel("shop", &[&ana]);
    install_repo(&cluster, &slack, &channel).await?;

    let mut caches = JoinSet::new();
    let client = cluster.client();
    let attended = AttendedThreads::default();
    let attends = attended.clone();
    let context = GatewayContext {
        repos: start_cache(&client, &mut caches, |_| {}),
        roles: start_cache(&client, &mut caches, |_| {}),
        threads: start_cache(&client, &mut caches, move |event| attends.observe(event)),
        attended,
        shard: GatewayShard::default(),
        client: client.clone(),
        namespace: NAMESPACE.to_owned(),
        redactors: RepoRedactors::default(),
        github: codebutler_gateway_core::github::GitHubAccess::default(),
        groups: codebutler_gateway_core::groups::UserGroups::default(),
        // Slack is on this machine, where no Repo's Secret may be sent otherwise.
        dialer: OutsideDialer::new(&DialOptions {
            egress_allow: vec!["127.0.0.0/8".parse().map_err(anyhow::Error::msg)?],
            ..DialOptions::default()
        })?,
        history: codebutler_gateway_core::history::HistoryKeeper::default(),
        mcp: codebutler_gateway_core::mcp_facts::McpFacts::default(),
        pages: None,
    };
    let api_url = slack.api_url().parse()?;
    let mut families = build_registry();
    let metrics = SlackMetrics::new(&mut families);
    let threads = ThreadWriter::new(client.clone(), Counted::register(&mut families));
    let gateway = SlackGateway::new(context, threads, &api_url, metrics);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { gateway.run(stop).await }
    });
    slack.wait_connected(1, PATIENCE).await?;

    let said = talk_much(&slack, &ana, &channel).await?;
    let figures = match await_acknowledged(&slack).await {
        Ok(()) => ingest_figures(&slack, &client, &said).await,
        Err(error) => Err(error),
    };
    stop.cancel();
    let _ = running.await;
    // Before what they watch is gone.
    caches.shutdown().await;
    slack.shutdown().await;
    cluster.shutdown().await;
    figures
}

/// First and newest message of a conversation.
struct SaidMessages {
    root: String,
    newest: String,
}

async fn talk_much(
    slack: &SlackServer,
    user: &str,
    channel: &str,
) -> anyhow::Result<Vec<SaidMessages>> {
    let mut said: Vec<SaidMessages> = Vec::with_capacity(CONVERSATIONS);
    for n in 0..ENVELOPES {
        let known = (n >= CONVERSATIONS).then_some(n % CONVERSATIONS);
        let root = known.map(|index| said[index].root.clone());
        let ts = slack.post_as(user, channel, root.as_deref(), "and one more")?;
        match known {
            Some(index) => said[index].newest = ts,
            None => said.push(SaidMessages { root: ts.clone(), newest: ts }),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(said)
}

async fn await_acknowledged(slack: &SlackServer) -> anyhow::Result<()> {
    let all = |slack: &SlackServer| {
        let deliveries = slack.deliveries();
        let done = deliveries.iter().filter(|d| d.acked_at.is_some() || d.lost).count();
        (deliveries.len() >= ENVELOPES && done == deliveries.len()).then_some(())
    };
    slack.wait_for("every envelope acknowledged", PATIENCE, all).await?;
    Ok(())
}

async fn ingest_figures(
    slack: &SlackServer,
    client: &Client,
    said: &[SaidMessages],
) -> anyhow::Result<Vec<MeasuredFigure>> {
    let deliveries = slack.deliveries();
    let messages = deliveries.iter().filter(|d| d.event_type == "message");
    let waited = messages.filter_map(|d| Some(d.acked_at?.duration_since(d.emitted_at)));
    let mut waited: Vec<f64> = waited.map(|waited| waited.as_secs_f64() * 1e3).collect();
    let answered = waited.len();
    let p95 = find_percentile(&mut waited, 95);
    let threads = Api::<Thread>::namespaced(client.clone(), NAMESPACE);
    let threads = threads.list(&ListParams::default()).await?.items;
    let marks: BTreeSet<(String, String)> = threads
        .iter()
        .flat_map(|thread| {
            let roles = thread.status.iter().flat_map(|status| status.roles.values());
            let inboxes = roles.filter_map(|role| role.inbox.as_ref());
            inboxes.map(|ts| (thread.name_any(), ts.to_string())).collect::<Vec<_>>()
        })
        .collect();
    let mut unmarked = 0;
    for SaidMessages { root, newest } in said {
        let name = names::thread_name("shop", &root.parse().context("a ts of the test's own")?);
        unmarked += usize::from(!marks.contains(&(name, newest.clone())));
    }
    let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let lost = ENVELOPES.saturating_sub(answered) + unmarked;
    let doubled = threads.len().saturating_sub(CONVERSATIONS) + slack.stats().redelivered;
    Ok(vec![
        MeasuredFigure::at_most("ingest.ack_p95", p95, "ms", 100.0)
            .beside(find_percentile(&mut waited, 50)),
        MeasuredFigure::at_most("ingest.lost", count(lost), "count", 0.0),
        MeasuredFigure::at_most("ingest.doubled", count(doubled), "count", 0.0),
    ])
}

async fn install_repo(
    cluster: &TestCluster,
    slack: &SlackServer,
    channel: &str,
) -> anyhow::Result<()> {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": NAMESPACE, "name": "slack",
                "annotations": {names::ANNOTATION_HOSTS: slack.origin()}},
            "stringData": {"botToken": slack.bot_token(), "appToken": slack.app_token()},
        }),
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
            "metadata": {"namespace": NAMESPACE, "name": "pm"},
            "spec": {"role": "pm", "model": {"default": "scripted"},
                "display": {"name": "PM", "icon": ":compass:"}},
        }),
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"namespace": NAMESPACE, "name": "shop"},
            "spec": {
                "git": {"url": "https://git.example.org/acme/shop", "credentials": {"name": "git"}},
                "slack": {"channel": channel, "credentials": {"name": "slack"}},
                "model": {"credentials": {"name": "model"}},
                "roles": ["pm"],
            },
        }),
    ];
    for object in objects {
        cluster.apply_yaml(&object.to_string()).await?;
    }
    Ok(())
}

fn start_cache<K>(
    client: &Client,
    tasks: &mut JoinSet<()>,
    observe: impl Fn(&Event<K>) + Send + 'static,
) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    let (store, writer) = reflector::store();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default());
    let events = events.default_backoff().reflect(writer);
    let heard = move |event: Result<Event<K>, watcher::Error>| {
        let _ = event.as_ref().map(&observe);
        std::future::ready(())
    };
    tasks.spawn(async move { events.for_each(heard).await });
    store
}
