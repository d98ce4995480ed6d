//! `init`: asks for Slack, Git and the model API, and makes what joins them: a namespace, the gateway's right to read its
//! Secrets, three Secrets, a Repo, and the manifest of the Slack app.

mod answers;
mod manifests;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use self::answers::{TeamAnswers, ask_for_answers};
use self::manifests::{TeamManifests, make_manifests};
use crate::args::InitArgs;
use crate::cluster::{TeamCluster, explain};
use crate::{PluginError, PluginTerminal};

/// The Slack app, as api.slack.com takes it.
const SLACK_APP: &str = include_str!("../../../charts/codebutler/files/slack-app.yaml");
/// Who has applied what is applied here.
const MANAGER: &str = "kubectl-codebutler";

/// Writes files, or applies them where there is a cluster.
pub async fn run_init(
    wanted: &InitArgs,
    cluster: Option<&TeamCluster>,
    namespace: Option<&str>,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let answers = ask_for_answers(wanted, namespace, terminal)?;
    let manifests = make_manifests(&answers, &wanted.system);
    match cluster {
        Some(cluster) => apply_all(cluster, &answers, &manifests, terminal).await,
        None => write_all(&wanted.dir, &answers, &manifests, terminal),
    }
}

fn write_all(
    dir: &Path,
    answers: &TeamAnswers,
    manifests: &TeamManifests,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    std::fs::create_dir_all(dir).map_err(PluginError::io(format!("making {}", dir.display())))?;
    let team = [&manifests.namespace, &manifests.binding, &manifests.repo];
    write_file(&dir.join("slack-app.yaml"), SLACK_APP, 0o644)?;
    write_file(&dir.join("team.json"), &as_list(&team), 0o644)?;
    let secrets: Vec<&Value> = manifests.secrets.iter().collect();
    write_file(&dir.join("secrets.json"), &as_list(&secrets), 0o600)?;
    let (dir, namespace, repo) = (dir.display(), &answers.namespace, &answers.repo);
    terminal.say(&format!(
        "Written to {dir}: slack-app.yaml, team.json, and secrets.json, which holds your tokens: keep it out of Git.\n\n\
         Next:\n  1. If there is no Slack app yet: api.slack.com/apps, From a manifest, {dir}/slack-app.yaml. Invite it to {}.\n  \
         2. kubectl apply -f {dir}/team.json -f {dir}/secrets.json\n  \
         3. kubectl -n {namespace} wait repo/{repo} --for=condition=Ready --timeout=1m\n  \
         4. If that waits: kubectl codebutler doctor -n {namespace}",
        answers.channel
    ))
}

fn as_list(items: &[&Value]) -> String {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    format!("{list:#}\n")
}

/// A file that is there is somebody's: it is not written over.
fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), PluginError> {
    let what = || format!("writing {} (move it away to begin anew)", path.display());
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.map_err(PluginError::io(what()))?;
    file.write_all(text.as_bytes()).map_err(PluginError::io(what()))
}

async fn apply_all(
    cluster: &TeamCluster,
    answers: &TeamAnswers,
    manifests: &TeamManifests,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let (client, namespace) = (cluster.client().clone(), &*answers.namespace);
    let params = PatchParams::apply(MANAGER).force();
    let named = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let spaces = Api::<Namespace>::all(client.clone());
    let patch = Patch::Apply(&manifests.namespace);
    spaces
        .patch(namespace, &params, &patch)
        .await
        .map_err(|error| explain("make the namespace", &error))?;
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    bindings
        .patch(&named(&manifests.binding), &params, &Patch::Apply(&manifests.binding))
        .await
        .map_err(|error| explain("let the gateway read Secrets", &error))?;
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    for secret in &manifests.secrets {
        secrets
            .patch(&named(secret), &params, &Patch::Apply(secret))
            .await
            .map_err(|error| explain("store a Secret", &error))?;
    }
    let repos = Api::<codebutler_crds::Repo>::namespaced(client, namespace);
    repos
        .patch(&answers.repo, &params, &Patch::Apply(&manifests.repo))
        .await
        .map_err(|error| explain("make the Repo", &error))?;
    terminal.say(&format!(
        "Applied: namespace {namespace}, its Secrets, and Repo {}. See how it is: kubectl codebutler doctor -n {namespace}",
        answers.repo
    ))
}
