//! A cluster and nothing else: what is installed on it runs on its node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;

use super::{PrintFn, await_interrupt};
use codebutler_testbed::apiserver;
use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::controllers::{ControllerManager, ControllerOptions};
use codebutler_testbed::kubelet::{KubeletOptions, LocalImage, ProcessKubelet};
use codebutler_testbed::stack::nodes::TAG;
use codebutler_testbed::stack::toolchain::{AGENT_IMAGE, WORKSPACE_IMAGE, build_images};

const OPERATOR: &str = "codebutler-operator";

/// Runs the cluster until Ctrl-C.
pub(super) async fn run_standing(
    prefix: &str,
    program: &Path,
    say: PrintFn<'_>,
) -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("codebutler-cluster-").tempdir()?;
    let cluster = TestCluster::embedded(dir.path(), apiserver::ServerOptions::default()).await?;
    let options = ControllerOptions {
        pv_dir: dir.path().join("volumes"),
        root_ca: Some(cluster.ca_pem().to_owned()),
    };
    let controllers = ControllerManager::start(cluster.client(), options).await?;
    controllers.deploy(cluster.client());
    let mut options = KubeletOptions::new("node-0", dir.path().join("node"), program);
    options.images = of_registry(prefix, program, &cluster)?;
    options.proxied = Some(codebutler_crds::names::GATEWAY.to_owned());
    options.inject_env = Some(Arc::new(listening_addresses));
    let kubelet = ProcessKubelet::start(cluster.client(), options).await?;
    say(&format!("export KUBECONFIG={}", cluster.kubeconfig().display()));
    say(&format!("the node has {prefix}codebutler-{{operator,agent,workspace}}:{TAG}"));
    say("Ctrl-C ends everything and leaves nothing.");
    await_interrupt().await;
    kubelet.shutdown().await;
    controllers.shutdown().await;
    cluster.shutdown().await;
    dir.close().context("removing the cluster's folder")
}

/// Images that `.ci/images` builds, under the names that it gives.
fn of_registry(
    prefix: &str,
    program: &Path,
    cluster: &TestCluster,
) -> anyhow::Result<BTreeMap<String, LocalImage>> {
    let api = url::Url::parse(cluster.url())?;
    let path = format!("/usr/local/bin/{OPERATOR}");
    let mut operator =
        LocalImage { entrypoint: vec![path.clone()], host_network: true, ..LocalImage::default() };
    operator.binds.push((program.to_owned(), path));
    let mut all = build_images(program);
    let named = [(AGENT_IMAGE, "codebutler-agent"), (WORKSPACE_IMAGE, "codebutler-workspace")];
    let mut found: BTreeMap<String, LocalImage> = named
        .into_iter()
        .filter_map(|(known, name)| Some((format!("{prefix}{name}:{TAG}"), all.remove(known)?)))
        .collect();
    found.insert(format!("{prefix}{OPERATOR}:{TAG}"), operator);
    for image in found.values_mut() {
        let host = api.host_str().unwrap_or_default().to_owned();
        let port = api.port_or_known_default().unwrap_or_default().to_string();
        image.env.insert("KUBERNETES_SERVICE_HOST".to_owned(), host);
        image.env.insert("KUBERNETES_SERVICE_PORT".to_owned(), port);
    }
    Ok(found)
}

/// Whoever shares this machine's network may have no port of all its addresses.
fn listening_addresses(pod: &Pod, container: &str) -> Vec<(String, String)> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
    let at = |name: &str, port: u16| (name.to_owned(), format!("{ip}:{port}"));
    match container {
        "gateway" => {
            vec![at("CODEBUTLER_LISTEN", 8443), at("CODEBUTLER_METRICS_ADDRESS", 8080)]
        }
        "controller" => vec![at("CODEBUTLER_METRICS_ADDRESS", 8080)],
        _ => Vec::new(),
    }
}
