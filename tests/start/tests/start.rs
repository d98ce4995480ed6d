//! `cargo demo` as far as its first program goes, on machines that are made of a few programs.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers are tests too")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Programs are written and started by one test at a time: another one's child may hold a file open that is to be
/// started ("Text file busy").
static ALONE: Mutex<()> = Mutex::new(());

/// A machine on which these programs are the only ones.
struct SmallMachine {
    dir: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl SmallMachine {
    fn with(name: &str, programs: &[(&str, &str)]) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        let debug = dir.join("target/debug");
        fs::create_dir_all(dir.join("bin")).unwrap();
        fs::create_dir_all(&debug).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_codebutler-start"), debug.join("codebutler-start")).unwrap();
        for (program, script) in programs {
            let path = dir.join("bin").join(program);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir, _alone: alone }
    }

    fn start(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
        let mut command = Command::new(self.dir.join("target/debug/codebutler-start"));
        command.args(arguments).env_clear().envs(environment.iter().copied());
        command.env("PATH", self.dir.join("bin")).env("CARGO", self.dir.join("bin/cargo"));
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }
}

/// Says what it was called with, and ends as a demo that was interrupted does.
const CARGO: (&str, &str) = ("cargo", "echo \"cargo $*\"; exit 130");
const GIT: (&str, &str) = ("git", "echo 'git version 2.47.3'");
const CC: (&str, &str) = ("cc", "");
const DISK: (&str, &str) = ("df", "echo head; echo 'disk 90000000 1 80000000 1% /'");

#[test]
fn it_becomes_the_demo_with_the_same_arguments_and_its_exit_code() {
    let machine = SmallMachine::with("usual", &[CARGO, GIT, CC, DISK]);
    let (code, out, errors) = machine.start(&["--", "--repo", "./my shop"], &[]);
    assert_eq!(code, 130, "{errors}");
    let line = "--package codebutler-product --bin demo -- --repo ./my shop\n";
    assert!(out.starts_with("cargo run ") && out.ends_with(line), "{out}");
    assert!(errors.contains("The first build takes about"), "{errors}");
    // Once it is built, nothing is said.
    fs::write(machine.dir.join("target/debug/demo"), "").unwrap();
    let (_, _, errors) = machine.start(&[], &[]);
    assert_eq!(errors, "");
}

#[test]
fn cargos_own_options_are_for_the_build_of_the_demo() {
    let alias = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cargo/config.toml");
    let alias = fs::read_to_string(alias).unwrap();
    assert!(alias.contains("\"run --quiet --package codebutler-start --\"\n"), "{alias}");
    let machine = SmallMachine::with("options", &[CARGO, GIT, CC, DISK]);
    let other = machine.dir.join("other");
    fs::create_dir_all(other.join("release")).unwrap();
    fs::write(other.join("release/demo"), "").unwrap();
    let own = ["-j", "1", "--locked", "--release", "--target-dir", other.to_str().unwrap()];
    let (code, out, errors) = machine.start(&[&own[..], &["--", "--json"]].concat(), &[]);
    let line =
        format!("cargo run {} --package codebutler-product --bin demo -- --json\n", own.join(" "));
    assert_eq!((code, out), (130, line), "{errors}");
    assert_eq!(errors, "", "it was built there before");
}

#[test]
fn help_needs_no_git() {
    let machine = SmallMachine::with("help", &[CARGO, CC, DISK]);
    let (code, out, errors) = machine.start(&["--", "--help"], &[]);
    assert!(code == 130 && out.ends_with("-- --help\n"), "{out} {errors}");
    let (code, out, errors) = machine.start(&["--help"], &[]);
    assert!(code == 130 && out.starts_with("cargo run --help "), "{out} {errors}");
}

#[test]
fn cargo_does_not_take_the_first_program_for_a_change_of_what_is_built() {
    let script = "echo \"$CARGO_PKG_NAME $CARGO_MANIFEST_DIR $CARGO_HOME\"; exit 0";
    let machine = SmallMachine::with("described", &[("cargo", script), GIT, CC, DISK]);
    // As `cargo run` describes this package to its program.
    let described = [
        ("CARGO_PKG_NAME", "codebutler-start"),
        ("CARGO_MANIFEST_DIR", "/src/tests/start"),
        ("CARGO_HOME", "/home/ana/.cargo"),
    ];
    let (code, out, errors) = machine.start(&[], &described);
    assert_eq!((code, out.trim()), (0, "/home/ana/.cargo"), "{errors}");
}

#[test]
fn a_machine_that_lacks_something_is_told_before_anything_is_built() {
    let full = ("df", "echo head; echo 'disk 90000000 1 204800 99% /'");
    let refused =
        ("unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1");
    let machine = SmallMachine::with("bare", &[CARGO, full, refused]);
    let (code, out, errors) = machine.start(&[], &[]);
    assert_eq!((code, &*out), (2, ""), "{errors}");
    for part in ["git is missing", "no C compiler", "200 MB are free", "refuses them here"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let (code, out, _) = machine.start(&[], &[("CODEBUTLER_PREFLIGHT", "off")]);
    assert!(code == 130 && out.starts_with("cargo run "), "{out}");
}
