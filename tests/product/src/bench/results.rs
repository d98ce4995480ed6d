//! Results, a JSON object a line: what `--json` prints and what `--out` keeps. A bench that was killed
//! goes on where it was; what a trial that never ended has cost counts as its whole budget.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use codebutler_crds::NanoUsd;
use serde::{Deserialize, Serialize};

use super::grade::TestGrade;
use super::person::{ConversationEnd, PersonEffort};
use super::scan::ScanFinding;
use super::traces::TeamHabits;
use crate::bench_args::wishes::WishFate;

/// The file in the folder of results.
const FILE: &str = "results.jsonl";

/// Identity of a trial: no two results have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ResultKey {
    pub task: String,
    /// Digest of the task's content: a task that was changed is another one.
    pub digest: String,
    /// The model, `script` without one.
    pub model: String,
    /// Number of the run, from 1.
    pub run: u32,
    /// True if the repository came with its memory.
    pub memory: bool,
}

/// The outcome of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TrialVerdict {
    /// The bug is gone, and nothing else is.
    Solved,
    /// The bug is still there, or something else broke.
    #[default]
    Unsolved,
    /// Whatever the tests say, the scan found a way around the task.
    Cheated,
    /// The trial could not be played on this machine.
    Skipped,
    /// The bench itself failed.
    Failed,
}

impl TrialVerdict {
    /// True if the outcome says something about the team.
    #[must_use]
    pub(super) const fn counts(self) -> bool {
        matches!(self, Self::Solved | Self::Unsolved | Self::Cheated)
    }

    /// The outcome as a word for people.
    #[must_use]
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Unsolved => "unsolved",
            Self::Cheated => "CHEATED",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// The result of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrialCell {
    /// Identity of the trial.
    #[serde(flatten)]
    pub key: ResultKey,
    /// The arm of an experiment, if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arm: String,
    pub language: String,
    /// Outcome of the trial.
    pub verdict: TrialVerdict,
    /// A sentence, where it is not solved.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// End of the conversation, if it got to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ConversationEnd>,
    /// Number of model calls.
    pub turns: u64,
    /// Seconds from the issue to the end.
    pub seconds: f64,
    /// Exact cost in US dollars.
    pub dollars: NanoUsd,
    /// Model calls and cost by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, RoleShare>,
    /// Effort of the person.
    pub human: PersonEffort,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of tool calls that were wrong in themselves: no such tool, or arguments that don't fit.
    pub tool_errors: u64,
    /// Counts of mistakes on the way and of messages.
    #[serde(flatten)]
    pub habits: TeamHabits,
    /// Outcome of the person's wish in the middle of the work, if it came to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<WishFate>,
    /// True if the change keeps the rule that was said first; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_kept: Option<bool>,
    /// Outcomes of the hidden tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<TestGrade>,
    /// Findings of the scan for cheating.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ScanFinding>,
    /// The commit that was graded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A role's part in a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoleShare {
    /// Number of model calls.
    pub turns: u64,
    /// Exact cost in US dollars.
    pub dollars: NanoUsd,
}

/// A line of the results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub(super) enum ResultRecord {
    /// A trial is about to begin.
    Begun {
        /// Identity of the trial.
        #[serde(flatten)]
        key: ResultKey,
        /// Budget that the trial may spend.
        budget: NanoUsd,
    },
    /// A trial has ended, with this result.
    Cell(Box<TrialCell>),
}

/// The results so far, and the file that keeps them.
#[derive(Debug)]
pub(super) struct BenchResults {
    dir: Option<PathBuf>,
    cells: BTreeMap<ResultKey, TrialCell>,
    /// Cost of all trials that ended in any way, and the full budget of those that never did.
    spent: NanoUsd,
}

impl BenchResults {
    /// Reads the results in a folder, if there are any yet. A line that a crash cut off is dropped.
    ///
    /// # Errors
    /// When the folder can't be used, or its file is none of these.
    pub(super) fn open(dir: Option<&Path>) -> io::Result<Self> {
        let mut results = Self { dir: None, cells: BTreeMap::new(), spent: NanoUsd::ZERO };
        let Some(dir) = dir else { return Ok(results) };
        fs::create_dir_all(dir)?;
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            File::options().write(true).open(&path)?.set_len(whole as u64)?;
        }
        results.read(&text[..whole]).map_err(|(line, error)| {
            let told = format!("{}:{line}: {error}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, told)
        })?;
        results.dir = Some(dir.to_owned());
        Ok(results)
    }

    fn read(&mut self, text: &str) -> Result<(), (usize, serde_json::Error)> {
        let mut begun = BTreeMap::new();
        for (n, line) in text.lines().enumerate() {
            match serde_json::from_str(line).map_err(|error| (n + 1, error))? {
                // Begun again: the time before never ended.
                ResultRecord::Begun { key, budget } => {
                    self.spent += begun.insert(key, budget).unwrap_or_default();
                }
                ResultRecord::Cell(cell) => {
                    begun.remove(&cell.key);
                    self.take(*cell);
                }
            }
        }
        self.spent += begun.into_values().sum();
        Ok(())
    }

    fn take(&mut self, cell: TrialCell) {
        self.spent += cell.dollars;
        self.cells.insert(cell.key.clone(), cell);
    }

    /// Notes that a trial is about to begin.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn begin(&self, key: &ResultKey, budget: NanoUsd) -> io::Result<()> {
        self.write(&ResultRecord::Begun { key: key.clone(), budget })
    }

    /// Notes how a trial ended.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn end(&mut self, cell: TrialCell) -> io::Result<()> {
        self.write(&ResultRecord::Cell(Box::new(cell.clone())))?;
        self.take(cell);
        Ok(())
    }

    fn write(&self, record: &ResultRecord) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).open(dir.join(FILE))?;
        file.write_all(&line)?;
        file.sync_data()
    }

    /// A result that need not be tried for again.
    #[must_use]
    pub(super) fn finished(&self, key: &ResultKey) -> Option<&TrialCell> {
        self.cells.get(key).filter(|cell| cell.verdict.counts())
    }

    /// Result of a trial, whether it counts or not.
    #[must_use]
    pub(super) fn get(&self, key: &ResultKey) -> Option<&TrialCell> {
        self.cells.get(key)
    }

    /// US dollars spent so far, at most.
    #[must_use]
    pub(super) const fn spent(&self) -> NanoUsd {
        self.spent
    }

    /// Folder for a trial's transcripts and patch, if results are kept.
    #[must_use]
    pub(super) fn folder(&self, key: &ResultKey) -> Option<PathBuf> {
        let model: String = key
            .model
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
            .collect();
        let memory = if key.memory { "" } else { "-without-memory" };
        let name = format!("{}--{model}--{}{memory}", key.task, key.run);
        Some(self.dir.as_ref()?.join("trials").join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(task: &str, run: u32) -> ResultKey {
        ResultKey { task: task.to_owned(), run, ..ResultKey::default() }
    }

    fn cell(key: ResultKey, verdict: TrialVerdict, usd: u64) -> TrialCell {
        TrialCell { key, verdict, dollars: NanoUsd(usd), ..TrialCell::default() }
    }

    #[test]
    fn a_bench_goes_on_where_it_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mut results = BenchResults::open(Some(dir.path())).unwrap();
        for (task, verdict) in [("a", TrialVerdict::Solved), ("b", TrialVerdict::Skipped)] {
            results.begin(&key(task, 1), NanoUsd(100)).unwrap();
            results.end(cell(key(task, 1), verdict, 7)).unwrap();
        }
        results.begin(&key("c", 1), NanoUsd(100)).unwrap();
        drop(results);
        let path = dir.path().join(FILE);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"record\":\"cell\",\"task\":\"c").unwrap();
        let again = BenchResults::open(Some(dir.path())).unwrap();
        assert!(again.finished(&key("a", 1)).is_some());
        for (task, run) in [("a", 2), ("b", 1), ("c", 1)] {
            assert!(again.finished(&key(task, run)).is_none(), "{task} {run}");
        }
        // An interrupted trial counts with its whole budget, as it may have spent that.
        assert_eq!(again.spent(), NanoUsd(114));
        // The torn line is gone, so that the next one is not torn too.
        again.begin(&key("c", 1), NanoUsd(100)).unwrap();
        assert_eq!(BenchResults::open(Some(dir.path())).unwrap().spent(), NanoUsd(214));
    }

    #[test]
    fn a_file_that_is_something_else_is_said() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "{}\n").unwrap();
        let told = BenchResults::open(Some(dir.path())).unwrap_err().to_string();
        assert!(told.contains("results.jsonl:1: "), "{told}");
    }
}
