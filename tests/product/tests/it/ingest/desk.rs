//! A team's channel, with the gateway's Slack part at work on it and nothing else.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{AgentRole, Repo, Thread, condition, names};
use codebutler_gateway_core::attended::AttendedThreads;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::{DialOptions, OutsideDialer};
use codebutler_gateway_core::metrics::GatewayMetrics as Counted;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_runtime::metrics::build_registry;
use codebutler_runtime::shards::GatewayShard;
use codebutler_slack::{SlackGateway, SlackMetrics};
use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::place::{InstallPlace, PlaceLease};
use codebutler_testbed::slack::{SlackOptions, SlackServer};
use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Timeout of anything on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// Deviations of a test's world from the usual one.
#[derive(Default)]
pub(super) struct Setting {
    pub bot_token: Option<&'static str>,
    pub channel: Option<&'static str>,
    /// OAuth scopes of the bot.
    pub scopes: Option<&'static [&'static str]>,
    /// Message in the channel from before the Repo exists.
    pub said_before: Option<&'static str>,
    /// Time for which the gateway knows nothing of the cluster.
    pub slow_lists: Duration,
    /// Time that Slack takes to close a socket after it has asked for another one.
    pub grace: Option<Duration>,
    /// Channels that the app is not in, beside its own: `channel-0` and so on.
    pub others: usize,
}

pub(super) struct Desk {
    lease: PlaceLease,
    pub place: InstallPlace,
    pub cluster: TestCluster,
    pub slack: SlackServer,
    pub channel: String,
    pub ana: String,
    pub gateway: Option<Gateway>,
    _dir: tempfile::TempDir,
}

/// One process's worth of the gateway.
pub(super) struct Gateway {
    pub slack: SlackGateway,
    pub threads: ThreadWriter,
    pub context: GatewayContext,
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
    showing: JoinHandle<()>,
    _caches: JoinSet<()>,
}

impl Gateway {
    fn start(
        client: Client,
        place: &InstallPlace,
        api_url: &str,
        slow_lists: Duration,
        holds: bool,
    ) -> Self {
        let mut caches = JoinSet::new();
        let attended = AttendedThreads::default();
        let attends = attended.clone();
        let attend = move |event: &_| attends.observe(event);
        let context = GatewayContext {
            repos: cache((&client, &place.team), slow_lists, &mut caches, |_| {}),
            roles: cache((&client, &place.team), slow_lists, &mut caches, |_| {}),
            threads: cache((&client, &place.team), slow_lists, &mut caches, attend),
            attended,
            shard: GatewayShard::default(),
            client: client.clone(),
            namespace: place.system.clone(),
            redactors: codebutler_gateway_core::redact::RepoRedactors::default(),
            history: codebutler_gateway_core::history::HistoryKeeper::default(),
            mcp: codebutler_gateway_core::mcp_facts::McpFacts::default(),
            pages: None,
            github: codebutler_gateway_core::github::GitHubAccess::default(),
            groups: codebutler_gateway_core::groups::UserGroups::default(),
            dialer: OutsideDialer::new(&DialOptions::default()).unwrap(),
        };
        let mut families = build_registry();
        let threads = ThreadWriter::new(client, Counted::register(&mut families));
        let metrics = SlackMetrics::new(&mut families);
        let url = api_url.parse().unwrap();
        let slack = SlackGateway::new(context.clone(), threads.clone(), &url, metrics);
        let stop = CancellationToken::new();
        let (serving, token) = (slack.clone(), stop.clone());
        let running = tokio::spawn(async move { serving.run(token).await });
        let (holder, token) = (slack.clone(), stop.clone());
        let showing = tokio::spawn(async move {
            if holds {
                holder.show_runs(GatewayShard::default(), token).await;
            }
        });
        Self { slack, threads, context, stop, running, showing, _caches: caches }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.running).await.unwrap().unwrap().unwrap();
        tokio::time::timeout(PATIENCE, self.showing).await.unwrap().unwrap();
    }
}

fn cache<K>(
    (client, namespace): (&Client, &str),
    after: Duration,
    tasks: &mut JoinSet<()>,
    observe: impl Fn(&Event<K>) + Send + 'static,
) -> Store<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    let (store, writer) = reflector::store();
    let events =
        watcher(Api::<K>::namespaced(client.clone(), namespace), watcher::Config::default());
    let events = events.default_backoff().reflect(writer);
    tasks.spawn(async move {
        tokio::time::sleep(after).await;
        let heard = move |event: Result<Event<K>, watcher::Error>| {
            let _ = event.as_ref().map(&observe);
            std::future::ready(())
        };
        events.for_each(heard).await;
    });
    store
}

impl Desk {
    pub(super) async fn start() -> Self {
        let desk = Self::with(Setting::default()).await;
        desk.slack.wait_connected(1, PATIENCE).await.unwrap();
        desk
    }

    pub(super) async fn with(setting: Setting) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let cluster = TestCluster::start(dir.path()).await.unwrap();
        cluster.install_crds().await.unwrap();
        let place = InstallPlace::own();
        place.make(&cluster).await.unwrap();
        let mut given = SlackOptions::default();
        if let Some(scopes) = setting.scopes {
            given.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        }
        given.timing.refresh_grace = setting.grace.unwrap_or(given.timing.refresh_grace);
        let slack = SlackServer::start(given).await.unwrap();
        slack.create_channels((0..setting.others).map(|n| format!("channel-{n}")));
        let ana = slack.create_user("ana", "Ana Example");
        let channel = slack.create_channel("shop", &[&ana]);
        if let Some(text) = setting.said_before {
            slack.post_as(&ana, &channel, None, text).unwrap();
        }
        let host = slack.origin().to_owned();
        let bot = setting.bot_token.map_or_else(|| slack.bot_token(), str::to_owned);
        let named = setting.channel.unwrap_or(&channel);
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": place.team, "name": "shop-slack",
                "annotations": {names::ANNOTATION_HOSTS: host}},
            "stringData": {"botToken": bot, "appToken": slack.app_token()},
        })];
        for role in ["pm", "coder"] {
            objects.push(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
                "metadata": {"namespace": place.team, "name": role},
                "spec": {"role": role, "model": {"default": "scripted"},
                    "display": {"name": format!("The {role}"), "icon": format!(":{role}:")}},
            }));
        }
        objects.push(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"namespace": place.team, "name": "shop"},
            "spec": {
                "git": {"url": "https://git.example.org/acme/shop", "credentials": {"name": "git"}},
                "slack": {"channel": named, "credentials": {"name": "shop-slack"}},
                "model": {"credentials": {"name": "model"}},
                "roles": ["pm", "coder"],
            },
        }));
        for object in objects {
            cluster.apply_yaml(&object.to_string()).await.unwrap();
        }
        let lease = place.lease(&cluster);
        let mut desk =
            Self { lease, place, cluster, slack, channel, ana, gateway: None, _dir: dir };
        desk.start_gateway(setting.slow_lists);
        desk
    }

    /// Starts the gateway anew.
    pub(super) fn restart(&mut self) {
        self.start_gateway(Duration::ZERO);
    }

    /// Starts another replica beside it, which does not hold the lease.
    pub(super) fn standby(&self) -> CancellationToken {
        let client = self.cluster.client();
        let other =
            Gateway::start(client, &self.place, &self.slack.api_url(), Duration::ZERO, false);
        let stop = other.stop.clone();
        tokio::spawn(async move {
            other.stop.cancelled().await;
            other.stop().await;
        });
        stop
    }

    fn start_gateway(&mut self, slow_lists: Duration) {
        let (client, api_url) = (self.cluster.client(), self.slack.api_url());
        self.gateway = Some(Gateway::start(client, &self.place, &api_url, slow_lists, true));
    }

    pub(super) fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().unwrap()
    }

    pub(super) fn service(&self) -> &SlackGateway {
        &self.gateway().slack
    }

    pub(super) async fn stop(self) {
        if let Some(gateway) = self.gateway {
            gateway.stop().await;
        }
        self.slack.shutdown().await;
        self.cluster.shutdown().await;
        drop(self.lease);
    }

    /// Posts a message as Ana.
    pub(super) fn says(&self, thread: Option<&str>, text: &str) -> String {
        self.slack.post_as(&self.ana, &self.channel, thread, text).unwrap()
    }

    fn name(root: &str) -> String {
        names::thread_name("shop", &root.parse().unwrap())
    }

    pub(super) async fn thread(&self, root: &str) -> Option<Thread> {
        let api = Api::<Thread>::namespaced(self.cluster.client(), &self.place.team);
        api.get_opt(&Self::name(root)).await.unwrap()
    }

    pub(super) async fn threads(&self) -> Vec<Thread> {
        let api = Api::<Thread>::namespaced(self.cluster.client(), &self.place.team);
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub(super) async fn repo(&self) -> Repo {
        let api = Api::<Repo>::namespaced(self.cluster.client(), &self.place.team);
        api.get("shop").await.unwrap()
    }

    /// A role, as the gateway's identity part would find it.
    pub(super) async fn caller(&self, root: &str, role: &str) -> ProvenCaller {
        self.caller_of(&Self::name(root), role).await
    }

    /// A role of a Thread of this name, which the controller lets run.
    pub(super) async fn caller_of(&self, thread: &str, role: &str) -> ProvenCaller {
        let context = &self.gateway().context;
        let team = &*self.place.team;
        let key = ThreadKey { namespace: team.to_owned(), name: thread.to_owned() };
        self.until("the caches know the Thread", || async {
            context.thread(&key).is_some() && context.repo(team, "shop").is_some()
        })
        .await;
        let slot = json!({"status": {"roles": {role: {"admitted": true}}}});
        let (slot, params) = (Patch::Merge(slot), PatchParams::default());
        self.api().patch_status(thread, &params, &slot).await.unwrap();
        let status = || context.thread(&key)?.status.clone();
        self.until("the caches know of the slot", || async {
            status().is_some_and(|status| status.may_run(role, false))
        })
        .await;
        let repo = context.repo(team, "shop").unwrap();
        self.until("the caches know the roles", || async { context.roles_of(&repo).len() == 2 })
            .await;
        let roles: Vec<Arc<AgentRole>> = context.roles_of(&repo);
        let role = roles.into_iter().find(|r| r.spec.role == role).unwrap();
        ProvenCaller { thread: context.thread(&key).unwrap(), repo, role }
    }

    /// Posts as the app itself, as an earlier process would have.
    pub(super) async fn post_as_app(&self, body: &serde_json::Value) -> String {
        let url = format!("{}/chat.postMessage", self.slack.api_url());
        let request = reqwest::Client::new().post(url).bearer_auth(self.slack.bot_token());
        let answer: serde_json::Value =
            request.json(body).send().await.unwrap().json().await.unwrap();
        answer["ts"].as_str().unwrap().to_owned()
    }

    /// Sets a role's status as the controller and its pod's last report would.
    pub(super) async fn role(&self, root: &str, role: &str, fields: serde_json::Value) {
        self.patch_status(root, json!({"roles": {role: fields}})).await;
    }

    /// Sets fields of a Thread's status.
    pub(super) async fn patch_status(&self, root: &str, fields: serde_json::Value) {
        let patch = Patch::Merge(json!({"status": fields}));
        let name = Self::name(root);
        self.api().patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits for the reaction 👀.
    pub(super) async fn eyes(&self, ts: &str) {
        self.slack
            .wait_for("eyes", PATIENCE, |slack| {
                let message = slack.message(&self.channel, ts)?;
                message.reactions.iter().any(|r| r.name == "eyes").then_some(())
            })
            .await
            .unwrap();
    }

    /// Waits until the channel has a cursor.
    pub(super) async fn cursor(&self) {
        self.until("a cursor", || async {
            self.repo().await.status.is_some_and(|status| status.slack.cursor.is_some())
        })
        .await;
    }

    /// A Repo of the desk's own channel, which the first one is not.
    pub(super) async fn second_repo(&self) {
        self.second_repo_of("shop-slack").await;
    }

    /// The same with a Secret of its own.
    pub(super) async fn second_repo_of(&self, secret: &str) {
        let repo = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"namespace": self.place.team, "name": "second"},
            "spec": {
                "git": {"url": "https://git.example.org/acme/second", "credentials": {"name": "git"}},
                "slack": {"channel": self.channel, "credentials": {"name": secret}},
                "model": {"credentials": {"name": "model"}},
                "roles": ["pm", "coder"],
            },
        });
        self.cluster.apply_yaml(&repo.to_string()).await.unwrap();
        self.slack.wait_connected(1, PATIENCE).await.unwrap();
    }

    /// Slack's tokens in a Secret.
    pub(super) async fn slack_secret(&self, name: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": self.place.team, "name": name,
                "annotations": {names::ANNOTATION_HOSTS: self.slack.origin()}},
            "stringData": {"botToken": self.slack.bot_token(), "appToken": self.slack.app_token()},
        });
        self.cluster.apply_yaml(&secret.to_string()).await.unwrap();
    }

    /// Waits for the message of the Repo's condition on a reachable Slack.
    pub(super) async fn reachable(&self) -> String {
        let find = |repo: Repo| {
            let conditions = repo.status.unwrap_or_default().conditions;
            let mut found = conditions.into_iter();
            found.find(|c| c.type_ == condition::SLACK_REACHABLE && c.status == "True")
        };
        self.until("reachable", || async { find(self.repo().await).is_some() }).await;
        find(self.repo().await).unwrap().message
    }

    /// Waits until the Repo says that Slack can't be reached; returns why.
    pub(super) async fn unreachable(&self) -> String {
        let find = |repo: Repo| {
            let conditions = repo.status.unwrap_or_default().conditions;
            let mut found = conditions.into_iter();
            found.find(|c| c.type_ == condition::SLACK_REACHABLE && c.status == "False")
        };
        self.until("unreachable", || async { find(self.repo().await).is_some() }).await;
        find(self.repo().await).unwrap().message
    }

    /// Asks again and again until it is so.
    pub(super) async fn until<F>(&self, what: &str, mut is_so: impl FnMut() -> F)
    where
        F: Future<Output = bool>,
    {
        let asking = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, asking).await.is_ok(), "not in time: {what}");
    }
}
