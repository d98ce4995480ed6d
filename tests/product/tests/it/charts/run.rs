//! Runs what the chart renders: both processes start with exactly the Deployments' accounts, arguments and
//! environment, and a thread is answered.

use std::ffi::OsString;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use codebutler_crds::names::SECRETS_ROLE;
use codebutler_crds::{AgentRole, Repo, Thread};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::place::{SYSTEM, TEAM};
use codebutler_testbed::stack::process::ProcessCommand;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, Namespace, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::apiserver::kubectl::kubectl;
use crate::support::{Setup, Team, needs_process_kubelet};

/// Names of what there is of a kind in the operator's namespace.
async fn there<K>(client: &Client) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let all = Api::<K>::namespaced(client.clone(), SYSTEM).list(&ListParams::default()).await;
    let kind = K::kind(&()).into_owned();
    all.unwrap().iter().map(|object| format!("{kind} {}", object.name_any())).collect()
}

async fn remove<K>(client: &Client)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api = Api::<K>::namespaced(client.clone(), SYSTEM);
    for object in api.list(&ListParams::default()).await.unwrap() {
        api.delete(&object.name_any(), &DeleteParams::default()).await.unwrap();
    }
}

async fn remove_ours<K>(client: &Client)
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    for name in ["codebutler-controller", "codebutler-gateway"] {
        let api = Api::<K>::all(client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

/// Everything that is in the operator's namespace and not Kubernetes' own.
async fn inventory(client: &Client) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(there::<AgentRole>(client).await);
    found.extend(there::<ConfigMap>(client).await);
    found.extend(there::<Deployment>(client).await);
    found.extend(there::<Lease>(client).await);
    found.extend(there::<NetworkPolicy>(client).await);
    found.extend(there::<Pod>(client).await);
    found.extend(there::<PodDisruptionBudget>(client).await);
    found.extend(there::<Role>(client).await);
    found.extend(there::<RoleBinding>(client).await);
    found.extend(there::<Secret>(client).await);
    found.extend(there::<Service>(client).await);
    found.extend(there::<ServiceAccount>(client).await);
    let own = ["ConfigMap kube-root-ca.crt", "ServiceAccount default"];
    found.retain(|object| !own.contains(&object.as_str()));
    found
}

/// Folder of the command line tools that people have; nothing where there is no Python for them.
pub(super) fn tools(team: &Team) -> Option<PathBuf> {
    let venv = super::venv()?;
    let dir = team.stack.dir.join("tools");
    if !dir.exists() {
        std::fs::create_dir(&dir).unwrap();
        let cli = Path::new(codebutler_testbed::FOLDER).join("clients/helm_cli.py");
        let python = venv.join("bin/python");
        let script = format!("#!/bin/sh\nexec {} {} \"$@\"\n", python.display(), cli.display());
        std::fs::write(dir.join("helm"), script).unwrap();
        std::fs::set_permissions(dir.join("helm"), Permissions::from_mode(0o755)).unwrap();
        symlink(kubectl()?, dir.join("kubectl")).unwrap();
    }
    Some(dir)
}

/// Runs a command line as somebody would at the repository's top, and returns what it printed;
/// nothing where the tools are missing.
pub(super) async fn shell(team: &Team, values: &serde_json::Value, line: &str) -> Option<String> {
    let mut path = tools(team)?.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = tokio::process::Command::new("bash")
        .args(["-e", "-u", "-c", line])
        .current_dir(Path::new(codebutler_testbed::FOLDER).join(".."))
        .env("PATH", path)
        .env("KUBECONFIG", team.stack.cluster.kubeconfig())
        .env("HELM_VALUES", values.to_string())
        .env("HOME", &team.stack.dir)
        .output()
        .await
        .unwrap();
    if !output.status.success() {
        let repos =
            Api::<Repo>::all(team.stack.cluster.client()).list(&ListParams::default()).await;
        let repos = repos.map(|repos| serde_json::to_string(&repos.items).unwrap());
        panic!("{line}: {}\n{repos:?}", String::from_utf8_lossy(&output.stderr));
    }
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The values of an installation on the testbed: its Slack, its images, its scripted models.
pub(super) fn values(team: &Team) -> serde_json::Value {
    json!({
        "images": {"agent": {"repository": "codebutler-agent", "tag": "testbed"},
                   "workspace": "workspace:testbed"},
        "gateway": {"slackApi": team.stack.slack.api_url(), "replicas": 1, "logJson": false,
                    "egressAllow": ["127.0.0.0/8"],
                    "extraEnv": [{"name": "CODEBUTLER_LISTEN", "value": listen(team, 8443)}]},
        "controller": {"replicas": 1, "logJson": false},
        // Other tests run on the same loopback.
        "pages": {"enabled": false},
        "roles": {"overrides": {"pm": {"model": {"default": "scripted/pm"}}}},
    })
}

/// Ports of the pods' own network, which processes of this machine don't have.
fn listen(team: &Team, port: u16) -> String {
    SocketAddr::new(team.stack.metrics.gateway.ip(), port).to_string()
}

/// A container's variable as the kubelet would set it.
fn resolved(var: &EnvVar, name: &str, known: &[(String, OsString)]) -> OsString {
    let Some(source) = &var.value_from else {
        let value = var.value.clone().unwrap_or_default();
        let put = |value: String, (name, known): &(String, OsString)| {
            value.replace(&format!("$({name})"), &known.to_string_lossy())
        };
        return known.iter().fold(value, put).into();
    };
    match source.field_ref.as_ref().unwrap().field_path.as_str() {
        "metadata.namespace" => SYSTEM.into(),
        "metadata.name" => format!("{name}-0").into(),
        "metadata.uid" => "00000000-0000-4000-8000-000000000001".into(),
        "status.podIP" => "10.1.0.1".into(),
        other => panic!("{other}"),
    }
}

/// Starts a Deployment's one container, as its pod would.
async fn start(team: &Team, name: &str, metrics: SocketAddr) -> ProcessCommand {
    let client = team.stack.cluster.client();
    let deployment = Api::<Deployment>::namespaced(client, SYSTEM).get(name).await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let account = pod.service_account_name.unwrap();
    let [container]: [Container; 1] = pod.containers.try_into().unwrap();
    assert!(container.command.is_none(), "the image says what runs");
    let token = team.stack.cluster.kubeconfig_for(SYSTEM, &account, Duration::from_hours(1));
    let config = team.stack.dir.join(format!("{name}.rendered"));
    std::fs::write(&config, token.await.unwrap()).unwrap();
    let mut env = Vec::new();
    for var in container.env.unwrap_or_default() {
        env.push((var.name.clone(), resolved(&var, name, &env)));
    }
    env.push(("KUBECONFIG".to_owned(), config.into_os_string()));
    env.push(("CODEBUTLER_METRICS_ADDRESS".to_owned(), metrics.to_string().into()));
    let cache = team.stack.dir.join("git-cache").into_os_string();
    env.push(("CODEBUTLER_GIT_CACHE".to_owned(), cache));
    env.retain(|(name, _)| name != "CODEBUTLER_HISTORY");
    let history = team.stack.dir.join("history").into_os_string();
    env.push(("CODEBUTLER_HISTORY".to_owned(), history));
    // For `git`, which the image has in its own PATH.
    env.push(("PATH".to_owned(), std::env::var_os("PATH").unwrap_or_default()));
    ProcessCommand {
        program: team.stack.dir.join("bin/codebutler-operator"),
        args: container.args.unwrap().into_iter().map(OsString::from).collect(),
        env,
        log: team.stack.dir.join("logs").join(format!("{name}.log")),
    }
}

async fn ready(team: &Team, address: SocketAddr, command: &ProcessCommand) {
    let url = format!("http://{address}/readyz");
    let what = format!("{:?} to be ready, see {}", command.args, command.log.display());
    team.until(&what, || async {
        let answer = reqwest::get(&url).await.ok()?;
        answer.status().is_success().then_some(())
    })
    .await;
}

/// A team on a cluster without the product: Slack, models and the Git host are there.
pub(super) async fn bare() -> Team {
    let mut team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("From a chart.")]))
        .usual()
        .start()
        .await;
    let client = team.stack.cluster.client();
    team.stack.controller.stop().await.unwrap();
    team.stack.gateway.stop().await.unwrap();
    // The resources that the stack installs from plain manifests go; the definitions stay.
    remove_ours::<ClusterRole>(&client).await;
    remove_ours::<ClusterRoleBinding>(&client).await;
    let roles = Api::<ClusterRole>::all(client.clone());
    roles.delete(SECRETS_ROLE, &DeleteParams::default()).await.unwrap();
    remove::<AgentRole>(&client).await;
    remove::<Role>(&client).await;
    remove::<RoleBinding>(&client).await;
    remove::<Service>(&client).await;
    remove::<Lease>(&client).await;
    remove::<Secret>(&client).await;
    remove::<ServiceAccount>(&client).await;
    remove::<ConfigMap>(&client).await;
    assert_eq!(inventory(&client).await, [""; 0]);
    team
}

/// Starts the two processes as the chart renders them.
pub(super) async fn start_both(team: &mut Team) {
    let (gateway, controller) = (team.stack.metrics.gateway, team.stack.metrics.controller);
    let command = start(team, "codebutler-gateway", gateway).await;
    team.stack.gateway = command.spawn().unwrap().into();
    ready(team, gateway, &command).await;
    let command = start(team, "codebutler-controller", controller).await;
    team.stack.controller = command.spawn().unwrap().into();
    ready(team, controller, &command).await;
}

/// A team on an installation of the chart, whose two processes run as rendered; nothing where there
/// is no Helm.
async fn installed(more: serde_json::Value) -> Option<Team> {
    let mut team = bare().await;
    let mut values = values(&team);
    values.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let install = format!("helm install codebutler charts/codebutler -n {SYSTEM}");
    if shell(&team, &values, &install).await.is_none() {
        team.stop().await;
        return None;
    }
    start_both(&mut team).await;
    Some(team)
}

/// Ends an installation in the order that the README names.
async fn uninstall(team: &mut Team, thread: &str) {
    team.stack.threads().delete(thread, &DeleteParams::default()).await.unwrap();
    team.until("nothing to be left", || async { team.leftovers().await.is_empty().then_some(()) })
        .await;
    team.stack.controller.stop().await.unwrap();
    team.stack.gateway.stop().await.unwrap();
    shell(team, &json!({}), &format!("helm uninstall codebutler -n {SYSTEM}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chart_renders_answers_a_thread_and_goes_without_a_trace() {
    if needs_process_kubelet("the chart's processes run on this machine") {
        return;
    }
    let Some(mut team) = Box::pin(installed(json!({}))).await else { return };
    let client = team.stack.cluster.client();
    let root = team.says("ana", None, "hello");
    team.message(&root, "From a chart.").await;
    team.settled(&root, "pm").await;
    let leases = Api::<Lease>::namespaced(client.clone(), SYSTEM);
    let lease = leases.get("codebutler-controller").await.unwrap().spec.unwrap();
    let identity = "codebutler-controller-0_00000000-0000-4000-8000-000000000001";
    assert_eq!(lease.holder_identity.as_deref(), Some(identity));

    let thread = team.thread(&root).await.name_any();
    uninstall(&mut team, &thread).await;
    // The resources that the processes made for themselves stay, so that an installation that comes back goes on.
    let left = [
        "ConfigMap codebutler-gateway-ca",
        "Lease codebutler-controller",
        "Lease codebutler-gateway",
        "Secret codebutler-gateway-tls",
    ];
    assert_eq!(inventory(&client).await, left);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_for_some_namespaces_looks_after_those_alone() {
    if needs_process_kubelet("the chart's processes run on this machine") {
        return;
    }
    let Some(mut team) = Box::pin(installed(json!({"namespaces": [TEAM]}))).await else { return };
    let client = team.stack.cluster.client();
    // The chart's own Roles are enough.
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), TEAM);
    bindings.delete(SECRETS_ROLE, &DeleteParams::default()).await.unwrap();
    // The same Repo in a namespace that is not listed, and a Thread that wants to be worked on.
    let name = json!({"generateName": "unlisted-"});
    let namespace = serde_json::from_value(json!({"metadata": name})).unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    let other = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();
    let repos = |namespace: &str| Api::<Repo>::namespaced(client.clone(), namespace);
    let mut repo = repos(TEAM).get(&team.stack.repo).await.unwrap();
    repo.metadata = ObjectMeta { name: repo.metadata.name, ..ObjectMeta::default() };
    repo.status = None;
    repos(&other).create(&PostParams::default(), &repo).await.unwrap();
    let threads = Api::<Thread>::namespaced(client.clone(), &other);
    let thread =
        json!({"metadata": {"name": "left-alone"}, "spec": {"repo": "shop", "prompt": "hello"}});
    let thread = serde_json::from_value(thread).unwrap();
    threads.create(&PostParams::default(), &thread).await.unwrap();

    let root = team.says("ana", None, "hello");
    team.message(&root, "From a chart.").await;
    team.settled(&root, "pm").await;
    assert!(repos(&other).get("shop").await.unwrap().status.is_none());
    assert!(threads.get("left-alone").await.unwrap().status.is_none());
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &other);
    assert!(accounts.get_opt("codebutler-shop").await.unwrap().is_none());

    // Of the whole cluster only what has no namespace.
    let roles = Api::<ClusterRole>::all(client.clone());
    assert!(roles.get_opt("codebutler-controller").await.unwrap().is_none());
    assert!(roles.get_opt("codebutler-gateway").await.unwrap().is_none());
    assert!(roles.get_opt(SECRETS_ROLE).await.unwrap().is_none());
    let reviews = roles.get(&format!("codebutler-gateway-{SYSTEM}")).await.unwrap().rules.unwrap();
    let resources: Vec<_> = reviews.into_iter().filter_map(|rule| rule.resources).collect();
    assert_eq!(resources, [["tokenreviews"]]);
    // In the namespaces that are listed, exactly the rights that are the cluster's otherwise.
    for (name, manifest) in [
        ("codebutler-controller", include_str!("../../../../../operator/deploy/controller.yaml")),
        ("codebutler-gateway", include_str!("../../../../../operator/deploy/gateway.yaml")),
    ] {
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(manifest).unwrap();
        let whole = documents.into_iter().find(|document| document["kind"] == "ClusterRole");
        let mut whole_cluster: Vec<PolicyRule> =
            serde_json::from_value(whole.unwrap()["rules"].clone()).unwrap();
        // Rights on what belongs to no namespace can't be granted in one: a volume whose node is gone is told of
        // then.
        let clusters = ["tokenreviews", "persistentvolumes", "nodes"];
        whole_cluster.retain(|rule| {
            let resources = rule.resources.iter().flatten();
            !resources.into_iter().any(|resource| clusters.contains(&resource.as_str()))
        });
        let watched = Api::<Role>::namespaced(client.clone(), TEAM);
        let watched = watched.get(&format!("{name}-watched")).await.unwrap();
        assert_eq!(watched.rules.unwrap(), whole_cluster, "{name}");
        // And of the operator's own namespace what was asked for.
        let shared = Api::<Role>::namespaced(client.clone(), SYSTEM);
        let shared = shared.get(&format!("{name}-shared")).await.unwrap().rules.unwrap();
        if team.stack.cluster.is_embedded() {
            let asked =
                team.stack.cluster.requests_of(&format!("system:serviceaccount:{SYSTEM}:{name}"));
            for rule in shared {
                let resources = rule.resources.unwrap();
                for verb in rule.verbs {
                    let used = asked.iter().any(|(asked, _)| {
                        asked.namespace == SYSTEM
                            && asked.verb == verb
                            && resources.contains(&asked.resource)
                    });
                    assert!(used, "{name} has no use for {verb} {resources:?}");
                }
            }
        }
    }

    let thread = team.thread(&root).await.name_any();
    uninstall(&mut team, &thread).await;
    namespaces.delete(&other, &DeleteParams::default()).await.unwrap();
    team.stop().await;
}
