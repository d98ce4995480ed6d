//! The product's own programs, in release mode linked as they are in their images: what a process of
//! them needs is not to be measured with a program that holds the testbed too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Builds the package's program of the same name, and answers where it is.
///
/// # Errors
/// When cargo can't build it, or builds it elsewhere than this program.
pub(super) fn build_program(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("a program without a folder")?;
    let root =
        Path::new(codebutler_testbed::FOLDER).parent().context("a crate without a folder")?;
    if folder.ends_with("release") {
        let built = Command::new(root.join(".ci/binaries")).arg(name).output()?;
        let said = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "`{name}` can't be built: {said}");
        return Ok(root.join(String::from_utf8(built.stdout)?.trim()).join(name));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // The workspace, so that all is as the tests were built.
    build.current_dir(root).args(["build", "--quiet", "--locked", "--workspace", "--bin", name]);
    let status = build.status().context("starting cargo")?;
    ensure!(status.success(), "`{name}` can't be built: cargo says why");
    let program = folder.join(name);
    ensure!(program.exists(), "cargo has built `{name}` elsewhere than in {}", folder.display());
    Ok(program)
}
