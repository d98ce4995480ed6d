//! A coding agent that many people have: opencode, from npm, where that and the network allow it. The
//! same conversation with the same scripted model, in its usual settings, fetching nothing.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::super::SHORT;
use super::{HISTORY, WINDOW, watch_turns};
use crate::figures::memory;
use codebutler_testbed::models::{ModelOptions, ModelScript, ModelServer, ScriptStep};

const PACKAGE: &str = "opencode-ai@1.18.33";
/// Turns of the conversation: as many as the first window needs.
const TURNS: usize = HISTORY[0] / 2 + WINDOW;
/// Timeout of the whole measurement; on busy machines its start takes long.
const PATIENCE: Duration = Duration::from_mins(3);
/// Time of waiting for the model after which it has settled down, as the agent has when it waits for mail.
const SETTLED: Duration = Duration::from_secs(1);
const MODEL: &str = "opencode";
const TITLES: &str = "titles";

/// Time and memory that opencode needs, in the units of the agent's own figures.
pub(crate) struct OpencodeFigures {
    /// Milliseconds from its start to its first model request, in a conversation that it knows.
    pub start: f64,
    /// MiB while it waits for its model.
    pub idle_memory: f64,
    /// Peak memory in MiB.
    pub peak_memory: f64,
    /// Milliseconds for a turn early in the conversation.
    pub turn: f64,
}

/// Measures opencode; `None`, with a line for the reader, where it can't be had or does not work.
pub(crate) async fn measure_opencode() -> Option<OpencodeFigures> {
    if SHORT {
        return None;
    }
    let measured = async {
        let program = tokio::task::spawn_blocking(find_program).await??;
        timeout(PATIENCE, Box::pin(hold_conversation(&program)))
            .await
            .context("it takes too long")?
    };
    match measured.await {
        Ok(measured) => Some(measured),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "no opencode to compare with: {error:#}");
            None
        }
    }
}

async fn hold_conversation(program: &Path) -> anyhow::Result<OpencodeFigures> {
    let mut steps = vec![ScriptStep::say("ready")];
    let cat = |n| json!({"command": format!("cat README.md # {n}"), "description": "Reads"});
    steps.extend((0..TURNS).map(|n| ScriptStep::tool("bash", cat(n))));
    steps.push(ScriptStep::say("finished"));
    let script = ModelScript::of(MODEL, steps).and(TITLES, vec![ScriptStep::say("figures")]);
    let models = ModelServer::start(script, ModelOptions::default()).await?;
    let served = || models.served().iter().filter(|answer| answer.role == MODEL).count();
    let dir = tempfile::tempdir()?;
    let home = OpencodeHome { program, dir: dir.path() };
    home.furnish(&models).await?;

    models.hold();
    let mut first = home.say(&["--title", "figures", "hello"])?;
    models.held().await;
    tokio::time::sleep(SETTLED).await;
    let idle_memory = memory::resident_memory(first.id().context("it is gone")?)?;
    models.release();
    home.ended(&mut first).await?;
    ensure!(served() == 1, "it asked {} times for one answer", served());

    let born = Instant::now();
    let mut second = home.say(&["--continue", "go on"])?;
    let pid = second.id().context("it is gone")?;
    let watched = watch_turns(&served, 2, TURNS + 2, pid);
    tokio::pin!(watched);
    let watched = tokio::select! {
        watched = &mut watched => watched?,
        // Its last answer may end it before that is seen.
        ended = home.ended(&mut second) => { ended?; watched.await? }
    };
    Ok(OpencodeFigures {
        start: watched.first.duration_since(born).as_secs_f64() * 1e3,
        idle_memory,
        peak_memory: watched.peak,
        turn: watched.turn(HISTORY[0]),
    })
}

/// Installation of opencode, with a repository to work in.
pub(crate) struct OpencodeHome<'a> {
    /// Path of the opencode program.
    pub program: &'a Path,
    /// Everything that it writes is in here.
    pub dir: &'a Path,
}

impl OpencodeHome<'_> {
    /// The model of the conversation.
    pub(crate) const MODEL: &'static str = MODEL;
    /// The model that names conversations.
    pub(crate) const TITLES: &'static str = TITLES;

    /// Makes its repository, and the settings by which it asks `models`.
    pub(crate) async fn furnish(&self, models: &ModelServer) -> anyhow::Result<()> {
        let work = self.work();
        std::fs::create_dir_all(&work)?;
        std::fs::write(work.join("README.md"), "# shop\n")?;
        let identity = ["-c", "user.name=ana", "-c", "user.email=ana@localhost"];
        for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "Begin"]] {
            let mut git = Command::new("git");
            git.args(identity).args(words).current_dir(&work).env("HOME", self.dir);
            ensure!(git.status().await?.success(), "git {} failed", words.join(" "));
        }
        let (model, titles) = (ModelServer::model(MODEL), ModelServer::model(TITLES));
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible", "name": "testbed",
            "options": {"baseURL": models.url(), "apiKey": models.api_key()},
            "models": {model.as_str(): {"name": MODEL}, titles.as_str(): {"name": TITLES}},
        });
        let config = json!({
            "autoupdate": false, "share": "disabled", "permission": {"*": "allow"},
            "model": format!("testbed/{model}"), "small_model": format!("testbed/{titles}"),
            "provider": {"testbed": provider},
        });
        Ok(std::fs::write(self.config(), config.to_string())?)
    }

    /// Folder of the repository that it works in.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    fn config(&self) -> PathBuf {
        self.dir.join("opencode.json")
    }

    /// Starts it with a message.
    pub(crate) fn say(&self, words: &[&str]) -> anyhow::Result<Child> {
        let log = std::fs::File::create(self.dir.join("log"))?;
        let fetches = ["MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD"];
        let still = fetches.map(|what| (format!("OPENCODE_DISABLE_{what}"), OsString::from("1")));
        Ok(Command::new(self.program)
            .args(["run", "--format", "json"])
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir)
            .env("OPENCODE_CONFIG", self.config())
            .envs(still)
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?)
    }

    /// Waits for opencode's exit; an error shows its log.
    pub(crate) async fn ended(&self, child: &mut Child) -> anyhow::Result<()> {
        if child.wait().await?.success() {
            return Ok(());
        }
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        anyhow::bail!("it failed: {}", log.lines().last().unwrap_or_default())
    }
}

/// The program, installed below `target/` where it is not there yet: the one for this machine that
/// starts.
pub(crate) fn find_program() -> anyhow::Result<PathBuf> {
    let root = Path::new(codebutler_testbed::FOLDER).join("../target/tools/opencode");
    if let Some(program) = starting_program(&root) {
        return Ok(program);
    }
    let _ = writeln!(std::io::stderr(), "agent: installing {PACKAGE} below target/");
    std::fs::create_dir_all(&root)?;
    let done = std::process::Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&root)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .status()
        .context("starting npm")?;
    ensure!(done.success(), "npm can't install {PACKAGE}");
    starting_program(&root).context("npm brings no program that starts on this machine")
}

fn starting_program(root: &Path) -> Option<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let packages = ["", "-baseline"].map(|kind| format!("opencode-linux-{arch}{kind}"));
    let paths = packages.map(|name| root.join("node_modules").join(name).join("bin/opencode"));
    let version = PACKAGE.rsplit('@').next()?;
    paths.into_iter().find(|path| {
        let told = std::process::Command::new(path).arg("--version").output();
        told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).trim() == version)
    })
}
