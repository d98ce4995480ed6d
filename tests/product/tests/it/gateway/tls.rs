//! The gateway's certificates, as two replicas that start at once and an agent meet them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use codebutler_gateway::args::GatewayArgs;
use codebutler_gateway::tls;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

pub(super) fn args(cluster: &Cluster) -> GatewayArgs {
    let any = "127.0.0.1:0".parse().unwrap();
    GatewayArgs {
        namespaces: Vec::new(),
        namespace: cluster.system().to_owned(),
        service: "codebutler-gateway".to_owned(),
        listen: any,
        metrics_address: any,
        pod: None,
        pod_ip: None,
        lease_seconds: 3,
        shards: 1,
        grace_seconds: 30,
        die_at_step: None,
        slack_api: String::new(),
        dial: codebutler_gateway_core::dial::DialOptions::default(),
        git_cache: std::path::PathBuf::new(),
        git_cache_limit: None,
        idle_background_work: false,
        history: None,
        history_days: 365,
        history_url: None,
        pages: codebutler_gateway::pages::options::PagesOptions::default(),
        deliveries_listen: None,
        history_limit: None,
        search: codebutler_gateway::web::SearchOptions::default(),
        github_poll_seconds: 60,
        agent_silence_seconds: 600,
    }
}

async fn start(dir: &std::path::Path) -> Cluster {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Cluster::start(dir).await
}

/// True if an agent that trusts `ca` accepts the server under `name`.
async fn accepts(ca: &str, server: ServerConfig, name: &str) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::new(client));
    let (client, _server) = tokio::join!(connector.connect(name, ours), acceptor.accept(theirs));
    client.is_ok()
}

#[tokio::test]
async fn two_gateways_that_start_at_once_have_one_authority() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let args = args(&cluster);
    let (first, second) = tokio::join!(
        tls::server_config(&cluster.gateway, &args, stop.clone()),
        tls::server_config(&cluster.gateway, &args, stop.clone()),
    );
    let maps = cluster.api::<ConfigMap>(cluster.system());
    let map = maps.get("codebutler-gateway-ca").await.unwrap();
    let ca = map.data.unwrap()["ca.crt"].clone();
    assert!(!ca.contains("PRIVATE"), "only the public half is published");
    let name = &*cluster.host();
    assert!(accepts(&ca, first.unwrap(), name).await);
    assert!(accepts(&ca, second.unwrap(), name).await);
    let later = tls::server_config(&cluster.gateway, &args, stop.clone()).await.unwrap();
    assert!(accepts(&ca, later, name).await, "a restart keeps the authority");
    let other = tls::server_config(&cluster.gateway, &args, stop).await.unwrap();
    assert!(!accepts(&ca, other, "codebutler-gateway.elsewhere.svc").await);
}

#[tokio::test]
async fn a_damaged_authority_is_not_replaced_behind_ones_back() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let stop = CancellationToken::new();
    let args = args(&cluster);
    tls::server_config(&cluster.gateway, &args, stop.clone()).await.unwrap();
    let damaged = serde_json::json!({"data": {"tls.key": "eA=="}});
    cluster.patch::<Secret>(cluster.system(), "codebutler-gateway-tls", &damaged).await;
    let error = tls::server_config(&cluster.gateway, &args, stop.clone()).await.unwrap_err();
    assert!(error.to_string().contains("delete it"), "{error}");
    stop.cancel();
}

#[tokio::test]
async fn a_gateway_fills_what_the_installation_brings_and_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let secrets = cluster.api::<Secret>(cluster.system());
    let name = "codebutler-gateway-tls";
    assert!(secrets.get(name).await.unwrap().data.is_none(), "empty, as it was installed");
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tls::server_config(&cluster.gateway, &args(&cluster), stop.clone()).await.unwrap();
    let filled = secrets.get(name).await.unwrap();
    assert!(filled.data.unwrap().contains_key("tls.key"));
    assert_eq!(filled.type_.as_deref(), Some("Opaque"));
    secrets.delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    let error =
        tls::server_config(&cluster.gateway, &args(&cluster), stop.clone()).await.unwrap_err();
    assert!(error.to_string().contains("is missing: install the chart again"), "{error}");
    assert!(secrets.get_opt(name).await.unwrap().is_none());
}

/// Everything that is published.
async fn published(cluster: &Cluster) -> String {
    let map =
        cluster.api::<ConfigMap>(cluster.system()).get("codebutler-gateway-ca").await.unwrap();
    map.data.unwrap()["ca.crt"].clone()
}

#[tokio::test]
async fn authorities_and_certificates_are_replaced_without_a_restart_or_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let start = Timestamp::now() - SignedDuration::from_hours(24 * 500);
    let days = Arc::new(AtomicI64::new(0));
    let clock: tls::TlsClock = {
        let days = Arc::clone(&days);
        Arc::new(move || start + SignedDuration::from_hours(24 * days.load(Ordering::SeqCst)))
    };
    let certificates =
        tls::ServerCertificates::start(&cluster.gateway, &args(&cluster), clock).await.unwrap();
    // A listener takes the configuration at its start and never asks for it again.
    let config = certificates.config().unwrap();
    let name = &*cluster.host();
    let mut told = published(&cluster).await;
    let first = told.clone();
    for day in (0..=500).step_by(4) {
        days.store(day, Ordering::SeqCst);
        certificates.renew().await.unwrap();
        let now = published(&cluster).await;
        // Whoever reads the bundle trusts the server at once, and so does whoever read it before.
        if day > 480 {
            assert!(trusts(&told, &config, name).await, "day {day}: what was told before");
            assert!(trusts(&now, &config, name).await, "day {day}");
        }
        told = now;
    }
    assert!(!told.contains(first.trim()) || told.matches("BEGIN").count() > 1);
    assert!(!trusts(&first, &config, name).await, "another authority signs now");
}

/// True if an agent that trusts the whole bundle accepts the server.
async fn trusts(bundle: &str, server: &ServerConfig, name: &str) -> bool {
    for pem in bundle.split_inclusive("-----END CERTIFICATE-----\n") {
        if pem.contains("BEGIN") && accepts(pem, server.clone(), name).await {
            return true;
        }
    }
    false
}
