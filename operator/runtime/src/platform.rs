//! The API of the cluster that this runs in.

use std::net::IpAddr;

use anyhow::Context as _;
use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use kube::{Client, Config};

/// The Kubernetes API, under a name that its audit log shows.
///
/// # Errors
/// When there is no usable configuration.
pub async fn open_client(who: &str) -> anyhow::Result<Client> {
    let mut config = Config::infer()
        .await
        .context("no Kubernetes API: run inside a cluster, or set KUBECONFIG")?;
    // In a pod kube takes none. Outside of one it would take HTTPS_PROXY for a cluster of this machine, too.
    if is_this_machine(&config.cluster_url) {
        config.proxy_url = None;
    }
    let agent = format!("{who}/{}", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_str(&agent)?));
    Ok(Client::try_from(config)?)
}

fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
