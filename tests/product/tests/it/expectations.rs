//! Every kind of expectation holds on good evidence, and fails on evidence that is wrong in just
//! that.

use std::path::Path;

use codebutler_crds::NanoUsd;
use codebutler_testbed::github::git::CommitObject;
use codebutler_testbed::github::{PullRequest, PullState};
use codebutler_testbed::models::{ModelBill, RoleBill, ServedAnswer};
use codebutler_testbed::scenario::{
    CommandRun, ObservedWorld, PlayableScenario, ProviderAccount, RemoteState, ScenarioEvidence,
    SeenMessage, SeenReaction, evaluate_scenario,
};
use serde_json::json;

const SCENARIO: &str = r#"
name: all
description: Every kind of expectation.
repository: {name: acme/all, files: {a.txt: a}}
users: [ana]
roles: [pm, coder]
conversation:
  - {user: ana, says: please}
models:
  pm:
    - {say: done, usage: {prompt: 1, completion: 1, cost: 0.3}}
expect:
  messages:
    - {from: ana, contains: please}
    - {from: pm, contains: [plan, "a.txt:1"]}
    - {from: pm, matches: "^done"}
    - {from: pm, count: 2}
    - {from: codebutler, contains: bill, order: any}
  reactions:
    - {emoji: eyes, by: codebutler, on: {from: ana}}
    - {emoji: x, absent: true}
  files:
    a.txt: {contains: b, lacks: q, matches: "^b+$"}
    b.txt: {equals: "b"}
    c.txt: {absent: true}
  commits: {count: 1, subject: "(#1)", message: [Plan-approved-by], squash: true}
  commands:
    - {run: make test, output: [ok]}
  branches: {only: [main], absent: [{matches: "^x"}], count: 1}
  pull_request: {state: merged, title: Change, body: [why]}
  thread:
    state: Closed
    phase: closed
    conditions: {Ready: "True", Stalled: absent}
    fields: {/status/pullRequest/number: 1}
  cost: {total: 0.3, roles: {pm: 0.3}}
  turns: {pm: 1}
  tool_calls: {pm: 2}
  pods: 0
  volumes: 0
"#;

fn scenario(text: &str) -> PlayableScenario {
    PlayableScenario::parse(text, "all.yaml", Path::new("/")).unwrap_or_else(|e| panic!("{e}"))
}

fn message(ts: u32, from: &str, text: &str) -> SeenMessage {
    SeenMessage {
        conversation: "1.000000".into(),
        ts: format!("{ts}.000000"),
        from: from.into(),
        text: text.into(),
        ..SeenMessage::default()
    }
}

fn good() -> ScenarioEvidence {
    let mut asked = message(1, "ana", "please");
    asked.reactions.push(SeenReaction { emoji: "eyes".into(), by: "codebutler".into() });
    let bill =
        RoleBill { cost: NanoUsd(300_000_000), calls: 1, tool_calls: 2, ..Default::default() };
    let who = || ("GitHub".to_owned(), String::new(), String::new());
    ScenarioEvidence {
        observed: ObservedWorld {
            messages: vec![
                asked,
                message(2, "codebutler", "bill"),
                message(3, "pm", "plan: a.txt:1"),
                message(4, "pm", "done"),
            ],
            threads: vec![json!({
                "spec": {"state": "Closed"},
                "status": {
                    "phase": "closed", "cost": "0.30", "pullRequest": {"number": 1},
                    "roles": {"pm": {"usage": {"cost": "0.30"}}},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })],
            pull_requests: vec![PullRequest {
                number: 1,
                title: "Change".into(),
                body: "why".into(),
                state: PullState::Merged,
                head: "x".into(),
                head_sha: "1".into(),
                base: "main".into(),
                merge_commit: None,
                comments: vec![],
                reviews: vec![],
                lines: vec![],
            }],
            ..ObservedWorld::default()
        },
        remote: RemoteState {
            commits: vec![CommitObject {
                sha: "2".into(),
                tree: "t".into(),
                parents: vec!["1".into()],
                author: who(),
                committer: who(),
                message: "Change (#1)\n\nPlan-approved-by: U1".into(),
            }],
            files: [("a.txt", "bb"), ("b.txt", "b")].map(|(p, t)| (p.into(), t.into())).into(),
            changed: vec!["a.txt".into()],
            branches: vec!["main".into()],
        },
        account: ProviderAccount {
            bill: ModelBill { roles: [("pm".to_owned(), bill)].into() },
            served: vec![ServedAnswer {
                role: "pm".into(),
                conversation: 0,
                list: 0,
                step: 0,
                repeat: false,
                tools: vec![],
                cost: NanoUsd(300_000_000),
                prompt_tokens: 1,
                completion_tokens: 1,
                ..ServedAnswer::default()
            }],
        },
        ran: vec![CommandRun { exit: Some(0), output: "ok".into() }],
    }
}

fn failed(scenario: &PlayableScenario, evidence: &ScenarioEvidence) -> Vec<String> {
    let outcomes = evaluate_scenario(scenario, evidence);
    for outcome in &outcomes {
        assert_eq!(outcome.ok, outcome.detail.is_empty(), "{outcome:?}");
    }
    outcomes.into_iter().filter(|o| !o.ok).map(|o| o.what).collect()
}

/// Breaks one thing, and names the only expectations that must fail for it.
macro_rules! breaks {
    ($scenario:expr, $($evidence:ident => $break:expr => [$($what:literal),+]);+ $(;)?) => {$({
        let mut $evidence = good();
        $break;
        assert_eq!(failed($scenario, &$evidence), [$($what),+], "{}", stringify!($break));
    })+};
}

#[test]
fn each_kind_of_expectation_can_fail() {
    let all = &scenario(SCENARIO);
    assert_eq!(failed(all, &good()), [""; 0]);
    breaks! { all,
        e => e.observed.script_failures.push("pm step 1".into())
            => ["the models were asked what the script expects"];
        e => e.account.served.clear() => ["the models' script was played to its end"];
        e => e.account.served[0].step = 1 => ["the models' script was played to its end"];
        e => e.observed.messages[2].text = "plan".into()
            => ["a message from pm with `plan` with `a.txt:1`"];
        e => e.observed.messages[3].text = "nearly done".into() => ["a message from pm like /^done/"];
        e => e.observed.messages.swap(2, 3) => ["a message from pm like /^done/"];
        e => e.observed.messages.push(message(5, "pm", "more")) => ["2 × a message from pm"];
        e => e.observed.messages.truncate(1)
            => ["a message from pm with `plan` with `a.txt:1`", "a message from pm like /^done/",
                "2 × a message from pm", "a message from codebutler with `bill`"];
        e => e.observed.messages[0].reactions.clear() => [":eyes: on a message from ana"];
        e => e.observed.messages[0].reactions[0].by = "ana".into() => [":eyes: on a message from ana"];
        e => e.observed.messages[0].reactions.push(SeenReaction { emoji: "x".into(), by: "ana".into() })
            => ["no :x: on a message from anybody"];
        e => e.remote.files.insert("a.txt".into(), "c".into()) => ["file a.txt"];
        e => e.remote.files.insert("a.txt".into(), "bq".into()) => ["file a.txt"];
        e => e.remote.files.insert("a.txt".into(), "ab".into()) => ["file a.txt"];
        e => e.remote.files.insert("b.txt".into(), "b\n".into()) => ["file b.txt"];
        e => e.remote.files.remove("b.txt") => ["file b.txt"];
        e => e.remote.files.insert("c.txt".into(), String::new()) => ["file c.txt"];
        e => e.remote.commits.push(e.remote.commits[0].clone()) => ["commits: 1"];
        e => e.remote.commits[0].message = "Change\n\nPlan-approved-by: U1".into()
            => ["the commit's subject says `(#1)`"];
        e => e.remote.commits[0].message = "Change (#1)".into()
            => ["the commit's message says `Plan-approved-by`"];
        e => e.remote.commits[0].parents.push("3".into()) => ["the commit is a squash"];
        e => e.remote.commits[0].committer.0 = "coder".into() => ["the commit is a squash"];
        e => e.ran[0].exit = Some(1) => ["`make test` ends with 0"];
        e => e.ran[0].exit = None => ["`make test` ends with 0"];
        e => e.ran[0].output.clear() => ["`make test` ends with 0"];
        e => e.ran.clear() => ["`make test` ends with 0"];
        e => e.remote.branches.push("y".into()) => ["branches"];
        e => e.remote.branches.clear() => ["branches"];
        e => e.observed.pull_requests[0].state = PullState::Open => ["pull request: merged"];
        e => e.observed.pull_requests[0].title = "Else".into() => ["pull request: merged"];
        e => e.observed.pull_requests[0].body.clear() => ["pull request: merged"];
        e => e.observed.pull_requests.clear() => ["pull request: merged"];
        e => e.observed.threads[0]["spec"]["state"] = "Active".into() => ["thread"];
        e => e.observed.threads[0]["status"]["phase"] = "lead".into() => ["thread"];
        e => e.observed.threads[0]["status"]["conditions"][0]["status"] = "False".into() => ["thread"];
        e => e.observed.threads[0]["status"]["conditions"][0]["type"] = "Stalled".into() => ["thread"];
        e => e.observed.threads[0]["status"]["pullRequest"]["number"] = 2.into() => ["thread"];
        e => e.observed.threads[0]["status"]["cost"] = "0.299999999".into()
            => ["cost on the Thread: 0.30 USD"];
        e => e.observed.threads[0]["status"]["roles"]["pm"]["usage"]["cost"] = "0.31".into()
            => ["cost of pm on the Thread: 0.30 USD"];
        e => e.account.bill.roles.get_mut("pm").unwrap().cost = NanoUsd(1)
            => ["cost billed by the provider: 0.30 USD", "cost of pm billed: 0.30 USD"];
        e => e.account.bill.roles.get_mut("pm").unwrap().repeats = 1 => ["answers paid for twice: 0"];
        e => e.account.bill.roles.get_mut("pm").unwrap().calls = 2 => ["model calls of pm: 1"];
        e => e.account.bill.roles.get_mut("pm").unwrap().tool_calls = 3 => ["tool calls of pm: 2"];
        e => e.observed.pods.push("p".into()) => ["pods: 0"];
        e => e.observed.volumes.push("v".into()) => ["volumes: 0"];
    }
    let mut evidence = good();
    let other = RoleBill { cost: NanoUsd(1), ..RoleBill::default() };
    evidence.account.bill.roles.insert("coder".into(), other);
    assert_eq!(
        failed(all, &evidence),
        ["cost billed by the provider: 0.30 USD", "no other role cost anything"]
    );
}

#[test]
fn every_thread_pull_request_and_list_of_steps_counts() {
    let text = SCENARIO
        .replace(
            "    - {say: done, usage: {prompt: 1, completion: 1, cost: 0.3}}\n",
            "    threads:
      - {thread: please, steps: [{say: done, usage: {cost: 0.3}}]}
      - {thread: other, steps: [{say: one}, {say: two}]}\n",
        )
        .replace(
            "  thread:\n",
            "  threads: [{state: Closed}, {state: Active}]
  pull_requests: [merged, {state: open, title: Other}]\n  thread:\n",
        )
        .replace("pull_request: {state: merged, title: Change, body: [why]}", "pull_request: open");
    let scenario = scenario(&text);
    let more = || {
        let mut evidence = good();
        let mut pull = evidence.observed.pull_requests[0].clone();
        pull.state = PullState::Open;
        pull.title = "Other".into();
        evidence.observed.pull_requests.push(pull);
        evidence.observed.threads.push(json!({"spec": {}}));
        for step in 0..2 {
            let served = ServedAnswer { list: 1, step, ..evidence.account.served[0].clone() };
            evidence.account.served.push(served);
        }
        evidence
    };
    assert_eq!(failed(&scenario, &more()), [""; 0]);
    let mut evidence = more();
    // The longer list is not played to its end, although a step of its number was played.
    evidence.account.served[2].list = 0;
    evidence.observed.threads[1]["spec"]["state"] = "Closed".into();
    evidence.observed.pull_requests[0].state = PullState::Closed;
    assert_eq!(
        failed(&scenario, &evidence),
        ["the models' script was played to its end", "pull request #1 of 2", "Thread 2 of 2"]
    );
    evidence.observed.threads.truncate(1);
    assert!(failed(&scenario, &evidence).contains(&"Threads: 2".to_owned()));
}

#[test]
fn nothing_expected_can_fail_too() {
    let text = SCENARIO
        .replace("pull_request: {state: merged, title: Change, body: [why]}", "pull_request: none");
    let start = text.find("  files:\n").unwrap();
    let end = text.find("  commits:").unwrap();
    let text = format!("{}  files: unchanged\n{}", &text[..start], &text[end..]);
    let text = text.replace("branches: {only: [main], absent", "branches: {absent");
    let quiet = &scenario(&text);
    let calm = || {
        let mut evidence = good();
        evidence.observed.pull_requests.clear();
        evidence.remote.changed.clear();
        evidence
    };
    assert_eq!(failed(quiet, &calm()), [""; 0]);
    let mut evidence = calm();
    evidence.remote.changed.push("a.txt".into());
    evidence.observed.pull_requests = good().observed.pull_requests;
    evidence.remote.branches = vec!["xyz".into()];
    assert_eq!(failed(quiet, &evidence), ["files: unchanged", "branches", "pull request: none"]);
    evidence.observed.threads.clear();
    evidence.remote.commits.clear();
    assert_eq!(
        failed(quiet, &evidence)[1..],
        [
            "commits: 1",
            "the commit's subject says `(#1)`",
            "the commit's message says `Plan-approved-by`",
            "the commit is a squash",
            "branches",
            "pull request: none",
            "thread",
            "cost on the Thread: 0.30 USD",
            "cost of pm on the Thread: 0.30 USD",
        ]
    );
}
