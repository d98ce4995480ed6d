//! Remains of pods when their kubelet ends, politely or not.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::process::{Command, Stdio};

use codebutler_testbed::kubelet::{KubeletOptions, LocalImage, ProcessKubelet};
use kube::Client;
use kube::config::KubeConfigOptions;
use serde_json::json;

use crate::support::needs_process_kubelet;
use crate::world::{sh, with, without_kubelet, world};

#[tokio::test]
async fn a_restarted_kubelet_repeats_nothing() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let mut world = world(|_| {}).await;
    let once = sh("c", "echo ran; sleep 1000");
    world.pod("once", json!({"restartPolicy": "Never", "containers": [once]})).await;
    world.pod("always", json!({"containers": [sh("c", "sleep 1000")]})).await;
    world.ready("once").await;
    world.ready("always").await;
    // It is ready when it has begun, which is a moment before it says so.
    world
        .until("it has run", || async { (world.logs("once", "c").await == "ran\n").then_some(()) })
        .await;
    let options = world.options();
    world.kubelet.take().unwrap().shutdown().await;
    world.start(options).await;
    let pod = world.phase("once", "Failed").await;
    assert_eq!(pod["status"]["reason"], "KubeletRestarted");
    world.delete_pod("once", None).await;
    // The kubelet hears a moment later that it is gone.
    world
        .until("its log", || async { (world.logs("once", "c").await == "ran\n").then_some(()) })
        .await;
    let argv = ["true"];
    world
        .until("a new start", || async {
            world.kubelet().exec(&world.namespace, "always", "c", &argv).await.ok()
        })
        .await;
    world.end().await;
}

#[tokio::test]
async fn shutdown_leaves_nothing() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let mut world = world(|_| {}).await;
    let mark = world.namespace.clone();
    let deaf = format!("trap '' TERM; while :; do sleep 1; done # {mark}");
    world.pod("p", json!({"containers": [sh("c", &deaf)]})).await;
    world.ready("p").await;
    let running = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let commands = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        commands.filter(|line| String::from_utf8_lossy(line).contains(&mark)).count()
    };
    assert!(running() > 0);
    let pods = world.dir.path().join("kubelet/pods");
    let kept = world.kubelet.take().unwrap();
    kept.shutdown().await;
    assert_eq!(running(), 0);
    assert!(!pods.exists());
    world.end().await;
}

const CHILD: &str = "CODEBUTLER_TEST_KUBELET";
const NODE: &str = "CODEBUTLER_TEST_NODE";

/// Not a test of its own: the process that the next one kills.
#[tokio::test]
#[ignore = "run by a_killed_kubelet_takes_everything_with_it"]
async fn kubelet_process() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let config = kube::config::Kubeconfig::read_from(Path::new(&dir).join("kubeconfig")).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    let node = std::env::var(NODE).unwrap();
    let mut options =
        KubeletOptions::new(&node, Path::new(&dir).join("k"), env!("CARGO_BIN_EXE_demo"));
    options.images.insert("shell".into(), LocalImage::default());
    let _kubelet = ProcessKubelet::start(Client::try_from(config).unwrap(), options).await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_kubelet_takes_everything_with_it() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kubelet_end::kubelet_process", "--ignored"])
        .env(CHILD, world.dir.path())
        .env(NODE, &world.node)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let spec = json!({
        "nodeName": world.node,
        "initContainers": [with(sh("side", "setsid sleep 1000 & sleep 1000"), json!({"restartPolicy": "Always"}))],
        "containers": [sh("c", "sleep 1000 & trap '' TERM HUP INT; while :; do sleep 1; done")],
    });
    world.pod("p", spec).await;
    world.ready("p").await;
    let all = descendants(process.id());
    assert!(all.len() >= 7, "pause, and three of each container: {all:?}");
    process.kill().unwrap();
    process.wait().unwrap();
    world
        .until("death", || async {
            let left = all.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists());
            (!left).then_some(())
        })
        .await;
    world.end().await;
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|line| {
            line.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

fn descendants(pid: u32) -> Vec<u32> {
    let own = children(pid);
    own.iter().flat_map(|child| descendants(*child)).chain(own.iter().copied()).collect()
}
