//! The port of deliveries: plain HTTP/1.1, as behind an ingress, and what strangers can hold of it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Connections at once; others wait to be taken.
const CONNECTIONS: usize = 256;
/// Bytes of a request's head at most.
const HEAD: usize = 32 << 10;
/// How long a connection is kept for further requests.
const LIFE: Duration = Duration::from_mins(1);
/// How long the last one may take.
const END: Duration = Duration::from_secs(45);

/// Serves until told to stop. A request's head may take as long as `patience`.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    patience: Duration,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let accept = async || {
        let place = room.clone().acquire_owned().await.ok();
        (place, listener.accept().await)
    };
    while let Some((place, accepted)) = stop.run_until_cancelled(accept()).await {
        match accepted {
            Ok((stream, _)) => {
                let (app, stop) = (app.clone(), stop.clone());
                tokio::spawn(async move {
                    connection(stream, app, patience, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Such as too many open files: nothing is gained by asking again at once.
                tracing::warn!(%error, "a connection was not accepted");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, app: Router, patience: Duration, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => Ok(outcome),
        () = async { tokio::select! { () = sleep(LIFE) => (), () = stop.cancelled() => () } } => {
            connection.as_mut().graceful_shutdown();
            // Who takes no answer does not stay.
            timeout(END, connection).await
        }
    };
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended badly"),
        Err(_) => tracing::debug!("a connection took too long"),
    }
}
