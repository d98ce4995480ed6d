//! Set-up: what prepares a worktree before commands of a role are run in it. Once for each volume,
//! and again when the command or a lock file has changed.
//!
//! How it ended is kept beside the worktree, where commands can't write; a set-up that was cut off
//! has not ended, and one that failed is tried again by the next run.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codebutler_guides::pins::PINS;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::command::CommandShell;
use super::environment::CommandEnvironment;
use super::exclude::exclude_paths;
use super::git::control::read_plain;
use super::platform::{self, MADE};
use super::protocol::{SetUp, SetUpEnd};
use super::{ToolError, modes};

/// Largest file that is looked into, in bytes.
const MAX_FILE: u64 = 32 * 1024 * 1024;
/// Longest output that is kept, in bytes.
const MAX_LOG: usize = 16 * 1024 * 1024;
/// Last lines that are told, and how long each may be.
const TOLD_LINES: usize = 15;
const TOLD_CHARS: usize = 300;
/// Interval at which the set-up of another pod is polled.
const LOOK: Duration = Duration::from_millis(200);

pub(super) struct ToolboxSite {
    /// The toolbox' part of the volume.
    pub work: PathBuf,
    /// The worktree, or the role's copy of it.
    pub tree: PathBuf,
    /// The repository's own folder.
    pub git: PathBuf,
    pub environment: CommandEnvironment,
}

#[derive(Serialize, Deserialize)]
struct KeptSetup {
    fingerprint: String,
    ended: SetUpEnd,
}

impl ToolboxSite {
    /// The file with the whole output.
    fn log(&self) -> PathBuf {
        self.environment.build().join("setup.log")
    }

    fn marker(&self) -> PathBuf {
        self.work.join(".setup.json")
    }

    /// A file at the top of the worktree. Links are left alone.
    fn file(&self, name: &str) -> Option<Vec<u8>> {
        read_plain(&self.tree.join(name), MAX_FILE)
    }

    fn fingerprint(&self, command: &str, from: &[&str]) -> String {
        let mut sum = Sha256::new_with_prefix(command);
        for name in PINS.iter().chain(from) {
            if let Some(bytes) = self.file(name) {
                sum.update(format!("\0{name}\0{}\0", bytes.len()));
                sum.update(bytes);
            }
        }
        hex::encode(sum.finalize())
    }

    fn kept(&self) -> Option<KeptSetup> {
        serde_json::from_slice(&fs::read(self.marker()).ok()?).ok()
    }

    /// Replaced as a whole, so that a kill leaves the old or the new.
    fn keep(&self, kept: &KeptSetup) -> Result<(), ToolError> {
        let next = self.work.join(".setup.next");
        let bytes = serde_json::to_vec(kept).unwrap_or_default();
        fs::write(&next, bytes)
            .and_then(|()| fs::rename(&next, self.marker()))
            .map_err(|e| ToolError::Failed(format!("the volume can't be written: {e}")))
    }

    /// Plans the set-up, with the result of its last run if that was the same. `command` is the Repo's own.
    pub(super) fn plan(&self, command: Option<&str>) -> Option<SetUp> {
        let own = command.map(|command| (command.to_owned(), Vec::new(), Vec::new()));
        let found = || {
            let found = platform::find_platform(&|name| self.file(name))?;
            Some((found.command, found.from, found.programs))
        };
        let (command, from, programs) = own.or_else(found)?;
        let fingerprint = self.fingerprint(&command, &from);
        let kept = self.kept().filter(|kept| kept.fingerprint == fingerprint);
        let missing = programs.into_iter().find(|name| self.environment.program(name).is_none());
        Some(SetUp {
            command,
            from: from.into_iter().map(str::to_owned).collect(),
            fingerprint,
            log: self.log().display().to_string(),
            missing: missing.map(str::to_owned),
            ended: kept.map(|kept| kept.ended),
        })
    }

    /// Runs a planned set-up for at most `seconds`, unless another pod has done it meanwhile.
    pub(super) async fn perform(
        &self,
        shell: &Arc<CommandShell>,
        plan: &SetUp,
        seconds: u32,
    ) -> Result<SetUp, ToolError> {
        let _lock = self.alone().await?;
        if let Some(kept) = self.kept()
            && kept.fingerprint == plan.fingerprint
            && kept.ended.is_success()
        {
            return Ok(SetUp { ended: Some(kept.ended), ..plan.clone() });
        }
        if !plan.from.is_empty() {
            exclude_paths(&self.git, &MADE);
        }
        let mut log = self.fresh_log()?;
        let mut room = MAX_LOG;
        let ran = shell
            .run_into(&self.tree, &self.environment, &plan.command, seconds, |bytes| {
                let part = &bytes[..bytes.len().min(room)];
                room -= part.len();
                let _ = log.write_all(part);
            })
            .await?;
        let _ = writeln!(log, "{}", ran.verdict);
        let ended = SetUpEnd {
            code: ran.code,
            seconds: ran.seconds,
            verdict: ran.verdict.trim_matches(['[', ']']).to_owned(),
            tail: output_tail(&ran.output),
            refused: Vec::new(),
            told: false,
        };
        // The fingerprint is of the files as they are now: a set-up may write its own lock file.
        let from: Vec<&str> = plan.from.iter().map(String::as_str).collect();
        let fingerprint = self.fingerprint(&plan.command, &from);
        self.keep(&KeptSetup { fingerprint: fingerprint.clone(), ended: ended.clone() })?;
        Ok(SetUp { fingerprint, ended: Some(ended), ..plan.clone() })
    }

    /// Takes down that people know, and what the gateway had refused.
    pub(super) fn told(&self, plan: &SetUp, ended: SetUpEnd) -> Result<(), ToolError> {
        if !ended.refused.is_empty()
            && let Ok(mut log) = self.open_log(OFlag::O_APPEND)
        {
            for refused in &ended.refused {
                let _ = writeln!(log, "[refused by the gateway: {refused}]");
            }
        }
        let ended = SetUpEnd { told: true, ..ended };
        self.keep(&KeptSetup { fingerprint: plan.fingerprint.clone(), ended })
    }

    /// Locks the set-up, for one pod of the Thread at a time. The lock ends with the process.
    async fn alone(&self) -> Result<File, ToolError> {
        let path = self.work.join(".setup.lock");
        let fail = |e: std::io::Error| {
            ToolError::Failed(format!("{} can't be locked: {e}", path.display()))
        };
        let file = modes::with_rights(&path, || File::create(&path)).map_err(fail)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
                Err(fs::TryLockError::Error(error)) => return Err(fail(error)),
            }
        }
    }

    /// The old one goes first: commands can put a link in its place.
    fn fresh_log(&self) -> Result<File, ToolError> {
        let _ = fs::remove_file(self.log());
        let fail = |e| ToolError::Failed(format!("{} can't be written: {e}", self.log().display()));
        self.open_log(OFlag::O_CREAT | OFlag::O_EXCL).map_err(fail)
    }

    fn open_log(&self, flags: OFlag) -> std::io::Result<File> {
        let flags = (flags | OFlag::O_NOFOLLOW).bits();
        OpenOptions::new().write(true).custom_flags(flags).mode(0o644).open(self.log())
    }
}

/// Returns true if a path that a model names is in the toolbox' own folder beside the worktree: read-only to tools.
pub(super) fn is_beside(path: &str, build: &Path) -> bool {
    let path = Path::new(path);
    path.starts_with(build) || build.canonicalize().is_ok_and(|build| path.starts_with(build))
}

fn output_tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(TOLD_LINES)..];
    last.iter()
        .map(|line| codebutler_guides::text::clip_text(line, TOLD_CHARS))
        .collect::<Vec<_>>()
        .join("\n")
}
