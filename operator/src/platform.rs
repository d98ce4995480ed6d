//! The cluster that this runs in: its API, and what it is.

use std::time::Duration;

use anyhow::Context as _;
use codebutler_crds::pods::PodUser;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};

use crate::args::ControllerArgs;

/// The API group of OpenShift's security context constraints.
const OPENSHIFT: &str = "security.openshift.io";
const PAUSE: Duration = Duration::from_millis(500);

/// The Kubernetes API, under a name that its audit log shows.
///
/// # Errors
/// When there is no usable configuration.
pub async fn open_client(who: &str) -> anyhow::Result<Client> {
    let mut config = Config::infer()
        .await
        .context("no Kubernetes API: run inside a cluster, or set KUBECONFIG")?;
    let agent = format!("{who}/{}", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_str(&agent)?));
    Ok(Client::try_from(config)?)
}

/// Has agent pods run as whom the platform chooses, where it refuses others and nobody said anything.
pub async fn settle_user(client: &Client, args: &mut ControllerArgs) {
    if args.agent_pods.security_context.is_some() {
        return;
    }
    let groups = loop {
        match client.list_api_groups().await {
            Ok(groups) => break groups.groups,
            Err(error) => tracing::warn!(%error, "what the cluster is, is not known yet"),
        }
        tokio::time::sleep(PAUSE).await;
    };
    if groups.iter().any(|group| group.name == OPENSHIFT) {
        tracing::info!("on OpenShift: the platform chooses the users of agent pods");
        args.agent_pods.security_context = Some(PodUser::default());
    }
}
