//! A role that answers several requests at once: each in a conversation of its own.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use codebutler_wire::{MessageAuthor, PendingItem, RoleState, SlackTs};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::gateway::check_keys;
use crate::world::{World, calls, says, until};

/// The request that a conversation is about, from its instructions.
fn about(messages: &[Value]) -> String {
    let system = messages[0]["content"].as_str().unwrap();
    let rest = system.split("is about message ").nth(1).expect("a conversation of its own");
    rest.split(' ').next().unwrap().to_owned()
}

/// A model that is busy with something that is never the same.
fn busy(messages: &[Value]) -> Value {
    let text = format!("{} at {}", about(messages), messages.len());
    calls(&[("Todo", json!({"items": [{"text": text, "state": "doing"}]}))])
}

fn role(role: &str) -> MessageAuthor {
    MessageAuthor::Role { role: role.into() }
}

fn user(id: &str) -> MessageAuthor {
    MessageAuthor::User { id: id.into() }
}

async fn world(at_once: u32, model: impl Fn(&[Value]) -> Value + Send + Sync + 'static) -> World {
    let world = World::new(model).await;
    let mut inner = world.gateway.lock();
    inner.session.parallelism = at_once;
    inner.session.max_turns = 1000;
    inner.session.tools = ["Read", "Todo", "SendMessage"].map(Into::into).to_vec();
    drop(inner);
    world
}

fn asked(world: &World, n: u32) -> SlackTs {
    let author = match n % 3 {
        0 => role("coder"),
        1 => user("U1"),
        _ => user("U2"),
    };
    world.gateway.lock().say_as(author, &format!("question {n}"), true)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_several_askers_are_answered_at_once_and_each_answer_names_its_asker() {
    let begun = Arc::new(Mutex::new(HashSet::new()));
    let seen = begun.clone();
    // Nobody answers before all have begun.
    let mut world = world(3, move |messages| {
        let mut seen = seen.lock().unwrap();
        seen.insert(about(messages));
        let list = messages.last().unwrap()["content"].as_str().unwrap_or_default();
        let others = list.starts_with("[CodeButler] Your list") && !list.contains(&about(messages));
        assert!(!others, "a list of another conversation: {list}");
        if seen.len() < 3 { busy(messages) } else { says(&format!("to {}", about(messages))) }
    })
    .await;
    let all = [asked(&world, 0), asked(&world, 1), asked(&world, 2)];
    world.one_pod().await;
    let inner = world.gateway.lock();
    let mut posts: Vec<_> =
        inner.posts.iter().map(|p| (p.text.as_str(), p.to.as_deref())).collect();
    posts.sort_unstable();
    assert_eq!(
        posts,
        [
            ("@codebutler.coder to 1001.000000", None),
            ("to 1002.000000", Some("U1")),
            ("to 1003.000000", Some("U2")),
        ]
    );
    check_keys(&inner.posts);
    let last = inner.last_report();
    assert_eq!((last.state, last.done.as_ref()), (RoleState::Idle, Some(&all[2])));
    let ended = inner.reports.iter().filter(|report| report.terminal.is_some()).count();
    assert_eq!((ended, inner.wants()), (1, false));
    // Each was told of its own request only, and the thread around it.
    let first = inner.asked.iter().find(|m| about(m) == "1002.000000").unwrap();
    let told = first[1]["content"].as_str().unwrap();
    assert!(told.contains("from user U1, to you]\n> question 1"), "{told}");
    assert!(!told.contains("question 2"), "{told}");
    for id in &all {
        assert!(world.path(&format!("agent/pm/{id}/transcript.jsonl")).exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_while_others_are_answered_holds_for_the_requests_after_it() {
    let free = Arc::new(AtomicBool::new(false));
    let is_free = free.clone();
    let mut world = world(2, move |messages| {
        if is_free.load(Ordering::SeqCst) { says(&about(messages)) } else { busy(messages) }
    })
    .await;
    world.gateway.lock().session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
    let first = asked(&world, 0);
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("it is busy", || !gateway.lock().requests.is_empty()).await;
    gateway.lock().say("@codebutler.pm model strong", true);
    until("it is told", || !gateway.lock().posts.is_empty()).await;
    let last = asked(&world, 3);
    let models = |about_which: &SlackTs| {
        let inner = gateway.lock();
        let asked = inner.asked.iter().zip(&inner.requests);
        let ours = asked.filter(|(messages, _)| about(messages) == about_which.as_str());
        ours.map(|(_, body)| body["model"].as_str().unwrap().to_owned()).collect::<HashSet<_>>()
    };
    until("the second is asked", || !models(&last).is_empty()).await;
    free.store(true, Ordering::SeqCst);
    assert!(pod.ended().await.success());
    assert_eq!(models(&first), HashSet::from(["scripted/pm".to_owned()]));
    assert_eq!(models(&last), HashSet::from(["scripted/strong".to_owned()]));
    let inner = gateway.lock();
    let texts = inner.post_texts();
    assert_eq!(texts[0], "From now on I think with `scripted/strong`.");
    assert_eq!((texts.len(), inner.wants()), (3, false), "{texts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_the_role_has_places_for_work_at_once() {
    let (working, most) = (Arc::new(Mutex::new(HashSet::new())), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (working.clone(), most.clone());
    let mut world = world(2, move |messages| {
        let mut now = now.lock().unwrap();
        now.insert(about(messages));
        let most = peak.fetch_max(now.len(), Ordering::SeqCst).max(now.len());
        // Long enough for another one to begin beside it.
        if messages.len() < 12 || (most < 2 && messages.len() < 60) {
            return busy(messages);
        }
        now.remove(&about(messages));
        says("done")
    })
    .await;
    for n in 0..5 {
        world.gateway.lock().say_as(role("coder"), &format!("question {n}"), true);
    }
    world.one_pod().await;
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(world.gateway.lock().post_texts(), ["@codebutler.coder done"; 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_moves_past_what_is_answered_while_others_are_worked_on() {
    let go_on = Arc::new(AtomicBool::new(false));
    let may = go_on.clone();
    let mut world = world(2, move |messages| {
        let first = about(messages) == "1001.000000";
        if first || may.load(Ordering::SeqCst) { says("done") } else { busy(messages) }
    })
    .await;
    let (first, second) = (asked(&world, 0), asked(&world, 1));
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("the first answer to be on record", || gateway.lock().done == Some(first.clone())).await;
    assert_eq!(gateway.lock().last_report().state, RoleState::Running);
    // A message that the same person adds belongs to the same conversation.
    let added = gateway.lock().say_as(user("U1"), "and this", true);
    until("the addition to be read", || {
        let inner = gateway.lock();
        inner.asked.iter().any(|m| m.iter().any(|m| m.to_string().contains("and this")))
    })
    .await;
    go_on.store(true, Ordering::SeqCst);
    assert!(pod.ended().await.success());
    let inner = gateway.lock();
    let texts = inner.post_texts();
    assert_eq!(texts, ["@codebutler.coder done", "done"]);
    assert_eq!(inner.last_report().done, Some(added));
    assert!(second < *inner.last_report().done.as_ref().unwrap() && !inner.wants());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_all_of_them() {
    let mut world = world(2, busy).await;
    let newest = [asked(&world, 0), asked(&world, 1)].into_iter().max();
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("both to work", || {
        gateway.lock().asked.iter().map(|m| about(m)).collect::<HashSet<_>>().len() == 2
    })
    .await;
    gateway.lock().pending.push(PendingItem {
        id: "stop-1".into(),
        role: "pm".into(),
        kind: "stop".into(),
        choice: "stop".into(),
        user: "U1".into(),
        message: "1001.000000".parse().unwrap(),
    });
    assert!(pod.ended().await.success());
    let inner = gateway.lock();
    let texts = inner.post_texts();
    assert!(texts.len() == 2 && texts.iter().all(|text| text.starts_with("Stopped")), "{texts:?}");
    assert_eq!((inner.last_report().done.clone(), inner.wants()), (newest, false));
}

/// Two requests with a pod that dies at `step`; true if it was killed.
async fn die_at(step: u64) -> bool {
    let mut world =
        world(2, |messages| match messages.iter().filter(|m| m["role"] == "assistant").count() {
            0 => calls(&[("Read", json!({"path": "README"}))]),
            1 => calls(&[("SendMessage", json!({"message": format!("half {}", about(messages))}))]),
            2 => says(&format!("whole {}", about(messages))),
            _ => says("asked too often"),
        })
        .await;
    world.gateway.lock().say_as(role("coder"), "one", true);
    world.gateway.lock().say_as(user("U1"), "two", true);
    let first = world.pod(Some(step)).ended().await;
    let killed = first.signal() == Some(9);
    assert!(killed || first.success(), "step {step}: {first}");
    let rest = world.settle(None).await;
    assert!(rest.iter().all(std::process::ExitStatus::success), "step {step}: {rest:?}");
    let inner = world.gateway.lock();
    let mut texts = inner.post_texts();
    texts.sort_unstable();
    let expected = [
        "@codebutler.coder whole 1001.000000",
        "half 1001.000000",
        "half 1002.000000",
        "whole 1002.000000",
    ];
    assert_eq!(texts, expected, "killed at step {step}");
    check_keys(&inner.posts);
    assert!(!inner.wants(), "killed at step {step}");
    // At most the calls that were under way when it was killed are paid twice.
    assert!(inner.asked.len() <= 6 + 2, "{} calls, killed at step {step}", inner.asked.len());
    killed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_step_repeats_no_answer_and_loses_none() {
    let mut walk = stream::iter((1..1000u64).step_by(2)).map(die_at).buffered(3);
    let mut walked = 0;
    while walk.next().await.unwrap() {
        walked += 1;
    }
    assert!((15..400).contains(&walked), "{walked} steps");
}
