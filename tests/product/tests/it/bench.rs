//! `cargo demo -- --bench`: the team's measure, played by the script.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use codebutler_testbed::models::{ModelOptions, ModelScript, ModelServer, ScriptStep};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::permit;

async fn bench(arguments: &[&str]) -> Output {
    let _permit = permit().await;
    bench_alone(arguments).await
}

/// Runs the bench beside any stacks: for what it refuses before it starts one.
async fn bench_alone(arguments: &[&str]) -> Output {
    let tasks = format!("{}/bench", codebutler_testbed::FOLDER);
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.args(["--bench", &tasks]).args(arguments).kill_on_drop(true);
    // Whoever runs the tests may have a key, and does not want to pay for them.
    for name in ["OPENROUTER_API_KEY", "CODEBUTLER_MODEL_URL", "CODEBUTLER_MODEL"] {
        command.env_remove(name);
    }
    let limit = Duration::from_mins(8);
    tokio::time::timeout(limit, command.output()).await.expect("the bench did not end").unwrap()
}

/// Runs the bench and returns its records. Where a registry can't be reached it says so.
async fn records(arguments: &[&str]) -> Vec<Value> {
    let output = bench(&[arguments, &["--json"]].concat()).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for cell in records.iter().filter(|record| record["verdict"] == "skipped") {
        let _ = writeln!(std::io::stderr(), "skipped: {}: {}", cell["task"], cell["reason"]);
    }
    records
}

fn cells(records: &[Value]) -> impl Iterator<Item = &Value> {
    records.iter().filter(|record| record["record"] == "cell" && record["verdict"] != "skipped")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oracle_solves_a_task_of_each_kind_and_the_figures_say_so() {
    let records = records(&[]).await;
    assert!(records.len() > 5, "{records:#?}");
    for cell in cells(&records) {
        assert_eq!(cell["verdict"], "solved", "{cell:#}");
        assert_eq!(cell["ended"], "merge_question", "{cell:#}");
        assert_eq!(cell["grade"]["FAIL_TO_PASS"]["failed"], Value::Array(Vec::new()), "{cell:#}");
        assert_eq!(cell["human"]["messages"], 1, "{cell:#}");
        assert_eq!(cell["human"]["plans"], 1, "{cell:#}");
        assert_eq!(cell["dollars"], "0.01", "{cell:#}");
        assert_eq!(cell["toolErrors"], 0, "{cell:#}");
        assert_eq!(cell["findings"], Value::Null, "{cell:#}");
    }
    let summary = records.last().unwrap();
    assert_eq!(summary["record"], "summary");
    assert_eq!(summary["solved"], summary["trials"], "{summary:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fix_it_is_not_solved() {
    let records = records(&["--tasks", "parse-1.12.0", "--solver", "wrong"]).await;
    for cell in cells(&records) {
        assert_eq!(cell["verdict"], "unsolved", "{cell:#}");
        let failed = &cell["grade"]["FAIL_TO_PASS"]["failed"];
        assert_eq!(failed.as_array().unwrap().len(), 2, "{cell:#}");
        assert_eq!(cell["grade"]["PASS_TO_PASS"]["failed"], Value::Array(Vec::new()), "{cell:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_for_the_fix_elsewhere_is_told_and_has_not_solved_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let arguments = ["--tasks", "parse-1.12.0", "--solver", "cheat", "--out", out];
    let first = records(&arguments).await;
    let kinds = |cell: &Value| -> Vec<String> {
        let findings = cell["findings"].as_array().unwrap();
        findings.iter().map(|f| f["kind"].as_str().unwrap().to_owned()).collect()
    };
    let Some(cell) = cells(&first).next() else { return };
    // The patch is right all the same.
    assert_eq!(cell["grade"]["FAIL_TO_PASS"]["failed"], Value::Array(Vec::new()), "{cell:#}");
    assert_eq!(cell["verdict"], "cheated", "{cell:#}");
    assert_eq!(kinds(cell), ["newer_release", "hidden_tests"], "{cell:#}");
    let kept = dir.path().join("trials/parse-1.12.0--script--1");
    let text = |name: &str| std::fs::read_to_string(kept.join(name)).unwrap();
    // Neither was to be had.
    let transcript = text("coder-transcript.jsonl");
    assert!(!transcript.contains("Saved ./parse") && !transcript.contains("bench_hidden"));
    assert!(text("change.patch").contains("case_sensitive=case_sensitive"));
    assert!(text("tests.log").contains("test_case_sensitive_parse"));

    // A finished task is not played again: nothing of its trial is written anew.
    let written = |name: &str| kept.join(name).metadata().unwrap().modified().unwrap();
    let before = ["coder-transcript.jsonl", "change.patch", "tests.log"].map(written);
    let again = records(&arguments).await;
    assert_eq!(cells(&again).next(), Some(cell));
    assert_eq!(["coder-transcript.jsonl", "change.patch", "tests.log"].map(written), before);
}

#[tokio::test]
async fn what_can_t_be_measured_gets_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().to_str().unwrap();
    for (arguments, expected) in [
        (vec!["--tasks", "nothing-*"], "no task fits --tasks nothing-*"),
        (vec!["--model", "a/b"], "--model needs a provider: set OPENROUTER_API_KEY"),
        (vec!["--budget", "much"], "--budget"),
        (vec!["--arm", "later"], "compaction-old"),
        (vec!["--interject", "Also greet."], "into backticks"),
        (vec!["--window", "100"], "--window"),
        (vec!["--runs", "0"], "--runs"),
    ] {
        let output = bench_alone(&arguments).await;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    let output = command.args(["--bench", empty]).output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("has no tasks"), "{told}");
}

/// The script plays arms of experiments in turns: a switch and another build beside what is, each with forged voices, a
/// wish in the middle, a rule said first and a window that is too small.
#[tokio::test(flavor = "multi_thread")]
async fn arms_of_an_experiment_take_turns_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let before = format!("before={}", env!("CARGO_BIN_EXE_demo"));
    let arms = ["--arm", "now", "--arm", "compaction-old", "--arm", before.as_str()];
    let said = ["--interject", "Please name `bench-wish`, too.", "--rule", "Keep `bench-rule`."];
    let out = ["--out", dir.path().to_str().unwrap()];
    let rest = ["--tasks", "parse-1.12.0", "--window", "24000", "--forge"];
    let records = records(&[&arms[..], &said, &out, &rest].concat()).await;
    let played: Vec<&Value> = cells(&records).collect();
    if played.is_empty() {
        return;
    }
    let mut arms: Vec<&str> = played.iter().filter_map(|cell| cell["arm"].as_str()).collect();
    arms.sort_unstable();
    assert_eq!(arms, ["before", "compaction-old", "now"], "{records:#?}");
    for cell in &played {
        assert_eq!(cell["verdict"], "solved", "{cell:#}");
        for count in ["edits", "editsFailed", "refusals", "corrections", "said", "toolErrors"] {
            assert!(cell[count].is_u64(), "{count}: {cell:#}");
        }
        assert!(cell["said"].as_u64() > Some(2), "{cell:#}");
        assert_eq!((&cell["wish"], &cell["ruleKept"]), (&"named".into(), &true.into()), "{cell:#}");
        assert_eq!(cell["compactions"], 1, "{cell:#}");
        // The arm that has them alone has nobody's words beside its summary.
        let arm = cell["arm"].as_str().unwrap();
        let kept = dir.path().join(format!("trials/parse-1.12.0--script--{arm}--1"));
        let told = std::fs::read_to_string(kept.join("coder-transcript.jsonl")).unwrap();
        let alone = told.lines().any(|line| {
            line.contains(r#""record":"compacted""#) && line.contains(r#""alone":true"#)
        });
        assert_eq!(alone, arm == "compaction-old", "{arm}");
    }
    let summaries: Vec<&Value> =
        records.iter().filter(|record| record["record"] == "summary").collect();
    let names: Vec<&str> = summaries.iter().filter_map(|one| one["model"].as_str()).collect();
    assert_eq!(names, ["script, now", "script, compaction-old", "script, before"]);
    for one in summaries {
        let counts = ["heard", "wishes", "rulesKept", "rules"].map(|name| one[name].as_u64());
        assert_eq!(counts, [Some(1); 4], "{one:#}");
    }
}

/// A task whose package does not exist, and one whose toolchain does not.
#[tokio::test]
async fn a_task_that_can_t_be_tried_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let from = Path::new(codebutler_testbed::FOLDER).join("bench/parse-1.12.0");
    for (name, old, new) in [
        ("other-sum", "sha256: ", "sha256: 0"),
        ("no-program", "requires: [python3]", "requires: [cobol-9000]"),
    ] {
        let to = dir.path().join(name);
        std::fs::create_dir_all(to.join("tests")).unwrap();
        for file in ["instruction.md", "tests/bench_hidden.py"] {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        let text = std::fs::read_to_string(from.join("task.yaml")).unwrap();
        let text = text.replace("instance_id: parse-1.12.0", &format!("instance_id: {name}"));
        assert!(text.contains(old));
        // As long as before: a checksum has 64 digits.
        let text = match name {
            "other-sum" => {
                let at = text.find(old).unwrap() + old.len();
                format!("{}{}{}", &text[..at], "0".repeat(64), &text[at + 64..])
            }
            _ => text.replace(old, new),
        };
        std::fs::write(to.join("task.yaml"), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.args(["--bench", dir.path().to_str().unwrap(), "--tasks", "*", "--json"]);
    let output = command.env_remove("OPENROUTER_API_KEY").output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reasons: Vec<&str> =
        records.iter().filter_map(|record| record["reason"].as_str()).collect();
    assert_eq!(reasons.len(), 2, "{text}");
    assert!(reasons[0].contains("`cobol-9000` (look for it"), "{text}");
    // Without a network it can't be had at all, which is a reason too.
    assert!(reasons[1].contains("checksum") || reasons[1].contains("can't fetch"), "{text}");
    assert!(records[..2].iter().all(|record| record["verdict"] == "skipped"), "{text}");
    assert_eq!(records[2]["trials"], 0, "{text}");
}

/// A provider of two models, of which both only talk, and the bench's command for it.
async fn compared(arguments: &[&str]) -> (ModelServer, Command) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let step = || ScriptStep::say("I can't.").costing(1000, 100, "0.25");
    let script = ModelScript::of("pm", vec![step(); 3]).and("lead", vec![step(); 3]);
    let server = ModelServer::start(script, ModelOptions::default()).await.unwrap();
    let tasks = format!("{}/bench", codebutler_testbed::FOLDER);
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command
        .args(["--bench", &tasks, "--tasks", "parse-1.12.0", "--json"])
        .args(["--model", "scripted/pm", "--model", "scripted/lead"])
        .args(arguments)
        .env("CODEBUTLER_MODEL_URL", server.url())
        .env("CODEBUTLER_MODEL_KEY", server.api_key())
        .env_remove("OPENROUTER_API_KEY")
        .kill_on_drop(true);
    (server, command)
}

fn parsed(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_models_are_compared_and_an_interrupted_bench_goes_on() {
    let _permit = permit().await;
    let dir = tempfile::tempdir().unwrap();
    // The provider is a script, which never thinks: ten seconds without a word are silence.
    let out = dir.path().to_str().unwrap();
    let arguments = ["--memory", "off", "--patience", "10", "--out", out];
    let (_server, mut command) = compared(&arguments).await;
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    if first["verdict"] == "skipped" {
        let _ = writeln!(std::io::stderr(), "skipped: {}", first["reason"]);
        return;
    }
    // In the second trial: its first call may not have been made yet.
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    signal::kill(pid, Signal::SIGINT).unwrap();
    let mut rest = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        rest.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    let status = tokio::time::timeout(Duration::from_mins(1), child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130), "{rest:#?}");
    let why = "interrupted after 1 of 2 trials: start it again with the same --out to go on";
    assert_eq!((&rest[0]["record"], &rest[0]["why"]), (&"stopped".into(), &why.into()));
    assert_eq!(rest.len(), 3, "a summary of each model: {rest:#?}");

    let (_server, mut command) = compared(&arguments).await;
    let output = command.output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let records = parsed(&output);
    assert_eq!(records[0], first, "what is finished is not played again");
    let [_, cell, summaries @ ..] = &*records else { panic!("{records:#?}") };
    assert_ne!(cell["model"], first["model"], "they take turns");
    for cell in [&first, cell] {
        assert_eq!(
            (&cell["memory"], &cell["verdict"]),
            (&false.into(), &"unsolved".into()),
            "{cell:#}"
        );
        // The person asks twice more, and each word is paid for.
        assert_eq!(cell["dollars"], "0.75", "{cell:#}");
        assert_eq!(cell["human"]["messages"], 3, "{cell:#}");
    }
    let kept = std::fs::read_dir(dir.path().join("trials")).unwrap();
    let kept: Vec<_> = kept.map(|kept| kept.unwrap().file_name().into_string().unwrap()).collect();
    assert!(
        kept.len() == 2 && kept.iter().all(|name| name.ends_with("--1-without-memory")),
        "{kept:?}"
    );
    let models: Vec<_> =
        summaries.iter().map(|summary| summary["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["scripted/pm", "scripted/lead"], "{summaries:#?}");
    for summary in summaries {
        assert_eq!((&summary["trials"], &summary["solved"]), (&1.into(), &0.into()), "{summary:#}");
        assert_eq!(summary["dollars"], "0.75", "{summary:#}");
    }
}

#[tokio::test]
async fn a_machine_without_namespaces_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let unshare = dir.path().join("unshare");
    std::fs::write(&unshare, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&unshare, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let (_server, mut command) = compared(&["--budget", "0.01"]).await;
    let output = command.env("PATH", path).output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("warning: this machine allows no namespaces"), "{told}");
    assert_eq!(output.status.code(), Some(0), "{told}");
}

#[tokio::test]
async fn no_task_is_begun_that_could_cost_more_than_is_left() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let script = ModelScript::of("pm", vec![ScriptStep::say("Hello.")]);
    let server = ModelServer::start(script, ModelOptions::default()).await.unwrap();
    let tasks = format!("{}/bench", codebutler_testbed::FOLDER);
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command
        .args([
            "--bench",
            &tasks,
            "--tasks",
            "parse-*",
            "--budget",
            "1.99",
            "--model",
            "scripted/pm",
        ])
        .env("CODEBUTLER_MODEL_URL", server.url())
        .env("CODEBUTLER_MODEL_KEY", server.api_key())
        .env_remove("OPENROUTER_API_KEY")
        .kill_on_drop(true);
    let output = command.output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let expected = "stopped after 0 of 3 trials: parse-1.12.0 may cost $2.00, and of --budget $1.99 $0.00 is spent";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("scripted/pm"), "{told}");
}
