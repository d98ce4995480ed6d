//! `cargo demo` as far as its first program goes, on machines that are made of a few programs.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers are tests too")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    let (code, out, errors) = machine.start(&["--", "--log", "my filter"], &[]);
    assert_eq!(code, 130, "{errors}");
    let line = "--package codebutler-product --bin demo -- --log my filter\n";
    assert!(out.starts_with("cargo run ") && out.ends_with(line), "{out}");
    assert!(errors.contains("The first build takes about"), "{errors}");
    // Once it is built, nothing is said.
    fs::write(machine.dir.join("target/debug/demo"), "").unwrap();
    let (_, _, errors) = machine.start(&[], &[]);
    assert_eq!(errors, "");
}

#[test]
fn the_cluster_that_a_shell_names_is_left_alone_unless_its_nodes_are_meant() {
    let cargo = ("cargo", "echo \"cluster: $KUBECONFIG\"; exit 0");
    let machine = SmallMachine::with("cluster", &[cargo, GIT, CC, DISK]);
    let own = ("KUBECONFIG", "/home/ana/.kube/work");
    let nodes = [own, ("CODEBUTLER_OUTSIDE", "192.0.2.7"), ("CODEBUTLER_IMAGES", "r.example/x/")];
    for (environment, given) in [
        (vec![own], "cluster: \n"),
        (nodes.to_vec(), "cluster: /home/ana/.kube/work\n"),
        (vec![own, ("CODEBUTLER_PREFLIGHT", "off")], "cluster: /home/ana/.kube/work\n"),
    ] {
        let (code, out, errors) = machine.start(&[], &environment);
        assert_eq!((code, &*out), (0, given), "{errors}");
        assert_eq!(errors.contains("left alone"), given == "cluster: \n", "{errors}");
    }
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
    let (code, out, errors) = machine.start(&[&own[..], &["--", "--log=debug"]].concat(), &[]);
    let line = format!(
        "cargo run {} --package codebutler-product --bin demo -- --log=debug\n",
        own.join(" ")
    );
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
    for part in [
        "git is missing",
        "no C compiler",
        "the build needs",
        "the demo needs 300 there",
        "refuses them here",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let (code, out, _) = machine.start(&[], &[("CODEBUTLER_PREFLIGHT", "off")]);
    assert!(code == 130 && out.starts_with("cargo run "), "{out}");
}

/// Git itself, which a machine of a few programs has under its name.
fn real_git() -> String {
    let found = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    format!("exec {} \"$@\"", String::from_utf8(found.stdout).unwrap().trim())
}

fn git(dir: &Path, line: &str) {
    let identity = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"];
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(identity).args(line.split_whitespace());
    let ended = git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(ended.status.success(), "{line}: {ended:?}");
}

#[test]
fn a_repository_that_can_t_be_used_is_told_before_anything_is_built() {
    let script = real_git();
    let machine = SmallMachine::with("repositories", &[CARGO, ("git", &script), CC, DISK]);
    let dir = &machine.dir;
    for name in ["folder", "new", "shop", "sha256", "damaged"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    git(&dir.join("new"), "init --quiet");
    git(&dir.join("shop"), "init --quiet --initial-branch=main");
    for title in ["Start", "Second"] {
        git(&dir.join("shop"), &format!("commit --quiet --allow-empty --message={title}"));
    }
    git(&dir.join("shop"), "branch other");
    // Its checkout is on no branch and beside all of them: none tells which one pull requests are for.
    git(dir, "init --quiet --initial-branch=one aside");
    git(&dir.join("aside"), "commit --quiet --allow-empty --message=Start");
    git(&dir.join("aside"), "branch two");
    git(&dir.join("aside"), "checkout --quiet --detach");
    git(&dir.join("aside"), "commit --quiet --allow-empty --message=Aside");
    git(dir, "clone --quiet aside loose");
    git(&dir.join("sha256"), "init --quiet --object-format=sha256");
    git(&dir.join("damaged"), "init --quiet --initial-branch=main");
    fs::write(dir.join("damaged/.git/refs/heads/main"), format!("{}\n", "1".repeat(40))).unwrap();
    git(dir, &format!("clone --quiet --depth=1 file://{}/shop shallow", dir.display()));
    // An old branch of a remote that is broken is in nobody's way.
    fs::create_dir_all(dir.join("shop/.git/refs/remotes/origin")).unwrap();
    fs::copy(
        dir.join("damaged/.git/refs/heads/main"),
        dir.join("shop/.git/refs/remotes/origin/old"),
    )
    .unwrap();
    let path = |name: &str| dir.join(name).display().to_string();
    let started = |arguments: &[&str], environment: &[(&str, &str)]| {
        machine.start(&[&["--", "--repo"], arguments].concat(), environment)
    };
    for (arguments, said) in [
        (vec![path("nowhere")], "nowhere does not exist"),
        (vec![path("folder")], "is no Git repository: run `git init`"),
        (vec![path("new")], "has no commits yet: commit something first"),
        (vec![path("shallow")], "run `git fetch --unshallow` in it first"),
        (vec![path("sha256")], "names its objects with SHA-256"),
        (vec![path("damaged")], "can't be read by the Git on this machine: bad object"),
        (
            vec![path("shop"), "--branch=release".to_owned()],
            "has no branch `release` (there are: main, other)",
        ),
        (vec![path("aside")], "are for with --branch (there are: one, two)"),
        (vec![path("loose")], "loose has commits and no branch: make one"),
        (vec![path("shop"), "--repo-limit=0".to_owned()], "shop is larger than 0 MB"),
        (vec![path("shop"), "--repo-limit=2GB".to_owned()], "a whole number from 0 on, not `2GB`"),
        (vec![path("shop"), "--runs=2".to_owned()], "`--runs` does nothing without --bench"),
        (vec![path("shop"), format!("--state={}", path("aside"))], "aside is not empty and holds"),
        (
            vec!["http://ana:hunter2@127.0.0.1:1/shop.git".to_owned()],
            "http://127.0.0.1:1/shop.git can't be cloned: unable to access",
        ),
        (vec![format!("{}x", path("shop")), "--log=debug".to_owned()], "shopx does not exist"),
        (
            vec![path("shop"), "--json".to_owned()],
            "`--json` does nothing without --scenario or --bench",
        ),
    ] {
        let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, out, errors) = started(&given, &[]);
        assert_eq!((code, &*out), (2, ""), "{given:?}: {errors}");
        assert!(errors.contains(said) && !errors.contains("hunter2"), "{given:?}: {errors}");
        assert!(errors.contains("Nothing was built"), "{errors}");
        assert_eq!(errors.lines().count(), 2, "{errors}");
    }
    let foreign = [("GIT_TEST_ASSUME_DIFFERENT_OWNER", "true")];
    let (code, _, errors) = started(&[&path("shop")], &foreign);
    assert!(code == 2 && errors.contains("config --global --add safe.directory /"), "{errors}");
    // What is wrong with it is said as well where the demo was built before.
    fs::write(dir.join("target/debug/demo"), "").unwrap();
    assert_eq!(started(&[&path("shallow")], &[]).0, 2);
    for fit in [&[&*path("shop"), "--branch", "other"][..], &[&*path("aside"), "--branch=two"]] {
        let (code, _, errors) = started(fit, &[]);
        assert_eq!((code, &*errors), (130, ""), "{fit:?}");
    }
}

#[test]
fn a_repository_on_github_that_is_too_large_is_told_before_anything_is_built() {
    let tip = "1".repeat(40);
    let script = format!(
        "case $1 in --version) echo 'git version 2.47.3' ;; ls-remote) \
         printf 'ref: refs/heads/main\\tHEAD\\n{tip}\\tHEAD\\n{tip}\\trefs/heads/main\\n' ;; esac"
    );
    let curl = r#"case "$*" in
        *//api.github.com/repos/acme/huge) printf '%s' '{"id": 1, "size": 2000001}' ;;
        *//api.github.com/repos/acme/shop) printf '%s' '{"id": 2, "size": 1999000}' ;;
        *) exit 22 ;;
    esac"#;
    let machine =
        SmallMachine::with("hosted", &[CARGO, ("git", &script), ("curl", curl), CC, DISK]);
    let started = |more: &[&str]| machine.start(&[&["--", "--repo"], more].concat(), &[]);
    for huge in ["https://x:hunter2@github.com/acme/huge", "git@github.com:acme/huge.git"] {
        let (code, out, errors) = started(&[huge]);
        assert_eq!((code, &*out), (2, ""), "{huge}: {errors}");
        let said = errors.contains("is larger than 2000 MB") && errors.contains("--repo-limit");
        assert!(said && !errors.contains("hunter2"), "{huge}: {errors}");
    }
    for fit in [
        &["https://github.com/acme/huge", "--repo-limit=3000"][..],
        &["https://github.com/acme/shop"],
        // A private one, of which GitHub says nothing.
        &["https://github.com/acme/secret"],
    ] {
        let (code, _, errors) = started(fit);
        assert_eq!(code, 130, "{fit:?}: {errors}");
    }
    // Without that program nothing is known.
    fs::remove_file(machine.dir.join("bin/curl")).unwrap();
    let (code, _, errors) = started(&["https://github.com/acme/huge"]);
    assert_eq!(code, 130, "{errors}");
}

#[test]
fn a_host_is_asked_with_the_users_own_ssh_and_what_that_leaves_running_is_not_waited_for() {
    let said = "echo \"fatal: asked with $GIT_SSH_COMMAND\" >&2; exit 128";
    let script = format!(
        "case $1 in --version) echo 'git version 2.47.3' ;; config) echo \"$CONFIGURED\" ;; \
         *) /bin/sleep 25 & {said} ;; esac"
    );
    let machine = SmallMachine::with("host", &[CARGO, ("git", &script), CC, DISK]);
    let arguments = ["--", "--repo", "git@example.org:acme/shop"];
    for (environment, command) in [
        (vec![], "ssh -oBatchMode=yes"),
        (vec![("CONFIGURED", "ssh -i work")], "ssh -i work -oBatchMode=yes"),
        (
            vec![("CONFIGURED", "ssh -i work"), ("GIT_SSH_COMMAND", "ssh -i home")],
            "ssh -i home -oBatchMode=yes",
        ),
        (vec![("GIT_SSH_COMMAND", "plink -batch")], "plink -batch"),
    ] {
        let begun = Instant::now();
        let (code, _, errors) = machine.start(&arguments, &environment);
        let expected = format!("can't be cloned: asked with {command}. Check");
        assert!(code == 2 && errors.contains(&expected), "{expected}: {errors}");
        assert!(begun.elapsed() < Duration::from_secs(15), "it was waited for");
    }
}

#[test]
fn models_that_can_t_be_asked_are_told_before_anything_is_built() {
    let script = real_git();
    let machine = SmallMachine::with("models", &[CARGO, ("git", &script), CC, DISK]);
    let shop = machine.dir.join("shop");
    fs::create_dir(&shop).unwrap();
    git(&shop, "init --quiet");
    git(&shop, "commit --quiet --allow-empty --message=Start");
    let arguments = ["--", "--repo", shop.to_str().unwrap()];
    for (environment, said) in [
        (vec![("OLLAMA_HOST", "127.0.0.1:1")], "nothing answers at 127.0.0.1:1, which OLLAMA_HOST"),
        (
            vec![("CODEBUTLER_MODEL_URL", "models")],
            "CODEBUTLER_MODEL_URL has to look like https://",
        ),
        (
            vec![
                ("OPENROUTER_API_KEY", "sk-or-1"),
                ("HTTPS_PROXY", "http://ana:hunter2@127.0.0.1:1"),
            ],
            "the proxy 127.0.0.1:1, which HTTPS_PROXY names, can't be reached",
        ),
    ] {
        let (code, out, errors) = machine.start(&arguments, &environment);
        assert_eq!((code, &*out), (2, ""), "{errors}");
        assert!(errors.contains(said), "{said}: {errors}");
        assert!(!errors.contains("sk-or-1") && !errors.contains("hunter2"), "{errors}");
    }
    // Without a key the demo can look around: that is said, and it is built.
    let (code, _, errors) = machine.start(&arguments, &[]);
    assert!(code == 130 && errors.contains("can look around the repository"), "{errors}");
}
