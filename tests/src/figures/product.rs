//! The product's own programs, built as this one is: what a process of them needs is not to be
//! measured with a program that holds the testbed too.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Builds the package's program of the same name, and answers where it is.
///
/// # Errors
/// When cargo can't build it, or builds it elsewhere than this program.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("a program without a folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--locked"]);
    // Both, so that what they share is as it was built for this program.
    build.args(["--package", "codebutler-testbed", "--package", name, "--bin", name]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().context("starting cargo")?;
    ensure!(status.success(), "`{name}` can't be built: cargo says why");
    let program = folder.join(name);
    ensure!(program.exists(), "cargo has built `{name}` elsewhere than in {}", folder.display());
    Ok(program)
}
