//! Scans that platform teams make before they admit the product: the chart as it renders by default, and an agent pod
//! with all that is made for it.

use std::path::Path;

use codebutler_testbed::pytools::ensure_venv;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::controller::world::{MAIL, World, eventually};

const CHECKOV: &[&str] = &["checkov==3.3.30"];

/// Runs a client script and fails with what it printed if it does.
async fn run(venv: &Path, script: &str, args: &[&Path]) -> String {
    let script = format!("{}/clients/{script}", codebutler_testbed::FOLDER);
    let mut command = tokio::process::Command::new(venv.join("bin/python"));
    let output = command.arg("-B").arg(&script).args(args).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}:\n{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Everything of a kind in the team's namespace, as somebody would write it.
async fn manifests<K>(world: &World) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = world.api();
    let all = api.list(&ListParams::default()).await.unwrap();
    let bare = |object: &K| {
        let mut value = serde_json::to_value(object).unwrap();
        value["apiVersion"] = json!(K::api_version(&()));
        value["kind"] = json!(K::kind(&()));
        value.as_object_mut().unwrap().remove("status");
        value["metadata"].as_object_mut().unwrap().remove("managedFields");
        value.to_string()
    };
    all.iter()
        .filter(|object| {
            !["default", "kube-root-ca.crt"].contains(&&*object.meta().name.clone().unwrap())
        })
        .map(bare)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_pass_a_scan_with_nothing_but_what_has_a_reason() {
    let Some(helm) = crate::charts::venv() else { return };
    let checkov = tokio::task::spawn_blocking(|| ensure_venv(CHECKOV)).await.unwrap().unwrap();
    // A folder whose name begins with a dot is passed over.
    let folder = tempfile::Builder::new().prefix("manifests").tempdir().unwrap();
    let chart = Path::new(codebutler_testbed::FOLDER).join("../charts/codebutler");
    run(&helm, "helm_render.py", &[&chart, folder.path()]).await;

    let mut world = World::start().await;
    world.start_controller();
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    eventually("an agent pod", || async {
        let pods: Api<Pod> = world.api();
        (!pods.list(&ListParams::default()).await.unwrap().items.is_empty()).then_some(())
    })
    .await;
    world.stop_controller().await;
    let mut all = manifests::<Pod>(&world).await;
    all.extend(manifests::<PersistentVolumeClaim>(&world).await);
    all.extend(manifests::<ServiceAccount>(&world).await);
    all.extend(manifests::<NetworkPolicy>(&world).await);
    all.extend(manifests::<ConfigMap>(&world).await);
    std::fs::write(folder.path().join("agent.yaml"), all.join("\n---\n")).unwrap();
    let said = run(&checkov, "manifest_scan.py", &[folder.path()]).await;
    assert!(said.starts_with("scan: "), "{said}");
}
