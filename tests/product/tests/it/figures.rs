//! The figures that are quick in a short form run: a debug build plays them and compares nothing with a limit. And an
//! earlier build of the product, as two figures have it, runs on this testbed.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::earlier::EarlierBuild;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::Setup;

/// Longer is a hang: other tests take most of the machine meanwhile.
const LIMIT: Duration = Duration::from_mins(15);
/// Figures that take seconds and install nothing. The others need a release build and a quiet machine: `.ci/figures`.
const QUICK: [&str; 6] = ["ingest", "memory", "redact", "snapshot", "wake", "worktree"];
/// Figures at the same time: each starts processes of its own.
const AT_ONCE: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn quick_figures_measure_something() {
    let wrong: Vec<String> = futures::stream::iter(QUICK)
        .map(measure)
        .buffer_unordered(AT_ONCE)
        .filter_map(async |outcome| outcome.err())
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn measure(name: &str) -> Result<(), String> {
    let running = Command::new(env!("CARGO_BIN_EXE_figures"))
        .arg(name)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let Ok(output) = tokio::time::timeout(LIMIT, running).await else {
        return Err(format!("{name} takes longer than {LIMIT:?}"));
    };
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let figures: Vec<Value> = out.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let finite = |figure: &Value| figure["value"].as_f64().is_some_and(f64::is_finite);
    if figures.is_empty() || !figures.iter().all(finite) {
        return Err(format!("{name} does not measure: {out}\n{err}"));
    }
    Ok(())
}

/// The earlier build is this one again, which takes no definitions of another version. Of its own files, a definition
/// has an annotation more, and the rights have an object more.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_build_runs_with_the_files_of_its_own_checkout() {
    if std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
        let why = "an earlier build's definitions would replace the cluster's";
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = Path::new(codebutler_testbed::FOLDER).join("..").canonicalize().unwrap();
    for folder in ["crds", "operator", "seeds"] {
        symlink(top.join(folder), dir.path().join(folder)).unwrap();
    }
    let program = dir.path().join("figures");
    symlink(env!("CARGO_BIN_EXE_demo"), &program).unwrap();
    let mut earlier = EarlierBuild::find(&program).unwrap();
    let repo = earlier.definitions.iter_mut().find(|one| one.spec.names.kind == "Repo").unwrap();
    repo.metadata.annotations.get_or_insert_default().insert("of".to_owned(), "before".to_owned());
    let metadata = json!({"name": "of-before", "namespace": "codebutler-system"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    earlier.rights.push(object.to_string());
    let script = ModelScript::of("pm", vec![ScriptStep::say("Found it.")]);
    let team = Setup::new(script).earlier(earlier).start().await;
    let root = team.says("ana", None, "where is the price?");
    team.message(&root, "Found it.").await;
    let (client, place) = (team.stack.cluster.client(), &team.stack.place);
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let repo = definitions.get("repos.codebutler.dev").await.unwrap();
    let of = repo.annotations().get("of").map(String::as_str);
    assert_eq!(of, Some("before"), "the definitions are not the earlier build's");
    let own = Api::<ConfigMap>::namespaced(client, &place.system).get_opt("of-before").await;
    assert!(own.unwrap().is_some(), "the rights are not the earlier build's");
    team.stop().await;
}
