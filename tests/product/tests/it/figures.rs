//! The figures that are quick in a short form run: a debug build plays them and compares nothing with a limit.

use std::process::Stdio;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tokio::process::Command;

/// Longer is a hang: other tests take most of the machine meanwhile.
const LIMIT: Duration = Duration::from_mins(15);
/// Figures that take seconds and install nothing. The others need a release build and a quiet machine: `.ci/figures`.
const QUICK: [&str; 6] = ["ingest", "memory", "redact", "snapshot", "wake", "worktree"];
/// Figures at the same time: each starts processes of its own.
const AT_ONCE: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn quick_figures_measure_something() {
    let wrong: Vec<String> = futures::stream::iter(QUICK)
        .map(measure)
        .buffer_unordered(AT_ONCE)
        .filter_map(async |outcome| outcome.err())
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn measure(name: &str) -> Result<(), String> {
    let running = Command::new(env!("CARGO_BIN_EXE_figures"))
        .arg(name)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let Ok(output) = tokio::time::timeout(LIMIT, running).await else {
        return Err(format!("{name} takes longer than {LIMIT:?}"));
    };
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let figures: Vec<Value> = out.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let finite = |figure: &Value| figure["value"].as_f64().is_some_and(f64::is_finite);
    if figures.is_empty() || !figures.iter().all(finite) {
        return Err(format!("{name} does not measure: {out}\n{err}"));
    }
    Ok(())
}
