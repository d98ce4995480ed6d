//! The gateway as a process of its own, with one Thread and one pod that may call it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::{Repo, Thread, names};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use reqwest::Certificate;
use serde_json::{Value, json};

use super::provider::{KEY, Provider};
use crate::cluster::Cluster;
use crate::figures::{memory, product};
use crate::place::{Place, SYSTEM, TEAM};
use crate::slack::{Options, SlackServer};
use crate::stack::manifests::system;
use crate::stack::process::{Process, ProcessCommand};

/// What is asked for.
pub const MODEL: &str = "figures/model";
const HOST: &str = "codebutler-gateway.codebutler-system.svc";
const AUDIENCE: &str = "codebutler-gateway";
const REPO: &str = "figures";
const CHANNEL: &str = "C0FIGURES";
const ROOT: &str = "1760000000.000100";
const READY: Duration = Duration::from_mins(1);
const PROGRAM: &str = "codebutler-operator";

/// See the module.
pub struct Bed {
    gateway: Process,
    address: SocketAddr,
    ca: String,
    token: String,
    cluster: Cluster,
    slack: SlackServer,
    _dir: tempfile::TempDir,
}

impl Bed {
    /// Starts everything, with `git` as the Repo's URL and token; returns when a call gets an answer.
    pub async fn start(provider: &Provider, git: Option<(&str, &str)>) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let slack = SlackServer::start(Options::default()).await?;
        let cluster = Cluster::start(&dir.path().join("cluster")).await?;
        cluster.install_crds().await?;
        let place = Place::usual();
        place.make(&cluster).await?;
        for yaml in system(&place)? {
            cluster.apply_yaml(&yaml).await?;
        }
        for object in objects(provider, &slack, git) {
            cluster.apply_yaml(&object.to_string()).await?;
        }
        let token = thread(&cluster).await?;

        let program = product::program(PROGRAM)?;
        let config = dir.path().join("kubeconfig");
        let day = Duration::from_hours(24);
        std::fs::write(&config, cluster.kubeconfig_for(SYSTEM, "codebutler-gateway", day).await?)?;
        let [a, b, c, _] = rand::random::<u32>().to_be_bytes();
        let ip = Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254));
        let address = SocketAddr::from((ip, 8443));
        let command = ProcessCommand {
            program,
            args: [
                "gateway".to_owned(),
                format!("--listen={address}"),
                format!("--metrics-address={ip}:8080"),
                format!("--slack-api={}", slack.api_url()),
                // The outside world of the figures is on this machine.
                "--egress-allow=127.0.0.0/8".to_owned(),
                format!("--git-cache={}", dir.path().join("git-cache").display()),
            ]
            .map(Into::into)
            .to_vec(),
            env: vec![
                ("KUBECONFIG".to_owned(), config.into_os_string()),
                ("CODEBUTLER_LOG".to_owned(), "warn".into()),
                // As in its image.
                ("MALLOC_ARENA_MAX".to_owned(), "2".into()),
            ],
            log: dir.path().join("gateway.log"),
        };
        let gateway = command.spawn()?;
        let mut bed =
            Self { gateway, address, ca: String::new(), token, cluster, slack, _dir: dir };
        bed.ready().await?;
        Ok(bed)
    }

    /// Waits until the gateway serves agents.
    async fn ready(&mut self) -> anyhow::Result<()> {
        let maps = Api::<ConfigMap>::namespaced(self.cluster.client(), SYSTEM);
        let deadline = Instant::now() + READY;
        loop {
            let map = maps.get_opt("codebutler-gateway-ca").await?;
            if let Some(ca) =
                map.and_then(|map| map.data).and_then(|data| data.get("ca.crt").cloned())
            {
                self.ca = ca;
                let request = self.client()?.get(format!("{}/v1/session", self.url())).send().await;
                if request.is_ok() {
                    return Ok(());
                }
            }
            let log = || std::fs::read_to_string(self.gateway.log()).unwrap_or_default();
            ensure!(Instant::now() < deadline, "the gateway does not serve:\n{}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A client as an agent has it.
    pub fn client(&self) -> anyhow::Result<reqwest::Client> {
        let ca = Certificate::from_pem(self.ca.as_bytes())?;
        let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().tcp_nodelay(true);
        Ok(client.resolve(HOST, self.address).build()?)
    }

    /// Where agents call.
    pub fn url(&self) -> String {
        format!("https://{HOST}:{}", self.address.port())
    }

    /// Where that is.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its authority's certificate.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// The Thread's branch.
    pub fn branch() -> String {
        names::branch(&thread_name())
    }

    /// The pod's.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The most memory that the gateway ever had in use, in MiB. Provider, Slack, API server and callers
    /// are other processes.
    pub fn peak_memory(&self) -> anyhow::Result<f64> {
        let pid = self.gateway.pid().context("the gateway is gone")?;
        memory::peak(pid)
    }

    /// Ends everything.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.gateway.stop().await?;
        self.slack.shutdown().await;
        self.cluster.shutdown().await;
        Ok(())
    }
}

fn objects(provider: &Provider, slack: &SlackServer, git: Option<(&str, &str)>) -> Vec<Value> {
    let (git_url, git_token) = git.unwrap_or(("https://git.invalid/acme/figures", "none"));
    let secret = |name: &str, url: &str, data: Value| {
        let host = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "namespace": TEAM, "name": name, "annotations": {names::ANNOTATION_HOSTS: host},
            },
            "stringData": data,
        })
    };
    let tokens = json!({"botToken": slack.bot_token(), "appToken": slack.app_token()});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}),
        secret("model", &provider.url(), json!({"apiKey": KEY})),
        secret("slack", &slack.api_url(), tokens),
        secret("git", git_url, json!({"token": git_token})),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": TEAM, "name": names::service_account(REPO)},
        }),
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
            "metadata": {"namespace": SYSTEM, "name": "pm"},
            "spec": {
                "role": "pm", "display": {"name": "PM", "icon": ":x:"},
                "model": {"default": MODEL},
            },
        }),
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"namespace": TEAM, "name": REPO},
            "spec": {
                "git": {"url": git_url, "credentials": {"name": "git"}},
                "slack": {"channel": CHANNEL, "credentials": {"name": "slack"}},
                "model": {"baseURL": provider.url(), "credentials": {"name": "model"}},
                "roles": ["pm"],
                "limits": {
                    "callsPerHour": 1_000_000,
                    "budget": {"perThread": "1000000", "perDay": "1000000"},
                },
            },
        }),
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"namespace": TEAM, "name": thread_name()},
            "spec": {"repo": REPO, "slack": {"channel": CHANNEL, "ts": ROOT}},
        }),
    ]
}

fn thread_name() -> String {
    format!("{REPO}-{}", ROOT.replace('.', "-"))
}

/// Registers a pod, as the controller does, and answers its token.
async fn thread(cluster: &Cluster) -> anyhow::Result<String> {
    let client = cluster.client();
    let (name, account) = (names::pod_name(&thread_name(), "pm"), names::service_account(REPO));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": TEAM, "name": name},
        "spec": {
            "serviceAccountName": account, "containers": [{"name": "agent", "image": "agent"}],
        },
    });
    let pods = Api::<Pod>::namespaced(client.clone(), TEAM);
    let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let uid = pod.uid().context("a pod without UID")?;
    let status = json!({"status": {"roles": {"pm": {"podUID": uid, "admitted": true}}}});
    let threads = Api::<Thread>::namespaced(client.clone(), TEAM);
    threads.patch_status(&thread_name(), &PatchParams::default(), &Patch::Merge(status)).await?;
    Api::<Repo>::namespaced(client.clone(), TEAM).get(REPO).await?;
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(name),
        uid: Some(uid),
    };
    let spec = TokenRequestSpec {
        audiences: vec![AUDIENCE.to_owned()],
        bound_object_ref: Some(bound),
        expiration_seconds: Some(3600),
    };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts = Api::<ServiceAccount>::namespaced(client, TEAM);
    let params = PostParams::default();
    let answer = accounts.create_token_request(&account, &params, &request).await?;
    Ok(answer.status.context("no token")?.token)
}
