//! Reads a task's folder, and says where it is wrong.

use std::path::{Component, Path};

use serde_path_to_error::Segment;

use super::{BenchTask, FILE, INSTRUCTION, TESTS, TaskSpec, folder_digest};
use codebutler_testbed::scenario::places::{PlaceKey, ScenarioPlace, YamlPlaces, show_path};

/// An error that keeps a task from being used.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A file of the task can't be read.
    #[error("{file}: {error}")]
    Read {
        /// Path of the file that can't be read.
        file: String,
        /// Underlying error of the system.
        error: std::io::Error,
    },
    /// The folder contains no tasks.
    #[error("{folder} has no tasks: each is a folder with a `{FILE}` (see README.md there)")]
    Empty {
        /// Folder that was searched.
        folder: String,
    },
    /// The description has a mistake.
    #[error("{file}:{line}:{column}: {field}: {message}")]
    Mistake {
        /// Path of the file with the mistake.
        file: String,
        /// Number of the line, from 1.
        line: u64,
        /// Number of the column, from 1.
        column: u64,
        /// Path of the field; `.` for the file as a whole.
        field: String,
        /// The mistake, and what was expected instead.
        message: String,
    },
}

/// A mistake that shows when the whole file has been read.
struct TaskMistake(Vec<PlaceKey>, String);

pub(super) fn read_task(dir: &Path) -> Result<BenchTask, TaskError> {
    let text = |name: &str| {
        let path = dir.join(name);
        let unreadable = |error| TaskError::Read { file: path.display().to_string(), error };
        std::fs::read_to_string(&path).map_err(unreadable)
    };
    let file = dir.join(FILE).display().to_string();
    let yaml = text(FILE)?;
    let instruction = text(INSTRUCTION)?;
    let spec = parse_task(&yaml, &file, dir)?;
    let digest = folder_digest(dir)
        .map_err(|error| TaskError::Read { file: dir.display().to_string(), error })?;
    let id = spec.instance_id.clone();
    Ok(BenchTask { dir: dir.to_owned(), id, instruction, spec, digest })
}

fn parse_task(text: &str, file: &str, dir: &Path) -> Result<TaskSpec, TaskError> {
    let at = |place: ScenarioPlace, field: String, message: String| TaskError::Mistake {
        file: file.to_owned(),
        line: place.line,
        column: place.column,
        field,
        message,
    };
    let spec = read_spec(text).map_err(|(place, field, message)| at(place, field, message))?;
    check_spec(&spec, dir).map_err(|TaskMistake(path, message)| {
        at(YamlPlaces::of(text).find(&path), show_path(&path), message)
    })?;
    Ok(spec)
}

fn read_spec(text: &str) -> Result<TaskSpec, (ScenarioPlace, String, String)> {
    let mut field = ".".to_owned();
    let options = serde_saphyr::options! { with_snippet: false };
    let result =
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                field = show_path(&path_keys(error.path()));
                error.into_inner()
            })
        });
    result.map_err(|error: serde_saphyr::Error| {
        let place =
            error.location().map_or(ScenarioPlace { line: 1, column: 1 }, ScenarioPlace::from);
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        (place, field, message)
    })
}

fn path_keys(path: &serde_path_to_error::Path) -> Vec<PlaceKey> {
    let key = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(PlaceKey::Index(*index)),
        Segment::Map { key } => Some(PlaceKey::Name(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(key).collect()
}

fn name_keys(names: &[&str]) -> Vec<PlaceKey> {
    names.iter().map(|name| PlaceKey::from(*name)).collect()
}

fn check_spec(spec: &TaskSpec, dir: &Path) -> Result<(), TaskMistake> {
    let folder = dir.file_name().unwrap_or_default().to_string_lossy();
    if spec.instance_id != folder {
        let message = format!("expected the folder's name, `{folder}`");
        return Err(TaskMistake(name_keys(&["instance_id"]), message));
    }
    check_checksum(&["package", "sha256"], &spec.package.sha256)?;
    check_checksum(&["fixed_version", "sha256"], &spec.fixed_version.sha256)?;
    if spec.fixed_version.version == spec.package.version {
        let message = "expected another release than `package.version`".to_owned();
        return Err(TaskMistake(name_keys(&["fixed_version", "version"]), message));
    }
    for (name, empty) in [
        ("source", spec.source.is_empty()),
        ("FAIL_TO_PASS", spec.fail_to_pass.is_empty()),
        ("PASS_TO_PASS", spec.pass_to_pass.is_empty()),
    ] {
        if empty {
            return Err(TaskMistake(name_keys(&[name]), "expected at least one".to_owned()));
        }
    }
    if let Some(n) = spec.pass_to_pass.iter().position(|t| spec.fail_to_pass.contains(t)) {
        let message = "this test is in FAIL_TO_PASS too".to_owned();
        return Err(TaskMistake(vec!["PASS_TO_PASS".into(), PlaceKey::Index(n)], message));
    }
    for (name, paths) in [("source", &spec.source), ("remove", &spec.remove), ("keep", &spec.keep)]
    {
        if let Some(n) = paths.iter().position(|path| !is_inside(path)) {
            let message = "expected a relative path without `..`".to_owned();
            return Err(TaskMistake(vec![name.into(), PlaceKey::Index(n)], message));
        }
    }
    if !is_inside(&spec.test.into) {
        let message = "expected a relative path without `..`".to_owned();
        return Err(TaskMistake(name_keys(&["test", "into"]), message));
    }
    if !dir.join(TESTS).is_dir() {
        let message = format!("the task has no folder `{TESTS}` with hidden tests");
        return Err(TaskMistake(name_keys(&["test"]), message));
    }
    Ok(())
}

fn check_checksum(path: &[&str], text: &str) -> Result<(), TaskMistake> {
    let good = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if good {
        return Ok(());
    }
    Err(TaskMistake(name_keys(path), "expected 64 lower-case hexadecimal digits".to_owned()))
}

fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r"instance_id: one
language: rust
package: {registry: cargo, name: a, version: 1.0.0, sha256: 0000000000000000000000000000000000000000000000000000000000000000}
fixed_version: {version: 1.0.1, sha256: 0000000000000000000000000000000000000000000000000000000000000000}
source: [src/lib.rs]
requires: [cargo]
test: {into: tests, run: cargo test, log: cargo}
FAIL_TO_PASS: [a]
PASS_TO_PASS: [b]
";

    fn mistake(change: impl Fn(&str) -> String) -> String {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("one");
        std::fs::create_dir_all(dir.join(TESTS)).unwrap();
        parse_task(&change(GOOD), "one/task.yaml", &dir).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_said_by_line_and_field() {
        for (from, to, expected) in [
            (
                "instance_id: one",
                "instance_id: two",
                "one/task.yaml:1:14: instance_id: expected the",
            ),
            ("language: rust", "lang: rust", ":2:1: "),
            ("registry: cargo", "registry: cpan", ":3:21: package.registry: "),
            ("0, sha256: 0", "0, sha256: x", ":3:"),
            ("version: 1.0.1", "version: 1.0.0", ":4:26: fixed_version.version: expected another"),
            ("source: [src/lib.rs]", "source: []", ":5:9: source: expected at least one"),
            ("[src/lib.rs]", "[src/a, ../b]", ":5:17: source[1]: expected a relative path"),
            ("into: tests", "into: /etc", "test.into: expected a relative path"),
            ("log: cargo", "log: junit", ":7:"),
            ("PASS_TO_PASS: [b]", "PASS_TO_PASS: [b, a]", "PASS_TO_PASS[1]: this test is in"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let told = mistake(|text| text.replacen(from, to, 1));
            assert!(told.contains(expected), "{to}: {told}");
        }
    }

    #[test]
    fn a_task_without_tests_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("one");
        std::fs::create_dir(&dir).unwrap();
        let told = parse_task(GOOD, "task.yaml", &dir).unwrap_err().to_string();
        assert!(told.contains("no folder `tests`"), "{told}");
    }
}
