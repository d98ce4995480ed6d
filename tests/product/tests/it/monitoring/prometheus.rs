//! A Prometheus of the test's own, from the system's package (Debian: `prometheus`).

use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::support::PATIENCE;

fn missing(program: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "skipped: there is no {program} (Debian: apt-get install --no-install-recommends prometheus)"
    );
}

/// Runs `promtool`; nothing where there is none, said in a line.
pub(super) fn promtool(arguments: &[&str], file: &Path) -> Option<Output> {
    let output = std::process::Command::new("promtool").args(arguments).arg(file).output();
    match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            missing("promtool");
            None
        }
        output => Some(output.unwrap()),
    }
}

/// A running Prometheus. Ends when dropped.
pub(super) struct Prometheus {
    url: String,
    http: reqwest::Client,
    targets: usize,
    _child: Child,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes the targets every second, at an address that is theirs alone; nothing where there is
    /// no Prometheus, said in a line.
    pub(super) async fn start(targets: &[SocketAddr], rules: &Path) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let address = SocketAddr::new(targets[0].ip(), 9090);
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [
                {"job_name": "codebutler", "static_configs": [{"targets": targets}]},
            ],
        });
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let child = match child {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                missing("prometheus");
                return None;
            }
            child => child.unwrap(),
        };
        let (url, http) = (format!("http://{address}"), reqwest::Client::new());
        let new = Self { url, http, targets: targets.len(), _child: child, _dir: dir };
        new.until_up().await;
        Some(new)
    }

    /// Returns the result of an instant query at this moment.
    pub(super) async fn query(&self, query: &str) -> Vec<Value> {
        let answer = self.ask(query).await.unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// The first answer that is not empty. A rate has none before its second scrape, and a busy
    /// machine leaves scrapes out.
    pub(super) async fn query_until_answered(&self, query: &str) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.query(query).await;
            if !answer.is_empty() {
                return answer;
            }
            assert!(Instant::now() < deadline, "no data: {query}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ask(&self, query: &str) -> reqwest::Result<Value> {
        let url = format!("{}/api/v1/query", self.url);
        let request = self.http.get(url).query(&[("query", query)]);
        request.send().await?.json().await
    }

    /// Waits until every target was scraped again: what happened before is known.
    pub(super) async fn scraped_again(&self) {
        let now = jiff::Timestamp::now().as_millisecond();
        #[allow(clippy::cast_precision_loss)]
        let later = now as f64 / 1000.0 + 1.0;
        self.until(&format!("timestamp(up) > {later}")).await;
    }

    async fn until_up(&self) {
        self.until("up == 1").await;
    }

    async fn until(&self, query: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(query).await.unwrap_or_default();
            let found = answer["data"]["result"].as_array().map_or(0, Vec::len);
            if found == self.targets {
                return;
            }
            assert!(Instant::now() < deadline, "Prometheus never saw {query}: {answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
