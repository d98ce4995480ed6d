//! The relay: how Git and commands in the toolbox reach the gateway. It listens on the pod's
//! loopback, serves `/git/…`, is an HTTP proxy for everything else ([`proxy`]), and adds the pod's
//! token. Any command in the pod can use it, so it decides nothing: the gateway enforces what the
//! role may do.

mod lent;
mod proxy;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codebutler_wire::path;
use futures::TryStreamExt as _;
use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use self::lent::{LentBody, lend_body};
use crate::gateway::{GatewayClient, GatewayError, read_refusal};

/// The path under which Git is served.
const PREFIX: &str = "/git";
/// Headers that belong to one hop, and those that the relay sets itself.
const OWN: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::AUTHORIZATION,
];

type Body = BoxBody<Bytes, io::Error>;

/// A request of Git was refused, or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayRefusal {
    /// The gateway's words, or that there were none.
    pub said: String,
    /// True if a retry may help.
    pub passes: bool,
}

#[derive(Clone)]
pub struct GitRelay {
    address: SocketAddr,
    /// Names the part of the path that only the toolbox knows.
    own: String,
    refused: Arc<Mutex<Option<RelayRefusal>>>,
    turned_away: Arc<Mutex<Vec<String>>>,
}

/// Prefix of the path that only the toolbox knows.
const OWN_GIT: &str = "/git-of-toolbox-";
/// Connections whose requests are read at once. A tunnel that stands is none of them.
const MAX_CONNECTIONS: usize = 64;
/// Time and bytes for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEAD: usize = 64 * 1024;

/// The same remote for commands, which may know it.
pub fn public_url(url: &str) -> String {
    match url.split_once(OWN_GIT) {
        Some((address, _)) => format!("{address}{PREFIX}"),
        None => url.to_owned(),
    }
}

/// Connections of commands that are remembered as refused.
const MAX_TURNED_AWAY: usize = 10;

impl GitRelay {
    /// Listens on `address`, or on any port of the same host if that one is taken.
    pub async fn start(address: SocketAddr, gateway: GatewayClient) -> io::Result<Self> {
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                TcpListener::bind((address.ip(), 0)).await?
            }
            Err(e) => return Err(e),
        };
        let relay = Self {
            address: listener.local_addr()?,
            own: format!("{OWN_GIT}{:032x}", rand::random::<u128>()),
            refused: Arc::default(),
            turned_away: Arc::default(),
        };
        tokio::spawn(relay.clone().accept(listener, gateway).in_current_span());
        Ok(relay)
    }

    /// The Git remote that it offers the toolbox: what is refused there is kept for [`Self::take_refusal`].
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.own)
    }

    /// The proxy that it is for commands.
    pub fn proxy(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The gateway's last refusal, once: Git itself throws its words away.
    pub fn take_refusal(&self) -> Option<RelayRefusal> {
        self.refused.lock().take()
    }

    /// Takes the refusals of commands since the last call, a sentence for each host: most tools keep the gateway's
    /// words to themselves.
    pub fn take_turned_away(&self) -> Vec<String> {
        std::mem::take(&mut *self.turned_away.lock())
    }

    fn refuse(&self, said: String, passes: bool) {
        let refusal = RelayRefusal { said, passes };
        *self.refused.lock() = Some(refusal);
    }

    fn turn_away(&self, why: &str) {
        let mut known = self.turned_away.lock();
        if known.len() < MAX_TURNED_AWAY && !known.iter().any(|known| known == why) {
            known.push(why.to_owned());
        }
    }

    async fn accept(self, listener: TcpListener, gateway: GatewayClient) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors, say: it passes.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // Any command can connect: one that is too many is closed at once, before it costs memory.
            let Ok(place) = places.clone().try_acquire_owned() else { continue };
            let _ = stream.set_nodelay(true);
            let (relay, gateway) = (self.clone(), gateway.clone());
            let served = async move {
                let service = service_fn(move |request| {
                    let (relay, gateway) = (relay.clone(), gateway.clone());
                    async move { Ok::<_, Infallible>(relay.answer(&gateway, request).await) }
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .max_buf_size(MAX_HEAD)
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades()
                    .await;
                if let Err(error) = served {
                    tracing::debug!(%error, "relay_connection_failed");
                }
                drop(place);
            };
            tokio::spawn(served.in_current_span());
        }
    }

    async fn answer(&self, gateway: &GatewayClient, request: Request<Incoming>) -> Response<Body> {
        if proxy::is_for(&request) {
            return proxy::answer_request(gateway, request, |why| self.turn_away(why)).await;
        }
        let path = request.uri().path();
        // A refusal of a command's own Git says nothing of the toolbox' push.
        let own = path.strip_prefix(self.own.as_str());
        let is_own = own.is_some();
        let plain = own.map_or_else(|| path.to_owned(), |rest| format!("{PREFIX}{rest}"));
        let Some(target) = relay_target(request.method(), &plain) else {
            return say_status(StatusCode::NOT_FOUND, "the relay serves /git/ and proxies only");
        };
        let (head, body) = request.into_parts();
        let (lent, unsent) = lend_body(body);
        let answered = self.forward(gateway, (head, lent), &target, is_own).await;
        if !answered.as_ref().is_ok_and(|answer| answer.status().is_success()) {
            unsent.drain().await;
        }
        match answered {
            Ok(answer) => answer,
            Err(error) => {
                if is_own {
                    self.refuse(error.to_string(), error.may_pass());
                }
                tracing::warn!(
                    error = format!("{:#}", anyhow::Error::new(error)),
                    "relay_request_failed"
                );
                say_status(StatusCode::BAD_GATEWAY, "the gateway can't be reached: try again")
            }
        }
    }

    async fn forward(
        &self,
        gateway: &GatewayClient,
        (head, body): (Parts, LentBody),
        target: &str,
        is_own: bool,
    ) -> Result<Response<Body>, GatewayError> {
        let mut onward = gateway
            .raw(head.method.clone(), target, head.uri.query())?
            .headers(end_to_end(&head.headers));
        if head.method == Method::POST {
            onward = onward.body(reqwest::Body::wrap_stream(body));
        }
        let answer = onward.send().await.map_err(GatewayError::Unreachable)?;
        let status = answer.status();
        let headers = end_to_end(answer.headers());
        let body = if status.is_success() {
            let relay = self.clone();
            let frames = answer.bytes_stream().map_ok(Frame::data).map_err(move |error| {
                if is_own {
                    relay.refuse("the gateway's answer was cut off".to_owned(), true);
                }
                io::Error::other(error)
            });
            StreamBody::new(frames).boxed()
        } else {
            let bytes = answer.bytes().await.map_err(GatewayError::Unreachable)?;
            let error = read_refusal(status, &bytes);
            let passes = error.may_pass();
            let said = match error {
                GatewayError::Unexpected { excerpt, .. } if !excerpt.is_empty() => excerpt,
                other => other.to_string(),
            };
            if is_own {
                self.refuse(said, passes);
            }
            full_body(bytes)
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// The gateway's path for a path of the relay; none for anything that is not Git.
fn relay_target(method: &Method, asked: &str) -> Option<String> {
    let rest = asked.strip_prefix(PREFIX)?;
    let plain = rest.starts_with('/')
        && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.".contains(&b))
        && !rest.split('/').any(|part| part == "..");
    let known = *method == Method::GET || *method == Method::POST;
    (plain && known).then(|| format!("{}{rest}", path::GIT))
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<_> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    headers
        .iter()
        .filter(|(name, _)| !OWN.contains(name) && name.as_str() != "keep-alive")
        .filter(|(name, _)| **name != header::EXPECT && **name != header::CONTENT_LENGTH)
        .filter(|(name, _)| !named.iter().any(|n| n == name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn say_status(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(full_body(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

fn full_body(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_git_is_served() {
        let get = |path| relay_target(&Method::GET, path);
        assert_eq!(get("/git/info/refs").as_deref(), Some("/v1/git/info/refs"));
        assert_eq!(
            relay_target(&Method::POST, "/git/git-receive-pack").as_deref(),
            Some("/v1/git/git-receive-pack")
        );
        for path in [
            "/",
            "/git",
            "/gitx/",
            "/v1/session",
            "/git/../session",
            "/git/%2e%2e/session",
            "/git/a/..",
            "git/x",
        ] {
            assert_eq!(get(path), None, "{path}");
        }
        assert_eq!(relay_target(&Method::DELETE, "/git/info/refs"), None);
    }

    #[test]
    fn a_hops_own_headers_and_credentials_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("authorization", "Bearer stolen"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
            ("host", "x"),
            ("git-protocol", "version=2"),
            ("content-encoding", "gzip"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let mut kept: Vec<_> = end_to_end(&headers).keys().map(ToString::to_string).collect();
        kept.sort();
        assert_eq!(kept, ["content-encoding", "git-protocol"]);
    }

    #[test]
    fn commands_are_told_another_path_than_the_toolbox() {
        let own = format!("http://127.0.0.1:7070{OWN_GIT}0123456789abcdef");
        assert_eq!(public_url(&own), "http://127.0.0.1:7070/git");
        assert_eq!(public_url("file:///work/remote"), "file:///work/remote");
    }

    /// A relay whose gateway is away: nothing listens at its address.
    async fn relay_without_gateway() -> (tempfile::TempDir, GitRelay) {
        let dir = tempfile::tempdir().unwrap();
        let (ca, token) = (dir.path().join("ca.crt"), dir.path().join("token"));
        let made = rcgen::generate_simple_self_signed(["gateway".to_owned()]).unwrap();
        std::fs::write(&ca, made.cert.pem()).unwrap();
        std::fs::write(&token, "t").unwrap();
        let away = Some("127.0.0.1:1".parse().unwrap());
        let gateway = GatewayClient::new("https://gateway:1", away, &ca, &token).unwrap();
        (dir, GitRelay::start("127.0.0.1:0".parse().unwrap(), gateway).await.unwrap())
    }

    #[tokio::test]
    async fn whoever_sends_much_reads_why_it_was_for_nothing() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (_dir, relay) = relay_without_gateway().await;
        // More than the buffers of a connection hold.
        let push = vec![b'x'; 48 << 20];
        let mut stream = tokio::net::TcpStream::connect(relay.address).await.unwrap();
        let head = format!(
            "POST {PREFIX}/git-receive-pack HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            push.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&push).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("try again"), "{answer}");
    }

    #[tokio::test]
    async fn half_open_connections_are_bounded_and_what_commands_are_refused_is_not_the_toolboxes()
    {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (_dir, relay) = relay_without_gateway().await;
        let ask = async |path: &str| {
            let mut stream = tokio::net::TcpStream::connect(relay.address).await.unwrap();
            let head =
                format!("GET {path}/info/refs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        assert!(ask(PREFIX).await.starts_with("HTTP/1.1 502"));
        assert_eq!(relay.take_refusal(), None, "a command's own");
        assert!(ask(&relay.own.clone()).await.starts_with("HTTP/1.1 502"));
        assert!(relay.take_refusal().is_some_and(|refusal| refusal.passes));

        let mut open = Vec::new();
        for _ in 0..300 {
            let mut stream = tokio::net::TcpStream::connect(relay.address).await.unwrap();
            let _ = stream.write_all(b"GET /git/info/refs HTTP/1.1\r\nx: ").await;
            open.push(stream);
        }
        let mut closed = 0;
        for stream in &mut open {
            let mut byte = [0; 1];
            let read = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut byte));
            closed += usize::from(read.await.is_ok_and(|read| !matches!(read, Ok(1..))));
            if closed >= 300 - MAX_CONNECTIONS {
                break;
            }
        }
        assert!(closed >= 300 - MAX_CONNECTIONS, "{closed}");
        // Connections that send nothing more are closed, and there is room again.
        let deadline = tokio::time::Instant::now() + HEAD_TIMEOUT * 3;
        while !ask_or_none(relay.address).await {
            assert!(tokio::time::Instant::now() < deadline, "the relay stays full");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// True once the relay answers.
    async fn ask_or_none(address: SocketAddr) -> bool {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let Ok(mut stream) = tokio::net::TcpStream::connect(address).await else { return false };
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer.starts_with(b"HTTP/1.1 404")
    }
}
