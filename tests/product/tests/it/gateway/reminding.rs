//! Reminders of questions that people have not answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_gateway::condition_notices;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_testbed::models::ModelScript;
use codebutler_testbed::slack::CallFault;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually};

fn condition(type_: &str, status: &str, reason: &str, since: Timestamp) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "the image `x` is not there",
           "lastTransitionTime": since})
}

fn begin_telling(world: &World) -> AbortOnDropHandle<()> {
    let work = Arc::clone(&world.gateway.work);
    AbortOnDropHandle::new(tokio::spawn(async move { condition_notices::run_notices(&work).await }))
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_reminded_once_of_a_question_that_they_have_not_answered() {
    // A time zone in which it is noon now.
    let now = Timestamp::now();
    let hour = i32::from(now.to_zoned(jiff::tz::TimeZone::UTC).hour());
    let zone = format!("Etc/GMT{:+}", hour - 12);
    let spec = json!({"limits": {"timeZone": zone}, "reminders": {"hours": 1, "weekends": true}});
    let world = World::play(ModelScript::of("coder", vec![]), &spec, &json!({})).await;
    let asked = now.checked_sub(2.hours()).unwrap();
    let waits = condition("AwaitingUser", "True", "Asked", asked);
    let status = json!({"status": {
        "speaker": world.ana(), "speakers": ["U0BEN", world.ana()], "asked": format!("{}.000100", asked.as_second()),
        "conditions": [waits],
    }});
    world.patch_thread(&status).await;
    let reminders = || {
        let all = world.slack.messages(&world.channel, Some(&world.root)).into_iter();
        let told = all.filter(|message| message.text.contains("still waits for people"));
        told.map(|message| message.text).collect::<Vec<_>>()
    };
    let telling = begin_telling(&world);
    eventually("people are reminded", || async { !reminders().is_empty() }).await;
    for user in [&*world.ana(), "U0BEN"] {
        assert!(reminders()[0].contains(&format!("<@{user}>")), "{user}: {:?}", reminders());
    }
    assert!(reminders()[0].contains("to answer a question, since <!date^"), "{:?}", reminders());
    // Another gateway knows nothing of it but what Slack has.
    drop(telling);
    let stuck = condition("Ready", "False", "ImageNotPulled", asked);
    world.patch_thread(&json!({"status": {"conditions": [waits, stuck]}})).await;
    let _telling = begin_telling(&world);
    let is_told = || async {
        let all = world.slack.messages(&world.channel, Some(&world.root));
        all.iter().any(|message| message.text.contains("I can't go on"))
    };
    eventually("what is told after it", is_told).await;
    assert_eq!(reminders().len(), 1, "{:?}", reminders());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_who_took_part_have_left_people_who_may_decide_are_reminded() {
    let spec = json!({"access": {"users": ["U0LEAD"]}});
    let world = World::play(ModelScript::of("coder", vec![]), &spec, &json!({})).await;
    let former = world.slack.create_former("eva", "Eva");
    let mut before = world.thread().await;
    before.spec.requested_by = Some(former.clone());
    world.begin_thread_as(before).await;
    let key = ThreadKey { namespace: world.cluster.team().to_owned(), name: world.name.clone() };
    let work = &world.gateway.work;
    eventually("the gateway knows who asked", || async {
        let known = work.context.thread(&key);
        known.is_some_and(|thread| thread.spec.requested_by.as_ref() == Some(&former))
    })
    .await;
    let reminded = |words: &str| {
        let all = world.slack.messages(&world.channel, Some(&world.root));
        all.into_iter().map(|one| one.text).find(|text| text.contains(words)).unwrap()
    };
    work.slack.remind(&key, "first", "It waits.").await.unwrap();
    let first = reminded("It waits.");
    assert!(first.contains("has left") && first.contains("<@U0LEAD>"), "{first}");
    assert!(!first.contains(&former), "{first}");
    // Somebody else has taken part since.
    let spoke = json!({"status": {"speakers": [former, world.ana()]}});
    world.patch_thread(&spoke).await;
    eventually("the gateway knows who spoke", || async {
        let status = work.context.thread(&key).and_then(|thread| thread.status.clone());
        status.is_some_and(|status| status.speakers.len() == 2)
    })
    .await;
    work.slack.remind(&key, "second", "It still waits.").await.unwrap();
    let second = reminded("It still waits.");
    assert!(second.contains(&format!("<@{}>", world.ana())), "{second}");
    assert!(!second.contains("has left") && !second.contains("U0LEAD"), "{second}");
    // Who alone could sign in is gone, and others are there.
    let servers = json!({"docs": {"calls": 0, "signIn": former}});
    world.patch_thread(&json!({"status": {"mcp": {"servers": servers}}})).await;
    eventually("the gateway knows who has to sign in", || async {
        work.context.thread(&key).is_some_and(|thread| thread.asked_people() == [former.as_str()])
    })
    .await;
    work.slack.remind(&key, "third", "It waits for a sign-in.").await.unwrap();
    let third = reminded("It waits for a sign-in.");
    assert!(third.contains(&format!("<@{}>", world.ana())), "{third}");
    assert!(!third.contains("has left") && !third.contains(&former), "{third}");
}

/// Notices of all Threads are told one by one: what is slow for one holds up the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_reminder_waits_a_moment_for_slack_to_say_who_has_left() {
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &json!({})).await;
    let key = ThreadKey { namespace: world.cluster.team().to_owned(), name: world.name.clone() };
    let people = ["U0BEN", "U0CIA", "U0DAN", "U0FAY", "U0GUS"];
    world.patch_thread(&json!({"status": {"speakers": people}})).await;
    let work = &world.gateway.work;
    eventually("the gateway knows who spoke", || async {
        let status = work.context.thread(&key).and_then(|thread| thread.status.clone());
        status.is_some_and(|status| status.speakers.len() == people.len())
    })
    .await;
    world.slack.fail_next("users.info", 9, &CallFault::SlowReply(Duration::from_mins(1)));
    let begun = Instant::now();
    work.slack.remind(&key, "slow", "It waits.").await.unwrap();
    // One after another, or with the time of a usual call, they would take longer.
    assert!(begun.elapsed() < Duration::from_secs(14), "{:?}", begun.elapsed());
    let all = world.slack.messages(&world.channel, Some(&world.root));
    let text = all.into_iter().map(|one| one.text).find(|text| text.contains("It waits."));
    let text = text.unwrap();
    assert!(people.iter().all(|user| text.contains(&format!("<@{user}>"))), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_posted_for_somebody_who_went_away_meanwhile_is_not_posted_again() {
    const POST: &str = "chat.postMessage";
    let world = World::start(vec![]).await;
    let key = ThreadKey { namespace: world.cluster.team().to_owned(), name: world.name.clone() };
    let notice = |text: &'static str| {
        let (work, key) = (Arc::clone(&world.gateway.work), key.clone());
        async move { work.slack.notice(&key, text, text).await }
    };
    let told = |text: &str| {
        let all = world.slack.messages(&world.channel, Some(&world.root));
        all.iter().filter(|message| message.text.contains(text)).count()
    };
    notice("what is known").await.unwrap();
    // It is in Slack, and its caller does not hear of it.
    world.slack.fail_next(POST, 1, &CallFault::SlowReply(Duration::from_mins(1)));
    let posting = AbortOnDropHandle::new(tokio::spawn(notice("early")));
    eventually("it is in Slack", || async { told("early") == 1 }).await;
    drop(posting);
    notice("early").await.unwrap();
    assert_eq!(told("early"), 1);

    // It is on its way there.
    let before = world.slack.calls(POST);
    world.slack.fail_next(POST, 1, &CallFault::Slow(Duration::from_millis(300)));
    let posting = AbortOnDropHandle::new(tokio::spawn(notice("late")));
    eventually("Slack takes it in", || async { world.slack.calls(POST) > before }).await;
    drop(posting);
    notice("late").await.unwrap();
    eventually("it is in Slack", || async { told("late") > 0 }).await;
    assert_eq!((told("late"), world.slack.calls(POST)), (1, before + 1));

    // Slack breaks the connection off, and takes the message in all the same.
    let before = world.slack.calls(POST);
    world.slack.fail_next(POST, 1, &CallFault::BreakLate(Duration::from_secs(1)));
    notice("broken off").await.unwrap();
    assert_eq!((told("broken off"), world.slack.calls(POST)), (1, before + 1));
}
