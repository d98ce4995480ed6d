//! The official servers of npm.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use codebutler_mcp::session::{
    QuestionAnswer, QuestionHandler, SampledAnswer, SamplingHandler, SamplingRefusal,
    SamplingRequest, ServerQuestion,
};
use codebutler_mcp::{
    ContentBody, McpError, ModelAbilities, PartLimits, ResultPart, ServerSession, SessionEvent,
    ToolCall, parts_for_model,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::servers::{node_server, open_http, setup, start_piped, wait_for};

struct AnyAnswer;

#[async_trait]
impl QuestionHandler for AnyAnswer {
    async fn ask(&self, question: ServerQuestion) -> QuestionAnswer {
        match question {
            ServerQuestion::Form { schema, .. } => {
                assert!(schema["properties"]["name"].is_object(), "{schema}");
                QuestionAnswer::Accepted(json!({"name": "Ana", "check": true}))
            }
            ServerQuestion::Link { .. } => QuestionAnswer::Declined,
        }
    }
}

struct AnyModel;

#[async_trait]
impl SamplingHandler for AnyModel {
    async fn sample(&self, request: SamplingRequest) -> Result<SampledAnswer, SamplingRefusal> {
        assert_eq!(request.system.as_deref(), Some("You are a helpful test server."));
        let text = format!("I read: {}", request.messages[0].1);
        Ok(SampledAnswer { text, model: "played/one".into(), is_cut: true })
    }
}

fn call(name: &str, arguments: Value) -> ToolCall {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    ToolCall { name: name.into(), arguments, ..ToolCall::default() }
}

async fn text_of(session: &ServerSession, name: &str, arguments: Value) -> String {
    let result = session.call_tool(call(name, arguments)).await.unwrap();
    let abilities = ModelAbilities { images: true, audio: true };
    let parts = parts_for_model(&result, abilities, PartLimits::default()).parts;
    let text = |part: &ResultPart| match part {
        ResultPart::Text(text) => text.clone(),
        ResultPart::Image { media_type, .. } | ResultPart::Audio { media_type, .. } => {
            format!("<{media_type}>")
        }
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n")
}

async fn use_everything(session: &ServerSession) {
    assert_eq!(session.facts().protocol, "2025-11-25");
    assert!(session.facts().has("prompts") && !session.facts().has("hologram"));
    session.ping().await.unwrap();
    assert_eq!(text_of(session, "echo", json!({"message": "hé"})).await, "Echo: hé");
    assert!(text_of(session, "get-tiny-image", json!({})).await.contains("<image/png>"));
    let structured = session
        .call_tool(call("get-structured-content", json!({"location": "New York"})))
        .await
        .unwrap();
    assert!(structured.structured.is_some_and(|data| data["temperature"].is_number()));
    let once = text_of(session, "get-structured-content", json!({"location": "New York"})).await;
    assert_eq!(once.matches("temperature").count(), 1, "{once}");
    let links = session.call_tool(call("get-resource-links", json!({"count": 2}))).await.unwrap();
    assert_eq!(
        links.items.iter().filter(|item| matches!(item.body, ContentBody::Link { .. })).count(),
        2
    );
    let unknown = session.call_tool(call("no-such-tool", json!({}))).await.unwrap();
    assert!(unknown.is_error && !unknown.items.is_empty(), "{unknown:?}");

    assert!(!session.list_resources().await.unwrap().items.is_empty());
    let templates = session.list_resource_templates().await.unwrap().items;
    assert!(templates.iter().any(|one| one.uri_template.contains("dynamic/text")), "{templates:?}");
    let read = session.read_resource("demo://resource/dynamic/text/1").await.unwrap();
    assert!(
        matches!(&read.items[0].body, ContentBody::Embedded { text, .. } if !text.is_empty()),
        "{read:?}"
    );
    let prompts = session.list_prompts().await.unwrap().items;
    let with_arguments =
        prompts.iter().find(|prompt| prompt.arguments.iter().any(|one| one.is_required)).unwrap();
    assert_eq!(with_arguments.name, "args-prompt");
    let named = with_arguments.arguments.iter().map(|one| (&*one.name, one.is_required));
    assert_eq!(named.collect::<Vec<_>>(), [("city", true), ("state", false)]);
    let arguments = json!({"city": "Berlin"});
    let messages =
        session.get_prompt(&with_arguments.name, arguments.as_object().unwrap()).await.unwrap();
    assert!(
        matches!(&messages[0].body, ContentBody::Text(text) if text.contains("Berlin")),
        "{messages:?}"
    );
}

async fn cancel_and_watch(session: &ServerSession) {
    let (sender, mut steps) = mpsc::channel(16);
    let mut slow = call("trigger-long-running-operation", json!({"duration": 0.4, "steps": 4}));
    slow.progress = Some(sender);
    session.call_tool(slow).await.unwrap();
    let step = steps.recv().await.unwrap();
    assert_eq!((step.progress, step.total), (1.0, Some(4.0)));

    let cancel = CancellationToken::new();
    let mut long = call("trigger-long-running-operation", json!({"duration": 60, "steps": 2}));
    long.cancel = cancel.clone();
    let running = session.call_tool(long);
    let stopping = async {
        session.ping().await.unwrap();
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(running, stopping);
    assert_eq!(result, Err(McpError::Cancelled("tools/call".into())));
    session.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_over_a_pipe() {
    let Some(mut command) = node_server("everything").await else { return };
    command.arg("stdio");
    let (_child, link) = start_piped(command);
    let mut setup = setup();
    setup.questions = Some(Arc::new(AnyAnswer));
    setup.roots = vec!["file:///srv/tree".parse().unwrap()];
    let (session, mut events) = ServerSession::open(link, setup).await.unwrap();
    // The server adds tools when the session is ready.
    wait_for(&mut events, &SessionEvent::ToolsChanged).await;
    let listed = session.list_tools().await.unwrap();
    let names: Vec<&str> = listed.items.iter().map(|tool| &*tool.name).collect();
    assert!(names.contains(&"echo") && names.contains(&"trigger-elicitation-request"), "{names:?}");
    assert!(!names.contains(&"trigger-sampling-request"), "sampling is not declared: {names:?}");
    use_everything(&session).await;
    let answer = text_of(&session, "trigger-elicitation-request", json!({})).await;
    assert!(answer.contains("Ana"), "{answer}");
    let roots = text_of(&session, "get-roots-list", json!({})).await;
    assert!(roots.contains("file:///srv/tree"), "{roots}");
    cancel_and_watch(&session).await;
    session.close().await;
    assert!(matches!(session.ping().await, Err(McpError::Closed { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_answers_a_server_that_asks_for_one() {
    let Some(mut command) = node_server("everything").await else { return };
    command.arg("stdio");
    let (_child, link) = start_piped(command);
    let mut setup = setup();
    setup.sampling = Some(Arc::new(AnyModel));
    let (session, mut events) = ServerSession::open(link, setup).await.unwrap();
    wait_for(&mut events, &SessionEvent::ToolsChanged).await;
    let asked = json!({"prompt": "what is there?", "maxTokens": 20});
    let answer = text_of(&session, "trigger-sampling-request", asked).await;
    for part in ["what is there?", "played/one", "maxTokens"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_over_streamable_http() {
    let Some(mut command) = node_server("everything").await else { return };
    command.arg("streamableHttp");
    let (_child, dialer, session, _events) = open_http(command, "/mcp", &setup()).await;
    use_everything(&session).await;
    cancel_and_watch(&session).await;
    session.close().await;
    let sent = dialer.sent.lock().unwrap().clone();
    assert!(sent.last().is_some_and(|last| last.starts_with("DELETE ")), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_over_the_older_form_with_events() {
    let Some(mut command) = node_server("everything").await else { return };
    command.arg("sse");
    let (_child, _, session, _events) = open_http(command, "/sse", &setup()).await;
    use_everything(&session).await;
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_calls_at_once_over_http() {
    let Some(mut command) = node_server("everything").await else { return };
    command.arg("streamableHttp");
    let (_child, _, session, _events) = open_http(command, "/mcp", &setup()).await;
    let calls = (0..100).map(|number| {
        let session = &session;
        async move { text_of(session, "echo", json!({"message": number.to_string()})).await }
    });
    let answers = futures::future::join_all(calls).await;
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, format!("Echo: {number}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_memory_and_thinking() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["filesystem", "memory", "sequential-thinking"] {
        let Some(mut command) = node_server(name).await else { return };
        command.arg(folder.path()).env("MEMORY_FILE_PATH", folder.path().join("memory.jsonl"));
        let (mut child, link) = start_piped(command);
        let (session, mut events) = ServerSession::open(link, setup()).await.unwrap();
        let listed = session.list_tools().await.unwrap();
        assert!(!listed.items.is_empty() && listed.skipped.is_empty(), "{name}: {listed:?}");
        if name == "filesystem" {
            let path = folder.path().join("a.txt");
            let path = path.to_str().unwrap();
            let write = json!({"path": path, "content": "hello"});
            text_of(&session, "write_file", write).await;
            // The words and the data hold the same: a model gets them once.
            assert_eq!(text_of(&session, "read_text_file", json!({"path": path})).await, "hello");
            let outside = session
                .call_tool(call("read_text_file", json!({"path": "/etc/passwd"})))
                .await
                .unwrap();
            assert!(outside.is_error);
        }
        session.close().await;
        let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
        assert!(ended.is_ok(), "{name}: a closed pipe ends an idle server");
        while events.next().await.is_some() {}
    }
}
