//! `cargo demo` as its users run it: exit codes, summary, what is left behind.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::permit;

async fn demo(arguments: &[&str]) -> Output {
    let _permit = permit().await;
    demo_alone(arguments).await
}

/// Runs the demo beside any stacks: for what it refuses before it starts one.
async fn demo_alone(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.args(arguments).kill_on_drop(true);
    let limit = Duration::from_mins(5);
    tokio::time::timeout(limit, command.output()).await.expect("the demo did not end").unwrap()
}

fn shipped(name: &str) -> String {
    format!("{}/scenarios/{name}.yaml", codebutler_testbed::FOLDER)
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bugfix_ends_with_a_tested_commit_on_main() {
    let output = demo(&["--scenario", &shipped("bugfix"), "--json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["passed"], true, "{summary:#}");
    assert_eq!(summary["cost"], summary["billed"], "{summary:#}");
    assert!(summary["pullRequest"].as_str().unwrap().ends_with("/pull/1"), "{summary:#}");
    assert!(summary["commit"].is_string(), "{summary:#}");
    assert_eq!(summary["roles"].as_array().unwrap().len(), 4, "{summary:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_is_answered_without_a_pull_request() {
    let output = demo(&["--scenario", &shipped("question")]).await;
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("pull request: none"), "{said}");
    // The folder that it printed is gone, and so are the processes that worked in it.
    let kubeconfig = said.lines().find_map(|l| l.split_once("KUBECONFIG=")).unwrap().1;
    let dir = PathBuf::from(kubeconfig).ancestors().nth(3).unwrap().to_owned();
    assert!(!dir.exists(), "{} is left behind", dir.display());
    let name = dir.file_name().unwrap().to_string_lossy().into_owned();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        assert!(!line.contains(&name), "still running: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_skill_that_ships_is_found_by_its_words_and_played() {
    for name in ["skills", "skills-build"] {
        let output = demo(&["--scenario", &shipped(name)]).await;
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_team_learns_is_there_the_next_time() {
    for name in ["learning", "re-learn", "disagreement", "correction"] {
        let output = demo(&["--scenario", &shipped(name)]).await;
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_arguments_the_chat_page_is_there_until_interrupted() {
    let _permit = permit().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    let mut running = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    while said.last().is_none_or(|line: &String| !line.starts_with("Ctrl-C")) {
        let line = tokio::time::timeout(Duration::from_mins(2), lines.next_line()).await;
        said.push(line.expect("the demo says no more").unwrap().expect("the demo ended"));
    }
    let after = |label: &str| {
        let line = said.iter().find_map(|line| line.split_once(label));
        line.unwrap_or_else(|| panic!("no {label} in {said:?}")).1.trim().to_owned()
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let page = reqwest::get(after("chat page:")).await.unwrap();
    assert_eq!(page.status(), reqwest::StatusCode::OK);
    assert!(said.iter().any(|line| line.contains("kubectl get threads -A -w")), "{said:?}");
    let kubeconfig = PathBuf::from(after("KUBECONFIG="));
    assert!(kubeconfig.exists());

    let pid = nix::unistd::Pid::from_raw(running.id().unwrap().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = tokio::time::timeout(Duration::from_mins(1), running.wait()).await;
    assert_eq!(ended.expect("still running").unwrap().code(), Some(0));
    assert!(!kubeconfig.ancestors().nth(3).unwrap().exists(), "the folder is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_change_their_minds_ask_say_no_and_come_two_at_a_time() {
    let names = [
        "plan-changed",
        "questions",
        "rejected",
        "after-close",
        "decimal",
        "budget",
        "two-threads",
        "roadmap",
        "from-kubectl",
        "steering",
        "servers",
        "web",
        "destructive",
    ];
    for name in names {
        let output = demo(&["--scenario", &shipped(name)]).await;
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visible_change_is_shown_before_and_after() {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    if codebutler_browser::find_browser(&folders).is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: no Chromium is installed here");
        return;
    }
    let output = demo(&["--scenario", &shipped("visible")]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// The smallest scenario that expects something of every kind.
const SMALL: &str = r##"
name: small
description: A greeting.
repository:
  name: acme/small
  files: {README.md: "# small\n"}
users: [ana]
roles: [pm]
settings: {idle_timeout_seconds: 1, settle: 3}
conversation:
  - {user: ana, says: Hello there}
  - wait: {message: {from: pm, contains: Good morning}}
models:
  pm:
    - say: Good morning.
      usage: {prompt: 10, completion: 2, cost: 0.000123}
expect:
  messages: [{from: pm, contains: Good morning}]
  reactions: [{emoji: eyes, by: codebutler, on: {from: ana, contains: Hello}}]
  files: unchanged
  commits: {count: 0}
  commands: [{run: "test -f README.md"}]
  branches: {only: [main, {matches: "^codebutler/"}]}
  pull_request: none
  thread: {state: Active}
  cost: {total: 0.000123, roles: {pm: 0.000123}}
"##;

fn written(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(format!("{name}.yaml"));
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_broken_expectation_of_any_kind_is_exit_1() {
    let dir = tempfile::tempdir().unwrap();
    let whole = demo(&["--scenario", &written(dir.path(), "whole", SMALL)]).await;
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));

    let broken = [
        ("messages", "[{from: pm, contains: Good morning}]", "[{from: pm, contains: Good night}]"),
        ("reactions", "emoji: eyes", "emoji: tada"),
        ("files", "files: unchanged", "files: {NOTES.md: {contains: x}}"),
        ("commits", "count: 0", "count: 1"),
        ("commands", "test -f README.md", "test -f missing"),
        ("branches", r#"only: [main, {matches: "^codebutler/"}]"#, "only: [other]"),
        ("pull_request", "pull_request: none", "pull_request: {state: merged}"),
        ("thread", "state: Active", "state: Closed"),
        ("cost", "total: 0.000123", "total: 0.000124"),
    ];
    let played = broken.map(|(kind, right, wrong)| {
        assert!(SMALL.contains(right), "{kind}");
        // The message that is waited for stays as it is.
        let text = SMALL.replacen(right, wrong, 1).replace(
            "wait: {message: {from: pm, contains: Good night}}",
            "wait: {message: {from: pm, contains: Good morning}}",
        );
        let file = written(dir.path(), kind, &text);
        async move { (kind, demo(&["--scenario", &file]).await) }
    });
    // Most of each is waiting.
    let mut played = futures::stream::iter(played).buffer_unordered(3);
    while let Some((kind, output)) = played.next().await {
        assert_eq!(output.status.code(), Some(1), "{kind}: {}", said(&output));
        assert!(said(&output).lines().any(|l| l.starts_with('✗')), "{kind}: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_in_a_scenario_is_said_with_line_and_field() {
    let dir = tempfile::tempdir().unwrap();
    for (name, right, wrong, expected) in [
        ("clicks", "says: Hello there", "sais: Hello there", "conversation"),
        ("missing", "  cost: {total: 0.000123, roles: {pm: 0.000123}}\n", "", "cost"),
    ] {
        assert!(SMALL.contains(right), "{name}");
        let file = written(dir.path(), name, &SMALL.replacen(right, wrong, 1));
        let output = demo_alone(&["--scenario", &file]).await;
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{name}.yaml:")) && said.contains(expected), "{said}");
    }
    let output = demo_alone(&["--scenario", "no-such-file.yaml"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("no-such-file.yaml"), "{}", said(&output));
}
