//! Grep and Glob on a large real tree, beside ripgrep on the same one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use codebutler_agent::toolbox::search::bench;

use super::{MeasuredFigure, long_or_short};

/// Times that each is measured, in turns; the best of each counts.
const ROUNDS: usize = long_or_short(9, 1);
/// Files that make a tree a large one.
const LARGE: usize = long_or_short(20_000, 500);
/// Search patterns: one is looked for everywhere and found in a few places.
const PATTERN: &str = r"unsafe impl<T: \w+> S\w+ for";
const GLOB: &str = "*.toml";
const RIPGREP: &str = "^15";

/// Measures both searches as ratios to ripgrep's.
pub(super) fn measure_search() -> anyhow::Result<Vec<MeasuredFigure>> {
    let tree = sources_tree()?;
    let ripgrep = find_ripgrep();
    // As the tools do: hidden files too, .gitignore without a repository, nothing of the user's own.
    let common =
        ["--no-config", "--hidden", "--no-require-git", "--no-ignore-global", "-g", "!.git"];
    let rg = |more: &[&str]| -> anyhow::Result<usize> {
        let output = Command::new(&ripgrep)
            .args(common)
            .args(more)
            .current_dir(&tree)
            .stdin(Stdio::null())
            .output()
            .context("ripgrep")?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().count())
    };
    let files = rg(&["--files"])?;
    ensure!(files >= LARGE, "{} has only {files} files", tree.display());
    let grep =
        best_times(|| bench::grep(&tree, PATTERN).map(drop), || rg(&["-n", PATTERN]).map(drop))?;
    let glob = best_times(
        || bench::glob(&tree, GLOB).map(drop),
        || rg(&["--files", "-g", GLOB]).map(drop),
    )?;
    Ok(vec![
        MeasuredFigure::ratio("search.grep", grep.0, grep.1, 1.2),
        MeasuredFigure::ratio("search.glob", glob.0, glob.1, 1.2),
    ])
}

/// Milliseconds of the fastest round of each, in turns so that both see the same machine.
fn best_times<E: std::error::Error + Send + Sync + 'static>(
    mut own: impl FnMut() -> Result<(), E>,
    mut other: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(f64, f64)> {
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        own()?;
        best.0 = best.0.min(started.elapsed().as_secs_f64() * 1e3);
        let started = Instant::now();
        other()?;
        best.1 = best.1.min(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// The sources of the crates that this was built from, or what `CODEBUTLER_TREE` names.
fn sources_tree() -> anyhow::Result<PathBuf> {
    if let Some(tree) = std::env::var_os("CODEBUTLER_TREE") {
        return Ok(tree.into());
    }
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
    ensure!(sources.is_dir(), "there are no sources in {}: set CODEBUTLER_TREE", sources.display());
    Ok(sources)
}

/// ripgrep 15, installed by cargo where it is not there yet; the system's where that fails.
#[allow(clippy::print_stderr, reason = "it can take a while, and says what is compared with")]
fn find_ripgrep() -> PathBuf {
    let root = Path::new(codebutler_testbed::FOLDER).join("../target/tools/ripgrep");
    let program = root.join("bin/rg");
    if !program.is_file() {
        eprintln!("search: installing ripgrep {RIPGREP} below target/");
        let done = Command::new("cargo")
            .args(["install", "--quiet", "--locked", "--root"])
            .arg(&root)
            .args(["--version", RIPGREP, "ripgrep"])
            .status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("search: that failed: comparing with the system's rg");
            return "rg".into();
        }
    }
    program
}
