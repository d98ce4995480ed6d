//! The port of pages: plain HTTP/1.1, as behind an ingress, and what strangers can hold of it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::{Extension, Router};
use codebutler_gateway_core::serve::{ConnectionAddresses, ConnectionLimits};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::visitor::PeerAddress;

/// Connections at once; others are ended.
const CONNECTIONS: usize = 2048;
/// Bytes of a request's head at most.
const HEAD: usize = 32 << 10;
/// Time after which a connection is closed whose browser takes no bytes of its answer.
const STALL: Duration = Duration::from_mins(1);

/// Limits on connections of callers that are not authenticated yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortLimits {
    pub connections: ConnectionLimits,
    pub all: usize,
    pub stall: Duration,
}

impl Default for PortLimits {
    fn default() -> Self {
        Self { connections: ConnectionLimits::default(), all: CONNECTIONS, stall: STALL }
    }
}

/// Serves until told to stop; what has come in before is served to its end while the process lasts.
pub(super) async fn serve_port(
    listener: TcpListener,
    app: Router,
    limits: PortLimits,
    stop: CancellationToken,
) {
    let (addresses, all) = (ConnectionAddresses::default(), Arc::new(Semaphore::new(limits.all)));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, from)) => {
                let share = addresses.share(from.ip(), limits.connections.per_address);
                let (Some(share), Ok(place)) = (share, Arc::clone(&all).try_acquire_owned()) else {
                    tracing::debug!(address = %from.ip(), "connection_limit_reached");
                    continue;
                };
                let app = app.clone().layer(Extension(PeerAddress(from.ip())));
                let stop = stop.clone();
                tokio::spawn(async move {
                    serve_connection(stream, app, limits, stop).await;
                    drop((share, place));
                });
            }
            Err(error) => {
                // Such as too many open files: nothing is gained by asking again at once.
                tracing::warn!(%error, "connection_accept_failed");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    app: Router,
    limits: PortLimits,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let stream = TakenStream { stream, stall: limits.stall, waits: None };
    // A connection that waits for its next request is one whose head is late.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.connections.head)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection_failed");
    }
}

/// A stream that breaks when what is written is not taken for long.
struct TakenStream {
    stream: TcpStream,
    stall: Duration,
    /// Timer that runs while the browser takes nothing.
    waits: Option<Pin<Box<Sleep>>>,
}

impl TakenStream {
    /// Breaks off what has waited for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let stall = self.stall;
        let waits = self
            .waits
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + stall)));
        ready!(waits.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TakenStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TakenStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;
    use tokio_util::sync::DropGuard;

    const SOON: Duration = Duration::from_secs(20);
    const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

    async fn open(limits: PortLimits) -> (SocketAddr, DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let long = || async { Body::from(vec![b'x'; 64 << 20]) };
        let app = Router::new().route("/", get(|| async { "a page" })).route("/long", get(long));
        tokio::spawn(serve_port(listener, app, limits, stop.clone()));
        (address, stop.drop_guard())
    }

    fn quick() -> PortLimits {
        let soon = Duration::from_millis(300);
        let connections = ConnectionLimits { head: soon, ..ConnectionLimits::default() };
        PortLimits { connections, stall: soon, ..PortLimits::default() }
    }

    async fn asks(stream: &mut TcpStream) -> bool {
        let sent = stream.write_all(ASK).await;
        let mut answer = [0; 1024];
        let Ok(length) = stream.read(&mut answer).await else { return false };
        sent.is_ok() && answer[..length].starts_with(b"HTTP/1.1 200")
    }

    #[tokio::test]
    async fn who_asks_for_nothing_does_not_stay() {
        let (address, _serves) = open(quick()).await;
        for sent in [&b""[..], b"GET / HTTP/1.1\r\nx-slow: ", ASK] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent).await.unwrap();
            let mut answer = Vec::new();
            let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("it is ended");
            assert_eq!(answer.starts_with(b"HTTP/1.1 200"), sent == ASK);
        }
    }

    #[tokio::test]
    async fn who_takes_nothing_does_not_stay() {
        let (address, _serves) = open(PortLimits { all: 1, ..quick() }).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /long HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
        let again = async {
            loop {
                let mut next = TcpStream::connect(address).await.unwrap();
                if asks(&mut next).await {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SOON, again).await.expect("its place can be had");
        let mut answer = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("it is ended");
        assert!(answer.len() < 64 << 20, "it got all of it: {}", answer.len());
    }

    #[tokio::test]
    async fn connections_are_counted_by_address_and_together() {
        let few = |per_address, all| PortLimits {
            connections: ConnectionLimits { per_address, ..ConnectionLimits::default() },
            all,
            ..PortLimits::default()
        };
        for limits in [few(2, 100), few(100, 2)] {
            let (address, _serves) = open(limits).await;
            let mut first = TcpStream::connect(address).await.unwrap();
            assert!(asks(&mut first).await);
            let _second = TcpStream::connect(address).await.unwrap();
            let mut more = TcpStream::connect(address).await.unwrap();
            let ended = timeout(SOON, more.read(&mut [0])).await.expect("it is ended at once");
            assert!(!matches!(ended, Ok(1..)), "{ended:?}");
            assert!(asks(&mut first).await, "who was there first is served");
        }
    }
}
