//! The history of a thread, as it is kept: everything once, masked, and exact to the nano-dollar.

use std::collections::HashSet;

use codebutler_crds::NanoUsd;
use codebutler_crds::wire::MessageAuthor;
use codebutler_crds::wire::history::{HistoryEvent, HistoryLine};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::{Setup, Team, asks};

const SECRET: &str = "ghp_Zq3vX9kLm2Np8Rt5Wy7Ab1Cd4Ef6Gh0JkLmN";

/// Packages that the validator of trajectories needs: it asks for a newer Python than it uses.
const VALIDATOR: &[&str] = &[
    "--no-deps",
    "--ignore-requires-python",
    "harbor==0.26.0",
    "pydantic==2.14.4",
    "pydantic-core==2.50.5",
    "annotated-types==0.8.0",
    "typing-extensions==4.16.0",
    "typing-inspection==0.4.5",
];

/// The history of a thread, as the operator prints it.
async fn printed(team: &Team, root: &str) -> Vec<HistoryLine> {
    let name = team.thread(root).await.metadata.name.unwrap();
    let output = tokio::process::Command::new(team.stack.dir.join("bin/codebutler-operator"))
        .args(["history", &format!("{}/{name}", team.stack.place.team), "--history"])
        .arg(team.stack.dir.join("history"))
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains(SECRET), "a secret is kept");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The same in the open format, held against the validator of its authors, each answer with the cost of its own call.
async fn check_trajectory(team: &Team, root: &str) {
    let name = team.thread(root).await.metadata.name.unwrap();
    let output = tokio::process::Command::new(team.stack.dir.join("bin/codebutler-operator"))
        .args(["history", &format!("{}/{name}", team.stack.place.team), "--history"])
        .arg(team.stack.dir.join("history"))
        .args(["--form", "atif"])
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let file = team.stack.dir.join("trajectory.json");
    std::fs::write(&file, &output.stdout).unwrap();
    let steps: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let steps = steps["steps"].as_array().unwrap().clone();
    let agent = steps.iter().filter(|step| step["source"] == "agent");
    for step in agent {
        assert_eq!(step["llm_call_count"], 1, "each answer has its own call: {step}");
    }
    let env = [("TRAJECTORY", file.to_string_lossy().into_owned())];
    crate::python::run("trajectory.py", VALIDATOR, &env).await;
}

fn once(lines: &[HistoryLine]) {
    let mut seen = HashSet::new();
    for line in lines {
        assert!(seen.insert((&line.source, line.seq, &line.key)), "twice: {line:?}");
    }
}

fn cost(lines: &[HistoryLine]) -> NanoUsd {
    let calls = lines.iter().filter_map(|line| match &line.event {
        HistoryEvent::ModelCall(call) => Some(call.cost),
        _ => None,
    });
    calls.sum()
}

fn outputs(lines: &[HistoryLine]) -> Vec<(&str, &str, Option<i32>)> {
    let tools = lines.iter().filter_map(|line| match &line.event {
        HistoryEvent::Tool { call, output, exit_code, .. } => {
            Some((call.tool.as_str(), output.as_str(), *exit_code))
        }
        _ => None,
    });
    tools.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_kept_as_it_was_with_every_nano_dollar() {
    let command = format!("echo token {SECRET}; exit 3");
    let script = ModelScript::of(
        "pm",
        vec![asks("Plan: say hello.", "plan"), ScriptStep::say("@codebutler.coder go")],
    )
    .and(
        "coder",
        vec![
            ScriptStep::tool("Bash", json!({"command": command})).costing(1000, 10, "0.000123457"),
            ScriptStep::say("Said hello.").costing(900, 9, "1.000000001"),
            // Asked once more, since there is no pull request.
            ScriptStep::say("Said hello."),
        ],
    );
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, &format!("say hello with {SECRET}"));
    let plan = team.message(&root, "Plan: say").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    team.message(&root, "Said hello.").await;
    let thread = team.settled(&root, "coder").await;
    let spent = thread.status.unwrap().cost.unwrap();
    let lines = team
        .until("all to be kept", || async {
            let lines = printed(&team, &root).await;
            let ended =
                lines.iter().filter(|line| matches!(line.event, HistoryEvent::RunEnded { .. }));
            (ended.count() >= 2).then_some(lines)
        })
        .await;
    once(&lines);
    assert_eq!(cost(&lines), spent, "the ledger's own figure");
    let run = outputs(&lines).into_iter().find(|(tool, ..)| *tool == "Bash").unwrap();
    assert!(run.1.contains("token [redacted"), "{run:?}");
    assert_eq!(run.2, Some(3));
    let said: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.event {
            HistoryEvent::Message { author, text, .. } => {
                Some((author, text.lines().next().unwrap()))
            }
            _ => None,
        })
        .collect();
    let user = MessageAuthor::User { id: ana.clone() };
    assert!(
        said.iter().any(|(who, text)| **who == user && text.starts_with("say hello with [red"))
    );
    let coder = MessageAuthor::Role { role: "coder".into() };
    assert!(said.contains(&(&coder, "Said hello.")), "{said:?}");
    let approved = lines.iter().any(
        |line| matches!(&line.event, HistoryEvent::Plan { approved_by: Some(by), .. } if by == ana),
    );
    let decided = lines.iter().any(|line| {
        matches!(&line.event, HistoryEvent::Decision { kind, choice, user, .. }
            if kind == "plan" && choice == "approve" && user == ana)
    });
    assert!(approved && decided, "{lines:#?}");
    check_trajectory(&team, &root).await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_dies_loses_and_doubles_nothing() {
    let mut steps: Vec<_> = (0..6)
        .map(|n| ScriptStep::tool("Bash", json!({"command": format!("sleep 0.3; echo step {n}")})))
        .collect();
    steps.push(ScriptStep::say("Six steps."));
    let mut team = Setup::new(ModelScript::of("coder", steps)).start().await;
    let root = team.says("ana", None, "@codebutler.coder count");
    for _ in 0..2 {
        let before = printed(&team, &root).await.len();
        team.until("a step to be kept", || async {
            let lines = printed(&team, &root).await;
            (lines.len() > before + 2).then_some(())
        })
        .await;
        team.stack.gateway.kill().await.unwrap();
        team.stack.gateway.restart().await.unwrap();
    }
    team.message(&root, "Six steps.").await;
    let lines = team
        .until("all to be kept", || async {
            let lines = printed(&team, &root).await;
            let ends = |line: &HistoryLine| matches!(line.event, HistoryEvent::RunEnded { .. });
            lines.iter().any(ends).then_some(lines)
        })
        .await;
    once(&lines);
    let steps: Vec<_> = outputs(&lines).into_iter().filter(|(tool, ..)| *tool == "Bash").collect();
    assert_eq!(steps.len(), 6, "{steps:?}");
    for (n, (_, output, code)) in steps.iter().enumerate() {
        assert!(output.contains(&format!("step {n}")) && *code == Some(0), "{output}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_checks_stand_is_part_of_what_happened() {
    let pm = vec![asks("Plan: raise the price.", "plan"), ScriptStep::say("Thanks.")];
    let coder = vec![
        ScriptStep::tool("Write", json!({"path": "src/price.txt", "content": "price = 20\n"})),
        ScriptStep::tool("GitCommit", json!({"message": "Raise the price"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Raise", "body": "Because."})),
        ScriptStep::say("It is open."),
        ScriptStep::tool("GHStatus", json!({})),
        ScriptStep::say("One check failed."),
    ];
    let team = Setup::new(ModelScript::of("pm", pm).and("coder", coder)).start().await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    team.message(&root, "It is open.").await;
    let branch = codebutler_crds::names::branch_name(
        team.thread(&root).await.metadata.name.as_ref().unwrap(),
    );
    let head = team.stack.remote.head(&branch).await.unwrap();
    for (name, conclusion) in [("lint", "success"), ("test", "failure")] {
        team.stack.remote.report_check(&head, name, Some(conclusion), "").await.unwrap();
    }
    team.says("ana", Some(&root), "@codebutler.coder how are the checks?");
    team.message(&root, "One check failed.").await;
    let lines = team
        .until("the checks in the history", || async {
            let lines = printed(&team, &root).await;
            let told = lines.iter().any(|line| matches!(line.event, HistoryEvent::Checks { .. }));
            told.then_some(lines)
        })
        .await;
    once(&lines);
    let checks = lines.iter().find_map(|line| match &line.event {
        HistoryEvent::Checks { commit, checks } => Some((commit, checks)),
        _ => None,
    });
    let (commit, checks) = checks.unwrap();
    assert_eq!(*commit, head);
    let mut named: Vec<_> = checks.iter().map(|one| (&*one.name, &*one.state)).collect();
    named.sort_unstable();
    assert_eq!(named, [("lint", "success"), ("test", "failure")]);
    team.stop().await;
}
