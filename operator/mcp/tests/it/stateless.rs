//! Servers of version 2026-07-28 alone: no greeting and no sessions, and each request has to say all of it.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use codebutler_mcp::session::{QuestionAnswer, QuestionHandler, ServerQuestion};
use codebutler_mcp::{ContentBody, McpError, ServerLink, ServerSession, SessionSetup, ToolCall};
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::dialer::LocalDialer;
use super::scripted::{Next, greeting, start_raw};
use super::servers::free_port;

const VERSION: &str = "2026-07-28";
const META: &str = "io.modelcontextprotocol";

struct ColorAnswers;

#[async_trait]
impl QuestionHandler for ColorAnswers {
    async fn ask(&self, question: ServerQuestion) -> QuestionAnswer {
        assert!(matches!(question, ServerQuestion::Form { message, .. } if message == "Which?"));
        QuestionAnswer::Accepted(json!({"color": "green"}))
    }
}

fn setup() -> SessionSetup {
    let questions = Some(Arc::new(ColorAnswers) as Arc<dyn QuestionHandler>);
    SessionSetup { client_name: "tests".into(), questions, ..SessionSetup::default() }
}

fn error(message: &Value, code: i64, text: &str) -> Value {
    let error = json!({"code": code, "message": text, "data": {"supported": [VERSION]}});
    json!({"jsonrpc": "2.0", "id": message["id"], "error": error})
}

/// The answer of a strict server to one message.
fn answer(message: &Value) -> Value {
    let params = &message["params"];
    let meta = |name: &str| &params["_meta"][format!("{META}/{name}")];
    if meta("protocolVersion") != VERSION {
        return error(message, -32_022, "Unsupported protocol version");
    }
    if !meta("clientCapabilities").is_object() {
        return error(message, -32_602, "no capabilities of the client");
    }
    let result = match message["method"].as_str().unwrap() {
        "server/discover" => json!({
            "supportedVersions": [VERSION, "2027-01-01"], "instructions": "Paint.",
            "capabilities": {"tools": {"listChanged": true}, "prompts": {}},
            "ttlMs": 0, "cacheScope": "public",
            "_meta": {format!("{META}/serverInfo"): {"name": "painter", "version": "2.0"}},
        }),
        "tools/list" => json!({
            "tools": [{"name": "paint", "inputSchema": {
                "type": "object", "properties": {"what": {"type": "string", "x-mcp-header": "What"}},
            }}],
            "ttlMs": 60000, "cacheScope": "private",
        }),
        "tools/call" => match params["name"].as_str() {
            Some("endless") => json!({"resultType": "input_required", "requestState": "again"}),
            Some("unasked") => json!({"resultType": "input_required"}),
            Some("samples") => json!({
                "resultType": "input_required",
                "inputRequests": {"a": {"method": "sampling/createMessage", "params": {}}},
            }),
            Some("hoards") => json!({
                "resultType": "input_required", "requestState": "s".repeat((1 << 20) + 1),
            }),
            Some("babbles") => json!({
                "resultType": "input_required",
                "inputRequests": {"a": {"method": "m".repeat(100_000), "params": {}}},
            }),
            _ => paint(params),
        },
        _ => return error(message, -32_601, "Method not found"),
    };
    let mut answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    if answer["result"]["resultType"].is_null() {
        answer["result"]["resultType"] = json!("complete");
    }
    answer
}

/// Asks for a color, and paints once it is known.
fn paint(params: &Value) -> Value {
    let color = &params["inputResponses"]["color"];
    if color.is_null() {
        assert!(params["requestState"].is_null());
        let schema = json!({"type": "object", "properties": {"color": {"type": "string"}}});
        let form = json!({"mode": "form", "message": "Which?", "requestedSchema": schema});
        let wanted = json!({"method": "elicitation/create", "params": form});
        return json!({
            "resultType": "input_required", "inputRequests": {"color": wanted}, "requestState": "s1",
        });
    }
    assert_eq!(params["requestState"], "s1");
    let text = format!("{}: {}", params["arguments"]["what"], color["content"]["color"]);
    json!({"content": [{"type": "text", "text": text}]})
}

/// Versions that a server speaks over HTTP.
#[derive(Clone, Copy, PartialEq)]
enum SpokenVersions {
    New,
    Both,
    Old,
}

/// Starts the server over HTTP; it keeps the methods that it was asked for.
async fn start(speaks: SpokenVersions, asked: Arc<Mutex<Vec<String>>>) -> String {
    let app = Router::new().fallback(move |request: Request| {
        let asked = Arc::clone(&asked);
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            asked.lock().push(message["method"].as_str().unwrap_or_default().to_owned());
            respond_to_old(speaks, &message).unwrap_or_else(|| respond(&parts.headers, &message))
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    format!("http://{address}/mcp")
}

fn response(status: u16, body: &Value) -> Response {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Body::from(body.to_string())).unwrap()
}

/// The answer to what belongs to older versions; it begins no session.
fn respond_to_old(speaks: SpokenVersions, message: &Value) -> Option<Response> {
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    match message["method"].as_str()? {
        _ if speaks == SpokenVersions::New => None,
        "initialize" => Some(response(200, &result(greeting("2025-06-18")))),
        "notifications/initialized" => Some(response(202, &json!({}))),
        "tools/list" if speaks == SpokenVersions::Old => {
            Some(response(200, &result(json!({"tools": [{"name": "old"}]}))))
        }
        _ if speaks == SpokenVersions::Old => Some(response(404, &json!({"detail": "Not found"}))),
        _ => None,
    }
}

fn respond(headers: &HeaderMap, message: &Value) -> Response {
    if message.is_null() {
        return response(405, &json!({}));
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_start = message["method"] == "initialize";
    let named = message["params"]["name"].as_str();
    let fits = header("mcp-protocol-version") == Some(VERSION)
        && header("mcp-method") == message["method"].as_str()
        && header("mcp-name") == named
        && header("mcp-param-what") == (named == Some("paint")).then_some("sky")
        && header("mcp-session-id").is_none();
    if !fits && !is_start {
        return response(400, &error(message, -32_020, "Header mismatch"));
    }
    let answer = answer(message);
    let status = match answer["error"]["code"].as_i64() {
        None => 200,
        Some(-32_601) => 404,
        Some(_) => 400,
    };
    response(status, &answer)
}

async fn call(session: &ServerSession, name: &str) -> Result<ContentBody, McpError> {
    let arguments = json!({"what": "sky"}).as_object().cloned().unwrap();
    let call = ToolCall { name: name.into(), arguments, ..ToolCall::default() };
    Ok(session.call_tool(call).await?.items.into_iter().next().unwrap().body)
}

async fn use_server(session: &ServerSession) {
    let facts = session.facts();
    assert_eq!((&*facts.protocol, &*facts.name, &*facts.version), (VERSION, "painter", "2.0"));
    assert_eq!(facts.instructions.as_deref(), Some("Paint."));
    assert!(!session.announces_changes("tools"), "nobody listens");
    assert_eq!(session.list_tools().await.unwrap().items[0].name, "paint");
    let unknown = session.list_prompts().await;
    assert!(matches!(unknown, Err(McpError::Refused { code: -32_601, .. })), "{unknown:?}");
    let painted = call(session, "paint").await;
    assert_eq!(painted, Ok(ContentBody::Text("\"sky\": \"green\"".into())));
    assert!(session.answers_ping(std::time::Duration::from_secs(20)).await);
    let said = call(session, "samples").await.unwrap_err().to_string();
    assert!(said.contains("`sampling/createMessage` is not answered: sampling is not"), "{said}");
    let said = call(session, "babbles").await.unwrap_err().to_string();
    assert!(said.len() < 10_000 && said.contains("mmm"), "{}", said.len());
    let said = call(session, "hoards").await.unwrap_err().to_string();
    assert!(said.contains("its `requestState` has more than 1048576 bytes"), "{said}");
    assert!(call(session, "unasked").await.is_err_and(|error| error.is_answer()));
}

async fn open(speaks: SpokenVersions, asked: &Arc<Mutex<Vec<String>>>) -> ServerSession {
    let url = start(speaks, Arc::clone(asked)).await.parse().unwrap();
    let link = ServerLink::Http { dialer: LocalDialer::new(), url, headers: HeaderMap::new() };
    ServerSession::open(link, setup()).await.unwrap().0
}

/// With the usual settings of the SDK, a server can ask nothing of clients of older versions.
#[tokio::test]
async fn a_remote_server_that_begins_no_session_is_spoken_to_without_where_it_knows_that() {
    let asked = Arc::default();
    let session = open(SpokenVersions::Both, &asked).await;
    use_server(&session).await;
    session.close().await;

    let session = open(SpokenVersions::Old, &asked).await;
    assert_eq!(session.facts().protocol, "2025-06-18");
    assert_eq!(session.list_tools().await.unwrap().items[0].name, "old");
    session.close().await;
}

#[tokio::test]
async fn a_remote_server_without_sessions_is_found_out_and_used() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let session = open(SpokenVersions::New, &asked).await;
    use_server(&session).await;
    session.close().await;
    let asked: Vec<String> = asked.lock().iter().filter(|one| !one.is_empty()).cloned().collect();
    assert_eq!(asked[..3], ["initialize", "server/discover", "tools/list"]);
    assert!(!asked.iter().any(|method| method.starts_with("notifications/")), "{asked:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_has_refused_nothing() {
    let url = format!("http://127.0.0.1:{}/mcp", free_port()).parse().unwrap();
    let link = ServerLink::Http { dialer: LocalDialer::new(), url, headers: HeaderMap::new() };
    let setup = SessionSetup { is_stateless: true, ..setup() };
    let error = ServerSession::open(link, setup).await.err().unwrap();
    assert!(matches!(error, McpError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn a_program_without_sessions_takes_another_link() {
    let link = || {
        start_raw(|message, output| {
            output.line(&answer(message));
            Next::GoOn
        })
    };
    let refused = ServerSession::open(link(), setup()).await.map(drop).unwrap_err();
    assert!(refused.may_be_stateless(), "{refused}");
    let setup = SessionSetup { is_stateless: true, ..setup() };
    let (session, _events) = ServerSession::open(link(), setup).await.unwrap();
    use_server(&session).await;
    session.close().await;
}

#[tokio::test]
async fn a_server_that_asks_without_end_is_given_up() {
    let link = start_raw(|message, output| {
        output.line(&answer(message));
        Next::GoOn
    });
    let setup = SessionSetup { is_stateless: true, ..setup() };
    let (session, _events) = ServerSession::open(link, setup).await.unwrap();
    let said = call(&session, "endless").await.unwrap_err().to_string();
    assert!(said.contains("it has asked 10 times for more"), "{said}");
}

#[tokio::test]
async fn all_questions_of_a_call_share_its_time_limit() {
    let link = start_raw(|message, output| {
        output.line(&answer(message));
        Next::GoOn
    });
    let mut setup = SessionSetup { is_stateless: true, ..setup() };
    setup.limits.call_total = std::time::Duration::from_secs(1);
    let (session, _events) = ServerSession::open(link, setup).await.unwrap();
    let late = call(&session, "endless").await;
    assert!(matches!(late, Err(McpError::Timeout { .. })), "{late:?}");
}

#[tokio::test]
async fn a_server_of_a_later_version_alone_is_named() {
    let link = start_raw(|message, output| {
        let versions = json!({"supportedVersions": ["2027-01-01"], "resultType": "complete"});
        output.result(message, versions);
        Next::GoOn
    });
    let setup = SessionSetup { is_stateless: true, ..setup() };
    let refused = ServerSession::open(link, setup).await.map(drop);
    assert_eq!(refused, Err(McpError::Version("2027-01-01".into())));
}
