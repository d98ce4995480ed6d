//! The gateway as a process of its own, with Repos, Threads and pods that may call it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::{Thread, names};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use reqwest::Certificate;
use serde_json::{Value, json};

use super::provider::{KEY, LocalProvider};
use crate::figures::{memory, product};
use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::place::{InstallPlace, SYSTEM, TEAM};
use codebutler_testbed::slack::{SlackOptions, SlackServer};
use codebutler_testbed::stack::manifests::{secrets_binding, system_manifests};
use codebutler_testbed::stack::process::{OperatorProcess, ProcessCommand};
use codebutler_testbed::stack::shards::{shard_lease, shard_manifests};

/// Model that calls ask for.
pub(crate) const MODEL: &str = "figures/model";
const HOST: &str = "codebutler-gateway.codebutler-system.svc";
const AUDIENCE: &str = "codebutler-gateway";
/// Pods of a Repo, each of a Thread of its own: one alone may not make so many calls at once.
pub(crate) const PODS: usize = 16;
const READY: Duration = Duration::from_mins(1);
const PROGRAM: &str = "codebutler-operator";
const PAGES: u16 = 8090;

/// The gateway with its surroundings; see the module.
pub(crate) struct ProxyBed {
    gateway: OperatorProcess,
    /// The one before an upgrade.
    leaving: Option<OperatorProcess>,
    command: ProcessCommand,
    address: SocketAddr,
    ca: String,
    /// Tokens of the pods, by Repo and Thread.
    tokens: Vec<Vec<String>>,
    cluster: TestCluster,
    slack: SlackServer,
    dirs: Vec<tempfile::TempDir>,
}

impl ProxyBed {
    /// Starts everything, with `git` as the Repo's URL and token; returns when a call gets an answer.
    pub(crate) async fn start(
        provider: &LocalProvider,
        git: Option<(&str, &str)>,
    ) -> anyhow::Result<Self> {
        let none = ("https://git.invalid/acme/figures", "none");
        Self::start_for(provider, &[git.unwrap_or(none)]).await
    }

    /// Starts everything with several Repos.
    pub(crate) async fn start_for(
        provider: &LocalProvider,
        gits: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        Self::start_at(&provider.url(), gits, product::build_program(PROGRAM)?).await
    }

    /// Starts everything with another provider, and with this very program as the gateway, under its name.
    pub(crate) async fn start_own(provider: &str) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let program = dir.path().join(PROGRAM);
        std::os::unix::fs::symlink(std::env::current_exe()?, &program)?;
        let none = ("https://git.invalid/acme/figures", "none");
        let mut bed = Self::start_at(provider, &[none], program).await?;
        bed.dirs.push(dir);
        Ok(bed)
    }

    async fn start_at(
        provider: &str,
        gits: &[(&str, &str)],
        program: PathBuf,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let slack = SlackServer::start(SlackOptions::default()).await?;
        let cluster = TestCluster::start(&dir.path().join("cluster")).await?;
        cluster.install_crds().await?;
        let place = InstallPlace::usual();
        place.make(&cluster).await?;
        for yaml in system_manifests(&place, None)? {
            cluster.apply_yaml(&yaml).await?;
        }
        for object in make_objects(provider, &slack).into_iter().chain([secrets_binding(&place)]) {
            cluster.apply_yaml(&object.to_string()).await?;
        }
        let mut tokens = Vec::new();
        for (repo, git) in gits.iter().enumerate() {
            for object in repo_objects(provider, repo, *git) {
                cluster.apply_yaml(&object.to_string()).await?;
            }
            let mut own = Vec::new();
            for n in 0..PODS {
                own.push(make_thread(&cluster, repo, n).await?);
            }
            tokens.push(own);
        }

        let config = dir.path().join("kubeconfig");
        let day = Duration::from_hours(24);
        std::fs::write(&config, cluster.kubeconfig_for(SYSTEM, "codebutler-gateway", day).await?)?;
        let address = free_address();
        let mut args = gateway_arguments(address, &slack, &dir.path().join("git-cache"));
        args.push(format!("--history={}", dir.path().join("history").display()).into());
        args.push(format!("--pages={}:{PAGES}", address.ip()).into());
        // As the chart has it.
        args.push("--idle-background-work".into());
        let command = ProcessCommand {
            program,
            args,
            env: vec![
                ("KUBECONFIG".to_owned(), config.into_os_string()),
                ("CODEBUTLER_LOG".to_owned(), "warn".into()),
                // As in its image.
                ("MALLOC_ARENA_MAX".to_owned(), "64".into()),
            ],
            log: dir.path().join("gateway.log"),
        };
        let (gateway, leaving) = (command.spawn()?, None);
        let (ca, dirs) = (String::new(), vec![dir]);
        let mut bed = Self { gateway, leaving, command, address, ca, tokens, cluster, slack, dirs };
        bed.ready().await?;
        Ok(bed)
    }

    /// Tells the gateway to stop while another one starts, to which calls go from now on.
    pub(crate) fn begin_upgrade(&mut self) -> anyhow::Result<()> {
        self.address = free_address();
        let cache = self.dirs[0].path().join("next-git-cache");
        let args = gateway_arguments(self.address, &self.slack, &cache);
        let next = ProcessCommand { args, ..self.command.clone() }.spawn()?;
        let before = std::mem::replace(&mut self.gateway, next);
        before.tell_to_stop();
        self.leaving = Some(before);
        Ok(())
    }

    /// Waits until the earlier one has ended by itself.
    pub(crate) async fn end_upgrade(&mut self) -> anyhow::Result<()> {
        let Some(mut before) = self.leaving.take() else { return Ok(()) };
        let deadline = Instant::now() + READY;
        loop {
            if let Some(status) = before.exited() {
                ensure!(status.success(), "the earlier gateway ended with {status}");
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the earlier gateway does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Cluster that the gateway runs in.
    pub(crate) const fn cluster(&self) -> &TestCluster {
        &self.cluster
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
    pub(crate) fn client(&self) -> anyhow::Result<reqwest::Client> {
        self.client_at(self.address)
    }

    /// The same for the gateway at another address.
    pub(crate) fn client_at(&self, address: SocketAddr) -> anyhow::Result<reqwest::Client> {
        let ca = Certificate::from_pem(self.ca.as_bytes())?;
        let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().tcp_nodelay(true);
        Ok(client.resolve(HOST, address).build()?)
    }

    /// Base URL at which agents call the gateway.
    pub(crate) fn url(&self) -> String {
        format!("https://{HOST}:{}", self.address.port())
    }

    /// Address that the gateway's host name stands for.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the gateway's pages.
    pub(crate) const fn pages(&self) -> SocketAddr {
        SocketAddr::new(self.address.ip(), PAGES)
    }

    /// Certificate of the gateway's authority.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    /// Slack server that people write to.
    pub(crate) const fn slack(&self) -> &SlackServer {
        &self.slack
    }

    /// Another Repo with its Secrets, whose conversations are in `channel`.
    pub(crate) async fn add_repo(
        &self,
        provider: &str,
        name: &str,
        channel: &str,
        git: (&str, &str),
    ) -> anyhow::Result<()> {
        for object in repo_with_secrets(provider, name, channel, git) {
            self.cluster.apply_yaml(&object.to_string()).await?;
        }
        Ok(())
    }

    /// A pod of a Thread's role, as the controller registers it; its token.
    pub(crate) async fn register(&self, repo: &str, thread: &str) -> anyhow::Result<String> {
        register_pod(&self.cluster, repo, thread).await
    }

    /// Processor time that the gateway and the processes that it ran have used, in seconds.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        used_seconds(&self.gateway)
    }

    /// Starts gateways anew, one for each of several shards; returns each shard's leader once it serves.
    pub(crate) async fn lead_shards(&mut self, shards: u16) -> anyhow::Result<Vec<ShardLeader>> {
        self.gateway.stop().await?;
        for object in shard_manifests(&InstallPlace::usual(), shards) {
            self.cluster.apply_yaml(&object.to_string()).await?;
        }
        let mut started = BTreeMap::new();
        for number in 0..shards {
            let (address, identity) = (free_address(), format!("gateway-{number}"));
            let dir = self.dirs[0].path();
            let cache = dir.join(format!("git-cache-{number}"));
            let history = dir.join(format!("history-{number}"));
            let mut args = gateway_arguments(address, &self.slack, &cache);
            args.push(format!("--history={}", history.display()).into());
            args.push("--idle-background-work".into());
            args.push(format!("--shards={shards}").into());
            args.push(format!("--pod={identity}").into());
            let process = ProcessCommand { args, ..self.command.clone() }.spawn()?;
            started.insert(identity, ShardLeader { process, address });
        }
        let leases = Api::<Lease>::namespaced(self.cluster.client(), SYSTEM);
        let deadline = Instant::now() + READY;
        let mut leaders = Vec::new();
        for shard in 0..shards {
            let leader = loop {
                let spec = leases.get(&shard_lease(shard)).await?.spec;
                let holder = spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                if let Some(leader) = started.remove(&holder) {
                    break leader;
                }
                ensure!(Instant::now() < deadline, "nobody leads for shard {shard}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            let client = self.client_at(leader.address)?;
            while client.get(format!("{}/v1/session", self.url())).send().await.is_err() {
                ensure!(Instant::now() < deadline, "the leader of shard {shard} does not serve");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            leaders.push(leader);
        }
        Ok(leaders)
    }

    /// The branch of a Repo's Thread.
    pub(crate) fn branch(repo: usize, n: usize) -> String {
        names::branch_name(&thread_name(repo, n))
    }

    /// Tokens of the pods of a Repo.
    pub(crate) fn tokens(&self, repo: usize) -> &[String] {
        &self.tokens[repo]
    }

    /// Git's options for the way to the gateway as one of the pods.
    pub(crate) fn git_options(&self, token: &str, ca: &Path) -> [String; 6] {
        let port = self.address.port();
        [
            "-c".to_owned(),
            format!("http.extraHeader=Authorization: Bearer {token}"),
            "-c".to_owned(),
            format!("http.sslCAInfo={}", ca.display()),
            "-c".to_owned(),
            format!("http.curloptResolve={HOST}:{port}:{}", self.address.ip()),
        ]
    }

    /// The most memory that the gateway ever had in use, in MiB. Provider, Slack, API server and callers
    /// are other processes.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<f64> {
        let pid = self.gateway.pid().context("the gateway is gone")?;
        memory::peak_memory(pid)
    }

    /// Stops the gateway, Slack and the cluster.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.gateway.stop().await?;
        self.slack.shutdown().await;
        self.cluster.shutdown().await;
        Ok(())
    }
}

/// The gateway that leads for a shard.
pub(crate) struct ShardLeader {
    process: OperatorProcess,
    pub address: SocketAddr,
}

impl ShardLeader {
    /// As [`ProxyBed::cpu_seconds`].
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        used_seconds(&self.process)
    }

    /// Tells it to stop, and waits until it has ended.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.process.stop().await?)
    }
}

/// Processor time that a process and those that it ran have used, in seconds.
fn used_seconds(process: &OperatorProcess) -> anyhow::Result<f64> {
    let pid = process.pid().context("the gateway is gone")?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("a strange /proc")?;
    let ticks = fields.split_whitespace().skip(11).take(4).map(str::parse::<f64>);
    let ticks: f64 = ticks.sum::<Result<f64, _>>()?;
    // Linux counts in hundredths for everybody outside.
    Ok(ticks / 100.0)
}

/// A free loopback address; all of 127.0.0.0/8 is this machine.
fn free_address() -> SocketAddr {
    let [a, b, c, _] = rand::random::<u32>().to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254)), 8443))
}

fn gateway_arguments(address: SocketAddr, slack: &SlackServer, cache: &Path) -> Vec<OsString> {
    [
        "gateway".to_owned(),
        format!("--listen={address}"),
        format!("--metrics-address={}:8080", address.ip()),
        format!("--slack-api={}", slack.api_url()),
        // The outside world of the figures is on this machine.
        "--egress-allow=127.0.0.0/8".to_owned(),
        format!("--git-cache={}", cache.display()),
    ]
    .map(Into::into)
    .to_vec()
}

fn make_secret(name: &str, url: &str, data: &Value) -> Value {
    let host = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "namespace": TEAM, "name": name, "annotations": {names::ANNOTATION_HOSTS: host},
        },
        "stringData": data,
    })
}

fn make_objects(provider: &str, slack: &SlackServer) -> Vec<Value> {
    let tokens = json!({"botToken": slack.bot_token(), "appToken": slack.app_token()});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}),
        make_secret("model", provider, &json!({"apiKey": KEY})),
        make_secret("slack", &slack.api_url(), &tokens),
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
            "metadata": {"namespace": SYSTEM, "name": "pm"},
            "spec": {
                "role": "pm", "display": {"name": "PM", "icon": ":x:"},
                "model": {"default": MODEL},
                "push": {"needsApprovedPlan": false},
            },
        }),
    ]
}

fn repo_objects(provider: &str, repo: usize, git: (&str, &str)) -> Vec<Value> {
    let name = repo_name(repo);
    let mut objects = repo_with_secrets(provider, &name, &channel_id(repo), git);
    objects.extend((0..PODS).map(|n| {
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"namespace": TEAM, "name": thread_name(repo, n)},
            "spec": {"repo": name, "slack": {"channel": channel_id(repo), "ts": root_ts(n)}},
        })
    }));
    objects
}

fn repo_with_secrets(
    provider: &str,
    name: &str,
    channel: &str,
    (url, token): (&str, &str),
) -> Vec<Value> {
    let git = format!("git-{name}");
    vec![
        make_secret(&git, url, &json!({"token": token})),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": TEAM, "name": names::service_account(name)},
        }),
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"namespace": TEAM, "name": name},
            "spec": {
                "git": {"url": url, "credentials": {"name": git}},
                "slack": {"channel": channel, "credentials": {"name": "slack"}},
                "model": {"baseURL": provider, "credentials": {"name": "model"}},
                "roles": ["pm"],
                "limits": {
                    "callsPerHour": 1_000_000,
                    "budget": {"perThread": "1000000", "perDay": "1000000"},
                },
            },
        }),
    ]
}

pub(crate) fn repo_name(repo: usize) -> String {
    format!("figures{repo}")
}

fn channel_id(repo: usize) -> String {
    format!("C{repo}FIGURES")
}

fn root_ts(n: usize) -> String {
    format!("{}.000100", 1_760_000_000 + n)
}

fn thread_name(repo: usize, n: usize) -> String {
    format!("{}-{}", repo_name(repo), root_ts(n).replace('.', "-"))
}

/// Registers a pod, as the controller does, and answers its token.
async fn make_thread(cluster: &TestCluster, repo: usize, n: usize) -> anyhow::Result<String> {
    register_pod(cluster, &repo_name(repo), &thread_name(repo, n)).await
}

async fn register_pod(cluster: &TestCluster, repo: &str, thread: &str) -> anyhow::Result<String> {
    let client = cluster.client();
    let (name, account) = (names::pod_name(thread, "pm"), names::service_account(repo));
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
    threads.patch_status(thread, &PatchParams::default(), &Patch::Merge(status)).await?;
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
