//! Servers that are installed for tests, and how they are started.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use codebutler_mcp::{
    EventStream, McpError, ServerLink, ServerSession, SessionEvent, SessionSetup,
};
use codebutler_testbed::nodetools::{MCP_SERVERS, NodeToolsError, ensure_modules};
use codebutler_testbed::pytools::{PyToolsError, ensure_venv};
use tokio::process::{Child, Command};

use super::dialer::LocalDialer;

/// A command of an official server; none where the machine has no node.
pub(crate) async fn node_server(name: &str) -> Option<Command> {
    node_script(&format!("server-{name}/dist/index.js")).await
}

/// A script of the installed packages; none where the machine has no node.
pub(crate) async fn node_script(path: &str) -> Option<Command> {
    let modules = match tokio::task::spawn_blocking(|| ensure_modules(MCP_SERVERS)).await.unwrap() {
        Ok(modules) => modules,
        Err(NodeToolsError::NoNode) => {
            eprintln!("skipped: no node with npm on this machine");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut command = Command::new("node");
    command.arg(modules.join("@modelcontextprotocol").join(path));
    Some(command)
}

/// A Python with this version of the SDK; none where the machine has no Python.
pub(crate) async fn python_with(package: &'static str) -> Option<PathBuf> {
    match tokio::task::spawn_blocking(move || ensure_venv(&[package])).await.unwrap() {
        Ok(venv) => Some(venv.join("bin/python")),
        Err(PyToolsError::NoPython) => {
            eprintln!("skipped: no python3 with venv on this machine");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Starts a server behind a pipe.
pub(crate) fn start_piped(mut command: Command) -> (Child, ServerLink) {
    let command = command.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let errors = Some(Box::new(child.stderr.take().unwrap()) as _);
    let reader = Box::new(child.stdout.take().unwrap());
    let writer = Box::new(child.stdin.take().unwrap());
    (child, ServerLink::Pipe { reader, writer, errors })
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server that listens on `PORT` and opens a session as soon as it answers.
pub(crate) async fn open_http(
    mut command: Command,
    path: &str,
    setup: &SessionSetup,
) -> (Child, Arc<LocalDialer>, ServerSession, EventStream) {
    let port = free_port();
    let command = command.kill_on_drop(true).env("PORT", port.to_string());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let dialer = LocalDialer::new();
    for _ in 0..600 {
        let url = format!("http://127.0.0.1:{port}{path}").parse().unwrap();
        let link =
            ServerLink::Http { dialer: dialer.clone(), url, headers: http::HeaderMap::new() };
        match ServerSession::open(link, setup.clone()).await {
            Ok((session, events)) => return (child, dialer, session, events),
            Err(McpError::Unreachable(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the server does not listen");
}

pub(crate) fn setup() -> SessionSetup {
    SessionSetup {
        client_name: "codebutler".into(),
        client_version: "1".into(),
        ..SessionSetup::default()
    }
}

/// Reads events until the wanted one comes.
pub(crate) async fn wait_for(events: &mut EventStream, wanted: &SessionEvent) {
    let waiting = async {
        while let Some(event) = events.next().await {
            if event == *wanted {
                return;
            }
        }
        panic!("the session ended before {wanted:?}");
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("event in time");
}
