//! `/metrics`, `/healthz`, `/readyz` and `/log`, served by both processes on their own port. The log's
//! filter is changed from the pod itself only, which is where `kubectl port-forward` comes from.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::response::IntoResponse;
use axum::routing::get;
use http::{StatusCode, header};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{self, FilterError};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Readiness as `/readyz` tells it, with the reason if not ready. Starts as not ready; cheap to
/// clone, all clones are one flag.
#[derive(Clone, Debug, Default)]
pub struct ReadyFlag(Arc<AtomicBool>, Arc<Mutex<Option<String>>>);

impl ReadyFlag {
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// Sets what is waited for, in a sentence; None if it is the caches.
    pub fn waits_for(&self, why: Option<String>) {
        *self.1.lock() = why;
    }

    fn why(&self) -> String {
        let why = self.1.lock();
        why.clone().unwrap_or_else(|| "caches are not synced yet".to_owned())
    }

    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reason why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The address is taken or not this machine's.
    #[error("metrics can't be served on {address}: choose another --metrics-address")]
    Listen {
        /// Address that it should have listened on.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

/// The running server. Dropping it stops it.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl MetricsServer {
    /// Listens on `address` (port 0: any free one) and serves until stopped.
    ///
    /// # Errors
    /// When the address can't be listened on.
    pub fn start(
        address: SocketAddr,
        registry: Registry,
        ready: ReadyFlag,
    ) -> Result<Self, MetricsError> {
        let listen = |source| MetricsError::Listen { address, source };
        let listener = crate::listen::listen_on(address).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let app = build_router(registry, ready);
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            let app = app.into_make_service_with_connect_info::<SocketAddr>();
            let serving = axum::serve(listener, app).with_graceful_shutdown(stopped);
            if let Err(error) = serving.await {
                tracing::error!(%error, "metrics_server_failed");
            }
        });
        tracing::info!(%address, "metrics_server_started");
        Ok(Self { address, stop, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

#[derive(Clone)]
struct SharedMetrics {
    registry: Arc<Registry>,
    ready: ReadyFlag,
}

fn build_router(registry: Registry, ready: ReadyFlag) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(serve_readyz))
        .route("/metrics", get(serve_metrics))
        .route("/log", get(|| async { telemetry::read_filter().unwrap_or_default() }).put(set_log))
        .with_state(SharedMetrics { registry: Arc::new(registry), ready })
}

async fn serve_readyz(State(shared): State<SharedMetrics>) -> impl IntoResponse {
    if shared.ready.get() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", shared.ready.why()))
    }
}

async fn set_log(
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    filter: String,
) -> Result<StatusCode, (StatusCode, String)> {
    if !from.ip().to_canonical().is_loopback() {
        let why = "only from the pod itself: kubectl port-forward\n".to_owned();
        return Err((StatusCode::FORBIDDEN, why));
    }
    let refused = |error: FilterError| (StatusCode::BAD_REQUEST, format!("{error}\n"));
    telemetry::set_filter(&filter).map(|()| StatusCode::NO_CONTENT).map_err(refused)
}

async fn serve_metrics(State(shared): State<SharedMetrics>) -> impl IntoResponse {
    let mut text = String::new();
    let status = match encode(&mut text, &shared.registry) {
        Ok(()) => StatusCode::OK,
        Err(error) => {
            tracing::error!(%error, "metrics_encoding_failed");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (status, [(header::CONTENT_TYPE, OPEN_METRICS)], text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::build_registry;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn health_readiness_and_families_are_served() {
        let mut registry = build_registry();
        let counter = Counter::<u64>::default();
        registry.register("kept_promises", "Promises kept", counter.clone());
        counter.inc();
        let ready = ReadyFlag::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = MetricsServer::start(any, registry, ready.clone()).unwrap();

        assert!(get(server.address(), "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get(server.address(), "/readyz").await.starts_with("HTTP/1.1 503"));
        ready.waits_for(Some("no definitions".to_owned()));
        assert!(get(server.address(), "/readyz").await.contains("not ready: no definitions"));
        ready.set(true);
        assert!(get(server.address(), "/readyz").await.starts_with("HTTP/1.1 200"));
        let metrics = get(server.address(), "/metrics").await;
        assert!(metrics.contains("codebutler_kept_promises_total 1"), "{metrics}");
        assert!(metrics.ends_with("# EOF\n"), "{metrics}");

        let taken = MetricsServer::start(server.address(), build_registry(), ready).unwrap_err();
        assert!(taken.to_string().contains("choose another"), "{taken}");
    }

    #[tokio::test]
    async fn the_log_is_changed_from_the_pod_itself_only() {
        let from = |address: &str| ConnectInfo(SocketAddr::new(address.parse().unwrap(), 4000));
        let set = |address: &str, filter: &str| set_log(from(address), filter.to_owned());
        let far = set("10.1.2.3", "debug").await.unwrap_err();
        assert_eq!(far.0, StatusCode::FORBIDDEN);
        let wrong = set("127.0.0.1", "loud=very").await.unwrap_err();
        assert!(wrong.0 == StatusCode::BAD_REQUEST && wrong.1.contains("no filter"), "{wrong:?}");
        assert_eq!(set("::ffff:127.0.0.1", "info\n").await, Ok(StatusCode::NO_CONTENT));
    }
}
