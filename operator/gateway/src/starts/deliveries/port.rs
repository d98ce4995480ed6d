//! The port of deliveries: plain HTTP/1.1, as behind an ingress, and what strangers can hold of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Connections at once of which not all has come. Those who come next are let in, and who has taken longest
/// goes: an honest delivery is there within moments, so that no crowd of slow strangers is in its way.
pub(super) const CONNECTIONS: usize = 256;
/// Bytes of a request's head at most.
const HEAD: usize = 32 << 10;
/// Maximum age of a connection, so that a client that takes no answer does not stay.
const LIFE: Duration = Duration::from_mins(1);

/// Serves until told to stop; what has come in before is served to its end while the process lasts. A
/// request's head may take as long as `patience`.
pub(super) async fn serve_port(
    listener: TcpListener,
    app: Router,
    patience: Duration,
    stop: CancellationToken,
) {
    let room = WaitingRoom::new(CONNECTIONS);
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                let seat = room.enter();
                let app = app.clone().layer(Extension(seat.clone()));
                tokio::spawn(async move {
                    let ended = seat.ended();
                    let served = serve_connection(stream, app, patience);
                    if ended.run_until_cancelled(served).await.is_none() {
                        tracing::debug!("slow_connection_closed");
                    }
                    seat.settle();
                });
            }
            Err(error) => {
                // Errors such as too many open files don't pass by an immediate retry.
                tracing::warn!(%error, "connection_accept_failed");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Connections whose request is not there yet, oldest first. Cheap to clone; clones count together.
#[derive(Clone)]
struct WaitingRoom {
    most: usize,
    waiting: Arc<Mutex<VecDeque<(u64, CancellationToken)>>>,
    next: Arc<Mutex<u64>>,
}

impl WaitingRoom {
    fn new(most: usize) -> Self {
        Self { most, waiting: Arc::default(), next: Arc::default() }
    }

    /// Takes a seat; whoever has had one for longest leaves if there are too many.
    fn enter(&self) -> WaitingSeat {
        let mut next = self.next.lock();
        *next += 1;
        let (id, ended) = (*next, CancellationToken::new());
        let mut waiting = self.waiting.lock();
        while waiting.len() >= self.most
            && let Some((_, slow)) = waiting.pop_front()
        {
            slow.cancel();
        }
        waiting.push_back((id, ended.clone()));
        WaitingSeat { id, ended, room: self.clone() }
    }
}

/// One connection's seat. Clones are the same one.
#[derive(Clone)]
pub(super) struct WaitingSeat {
    id: u64,
    ended: CancellationToken,
    room: WaitingRoom,
}

impl WaitingSeat {
    /// Releases the seat once the whole request is there: its connection makes room for nobody any more.
    pub(super) fn settle(&self) {
        self.room.waiting.lock().retain(|(id, _)| *id != self.id);
    }

    fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

async fn serve_connection(stream: TcpStream, app: Router, patience: Duration) {
    let _ = stream.set_nodelay(true);
    // A connection takes one delivery, so that none is closed while its owner sends the next one.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .keep_alive(false)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    match timeout(LIFE, connection).await {
        Ok(Err(error)) => tracing::debug!(%error, "connection_failed"),
        Err(_) => tracing::debug!("connection_timed_out"),
        Ok(Ok(())) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use axum::routing::post;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_util::sync::DropGuard;

    const SOON: Duration = Duration::from_secs(20);

    async fn open() -> (SocketAddr, DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let app = Router::new().route("/", post(|body: Bytes| async move { body }));
        tokio::spawn(serve_port(listener, app, Duration::from_millis(300), stop.clone()));
        (address, stop.drop_guard())
    }

    /// Sends bytes, and returns the answer until the connection is closed.
    async fn said(address: SocketAddr, sent: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A client that is cut off may get the error while it writes, or while it reads.
        let _ = stream.write_all(sent.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("it is closed");
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_connection_brings_one_request_and_ends() {
        let (address, _serves) = open().await;
        let request = "POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\nhi";
        let answer = said(address, &request.repeat(2)).await;
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
        assert!(answer.ends_with("hi") && answer.contains("connection: close"), "{answer}");
    }

    #[tokio::test]
    async fn a_crowd_of_slow_strangers_is_in_nobodys_way() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let app = Router::new().route("/", post(|body: Bytes| async move { body }));
        tokio::spawn(serve_port(listener, app, SOON, stop.clone()));
        let _serves = stop.drop_guard();
        let head = "POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n";
        let mut crowd = Vec::new();
        for _ in 0..CONNECTIONS + 44 {
            let mut slow = TcpStream::connect(address).await.unwrap();
            slow.write_all(format!("{head}h").as_bytes()).await.unwrap();
            crowd.push(slow);
        }
        let asked = tokio::time::Instant::now();
        let answer = said(address, &format!("{head}hi")).await;
        assert!(answer.ends_with("hi"), "{answer}");
        assert!(asked.elapsed() < SOON / 4, "{:?}", asked.elapsed());
        let mut first = crowd.remove(0);
        let ended = timeout(SOON / 4, first.read(&mut [0])).await.expect("it made room");
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    }

    #[test]
    fn who_has_taken_longest_goes_and_who_is_there_stays() {
        let room = WaitingRoom::new(2);
        let (first, second) = (room.enter(), room.enter());
        first.settle();
        let (third, fourth) = (room.enter(), room.enter());
        assert!(!first.ended.is_cancelled() && second.ended.is_cancelled());
        assert!(!third.ended.is_cancelled() && !fourth.ended.is_cancelled());
        assert_eq!(room.waiting.lock().len(), 2);
    }

    #[tokio::test]
    async fn who_does_not_come_to_an_end_does_not_stay() {
        let (address, _serves) = open().await;
        for sent in ["", "POST / HTTP/1.1\r\nx-slow: "] {
            assert!(!said(address, sent).await.contains("200"));
        }
        let long = format!("POST / HTTP/1.1\r\nx-long: {}\r\n\r\n", "x".repeat(4 * HEAD));
        assert!(!said(address, &long).await.contains("200"));
    }
}
