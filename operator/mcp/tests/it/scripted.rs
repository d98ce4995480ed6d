//! A server of our own behind a pipe, which does what a test says.

use codebutler_mcp::{EventStream, ServerLink, ServerSession, SessionSetup};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// Output of a scripted server. Dropping all of its clones ends the server.
#[derive(Clone)]
pub(crate) struct ServerOutput(mpsc::UnboundedSender<Vec<u8>>);

impl ServerOutput {
    pub(crate) fn raw(&self, text: impl Into<Vec<u8>>) {
        let _ = self.0.send(text.into());
    }

    pub(crate) fn line(&self, message: &Value) {
        self.raw(format!("{message}\n"));
    }

    pub(crate) fn result(&self, request: &Value, result: Value) {
        self.line(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

pub(crate) enum Next {
    GoOn,
    End,
}

/// The usual answer to `initialize`.
pub(crate) fn greeting(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "hostile", "version": "1"}})
}

/// Starts a server that greets and leaves everything else to `script`.
pub(crate) fn start(
    script: impl FnMut(&Value, &ServerOutput) -> Next + Send + 'static,
) -> ServerLink {
    let mut script = script;
    start_raw(move |message, output| {
        if message["method"] == "initialize" {
            output.result(message, greeting("2025-06-18"));
            return Next::GoOn;
        }
        script(message, output)
    })
}

/// Starts a server that leaves everything to `script`.
pub(crate) fn start_raw(
    script: impl FnMut(&Value, &ServerOutput) -> Next + Send + 'static,
) -> ServerLink {
    let mut script = script;
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, mut writer) = tokio::io::split(theirs);
    let (sender, mut receiver) = mpsc::unbounded_channel::<Vec<u8>>();
    tokio::spawn(async move {
        let mut lines = BufReader::new(reader).lines();
        let output = ServerOutput(sender);
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            if matches!(script(&message, &output), Next::End) {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(bytes) = receiver.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    });
    let (reader, writer) = tokio::io::split(ours);
    ServerLink::Pipe { reader: Box::new(reader), writer: Box::new(writer), errors: None }
}

/// Opens a session that has to succeed.
pub(crate) async fn open(link: ServerLink, setup: SessionSetup) -> (ServerSession, EventStream) {
    ServerSession::open(link, setup).await.unwrap()
}
