//! Nothing is lost and nothing is done twice: repeated and reordered events, messages at awkward
//! moments, and an agent killed between any two steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use codebutler_crds::{NanoUsd, names};
use codebutler_testbed::kubelet::InjectEnv;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::{EventRelease, MessageView};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use crate::support::{Setup, Team, asks, needs_process_kubelet};

fn count(messages: &[MessageView], text: &str) -> usize {
    messages.iter().filter(|m| m.shown.contains(text)).count()
}

/// The user messages of the last request that a role made, as one text.
fn last_prompt(team: &Team, role: &str) -> String {
    let requests = team.stack.models.requests();
    let last = requests.iter().rfind(|r| r.role.as_deref() == Some(role)).unwrap();
    let messages = last.body["messages"].as_array().unwrap();
    let users = messages.iter().filter(|m| m["role"] == "user");
    users.map(|m| m["content"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_three_times_is_handled_once() {
    let team = Setup::new(ModelScript::of(
        "pm",
        vec![ScriptStep::say("Hello."), ScriptStep::say("Again?")],
    ))
    .start()
    .await;
    let root = team.says("ana", None, "<@BOT> good morning");
    team.stack.slack.redeliver(&root, 2);
    team.message(&root, "Hello.").await;
    team.stack.slack.redeliver(&root, 1);
    let thread = team.settled(&root, "pm").await;

    // Another conversation goes through the same parts afterwards: had the repeats caused a second
    // run, it would have been first.
    let other = team.says("ben", None, "and good evening");
    team.message(&other, "Hello.").await;
    assert_eq!(count(&team.messages(&root), "Hello."), 1);
    assert_eq!(count(&team.messages(&root), "Again?"), 0);
    let served = team.stack.models.served();
    assert!(!served.iter().any(|s| s.repeat), "{served:?}");
    assert_eq!(served.len(), 2, "{served:?}");
    assert_eq!(thread.status.unwrap().roles["pm"].usage.calls, 1);
    let message = team.stack.slack.message(&team.stack.channel, &root).unwrap();
    assert!(message.reactions.iter().any(|r| r.name == "eyes"), "{message:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_events_out_of_order_are_both_read() {
    let script = ModelScript::of(
        "pm",
        vec![ScriptStep::say("First."), ScriptStep::say("Second."), ScriptStep::say("3")],
    );
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "begin");
    team.message(&root, "First.").await;
    team.settled(&root, "pm").await;

    team.stack.slack.hold_events();
    team.says("ana", Some(&root), "the earlier one");
    let newest = team.says("ben", Some(&root), "the later one");
    team.stack.slack.release_events(&EventRelease::Reversed);
    team.message(&root, "Second.").await;
    let thread = team.settled(&root, "pm").await;

    let prompt = last_prompt(&team, "pm");
    assert_eq!(prompt.matches("the earlier one").count(), 1, "{prompt}");
    assert_eq!(prompt.matches("the later one").count(), 1, "{prompt}");
    let pm = &thread.status.unwrap().roles["pm"];
    assert!(pm.done.as_ref().unwrap().as_str() >= newest.as_str(), "{pm:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_during_a_run_is_seen_before_the_next_model_call() {
    let look = ScriptStep::tool("Glob", json!({"pattern": "*.md"}));
    let script =
        ModelScript::of("pm", vec![look, ScriptStep::say("Seen."), ScriptStep::say("Too late.")]);
    let team = Setup::new(script).start().await;
    team.stack.models.hold();
    let root = team.says("ana", None, "look around");
    team.stack.models.held().await;
    let aside = team.says("ana", Some(&root), "by the way, only the docs");
    team.thread_when(&root, "the message to be marked", |t| {
        let pm = t.status.as_ref().and_then(|s| s.roles.get("pm"));
        pm.and_then(|r| r.inbox.as_ref()).is_some_and(|inbox| inbox.as_str() >= aside.as_str())
    })
    .await;
    team.stack.models.release();
    team.message(&root, "Seen.").await;
    team.settled(&root, "pm").await;
    assert_eq!(last_prompt(&team, "pm").matches("only the docs").count(), 1);
    assert_eq!(count(&team.messages(&root), "Too late."), 0);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_while_the_pod_goes_to_sleep_is_answered_once() {
    let rounds = 6;
    let steps = (0..=rounds).map(|n| ScriptStep::say(&format!("answer {n}."))).collect();
    let team = Setup::new(ModelScript::of("pm", steps)).idle(1).start().await;
    let root = team.says("ana", None, "hello");
    team.message(&root, "answer 0.").await;
    for n in 1..=rounds {
        // Around the moment at which the pod gives up waiting, which is a second after its run.
        tokio::time::sleep(std::time::Duration::from_millis(700 + n * 120)).await;
        team.says("ana", Some(&root), &format!("question {n}"));
        team.message(&root, &format!("answer {n}.")).await;
    }
    team.settled(&root, "pm").await;
    let messages = team.messages(&root);
    for n in 0..=rounds {
        assert_eq!(count(&messages, &format!("answer {n}.")), 1, "answer {n}");
    }
    assert!(!team.stack.models.served().iter().any(|s| s.repeat));
    team.until("the pod to be gone", || async {
        team.leftovers().await.iter().all(|l| l.starts_with("pvc/")).then_some(())
    })
    .await;
    team.stop().await;
}

/// A coder's whole day: an edit, a commit, a push, a pull request and a report.
fn coder_script() -> ModelScript {
    let pm = vec![
        asks("Plan: set the price to 0.2 (src/price.txt:1).", "plan"),
        ScriptStep::say("noted"),
    ];
    let edit = json!({"path": "src/price.txt", "edits": [{"old": "0.1", "new": "0.2"}]});
    let coder = vec![
        ScriptStep::tool("Read", json!({"path": "src/price.txt"})),
        ScriptStep::tool("Edit", edit),
        ScriptStep::tool("GitCommit", json!({"message": "Set the price to 0.2"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Set the price", "body": "As planned."})),
        ScriptStep::tool("SendMessage", json!({"message": "halfway there"})),
        ScriptStep::say("@codebutler.lead All done."),
        ScriptStep::say("One too many."),
    ]
    .into_iter()
    .map(|step| step.costing(100, 10, "0.000123456"))
    .collect();
    ModelScript::of("pm", pm).and("coder", coder).and("lead", vec![asks("Merge?", "merge")])
}

/// Kills the first coder pod of each thread at a step of its own; counts the pods of each thread.
struct Killer {
    /// Step of the kill, by thread name.
    at: Mutex<BTreeMap<String, usize>>,
    /// Uids of coder pods by thread name.
    pods: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Killer {
    fn inject(self: &Arc<Self>) -> Arc<InjectEnv> {
        let this = Arc::clone(self);
        Arc::new(move |pod: &Pod, container: &str| {
            let label = |key| pod.labels().get(key).cloned().unwrap_or_default();
            if container != names::pod::AGENT || label(names::LABEL_ROLE) != "coder" {
                return Vec::new();
            }
            let thread = label(names::LABEL_THREAD);
            let mut pods = this.pods.lock().unwrap();
            let uids = pods.entry(thread.clone()).or_default();
            uids.push(pod.uid().unwrap_or_default());
            uids.dedup();
            match this.at.lock().unwrap().get(&thread) {
                Some(step) if uids.len() == 1 => {
                    vec![("CODEBUTLER_DIE_AT_STEP".to_owned(), step.to_string())]
                }
                _ => Vec::new(),
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_between_any_two_steps_repeats_nothing() {
    if needs_process_kubelet("it changes what agents are started with") {
        return;
    }
    let killer = Arc::new(Killer { at: Mutex::default(), pods: Mutex::default() });
    let team = Setup::new(coder_script()).idle(0).inject_env(killer.inject()).start().await;
    let (mut repeats, mut costs) = (0, Vec::new());
    let mut step = 1;
    loop {
        let root = team.says("ana", None, &format!("change the price, take {step}"));
        let thread = team.thread(&root).await;
        killer.at.lock().unwrap().insert(thread.name_any(), step);
        let plan = team.message(&root, "Plan: set the price").await;
        let ana = &team.stack.users["ana"];
        team.stack.slack.click(ana, &team.stack.channel, &plan.ts, "plan:approve").unwrap();
        team.message(&root, "All done.").await;
        let thread = team.settled(&root, "coder").await;

        let messages = team.messages(&root);
        for text in ["All done.", "halfway there", "Plan: set the price"] {
            assert_eq!(count(&messages, text), 1, "killed at step {step}: `{text}`");
        }
        assert_eq!(count(&messages, "One too many."), 0, "killed at step {step}");
        let status = thread.status.clone().unwrap();
        let branch = status.branch.unwrap();
        let commits = team.stack.remote.log(&format!("main..{branch}")).await.unwrap();
        assert_eq!(commits.len(), 1, "killed at step {step}: {commits:?}");
        let pulls = team.stack.remote.pulls().await.unwrap();
        let own = pulls.iter().filter(|p| p.head == branch).count();
        assert_eq!(own, 1, "killed at step {step}: pull requests");

        let served = team.stack.models.served();
        let paid_twice = served.iter().filter(|s| s.repeat).count() - repeats;
        assert!(paid_twice <= 1, "killed at step {step}: {paid_twice} answers paid twice");
        repeats += paid_twice;
        let calls = status.roles["coder"].usage.calls;
        let cost = NanoUsd(123_456 * calls);
        assert_eq!(status.roles["coder"].usage.cost, cost, "killed at step {step}");
        costs.push(cost);

        let pods = killer.pods.lock().unwrap()[&thread.name_any()].len();
        if pods == 1 {
            break; // The run has fewer steps than this: all have been tried.
        }
        // While its branch is open, the next one is told that both change the same file: mail, at a moment
        // of its own, for which a model is asked anew.
        team.stack.threads().delete(&thread.name_any(), &DeleteParams::default()).await.unwrap();
        // The agent's own tests walk through every step; here every seventh one has to do.
        step += 7;
        assert!(step < 300, "a run of this size has no {step} steps");
    }
    assert!(step > 40, "only {step} steps: are the step points gone?");
    // Only an answer that had arrived and was not yet recorded may be paid twice: there are two
    // step points between the two, for each of seven calls.
    assert!(repeats <= 14, "{repeats} answers were paid twice");
    assert_eq!(team.stack.models.billed().roles["coder"].cost, costs.into_iter().sum());
    team.stop().await;
}
