//! The repository that a team gets, made when it is needed: the broken release in one commit, with
//! no history, no remote and nothing of the task but the package. The fixed release gives the
//! oracle's patch, which only the scripted coder and the validation ever see.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::package::{PackageError, ensure_package};
use super::task::{BenchTask, TaskPackage};

/// An error that keeps a task's repository from being made.
#[derive(Debug, thiserror::Error)]
pub(super) enum RepositoryError {
    /// A release can't be fetched.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The task's command `prepare` failed.
    #[error("{task}: `prepare` failed on {version}: {said}")]
    Prepare {
        task: String,
        version: String,
        /// The end of the command's output.
        said: String,
    },
    /// A file that the task names is not there.
    #[error("{task}: {what}")]
    Missing {
        task: String,
        /// Description of the missing file.
        what: String,
    },
    /// Reading or writing files failed.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error of the system.
        source: io::Error,
    },
}

fn error_at(path: &Path) -> impl FnOnce(io::Error) -> RepositoryError {
    let path = path.to_owned();
    move |source| RepositoryError::Io { path, source }
}

/// A release of the task's package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageRelease {
    /// The release with the bug.
    Broken,
    /// The release in which it is fixed.
    Fixed,
}

/// Writes a release's repository, without Git's own folder, into a folder that does not exist yet.
/// `memory`: with what the task's repository has learned before, if anything.
///
/// # Errors
/// When a release can't be had, or a file of the task is wrong.
pub(super) fn write_repository(
    task: &BenchTask,
    release: PackageRelease,
    memory: bool,
    into: &Path,
) -> Result<(), RepositoryError> {
    let package = match release {
        PackageRelease::Broken => task.broken().clone(),
        PackageRelease::Fixed => task.fixed(),
    };
    copy_folder(&ensure_package(&package)?, into).map_err(error_at(into))?;
    for path in &task.spec.remove {
        remove_path(&into.join(path)).map_err(error_at(path))?;
    }
    for tool in &task.spec.tools {
        let from = ensure_package(&tool.package)?;
        for file in &tool.files {
            let to = into.join(&tool.into).join(file);
            let parent = to.parent().unwrap_or(into);
            fs::create_dir_all(parent).map_err(error_at(parent))?;
            fs::copy(from.join(file), &to).map_err(error_at(&from.join(file)))?;
        }
    }
    prepare_release(task, &package, into)?;
    if let Some(kept) = task.memory().filter(|_| memory) {
        copy_folder(&kept, &into.join(".codebutler")).map_err(error_at(&kept))?;
    }
    Ok(())
}

fn prepare_release(
    task: &BenchTask,
    package: &TaskPackage,
    into: &Path,
) -> Result<(), RepositoryError> {
    let Some(commands) = &task.spec.prepare else { return Ok(()) };
    let script = format!("set -euo pipefail\n{commands}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(into).stdin(Stdio::null());
    let output = bash.output().map_err(error_at(into))?;
    if output.status.success() {
        return Ok(());
    }
    Err(RepositoryError::Prepare {
        task: task.id.clone(),
        version: package.version.clone(),
        said: last_line(&output),
    })
}

fn last_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().next_back().unwrap_or("it said nothing").to_owned()
}

/// The difference between both releases in the task's source files, for `git apply`.
///
/// # Errors
/// When a release can't be had, or there is no difference.
pub(super) fn oracle_patch(task: &BenchTask) -> Result<String, RepositoryError> {
    let work = tempfile::tempdir().map_err(error_at(Path::new("a temporary folder")))?;
    for (release, side) in [(PackageRelease::Broken, "a"), (PackageRelease::Fixed, "b")] {
        let whole = work.path().join(format!("whole-{side}"));
        write_repository(task, release, false, &whole)?;
        for path in &task.spec.source {
            let (from, to) = (whole.join(path), work.path().join(side).join(path));
            let parent = to.parent().unwrap_or(&to);
            fs::create_dir_all(parent).map_err(error_at(parent))?;
            if from.exists() {
                fs::copy(&from, &to).map_err(error_at(&from))?;
            }
        }
    }
    let mut git = Command::new("git");
    git.args(["diff", "--no-index", "--no-prefix", "--no-color", "--no-ext-diff", "a", "b"])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(work.path())
        .stdin(Stdio::null());
    let output = git.output().map_err(error_at(Path::new("git")))?;
    let patch = String::from_utf8_lossy(&output.stdout).into_owned();
    if patch.is_empty() {
        let files: Vec<_> = task.spec.source.iter().map(|p| p.display().to_string()).collect();
        let what = format!("both releases have the same {}", files.join(", "));
        return Err(RepositoryError::Missing { task: task.id.clone(), what });
    }
    Ok(patch)
}

fn remove_path(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    }
}

/// Copies a folder. Where something else than a folder is in the way of one, such as a link that a
/// pull request put there, it goes first: nothing is ever written through it.
pub(super) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    if !to.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        remove_path(to)?;
        fs::create_dir_all(to)?;
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
            continue;
        }
        remove_path(&target)?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Copies one file or folder below a root as [`copy_folder`] does, and replaces links among its parents too.
pub(super) fn put_path(root: &Path, path: &Path, from: &Path) -> io::Result<()> {
    let mut folder = root.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if folder.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            remove_path(&folder)?;
        }
    }
    fs::create_dir_all(&folder)?;
    let to = root.join(path);
    if from.is_dir() {
        return copy_folder(from, &to);
    }
    remove_path(&to)?;
    fs::copy(from, &to).map(drop)
}

/// Takes a file or folder below a root away, unless a link leads there.
pub(super) fn take_path(root: &Path, path: &Path) -> io::Result<()> {
    let mut folder = root.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if folder.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            return Ok(());
        }
    }
    remove_path(&root.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside, from) =
            (dir.path().join("root"), dir.path().join("outside"), dir.path().join("from"));
        for folder in [&root, &outside, &from] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(outside.join("a"), "theirs").unwrap();
        fs::write(from.join("a"), "ours").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("tests")).unwrap();
        take_path(&root, Path::new("tests/a")).unwrap();
        put_path(&root, Path::new("tests/a"), &from.join("a")).unwrap();
        put_path(&root, Path::new("tests"), &from).unwrap();
        assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(root.join("tests/a")).unwrap(), "ours");
    }
}
