//! An agent killed between any two steps goes on without repeating anything.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use codebutler_guides::voice::append_notes;
use codebutler_wire::history::{HistoryEvent, ToldEntry};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::gateway::check_keys;
use crate::world::{World, calls, results, says};

const UNREAD: &str = "Error: read `README` first";

/// Works like a careful model: reads again when it is told to.
fn careful(messages: &[Value]) -> Value {
    let refused = |at: usize| {
        messages
            .get(at + 1)
            .is_some_and(|m| m["content"].as_str().is_some_and(|c| c.starts_with(UNREAD)))
    };
    let is_reread = |m: &Value| {
        m.pointer("/tool_calls/0/id").is_some_and(|id| id.as_str().unwrap().starts_with("reread"))
    };
    if refused(messages.len() - 2) {
        let mut again = calls(&[("Read", json!({"path": "README"}))]);
        again["choices"][0]["message"]["tool_calls"][0]["id"] = json!("reread");
        return again;
    }
    let done = messages
        .iter()
        .enumerate()
        .filter(|(at, m)| m["role"] == "assistant" && !refused(*at) && !is_reread(m))
        .count();
    match done {
        0 => calls(&[("Read", json!({"path": "README"})), ("Grep", json!({"pattern": "world"}))]),
        1 => calls(&[(
            "Edit",
            json!({"path": "README", "edits": [{"old": "world", "new": "world world"}]}),
        )]),
        2 => calls(&[("Write", json!({"path": "new/file.txt", "content": "new\n"}))]),
        3 => calls(&[("Bash", json!({"command": "echo ran >> $TMPDIR/ran"}))]),
        4 => calls(&[("GitCommit", json!({"message": "Greet the world twice"}))]),
        5 => calls(&[
            ("GitPush", json!({})),
            ("GHCreatePR", json!({"title": "Greet", "body": "More."})),
        ]),
        6 => calls(&[
            ("SendMessage", json!({"message": "pushed"})),
            ("GHStatus", json!({})),
            ("SendMessage", json!({"message": "shall I?", "decision": "plan"})),
        ]),
        7 => says("thank you"),
        _ => says("asked too often"),
    }
}

/// Checks that each action is told once, with its result.
fn told_once(
    transcript: &[Value],
    history: &BTreeMap<String, Vec<ToldEntry>>,
    whole: bool,
    at: &str,
) {
    assert!(history.len() <= 1, "{at}");
    let told: Vec<_> = history.values().flatten().collect();
    assert!(told.is_sorted_by(|a, b| a.seq < b.seq), "{told:#?}");
    let results = transcript.iter().filter(|record| record["record"] == "result");
    let shown = |record: &Value| {
        let notes = record.get("notes").cloned().unwrap_or_else(|| json!([]));
        let notes: Vec<String> = serde_json::from_value(notes).unwrap();
        append_notes(record["text"].as_str().unwrap().to_owned(), &notes)
    };
    let results: Vec<String> = results.map(shown).collect();
    let outputs = told.iter().filter_map(|told| match &told.event {
        HistoryEvent::Tool { output, .. } => Some(output.clone()),
        _ => None,
    });
    let outputs: Vec<_> = outputs.collect();
    assert!(results.starts_with(&outputs), "{outputs:#?} {at}");
    if !whole {
        return;
    }
    assert_eq!(outputs.len(), results.len(), "{at}");
    let ended =
        told.iter().filter(|told| matches!(told.event, HistoryEvent::RunEnded { .. })).count();
    let ends = transcript.iter().filter(|record| record["record"] == "run_ended").count();
    assert_eq!(ended, ends, "{at}");
}

/// Plays the conversation with a pod that dies at `step`; true if it was killed.
async fn die_at(step: u64) -> bool {
    let mut world = World::new(careful).await;
    {
        let mut inner = world.gateway.lock();
        inner.say("please greet twice", true);
        inner.say("thanks in advance", false);
        inner.later = vec![("yes", true)];
    }
    let first = world.pod(Some(step)).ended().await;
    let killed = std::os::unix::process::ExitStatusExt::signal(&first) == Some(9);
    assert!(killed || first.success(), "step {step}: {first}");
    let answers = world.transcript().iter().filter(|r| r["record"] == "answer").count();
    let before = world.gateway.lock().asked.len();
    let rest = world.settle(None).await;
    assert!(rest.iter().all(std::process::ExitStatus::success), "step {step}: {rest:?}");

    let inner = world.gateway.lock();
    let at = format!("killed at step {step}, transcript {:#?}", world.transcript());
    assert_eq!(inner.post_texts(), ["pushed", "shall I?", "thank you"], "{at}");
    check_keys(&inner.posts);
    assert_eq!(inner.pull_requests, ["Greet"], "{at}");
    for paid in &inner.asked[before..] {
        let said = paid.iter().filter(|m| m["role"] == "assistant").count();
        assert!(said >= answers, "paid again for answer {said} of {answers}: {at}");
    }
    // Nobody is left to send the events that the last pod had not sent before it was killed.
    let whole = !killed || !rest.is_empty();
    told_once(&world.transcript(), &inner.history, whole, &at);
    let log = world.git(&["log", "--format=%an: %s", "codebutler/t"]);
    assert_eq!(log, "CodeButler PM: Greet the world twice\nSomeone: First", "{at}");
    let pushes =
        world.git(&["reflog", "codebutler/t"]).lines().filter(|l| l.contains("push")).count();
    assert_eq!(pushes, 1, "{at}");
    assert_eq!(world.git(&["show", "codebutler/t:README"]), "hello\nworld world", "{at}");
    assert_eq!(world.git(&["show", "codebutler/t:new/file.txt"]), "new", "{at}");
    assert_eq!(crate::world::git(&world.tree(""), &["status", "--porcelain"]), "", "{at}");
    let ran = fs::read_to_string(world.path("tmp/ran")).unwrap_or_default();
    let told = inner.asked.last().unwrap();
    let unknown = results(told).iter().any(|r| r.contains("is not known"));
    assert!(ran == "ran\n" || (unknown && ran.is_empty()), "{ran:?}: {at}");
    for text in ["please greet twice", "thanks in advance", "> yes"] {
        let times =
            told.iter().filter(|m| m["content"].as_str().is_some_and(|c| c.contains(text))).count();
        assert_eq!(times, 1, "{text}: {at}");
    }
    assert!(!inner.wants());
    killed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_step_repeats_nothing() {
    let slots = Arc::new(Semaphore::new(4));
    // The last step is not known beforehand: look ahead a little, stop at the first survivor.
    let mut walk = stream::iter(1..1000u64)
        .map(|step| {
            let slots = slots.clone();
            tokio::spawn(async move {
                let _slot = slots.acquire_owned().await;
                (step, die_at(step).await)
            })
        })
        .buffered(4);
    let mut last = 0;
    while let Some(done) = walk.next().await {
        let (step, killed) = done.unwrap();
        if !killed {
            last = step;
            break;
        }
    }
    // Eight answers, a dozen effects: fewer steps would mean that some are not walked.
    assert!((60..1000).contains(&last), "{last} steps");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_last_line_is_as_if_it_had_not_been() {
    let mut world = World::new(careful).await;
    world.gateway.lock().say("please greet twice", true);
    // Somewhere in the middle; then the last line is cut at its half.
    let status = world.pod(Some(30)).ended().await;
    assert!(!status.success());
    let path = world.path("agent/pm/transcript.jsonl");
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap();
    fs::write(&path, &whole[..last + (whole.len() - last) / 2]).unwrap();
    world.gateway.lock().later = vec![("yes", true)];
    world.settle(None).await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["pushed", "shall I?", "thank you"]);
    assert_eq!(inner.pull_requests.len(), 1);
}
