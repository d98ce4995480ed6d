//! Puts a [`Stack`] together, from the outside in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;

use super::manifests::{self, Outside, SYSTEM};
use super::process::{Process, ProcessCommand};
use super::toolchain::{AGENT_IMAGE, WORKSPACE_IMAGE, images};
use super::{Metrics, RoleEdit, Stack, StackError, StackOptions};
use crate::cluster::Cluster;
use crate::controllers::{ControllerManager, ControllerOptions};
use crate::github::{FirstCommit, GitHubOptions, GitHubServer, Remote};
use crate::kubelet::{InjectEnv, Kubelet, KubeletError, KubeletOptions, ServiceForward};
use crate::models::{ModelOptions, ModelServer};
use crate::slack::{self, SlackServer};

/// Name and port of the gateway's Service.
const SERVICE: &str = "codebutler-gateway";
const GATEWAY_PORT: u16 = 8443;
const METRICS_PORT: u16 = 8080;
/// How long controller and gateway may take to become ready.
const READY: Duration = Duration::from_mins(1);
/// Life of the operator's tokens: longer than any demo or test.
const TOKEN_LIFE: Duration = Duration::from_hours(24);

fn part<E: Into<anyhow::Error>>(part: &'static str) -> impl Fn(E) -> StackError {
    move |source| StackError::Part { part, source: source.into() }
}

fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StackError {
    let what = what.into();
    move |source| StackError::Io { what, source }
}

/// See [`Stack::start`].
pub async fn start(options: StackOptions) -> Result<Stack, StackError> {
    let dir = options.dir.clone();
    for sub in ["bin", "logs", "cluster", "git", "node", "volumes"] {
        std::fs::create_dir_all(dir.join(sub)).map_err(io("making the state folder"))?;
    }
    let operator = link(&dir, &options.program, "codebutler-operator")?;

    let slack = SlackServer::start(slack::Options::default()).await.map_err(part("Slack"))?;
    let users: BTreeMap<String, String> =
        options.users.iter().map(|n| (n.clone(), slack.create_user(n, n))).collect();
    let mut members: Vec<&str> = users.values().map(String::as_str).collect();
    let bot = slack.bot_user_id();
    members.push(&bot);
    let channel = slack.create_channel(&options.name, &members);

    let github = GitHubServer::start(&dir.join("git"), GitHubOptions::default())
        .await
        .map_err(part("GitHub"))?;
    let remote = github
        .create_repo(
            "acme",
            &options.name,
            FirstCommit::Folder(options.files.clone()),
            &options.branch,
        )
        .await
        .map_err(part("GitHub"))?;
    let first_commit = remote.head(&options.branch).await.unwrap_or_default();
    let models = ModelServer::start(options.script.clone(), ModelOptions::default())
        .await
        .map_err(part("model server"))?;

    let cluster = Cluster::start(&dir.join("cluster")).await.map_err(part("API server"))?;
    let client = cluster.client();
    install(&cluster, options.idle_timeout_seconds, options.edit_role.as_deref()).await?;
    let controllers = ControllerManager::start(
        client.clone(),
        ControllerOptions { pv_dir: dir.join("volumes"), root_ca: None },
    )
    .await
    .map_err(part("controller manager"))?;
    // Addresses of this stack's own, so that no port has to be guessed free.
    let ip = own_loopback_address();
    let gateway_address = SocketAddr::new(ip, GATEWAY_PORT);
    let metrics = Metrics {
        gateway: SocketAddr::new(ip, METRICS_PORT),
        controller: SocketAddr::new(ip, METRICS_PORT + 1),
    };
    let api = url::Url::parse(cluster.url()).map_err(|e| part("API server")(e.into()))?;
    let kubelet =
        kubelet(&client, &api, &dir, &options.program, gateway_address, options.inject_env.clone());
    let kubelet = kubelet.await.map_err(part("kubelet"))?;
    let processes = Processes { cluster: &cluster, dir: &dir, operator, log: &options.log };
    let mut gateway = processes
        .spawn(
            "gateway",
            vec![
                format!("--listen={gateway_address}"),
                format!("--metrics-address={}", metrics.gateway),
                format!("--slack-api={}", slack.api_url()),
                // The outside world of the testbed is on this machine.
                "--egress-allow=127.0.0.0/8".to_owned(),
            ],
        )
        .await?;
    let mut controller = processes
        .spawn(
            "controller",
            vec![
                format!("--agent-image={AGENT_IMAGE}"),
                format!("--workspace-image={WORKSPACE_IMAGE}"),
                format!("--metrics-address={}", metrics.controller),
            ],
        )
        .await?;
    ready("gateway", &mut gateway, metrics.gateway).await?;
    ready("controller", &mut controller, metrics.controller).await?;

    let outside = outside(&options, &slack, &channel, &remote, &github, &models);
    for object in
        manifests::team(&options.name, options.roles, &outside, options.edit_repo.as_deref())
    {
        apply(&cluster, &object).await?;
    }
    slack.wait_connected(1, READY).await.map_err(part("Slack"))?;

    Ok(Stack {
        dir,
        cluster,
        kubelet,
        slack,
        github,
        remote,
        models,
        controller,
        gateway,
        metrics,
        repo: options.name,
        channel,
        users,
        first_commit,
        controllers,
    })
}

/// What the team's Repo points at.
fn outside(
    options: &StackOptions,
    slack: &SlackServer,
    channel: &str,
    remote: &Remote,
    github: &GitHubServer,
    models: &ModelServer,
) -> Outside {
    Outside {
        git_url: remote.url().to_owned(),
        branch: options.branch.clone(),
        model_url: models.url(),
        slack_url: slack.api_url(),
        channel: channel.to_owned(),
        git_token: github.token().to_owned(),
        bot_token: slack.bot_token(),
        app_token: slack.app_token(),
        api_key: models.api_key().to_owned(),
        debounce: options.debounce_seconds,
    }
}

async fn kubelet(
    client: &Client,
    api: &url::Url,
    dir: &Path,
    program: &Path,
    gateway: SocketAddr,
    inject_env: Option<Arc<InjectEnv>>,
) -> Result<Kubelet, KubeletError> {
    let mut options = KubeletOptions::new("testbed", dir.join("node"), program);
    options.images = images(program);
    // As every kubelet does.
    for image in options.images.values_mut() {
        let port = api.port_or_known_default().unwrap_or_default().to_string();
        let host = api.host_str().unwrap_or_default().to_owned();
        image.env.insert("KUBERNETES_SERVICE_HOST".to_owned(), host);
        image.env.insert("KUBERNETES_SERVICE_PORT".to_owned(), port);
    }
    options.services = vec![ServiceForward {
        namespace: SYSTEM.to_owned(),
        service: SERVICE.to_owned(),
        port: GATEWAY_PORT,
        target: gateway,
    }];
    options.inject_env = inject_env;
    Kubelet::start(client.clone(), options).await
}

/// What `kubectl apply` and later the chart install: definitions, rights, Service, roles.
async fn install(
    cluster: &Cluster,
    idle: Option<u32>,
    edit: Option<&RoleEdit>,
) -> Result<(), StackError> {
    cluster.install_crds().await.map_err(part("API server"))?;
    for yaml in manifests::system() {
        cluster.apply_yaml(&yaml).await.map_err(part("API server"))?;
    }
    for mut role in manifests::roles(|role| Some(ModelServer::model(&role.spec.role)))? {
        role.spec.idle_timeout_seconds = idle.unwrap_or(role.spec.idle_timeout_seconds);
        if let Some(edit) = edit {
            edit(&mut role.spec);
        }
        apply(cluster, &role).await?;
    }
    Ok(())
}

async fn apply(cluster: &Cluster, object: &impl serde::Serialize) -> Result<(), StackError> {
    let mut json = serde_json::to_value(object).map_err(part("API server"))?;
    if let Some(map) = json.as_object_mut() {
        map.remove("status");
    }
    cluster.apply_yaml(&json.to_string()).await.map_err(part("API server"))
}

/// How the operator's processes are started.
struct Processes<'a> {
    cluster: &'a Cluster,
    dir: &'a Path,
    operator: PathBuf,
    log: &'a str,
}

impl Processes<'_> {
    /// Starts one with its own ServiceAccount's token.
    async fn spawn(&self, name: &str, flags: Vec<String>) -> Result<Process, StackError> {
        let config = kubeconfig(self.cluster, self.dir, &format!("codebutler-{name}")).await?;
        ProcessCommand {
            program: self.operator.clone(),
            args: std::iter::once(name.into())
                .chain(flags.into_iter().map(OsString::from))
                .collect(),
            env: vec![
                ("KUBECONFIG".to_owned(), config.into_os_string()),
                ("CODEBUTLER_LOG".to_owned(), self.log.into()),
            ],
            log: self.dir.join("logs").join(format!("{name}.log")),
        }
        .spawn()
        .map_err(io(format!("starting the {name}")))
    }
}

/// Makes the product's binary known by another name, which is what decides what it is.
fn link(dir: &Path, program: &Path, name: &str) -> Result<PathBuf, StackError> {
    let path = dir.join("bin").join(name);
    match symlink(program, &path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(io("linking")(e)),
        _ => Ok(path),
    }
}

/// A kubeconfig with a ServiceAccount's own token, readable by nobody else.
async fn kubeconfig(cluster: &Cluster, dir: &Path, account: &str) -> Result<PathBuf, StackError> {
    use std::io::Write as _;
    let yaml =
        cluster.kubeconfig_for(SYSTEM, account, TOKEN_LIFE).await.map_err(part("API server"))?;
    let path = dir.join(format!("{account}.kubeconfig"));
    std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(yaml.as_bytes()))
        .map_err(io("writing a kubeconfig"))?;
    Ok(path)
}

/// A loopback address that no other stack on this machine uses: all of 127.0.0.0/8 is local.
fn own_loopback_address() -> IpAddr {
    let [a, b, c, _] = rand::random::<u32>().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254)))
}

async fn ready(
    name: &'static str,
    process: &mut Process,
    address: SocketAddr,
) -> Result<(), StackError> {
    let client = reqwest::Client::new();
    let url = format!("http://{address}/readyz");
    let deadline = Instant::now() + READY;
    loop {
        let answer = client.get(&url).timeout(Duration::from_secs(2)).send().await;
        if answer.is_ok_and(|a| a.status().is_success()) {
            return Ok(());
        }
        if process.exited().is_some() || Instant::now() > deadline {
            let log = std::fs::read_to_string(process.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let log = lines[lines.len().saturating_sub(15)..].join("\n");
            return Err(StackError::NotReady { process: name, within: READY, log });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
