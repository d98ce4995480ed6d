//! Runs a client script in Python, as its users would, in a virtual environment with its packages.

use std::io::Write as _;
use std::time::Duration;

use codebutler_testbed::pytools::{PyToolsError, ensure_venv};

/// Runs `clients/<script>` and fails with what it printed if it does. Without Python on the
/// machine it says so and does nothing.
pub(crate) async fn run(script: &str, packages: &'static [&str], env: &[(&str, String)]) {
    let venv = tokio::task::spawn_blocking(|| ensure_venv(packages)).await.unwrap();
    let venv = match venv {
        Ok(venv) => venv,
        Err(PyToolsError::NoPython) => {
            let _ = writeln!(std::io::stderr(), "skipped: no python3 for {script}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let script = format!("{}/clients/{script}", codebutler_testbed::FOLDER);
    let mut command = tokio::process::Command::new(venv.join("bin/python"));
    command.arg("-B").arg(&script).envs(env.iter().map(|(k, v)| (k, v))).kill_on_drop(true);
    let ran = tokio::time::timeout(Duration::from_mins(2), command.output()).await;
    let output = ran.unwrap_or_else(|_| panic!("{script} did not end")).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}:\n{said}");
}
