//! The way to a cluster through a company's proxy, as kubectl takes it: the kubeconfig's own `proxy-url`, or the
//! environment's, which leaves out this machine and what `NO_PROXY` names. kube takes the environment's for every
//! cluster.

use std::net::IpAddr;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use crate::PluginError;
use crate::explain::explain;

/// Time limit for an answer of a proxy.
const PATIENCE: Duration = Duration::from_secs(30);

/// The way out as the environment names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxyEnvironment {
    /// Proxy for https.
    pub(crate) https: String,
    /// Hosts that are reached without a proxy.
    pub(crate) none: String,
}

impl ProxyEnvironment {
    /// Reads the environment of this process.
    pub(crate) fn read() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(env: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&str; 2]| {
            let mut set = names.into_iter().filter_map(&env);
            set.find(|text| !text.trim().is_empty()).unwrap_or_default().trim().to_owned()
        };
        Self { https: first(["HTTPS_PROXY", "https_proxy"]), none: first(["NO_PROXY", "no_proxy"]) }
    }
}

/// A client for the cluster of a kubeconfig.
///
/// # Errors
/// When no proxy can be used that way.
pub(crate) fn open_client(
    mut config: Config,
    env: &ProxyEnvironment,
) -> Result<Client, PluginError> {
    let broken = |error: kube::Error| explain("connect", &error);
    let proxy = find_proxy(&config.cluster_url, config.proxy_url.take(), env)?;
    let Some(proxy) = proxy else { return Client::try_from(config).map_err(broken) };
    let mut wire = HttpConnector::new();
    wire.enforce_http(false);
    wire.set_connect_timeout(Some(PATIENCE));
    let mut tunnel = Tunnel::new(proxy.uri().clone(), wire);
    if let Some(password) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(password.clone());
    }
    let secured = config.rustls_https_connector_with_connector(tunnel).map_err(broken)?;
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(secured);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(broken)?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Client::new(service, config.default_namespace))
}

/// `known` is what kube took, from whichever of the two.
fn find_proxy(
    cluster: &Uri,
    known: Option<Uri>,
    env: &ProxyEnvironment,
) -> Result<Option<Intercept>, PluginError> {
    let Some(known) = known else { return Ok(None) };
    let is_own = env.https.parse::<Uri>().ok().as_ref() != Some(&known);
    if !is_own && is_this_machine(cluster) {
        return Ok(None);
    }
    let none = if is_own { "" } else { env.none.as_str() };
    let proxy = Matcher::builder().all(known.to_string()).no(none).build().intercept(cluster);
    match &proxy {
        Some(proxy) if proxy.uri().scheme_str() != Some("http") => {
            let whose = if is_own { "the kubeconfig's proxy-url" } else { "HTTPS_PROXY" };
            Err(PluginError::Input(format!(
                "{whose} names a proxy of the kind `{}`, and this program takes http://host:port: name such a one, or the \
                 cluster in NO_PROXY",
                proxy.uri().scheme_str().unwrap_or_default()
            )))
        }
        _ => Ok(proxy),
    }
}

fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(cluster: &str, known: &str, env: &[(&str, &str)]) -> Result<Option<String>, String> {
        let env = ProxyEnvironment::of(|name| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        let known = (!known.is_empty()).then(|| known.parse().unwrap());
        let found = find_proxy(&cluster.parse().unwrap(), known, &env);
        found
            .map(|proxy| proxy.map(|proxy| proxy.uri().to_string()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_environments_proxy_leads_to_clusters_elsewhere_that_no_proxy_does_not_name() {
        const OUT: &str = "http://proxy.corp.example:3128/";
        let env = [("https_proxy", OUT), ("NO_PROXY", "10.0.0.0/8, .corp.example")];
        let of = |cluster: &str| proxy(cluster, OUT, &env);
        assert_eq!(of("https://eks.example.com"), Ok(Some(OUT.to_owned())));
        for here in ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"] {
            assert_eq!(of(here), Ok(None), "{here}");
        }
        for inside in ["https://10.1.2.3:6443", "https://k8s.corp.example"] {
            assert_eq!(of(inside), Ok(None), "{inside}");
        }
        // A proxy that the kubeconfig names is for this cluster, whatever the environment says.
        let own = proxy("https://10.1.2.3:6443", "http://bastion:8080/", &env);
        assert_eq!(own, Ok(Some("http://bastion:8080/".to_owned())));
        assert_eq!(proxy("https://eks.example.com", "", &env), Ok(None));
    }

    #[test]
    fn a_proxy_that_can_t_be_used_is_named_without_its_password() {
        let url = "socks5://ana:hunter2@proxy:1080";
        let told = proxy("https://eks.example.com", url, &[("HTTPS_PROXY", url)]).unwrap_err();
        assert!(told.contains("HTTPS_PROXY names a proxy of the kind `socks5`"), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}
