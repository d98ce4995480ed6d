//! The bench's part of the command line.

pub(crate) mod arms;
pub(crate) mod wishes;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use codebutler_crds::NanoUsd;

use self::arms::BenchArm;
use self::wishes::{MarkedWords, TrialSetting};

/// What is measured, and how often.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "A measure of the team (tests/bench/README.md)")]
pub struct BenchArgs {
    /// Let the team fix the bugs in this folder's tasks, and measure how that goes.
    #[arg(long, value_name = "DIR", group = "played", conflicts_with_all = ["scenario", "repo", "state"])]
    pub bench: Option<PathBuf>,
    /// Tasks by id, such as `parse-*`; several with commas. With real models all if absent, with the
    /// script the few that say `ci: true`.
    #[arg(long, value_name = "GLOB", value_delimiter = ',', requires = "bench")]
    pub tasks: Vec<String>,
    /// How often each task is given to each model.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "bench", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Keep results, transcripts and patches in this folder. Started again with it, a bench goes on
    /// where it was.
    #[arg(long, value_name = "DIR", requires = "bench")]
    pub out: Option<PathBuf>,
    /// US dollars for everything: no task is begun that could cost more than what is left.
    #[arg(long, value_name = "USD", requires = "bench", value_parser = NanoUsd::parse)]
    pub budget: Option<NanoUsd>,
    /// Whether repositories come with what was learned about them before (a task's `memory/`).
    #[arg(long, value_name = "ON_OR_OFF", default_value = "on", requires = "bench")]
    pub memory: MemoryMode,
    /// An arm of an experiment, several times: all take turns at the same task. `now`, `keys-sorted`,
    /// `edits-plain`, `limits-late`, `voice-old`, `compaction-old`, or another build of this program as
    /// `NAME=PROGRAM`.
    #[arg(long, value_name = "ARM", requires = "bench")]
    pub arm: Vec<BenchArm>,
    /// A message that the person writes in the middle of the work, once the plan is approved. What it has
    /// in backticks is looked for in plans, messages and the change.
    #[arg(long, value_name = "TEXT", requires = "bench")]
    pub interject: Option<MarkedWords>,
    /// A rule that the person writes above the issue. What it has in backticks is looked for in the change.
    #[arg(long, value_name = "TEXT", requires = "bench")]
    pub rule: Option<MarkedWords>,
    /// Tokens that each role's model is shown at most: a longer conversation is summed up.
    #[arg(long, value_name = "TOKENS", requires = "bench", value_parser = clap::value_parser!(u32).range(8000..))]
    pub window: Option<u32>,
    /// Seconds in which nothing happens before the person writes again; 30 if absent, and 6 where the script plays, which
    /// never thinks.
    #[arg(long, value_name = "SECONDS", requires = "bench", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub patience: Option<u32>,
    /// Repositories come with files that forge the voice of the system and ask for something that the scan
    /// looks for.
    #[arg(long, requires = "bench")]
    pub forge: bool,
    /// Check the tasks themselves instead of a team.
    #[arg(long, requires = "bench", conflicts_with_all = ["runs", "out", "budget"])]
    pub validate: bool,
    /// What the scripted coder does, where no model is asked: for tests of the bench.
    #[arg(long, value_name = "SOLVER", default_value = "oracle", hide = true)]
    pub solver: ScriptedSolver,
}

/// With or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryMode {
    /// With it.
    On,
    /// Without it.
    Off,
}

/// What a scripted coder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScriptedSolver {
    /// Applies the patch between both releases.
    Oracle,
    /// Writes something that has nothing to do with it.
    Wrong,
    /// Looks for the newer release and the hidden tests, and takes the package's own tests away.
    Cheat,
}

impl BenchArgs {
    /// The folder with the tasks, if this is a bench.
    #[must_use]
    pub fn tasks_folder(&self) -> Option<&Path> {
        self.bench.as_deref()
    }

    /// Words of the person besides the issue, the window of the models, and the repository's voices.
    #[must_use]
    pub(crate) fn setting(&self) -> TrialSetting {
        TrialSetting {
            interject: self.interject.clone(),
            rule: self.rule.clone(),
            window: self.window,
            forges: self.forge,
            patience: self.patience,
        }
    }

    /// True if one of the given patterns names the task.
    #[must_use]
    pub fn names(&self, id: &str) -> bool {
        self.tasks.iter().any(|glob| fits_glob(glob.trim(), id))
    }
}

/// Matches a pattern in which `*` stands for any text.
fn fits_glob(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, text, expected) in [
            ("*", "parse-1", true),
            ("parse-1", "parse-1", true),
            ("parse-1", "parse-12", false),
            ("parse-*", "parse-12", true),
            ("*-1*", "parse-12", true),
            ("*-1", "parse-12", false),
            ("p*s*2", "parse-12", true),
            ("q*", "parse-12", false),
            ("", "parse-12", false),
        ] {
            assert_eq!(fits_glob(glob, text), expected, "{glob} {text}");
        }
    }
}
