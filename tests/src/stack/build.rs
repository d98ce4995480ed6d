//! Puts a [`Stack`] together, from the outside in.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::{AgentRole, AgentRoleSpec, RepoSpec};

use super::manifests::{self, Outside};
use super::outside::{self, Models, Outside as Running, Surroundings};
use super::process::{Process, ProcessCommand};
use super::toolchain::{AGENT_IMAGE, WORKSPACE_IMAGE, images};
use super::{Metrics, Stack, StackError, StackOptions};
use crate::apiserver;
use crate::cluster::Cluster;
use crate::controllers::{ControllerManager, ControllerOptions};
use crate::kubelet::{Kubelet, KubeletError, KubeletOptions, Leak, ServiceForward};
use crate::models::ModelServer;

/// Name and port of the gateway's Service.
const SERVICE: &str = "codebutler-gateway";
const GATEWAY_PORT: u16 = 8443;
const METRICS_PORT: u16 = 8080;
/// Name of the testbed's node.
const NODE: &str = "testbed";
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

/// See [`Stack::start_in`].
pub async fn start(
    options: StackOptions,
    mut surroundings: Surroundings,
) -> Result<Stack, StackError> {
    let dir = options.dir.clone();
    for sub in ["bin", "logs", "cluster", "git", "node", "volumes"] {
        std::fs::create_dir_all(dir.join(sub)).map_err(io("making the state folder"))?;
    }
    let operator = link(&dir, &options.program, "codebutler-operator")?;
    let outside = outside::start(&options, &surroundings).await?;
    let life = surroundings.life.take();
    let server = apiserver::Options {
        port: life.as_ref().and_then(|life| life.ports.cluster),
        snapshot: life.map(|life| life.objects),
        ..apiserver::Options::default()
    };
    let (place, at) = (options.place.clone(), dir.join("cluster"));
    let cluster = if place.is_usual() {
        Cluster::start_alone(&at, server).await
    } else {
        Cluster::start_with(&at, server).await
    };
    let cluster = cluster.map_err(part("API server"))?;
    let client = cluster.client();
    let watched = place.watched(&cluster);
    let controllers = ControllerManager::start_in(
        client.clone(),
        ControllerOptions { pv_dir: dir.join("volumes"), root_ca: None },
        watched.clone(),
    )
    .await
    .map_err(part("controller manager"))?;
    let options = settled(options, &cluster, controllers.storage_class());
    install(&cluster, &options, &surroundings.models).await?;
    // Addresses of this stack's own, so that no port has to be guessed free.
    let ip = own_loopback_address();
    let gateway_address = SocketAddr::new(ip, GATEWAY_PORT);
    let metrics = Metrics {
        gateway: SocketAddr::new(ip, METRICS_PORT),
        controller: SocketAddr::new(ip, METRICS_PORT + 1),
    };
    let api = url::Url::parse(cluster.url()).map_err(part("API server"))?;
    let agent = surroundings.agent.as_ref().unwrap_or(&options.program);
    let kubelet = kubelet(&cluster, &api, &options, agent, gateway_address).await;
    let kubelet = kubelet.map_err(part("kubelet"))?;
    let processes = Processes { cluster: &cluster, options: &options, operator, watched };
    let mut gateway = processes
        .spawn(
            "gateway",
            vec![
                format!("--listen={gateway_address}"),
                // Started again, it goes on with its own lease.
                "--pod=codebutler-gateway-0".to_owned(),
                format!("--metrics-address={}", metrics.gateway),
                format!("--slack-api={}", outside.slack.api_url()),
                format!("--git-cache={}", dir.join("git-cache").display()),
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
                // Started again after a kill, it goes on at once; and a machine that is busy with
                // other things takes it from nobody.
                "--identity=controller-0".to_owned(),
                "--lease-seconds=60".to_owned(),
            ],
        )
        .await?;
    ready("gateway", &mut gateway, metrics.gateway).await?;
    ready("controller", &mut controller, metrics.controller).await?;

    let what = pointed_at(&options, &outside, &surroundings.models);
    let edit = options.edit_repo.as_deref();
    for object in manifests::team(&place, &options.name, options.roles, &what, edit) {
        apply(&cluster, &object).await?;
    }
    outside.slack.wait_connected(1, READY).await.map_err(part("Slack"))?;

    Ok(Stack {
        dir,
        place,
        cluster,
        kubelet,
        slack: outside.slack,
        github: outside.github,
        remote: outside.remote,
        models: outside.models,
        controller,
        gateway,
        metrics,
        repo: options.name,
        channel: outside.channel,
        users: outside.users,
        branch: options.branch,
        first_commit: outside.first_commit,
        controllers,
    })
}

/// What the team's Repo points at.
fn pointed_at(options: &StackOptions, world: &Running, models: &Models) -> Outside {
    let (model_url, api_key) = match models {
        Models::Real(provider) => (provider.url.clone(), provider.key.clone()),
        _ => (world.models.url(), world.models.api_key().to_owned()),
    };
    Outside {
        git_url: world.remote.url().to_owned(),
        branch: options.branch.clone(),
        model_url,
        slack_url: world.slack.api_url(),
        channel: world.channel.clone(),
        git_token: world.github.token().to_owned(),
        bot_token: world.slack.bot_token(),
        app_token: world.slack.app_token(),
        api_key,
        debounce: options.debounce_seconds,
    }
}

/// What a cluster with a scheduler and volumes of its own has to be told, so that pods come to the
/// testbed's node and volumes from its folder.
fn settled(mut options: StackOptions, cluster: &Cluster, class: &str) -> StackOptions {
    if !cluster.is_shared() {
        return options;
    }
    let (class, edit) = (class.to_owned(), options.edit_repo.take());
    options.edit_repo = Some(Arc::new(move |repo: &mut RepoSpec| {
        repo.worktree.storage_class_name = Some(class.clone());
        if let Some(edit) = &edit {
            edit(repo);
        }
    }));
    let (node, edit) = (options.place.named(NODE), options.edit_role.take());
    options.edit_role = Some(Arc::new(move |role: &mut AgentRoleSpec| {
        role.node_selector.insert("kubernetes.io/hostname".to_owned(), node.clone());
        if let Some(edit) = &edit {
            edit(role);
        }
    }));
    options
}

async fn kubelet(
    cluster: &Cluster,
    api: &url::Url,
    stack: &StackOptions,
    agent: &Path,
    gateway: SocketAddr,
) -> Result<Kubelet, KubeletError> {
    let place = &stack.place;
    let node = place.named(NODE);
    let mut options = KubeletOptions::new(node, stack.dir.join("node"), &stack.program);
    options.images = images(agent);
    if cluster.is_shared() {
        options.namespaces = vec![place.team.clone(), place.system.clone()];
    }
    // As every kubelet does.
    for image in options.images.values_mut() {
        let port = api.port_or_known_default().unwrap_or_default().to_string();
        let host = api.host_str().unwrap_or_default().to_owned();
        image.env.insert("KUBERNETES_SERVICE_HOST".to_owned(), host);
        image.env.insert("KUBERNETES_SERVICE_PORT".to_owned(), port);
    }
    options.services = vec![ServiceForward {
        namespace: place.system.clone(),
        service: SERVICE.to_owned(),
        port: GATEWAY_PORT,
        target: gateway,
    }];
    options.leaks = leaks(api, stack.late_wall);
    options.inject_env.clone_from(&stack.inject_env);
    Kubelet::start(cluster.client(), options).await
}

/// The API server, at the address that pods are told.
fn leaks(api: &url::Url, late_wall: Option<Duration>) -> Vec<Leak> {
    let ip = api.host_str().and_then(|host| host.parse::<IpAddr>().ok());
    let address = ip.zip(api.port_or_known_default()).map(SocketAddr::from);
    let leak = |(address, lasts)| Leak { address, target: address, lasts: Some(lasts) };
    address.zip(late_wall).map(leak).into_iter().collect()
}

/// What `kubectl apply` and later the chart install: definitions, rights, Service, roles.
async fn install(
    cluster: &Cluster,
    options: &StackOptions,
    models: &Models,
) -> Result<(), StackError> {
    cluster.install_crds().await.map_err(part("API server"))?;
    options.place.make(cluster).await.map_err(part("API server"))?;
    for yaml in manifests::system(&options.place).map_err(part("API server"))? {
        cluster.apply_yaml(&yaml).await.map_err(part("API server"))?;
    }
    let model = |role: &AgentRole| match models {
        Models::Real(provider) => provider.model.clone(),
        _ => Some(ModelServer::model(&role.spec.role)),
    };
    for mut role in manifests::roles(&options.place, model)? {
        let seconds = &mut role.spec.idle_timeout_seconds;
        *seconds = options.idle_timeout_seconds.unwrap_or(*seconds);
        if let Some(edit) = options.edit_role.as_deref() {
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
    options: &'a StackOptions,
    operator: PathBuf,
    watched: Vec<String>,
}

impl Processes<'_> {
    /// Starts one with its own ServiceAccount's token.
    async fn spawn(&self, name: &str, flags: Vec<String>) -> Result<Process, StackError> {
        let (options, account) = (self.options, format!("codebutler-{name}"));
        let (dir, system) = (&options.dir, &options.place.system);
        let config = kubeconfig(self.cluster, dir, system, &account).await?;
        let watched = self.watched.iter().map(|name| format!("--namespaces={name}").into());
        ProcessCommand {
            program: self.operator.clone(),
            args: std::iter::once(name.into())
                .chain(flags.into_iter().map(OsString::from))
                .chain([format!("--namespace={system}").into()])
                .chain(watched)
                .collect(),
            env: vec![
                ("KUBECONFIG".to_owned(), config.into_os_string()),
                ("CODEBUTLER_LOG".to_owned(), options.log.clone().into()),
            ],
            log: dir.join("logs").join(format!("{name}.log")),
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
async fn kubeconfig(
    cluster: &Cluster,
    dir: &Path,
    system: &str,
    account: &str,
) -> Result<PathBuf, StackError> {
    use std::io::Write as _;
    let yaml =
        cluster.kubeconfig_for(system, account, TOKEN_LIFE).await.map_err(part("API server"))?;
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
