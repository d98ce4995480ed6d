//! `init`: asks for Slack, Git and the model API, and makes what joins them: a namespace, the gateway's right to read
//! its Secrets, three Secrets, a Repo, and the manifest of the Slack app.

mod answers;
mod manifests;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use codebutler_crds::Repo;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::answers::{TeamAnswers, ask_for_answers};
use self::manifests::{TeamManifests, make_manifests};
use crate::args::InitArgs;
use crate::cluster::TeamCluster;
use crate::explain::explain;
use crate::{BIND_SECRETS, MAKE_NAMESPACE, PluginError, PluginTerminal};

/// The Slack app, as api.slack.com takes it.
const SLACK_APP: &str = include_str!("../../../charts/codebutler/files/slack-app.yaml");
const APP_FILE: &str = "slack-app.yaml";
/// The files that it writes last.
const FILES: [&str; 2] = ["team.json", "secrets.json"];
/// Host of the API whose names of models the shipped roles have.
const ROUTER: &str = "openrouter.ai";
/// Field manager of applied objects.
const MANAGER: &str = "kubectl-codebutler";

/// Writes files, or applies them where there is a cluster.
pub(crate) async fn run_init(
    wanted: &InitArgs,
    cluster: Option<&TeamCluster>,
    namespace: Option<&str>,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let dir = &wanted.dir;
    if cluster.is_none() {
        look_for_files(dir)?;
    }
    // The app's tokens, which are asked for next, exist only once the app does.
    if wanted.slack_bot_token.is_none() || wanted.slack_app_token.is_none() {
        write_app(dir)?;
        terminal.say(&tell_app(dir))?;
    }
    let answers = ask_for_answers(wanted, namespace, terminal)?;
    let manifests = make_manifests(&answers, &wanted.system);
    match cluster {
        Some(cluster) => apply_all(cluster, &answers, &manifests, terminal).await,
        None => write_all(dir, &answers, &manifests, terminal),
    }
}

/// Fails if any of the files exists, so that all or none are written.
fn look_for_files(dir: &Path) -> Result<(), PluginError> {
    let Some(there) = FILES.iter().map(|name| dir.join(name)).find(|path| path.exists()) else {
        return Ok(());
    };
    Err(PluginError::Input(format!(
        "{} is there already: move it away to begin anew, or name another folder with --dir",
        there.display()
    )))
}

/// The manifest of the Slack app, which an earlier start may have written already.
fn write_app(dir: &Path) -> Result<(), PluginError> {
    std::fs::create_dir_all(dir).map_err(PluginError::io(format!("making {}", dir.display())))?;
    let path = dir.join(APP_FILE);
    if std::fs::read_to_string(&path).is_ok_and(|text| text == SLACK_APP) {
        return Ok(());
    }
    write_file(&path, SLACK_APP, 0o644)
}

fn tell_app(dir: &Path) -> String {
    format!(
        "The Slack app, if there is none yet: https://api.slack.com/apps, Create New App, From a manifest, and paste {}.\n\
         Its bot token (xoxb-…) is on the page Install App, once it is installed to the workspace. Its app-level token (xapp-…) is made on \
         Basic Information, App-Level Tokens, with the scope connections:write. Both are asked for below; Ctrl-C, and start again with the \
         same --dir when you have them.\n",
        dir.join(APP_FILE).display()
    )
}

fn write_all(
    dir: &Path,
    answers: &TeamAnswers,
    manifests: &TeamManifests,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    write_app(dir)?;
    let team = [&manifests.namespace, &manifests.binding, &manifests.repo];
    write_file(&dir.join("team.json"), &as_list(&team), 0o644)?;
    let secrets: Vec<&Value> = manifests.secrets.iter().collect();
    write_file(&dir.join("secrets.json"), &as_list(&secrets), 0o600)?;
    let (dir, namespace, repo) = (dir.display(), &answers.namespace, &answers.repo);
    terminal.say(&format!(
        "Written to {dir}: slack-app.yaml, team.json, and secrets.json, which holds your tokens: keep it out of Git.\n\n\
         Next:\n  1. Invite the Slack app to {}.\n  \
         2. kubectl apply -f {dir}/team.json -f {dir}/secrets.json\n  \
         3. kubectl -n {namespace} wait repo/{repo} --for=condition=Ready --timeout=1m\n  \
         4. If that waits: kubectl codebutler doctor -n {namespace}",
        answers.channel
    ))?;
    tell_models(answers, terminal)
}

/// The shipped roles name models as `OpenRouter` does, and another API knows them by other names.
fn tell_models(
    answers: &TeamAnswers,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let host = answers.model_url.host_str().unwrap_or_default();
    if host == ROUTER {
        return Ok(());
    }
    terminal.say(&format!(
        "\nThe shipped roles name models as OpenRouter does. Name those of {host} in the chart's value roles.overrides, such as \
         {{coder: {{model: {{default: NAME, pool: []}}}}}} for each role, or in AgentRoles of the namespace {}.",
        answers.namespace
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
    let spaces = Api::<Namespace>::all(client.clone());
    make_namespace(&spaces, namespace, &manifests.namespace).await?;
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let repos = Api::<Repo>::namespaced(client, namespace);
    let encoded: Vec<Value> =
        manifests.secrets.iter().map(encode_secret).collect::<Result<_, _>>()?;
    // A dry run of all comes first, so that no team is left half made.
    for dry in [true, false] {
        apply(&bindings, &manifests.binding, BIND_SECRETS, dry).await?;
        for secret in &encoded {
            apply(&secrets, secret, "store a Secret", dry).await?;
        }
        apply(&repos, &manifests.repo, "make the Repo", dry).await?;
    }
    terminal.say(&format!(
        "Applied: namespace {namespace}, its Secrets, and Repo {}. See how it is: kubectl codebutler doctor -n {namespace}",
        answers.repo
    ))?;
    tell_models(answers, terminal)
}

/// Makes it where it is not there. Who has rights in a namespace alone may not even be told: then the next steps show
/// whether it is.
async fn make_namespace(
    spaces: &Api<Namespace>,
    name: &str,
    manifest: &Value,
) -> Result<(), PluginError> {
    let is_hidden = match spaces.get_opt(name).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => false,
        Err(kube::Error::Api(status)) if status.is_forbidden() => true,
        Err(error) => return Err(explain("look for the namespace", &error)),
    };
    match apply(spaces, manifest, MAKE_NAMESPACE, false).await {
        Err(PluginError::Forbidden { .. }) if is_hidden => Ok(()),
        made => made,
    }
}

/// Applies an object. A field that somebody else has set to something else stays.
async fn apply<K>(api: &Api<K>, object: &Value, what: &str, dry: bool) -> Result<(), PluginError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let params = PatchParams { dry_run: dry, ..PatchParams::apply(MANAGER) };
    match api.patch(name, &params, &Patch::Apply(object)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Err(PluginError::Input(format!(
            "{} `{name}` is there already, and somebody else has set it otherwise ({}): nothing of it was changed. Choose \
             another namespace, or leave out --apply, compare the files with it, and apply them yourself",
            object["kind"].as_str().unwrap_or_default(),
            status.message
        ))),
        Err(error) => Err(explain(what, &error)),
    }
}

/// Encodes a Secret as the API server keeps it, since it compares only `data` with what is there.
fn encode_secret(secret: &Value) -> Result<Value, PluginError> {
    let broken = |error: serde_json::Error| PluginError::Input(error.to_string());
    let mut typed: Secret = serde_json::from_value(secret.clone()).map_err(broken)?;
    let plain = typed.string_data.take().unwrap_or_default().into_iter();
    typed.data = Some(plain.map(|(key, value)| (key, ByteString(value.into_bytes()))).collect());
    serde_json::to_value(typed).map_err(broken)
}
