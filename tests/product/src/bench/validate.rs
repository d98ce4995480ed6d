//! Checks that the tasks measure what they claim: with the bug the tests that must turn green fail and
//! the others pass, without it all pass, each time.

use std::path::Path;

use super::grade::{GradedTrial, grade_files, missing_program};
use super::repository::{PackageRelease, oracle_patch, write_repository};
use super::task::BenchTask;
use crate::demo::PrintFn;

/// Number of times that each release is graded.
const TIMES: usize = 3;

/// The result of checking a task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckVerdict {
    Good,
    Skipped(String),
    Bad(Vec<String>),
}

/// Checks tasks; whether none of them was found to be wrong.
///
/// # Errors
/// When files can't be written.
pub(super) async fn validate_tasks(
    tasks: &[BenchTask],
    print: PrintFn<'_>,
) -> anyhow::Result<bool> {
    let (mut bad, mut skipped) = (0, 0);
    for task in tasks {
        match check_task(task).await? {
            CheckVerdict::Good => print(&format!("ok       {}", task.id)),
            CheckVerdict::Skipped(why) => {
                skipped += 1;
                print(&format!("skipped  {}: {why}", task.id));
            }
            CheckVerdict::Bad(why) => {
                bad += 1;
                print(&format!("WRONG    {}", task.id));
                for line in &why {
                    print(&format!("         {line}"));
                }
            }
        }
    }
    print(&format!(
        "{} of {} tasks are valid, {skipped} skipped",
        tasks.len() - bad - skipped,
        tasks.len()
    ));
    Ok(bad == 0)
}

async fn check_task(task: &BenchTask) -> anyhow::Result<CheckVerdict> {
    if let Some(why) = missing_program(task) {
        return Ok(CheckVerdict::Skipped(why));
    }
    let dir = tempfile::Builder::new().prefix("codebutler-bench-").tempdir()?;
    let (task_, place) = (task.clone(), dir.path().to_owned());
    let written = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        write_repository(&task_, PackageRelease::Broken, false, &place.join("broken"))?;
        // As the team would leave it: the broken release with the oracle's patch.
        write_repository(&task_, PackageRelease::Broken, false, &place.join("fixed"))?;
        apply_patch(&place.join("fixed"), &oracle_patch(&task_)?)
    })
    .await?;
    if let Err(error) = written {
        return Ok(CheckVerdict::Skipped(format!("{error:#}")));
    }
    let mut wrong = Vec::new();
    for time in 1..=TIMES {
        let (before, after) = (
            grade_once(task, dir.path(), "broken").await?,
            grade_once(task, dir.path(), "fixed").await?,
        );
        wrong = grade_differences(task, &before, &after);
        if !wrong.is_empty() {
            wrong.insert(0, format!("at run {time} of {TIMES}:"));
            break;
        }
    }
    Ok(if wrong.is_empty() { CheckVerdict::Good } else { CheckVerdict::Bad(wrong) })
}

/// Applies a patch to a folder.
fn apply_patch(folder: &Path, patch: &str) -> anyhow::Result<()> {
    let file = folder.with_extension("patch");
    std::fs::write(&file, patch)?;
    let mut git = std::process::Command::new("git");
    // Not part of a repository that happens to lie around the folder.
    git.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
    let output =
        git.current_dir(folder).args(["apply", "--whitespace=nowarn"]).arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the oracle's patch does not apply: {said}");
    Ok(())
}

async fn grade_once(task: &BenchTask, dir: &Path, which: &str) -> anyhow::Result<GradedTrial> {
    let work = tempfile::tempdir_in(dir)?;
    super::repository::copy_folder(&dir.join(which), &work.path().join("code"))?;
    Ok(grade_files(task, work.path(), &dir.join("broken")).await?)
}

fn grade_differences(task: &BenchTask, before: &GradedTrial, after: &GradedTrial) -> Vec<String> {
    let mut wrong = Vec::new();
    let (with, without) = (&before.grade, &after.grade);
    say_wrong(&mut wrong, "passes with the bug, though in FAIL_TO_PASS", &with.fail_to_pass.passed);
    say_wrong(
        &mut wrong,
        "fails without the bug, though in FAIL_TO_PASS",
        &without.fail_to_pass.failed,
    );
    say_wrong(&mut wrong, "fails with the bug, though in PASS_TO_PASS", &with.pass_to_pass.failed);
    say_wrong(
        &mut wrong,
        "fails without the bug, though in PASS_TO_PASS",
        &without.pass_to_pass.failed,
    );
    if wrong.is_empty() {
        return wrong;
    }
    let named = |passed: bool| -> Vec<String> {
        let before = |name: &String| before.outcomes.get(name).copied().unwrap_or_default();
        let all = after.outcomes.iter().filter(|(name, good)| **good && before(name) == passed);
        all.map(|(name, _)| name.clone()).collect()
    };
    say_wrong(&mut wrong, "what turns green", &named(false));
    say_wrong(&mut wrong, "what stays green", &named(true));
    if after.outcomes.is_empty() {
        let end: Vec<&str> = after.log.lines().rev().take(8).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        wrong.push(format!(
            "no test was seen ({}); the log ends: {}",
            task.spec.test.run,
            end.join(" ⏎ ")
        ));
    }
    wrong
}

fn say_wrong(wrong: &mut Vec<String>, what: &str, tests: &[String]) {
    if !tests.is_empty() {
        wrong.push(format!("{what}: {}", tests.join(", ")));
    }
}
