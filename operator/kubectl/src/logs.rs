//! `logs`: what the agent of a Thread's role logs.

use codebutler_crds::names::{LABEL_ROLE, LABEL_THREAD};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{ListParams, LogParams};

use crate::args::LogsArgs;
use crate::cluster::TeamCluster;
use crate::explain::explain;
use crate::table::plain;
use crate::{PluginError, PluginTerminal};

/// Prints the log of the Thread's agent line by line.
pub(crate) async fn run_logs(
    cluster: &TeamCluster,
    wanted: &LogsArgs,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let thread = cluster.thread(&wanted.thread).await?;
    let active = thread.status.and_then(|status| status.active_role);
    let role = wanted.role.clone().or(active);
    let labels = match &role {
        Some(role) => format!("{LABEL_THREAD}={},{LABEL_ROLE}={role}", wanted.thread),
        None => format!("{LABEL_THREAD}={}", wanted.thread),
    };
    let api = cluster.team::<Pod>();
    let pods = api.list(&ListParams::default().labels(&labels)).await;
    let pods = pods.map_err(|error| explain("list pods", &error))?;
    let Some(pod) = pods.items.first() else {
        let whose = role.map_or_else(|| "No role".to_owned(), |role| format!("Role {role}"));
        return Err(PluginError::NotFound(format!(
            "{whose} of Thread {} has no pod now: it sleeps. What happened is in its history (see the pages of the gateway)",
            wanted.thread
        )));
    };
    let params = LogParams {
        container: Some("agent".to_owned()),
        follow: wanted.follow,
        ..LogParams::default()
    };
    let lines = api.log_stream(&pod.name_any(), &params).await;
    let mut lines = lines.map_err(|error| explain("read the log", &error))?.lines();
    while let Some(line) = lines.try_next().await.map_err(PluginError::io("reading the log"))? {
        terminal.say(&plain(&line))?;
    }
    Ok(())
}
