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
    // All targets of the workspace: for one program alone, dependencies have other features and are built once more.
    build.current_dir(root).args(["build", "--quiet", "--locked", "--workspace", "--all-targets"]);
    // Cargo sets these for a program that it starts. With them ring is built anew, and all that depends on it.
    for (variable, _) in std::env::vars_os() {
        let named = variable.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|begin| named.starts_with(begin)) {
            build.env_remove(&variable);
        }
    }
    let status = build.status().context("starting cargo")?;
    ensure!(status.success(), "`{name}` can't be built: cargo says why");
    let program = folder.join(name);
    ensure!(program.exists(), "cargo has built `{name}` elsewhere than in {}", folder.display());
    Ok(program)
}
