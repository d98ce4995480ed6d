//! The agents' port: TLS, HTTP/1.1, and an orderly end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a client may take to finish its handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may be open without a request. Longer than clients keep idle connections,
/// so that none is closed while its owner sends the next request.
const IDLE: Duration = Duration::from_mins(2);
/// How long open requests may take once the process is told to stop.
const GRACE: Duration = Duration::from_secs(20);

/// Serves until `shutdown`, then lets open requests end.
pub async fn serve(
    listener: TcpListener,
    tls: ServerConfig,
    app: Router,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let connections = TaskTracker::new();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                let service = TowerToHyperService::new(app.clone());
                let connection = connection(stream, acceptor.clone(), service, shutdown.clone());
                connections.spawn(connection);
            }
            Err(error) => {
                // Such as too many open files: nothing is gained by asking again at once.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(GRACE, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "requests were cut off");
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    service: TowerToHyperService<Router>,
    shutdown: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended badly");
    }
}
