//! What Lighthouse says of a page as a phone meets it, from 0 to 100.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::process::Command;

/// The newest that runs on Node 20.
const PACKAGE: &str = "lighthouse@12.8.2";
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long npm and a look at a page may take.
const PATIENCE: Duration = Duration::from_mins(4);

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageScores {
    pub accessibility: f64,
    pub best_practices: f64,
    pub performance: f64,
}

/// Lighthouse and the browser that it looks with.
pub(super) struct Lighthouse {
    script: PathBuf,
    browser: PathBuf,
}

impl Lighthouse {
    /// Without npm, a registry or a browser it says so in one line.
    ///
    /// # Errors
    /// When npm can't be waited for.
    pub(super) async fn find() -> anyhow::Result<Option<Self>> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&folders).collect();
        let all = BROWSERS.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
        let Some(browser) = all.into_iter().find(|path| path.exists()) else {
            let _ = writeln!(std::io::stderr(), "skipped: no chromium for Lighthouse");
            return Ok(None);
        };
        let Some(script) = install_lighthouse().await? else {
            let _ = writeln!(std::io::stderr(), "skipped: npm brings no {PACKAGE}");
            return Ok(None);
        };
        Ok(Some(Self { script, browser }))
    }

    /// Looks at a page. Only of `localhost` does a browser believe without TLS what it believes of a page with it.
    ///
    /// # Errors
    /// When Lighthouse gives no answer.
    pub(super) async fn score(&self, at: SocketAddr, path: &str) -> anyhow::Result<PageScores> {
        let flags = format!(
            "--chrome-flags=--headless --no-sandbox --disable-gpu --host-resolver-rules=\"MAP localhost {}\"",
            at.ip()
        );
        let looking = Command::new("node")
            .arg(&self.script)
            .arg(format!("http://localhost:{}{path}", at.port()))
            .args(["--quiet", "--output=json", "--output-path=stdout"])
            .arg("--only-categories=accessibility,best-practices,performance")
            .arg(flags)
            .env("CHROME_PATH", &self.browser)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output();
        let looked =
            tokio::time::timeout(PATIENCE, looking).await.context("Lighthouse hangs")??;
        ensure!(looked.status.success(), "Lighthouse ended with {}", looked.status);
        let report: Value = serde_json::from_slice(&looked.stdout)?;
        let scores = read_scores(&report).with_context(|| format!("no scores of {path}"))?;
        for missed in list_missed(&report) {
            let _ = writeln!(std::io::stderr(), "{path}: {missed}");
        }
        Ok(scores)
    }
}

async fn install_lighthouse() -> anyhow::Result<Option<PathBuf>> {
    let root = Path::new(codebutler_testbed::FOLDER).join("../target/tools/lighthouse");
    let script = root.join("node_modules/lighthouse/cli/index.js");
    if script.exists() {
        return Ok(Some(script));
    }
    std::fs::create_dir_all(&root)?;
    let installing = Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&root)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .status();
    let Ok(done) = tokio::time::timeout(PATIENCE, installing).await else { return Ok(None) };
    let is_done = done.is_ok_and(|done| done.success());
    Ok((is_done && script.exists()).then_some(script))
}

fn read_scores(report: &Value) -> Option<PageScores> {
    let score = |name: &str| Some(report["categories"][name]["score"].as_f64()? * 100.0);
    Some(PageScores {
        accessibility: score("accessibility")?,
        best_practices: score("best-practices")?,
        performance: score("performance")?,
    })
}

/// What keeps a page from 100, where it counts.
fn list_missed(report: &Value) -> Vec<String> {
    let categories = report["categories"].as_object().into_iter().flatten();
    let counted = categories.flat_map(|(_, category)| {
        let audits = category["auditRefs"].as_array().into_iter().flatten();
        audits.filter(|audit| audit["weight"].as_f64().is_some_and(|weight| weight > 0.0))
    });
    let missed = counted.filter_map(|counted| {
        let audit = &report["audits"][counted["id"].as_str()?];
        (audit["score"].as_f64()? < 0.9).then(|| audit["title"].as_str().map(str::to_owned))?
    });
    missed.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_read_as_scores_and_what_counts() {
        let audit = |id: &str, weight: u32| json!({"id": id, "weight": weight});
        let report = json!({
            "categories": {
                "accessibility": {"score": 0.9, "auditRefs": [audit("contrast", 7), audit("hint", 0)]},
                "best-practices": {"score": 1, "auditRefs": []},
                "performance": {"score": 0.98, "auditRefs": [audit("paint", 10)]},
            },
            "audits": {
                "contrast": {"score": 0, "title": "Contrast is too low"},
                "hint": {"score": 0, "title": "A hint"},
                "paint": {"score": 0.95, "title": "Paints soon"},
            },
        });
        let scores = read_scores(&report).unwrap();
        assert!((scores.performance - 98.0).abs() < 1e-9 && scores.best_practices >= 100.0);
        assert_eq!(list_missed(&report), ["Contrast is too low"]);
        assert!(read_scores(&json!({})).is_none());
    }
}
