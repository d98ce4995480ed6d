//! Serves a router on a free port, of the loopback unless told otherwise, and can hang up on a client as a
//! failing host does.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

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
pub struct RunningServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl RunningServer {
    /// Serves `router` on `127.0.0.1`, on a port of the system's choice.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(router: Router) -> std::io::Result<Self> {
        Self::start_at(ListenAddress::default(), router).await
    }

    /// Serves `router` there.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_at(at: ListenAddress, router: Router) -> std::io::Result<Self> {
        let listener = listen_at(at).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept_connections(listener, router)) })
    }

    /// Port that the server listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://<address>:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Address and port that a server is to listen on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenAddress {
    /// Address of this machine to bind; `127.0.0.1` if absent.
    pub address: Option<IpAddr>,
    /// A port, if it is free; else one of the system's choice.
    pub port: Option<u16>,
}

/// A loopback address that nothing else on this machine uses: all of 127.0.0.0/8 is local.
#[must_use]
pub fn own_loopback_address() -> IpAddr {
    let [a, b, c, _] = rand::random::<u32>().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254)))
}

/// Listens there.
///
/// # Errors
/// When no port can be had.
pub async fn listen_at(at: ListenAddress) -> std::io::Result<TcpListener> {
    let address = at.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    if let Some(port) = at.port
        && let Ok(listener) = TcpListener::bind((address, port)).await
    {
        return Ok(listener);
    }
    TcpListener::bind((address, 0)).await
}

impl Drop for RunningServer {
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

async fn accept_connections(listener: TcpListener, router: Router) {
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
