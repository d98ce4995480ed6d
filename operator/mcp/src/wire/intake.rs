//! The one reader of all messages of servers. The SDK reads each message into types of its own: an answer that does
//! not fit them is lost as a whole, and fields that it does not know are dropped. So answers are passed on in an
//! envelope that fits none of its types, and notifications, which it would handle in any order, are taken out here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use http::HeaderMap;
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ServerJsonRpcMessage, ServerResult,
};
use serde_json::{Map, Value, json};

use super::params::ParamHeaders;
use super::repair::{answer_unreadable, parse_leniently};
use crate::events::{EventSink, ProgressBook, ProgressStep, SessionEvent, cut_chars, cut_text};
use crate::weight::weigh;

/// Field of the envelope that holds an answer as it came.
pub(crate) const RESULT_KEY: &str = "codebutler/result";
/// Prefix of methods that the SDK may not read into its types.
pub(crate) const RAW_METHOD: &str = "codebutler/";
/// Versions of the protocol that begin with `initialize`, the oldest first.
pub(crate) const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Version without sessions: each request has its version, and `server/discover` takes the place of `initialize`.
pub(crate) const STATELESS: &str = "2026-07-28";
/// Field of a result's `_meta` in which servers of that version describe themselves.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Characters of instructions: more than anybody is shown, so that they are masked before they are cut for that.
const INSTRUCTIONS: usize = 8000;
/// Bytes of an id or a token that a server makes up: these are kept until they are answered.
const ID_BYTES: usize = 1000;
/// Capabilities of servers that count here, and bytes of what one says of itself.
const CAPABILITIES: [&str; 5] = ["tools", "resources", "prompts", "logging", "completions"];
const CAPABILITY_BYTES: usize = 4 << 10;
/// Code of an error that names pages which a person has to open first.
const PAGE_NEEDED: i32 = -32_042;
/// Pages of such an error that are kept, and bytes of one.
const PAGES: usize = 8;
const PAGE_BYTES: usize = 8 << 10;

/// Contents of the answer to `initialize` or `server/discover`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerGreeting {
    pub protocol: String,
    pub name: String,
    pub version: String,
    /// Purpose of the server, which newer ones give.
    pub about: String,
    pub instructions: Option<String>,
    pub capabilities: Map<String, Value>,
}

#[derive(Default)]
struct IntakeState {
    /// Text of the id of `initialize`.
    initialize: Option<String>,
    /// Text of the id of `server/discover`.
    discover: Option<String>,
    greeting: Option<ServerGreeting>,
    strange_version: Option<String>,
    /// Requests of the server without an answer so far: their ids, by these as text.
    open: HashMap<String, Value>,
    refused: u64,
    params: ParamHeaders,
}

pub(crate) struct Intake {
    pub events: EventSink,
    pub progress: ProgressBook,
    /// Questions that wait for people: the calls that they belong to are not late meanwhile.
    pub questions: AtomicUsize,
    /// True once there is a way on which the server can speak without being asked.
    pub is_heard: AtomicBool,
    /// True once a remote server has begun a session.
    pub has_session: AtomicBool,
    server_requests: usize,
    state: Mutex<IntakeState>,
}

impl Intake {
    pub(crate) fn new(events: EventSink, server_requests: usize) -> Self {
        let (progress, questions) = (ProgressBook::default(), AtomicUsize::new(0));
        let (is_heard, has_session) = (AtomicBool::new(false), AtomicBool::new(false));
        let state = Mutex::default();
        Self { events, progress, questions, is_heard, has_session, server_requests, state }
    }

    pub(crate) fn greeting(&self) -> Option<ServerGreeting> {
        self.state.lock().greeting.clone()
    }

    /// The version that a server wanted and that is not known here.
    pub(crate) fn strange_version(&self) -> Option<String> {
        self.state.lock().strange_version.clone()
    }

    /// Notes what is sent, to know which answer is the greeting, and which requests of the server are answered.
    pub(crate) fn note_sent(&self, message: &ClientJsonRpcMessage) {
        let mut state = self.state.lock();
        match message {
            ClientJsonRpcMessage::Request(request) => match request.request {
                ClientRequest::InitializeRequest(_) => {
                    state.initialize = Some(request.id.to_string());
                    state.discover = None;
                    if state.greeting.is_some() {
                        drop(state);
                        self.events.put(SessionEvent::Restarted);
                        self.events.put(SessionEvent::ToolsChanged);
                    }
                }
                ClientRequest::DiscoverRequest(_) => {
                    // Ids begin anew after a refused `initialize`.
                    state.initialize = None;
                    state.discover = Some(request.id.to_string());
                }
                _ => {}
            },
            ClientJsonRpcMessage::Response(response) => {
                state.open.remove(&response.id.to_string());
            }
            ClientJsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    state.open.remove(&id.to_string());
                }
            }
            ClientJsonRpcMessage::Notification(_) => {}
        }
    }

    /// Headers that a call of a tool needs beside those of each request.
    pub(crate) fn headers_of(&self, message: &ClientJsonRpcMessage) -> HeaderMap {
        let params = match message {
            ClientJsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CustomRequest(call) if call.method == "tools/call" => &call.params,
                _ => &None,
            },
            _ => &None,
        };
        let params = params.as_ref().unwrap_or(&Value::Null);
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = params.get("arguments").unwrap_or(&Value::Null);
        self.state.lock().params.of_call(name, arguments)
    }

    /// The messages in a line or event that the SDK has to see.
    pub(crate) fn read(&self, raw: &[u8]) -> Vec<Value> {
        let raw = raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw).trim_ascii();
        if raw.is_empty() {
            return Vec::new();
        }
        if !raw.starts_with(b"{") && !raw.starts_with(b"[") {
            self.events.put_noise(&String::from_utf8_lossy(&raw[..raw.len().min(8192)]));
            return Vec::new();
        }
        match parse_leniently(raw) {
            // Version 2025-03-26 lets several messages come as one.
            Ok(Value::Array(batch)) => batch.into_iter().filter_map(|one| self.sort(one)).collect(),
            Ok(message) => self.sort(message).into_iter().collect(),
            Err(error) => self.read_failed(raw, raw, &error.to_string()),
        }
    }

    /// Handles a message that can't be read as a whole: an error takes the place of an answer.
    pub(crate) fn read_failed(&self, head: &[u8], tail: &[u8], reason: &str) -> Vec<Value> {
        let answer = answer_unreadable(head, tail, reason);
        if answer.is_none() {
            let start = String::from_utf8_lossy(&head[..head.len().min(200)]);
            self.events.put_noise(&format!("{reason}: {start}"));
        }
        answer.into_iter().collect()
    }

    fn sort(&self, message: Value) -> Option<Value> {
        let Value::Object(mut message) = message else {
            self.events.put_noise(&message.to_string());
            return None;
        };
        let id = message.remove("id").and_then(clean_id);
        if let Some(Value::String(method)) = message.get("method") {
            let method = method.clone();
            let params = message.remove("params").unwrap_or(Value::Null);
            if let Some(id) = id {
                return self.sort_request(&id, &method, params);
            }
            if method == "notifications/cancelled" {
                return self.sort_cancellation(params);
            }
            self.take_notification(&method, &params);
            return None;
        }
        match (id, message.remove("result"), message.remove("error")) {
            (Some(id), _, Some(error)) if !error.is_null() => Some(clean_error(&id, &error)),
            (Some(id), Some(result), _) => Some(self.sort_result(&id, result)),
            (None, _, Some(error)) if !error.is_null() => {
                self.events.put_noise(&format!("error without an id: {error}"));
                None
            }
            (id, ..) => {
                if let Some(id) = id {
                    message.insert("id".to_owned(), id);
                }
                self.events.put_noise(&Value::Object(message).to_string());
                None
            }
        }
    }

    fn sort_result(&self, id: &Value, result: Value) -> Value {
        let mut state = self.state.lock();
        let mut answer = json!({"jsonrpc": "2.0", "id": id});
        if state.discover.as_deref() == Some(&*text_of(id)) {
            state.discover = None;
            return sort_discovery(&mut state, id, &result);
        }
        if state.initialize.as_deref() != Some(&text_of(id)) {
            if state.greeting.as_ref().is_some_and(|greeting| greeting.protocol == STATELESS) {
                state.params.learn(&result);
            }
            answer["result"] = Value::Object(Map::from_iter([(RESULT_KEY.to_owned(), result)]));
            return answer;
        }
        state.initialize = None;
        let greeting = read_greeting(&result);
        if !VERSIONS.contains(&&*greeting.protocol) {
            state.strange_version = Some(greeting.protocol.clone());
            return clean_error(id, &json!({"message": "unknown version of the protocol"}));
        }
        // Limited to what the SDK needs: capabilities of a strange form would lose the whole greeting.
        answer["result"] = json!({
            "protocolVersion": greeting.protocol,
            "capabilities": {},
            "serverInfo": {"name": greeting.name, "version": greeting.version},
        });
        state.greeting = Some(greeting);
        answer
    }

    fn sort_request(&self, id: &Value, method: &str, params: Value) -> Option<Value> {
        let mut state = self.state.lock();
        if state.open.len() >= self.server_requests {
            state.refused += 1;
            let first = state.refused == 1;
            drop(state);
            if first {
                let text =
                    format!("more than {} requests at once are not answered", self.server_requests);
                self.events.put_noise(&text);
            }
            return None;
        }
        state.open.insert(text_of(id), id.clone());
        drop(state);
        // The SDK refuses forms of questions and messages that it does not know as a whole.
        let method = match method {
            "elicitation/create" | "roots/list" | "sampling/createMessage" => {
                format!("{RAW_METHOD}{method}")
            }
            method => method.to_owned(),
        };
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if params.is_object() {
            request["params"] = params;
        }
        Some(request)
    }

    /// Passes on that the server takes one of its requests back: the SDK drops what works on it, and answers no more.
    fn sort_cancellation(&self, mut params: Value) -> Option<Value> {
        let id = params.get_mut("requestId").map(Value::take).and_then(clean_id)?;
        let id = self.state.lock().open.remove(&text_of(&id))?;
        let params = json!({"requestId": id});
        Some(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
    }

    fn take_notification(&self, method: &str, params: &Value) {
        let text_at = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        let event = match method {
            "notifications/tools/list_changed" => SessionEvent::ToolsChanged,
            "notifications/resources/list_changed" => SessionEvent::ResourcesChanged,
            "notifications/prompts/list_changed" => SessionEvent::PromptsChanged,
            "notifications/resources/updated" => match text_at("uri") {
                Some(uri) => SessionEvent::ResourceUpdated { uri: cut_text(&uri) },
                None => return,
            },
            "notifications/message" => SessionEvent::Log {
                level: text_at("level").map_or_else(|| "info".to_owned(), |level| cut_text(&level)),
                logger: text_at("logger").map(|logger| cut_text(&logger)),
                text: match params.get("data") {
                    Some(Value::String(text)) => cut_text(text),
                    Some(data) => cut_text(&data.to_string()),
                    None => String::new(),
                },
            },
            "notifications/progress" => return self.take_progress(params),
            _ => return,
        };
        self.events.put(event);
    }

    fn take_progress(&self, params: &Value) {
        let token = params.get("progressToken").cloned().and_then(clean_id);
        let token = token.as_ref().map(text_of).unwrap_or_default();
        let step = ProgressStep {
            progress: params.get("progress").and_then(Value::as_f64).unwrap_or_default(),
            total: params.get("total").and_then(Value::as_f64),
            message: params.get("message").and_then(Value::as_str).map(cut_text),
        };
        self.progress.report(token, step);
    }
}

/// A message in the SDK's types. Its own reader tries each type of result in turn, which takes long for large ones.
pub(crate) fn in_sdk_form(mut message: Value) -> Option<ServerJsonRpcMessage> {
    let is_result = message.get("result").is_some_and(|result| result.get(RESULT_KEY).is_some());
    let read = if is_result {
        let result = CustomResult(message["result"].take());
        let id = serde_json::from_value(message["id"].take());
        id.map(|id| ServerJsonRpcMessage::response(ServerResult::CustomResult(result), id))
    } else {
        serde_json::from_value(message)
    };
    read.inspect_err(|error| tracing::debug!(%error, "server_message_unknown")).ok()
}

/// Notes the answer to `server/discover`, and leaves in it what the SDK needs.
fn sort_discovery(state: &mut IntakeState, id: &Value, result: &Value) -> Value {
    let versions = result.get("supportedVersions").and_then(Value::as_array);
    let versions: Vec<&str> = versions.into_iter().flatten().filter_map(Value::as_str).collect();
    if !versions.contains(&STATELESS) {
        state.strange_version = Some(cut_text(&versions.join(", ")));
        return clean_error(id, &json!({"message": "unknown version of the protocol"}));
    }
    state.greeting = Some(read_discovery(result));
    let found = json!({
        "resultType": "complete", "supportedVersions": [STATELESS], "capabilities": {},
        "ttlMs": 0, "cacheScope": "private",
    });
    json!({"jsonrpc": "2.0", "id": id, "result": found})
}

fn read_discovery(result: &Value) -> ServerGreeting {
    let info = result.get("_meta").and_then(|meta| meta.get(SERVER_INFO));
    describe_server(result, info.or_else(|| result.get("serverInfo")), STATELESS.to_owned())
}

fn read_greeting(result: &Value) -> ServerGreeting {
    let protocol = brief_text(result.get("protocolVersion"));
    // Early servers left it out.
    let protocol = if protocol.is_empty() { VERSIONS[0].to_owned() } else { protocol };
    describe_server(result, result.get("serverInfo"), protocol)
}

fn brief_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => cut_text(text),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn describe_server(result: &Value, info: Option<&Value>, protocol: String) -> ServerGreeting {
    ServerGreeting {
        protocol,
        name: brief_text(info.and_then(|info| info.get("name"))),
        version: brief_text(info.and_then(|info| info.get("version"))),
        about: brief_text(info.and_then(|info| info.get("description"))),
        instructions: result
            .get("instructions")
            .and_then(Value::as_str)
            .map(|text| cut_chars(text, INSTRUCTIONS)),
        capabilities: read_capabilities(result.get("capabilities")),
    }
}

/// What a server declares of the capabilities that count here. It is kept as long as the session.
fn read_capabilities(declared: Option<&Value>) -> Map<String, Value> {
    let of = |name: &&str| {
        let value = declared?.get(*name)?;
        let is_short = weigh(value) <= CAPABILITY_BYTES;
        Some(((*name).to_owned(), if is_short { value.clone() } else { Value::Bool(true) }))
    };
    CAPABILITIES.iter().filter_map(of).collect()
}

/// Numbers with a fraction of zero are the same id; null and what is far too long are none.
fn clean_id(id: Value) -> Option<Value> {
    match id {
        Value::String(ref text) if text.len() > ID_BYTES => None,
        Value::String(_) => Some(id),
        Value::Number(number) => {
            #[expect(clippy::cast_possible_truncation, reason = "the fraction is zero")]
            let whole = number.as_i64().or_else(|| {
                number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64)
            });
            whole.map(Value::from)
        }
        _ => None,
    }
}

fn text_of(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

fn clean_error(id: &Value, error: &Value) -> Value {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = match error.get("message").unwrap_or(error) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut clean = json!({"code": code.unwrap_or(-32000), "message": cut_text(&message)});
    let pages = error.pointer("/data/elicitations").and_then(Value::as_array);
    if let Some(pages) = pages.filter(|_| code == Some(PAGE_NEEDED)) {
        let short = |page: &&Value| weigh(page) <= PAGE_BYTES;
        let pages: Vec<&Value> = pages.iter().filter(short).take(PAGES).collect();
        clean["data"] = json!({"elicitations": pages});
    }
    json!({"jsonrpc": "2.0", "id": id, "error": clean})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::open_events;

    #[test]
    fn of_a_greeting_no_more_is_kept_than_counts() {
        let long = "x".repeat(CAPABILITY_BYTES);
        let declared = json!({
            "tools": {"listChanged": true}, "prompts": {"note": long}, "logging": null, "own": long,
        });
        let kept = read_greeting(&json!({"capabilities": declared})).capabilities;
        assert_eq!(
            Value::Object(kept),
            json!({"tools": {"listChanged": true}, "prompts": true, "logging": null})
        );
        assert!(read_greeting(&json!({"capabilities": "none"})).capabilities.is_empty());
    }

    #[test]
    fn what_a_server_makes_up_for_an_id_is_kept_only_if_it_is_short() {
        let (sink, _stream) = open_events(8);
        let intake = Intake::new(sink, 4);
        let ask = |id: String| {
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"});
            intake.read(message.to_string().as_bytes()).len()
        };
        assert_eq!(ask("i".repeat(ID_BYTES + 1)), 0);
        assert!(intake.state.lock().open.is_empty());
        assert_eq!(ask("i".repeat(ID_BYTES)), 1);
        let (sender, mut steps) = tokio::sync::mpsc::channel(1);
        for token in ["t".repeat(ID_BYTES + 1), "t".repeat(ID_BYTES)] {
            let params = json!({"progressToken": token, "progress": 1});
            let method = "notifications/progress";
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            assert!(intake.read(message.to_string().as_bytes()).is_empty());
            intake.progress.claim(token.clone(), sender.clone());
            assert_eq!(steps.try_recv().is_ok(), token.len() <= ID_BYTES, "{}", token.len());
            intake.progress.forget(&token);
        }
    }
}
