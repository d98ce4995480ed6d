//! Serves a router on a free loopback port, and can hang up on a client as a failing host does.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt as _;

/// A running server. Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Serving {
    /// Serves `router` on `127.0.0.1`, on a port of the system's choice.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(router: Router) -> std::io::Result<Self> {
        Self::start_at(None, router).await
    }

    /// Serves `router` on `127.0.0.1`, on `port` if that is free.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_at(port: Option<u16>, router: Router) -> std::io::Result<Self> {
        let listener = listen(port).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept(listener, router)) })
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Listens on loopback, at `port` if that is free.
///
/// # Errors
/// When no port can be had.
pub async fn listen(port: Option<u16>) -> std::io::Result<TcpListener> {
    if let Some(port) = port
        && let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await
    {
        return Ok(listener);
    }
    TcpListener::bind(("127.0.0.1", 0)).await
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Marks a response that is never sent: the connection is closed instead.
#[derive(Clone, Copy, Debug)]
pub struct HangUp;

impl HangUp {
    /// The response that carries the mark.
    #[must_use]
    pub fn response() -> Response {
        let mut response = ().into_response();
        response.extensions_mut().insert(Self);
        response
    }
}

async fn accept(listener: TcpListener, router: Router) {
    // The set owns the connections, so that they end with this task.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // A small answer must not wait for the client's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        while connections.try_join_next().is_some() {}
        let router = router.clone();
        connections.spawn(async move {
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let router = router.clone();
                async move {
                    let Ok::<_, Infallible>(response) =
                        router.oneshot(request.map(Body::new)).await;
                    match response.extensions().get::<HangUp>() {
                        Some(_) => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                        None => Ok(response),
                    }
                }
            });
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
