//! The proxy that many teams have: litellm's, from PyPI, where Python and the network allow it.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::process::{Child, Command};

use super::super::SHORT;
use super::CallingClient;
use super::bed::MODEL;
use super::provider::{KEY, LocalProvider};
use crate::figures::memory;
use codebutler_testbed::pytools::ensure_venv;

const PACKAGES: &[&str] = &["litellm[proxy]==1.106.2"];
/// Timeout of the start, which imports many packages.
const START: Duration = Duration::from_mins(2);

/// A running proxy, with one worker and nothing to keep books in.
pub(super) struct LitellmProxy {
    child: Child,
    _dir: tempfile::TempDir,
    /// Client with URL and key of the proxy.
    pub line: Arc<CallingClient>,
}

impl LitellmProxy {
    /// Starts the proxy; `None`, with a line for the reader, where it can't be had.
    pub(super) async fn start(provider: &LocalProvider) -> Option<Self> {
        if SHORT {
            return None;
        }
        match Self::try_start(provider).await {
            Ok(running) => Some(running),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "no litellm to compare with: {error:#}");
                None
            }
        }
    }

    async fn try_start(provider: &LocalProvider) -> anyhow::Result<Self> {
        let venv = tokio::task::spawn_blocking(|| ensure_venv(PACKAGES)).await??;
        let dir = tempfile::tempdir()?;
        let config = dir.path().join("litellm.yaml");
        // JSON is YAML too.
        let params = json!({
            "model": format!("openai/{MODEL}"), "api_base": provider.url(), "api_key": KEY,
        });
        let models = json!([{"model_name": MODEL, "litellm_params": params}]);
        let general = json!({"master_key": "sk-figures"});
        let text = json!({"model_list": models, "general_settings": general}).to_string();
        std::fs::write(&config, text)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port().to_string();
        let log = std::fs::File::create(dir.path().join("log"))?;
        let child = Command::new(venv.join("bin/litellm"))
            .arg("--config")
            .arg(&config)
            .args(["--host", "127.0.0.1", "--port", &port, "--num_workers", "1"])
            .args(["--telemetry", "False"])
            .env("LITELLM_LOG", "ERROR")
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("HOME", dir.path())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let line = CallingClient {
            client: reqwest::Client::new(),
            url: format!("http://127.0.0.1:{port}/v1/chat/completions"),
            tokens: vec!["sk-figures".to_owned()],
            calls: AtomicUsize::default(),
        };
        let running = Self { child, _dir: dir, line: Arc::new(line) };
        let deadline = Instant::now() + START;
        while let Err(error) = running.line.timed().await {
            ensure!(Instant::now() < deadline, "it does not answer: {error:#}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(running)
    }

    /// The most memory that it ever had in use, in MiB.
    pub(super) fn peak_memory(&self) -> anyhow::Result<f64> {
        memory::peak_memory(self.child.id().context("litellm is gone")?)
    }
}
