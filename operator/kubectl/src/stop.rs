//! `stop`: ends a Thread, or keeps a Repo from beginning anything new.

use std::io::{BufRead as _, BufReader};

use codebutler_crds::{Repo, Thread};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::args::StopArgs;
use crate::cluster::TeamCluster;
use crate::explain::explain;
use crate::{PluginError, PluginTerminal};

/// Stops a Thread or Repo; asks first, unless `--yes` is given.
pub(crate) async fn run_stop(
    cluster: &TeamCluster,
    wanted: &StopArgs,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    match (&wanted.repo, &wanted.thread) {
        (Some(repo), _) => stop_repo(cluster, repo, terminal).await,
        (None, Some(thread)) => stop_thread(cluster, thread, wanted.yes, terminal).await,
        (None, None) => Err(PluginError::Input("name a Thread, or a Repo with --repo".to_owned())),
    }
}

async fn stop_repo(
    cluster: &TeamCluster,
    name: &str,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let patch = Patch::Merge(json!({"spec": {"suspend": true}}));
    let api = cluster.team::<Repo>();
    let known = api.get_opt(name).await.map_err(|error| explain("read the Repo", &error))?;
    if known.is_none() {
        let place = cluster.namespace();
        return Err(PluginError::NotFound(format!(
            "there is no Repo `{name}` in namespace {place}"
        )));
    }
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .map_err(|error| explain("change the Repo", &error))?;
    terminal.say(&format!(
        "Repo {name} is suspended: running turns end, nothing new begins. To go on: kubectl -n {} patch repo {name} \
         --type merge -p '{{\"spec\":{{\"suspend\":false}}}}'",
        cluster.namespace()
    ))
}

async fn stop_thread(
    cluster: &TeamCluster,
    name: &str,
    yes: bool,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let thread = cluster.thread(name).await?;
    if !yes {
        terminal.say(&format!(
            "Thread {name} of Repo {} ends: its pods and its volume go, and what was not pushed with them. Branch and pull \
             request stay. Go on? [y/N]",
            thread.spec.repo
        ))?;
        let mut answer = String::new();
        BufReader::new(&mut *terminal.input)
            .read_line(&mut answer)
            .map_err(PluginError::io("reading the answer"))?;
        if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return terminal.say("Nothing was changed.");
        }
    }
    cluster
        .team::<Thread>()
        .delete(name, &DeleteParams::default())
        .await
        .map_err(|error| explain("delete the Thread", &error))?;
    terminal.say(&format!("Thread {name} ends. A message in its conversation begins it anew."))
}
