//! Puts a [`RunningStack`] together, from the outside in.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::retrospective::RetrospectiveSpec;
use codebutler_crds::{AgentRole, AgentRoleSpec, RepoSpec};

use super::earlier::EarlierBuild;
use super::manifests::{self, RepoTargets};
use super::nodes::{self, OwnNodes};
use super::operator_processes::{
    GATEWAY_PART, ProcessSetup, READY, await_ready, io_error, link_program, part_error,
};
use super::outside::{self, ModelSource, OutsideWorld as Running, StackSurroundings};
use super::part::StackPart;
use super::shards::{self, LeaderForwards};
use super::toolchain::{AGENT_IMAGE, WORKSPACE_IMAGE, build_images};
use super::{MetricsAddresses, PagesAccess, RunningStack, StackError, StackOptions};
use crate::apiserver;
use crate::cluster::TestCluster;
use crate::controllers::{ControllerManager, ControllerOptions};
use crate::kubelet::{
    HOST_IP, KubeletError, KubeletOptions, LocalImage, NetworkLeak, ProcessKubelet, ServiceForward,
};
use crate::models::ModelServer;
use crate::serving::own_loopback_address;

/// Name and port of the gateway's Service.
const SERVICE: &str = "codebutler-gateway";
const GATEWAY_PORT: u16 = 8443;
const METRICS_PORT: u16 = 8080;
/// Port of a node's kubelet.
const KUBELET_PORT: u16 = 10_250;
/// Name of the testbed's node.
const NODE: &str = "testbed";

/// Starts a stack; see [`RunningStack::start_in`].
pub async fn start_stack(
    options: StackOptions,
    mut surroundings: StackSurroundings,
) -> Result<RunningStack, StackError> {
    let dir = options.dir.clone();
    for sub in ["bin", "logs", "cluster", "git", "node", "volumes"] {
        std::fs::create_dir_all(dir.join(sub)).map_err(io_error("making the state folder"))?;
    }
    let outside = outside::start_outside(&options, &surroundings).await?;
    let life = surroundings.life.take();
    let server = apiserver::ServerOptions {
        port: life.as_ref().and_then(|life| life.ports.cluster),
        snapshot: life.map(|life| life.objects),
        ..apiserver::ServerOptions::default()
    };
    let (place, at) = (options.place.clone(), dir.join("cluster"));
    let cluster = if place.is_usual() {
        TestCluster::start_alone(&at, server).await
    } else {
        TestCluster::start_with(&at, server).await
    };
    let cluster = cluster.map_err(part_error("API server"))?;
    if let Some(earlier) = surroundings.earlier.as_ref().filter(|_| cluster.is_shared()) {
        return Err(StackError::Part { part: "API server", source: earlier.refuse_cluster() });
    }
    let api = outside.slack.api_url();
    let (options, product) = match options.nodes.clone() {
        Some(nodes) => {
            let product = on_nodes(&nodes, &cluster, &options, &surroundings.models, &api).await?;
            (options, product)
        }
        None => start_here(&cluster, options, &surroundings, &outside).await?,
    };

    let what = pointed_at(&options, &outside, &surroundings.models);
    let (looks_back, own) = (options.looks_back, options.edit_repo.clone());
    let edit = move |repo: &mut RepoSpec| {
        repo.retrospective = (!looks_back)
            .then(|| RetrospectiveSpec { enabled: false, ..RetrospectiveSpec::default() });
        if let Some(edit) = &own {
            edit(repo);
        }
    };
    for object in manifests::team_manifests(&place, &options.name, options.roles, &what, &edit) {
        put_object(&cluster, surroundings.earlier.as_ref(), &object).await?;
    }
    outside.slack.wait_connected(1, READY).await.map_err(part_error("Slack"))?;

    Ok(RunningStack {
        dir,
        place,
        cluster,
        kubelet: product.kubelet,
        slack: outside.slack,
        github: outside.github,
        remote: outside.remote,
        models: outside.models,
        controller: product.controller,
        gateway: product.gateway,
        further_gateways: product.further_gateways,
        metrics: product.metrics,
        repo: options.name,
        channel: outside.channel,
        users: outside.users,
        branch: options.branch,
        first_commit: outside.first_commit,
        controllers: product.controllers,
        _leaders: product.leaders,
    })
}

/// The product's processes and the parts that run its pods.
struct ProductRun {
    gateway: StackPart,
    further_gateways: Vec<StackPart>,
    leaders: Option<LeaderForwards>,
    controller: StackPart,
    metrics: MetricsAddresses,
    kubelet: Option<ProcessKubelet>,
    controllers: Option<ControllerManager>,
}

/// The product as its chart installs it, on nodes that are there.
async fn on_nodes(
    nodes: &OwnNodes,
    cluster: &TestCluster,
    options: &StackOptions,
    models: &ModelSource,
    slack_api: &str,
) -> Result<ProductRun, StackError> {
    prepare_cluster(cluster, options, None).await?;
    nodes.install(cluster, options, slack_api).await.map_err(part_error("chart"))?;
    apply_roles(cluster, options, models, None).await?;
    let (gateway, controller, metrics) =
        nodes::deploy_product(cluster, options).await.map_err(part_error("product"))?;
    let [gateway, controller] =
        [gateway, controller].map(|part| StackPart::Deployed(Box::new(part)));
    Ok(ProductRun {
        gateway,
        further_gateways: Vec::new(),
        leaders: None,
        controller,
        metrics,
        kubelet: None,
        controllers: None,
    })
}

/// The product as processes of this machine, with a kubelet and controllers of the testbed; and the
/// options as the cluster needs them.
async fn start_here(
    cluster: &TestCluster,
    options: StackOptions,
    surroundings: &StackSurroundings,
    outside: &Running,
) -> Result<(StackOptions, ProductRun), StackError> {
    let slack_api = outside.slack.api_url();
    let dir = options.dir.clone();
    let earlier = surroundings.earlier.as_ref();
    let program = earlier.map_or(&options.program, |earlier| &earlier.program).clone();
    let operator = link_program(&dir, &program, "codebutler-operator")?;
    let watched = options.place.watched(cluster);
    let controllers = ControllerManager::start_in(
        cluster.client(),
        ControllerOptions { pv_dir: dir.join("volumes"), root_ca: None },
        watched.clone(),
    )
    .await
    .map_err(part_error("controller manager"))?;
    let options = settle_options(options, cluster, controllers.storage_class());
    prepare_cluster(cluster, &options, earlier).await?;
    let rights = manifests::system_manifests(&options.place, earlier);
    for yaml in rights.map_err(part_error("API server"))? {
        cluster.apply_yaml(&yaml).await.map_err(part_error("API server"))?;
    }
    apply_roles(cluster, &options, &surroundings.models, earlier).await?;
    // Addresses of this stack's own, so that no port has to be guessed free.
    let ip = own_loopback_address();
    let gateway_address = SocketAddr::new(ip, GATEWAY_PORT);
    let several = if surroundings.shards > 1 { surroundings.shards } else { 0 };
    let others = (0..several).map(|_| SocketAddr::new(own_loopback_address(), GATEWAY_PORT));
    let addresses: Vec<SocketAddr> = [gateway_address].into_iter().chain(others).collect();
    let leaders = shards::prepare_shards(cluster, &options.place, &addresses, several).await;
    let leaders = leaders.map_err(part_error("shards"))?;
    let pages = SocketAddr::new(ip, METRICS_PORT + 2);
    let deliveries = SocketAddr::new(ip, METRICS_PORT + 3);
    let metrics = MetricsAddresses {
        gateway: SocketAddr::new(ip, METRICS_PORT),
        pages: Some(pages),
        deliveries: Some(deliveries),
        controller: SocketAddr::new(ip, METRICS_PORT + 1),
    };
    let api = url::Url::parse(cluster.url()).map_err(part_error("API server"))?;
    let agent = surroundings.agent.as_ref().unwrap_or(&program);
    let mut images = build_images(agent);
    images.extend(surroundings.images.clone());
    let one = || vec![(GATEWAY_PORT, gateway_address)];
    let forwards = leaders.as_ref().map_or_else(one, LeaderForwards::ports);
    let kubelet = start_kubelet(cluster, &api, &options, images, forwards).await;
    let kubelet = kubelet.map_err(part_error("kubelet"))?;
    let proxies = &surroundings.proxies;
    let processes = ProcessSetup { cluster, options: &options, operator, watched, proxies };
    let silence = options.agent_silence;
    let silence = silence.map(|limit| format!("--agent-silence-seconds={}", limit.as_secs()));
    let own = vec![format!("--pages={pages}"), format!("--deliveries-listen={deliveries}")];
    let watched_by = watching_arguments(cluster, &options, pages, outside).await?;
    let common: Vec<String> =
        silence.into_iter().chain(shards::shard_flag("shards", several)).collect();
    let mut gateways = Vec::new();
    for (number, address) in addresses.into_iter().enumerate() {
        let flags = shards::gateway_flags(&dir, number, (address, METRICS_PORT), &slack_api);
        let first = [own.clone(), watched_by.clone()].concat();
        let first = if number == 0 { first } else { Vec::new() };
        let flags = [flags, common.clone(), first].concat();
        gateways.push(processes.spawn(GATEWAY_PART, flags).await?);
    }
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
            ]
            .into_iter()
            .chain(shards::shard_flag("gateway-shards", several))
            .collect(),
        )
        .await?;
    await_ready("gateway", &mut gateways[0], metrics.gateway).await?;
    await_ready("controller", &mut controller, metrics.controller).await?;
    let further_gateways = gateways.split_off(1).into_iter().map(StackPart::from).collect();
    let product = ProductRun {
        gateway: gateways.remove(0).into(),
        further_gateways,
        leaders,
        controller: controller.into(),
        metrics,
        kubelet: Some(kubelet),
        controllers: Some(controllers),
    };
    Ok((options, product))
}

/// Arguments of the gateway for the pages' address and for signing in.
async fn watching_arguments(
    cluster: &TestCluster,
    options: &StackOptions,
    address: SocketAddr,
    outside: &Running,
) -> Result<Vec<String>, StackError> {
    let own = format!("http://{address}");
    match &options.pages {
        PagesAccess::Unlinked => Ok(Vec::new()),
        PagesAccess::Open => Ok(vec![format!("--pages-url={own}")]),
        PagesAccess::Slack | PagesAccess::OpenId(_) => {
            let back = format!("{own}/sign-in/done");
            let (kind, issuer, client) = if let PagesAccess::OpenId(issuer) = &options.pages {
                issuer.allow_redirect(&back);
                ("oidc", issuer.origin(), issuer.client())
            } else {
                outside.slack.allow_redirect(&back);
                ("slack", outside.slack.origin(), outside.slack.openid_client())
            };
            for object in manifests::sign_in(&options.place, issuer, &client) {
                put_object(cluster, None, &object).await?;
            }
            Ok(vec![
                format!("--pages-url={own}"),
                format!("--pages-sign-in={kind}"),
                format!("--pages-issuer={issuer}"),
                format!("--pages-secret={}", manifests::SIGN_IN),
            ])
        }
    }
}

/// Addresses and credentials that the team's Repo refers to.
fn pointed_at(options: &StackOptions, world: &Running, models: &ModelSource) -> RepoTargets {
    let (model_url, api_key, model_api) = match models {
        ModelSource::Real(provider) => (provider.url.clone(), provider.key.clone(), provider.api),
        _ => (world.models.url(), world.models.api_key().to_owned(), None),
    };
    RepoTargets {
        git_url: world.remote.url().to_owned(),
        branch: options.branch.clone(),
        model_url,
        model_api,
        slack_url: world.slack.api_url(),
        channel: world.channel.clone(),
        git_token: world.github.token().to_owned(),
        bot_token: world.slack.bot_token(),
        app_token: world.slack.app_token(),
        api_key,
        debounce: options.debounce_seconds,
    }
}

/// Adapts the options to a cluster with a scheduler and volumes of its own, so that pods come to the
/// testbed's node and volumes from its folder.
fn settle_options(mut options: StackOptions, cluster: &TestCluster, class: &str) -> StackOptions {
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

async fn start_kubelet(
    cluster: &TestCluster,
    api: &url::Url,
    stack: &StackOptions,
    images: BTreeMap<String, LocalImage>,
    gateways: Vec<(u16, SocketAddr)>,
) -> Result<ProcessKubelet, KubeletError> {
    let place = &stack.place;
    let node = place.named(NODE);
    let mut options = KubeletOptions::new(node, stack.dir.join("node"), &stack.program);
    options.images = images;
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
    let forward = |(port, target)| ServiceForward {
        namespace: place.system.clone(),
        service: SERVICE.to_owned(),
        port,
        target,
    };
    options.services = gateways.into_iter().map(forward).collect();
    options.leaks = wall_leaks(api, stack.late_wall);
    options.inject_env.clone_from(&stack.inject_env);
    ProcessKubelet::start(cluster.client(), options).await
}

/// The API server, at the address that pods are told, and the node's kubelet, for which it stands in.
fn wall_leaks(api: &url::Url, late_wall: Option<Duration>) -> Vec<NetworkLeak> {
    let ip = api.host_str().and_then(|host| host.parse::<IpAddr>().ok());
    let target = ip.zip(api.port_or_known_default()).map(SocketAddr::from);
    let Some((target, lasts)) = target.zip(late_wall) else { return Vec::new() };
    let node = SocketAddr::new(HOST_IP, KUBELET_PORT);
    [target, node].map(|address| NetworkLeak { address, target, lasts: Some(lasts) }).into()
}

/// Definitions and namespaces.
async fn prepare_cluster(
    cluster: &TestCluster,
    options: &StackOptions,
    earlier: Option<&EarlierBuild>,
) -> Result<(), StackError> {
    let installed = match earlier {
        Some(earlier) => cluster.install_definitions(&earlier.definitions).await,
        None => cluster.install_crds().await,
    };
    installed.map_err(part_error("API server"))?;
    options.place.make(cluster).await.map_err(part_error("API server"))
}

/// The AgentRoles, with the models that answer.
async fn apply_roles(
    cluster: &TestCluster,
    options: &StackOptions,
    models: &ModelSource,
    earlier: Option<&EarlierBuild>,
) -> Result<(), StackError> {
    let model = |role: &AgentRole| match models {
        ModelSource::Real(provider) => provider.model.clone(),
        _ => Some(ModelServer::model(&role.spec.role)),
    };
    let roles = match earlier {
        Some(earlier) => manifests::read_roles(&options.place, earlier.role_files(), model),
        None => manifests::seed_roles(&options.place, model),
    };
    for mut role in roles? {
        let seconds = &mut role.spec.idle_timeout_seconds;
        *seconds = options.idle_timeout_seconds.unwrap_or(*seconds);
        if let Some(edit) = options.edit_role.as_deref() {
            edit(&mut role.spec);
        }
        put_object(cluster, earlier, &role).await?;
    }
    Ok(())
}

/// Applies an object of this build's types. With an earlier build's definitions it is created: they may lack a field.
async fn put_object(
    cluster: &TestCluster,
    earlier: Option<&EarlierBuild>,
    object: &impl serde::Serialize,
) -> Result<(), StackError> {
    let mut json = serde_json::to_value(object).map_err(part_error("API server"))?;
    if let Some(map) = json.as_object_mut() {
        map.remove("status");
    }
    let put = match earlier {
        Some(_) => cluster.create_yaml(&json.to_string()).await,
        None => cluster.apply_yaml(&json.to_string()).await,
    };
    put.map_err(part_error("API server"))
}
