//! The testbed on nodes of a cluster's own: another process has the API server, the controllers and the
//! node; this one has nothing but the outside world.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use codebutler_testbed::kubelet::Signal;
use codebutler_testbed::serving::own_loopback_address;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::support::permit;

const IMAGES: &str = "127.0.0.1:5000/team/";

/// A cluster in a process of its own.
struct Standing {
    process: Child,
    kubeconfig: PathBuf,
}

impl Standing {
    async fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
        command.args(["--cluster", "--images", IMAGES]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut kubeconfig = None;
        loop {
            let line = tokio::time::timeout(Duration::from_mins(1), lines.next_line()).await;
            let line = line.expect("the cluster says no more").unwrap().expect("it ended");
            if let Some((_, path)) = line.split_once("KUBECONFIG=") {
                kubeconfig = Some(PathBuf::from(path));
            }
            if line.starts_with("Ctrl-C") {
                break;
            }
        }
        Self { process, kubeconfig: kubeconfig.unwrap() }
    }

    /// Ends the cluster as Ctrl-C would, but with SIGTERM.
    async fn stop(mut self) {
        let id = self.process.id().unwrap().cast_signed();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM).unwrap();
        let status = tokio::time::timeout(Duration::from_secs(30), self.process.wait()).await;
        assert!(status.expect("the cluster does not end").unwrap().success());
        assert!(!self.kubeconfig.exists());
    }

    async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        Client::try_from(Config::from_custom_kubeconfig(config, &options).await.unwrap()).unwrap()
    }
}

/// Observations of a cluster's pods while something ran on it.
#[derive(Default)]
struct Seen {
    /// Node of each pod.
    nodes: BTreeMap<String, String>,
    pinned: Vec<String>,
    deployments: BTreeMap<String, i32>,
}

impl Seen {
    async fn look(&mut self, client: &Client) {
        for pod in Api::<Pod>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
            let name = pod.name_any();
            let spec = pod.spec.unwrap_or_default();
            let selector = spec.node_selector.unwrap_or_default();
            if selector.contains_key("kubernetes.io/hostname") {
                self.pinned.push(name.clone());
            }
            self.nodes.insert(name, spec.node_name.unwrap_or_default());
        }
        let all = Api::<Deployment>::all(client.clone());
        for deployment in all.list(&ListParams::default()).await.unwrap() {
            let status = deployment.status.clone().unwrap_or_default();
            let ready = status.available_replicas.unwrap_or_default();
            let most = self.deployments.entry(deployment.name_any()).or_default();
            *most = ready.max(*most);
        }
    }
}

fn scenario() -> String {
    format!("{}/scenarios/question.yaml", codebutler_testbed::FOLDER)
}

/// Lists the child processes of a process that have a name of the product's.
fn product_processes(of: u32) -> Vec<String> {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let program = |id: &str| {
        let line = std::fs::read(Path::new("/proc").join(id).join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let name = Path::new(line.split('\0').next()?).file_name()?;
        Some(name.to_string_lossy().into_owned())
    };
    let all = children.unwrap_or_default();
    let programs = all.split_whitespace().filter_map(program);
    programs.filter(|name| name.starts_with("codebutler-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clusters_own_node_runs_what_the_chart_installs() {
    if crate::charts::venv().is_none() {
        return;
    }
    let _permit = permit().await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let standing = Standing::start().await;
    let client = standing.client().await;
    let address = own_loopback_address().to_string();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.args(["--scenario", &scenario(), "--outside", &address, "--images", IMAGES]);
    demo.env("KUBECONFIG", &standing.kubeconfig).stdout(Stdio::piped()).stderr(Stdio::piped());
    let demo = demo.kill_on_drop(true).spawn().unwrap();
    let id = demo.id().unwrap();
    let mut ended = Box::pin(tokio::time::timeout(Duration::from_mins(5), demo.wait_with_output()));
    let mut seen = Seen::default();
    let output: Output = loop {
        tokio::select! {
            output = &mut ended => break output.expect("the demo did not end").unwrap(),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
        assert_eq!(product_processes(id), [""; 0]);
        seen.look(&client).await;
    };
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("repository: http://{address}:")), "{said}");

    let agents: Vec<_> = seen.nodes.keys().filter(|name| name.starts_with("ratelimit-")).collect();
    assert!(!agents.is_empty(), "{:?}", seen.nodes);
    assert_eq!(seen.pinned, [""; 0]);
    let parts = [("codebutler-controller", 1), ("codebutler-gateway", 1)];
    let deployed: Vec<_> = seen.deployments.iter().map(|(name, ready)| (&**name, *ready)).collect();
    assert_eq!(deployed, parts);
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let nodes: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    assert_eq!(nodes, ["node-0"], "nobody else registered one");
    // The cluster is as it was.
    let left = Api::<Namespace>::all(client).list(&ListParams::default()).await.unwrap();
    let left: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
    assert!(left.iter().all(|name| name.starts_with("kube-") || name == "default"), "{left:?}");
    standing.stop().await;
}

#[tokio::test]
async fn what_is_missing_for_it_is_named() {
    for (arguments, told) in [
        (vec!["--outside", "127.0.0.1"], "--images"),
        (vec!["--outside", "127.0.0.1", "--images", "x/"], "set KUBECONFIG"),
        (vec!["--cluster"], "--images"),
    ] {
        let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
        demo.args(["--scenario", &scenario()].iter().filter(|_| arguments[0] == "--outside"));
        let output = demo.args(&arguments).env_remove("KUBECONFIG").output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
}
