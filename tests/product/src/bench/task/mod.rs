//! A task: a published package with a bug, what a user says about it, and the tests that tell
//! whether it is gone. [`read`] turns a folder into one and says by line and field what is wrong.

mod read;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use codebutler_crds::NanoUsd;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use self::read::TaskError;
use super::log::LogFormat;

/// The file that describes a task, in its folder.
pub(super) const FILE: &str = "task.yaml";
/// File in the task's folder with the user's message.
const INSTRUCTION: &str = "instruction.md";
/// Tests that nobody but the grader sees, in the task's folder.
const TESTS: &str = "tests";
/// Folder in the task's folder with the `.codebutler/` of a repository that has a memory.
const MEMORY: &str = "memory";

/// A bug that a team can be asked to fix.
#[derive(Clone, Debug)]
pub struct BenchTask {
    /// Folder that describes the task.
    pub dir: PathBuf,
    /// Name of the task in results.
    pub id: String,
    /// The issue, as the user writes it.
    pub instruction: String,
    /// Content of `task.yaml`.
    pub spec: TaskSpec,
    /// Changes whenever anything of the task does: results of different ones can't be compared.
    pub digest: String,
}

/// Content of `task.yaml`. Names are those of the known benches where these have one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Name of the task's folder.
    pub instance_id: String,
    /// Main language of the package.
    pub language: String,
    /// The release with the bug.
    pub package: TaskPackage,
    /// The release without it: gives the oracle's patch.
    pub fixed_version: FixedRelease,
    /// Files of the package whose difference between both releases is the oracle's patch.
    pub source: Vec<PathBuf>,
    /// Files of the package that do not become part of the repository: built files, leftovers of packaging.
    #[serde(default)]
    pub remove: Vec<PathBuf>,
    /// Commands that make a repository of the package, such as one that takes dependencies out which
    /// can't be had offline.
    #[serde(default)]
    pub prepare: Option<String>,
    /// Files of other packages that the tests need.
    #[serde(default)]
    pub tools: Vec<ToolFiles>,
    /// Programs that have to be on the machine.
    pub requires: Vec<String>,
    /// Command and format of the tests.
    pub test: TestRun,
    /// Tests that fail before and pass after the fix.
    #[serde(rename = "FAIL_TO_PASS")]
    pub fail_to_pass: Vec<String>,
    /// Tests that pass before and after.
    #[serde(rename = "PASS_TO_PASS")]
    pub pass_to_pass: Vec<String>,
    /// Tests of the package itself: graded as they were released, whatever became of them.
    #[serde(default)]
    pub keep: Vec<PathBuf>,
    /// Time and money after which a team is stopped.
    #[serde(default)]
    pub limits: TaskLimits,
    /// True if the task is one of the few that are played where nobody has a key.
    #[serde(default)]
    pub ci: bool,
}

/// A release of a package, by its registry's own client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPackage {
    /// Registry that serves the package.
    pub registry: PackageRegistry,
    /// Name of the package in its registry.
    pub name: String,
    /// Version number of the release.
    pub version: String,
    /// SHA-256 of what the registry serves.
    pub sha256: String,
}

/// The release of the same package that has the fix.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedRelease {
    /// Version number of the release.
    pub version: String,
    /// SHA-256 of what the registry serves.
    pub sha256: String,
}

/// A package registry, by the client that speaks to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageRegistry {
    /// Rust's (and C's, where a crate brings its sources).
    Cargo,
    /// PyPI, Python's registry.
    Pip,
    /// npm, the registry of Node.js.
    Npm,
}

/// Files of a package that become part of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFiles {
    /// Package that has the files.
    pub package: TaskPackage,
    /// Paths of the files in the package.
    pub files: Vec<PathBuf>,
    /// The folder that they go into.
    pub into: PathBuf,
}

/// Command, format and timeout of the hidden tests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestRun {
    /// The folder of the repository that they are copied into.
    #[serde(default = "bench_folder")]
    pub into: PathBuf,
    /// A bash command in the repository's folder.
    pub run: String,
    /// Format of the command's output.
    pub log: LogFormat,
    /// Timeout of the command, in seconds.
    #[serde(default = "test_seconds")]
    pub seconds: u64,
}

/// Limits of a team's work on a task.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskLimits {
    /// Minutes from the issue to the end.
    pub minutes: u64,
    /// US dollars: the Thread's budget.
    pub dollars: NanoUsd,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { minutes: 30, dollars: NanoUsd(2_000_000_000) }
    }
}

fn bench_folder() -> PathBuf {
    PathBuf::from(".")
}

const fn test_seconds() -> u64 {
    180
}

impl BenchTask {
    /// The task in a folder.
    ///
    /// # Errors
    /// With the file, line, column and field of the first mistake.
    pub fn load(dir: &Path) -> Result<Self, TaskError> {
        read::read_task(dir)
    }

    /// The release with the bug.
    pub fn broken(&self) -> &TaskPackage {
        &self.spec.package
    }

    /// The release in which the bug is fixed.
    pub fn fixed(&self) -> TaskPackage {
        let FixedRelease { version, sha256 } = self.spec.fixed_version.clone();
        TaskPackage { version, sha256, ..self.spec.package.clone() }
    }

    /// The folder with the hidden tests.
    pub fn hidden(&self) -> PathBuf {
        self.dir.join(TESTS)
    }

    /// The folder with the repository's memory, if the task has one.
    pub fn memory(&self) -> Option<PathBuf> {
        Some(self.dir.join(MEMORY)).filter(|folder| folder.is_dir())
    }
}

/// All tasks below a folder, by id. A folder without a description is none.
///
/// # Errors
/// With the first mistake in any of them.
pub fn load_all(folder: &Path) -> Result<Vec<BenchTask>, TaskError> {
    let unreadable = |error| TaskError::Read { file: folder.display().to_string(), error };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let dirs: BTreeSet<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|path| path.join(FILE).is_file()).collect();
    if dirs.is_empty() {
        return Err(TaskError::Empty { folder: folder.display().to_string() });
    }
    dirs.iter().map(|dir| BenchTask::load(dir)).collect()
}

/// Everything that a task is made of, in one figure.
fn folder_digest(dir: &Path) -> std::io::Result<String> {
    fn add(hash: &mut Sha256, dir: &Path, at: &Path) -> std::io::Result<()> {
        let mut names: Vec<_> = std::fs::read_dir(at)?.flatten().map(|e| e.path()).collect();
        names.sort();
        for path in names {
            if path.is_dir() {
                add(hash, dir, &path)?;
                continue;
            }
            let bytes = std::fs::read(&path)?;
            let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
            hash.update(format!("{} {name} {}\n", name.len(), bytes.len()));
            hash.update(bytes);
        }
        Ok(())
    }
    let mut hash = Sha256::new();
    add(&mut hash, dir, dir)?;
    Ok(hex::encode(hash.finalize())[..12].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_tasks_are_many_and_in_many_languages() {
        let tasks = load_all(&Path::new(codebutler_testbed::FOLDER).join("bench")).unwrap();
        assert!(tasks.len() >= 20, "{}", tasks.len());
        let languages = |ci: bool| -> BTreeSet<&str> {
            let some = tasks.iter().filter(|task| task.spec.ci || !ci);
            some.map(|task| task.spec.language.as_str()).collect()
        };
        assert!(languages(false).len() >= 6, "{:?}", languages(false));
        assert!(languages(true).len() >= 5, "{:?}", languages(true));
        for task in &tasks {
            // Only the grader may know which release has the fix.
            let told = task.instruction.contains(&task.spec.fixed_version.version);
            assert!(!told, "{}: the instruction names the fixed release", task.id);
        }
    }

    #[test]
    fn a_task_that_changes_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tests")).unwrap();
        std::fs::write(dir.path().join("tests/a"), "1").unwrap();
        let before = folder_digest(dir.path()).unwrap();
        assert_eq!(folder_digest(dir.path()).unwrap(), before);
        std::fs::write(dir.path().join("tests/a"), "2").unwrap();
        assert_ne!(folder_digest(dir.path()).unwrap(), before);
    }
}
