//! The API of the cluster that this runs in.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use kube::{Client, Config};

/// Longest silence of the API server while something is expected of it. A watch is silent for as long as nothing
/// changes; the server ends it after 290 s, so that a longer limit breaks none.
const READ_TIMEOUT: Duration = Duration::from_secs(330);

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
    limit_silence(&mut config, READ_TIMEOUT);
    Ok(Client::try_from(config)?)
}

/// Has a request fail that is not answered, as it is repeated then. By default kube waits without end, and whoever
/// waits may hold a lock.
fn limit_silence(config: &mut Config, limit: Duration) {
    config.read_timeout = Some(limit);
    // Otherwise the time that a connection was idle before a request counts, too.
    config.reset_reader_on_write = true;
}

fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::net::TcpListener;

    use super::*;

    /// True if a timeout is among the causes of an error.
    fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
        let own = error.downcast_ref::<std::io::Error>();
        own.is_some_and(|error| error.kind() == ErrorKind::TimedOut)
            || error.source().is_some_and(is_timeout)
    }

    #[tokio::test]
    async fn a_request_that_the_api_server_never_answers_fails() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
            }
        });
        let mut config = Config::new(url.parse().unwrap());
        limit_silence(&mut config, Duration::from_millis(50));
        let client = Client::try_from(config).unwrap();
        let error = client.apiserver_version().await.unwrap_err();
        assert!(is_timeout(&error), "{error:?}");
        server.abort();
    }

    #[test]
    fn a_watch_that_is_silent_until_the_server_ends_it_is_no_failure() {
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        limit_silence(&mut config, READ_TIMEOUT);
        assert!(config.read_timeout.is_some_and(|limit| limit > Duration::from_secs(295)));
        assert!(config.reset_reader_on_write);
    }
}
