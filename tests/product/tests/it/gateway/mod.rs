//! The gateway's API as an agent pod meets it: on the API server with the gateway's own rights, with
//! a Git host, a model server and a Slack behind it.

mod announcing;
mod app;
mod approvals;
mod budget;
mod close;
mod cluster;
mod collection;
mod compared;
mod crash;
mod crash_cap;
mod crash_settle;
mod crash_slack;
mod described;
mod drawing;
mod egress;
mod git;
mod handover;
mod hosts;
mod identity;
mod incoming;
mod key_order;
mod llama;
mod mcp;
mod mcp_lists;
pub(crate) mod mcp_page;
mod mcp_questions;
mod mcp_refused;
mod mcp_results;
mod mcp_trust;
mod merging;
mod models;
mod moved;
mod probing;
mod providers;
mod proxied;
mod pull_request;
mod pulls;
mod push_approval;
mod redteam;
mod redteam_bounds;
mod redteam_endpoints;
mod redteam_git;
mod redteam_inside;
mod redteam_rules;
mod reminding;
mod remote;
mod remote_change;
mod removed;
mod replicas;
mod rights;
mod robots;
mod search_services;
mod searching;
mod seats;
mod sending;
mod server_pods;
mod server_starts;
mod servers;
mod several_providers;
mod shards;
mod shares;
mod sparse;
mod tls;
mod trouble;
mod watch;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use codebutler_crds::{AgentRole, Repo, Thread, names};
use codebutler_gateway::api;
use codebutler_gateway::budget_pause;
use codebutler_gateway::caches;
use codebutler_gateway::state::{GatewayBase, SharedGateway};
use codebutler_gateway::web;
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::dial::{DialOptions, OutsideDialer};
use codebutler_gateway_core::egress::ThreadEgress;
use codebutler_gateway_core::identity::{CallerIdentity, PodIndex};
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_git::mirror::RepoMirrors;
use codebutler_mcp_servers::ListStore;
use codebutler_models::{build_speech_desk, settle};
use codebutler_runtime::metrics::{MetricsServer, ReadyFlag, build_registry};
use codebutler_runtime::scope::WatchScope;
use codebutler_runtime::shards::GatewayShard;
use codebutler_slack::{self, SlackGateway};
use codebutler_testbed::github::{DrivenRepository, FirstCommit, GitHubOptions, GitHubServer};
use codebutler_testbed::models::{ModelOptions, ModelScript, ModelServer, ScriptStep};
use codebutler_testbed::slack::{SlackOptions, SlackServer};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use self::cluster::{ACCOUNT, Cluster};

const AUDIENCE: &str = "codebutler-gateway";

/// A gateway for one Thread with a `pm`, who may not push, a `coder`, who may once the plan is
/// approved, and a `lead`, who ends it.
struct World {
    url: String,
    http: reqwest::Client,
    cluster: Cluster,
    github: GitHubServer,
    remote: DrivenRepository,
    models: ModelServer,
    slack: SlackServer,
    /// User who began the conversation.
    ana: String,
    channel: String,
    /// `ts` of the conversation's first message.
    root: String,
    /// The Thread and its branch.
    name: String,
    branch: String,
    /// Tokens of the pods, by role.
    tokens: BTreeMap<String, String>,
    metrics: MetricsServer,
    gateway: SharedGateway,
    dir: tempfile::TempDir,
    _alive: (AbortOnDropHandle<()>, DropGuard),
}

impl World {
    async fn start(steps: Vec<ScriptStep>) -> Self {
        Self::play(ModelScript::of("coder", steps), &json!({}), &json!({})).await
    }

    /// Starts a world with these fields in the Repo's `spec`, and in the coder's `spec.model`.
    async fn play(script: ModelScript, spec: &Value, model: &Value) -> Self {
        Self::play_in(SlackOptions::default(), script, spec, model).await
    }

    /// Starts a world in such a workspace.
    async fn play_in(
        workspace: SlackOptions,
        script: ModelScript,
        spec: &Value,
        model: &Value,
    ) -> Self {
        Self::play_at(workspace, ModelOptions::default(), script, (spec, model)).await
    }

    /// Starts a world with such a model provider.
    async fn play_at(
        workspace: SlackOptions,
        provider: ModelOptions,
        script: ModelScript,
        (spec, model): (&Value, &Value),
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("host");
        let github = GitHubServer::start(&host, GitHubOptions::default()).await.unwrap();
        let files = BTreeMap::from([("README.md".to_owned(), "# Shop\n".to_owned())]);
        let first = FirstCommit::Files(files);
        let remote = github.create_repo("acme", "shop", first, "main").await.unwrap();
        let models = ModelServer::start(script, provider).await.unwrap();
        let slack = SlackServer::start(workspace).await.unwrap();
        let user = slack.create_user("ana", "Ana");
        let channel = slack.create_channel("shop", &[&user]);
        let root = slack.post_as(&user, &channel, None, "The total is wrong").unwrap();
        let name = names::thread_name("shop", &root.parse().unwrap());

        let cluster = Cluster::start(dir.path()).await;
        cluster.secret("git", remote.url(), &json!({"token": github.token()})).await;
        cluster.secret("model", &models.url(), &json!({"apiKey": models.api_key()})).await;
        let tokens = json!({"botToken": slack.bot_token(), "appToken": slack.app_token()});
        cluster.secret("slack", &slack.api_url(), &tokens).await;
        install(&cluster, remote.url(), &models.url(), &channel, (spec, model)).await;
        let tokens = thread(&cluster, &name, &channel, &root).await;

        let stop = CancellationToken::new();
        let mut families = build_registry();
        let counted = GatewayMetrics::register(&mut families);
        let any = "127.0.0.1:0".parse().unwrap();
        let metrics = MetricsServer::start(any, families, ReadyFlag::default()).unwrap();
        let cache = dir.path().join("cache");
        let gateway = gateway(&cluster, cache, &slack, counted, &stop).await;
        let settling = std::sync::Arc::clone(&gateway.models);
        tokio::spawn(async move { settle::run_settling(&settling, settle::PATIENCE).await });
        let app = api::build_router(gateway.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            // As Git, which waits for as long as a peer does not read.
            http: reqwest::Client::builder().tcp_user_timeout(None).build().unwrap(),
            cluster,
            github,
            remote,
            models,
            slack,
            ana: user,
            channel,
            root,
            branch: names::branch_name(&name),
            name,
            tokens,
            metrics,
            gateway,
            dir,
            _alive: (AbortOnDropHandle::new(serving), stop.drop_guard()),
        }
    }

    async fn get(&self, role: &str, path: &str) -> (u16, Value) {
        let request = self.http.get(format!("{}{path}", self.url));
        answer(request.bearer_auth(self.token(role))).await
    }

    async fn post(&self, role: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.url)).json(body);
        answer(request.bearer_auth(self.token(role))).await
    }

    /// A role's token; anything else is a token itself.
    fn token<'a>(&'a self, role: &'a str) -> &'a str {
        self.tokens.get(role).map_or(role, String::as_str)
    }

    async fn thread(&self) -> Thread {
        self.cluster.api::<Thread>(self.cluster.team()).get(&self.name).await.unwrap()
    }

    async fn repo(&self) -> Repo {
        self.cluster.api::<Repo>(self.cluster.team()).get("shop").await.unwrap()
    }

    /// Makes the Thread anew as it was: a closed one is never opened again.
    async fn begin_thread_as(&self, mut before: Thread) {
        let threads = self.cluster.api::<Thread>(self.cluster.team());
        threads.delete(&self.name, &DeleteParams::default()).await.unwrap();
        eventually("the Thread to go", || async {
            threads.get_opt(&self.name).await.unwrap().is_none()
        })
        .await;
        let status = json!({"status": before.status.take()});
        before.metadata = ObjectMeta { name: before.metadata.name, ..ObjectMeta::default() };
        threads.create(&PostParams::default(), &before).await.unwrap();
        self.patch_thread(&status).await;
    }

    async fn patch_thread(&self, patch: &Value) {
        self.cluster.patch::<Thread>(self.cluster.team(), &self.name, patch).await;
    }

    /// Approves the plan as the gateway's Slack part would after a user's click.
    async fn approve_plan(&self) {
        let plan = json!({"ts": "1.000001", "hash": "h", "role": "pm", "approvedBy": "U1"});
        self.patch_thread(&json!({"status": {"plan": plan}})).await;
    }

    /// Another gateway process' state on the same world, as after a restart; its URL.
    async fn successor(&self) -> String {
        let stop = CancellationToken::new();
        let counted = GatewayMetrics::register(&mut build_registry());
        let cache = self.dir.path().join("cache");
        let gateway = gateway(&self.cluster, cache, &self.slack, counted, &stop).await;
        serve(gateway).await
    }

    /// The same of an installation that names a search service.
    async fn successor_searching(&self, options: web::SearchOptions) -> String {
        let counted = GatewayMetrics::register(&mut build_registry());
        let ways = (self.dir.path().join("cache-searching"), local_dialer(), options.into());
        let stop = CancellationToken::new();
        serve(gateway_of(&self.cluster, ways, &self.slack, counted, &stop).await).await
    }

    async fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.metrics.address());
        self.http.get(url).send().await.unwrap().text().await.unwrap()
    }
}

/// Serves a gateway's API for the rest of the test; its URL.
async fn serve(gateway: SharedGateway) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = api::build_router(gateway);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    url
}

/// Waits until the gateway's caches have caught up with a change.
async fn eventually<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !check().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}: did not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn gateway(
    cluster: &Cluster,
    cache: PathBuf,
    slack: &SlackServer,
    metrics: GatewayMetrics,
    stop: &CancellationToken,
) -> SharedGateway {
    let ways = (cache, local_dialer(), web::SearchEngine::default());
    gateway_of(cluster, ways, slack, metrics, stop).await
}

/// A way out to this machine, where the outside world of these tests is.
fn local_dialer() -> OutsideDialer {
    let open = vec!["127.0.0.0/8".parse().unwrap()];
    let options = DialOptions { egress_allow: open, ..DialOptions::default() };
    OutsideDialer::new(&options).unwrap()
}

/// A gateway with this way out, in the same world.
async fn gateway_by(
    world: &World,
    dialer: OutsideDialer,
    stop: &CancellationToken,
) -> SharedGateway {
    let counted = GatewayMetrics::register(&mut build_registry());
    let cache = world.dir.path().join("cache-by");
    let ways = (cache, dialer, web::SearchEngine::default());
    gateway_of(&world.cluster, ways, &world.slack, counted, stop).await
}

async fn gateway_of(
    cluster: &Cluster,
    (cache, dialer, search): (PathBuf, OutsideDialer, web::SearchEngine),
    slack: &SlackServer,
    metrics: GatewayMetrics,
    stop: &CancellationToken,
) -> SharedGateway {
    let client = cluster.gateway.clone();
    let index = PodIndex::default();
    let scope = WatchScope::of(&cluster.watched());
    let own = (cluster.system().to_owned(), dialer.clone());
    let context = caches::start_caches(client.clone(), own, &scope, &index, stop);
    let context = context.await.unwrap();
    let threads = ThreadWriter::new(client.clone(), metrics.clone());
    let api_url = slack.api_url().parse().unwrap();
    let counted = codebutler_slack::SlackMetrics::new(&mut build_registry());
    let base = GatewayBase {
        tool_lists: ListStore::in_cache(&cache),
        mirrors: RepoMirrors::new(cache),
        identity: CallerIdentity::new(context.clone(), index, metrics.clone()),
        slack: SlackGateway::new(context.clone(), threads.clone(), &api_url, counted),
        conditions: ConditionWriter::new(client, context.redactors.clone()),
        context,
        threads,
        egress: ThreadEgress::new(dialer),
        search,
        metrics,
        shutdown: stop.clone(),
    };
    let gateway = base.begin_term(GatewayShard::default());
    gateway.work.slack.hear_with(build_speech_desk(&gateway.models));
    let waking = gateway.clone();
    tokio::spawn(async move { budget_pause::wake_paused(&waking.work).await });
    gateway
}

async fn install(
    cluster: &Cluster,
    git: &str,
    models: &str,
    channel: &str,
    (spec, model): (&Value, &Value),
) {
    for (name, tools, push) in [
        ("pm", json!(["Read", "SendMessage"]), None),
        ("coder", json!(["Read", "GHCreatePR", "SendMessage"]), Some(json!({}))),
        ("lead", json!(["Read", "SendMessage", "CloseThread"]), None),
    ] {
        let mut role = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
            "metadata": {"namespace": cluster.system(), "name": name},
            "spec": {
                "role": name,
                "display": {"name": name, "icon": ":x:"},
                "model": {"default": ModelServer::model(name)},
                "tools": {"allow": tools},
            },
        });
        if let Some(push) = push {
            role["spec"]["push"] = push;
            json_patch::merge(&mut role["spec"]["model"], model);
        }
        cluster.apply(&role).await;
    }
    let mut repo = json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
        "metadata": {"namespace": cluster.team(), "name": "shop"},
        "spec": {
            "git": {"url": git, "credentials": {"name": "git"}},
            "slack": {"channel": channel, "credentials": {"name": "slack"}},
            "model": {"baseURL": models, "credentials": {"name": "model"}},
            "roles": ["pm", "coder", "lead"],
        },
    });
    json_patch::merge(&mut repo["spec"], spec);
    cluster.apply(&repo).await;
}

/// The Thread with a pod for each role; returns their tokens.
async fn thread(
    cluster: &Cluster,
    name: &str,
    channel: &str,
    root: &str,
) -> BTreeMap<String, String> {
    cluster
        .apply(&json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"namespace": cluster.team(), "name": name},
            "spec": {
                "repo": "shop", "slack": {"channel": channel, "ts": root}, "requestedBy": "U0ANA",
            },
        }))
        .await;
    let (mut roles, mut tokens) = (json!({}), BTreeMap::new());
    for role in ["pm", "coder", "lead"] {
        let pod = names::pod_name(name, role);
        let uid = cluster.pod(cluster.team(), &pod, ACCOUNT).await;
        let token = cluster.token(cluster.team(), ACCOUNT, AUDIENCE, Some((&pod, &uid))).await;
        roles[role] = json!({"podUID": uid, "admitted": true});
        tokens.insert(role.to_owned(), token);
    }
    cluster.patch::<Thread>(cluster.team(), name, &json!({"status": {"roles": roles}})).await;
    tokens
}

async fn set_tools(world: &World, role: &str, tools: &[&str]) {
    let patch = json!({"spec": {"tools": {"allow": tools}}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), role, &patch).await;
}
