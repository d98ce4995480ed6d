//! Handles requests to a server: sessions, notifications, lists and calls.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::answer::{self, json_response, respond, rpc_error, rpc_result};
use super::refusing::{has_path, has_token, refuse_call, refuse_token, take_failure};
use super::{CHANGES, PlayedServer, ReceivedCall, ToolAnswer, asking, content};

/// Versions of the protocol that the server supports.
const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
/// Path of the metadata of a server with an authority.
const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
/// Tools on a page of its list.
const PAGE: usize = 500;

pub(super) async fn handle_request(
    State(state): State<Arc<PlayedServer>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some((authority, own)) = &state.authority {
        let own = own.get().map_or("", String::as_str);
        if uri.path() == RESOURCE && method == Method::GET {
            return json_response(StatusCode::OK, &authority.describe_resource(own));
        }
        let token = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let is_refused = state.refuses_calls.load(Ordering::SeqCst)
            && serde_json::from_slice::<Value>(&body)
                .is_ok_and(|message| message["method"] == "tools/call");
        if is_refused || !token.is_some_and(|token| authority.accepts(token, own)) {
            let metadata = own.replace("/mcp", RESOURCE);
            let error = if token.is_some() { "error=\"invalid_token\", " } else { "" };
            return refuse_token(&format!("Bearer {error}resource_metadata=\"{metadata}\""));
        }
    }
    let is_call = serde_json::from_slice::<Value>(&body)
        .is_ok_and(|message| message["method"] == "tools/call");
    if let Some(refused) = refuse_call(&state, header("authorization")).filter(|_| is_call) {
        return refused;
    }
    if !has_path(&state, &uri) {
        return respond(StatusCode::NOT_FOUND, "text/plain", "nothing is here");
    }
    if !has_token(&state, header("authorization"), &uri) {
        return refuse_token("Bearer error=\"invalid_token\"");
    }
    let accepted = header("accept").unwrap_or_default();
    match method {
        Method::POST => {
            if !(accepted.contains("application/json") && accepted.contains("text/event-stream")) {
                return respond(StatusCode::NOT_ACCEPTABLE, "text/plain", "accept both types");
            }
            if header("content-type").is_none_or(|kind| !kind.starts_with("application/json")) {
                return respond(StatusCode::UNSUPPORTED_MEDIA_TYPE, "text/plain", "JSON only");
            }
            if let Some(words) = take_failure(&state) {
                return respond(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", words);
            }
            content::await_release(&state, &body).await;
            receive_message(&state, &headers, &body)
        }
        Method::GET => match check_session(&state, &headers) {
            Ok(_) if accepted.contains("text/event-stream") => stream_changes(&state),
            Ok(_) => respond(StatusCode::NOT_ACCEPTABLE, "text/plain", "accept events"),
            Err(refused) => *refused,
        },
        Method::DELETE => match check_session(&state, &headers) {
            Ok(session) => {
                state.sessions.lock().remove(&session);
                respond(StatusCode::OK, "text/plain", "")
            }
            Err(refused) => *refused,
        },
        _ => respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", ""),
    }
}

/// The session of a request, which also has to name the version that was agreed on.
fn check_session(state: &PlayedServer, headers: &HeaderMap) -> Result<String, Box<Response>> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let refuse = |status, text| Err(Box::new(respond(status, "text/plain", text)));
    let Some(session) = header("mcp-session-id") else {
        return refuse(StatusCode::BAD_REQUEST, "no session");
    };
    let sessions = state.sessions.lock();
    let Some((version, _)) = sessions.get(session) else {
        return refuse(StatusCode::NOT_FOUND, "no such session");
    };
    if header("mcp-protocol-version") != Some(version) {
        return refuse(StatusCode::BAD_REQUEST, "another version was agreed on");
    }
    Ok(session.to_owned())
}

fn receive_message(state: &Arc<PlayedServer>, headers: &HeaderMap, body: &Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(body) else {
        return json_response(
            StatusCode::BAD_REQUEST,
            &rpc_error(&Value::Null, -32_700, "no JSON"),
        );
    };
    let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
    if message["jsonrpc"] != "2.0" || !message.is_object() {
        let error = rpc_error(id, -32_600, "no message of JSON-RPC 2.0");
        return json_response(StatusCode::BAD_REQUEST, &error);
    }
    if method == "initialize" {
        return greet_client(state, &message);
    }
    let session = match check_session(state, headers) {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    if id.is_null() || method.is_empty() {
        if method.is_empty() {
            asking::take_answer(state, &message);
        }
        take_notification(state, &session, &message);
        return respond(StatusCode::ACCEPTED, "text/plain", "");
    }
    let is_greeted = state.sessions.lock().get(&session).is_some_and(|(_, greeted)| *greeted);
    if !is_greeted {
        let error = rpc_error(id, -32_600, "`notifications/initialized` did not come");
        return json_response(StatusCode::OK, &error);
    }
    match method {
        "tools/call" => call_tool(state, &message),
        "resources/read" => content::read_resource(state, &message),
        method => json_response(StatusCode::OK, &answer_request(state, method, &message)),
    }
}

fn greet_client(state: &PlayedServer, message: &Value) -> Response {
    let wanted = message["params"]["protocolVersion"].as_str().unwrap_or_default();
    if message["params"]["clientInfo"]["name"].as_str().is_none_or(str::is_empty) {
        let error = rpc_error(&message["id"], -32_602, "`clientInfo` has no name");
        return json_response(StatusCode::OK, &error);
    }
    state.declared.lock().clone_from(&message["params"]["capabilities"]);
    let version = if VERSIONS.contains(&wanted) { wanted } else { VERSIONS[2] };
    let session = format!("{:032x}", rand::random::<u128>());
    state.sessions.lock().insert(session.clone(), (version.to_owned(), false));
    let has = |list: bool| if list { json!({}) } else { Value::Null };
    let mut capabilities = json!({"tools": {"listChanged": true}});
    for (name, value) in [
        ("resources", has(!state.resources.lock().is_empty())),
        ("prompts", has(!state.prompts.lock().is_empty())),
    ] {
        if !value.is_null() {
            capabilities[name] = value;
        }
    }
    let result = json!({
        "protocolVersion": version, "capabilities": capabilities,
        "instructions": state.instructions.lock().clone(),
        "serverInfo": {
            "name": "testbed", "version": "1.2.3", "description": state.about.lock().clone(),
        },
    });
    let mut response = json_response(StatusCode::OK, &rpc_result(&message["id"], &result));
    if let Ok(value) = http::HeaderValue::try_from(session) {
        response.headers_mut().insert("mcp-session-id", value);
    }
    response
}

fn take_notification(state: &PlayedServer, session: &str, message: &Value) {
    match message["method"].as_str() {
        Some("notifications/initialized") => {
            if let Some((_, greeted)) = state.sessions.lock().get_mut(session) {
                *greeted = true;
            }
        }
        Some("notifications/cancelled") => {
            state.cancelled.lock().insert(message["params"]["requestId"].to_string());
        }
        _ => {}
    }
}

fn answer_request(state: &PlayedServer, method: &str, message: &Value) -> Value {
    let (id, params) = (&message["id"], &message["params"]);
    match method {
        "ping" => rpc_result(id, &json!({})),
        "tools/list" => {
            let begin = params["cursor"].as_str().and_then(|at| at.parse().ok()).unwrap_or(0);
            if begin == 0 {
                *state.lists.lock() += 1;
            }
            let tools = state.tools.lock();
            let page: Vec<_> =
                tools.values().skip(begin).take(PAGE).map(|(tool, _)| tool.clone()).collect();
            let mut result = json!({"tools": page});
            if tools.len() > begin + PAGE {
                result["nextCursor"] = json!((begin + PAGE).to_string());
            }
            rpc_result(id, &result)
        }
        _ => content::answer_request(state, method, message),
    }
}

fn call_tool(state: &Arc<PlayedServer>, message: &Value) -> Response {
    let (id, params) = (&message["id"], &message["params"]);
    let tool = params["name"].as_str().unwrap_or_default().to_owned();
    let arguments = params["arguments"].clone();
    let known = state.tools.lock().get(&tool).cloned();
    let Some((definition, answer)) = known else {
        let error = rpc_error(id, -32_602, &format!("Tool {tool} not found"));
        return json_response(StatusCode::OK, &error);
    };
    let required = definition["inputSchema"]["required"].as_array().cloned().unwrap_or_default();
    let missing =
        required.iter().filter_map(Value::as_str).find(|name| arguments.get(*name).is_none());
    if let Some(missing) = missing {
        let error = rpc_error(id, -32_602, &format!("the argument `{missing}` is missing"));
        return json_response(StatusCode::OK, &error);
    }
    state.calls.lock().push(ReceivedCall { tool, arguments });
    let result = match answer {
        ToolAnswer::Result(result) => result,
        ToolAnswer::Text(text) => json!({"content": [{"type": "text", "text": text}]}),
        ToolAnswer::Asks(question) => return asking::ask_person(state, message, question),
        ToolAnswer::AsksAll(questions) => return asking::ask_often(state, message, questions),
        ToolAnswer::Refuses(error) => {
            let refused = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return json_response(StatusCode::OK, &refused);
        }
        ToolAnswer::Samples(requests) => return asking::ask_model(state, message, requests),
        ToolAnswer::Never => return answer::stream_body(Body::from_stream(answer::open_silence())),
        ToolAnswer::HangUp => {
            let cut = futures::stream::iter([
                Ok(Bytes::from_static(b": begins\n\n")),
                Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
            ]);
            return answer::stream_body(Body::from_stream(cut));
        }
    };
    json_response(StatusCode::OK, &rpc_result(id, &result))
}

/// The stream on which a server says what it does by itself.
fn stream_changes(state: &PlayedServer) -> Response {
    let mut changes = state.changes.subscribe();
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(CHANGES);
    tokio::spawn(async move {
        let opened = sender.send(Ok(Bytes::from_static(b": open\n\n"))).await;
        if opened.is_err() {
            return;
        }
        while let Ok(method) = changes.recv().await {
            let message = json!({"jsonrpc": "2.0", "method": method});
            let event = format!("event: message\ndata: {message}\n\n");
            if sender.send(Ok(Bytes::from(event))).await.is_err() {
                return;
            }
        }
    });
    let stream = futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|event| (event, receiver))
    });
    answer::stream_body(Body::from_stream(stream))
}
