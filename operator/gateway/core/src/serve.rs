//! The agents' port: TLS, HTTP/1.1, what strangers can hold of it, and an orderly end.

mod heads;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use codebutler_runtime::tasks::TaskGroup;
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, PollSemaphore};

use self::heads::{ReadStream, RequestHeads};

/// Timeout of a client's handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// Idle timeout of a connection. Longer than clients keep idle connections, so that none is closed
/// while its owner sends the next request.
const IDLE: Duration = Duration::from_mins(2);

/// Limits on callers that have shown nothing yet.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections of one address: a pod's are far fewer, but a node can stand for all of its pods.
    pub per_address: usize,
    /// Timeout of a request's head: from a connection's begin, and later from its first byte.
    pub head: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { per_address: 1024, head: Duration::from_secs(20) }
    }
}

/// Serves until `shutdown`. Connections stay as long as the request that each is about.
pub async fn serve_agents(
    listener: TcpListener,
    tls: ServerConfig,
    app: Router,
    limits: ConnectionLimits,
    (connections, shutdown): (&TaskGroup, CancellationToken),
) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let turns = Arc::new(Semaphore::new(1));
    let addresses = ConnectionAddresses::default();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, from)) => {
                let Some(share) = addresses.share(from.ip(), limits.per_address) else {
                    tracing::debug!(address = %from.ip(), "connection_limit_reached");
                    continue;
                };
                let service = TowerToHyperService::new(app.clone());
                let (acceptor, shutdown) = (acceptor.clone(), shutdown.clone());
                let turns = PollSemaphore::new(Arc::clone(&turns));
                connections.spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let accepting = take_turns(turns, acceptor.accept(stream));
                    match timeout(PATIENCE, accepting).await {
                        Ok(Ok(stream)) => serve_connection(stream, service, limits, shutdown).await,
                        Ok(Err(error)) => tracing::debug!(%error, "tls_handshake_failed"),
                        Err(_) => tracing::debug!("tls_handshake_timed_out"),
                    }
                    drop(share);
                });
            }
            Err(error) => {
                // Such as too many open files: nothing is gained by asking again at once.
                tracing::warn!(%error, "connection_accept_failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
}

/// Lets one future at a time compute: the handshakes of hundreds of clients that come at once would otherwise stand on
/// all threads, before the acknowledgement of a message. A future that waits for its client holds no turn.
async fn take_turns<F: Future>(mut turns: PollSemaphore, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(move |context| {
        let _turn = ready!(turns.poll_acquire(context));
        future.as_mut().poll(context)
    })
    .await
}

async fn serve_connection(
    stream: TlsStream<TcpStream>,
    service: TowerToHyperService<Router>,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) {
    let heads = RequestHeads::default();
    let asked = heads.clone();
    let service = service_fn(move |request| {
        let open = asked.open();
        let answer = service.call(request);
        async move {
            let answer = answer.await?;
            // For as long as any of it is left to be sent.
            let held = answer.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _ = &open;
                    frame
                }))
            });
            Ok::<_, Infallible>(held)
        }
    });
    let stream = ReadStream { stream, heads: heads.clone() };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = heads.late(limits.head) => return tracing::debug!("request_head_timed_out"),
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection_failed");
    }
}

/// Open connections of each address. Cheap to clone; clones count together.
#[derive(Clone, Default)]
pub struct ConnectionAddresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl ConnectionAddresses {
    /// Counts one more connection for as long as the share is held; None if the address has `most`
    /// already.
    pub fn share(&self, address: IpAddr, most: usize) -> Option<ConnectionShare> {
        let mut open = self.0.lock();
        let count = open.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(ConnectionShare { address, addresses: self.clone() })
    }
}

/// Share of an address's connections, held by one of them.
pub struct ConnectionShare {
    address: IpAddr,
    addresses: ConnectionAddresses,
}

impl Drop for ConnectionShare {
    fn drop(&mut self) {
        let mut open = self.addresses.0.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream as ClientStream;
    use tokio_util::sync::DropGuard;

    const SOON: Duration = Duration::from_secs(20);

    /// A server under test, and a client that trusts it.
    struct Port {
        address: SocketAddr,
        connector: TlsConnector,
        _serves: DropGuard,
    }

    impl Port {
        async fn open(limits: ConnectionLimits) -> Self {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let made = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
            let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
            let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key)
                .unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(made.cert.der().clone()).unwrap();
            let client = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let stop = CancellationToken::new();
            let app = Router::new().route("/", get(|| async { "hello" }));
            let stopped = stop.clone();
            tokio::spawn(async move {
                serve_agents(listener, server, app, limits, (&TaskGroup::default(), stopped)).await;
            });
            let connector = TlsConnector::from(Arc::new(client));
            Self { address, connector, _serves: stop.drop_guard() }
        }

        async fn tcp(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        async fn tls(&self) -> std::io::Result<ClientStream<TcpStream>> {
            let name = ServerName::try_from("here").unwrap();
            self.connector.connect(name, self.tcp().await).await
        }
    }

    async fn asks(stream: &mut ClientStream<TcpStream>) -> bool {
        let sent = stream.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await;
        let mut answer = [0; 1024];
        let Ok(length) = stream.read(&mut answer).await else { return false };
        sent.is_ok() && answer[..length].starts_with(b"HTTP/1.1 200")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn handshakes_compute_one_after_another_and_who_waits_for_a_client_holds_none_up() {
        let (turns, at_once) = (Arc::new(Semaphore::new(1)), Arc::new(AtomicUsize::new(0)));
        let compute = |at_once: Arc<AtomicUsize>| async move {
            for _ in 0..20 {
                assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                std::thread::yield_now();
                at_once.fetch_sub(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        };
        let _silent = tokio::spawn(take_turns(
            PollSemaphore::new(Arc::clone(&turns)),
            std::future::pending::<()>(),
        ));
        let handshakes = (0..50).map(|_| {
            let turns = PollSemaphore::new(Arc::clone(&turns));
            tokio::spawn(take_turns(turns, compute(Arc::clone(&at_once))))
        });
        let done = futures::future::join_all(handshakes.collect::<Vec<_>>());
        for outcome in timeout(SOON, done).await.expect("nobody is held up") {
            outcome.unwrap();
        }
        // With all of it: those who send nothing, and one who does.
        let port = Port::open(ConnectionLimits::default()).await;
        let _silent = [port.tcp().await, port.tcp().await, port.tcp().await];
        assert!(asks(&mut port.tls().await.unwrap()).await);
    }

    #[tokio::test]
    async fn an_address_has_its_share_of_connections_and_no_more() {
        let port =
            Port::open(ConnectionLimits { per_address: 3, ..ConnectionLimits::default() }).await;
        let mut first = port.tls().await.unwrap();
        let held = [port.tcp().await, port.tcp().await];
        let mut more = port.tcp().await;
        let ended = timeout(SOON, more.read(&mut [0])).await.expect("it is ended at once");
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
        assert!(asks(&mut first).await, "who was there first is served");
        drop(held);
        let again = async {
            loop {
                if let Ok(mut stream) = port.tls().await
                    && asks(&mut stream).await
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, again).await.expect("what is given back can be had");
    }

    #[tokio::test]
    async fn who_asks_for_nothing_does_not_stay() {
        let head = Duration::from_millis(300);
        let port = Port::open(ConnectionLimits { head, ..ConnectionLimits::default() }).await;
        let (mut silent, mut slow, mut quick) =
            (port.tls().await.unwrap(), port.tls().await.unwrap(), port.tls().await.unwrap());
        slow.write_all(b"GET / HTTP/1.1\r\nx-slow: ").await.unwrap();
        assert!(asks(&mut quick).await);
        for stream in [&mut silent, &mut slow] {
            let ended = timeout(SOON, stream.read(&mut [0])).await.expect("it is ended");
            assert!(!matches!(ended, Ok(1..)), "{ended:?}");
        }
        assert!(asks(&mut quick).await, "one that has asked may wait before it asks again");
    }
    #[tokio::test]
    async fn a_later_request_may_not_come_a_byte_at_a_time() {
        let head = Duration::from_millis(300);
        let port = Port::open(ConnectionLimits { head, ..ConnectionLimits::default() }).await;
        let mut stream = port.tls().await.unwrap();
        assert!(asks(&mut stream).await);
        tokio::time::sleep(head * 2).await;
        assert!(asks(&mut stream).await, "between two requests it may take its time");
        let (mut read, mut write) = tokio::io::split(stream);
        let drips = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(50));
            while write.write_all(b"G").await.is_ok() && write.flush().await.is_ok() {
                ticks.tick().await;
            }
        };
        let ended = async {
            let mut byte = [0];
            tokio::select! {
                ended = read.read(&mut byte) => assert!(!matches!(ended, Ok(1..)), "{ended:?}"),
                () = drips => {}
            }
        };
        timeout(SOON, ended).await.expect("it is ended");
    }
}
