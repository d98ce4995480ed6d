//! Checks that could not be done count as failures where nobody reads the output.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const DAY: i64 = 24 * 3600;

/// `.ci/dependencies` in a folder of its own, on a machine with these programs and no network.
struct BareMachine {
    dir: tempfile::TempDir,
}

impl BareMachine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let top = Path::new(codebutler_testbed::FOLDER).join("..");
        let (own, bin) = (machine.own(), machine.dir.path().join("bin"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&bin).unwrap();
        for file in ["dependencies", "tools.lock"] {
            fs::copy(top.join(".ci").join(file), own.join(file)).unwrap();
        }
        for program in ["bash", "dirname", "cmp", "rm", "cp", "sed", "grep", "date", "timeout"] {
            let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(program));
            symlink(found.iter().find(|path| path.exists()).unwrap(), bin.join(program)).unwrap();
        }
        machine.add("python3", "exit 1");
        machine
    }

    fn own(&self) -> PathBuf {
        self.dir.path().join(".ci")
    }

    fn add(&self, program: &str, does: &str) {
        let path = self.dir.path().join("bin").join(program);
        fs::write(&path, format!("#!/bin/bash\n{does}\n")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, ci: Option<&str>) -> (bool, String) {
        let bin = self.dir.path().join("bin");
        let mut command = Command::new(bin.join("bash"));
        command.arg(self.own().join("dependencies")).env_clear().env("PATH", &bin);
        command.envs(ci.map(|value| ("CI", value)));
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn dependencies_that_were_not_checked_are_red_in_ci() {
    for (ci, passes) in
        [(Some("true"), false), (Some("1"), false), (Some("false"), true), (None, true)]
    {
        let (passed, said) = BareMachine::new().run(ci);
        assert_eq!(passed, passes, "CI={ci:?}: {said}");
        for what in ["NOT CHECKED", "licences", "sources", "cargo-deny"] {
            assert!(said.contains(what), "CI={ci:?} {what}: {said}");
        }
    }
}

#[test]
fn advisories_that_were_not_checked_are_red_in_ci_but_for_the_days_that_somebody_answers_for() {
    let machine = BareMachine::new();
    for program in ["cargo-deny", "cargo-shear"] {
        machine.add(program, "");
    }
    machine.add("cargo", "[[ $* != *'fetch db'* ]]");
    let day = |days: i64| {
        let now = jiff::Timestamp::now().as_second() + days * DAY;
        jiff::Timestamp::from_second(now).unwrap().strftime("%Y-%m-%d").to_string()
    };
    let until = |days| format!("# Why.\nuntil {}: no network\n", day(days));
    for (file, passes) in [
        (None, false),
        (Some(until(0)), true),
        (Some(until(80)), true),
        (Some(until(-2)), false),
        (Some(until(100)), false),
        (Some("until tomorrow: no network\n".to_owned()), false),
        (Some(String::new()), false),
    ] {
        if let Some(file) = &file {
            fs::write(machine.own().join("advisories-unchecked"), file).unwrap();
        }
        let (passed, said) = machine.run(Some("true"));
        assert_eq!(passed, passes, "{file:?}: {said}");
        assert!(said.contains("NOT CHECKED: advisories"), "{file:?}: {said}");
        assert!(machine.run(None).0, "{file:?}: a person reads it");
    }
    machine.add("cargo", "");
    let (passed, said) = machine.run(Some("true"));
    assert!(passed && !said.contains("NOT CHECKED"), "{said}");
}
