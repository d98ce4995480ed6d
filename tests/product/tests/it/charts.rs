//! The charts, driven by the Helm engine that people have.

mod quickstart;
mod readme;
mod run;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use codebutler_testbed::apiserver::ServerOptions;
use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::pytools::{PyToolsError, ensure_venv};
use codebutler_testbed::stack::nodes::HELM;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};

use crate::support::permit;

/// Steps of the script, in its words and order.
const PARTS: [&str; 9] = [
    "lint",
    "wrong values",
    "render",
    "definitions",
    "install",
    "installed twice",
    "upgrade",
    "rollback",
    "uninstall",
];

/// The Helm engine; nothing where there is no Python for it, said in a line.
pub(crate) fn venv() -> Option<PathBuf> {
    match ensure_venv(HELM) {
        Ok(venv) => Some(venv),
        Err(PyToolsError::NoPython) => {
            let _ = writeln!(std::io::stderr(), "skipped: no python3 for the Helm engine");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_installs_upgrades_rolls_back_and_uninstalls() {
    let Some(venv) = venv() else { return };
    // An installation has the whole cluster: nobody else may run on it meanwhile.
    let _permit = permit().await;
    let dir = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start_alone(dir.path(), ServerOptions::default()).await.unwrap();
    let namespace = Namespace {
        metadata: ObjectMeta { generate_name: Some("charts-".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let namespaces = Api::<Namespace>::all(cluster.client());
    let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();
    let root = Path::new(codebutler_testbed::FOLDER);
    let output = tokio::process::Command::new(venv.join("bin/python"))
        .arg(root.join("clients/helm_charts.py"))
        .arg(root.join("../charts"))
        .arg(&namespace)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("HOME", dir.path())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    for part in PARTS {
        let line = format!("helm: {part}");
        assert!(said.lines().any(|l| l == line), "{part}: {said}\n{errors}");
    }
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_charts_are_published_to_any_registry() {
    crate::python::run("helm_publish.py", HELM, &[]).await;
}

/// Flux leaves links out of what it fetches from Git, and an archive for Windows has none either:
/// a chart that reads through one would install without definitions, rights or roles.
#[test]
fn a_chart_is_whole_without_links() {
    let mut folders = vec![Path::new(codebutler_testbed::FOLDER).join("../charts")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            assert!(!kind.is_symlink(), "{}", entry.path().display());
            if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
}
