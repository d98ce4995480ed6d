//! The edit tools that others have: `apply_patch` of Codex, which its program offers without a model, and `edit`
//! of opencode, called by a scripted model.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use codebutler_testbed::models::{ModelOptions, ModelScript, ModelServer, ScriptStep};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use super::super::SHORT;
use super::super::agent::opencode::{OpencodeHome, find_program};
use super::{EditScore, EditTrial, count_score, lay_out};

const CODEX: &str = "@openai/codex@0.171.0";
/// Timeout of one patch, or of a whole conversation, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);
/// Files that are read, and then edited, in one answer of the scripted model.
const AT_ONCE: usize = 25;

/// Scores Codex; `None`, with a line for the reader, where it can't be had.
pub(super) async fn patch_with_codex(trials: &[EditTrial]) -> Option<EditScore> {
    if SHORT {
        return None;
    }
    let scored = async {
        let program = tokio::task::spawn_blocking(find_codex).await??;
        let dir = tempfile::tempdir()?;
        lay_out(trials, dir.path())?;
        for trial in trials {
            let patched = Command::new(&program)
                .arg("--codex-run-as-apply-patch")
                .arg(trial.patch())
                .current_dir(dir.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .status();
            timeout(PATIENCE, patched).await.context("a patch takes too long")??;
        }
        let score = count_score(trials, dir.path())?;
        ensure!(score.done > 0, "its program applies no patch");
        Ok(score)
    };
    or_say("Codex", scored.await)
}

/// Scores opencode; `None`, with a line for the reader, where it can't be had or does not work.
pub(super) async fn edit_with_opencode(trials: &[EditTrial]) -> Option<EditScore> {
    if SHORT {
        return None;
    }
    let scored = async {
        let program = tokio::task::spawn_blocking(find_program).await??;
        timeout(PATIENCE, Box::pin(hold_edits(&program, trials)))
            .await
            .context("it takes too long")?
    };
    or_say("opencode", scored.await)
}

fn or_say(name: &str, scored: anyhow::Result<EditScore>) -> Option<EditScore> {
    match scored {
        Ok(score) => Some(score),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "no {name} to compare with: {error:#}");
            None
        }
    }
}

async fn hold_edits(program: &Path, trials: &[EditTrial]) -> anyhow::Result<EditScore> {
    let dir = tempfile::tempdir()?;
    let home = OpencodeHome { program, dir: dir.path() };
    let path = |trial: &EditTrial| home.work().join(&trial.name).display().to_string();
    let mut steps = Vec::new();
    for some in trials.chunks(AT_ONCE) {
        let mut read = ScriptStep::default();
        let mut edit = ScriptStep::default();
        for trial in some {
            read = read.and_tool("read", json!({"filePath": path(trial)}));
            let words = json!({
                "filePath": path(trial), "oldString": trial.old, "newString": trial.new,
            });
            edit = edit.and_tool("edit", words);
        }
        steps.extend([read, edit]);
    }
    steps.push(ScriptStep::say("finished"));
    let script = ModelScript::of(OpencodeHome::MODEL, steps)
        .and(OpencodeHome::TITLES, vec![ScriptStep::say("figures")]);
    let models = ModelServer::start(script, ModelOptions::default()).await?;
    home.furnish(&models).await?;
    lay_out(trials, &home.work())?;
    let mut running = home.say(&["--title", "figures", "edit"])?;
    home.ended(&mut running).await?;
    let score = count_score(trials, &home.work())?;
    ensure!(score.done > 0, "it edits nothing");
    Ok(score)
}

/// The program of Codex, installed below `target/` where it is not there yet.
fn find_codex() -> anyhow::Result<PathBuf> {
    let root = Path::new(codebutler_testbed::FOLDER).join("../target/tools/codex");
    if let Some(program) = codex_program(&root) {
        return Ok(program);
    }
    let _ = writeln!(std::io::stderr(), "edits: installing {CODEX} below target/");
    std::fs::create_dir_all(&root)?;
    let done = std::process::Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&root)
        .arg(CODEX)
        .stdin(Stdio::null())
        .status()
        .context("starting npm")?;
    ensure!(done.success(), "npm can't install {CODEX}");
    codex_program(&root).context("npm brings no program for this machine")
}

fn codex_program(root: &Path) -> Option<PathBuf> {
    let (package, target) = match std::env::consts::ARCH {
        "x86_64" => ("codex-linux-x64", "x86_64-unknown-linux-musl"),
        "aarch64" => ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
        _ => return None,
    };
    let folder = root.join("node_modules/@openai").join(package).join("vendor").join(target);
    Some(folder.join("bin/codex")).filter(|program| program.is_file())
}
