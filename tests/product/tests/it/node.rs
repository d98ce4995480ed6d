//! Packages from npm for tests, installed once and kept below `target/`.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The folder whose `node_modules` has these packages (`name@version`). Without npm, or a registry, it says so in one
/// line.
pub(crate) fn ensure_packages(packages: &[&str]) -> Option<PathBuf> {
    let found = install_packages(packages);
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: npm brings no {}", packages.join(" "));
    }
    found
}

fn install_packages(packages: &[&str]) -> Option<PathBuf> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = packages.join(" ").chars().map(plain).collect();
    let root = Path::new(codebutler_testbed::FOLDER).join("../target/tools").join(name);
    fs::create_dir_all(&root).ok()?;
    let lock = File::create(root.join("lock")).ok()?;
    lock.lock().ok()?;
    let ready = root.join("ready");
    if ready.exists() {
        return Some(root);
    }
    let done = Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&root)
        .args(packages)
        .stdin(Stdio::null())
        .status();
    done.ok().filter(ExitStatus::success)?;
    fs::write(ready, packages.join("\n")).ok()?;
    Some(root)
}
