//! Servers of both versions of the Python SDK.

use codebutler_mcp::{
    ContentBody, McpError, ServerSession, SessionEvent, SessionSetup, ToolCall, ToolResult,
};
use serde_json::{Value, json};
use tokio::process::Command;

use super::servers::{open_http, python_with, setup, start_piped, wait_for};

const OLD: &str = "mcp==1.30.0";
const NEW: &str = "mcp==2.3.0";
/// Version that both speak after a greeting.
const USUAL: &str = "2025-11-25";

/// Runs on both: the class has another name, and takes the port at another place.
const SERVER: &str = r#"
import os, sys
from mcp.types import TextContent
port = int(os.environ.get("PORT", "0"))
try:
    from mcp.server import MCPServer
    server = MCPServer("tests")
    start = lambda: server.run("streamable-http", port=port)
except ImportError:
    from mcp.server.fastmcp import FastMCP
    server = FastMCP("tests", port=port)
    start = lambda: server.run("streamable-http")

@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b

@server.tool()
def names() -> list[str]:
    return ["x", "y"]

@server.tool()
def nothing() -> None:
    return None

@server.tool()
def fails() -> str:
    raise ValueError("out of cheese")

start() if port else server.run("stdio")
"#;

async fn python_server(package: &'static str) -> Option<Command> {
    let mut command = Command::new(python_with(package).await?);
    command.arg("-c").arg(SERVER);
    Some(command)
}

async fn call(
    session: &ServerSession,
    name: &str,
    arguments: Value,
) -> Result<ToolResult, McpError> {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    session.call_tool(ToolCall { name: name.into(), arguments, ..ToolCall::default() }).await
}

async fn use_server(session: &ServerSession, protocol: &str) {
    assert_eq!(session.facts().protocol, protocol);
    assert_eq!(session.facts().name, "tests");
    let listed = session.list_tools().await.unwrap();
    let names: Vec<&str> = listed.items.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["add", "names", "nothing", "fails"]);
    let sum = call(session, "add", json!({"a": 1, "b": 2})).await.unwrap();
    assert_eq!(sum.structured, Some(json!({"result": 3})));
    assert_eq!(sum.items[0].body, ContentBody::Text("3".into()));
    let nothing = call(session, "nothing", json!({})).await.unwrap();
    assert!(!nothing.is_error && nothing.items.is_empty(), "{nothing:?}");
    assert!(call(session, "fails", json!({})).await.unwrap().is_error);
    // The older answers with an error as a result, the newer one with one of the protocol.
    match call(session, "add", json!({"a": "x"})).await {
        Ok(result) => assert!(result.is_error),
        Err(error) => assert!(error.is_answer(), "{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_python_sdks_over_a_pipe() {
    for package in [OLD, NEW] {
        let Some(command) = python_server(package).await else { return };
        let (_child, link) = start_piped(command);
        let (session, _events) = ServerSession::open(link, setup()).await.unwrap();
        use_server(&session, USUAL).await;
        session.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_python_sdks_over_streamable_http() {
    for package in [OLD, NEW] {
        let Some(command) = python_server(package).await else { return };
        // The SDK mounts it without the slash and sends people there.
        let (_child, _, session, _events) = open_http(command, "/mcp", &setup()).await;
        use_server(&session, USUAL).await;
        session.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_python_sdk_without_a_greeting() {
    let stateless = SessionSetup { is_stateless: true, ..setup() };
    let Some(command) = python_server(NEW).await else { return };
    let (_child, link) = start_piped(command);
    let (session, _events) = ServerSession::open(link, stateless.clone()).await.unwrap();
    use_server(&session, "2026-07-28").await;
    session.close().await;

    let Some(command) = python_server(NEW).await else { return };
    let (_child, _, session, _events) = open_http(command, "/mcp", &stateless).await;
    use_server(&session, "2026-07-28").await;
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_gets_a_new_session_and_that_is_said() {
    let Some(command) = python_server(OLD).await else { return };
    let (mut child, dialer, session, mut events) = open_http(command, "/mcp", &setup()).await;
    call(&session, "add", json!({"a": 1, "b": 2})).await.unwrap();
    child.kill().await.unwrap();
    let down = call(&session, "add", json!({"a": 1, "b": 2})).await.unwrap_err();
    assert!(down.is_lost_connection(), "{down}");
    let address = dialer.sent.lock().unwrap()[0].clone();
    let port = address.rsplit_once(':').unwrap().1.trim_end_matches("/mcp").to_owned();
    let mut again = python_server(OLD).await.unwrap();
    let _again = again
        .stdout(std::process::Stdio::null())
        .env("PORT", port)
        .kill_on_drop(true)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let sum = loop {
        match call(&session, "add", json!({"a": 1, "b": 2})).await {
            Ok(result) => break result,
            Err(error) => assert!(error.is_lost_connection(), "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert_eq!(sum.structured, Some(json!({"result": 3})));
    wait_for(&mut events, &SessionEvent::Restarted).await;
    wait_for(&mut events, &SessionEvent::ToolsChanged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
    let Some(python) = python_with(OLD).await else { return };
    let mut command = Command::new(python);
    command.arg("-c").arg("import sys; sys.exit('starting\\nAPI_KEY is missing')");
    let (_child, link) = start_piped(command);
    let error = ServerSession::open(link, SessionSetup::default()).await.map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server ended before it answered: starting / API_KEY is missing"
    );
}
