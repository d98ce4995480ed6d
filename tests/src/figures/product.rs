//! The product's own program, as its image has it: what a process of it needs is not to be measured
//! with a program that holds the testbed too.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

const PROGRAM: &str = "codebutler-operator";

/// The operator, built as this program is.
///
/// # Errors
/// When it can't be built.
pub fn operator() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("a program without a folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--locked"]);
    // Both, so that what they share is as it was built for this program.
    build.args(["--package", "codebutler-testbed", "--package", PROGRAM, "--bin", PROGRAM]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().context("starting cargo")?;
    ensure!(status.success(), "`{PROGRAM}` can't be built: cargo says why");
    let program = folder.join(PROGRAM);
    ensure!(program.exists(), "cargo has built `{PROGRAM}` elsewhere than in {}", folder.display());
    Ok(program)
}
