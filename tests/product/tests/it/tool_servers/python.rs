//! Servers of both versions of the Python SDK, in pods and over streamable HTTP.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use codebutler_testbed::models::ScriptStep;
use serde_json::json;
use tokio::process::{Child, Command};

use super::images::{python_image, python_venv};
use super::{coder, reading, with_servers};
use crate::support::{Setup, needs_process_kubelet};

const OLD: &str = "mcp==1.30.0";
const NEW: &str = "mcp==2.3.0";
/// Runs on both: the class has another name, and takes the port at another place.
const SERVER: &str = r#"
import os
port = int(os.environ.get("PORT", "0"))
try:
    from mcp.server import MCPServer
    server = MCPServer("prices")
    start = lambda: server.run("streamable-http", port=port)
except ImportError:
    from mcp.server.fastmcp import FastMCP
    server = FastMCP("prices", port=port)
    start = lambda: server.run("streamable-http")

@server.tool()
def add(a: int, b: int) -> int:
    """Adds two prices."""
    return a + b

@server.tool()
def nothing() -> None:
    """Answers without a word."""
    return None

@server.tool()
def fails() -> str:
    """Fails."""
    raise ValueError("out of cheese")

start() if port else server.run("stdio")
"#;

/// A server over HTTP, and its port.
fn serve_http(venv: &Path, script: &Path) -> (Child, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new(venv.join("bin/python"))
        .arg(script)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    (child, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_with_both_python_sdks_in_pods_and_over_http() {
    if needs_process_kubelet("the servers' images have packages of this machine") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let (mut images, mut servers, mut running, mut names) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (version, package) in [("old", OLD), ("new", NEW)] {
        let Some(venv) = python_venv(package).await else { return };
        let image = format!("acme/python-{version}:1");
        let command = ["/srv/venv/bin/python", "/srv/server.py"];
        let pod = format!("pod-{version}");
        servers.push(reading(json!({"name": pod, "image": image, "command": command})));
        let (child, port) = serve_http(&venv, &script);
        running.push(child);
        let web = format!("web-{version}");
        let url = format!("http://127.0.0.1:{port}/mcp");
        servers.push(reading(json!({"name": web, "url": url})));
        names.extend([pod, web]);
        images.push((image, python_image(&venv, &script)));
    }
    let mut adding = ScriptStep::default();
    let mut others = ScriptStep::default();
    for (at, name) in names.iter().enumerate() {
        adding =
            adding.and_tool(&format!("mcp__{name}__add"), json!({"a": 123_000 + at, "b": 450}));
        let tool = |tool: &str| format!("mcp__{name}__{tool}");
        others = others.and_tool(&tool("nothing"), json!({})).and_tool(&tool("fails"), json!({}));
    }
    let script = coder(vec![adding, others, ScriptStep::say("Done.")]);
    let mut team = Setup::new(script);
    for (name, image) in images {
        team = team.image(&name, image);
    }
    let team = with_servers(team, servers).start().await;
    let root = team.servers_wake().await;
    let shown = team.coder_works(&root).await;
    for at in 0..names.len() {
        let sum = (123_450 + at).to_string();
        assert!(shown.contains(&sum), "{sum}: {shown}");
    }
    let failed = shown.matches("Error: the server says that this failed.").count();
    assert_eq!(failed, names.len(), "{shown}");
    assert!(shown.contains("out of cheese"), "the older version tells why: {shown}");
    assert_eq!(team.server_pods().await.len(), 2, "those over HTTP have none");
    team.stop().await;
}
