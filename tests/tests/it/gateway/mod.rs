//! The gateway's API as an agent pod meets it, with a real Git host and a model server behind it.

mod cluster;
mod git;
mod identity;
mod models;
mod pull_request;
mod tls;

use std::collections::BTreeMap;

use codebutler_crds::{AgentRole, Repo, Thread};
use codebutler_operator::gateway::api::{self, Gateway};
use codebutler_operator::gateway::conditions::Conditions;
use codebutler_operator::gateway::identity::Identity;
use codebutler_operator::gateway::metrics::Metrics;
use codebutler_operator::gateway::slack::{self, Slack};
use codebutler_operator::gateway::threads::Threads;
use codebutler_operator::metrics::{Ready, Server, registry};
use codebutler_testbed::github::{FirstCommit, GitHubOptions, GitHubServer, Remote};
use codebutler_testbed::models::{ModelOptions, ModelServer, Script, Step};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::cluster::{Cluster, Owner};

const THREAD: &str = "shop-1-000000";
const BRANCH: &str = "codebutler/shop-1-000000";

/// A gateway for one Thread with a `pm`, who may not push, and a `coder`, who may once the plan is
/// approved. Their tokens are their names.
struct World {
    url: String,
    http: reqwest::Client,
    cluster: Cluster,
    github: GitHubServer,
    remote: Remote,
    models: ModelServer,
    metrics: Server,
    dir: tempfile::TempDir,
    _serving: tokio_util::task::AbortOnDropHandle<()>,
}

impl World {
    async fn start(steps: Vec<Step>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("host");
        let github = GitHubServer::start(&host, GitHubOptions::default()).await.unwrap();
        let files = BTreeMap::from([("README.md".to_owned(), "# Shop\n".to_owned())]);
        let first = FirstCommit::Files(files);
        let remote = github.create_repo("acme", "shop", first, "main").await.unwrap();
        let models =
            ModelServer::start(Script::of("coder", steps), ModelOptions::default()).await.unwrap();

        let (cluster, context, index) = Cluster::new();
        fill(&cluster, &github, &remote, &models);
        let mut families = registry();
        let metrics = Metrics::register(&mut families);
        let any = "127.0.0.1:0".parse().unwrap();
        let served = Server::start(any, families, Ready::default()).await.unwrap();
        let threads = Threads::new(context.client.clone());
        let nowhere = "http://127.0.0.1:9/api".parse().unwrap();
        let counted = slack::Metrics::new(&mut registry());
        let gateway = Gateway {
            identity: Identity::new(context.clone(), index, metrics.clone()),
            slack: Slack::new(context.clone(), threads.clone(), &nowhere, counted).unwrap(),
            conditions: Conditions::new(context.client.clone()),
            context,
            threads,
            http: reqwest::Client::new(),
            metrics,
            calls: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = api::router(gateway.into());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let _serving = tokio_util::task::AbortOnDropHandle::new(serving);
        let http = reqwest::Client::new();
        Self { url, http, cluster, github, remote, models, metrics: served, dir, _serving }
    }

    async fn get(&self, token: &str, path: &str) -> (u16, Value) {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(token);
        answer(request).await
    }

    async fn post(&self, token: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(token).json(body);
        answer(request).await
    }

    fn thread(&self) -> Thread {
        self.cluster.get("threads", THREAD)
    }

    fn repo(&self) -> Repo {
        self.cluster.get("repos", "shop")
    }

    /// As the gateway's Slack part would after a user's click.
    fn approve_plan(&self) {
        let plan = json!({"ts": "1.000001", "hash": "h", "role": "pm", "approvedBy": "U1"});
        self.cluster.patch("threads", THREAD, &json!({"status": {"plan": plan}}));
    }

    fn role(&self, name: &str) -> AgentRole {
        self.cluster.get_in("codebutler-system", "agentroles", name)
    }

    async fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.metrics.address());
        self.http.get(url).send().await.unwrap().text().await.unwrap()
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text)))
}

fn fill(cluster: &Cluster, github: &GitHubServer, remote: &Remote, models: &ModelServer) {
    let host = |url: &str| url.split('/').nth(2).unwrap().to_owned();
    cluster.secret("git", &host(remote.url()), "token", github.token());
    cluster.secret("model", &host(&models.url()), "apiKey", models.api_key());
    cluster.put(
        "repos",
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"namespace": "team", "name": "shop", "generation": 1},
            "spec": {
                "git": {"url": remote.url(), "credentials": {"name": "git"}},
                "slack": {"channel": "C01AB", "credentials": {"name": "slack"}},
                "model": {"baseURL": models.url(), "credentials": {"name": "model"}},
                "roles": ["pm", "coder"],
            },
        }),
    );
    for (name, tools, push) in [
        ("pm", json!(["Read", "SendMessage"]), Value::Null),
        ("coder", json!(["Read", "GHCreatePR", "SendMessage"]), json!({})),
    ] {
        cluster.put(
            "agentroles",
            json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
                "metadata": {"namespace": "codebutler-system", "name": name},
                "spec": {
                    "role": name,
                    "display": {"name": name, "icon": ":x:"},
                    "model": {"default": ModelServer::model(name)},
                    "tools": {"allow": tools},
                    "push": push,
                },
            }),
        );
        let owner = Owner {
            username: "system:serviceaccount:team:codebutler-shop".to_owned(),
            pod_uid: Some(format!("pod-{name}")),
            audience: "codebutler-gateway".to_owned(),
        };
        cluster.add_token(name, owner);
    }
    cluster.put(
        "threads",
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"namespace": "team", "name": THREAD},
            "spec": {"repo": "shop", "slack": {"channel": "C01AB", "ts": "1.000000"}},
            "status": {"roles": {"pm": {"podUID": "pod-pm"}, "coder": {"podUID": "pod-coder"}}},
        }),
    );
}
