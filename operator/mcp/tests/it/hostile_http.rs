//! Bad behaviour of remote servers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use codebutler_mcp::session::{QuestionAnswer, QuestionHandler, ServerQuestion};
use codebutler_mcp::{
    ContentBody, EventStream, McpError, ServerLink, ServerSession, SessionEvent, SessionSetup,
    ToolCall,
};
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::dialer::LocalDialer;
use super::scripted::greeting;

/// A request as a script sees it.
struct Asked {
    method: Method,
    path: String,
    headers: HeaderMap,
    message: Value,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn answer(&self, result: Value) -> Response {
        json_answer(200, &json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}))
    }
}

fn respond(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

fn json_answer(status: u16, body: &Value) -> Response {
    respond(status, &[("content-type", "application/json")], body.to_string())
}

fn stream_answer(chunks: Vec<String>) -> Response {
    let chunks = chunks.into_iter().map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
    respond(
        200,
        &[("content-type", "text/event-stream")],
        Body::from_stream(futures::stream::iter(chunks)),
    )
}

/// Starts a server on which `script` answers each POST after the greeting, and says where it is.
async fn start(script: impl Fn(&Asked) -> Option<Response> + Send + Sync + 'static) -> String {
    let script = Arc::new(script);
    let app = Router::new().fallback(move |request: Request| {
        let script = Arc::clone(&script);
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let message = serde_json::from_slice(&body).unwrap_or_default();
            let asked = Asked {
                method: parts.method,
                path: parts.uri.path().into(),
                headers: parts.headers,
                message,
            };
            if let Some(response) = script(&asked) {
                return response;
            }
            match (asked.method.as_str(), asked.message["method"].as_str()) {
                ("POST", Some("initialize")) => asked.answer(greeting("2025-06-18")),
                ("POST", _) => respond(202, &[], ""),
                _ => respond(405, &[], ""),
            }
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    format!("http://{address}")
}

fn quick() -> SessionSetup {
    let mut setup = SessionSetup { client_name: "tests".into(), ..SessionSetup::default() };
    setup.limits.start = Duration::from_secs(5);
    setup.limits.call_idle = Duration::from_secs(20);
    setup
}

async fn open(url: &str) -> (Arc<LocalDialer>, Result<(ServerSession, EventStream), McpError>) {
    let dialer = LocalDialer::new();
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer secret"));
    let link = ServerLink::Http { dialer: dialer.clone(), url: url.parse().unwrap(), headers };
    (dialer, ServerSession::open(link, quick()).await)
}

async fn call(session: &ServerSession, name: &str) -> Result<ContentBody, McpError> {
    let result = session.call_tool(ToolCall { name: name.into(), ..ToolCall::default() }).await?;
    Ok(result.items.into_iter().next().unwrap().body)
}

#[tokio::test]
async fn a_lost_session_is_begun_anew_and_that_is_said() {
    let error = |message: &str| {
        let error = json!({"code": -32000, "message": message});
        json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string()
    };
    // The protocol wants 404. Others send 400: the official server, and those of Go with plain words; Rust's SDK 401.
    for (status, body) in [
        (404_u16, error("Session terminated")),
        (400, error("Bad Request: No valid session ID provided")),
        (400, error("Unknown session id: initialize again")),
        (400, "Invalid session ID\n".to_owned()),
        (401, "Unauthorized: Session not found".to_owned()),
        (400, json!({"error": "unknown Mcp-Session-Id"}).to_string()),
    ] {
        let said = body.clone();
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let url = start(move |asked| {
            let current = count.load(Ordering::SeqCst).to_string();
            if asked.message["method"] == "initialize" {
                let current = (count.fetch_add(1, Ordering::SeqCst) + 1).to_string();
                let body = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": greeting("2025-06-18")});
                return Some(respond(200, &[("content-type", "application/json"), ("mcp-session-id", &current)], body.to_string()));
            }
            let is_call = asked.message["method"] == "tools/call";
            let is_first = current == "1" && is_call;
            if is_first || (is_call && asked.header("mcp-session-id") != Some(&*current)) {
                return Some(respond(status, &[], body.clone()));
            }
            is_call.then(|| asked.answer(json!({"content": "fresh"})))
        })
        .await;
        let (_, opened) = open(&url).await;
        let (session, mut events) = opened.unwrap();
        assert_eq!(call(&session, "x").await, Ok(ContentBody::Text("fresh".into())), "{said}");
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        assert_eq!(events.take(), Some(SessionEvent::Restarted));
        assert_eq!(events.take(), Some(SessionEvent::ToolsChanged));
    }
}

#[tokio::test]
async fn a_stream_that_ends_before_the_answer_fails_its_call_at_once() {
    let url = start(|asked| {
        let id = &asked.message["id"];
        match asked.message["params"]["name"].as_str()? {
            "ends" => Some(stream_answer(vec![": hello\n\n".into(), "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"x\"}}\n\n".into()])),
            "strange" => Some(stream_answer(vec![
                "nonsense without a colon\nunknown: field\n\n".into(),
                "event: ping\ndata: {}\n\n".into(),
                "data: no json\n\n".into(),
                format!("data: {{\"jsonrpc\":\"2.0\",\r\ndata: \"id\":{id},\"result\":{{\"content\":\"read\"}}}}\r\n\r\n"),
            ])),
            // The SDK tries to go on after the last event, which this server does not offer.
            "resumes" => Some(stream_answer(vec!["id: 1\nretry: 10\ndata:\n\n".into()])),
            "cut" => {
                let chunks = [Ok(Bytes::from("{\"jsonrpc\":")), Err(std::io::Error::other("cut"))];
                // The headers are on their way before the body ends.
                let chunks = futures::stream::iter(chunks).then(|chunk| async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    chunk
                });
                let kind = [("content-type", "application/json")];
                Some(respond(200, &kind, Body::from_stream(chunks)))
            }
            "empty" => Some(respond(200, &[("content-type", "application/json")], "")),
            "html" => Some(respond(200, &[("content-type", "text/html")], "<html>login</html>")),
            _ => None,
        }
    })
    .await;
    let (_, opened) = open(&url).await;
    let (session, _events) = opened.unwrap();
    let begun = Instant::now();
    for name in ["ends", "resumes", "cut"] {
        let lost = call(&session, name).await;
        assert!(matches!(lost, Err(McpError::Closed { .. })), "{name}: {lost:?}");
    }
    assert_eq!(call(&session, "strange").await, Ok(ContentBody::Text("read".into())));
    for name in ["empty", "html"] {
        let error = call(&session, name).await.unwrap_err();
        assert!(matches!(error, McpError::Unreadable { .. }), "{name}: {error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

struct NoAnswers;

#[async_trait]
impl QuestionHandler for NoAnswers {
    async fn ask(&self, _: ServerQuestion) -> QuestionAnswer {
        QuestionAnswer::Declined
    }
}

/// A regression: Java's SDK before 0.18 refuses a greeting with a field that it does not know.
#[tokio::test]
async fn a_server_that_refuses_what_is_declared_is_told_less() {
    let class = "class io.modelcontextprotocol.spec.McpSchema$ClientCapabilities";
    let forms = json!({"form": {}, "url": {}});
    let all = [json!({"elicitation": forms}), json!({"elicitation": {}}), json!({})];
    // The oldest knows no elicitation, and says so with a status alone.
    for (taken, status) in [(0, 200), (1, 200), (1, 400), (2, 400)] {
        let declared = Arc::new(Mutex::new(Vec::new()));
        let (seen, expected) = (Arc::clone(&declared), all[taken].clone());
        let url = start(move |asked| {
            if asked.message["method"] != "initialize" {
                return None;
            }
            let capabilities = asked.message["params"]["capabilities"].clone();
            seen.lock().push(capabilities.clone());
            let message = format!("Unrecognized field \"form\" ({class}$Elicitation)");
            let error = json!({"code": -32_603, "message": message});
            let refused = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
            (capabilities != expected).then(|| json_answer(status, &refused))
        })
        .await;
        let mut setup = quick();
        setup.questions = Some(Arc::new(NoAnswers));
        let (dialer, url) = (LocalDialer::new(), url.parse().unwrap());
        let link = ServerLink::Http { dialer, url, headers: HeaderMap::new() };
        let opened = ServerSession::open(link, setup).await.map(drop);
        assert_eq!(opened, Ok(()), "{taken} {status}");
        assert_eq!(*declared.lock(), all[..=taken], "{status}");
    }
    let other = McpError::Refused { code: -32_603, message: "no database".into() };
    assert!(!other.refuses_capabilities());
    let plain = McpError::Status {
        status: 400,
        retry_after: None,
        text: Some("Invalid message format".into()),
    };
    assert!(plain.refuses_capabilities());
}

/// A regression: the stream on which it came was taken for one that tells of changes, too.
#[tokio::test]
async fn an_answer_is_fetched_where_its_stream_was_left() {
    let waiting = Mutex::new(Value::Null);
    let url = start(move |asked| {
        if asked.method == Method::GET {
            assert_eq!(asked.header("last-event-id"), Some("7"));
            let id = waiting.lock().clone();
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": "late"}});
            return Some(stream_answer(vec![format!("id: 8\ndata: {answer}\n\n")]));
        }
        (asked.message["method"] == "tools/call").then(|| {
            *waiting.lock() = asked.message["id"].clone();
            stream_answer(vec!["id: 7\nretry: 10\ndata:\n\n".into()])
        })
    })
    .await;
    let (_, opened) = open(&url).await;
    let (session, _events) = opened.unwrap();
    assert_eq!(call(&session, "slow").await, Ok(ContentBody::Text("late".into())));
    assert!(!session.announces_changes("tools"));
}

/// A regression: a proxy's answer while a server was replaced ended the stream on which it says what changes.
#[tokio::test]
async fn a_stream_of_changes_is_opened_again_after_an_outage() {
    let asked_for = AtomicUsize::new(0);
    let url = start(move |asked| {
        if asked.message["method"] == "initialize" {
            let result = greeting("2025-06-18");
            let answer =
                json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": result}).to_string();
            let headers = [("content-type", "application/json"), ("mcp-session-id", "s1")];
            return Some(respond(200, &headers, answer));
        }
        if asked.method != Method::GET {
            return None;
        }
        let events = |text: &str| stream_answer(vec![format!("retry: 10\n\n{text}")]);
        Some(match asked_for.fetch_add(1, Ordering::SeqCst) {
            0 => events(""),
            1 => respond(502, &[], "bad gateway"),
            _ => events(
                "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
            ),
        })
    })
    .await;
    let (_, opened) = open(&url).await;
    let (_session, mut events) = opened.unwrap();
    let changed = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
    assert_eq!(changed.unwrap(), Some(SessionEvent::ToolsChanged));
}

#[tokio::test]
async fn a_refusal_is_given_with_its_status_and_what_to_do() {
    let url = start(|asked| {
        Some(match asked.message["params"]["name"].as_str()? {
            "limited" => respond(429, &[("retry-after", "30")], "slow down"),
            "broken" => respond(503, &[], "<h1>down</h1>"),
            "signin" => respond(401, &[("www-authenticate", "Negotiate"), ("www-authenticate", "Bearer scope=\"a\"")], ""),
            "scope" => respond(403, &[("www-authenticate", "Bearer error=\"insufficient_scope\", scope=\"files:write <!channel> files:read\"")], ""),
            "unnamed" => respond(403, &[("www-authenticate", "Bearer error=\"insufficient_scope\"")], ""),
            _ => json_answer(400, &json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32602, "message": "no such tool"}})),
        })
    })
    .await;
    let (_, opened) = open(&url).await;
    let (session, _events) = opened.unwrap();
    let status = |status, retry_after: Option<&str>, text: &str| McpError::Status {
        status,
        retry_after: retry_after.map(str::to_owned),
        text: Some(text.into()),
    };
    assert_eq!(call(&session, "limited").await, Err(status(429, Some("30"), "slow down")));
    assert!(call(&session, "limited").await.is_err_and(|error| error.is_limit()));
    assert_eq!(call(&session, "broken").await, Err(status(503, None, "<h1>down</h1>")));
    assert_eq!(
        call(&session, "signin").await,
        Err(McpError::SignIn { challenge: "Bearer scope=\"a\"".into() })
    );
    let missing = call(&session, "scope").await.unwrap_err();
    assert!(
        matches!(&missing, McpError::Scope { scope, .. } if scope == "files:write files:read"),
        "{missing:?}"
    );
    assert!(matches!(call(&session, "unnamed").await, Err(McpError::SignIn { .. })));
    assert!(!session.announces_changes("tools"), "there is no stream on which it could");
    assert_eq!(
        call(&session, "other").await,
        Err(McpError::Refused { code: -32602, message: "no such tool".into() })
    );
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    for (status, expected) in [
        (401, McpError::SignIn { challenge: String::new() }),
        (500, McpError::Status { status: 500, retry_after: None, text: Some("no".into()) }),
        // Both forms of HTTP were tried.
        (404, McpError::Status { status: 404, retry_after: None, text: Some("no".into()) }),
    ] {
        let url = start(move |_| Some(respond(status, &[], "no"))).await;
        let (_, opened) = open(&url).await;
        assert_eq!(opened.map(drop), Err(expected));
    }
    let (_, opened) = open("http://127.0.0.1:9/mcp").await;
    assert!(matches!(opened, Err(McpError::Unreachable(_))), "{opened:?}");
    let (_, opened) = open("http://example.com/mcp").await;
    assert_eq!(
        opened.map(drop),
        Err(McpError::Unreachable("only this machine may be reached".into()))
    );
}

#[tokio::test]
async fn redirects_stay_at_the_servers_own_origin() {
    let url =
        start(|asked| (asked.path == "/mcp").then(|| respond(307, &[("location", "/mcp/")], "")))
            .await;
    let (dialer, opened) = open(&format!("{url}/mcp")).await;
    assert!(opened.is_ok(), "{opened:?}");
    assert_eq!(dialer.sent.lock().unwrap()[1], format!("POST {url}/mcp/"));

    let stolen = start(|_| panic!("credentials were sent to another origin")).await;
    let target = format!("{stolen}/mcp");
    let url = start(move |_| Some(respond(307, &[("location", &target)], ""))).await;
    let (dialer, opened) = open(&url).await;
    assert!(matches!(opened, Err(McpError::Unreadable { .. })), "{opened:?}");
    assert!(dialer.sent.lock().unwrap().iter().all(|sent| !sent.contains(&stolen)));

    // Clients ask there with another method, or at another origin, so nobody follows these.
    for status in [301, 302, 303, 307, 308] {
        let url = start(move |_| {
            Some(respond(status, &[("location", "https://m.example/mcp/?key=7")], ""))
        });
        let (_, opened) = open(&url.await).await;
        let said = opened.map(drop).unwrap_err().to_string();
        let target = format!("redirects to `https://m.example/mcp/` ({status})");
        assert!(said.contains(&target) && !said.contains("key"), "{said}");
    }
}

/// A regression: the protocol wants the older form tried after a 400, whatever form the refusal has.
#[tokio::test]
async fn the_older_form_is_tried_after_a_400_with_an_error_of_the_protocol() {
    let refuse = || {
        let error = json!({"code": -32000, "message": "No valid session ID provided"});
        Some(json_answer(400, &json!({"jsonrpc": "2.0", "id": null, "error": error})))
    };
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
    let receiver = Mutex::new(Some(receiver));
    let older = start(move |asked| match (asked.method.as_str(), &*asked.path) {
        ("GET", _) => {
            let receiver = receiver.lock().take()?;
            sender.send("event: endpoint\ndata: /messages\n\n".to_owned()).unwrap();
            let events = futures::stream::unfold(receiver, |mut receiver| async move {
                let event = receiver.recv().await?;
                Some((Ok::<_, Infallible>(Bytes::from(event)), receiver))
            });
            let events = Body::from_stream(events);
            Some(respond(200, &[("content-type", "text/event-stream")], events))
        }
        ("POST", "/messages") => {
            let result = match asked.message["method"].as_str() {
                Some("initialize") => greeting("2024-11-05"),
                Some("tools/list") => json!({"tools": [{"name": "a"}]}),
                _ => return Some(respond(202, &[], "")),
            };
            let answer = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": result});
            sender.send(format!("data: {answer}\n\n")).unwrap();
            Some(respond(202, &[], ""))
        }
        _ => refuse(),
    });
    let (_, opened) = open(&older.await).await;
    let (session, _events) = opened.unwrap();
    assert_eq!(session.list_tools().await.unwrap().items.len(), 1);
    assert!(session.announces_changes("tools"));

    // One of the newer form is refused in its own words, though its stream stays open.
    let newer = start(move |asked| match asked.method.as_str() {
        "GET" => {
            let events = futures::stream::pending::<Result<Bytes, Infallible>>();
            let events = Body::from_stream(events);
            Some(respond(200, &[("content-type", "text/event-stream")], events))
        }
        _ => refuse(),
    });
    let url = newer.await.parse().unwrap();
    let link = ServerLink::Http { dialer: LocalDialer::new(), url, headers: HeaderMap::new() };
    let mut setup = quick();
    setup.limits.start = Duration::from_secs(1);
    let refused = ServerSession::open(link, setup).await.map(drop);
    assert!(matches!(refused, Err(McpError::Refused { code: -32000, .. })), "{refused:?}");
}

#[tokio::test]
async fn the_older_form_may_not_name_another_origin_for_its_messages() {
    let url = start(|asked| {
        let is_stream = asked.method == Method::GET;
        is_stream
            .then(|| {
                stream_answer(vec!["event: endpoint\ndata: http://127.0.0.1:9/steal\n\n".into()])
            })
            .or_else(|| Some(respond(405, &[], "")))
    })
    .await;
    let (dialer, opened) = open(&url).await;
    assert_eq!(
        opened.map(drop),
        Err(McpError::Status { status: 405, retry_after: None, text: None })
    );
    assert!(dialer.sent.lock().unwrap().iter().all(|sent| !sent.contains("steal")));
}

#[tokio::test]
async fn a_body_that_never_ends_is_cut() {
    let url = start(|asked| {
        (asked.message["method"] == "tools/call").then(|| {
            let endless = futures::stream::repeat_with(|| {
                Ok::<_, Infallible>(Bytes::from(vec![b'x'; 1 << 16]))
            });
            respond(200, &[("content-type", "application/json")], Body::from_stream(endless))
        })
    })
    .await;
    let (_, opened) = open(&url).await;
    let (session, _events) = opened.unwrap();
    let error = call(&session, "json").await.unwrap_err();
    assert!(error.to_string().contains("is larger than"), "{error}");
}
