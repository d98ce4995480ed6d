//! The official TypeScript client with a server over standard input and output, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const SCRIPT: &str = include_str!("direct.mjs");

/// A running client, whose server ends with it.
pub(super) struct DirectClient {
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// The script of an official server below a folder `node_modules`.
pub(super) fn find_script(modules: &Path, server: &str) -> PathBuf {
    modules.join(format!("@modelcontextprotocol/server-{server}/dist/index.js"))
}

impl DirectClient {
    /// Starts it with the server of this name. `dir` is where its script is written.
    pub(super) fn start(dir: &Path, modules: &Path, server: &str) -> anyhow::Result<Self> {
        let script = dir.join("direct.mjs");
        std::fs::write(&script, SCRIPT)?;
        let link = dir.join("node_modules");
        if !link.exists() {
            std::os::unix::fs::symlink(modules, &link)?;
        }
        // Only the server of files takes an argument: the folder that it serves.
        let folder = (server == "filesystem").then_some(dir);
        let mut child = Command::new("node")
            .arg(&script)
            .arg("node")
            .arg(find_script(modules, server))
            .args(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        Ok(Self { _child: child, input, lines: BufReader::new(output).lines() })
    }

    async fn ask(&mut self, line: &str) -> anyhow::Result<Value> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        let answer = self.lines.next_line().await?.context("the official client has ended")?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Makes one call; its duration in milliseconds.
    pub(super) async fn time_call(&mut self) -> anyhow::Result<f64> {
        self.ask("hello").await?.as_f64().context("the server did not echo")
    }

    /// The server's tools as it describes them.
    pub(super) async fn list_tools(&mut self) -> anyhow::Result<Vec<Value>> {
        let tools: Vec<Value> = serde_json::from_value(self.ask("list").await?)?;
        ensure!(!tools.is_empty(), "a server without tools");
        Ok(tools)
    }
}
