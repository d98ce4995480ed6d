//! The API of the cluster that this runs in.

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};

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
