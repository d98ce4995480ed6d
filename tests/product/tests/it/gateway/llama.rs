//! The gateway before the real server of llama.cpp.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use axum::extract::Query;
use axum::routing::get;
use codebutler_crds::NanoUsd;
use codebutler_models::model_conditions;
use codebutler_testbed::llama::{LlamaError, LlamaOptions, LlamaServer};
use codebutler_testbed::models::ModelScript;
use codebutler_testbed::pytools::PyToolsError;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually};

const CHAT: &str = "/v1/chat/completions";

/// A world whose coder asks such a server; nothing where the machine has no Python, which is said.
async fn world(options: LlamaOptions) -> Option<(World, LlamaServer)> {
    let server = match LlamaServer::start(options).await {
        Ok(server) => server,
        Err(LlamaError::Python(PyToolsError::NoPython)) => {
            let _ = writeln!(std::io::stderr(), "skipped: no python3 for llama.cpp");
            return None;
        }
        Err(error) => panic!("{:#}", anyhow::Error::from(error)),
    };
    let world = world_asking(server.url()).await;
    Some((world, server))
}

/// A world whose coder asks a server at this address.
async fn world_asking(url: &str) -> World {
    let spec = json!({
        "model": {"baseURL": url},
        "limits": {"budget": {"perThread": "0.0001"}},
    });
    let world =
        World::play(ModelScript::of("coder", vec![]), &spec, &json!({"default": "random"})).await;
    world.cluster.secret("model", url, &json!({"apiKey": "none"})).await;
    // As every agent begins: from then on the server's list is known, and that nothing there costs money.
    let (status, session) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{session}");
    world
}

fn ask(messages: &Value, tools: bool) -> Value {
    let mut body = json!({"model": "random", "messages": messages, "max_tokens": 12});
    if tools {
        let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let read = json!({"name": "Read", "description": "Reads.", "parameters": parameters});
        body["tools"] = json!([{"type": "function", "function": read}]);
    }
    body
}

fn hello() -> Value {
    json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}])
}

async fn condition_says(world: &World, expected: &str) {
    let knowing = Arc::clone(&world.gateway.models);
    let _knowing = AbortOnDropHandle::new(tokio::spawn(async move {
        model_conditions::run_model_conditions(&knowing).await;
    }));
    eventually(expected, || async { world.condition("ModelsKnown").await.contains(expected) })
        .await;
}

/// Answers one request a connection, and ends the connection when a second one comes: as llama.cpp's
/// server does after a stream when the next request is on its way already.
async fn serve_one_request_a_connection(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let request = read_request(&mut stream).await?;
            let (kind, body) = if request.starts_with("POST") {
                let piece = json!({"id": "a", "object": "chat.completion.chunk", "model": "random",
                    "choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}});
                ("text/event-stream", format!("data: {piece}\n\ndata: [DONE]\n\n"))
            } else {
                let list = json!({"object": "list", "data": [{"id": "random", "object": "model"}]});
                ("application/json", list.to_string())
            };
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\n".to_owned();
            let rest = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all((head + &rest).as_bytes()).await.ok()?;
            read_request(&mut stream).await.map(drop)
        });
    }
}

/// A request with its body; nothing at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase();
        let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return Some(text);
        }
    }
}

#[tokio::test]
async fn a_server_that_ends_connections_after_streams_loses_no_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let _serving = AbortOnDropHandle::new(tokio::spawn(serve_one_request_a_connection(listener)));
    let world = world_asking(&url).await;
    for _ in 0..5 {
        let (status, answer) = world.post("coder", CHAT, &ask(&hello(), true)).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["choices"][0]["message"]["content"], "hello", "{answer}");
    }
}

/// Serves what a router of llama.cpp says of its models, and keeps the names of those that it is asked about.
async fn serve_router(listener: TcpListener, asked: Arc<Mutex<Vec<String>>>) {
    let list = async || {
        let entry = |id: &str, state: &str| json!({"id": id, "object": "model", "owned_by": "llamacpp", "status": {"value": state}});
        axum::Json(
            json!({"object": "list", "data": [entry("random", "loaded"), entry("large", "unloaded")]}),
        )
    };
    let props = async move |Query(query): Query<BTreeMap<String, String>>| {
        let model = query.get("model").cloned().unwrap_or_default();
        let loads = query.get("autoload").is_none_or(|word| word != "false");
        asked.lock().unwrap().push(if loads { format!("{model}, which loads it") } else { model });
        axum::Json(
            json!({"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": false},
            "chat_template_caps": {"supports_tools": false}}),
        )
    };
    let app = axum::Router::new().route("/v1/models", get(list)).route("/props", get(props));
    axum::serve(listener, app).await.unwrap();
}

#[tokio::test]
async fn a_router_is_asked_about_the_models_that_it_has_loaded_and_loads_none_for_that() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let serving = tokio::spawn(serve_router(listener, Arc::clone(&asked)));
    let _serving = AbortOnDropHandle::new(serving);
    let world = world_asking(&url).await;
    let (_, session) = world.get("coder", "/v1/session").await;
    let facts = &session["facts"]["random"];
    assert_eq!((&facts["contextTokens"], &facts["tools"]), (&json!(8_192), &json!(false)));
    assert_eq!(*asked.lock().unwrap(), ["random"]);
    let (_, refused) = world.post("coder", CHAT, &ask(&hello(), true)).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("can't call tools there"));
}

#[tokio::test]
async fn its_list_says_what_a_model_takes_and_work_costs_nothing() {
    let options = LlamaOptions { window: 16_384, ..LlamaOptions::default() };
    let Some((world, _server)) = world(options).await else { return };
    let (status, session) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{session}");
    let facts = &session["facts"]["random"];
    assert_eq!((&facts["contextTokens"], &facts["tools"]), (&json!(16_384), &json!(true)));
    assert_eq!(facts["sees"], false);
    // More of them than any estimate of money would let through.
    for _ in 0..3 {
        let (status, answer) = world.post("coder", CHAT, &ask(&hello(), true)).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["object"], "chat.completion");
        // Twelve random bytes can be no text at all.
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["role"], "assistant", "{answer}");
        assert!(message["content"].is_string() || message["content"].is_null(), "{answer}");
        assert!(answer["usage"]["prompt_tokens"].as_u64() > Some(100), "{answer}");
    }
    eventually("the calls to be counted, at no cost", || async {
        let status = world.thread().await.status.unwrap_or_default();
        let usage = status.roles.get("coder").map(|role| role.usage);
        usage.is_some_and(|usage| usage.calls == 3 && usage.cost == NanoUsd::ZERO)
    })
    .await;
    condition_says(&world, "no model of the provider").await;
}

#[tokio::test]
async fn a_template_without_tools_is_told_before_work_and_no_call_is_made_without_them() {
    let options = LlamaOptions { template: None, ..LlamaOptions::default() };
    let Some((world, _server)) = world(options).await else { return };
    let (_, session) = world.get("coder", "/v1/session").await;
    assert_eq!(session["facts"]["random"]["tools"], false);
    condition_says(&world, "is served with a chat template that knows no tools").await;
    let (status, refused) = world.post("coder", CHAT, &ask(&hello(), true)).await;
    assert_eq!((status, &refused["error"]["code"]), (502, &json!("upstream")), "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("can't call tools there"), "{message}");
    let (status, answer) = world.post("coder", CHAT, &ask(&hello(), false)).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn a_window_that_is_too_small_is_told_and_a_conversation_that_is_too_long_names_it() {
    let options = LlamaOptions { window: 2_048, ..LlamaOptions::default() };
    let Some((world, _server)) = world(options).await else { return };
    let long = json!([{"role": "user", "content": "word ".repeat(2_000)}]);
    let (_, refused) = world.post("coder", CHAT, &ask(&long, true)).await;
    assert_eq!(refused["error"]["code"], "context_overflow", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("its context length is 2048 tokens"), "{message}");
    let (_, session) = world.get("coder", "/v1/session").await;
    assert_eq!(session["facts"]["random"]["contextTokens"], 2_048);
    condition_says(&world, "takes 2048 tokens, too few for work with tools").await;
}

#[tokio::test]
async fn what_a_template_refuses_is_no_outage() {
    let options = LlamaOptions { template: Some("turns"), ..LlamaOptions::default() };
    let Some((world, server)) = world(options).await else { return };
    let twice = json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]);
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "Read", "arguments": "{}"}});
    let called = json!([{"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "x"}]);
    for (messages, words) in [
        (&twice, "Conversation roles must alternate"),
        (&called, "Tool call IDs should be alphanumeric strings with length 9"),
    ] {
        let (_, refused) = world.post("coder", CHAT, &ask(messages, true)).await;
        assert_eq!(refused["error"]["code"], "invalid_request", "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("chat template") && message.contains(words), "{message}");
    }
    assert_eq!(world.post("coder", CHAT, &ask(&hello(), true)).await.0, 200);
    drop((world, server));
    let options = LlamaOptions { template: None, jinja: false, ..LlamaOptions::default() };
    let Some((world, _server)) = self::world(options).await else { return };
    let (_, refused) = world.post("coder", CHAT, &ask(&hello(), true)).await;
    assert_eq!(refused["error"]["code"], "upstream", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("can't call tools there"));
}
