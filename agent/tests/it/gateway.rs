//! A gateway of the wire types, with effects that are counted by key, a model that is a function of
//! the conversation, and a real Git server behind it. What it knows is in [`known`].

mod known;
mod seat;
mod servers;
mod tls;
mod web;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::{any, get, post};
use codebutler_wire::history::{HistoryLine, ToldEntry, VERSION};
use codebutler_wire::{
    ApprovalReply, ApprovalRequest, ApprovalState, BuildClaim, BuildTurn, BuildWant, CloseThread,
    ComparisonShown, EndVerdict, ErrorBody, ErrorCode, ErrorDetail, FILE_NAME, HistoryBatch,
    HistoryKept, HistoryLines, LastWords, MessageAuthor, OpenPullRequest, OtherThread, PostMessage,
    PostedMessage, PullRequestState, RoleInbox, RoleSession, RoleState, RunReport, STAND_IN,
    ShowComparison, SlackTs, ThreadClosed, ThreadMessage, VersionedInbox,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) use known::{Inner, Model, check_keys};
pub(crate) use servers::Servers;
use tls::Tls;

pub(crate) const HOST: &str = "codebutler-gateway.codebutler-system.svc";
/// Time for which a gateway that hung up is away.
const OUTAGE: Duration = Duration::from_millis(1500);
pub(crate) const TOKEN: &str = "the-pods-own-token";

#[derive(Clone)]
pub(crate) struct Gateway {
    pub address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    remote: PathBuf,
}

impl Gateway {
    /// Serves on a free port; the CA certificate goes to `ca`.
    pub(crate) async fn start(remote: &Path, ca: &Path, model: Model) -> Self {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).unwrap();
        std::fs::write(ca, made.cert.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gateway = Self {
            address: tcp.local_addr().unwrap(),
            inner: Arc::new(Mutex::new(Inner::new(model))),
            remote: remote.to_owned(),
        };
        let routes = Router::new()
            .route("/v1/session", get(session))
            .route("/v1/inbox", get(inbox))
            .route("/v1/messages", post(message))
            .route("/v1/runs", post(run))
            .route("/v1/last-words", post(last_words))
            .route("/v1/pull-request", post(open_pull_request).get(pull_request))
            .route("/v1/close", post(close))
            .route("/v1/approvals", post(approval))
            .route("/v1/pictures", get(picture))
            .route("/v1/pictures/comparisons", post(comparison))
            .route("/v1/files", get(file))
            .route("/v1/threads", get(threads))
            .route("/v1/builds", post(build))
            .route("/v1/history", get(kept).post(history))
            .route("/v1/history/lines", get(lines))
            .route("/v1/chat/completions", post(chat))
            .route("/v1/git/{*path}", any(git))
            .merge(servers::routes())
            .merge(seat::routes())
            .merge(web::routes())
            .layer(middleware::from_fn_with_state(gateway.clone(), guard))
            .with_state(gateway.clone());
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = Tls { tcp, acceptor, gateway: gateway.clone() };
        tokio::spawn(async move { axum::serve(listener, routes).await });
        gateway
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

fn refuse(status: StatusCode, code: ErrorCode, message: &str) -> Response {
    let error = ErrorDetail {
        code,
        message: message.into(),
        type_: "codebutler_error".into(),
        retry_after: None,
    };
    (status, Json(ErrorBody { error })).into_response()
}

/// The end of a connection in the middle of an answer.
fn hang_up() -> Response {
    let cut = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("cut off"))]);
    Response::new(Body::from_stream(cut))
}

async fn guard(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    if request.headers().get("authorization").is_none_or(|v| v != &format!("Bearer {TOKEN}")) {
        return refuse(StatusCode::UNAUTHORIZED, ErrorCode::Unauthenticated, "no token");
    }
    if gateway.lock().is_away() {
        return hang_up();
    }
    let path = request.uri().path().to_owned();
    let cut = {
        let mut inner = gateway.lock();
        let found = inner.cut.iter().position(|p| path.starts_with(p));
        found.map(|at| inner.cut.remove(at))
    };
    if cut.is_some() {
        let answer = next.run(request).await;
        let _ = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        gateway.lock().away = Some(Instant::now() + OUTAGE);
        return hang_up();
    }
    let refused = {
        let mut inner = gateway.lock();
        let path = request.uri().path();
        let found = inner.refuse.iter().position(|(p, ..)| path.starts_with(p));
        found.map(|at| inner.refuse.remove(at))
    };
    match refused {
        Some((_, status, code, message)) => {
            // As the real one does: a client that is still sending may not hear an early answer.
            let _ = axum::body::to_bytes(request.into_body(), usize::MAX).await;
            let retry_after = gateway.lock().retry_after;
            let (message, type_) = (message.to_owned(), "codebutler_error".to_owned());
            let error = ErrorDetail { code, message, type_, retry_after };
            (status, Json(ErrorBody { error })).into_response()
        }
        None => next.run(request).await,
    }
}

async fn session(State(gateway): State<Gateway>) -> Json<RoleSession> {
    let mut inner = gateway.lock();
    inner.sessions += 1;
    Json(RoleSession { done: inner.done.clone(), ..inner.session.clone() })
}

#[derive(Deserialize)]
struct Wanted {
    after: SlackTs,
    wait: u64,
    seen: Option<String>,
}

async fn inbox(
    State(gateway): State<Gateway>,
    Query(wanted): Query<Wanted>,
) -> Json<VersionedInbox> {
    let deadline = Instant::now() + Duration::from_secs(wanted.wait);
    loop {
        {
            let inner = gateway.lock();
            if inner.wants() || inner.closed || Instant::now() >= deadline {
                let messages: Vec<_> =
                    inner.messages.iter().filter(|m| m.ts > wanted.after).cloned().collect();
                let inbox =
                    RoleInbox { messages, pending: inner.pending.clone(), closed: inner.closed };
                let text = serde_json::to_string(&inbox).unwrap();
                let version = Some(hex::encode(Sha256::digest(text)));
                if inner.closed || version != wanted.seen {
                    return Json(VersionedInbox { inbox, version });
                }
                if Instant::now() >= deadline {
                    return Json(VersionedInbox::default());
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn message(
    State(gateway): State<Gateway>,
    Json(message): Json<PostMessage>,
) -> Json<PostedMessage> {
    let mut inner = gateway.lock();
    let author = MessageAuthor::Role { role: "pm".into() };
    if let Some(at) = inner.posts.iter().position(|post| post.key == message.key) {
        let mut own = inner.messages.iter().filter(|m| m.author == author);
        return Json(PostedMessage { ts: own.nth(at).unwrap().ts.clone(), overlaps: vec![] });
    }
    let ts = inner.next_ts();
    inner.messages.push(ThreadMessage {
        ts: ts.clone(),
        author,
        text: message.text.clone(),
        addressed: false,
        pictures: vec![],
    });
    inner.posts.push(message);
    let overlaps = inner.overlaps.clone();
    Json(PostedMessage { ts, overlaps })
}

#[derive(Deserialize)]
struct Pictured {
    message: SlackTs,
    id: String,
}

#[derive(Deserialize)]
struct WantedFile {
    id: String,
}

async fn file(State(gateway): State<Gateway>, Query(wanted): Query<WantedFile>) -> Response {
    let mut inner = gateway.lock();
    inner.files_got += 1;
    match inner.files.get(&wanted.id) {
        Some((name, content)) => {
            ([(FILE_NAME, name.clone())], Body::from(content.clone())).into_response()
        }
        None => refuse(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, "no such file"),
    }
}

async fn picture(State(gateway): State<Gateway>, Query(wanted): Query<Pictured>) -> Response {
    let mut inner = gateway.lock();
    let offered = |message: &ThreadMessage| {
        message.ts == wanted.message && message.pictures.iter().any(|p| p.id == wanted.id)
    };
    assert!(inner.messages.iter().any(offered));
    inner.pictures_got += 1;
    match inner.pictures.get(&wanted.id) {
        Some(bytes) => {
            let kind = if bytes.starts_with(b"GIF8") { "image/gif" } else { "image/png" };
            ([("content-type", kind)], bytes.clone()).into_response()
        }
        None => refuse(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, "no such picture"),
    }
}

async fn comparison(
    State(gateway): State<Gateway>,
    Json(wanted): Json<ShowComparison>,
) -> Json<ComparisonShown> {
    let mut inner = gateway.lock();
    inner.comparisons.push(wanted);
    Json(ComparisonShown { notes: inner.comparison_notes.clone() })
}

async fn kept(State(gateway): State<Gateway>) -> Json<HistoryKept> {
    let inner = gateway.lock();
    let next = inner.history.iter().filter_map(|(journal, told)| {
        let last = told.last()?;
        Some((journal.clone(), last.seq + 1))
    });
    Json(HistoryKept { next: next.collect(), off: false })
}

async fn history(
    State(gateway): State<Gateway>,
    Json(batch): Json<HistoryBatch>,
) -> Json<HistoryKept> {
    {
        let mut inner = gateway.lock();
        let told = inner.history.entry(batch.journal).or_default();
        let wanted = told.last().map_or(1, |last| last.seq + 1);
        if batch.from <= wanted {
            told.extend(batch.events.into_iter().filter(|told| told.seq >= wanted));
        }
    }
    kept(State(gateway)).await
}

async fn lines(State(gateway): State<Gateway>) -> Json<HistoryLines> {
    let inner = gateway.lock();
    let role = Some(inner.session.role.clone());
    let told =
        inner.history.iter().flat_map(|(journal, told)| told.iter().map(move |t| (journal, t)));
    let lines = told.map(|(journal, told)| {
        let ToldEntry { seq, at, run, event } = told.clone();
        let source = format!("agent/{}/{journal}", inner.session.role);
        HistoryLine {
            v: VERSION,
            at,
            source,
            seq: Some(seq),
            key: None,
            role: role.clone(),
            run,
            event,
        }
    });
    Json(HistoryLines { lines: lines.collect(), behind: None })
}

async fn threads(State(gateway): State<Gateway>) -> Json<Vec<OtherThread>> {
    Json(gateway.lock().others.clone())
}

async fn run(State(gateway): State<Gateway>, Json(report): Json<RunReport>) -> Json<Value> {
    let mut inner = gateway.lock();
    inner.done = inner.done.take().max(report.done.clone());
    if report.state != RoleState::Running {
        inner.pending.retain(|pending| !report.handled.contains(&pending.id));
        if report.state == RoleState::Waiting {
            for (text, addressed) in std::mem::take(&mut inner.later) {
                inner.say(text, addressed);
            }
        }
    }
    inner.reports.push(report);
    Json(json!({}))
}

fn state(title: &str, created: bool) -> Json<PullRequestState> {
    Json(PullRequestState {
        number: 1,
        url: "https://git.example/1".into(),
        state: "open".into(),
        title: title.into(),
        head: "abc".into(),
        mergeable: Some(true),
        created,
        merge_state: None,
        checks: Vec::new(),
        reviews: Vec::new(),
        remarks: Vec::new(),
        kept: Vec::new(),
    })
}

async fn last_words(
    State(gateway): State<Gateway>,
    Json(words): Json<LastWords>,
) -> Json<EndVerdict> {
    let mut inner = gateway.lock();
    inner.last_words.push(words.text);
    Json(EndVerdict { nudge: inner.nudges.pop_front() })
}

async fn open_pull_request(
    State(gateway): State<Gateway>,
    Json(request): Json<OpenPullRequest>,
) -> Json<PullRequestState> {
    let mut inner = gateway.lock();
    let created = inner.pull_requests.is_empty();
    if created {
        inner.pull_requests.push(request.title.clone());
    }
    state(&request.title, created)
}

async fn pull_request(State(gateway): State<Gateway>) -> Response {
    match gateway.lock().pull_requests.first() {
        Some(title) => state(title, false).into_response(),
        None => refuse(
            StatusCode::BAD_REQUEST,
            ErrorCode::InvalidRequest,
            "there is no pull request yet",
        ),
    }
}

/// Answers approvals as the gateway does: one answer for each key and hash, nothing until there is one.
async fn approval(
    State(gateway): State<Gateway>,
    Json(request): Json<ApprovalRequest>,
) -> Json<ApprovalReply> {
    let mut inner = gateway.lock();
    let id = request.key.clone();
    let state = inner.approvals.get(&id).copied().unwrap_or(ApprovalState::Pending);
    inner.asked_for.push(request);
    Json(ApprovalReply { id, state, by: None, standing: false })
}

async fn build(
    State(gateway): State<Gateway>,
    Query(patience): Query<HashMap<String, u64>>,
    Json(claim): Json<BuildClaim>,
) -> Json<BuildTurn> {
    gateway.lock().builds.push(claim.want);
    let deadline = Instant::now() + Duration::from_secs(patience["wait"]);
    loop {
        let used = gateway.lock().building;
        let granted = used < 2 && claim.want != BuildWant::Release;
        if granted || claim.want != BuildWant::Slot || Instant::now() >= deadline {
            return Json(BuildTurn { granted, used, limit: 2 });
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn close(
    State(gateway): State<Gateway>,
    Json(close): Json<CloseThread>,
) -> Json<ThreadClosed> {
    let mut inner = gateway.lock();
    inner.closed = true;
    inner.closings.push(close.summary);
    Json(ThreadClosed { merge_commit: Some("f00".into()), waiting: None })
}

async fn chat(State(gateway): State<Gateway>, Json(body): Json<Value>) -> Response {
    let mut inner = gateway.lock();
    let messages = body["messages"].as_array().unwrap().clone();
    let model = body["model"].as_str().unwrap();
    assert!(
        model == "scripted/pm" || inner.session.models.iter().any(|known| known == model),
        "{model}"
    );
    if let Some((code, message)) = inner.refuse_part(model, &messages) {
        return refuse(StatusCode::BAD_REQUEST, code, message);
    }
    inner.requests.push(body);
    inner.asked.push(messages.clone());
    let calls = inner.asked.len();
    if let Some((_, text)) = inner.meanwhile.take_if(|(at, _)| *at == calls) {
        inner.say(text, true);
    }
    match (inner.model)(&messages) {
        Value::String(raw) => raw.into_response(),
        mut body => {
            let instead = body.as_object_mut().and_then(|body| body.remove("stand_in"));
            let named =
                instead.iter().filter_map(Value::as_str).map(|model| (STAND_IN, model.to_owned()));
            (AppendHeaders(named.collect::<Vec<_>>()), Json(body)).into_response()
        }
    }
}

/// `git http-backend` as a CGI program.
async fn git(State(gateway): State<Gateway>, headers: HeaderMap, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let path = head.uri.path().strip_prefix("/v1/git").unwrap();
    let header = |name: &str| headers.get(name).map_or("", |v| v.to_str().unwrap()).to_owned();
    let mut child = tokio::process::Command::new("git")
        .args(["-c", "http.receivepack=true", "http-backend"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("GIT_PROJECT_ROOT", &gateway.remote)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", head.uri.query().unwrap_or(""))
        .env("REQUEST_METHOD", head.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = tokio::spawn(async move {
        let _ = stdin.write_all(&body).await;
    });
    let out = child.wait_with_output().await.unwrap().stdout;
    feed.await.unwrap();
    let end = out.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let mut response = Response::new(Body::from(Bytes::copy_from_slice(&out[end + 4..])));
    for line in String::from_utf8_lossy(&out[..end]).lines() {
        let (name, value) = line.split_once(": ").unwrap();
        if name == "Status" {
            *response.status_mut() = value[..3].parse().unwrap();
        } else {
            let name: HeaderName = name.parse().unwrap();
            response.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    response
}
