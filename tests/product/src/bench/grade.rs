//! Grading: the hidden tests, run on a copy of the team's work, tell whether the bug is gone.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::confine;
use super::log::{TestOutcomes, read_outcomes};
use super::repository::{put_path, take_path};
use super::task::BenchTask;

/// The outcomes of the hidden tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TestGrade {
    /// Outcomes of the tests that have to turn green.
    #[serde(rename = "FAIL_TO_PASS")]
    pub fail_to_pass: TestTally,
    /// Outcomes of the tests that have to stay green.
    #[serde(rename = "PASS_TO_PASS")]
    pub pass_to_pass: TestTally,
    /// True if the run was cut off at its timeout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// Outcomes of the tests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TestTally {
    /// Names of the tests that passed.
    pub passed: Vec<String>,
    /// Names of the tests that failed or did not run.
    pub failed: Vec<String>,
}

impl TestTally {
    fn of(names: &[String], outcomes: &TestOutcomes) -> Self {
        let is_green = |name: &&String| outcomes.get(*name).copied().unwrap_or_default();
        let (passed, failed): (Vec<_>, Vec<_>) = names.iter().partition(is_green);
        let owned = |names: Vec<&String>| names.into_iter().cloned().collect();
        Self { passed: owned(passed), failed: owned(failed) }
    }
}

impl TestGrade {
    /// True if the bug is gone and nothing else broke.
    #[must_use]
    pub(super) fn solved(&self) -> bool {
        self.fail_to_pass.failed.is_empty() && self.pass_to_pass.failed.is_empty()
    }

    /// Reasons for which it is not solved, as a sentence.
    #[must_use]
    pub(super) fn why(&self) -> String {
        let mut parts = Vec::new();
        if self.late {
            parts.push("the tests took too long".to_owned());
        }
        for (what, tally) in
            [("still fails", &self.fail_to_pass), ("fails now", &self.pass_to_pass)]
        {
            if !tally.failed.is_empty() {
                parts.push(format!("{what}: {}", tally.failed.join(", ")));
            }
        }
        parts.join("; ")
    }

    fn of(task: &BenchTask, outcomes: &TestOutcomes, late: bool) -> Self {
        Self {
            fail_to_pass: TestTally::of(&task.spec.fail_to_pass, outcomes),
            pass_to_pass: TestTally::of(&task.spec.pass_to_pass, outcomes),
            late,
        }
    }
}

/// A grade with what it was made from.
#[derive(Clone, Debug)]
pub(super) struct GradedTrial {
    /// Grade of the team's work.
    pub grade: TestGrade,
    /// Every test that was seen.
    pub outcomes: TestOutcomes,
    /// Output of the test command.
    pub log: String,
}

/// Grades the files in `work/code`, which become the grader's: the package's own tests are put back
/// as they were in `broken`, the hidden ones come on top.
///
/// # Errors
/// When files can't be copied or the tests not be started.
pub(super) async fn grade_files(
    task: &BenchTask,
    work: &Path,
    broken: &Path,
) -> io::Result<GradedTrial> {
    let code = work.join("code");
    for path in &task.spec.keep {
        take_path(&code, path)?;
        put_path(&code, path, &broken.join(path))?;
    }
    for entry in std::fs::read_dir(task.hidden())?.flatten() {
        put_path(&code, &task.spec.test.into.join(entry.file_name()), &entry.path())?;
    }
    let limit = Duration::from_secs(task.spec.test.seconds);
    let printed = confine::run_confined(&task.spec.test.run, &code, work, limit).await?;
    let outcomes = read_outcomes(task.spec.test.log, &printed.text);
    let grade = TestGrade::of(task, &outcomes, printed.late);
    Ok(GradedTrial { grade, outcomes, log: printed.text })
}

/// Names, in a sentence, the programs that a task needs and this machine lacks, if any.
#[must_use]
pub(super) fn missing_program(task: &BenchTask) -> Option<String> {
    let all: Vec<String> = task
        .spec
        .requires
        .iter()
        .filter(|program| !confine::has_program(program))
        .map(|program| format!("`{program}` ({})", program_hint(program)))
        .collect();
    (!all.is_empty()).then(|| format!("not on this machine, install it: {}", all.join(", ")))
}

fn program_hint(program: &str) -> &'static str {
    match program {
        "cargo" => "rustup, or the Debian package cargo",
        "python3" => "the Debian package python3",
        "node" => "Node.js 20 or newer, the Debian package nodejs",
        "cc" | "c++" | "make" => "the Debian package build-essential",
        "perl" => "the Debian package perl",
        "bash" => "the Debian package bash",
        _ => "look for it in the machine's package manager",
    }
}
