//! The gateway's Slack part between the testbed's Slack and API server: what a person says or clicks
//! is on the Thread before Slack is told, once, whatever order or repetition it comes in.

mod answers;
mod desk;
mod feedback;
mod groups;
mod habits;
mod limits;
mod outside;
mod presence;
mod reading;
mod rights;
mod setup;
mod several;
mod sharing;
mod tables;
mod trouble;

use std::time::Duration;

use codebutler_crds::thread::{ClosingChoice, PendingItem, RoleState};
use codebutler_crds::wire::{AskedDecision, ErrorCode, MessageAuthor, PostMessage, RunReport};
use codebutler_crds::{SlackTs, Thread};
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_runtime::metrics::build_registry;
use codebutler_testbed::slack::{CallFault, EventRelease, SlackServer};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use self::desk::{Desk, PATIENCE, Setting};

fn post(key: &str, text: &str) -> PostMessage {
    PostMessage { key: key.to_owned(), text: text.to_owned(), ..PostMessage::default() }
}

fn ask(key: &str, text: &str, decision: AskedDecision) -> PostMessage {
    PostMessage { decision: Some(decision), ..post(key, text) }
}

fn inbox(thread: &Thread, role: &str) -> Option<SlackTs> {
    thread.status.as_ref()?.roles.get(role)?.inbox.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_is_acknowledged_when_its_mark_is_stored() {
    let desk = Desk::start().await;
    let root = desk.says(None, "the total is wrong");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    // No waiting here: the acknowledgement promises it.
    let thread = desk.thread(&root).await.unwrap();
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), root);
    assert_eq!(inbox(&thread, "coder"), None);
    assert_eq!(thread.spec.requested_by.as_deref(), Some(desk.ana.as_str()));
    assert_eq!(thread.conversation().unwrap().ts.as_str(), root);
    desk.eyes(&root).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_and_doubled_events_change_nothing() {
    let desk = Desk::start().await;
    // A mention of the app comes as two events.
    let root = desk.says(None, "@codebutler hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let before = desk.thread(&root).await.unwrap();
    for _ in 0..2 {
        assert!(desk.slack.redeliver(&root, 1) > 0);
    }
    let all = desk.slack.stats().delivered;
    desk.slack
        .wait_for("all acknowledged", PATIENCE, |slack| {
            let acked = slack.deliveries().iter().all(|d| d.acked_at.is_some());
            (acked && slack.stats().delivered >= all).then_some(())
        })
        .await
        .unwrap();
    // Had a repeat written anything, then before this reply.
    let reply = desk.says(Some(&root), "and again");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    let after = desk.thread(&root).await.unwrap();
    assert_eq!(desk.threads().await.len(), 1);
    assert_eq!(before.uid(), after.uid());
    assert_eq!(inbox(&after, "pm").unwrap().as_str(), reply);
    desk.eyes(&root).await;
    let message = desk.slack.message(&desk.channel, &root).unwrap();
    assert_eq!(message.reactions.len(), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_out_of_order_leave_the_newest_mark() {
    let desk = Desk::start().await;
    let root = desk.says(None, "first");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    desk.slack.hold_events();
    let early = desk.says(Some(&root), "@codebutler.coder second");
    let late = desk.says(Some(&root), "@codebutler.coder third");
    desk.slack.release_events(&EventRelease::Reversed);
    for ts in [&early, &late] {
        desk.slack.wait_acked(ts, PATIENCE).await.unwrap();
    }
    let thread = desk.thread(&root).await.unwrap();
    assert_eq!(inbox(&thread, "coder").unwrap().as_str(), late);
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), root);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_socket_delivered_is_read_back_after_a_restart() {
    let mut desk = Desk::start().await;
    let old = desk.says(None, "before");
    desk.slack.wait_acked(&old, PATIENCE).await.unwrap();
    desk.cursor().await;
    desk.gateway.take().unwrap().stop().await;

    desk.slack.hold_events();
    let reply = desk.says(Some(&old), "@codebutler.coder while you were away");
    let root = desk.says(None, "a new one");
    desk.slack.release_events(&EventRelease::Only(Vec::new()));
    desk.restart();
    desk.until("read back", || async {
        let new = desk.thread(&root).await.is_some_and(|t| inbox(&t, "pm").is_some());
        let coder = inbox(&desk.thread(&old).await.unwrap(), "coder");
        new && coder.is_some_and(|ts| ts.as_str() == reply)
    })
    .await;
    desk.eyes(&root).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_does_not_replay_the_past() {
    let setting = Setting { said_before: Some("an old story"), ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.cursor().await;
    let root = desk.says(None, "now");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    assert_eq!(desk.threads().await.len(), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_is_recorded_and_one_on_an_older_plan_is_told_so() {
    let desk = Desk::start().await;
    let root = desk.says(None, "please plan");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    let slack = desk.service();
    let first = ask("plan-1", "**Plan** one: `src/a.rs:1`", AskedDecision::Plan);
    let first = slack.post(&pm, &first, None).await.unwrap();
    let click = |ts: &SlackTs, action: &str| {
        desk.slack.click(&desk.ana, &desk.channel, ts.as_str(), action).unwrap()
    };
    // Clicked while the first still had buttons, heard of when the second had replaced it.
    desk.slack.hold_events();
    let stale = click(&first.ts, "plan:approve");
    let second = ask("plan-2", "**Plan** two", AskedDecision::Plan);
    let second = slack.post(&pm, &second, None).await.unwrap();
    desk.slack.release_events(&EventRelease::InOrder);
    desk.slack.wait_acked(&stale, PATIENCE).await.unwrap();
    let told = |m: &codebutler_testbed::slack::MessageView| {
        m.ephemeral_for.as_deref() == Some(&desk.ana) && m.text.contains("no longer open")
    };
    desk.slack.wait_message(&desk.channel, Some(&root), PATIENCE, told).await.unwrap();
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!((status.plan.unwrap().approved_by, status.pending), (None, Vec::new()));

    let approved = click(&second.ts, "plan:approve");
    desk.slack.wait_acked(&approved, PATIENCE).await.unwrap();
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    let plan = status.plan.clone().unwrap();
    assert_eq!((plan.ts, plan.role.as_str()), (second.ts.clone(), "pm"));
    assert_eq!(plan.approved_by.as_deref(), Some(desk.ana.as_str()));
    let pending = &status.pending[0];
    assert_eq!((&*pending.role, &*pending.kind, &*pending.choice), ("pm", "plan", "approve"));

    // Before and after the role took it, a redelivered click changes nothing.
    desk.slack.redeliver(&approved, 1);
    let report = RunReport {
        state: RoleState::Idle,
        done: None,
        handled: vec![pending.id.clone()],
        turns: 1,
        reason: None,
        terminal: None,
        sandbox: None,
    };
    desk.gateway().threads.report(&pm.key(), "pm", &report).await.unwrap();
    desk.slack.redeliver(&approved, 1);
    let reply = desk.says(Some(&root), "thanks");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    desk.slack.wait_acked(&approved, PATIENCE).await.unwrap();
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!(status.pending, Vec::<PendingItem>::new());

    let shown = desk
        .slack
        .wait_for("no buttons", PATIENCE, |slack| {
            slack.message(&desk.channel, second.ts.as_str()).filter(|m| m.buttons.is_empty())
        })
        .await
        .unwrap();
    assert!(shown.shown.contains("Approved by"), "{}", shown.shown);
    assert_eq!(shown.metadata.unwrap().event_payload["key"], "plan-2");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_decide_like_buttons() {
    let desk = Desk::start().await;
    let root = desk.says(None, "please plan");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let (pm, coder) = (desk.caller(&root, "pm").await, desk.caller(&root, "coder").await);
    let slack = desk.service();
    slack.post(&pm, &ask("p", "A plan", AskedDecision::Plan), None).await.unwrap();
    let yes = desk.says(Some(&root), "Go ahead!");
    desk.slack.wait_acked(&yes, PATIENCE).await.unwrap();
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    assert_eq!(status.plan.unwrap().approved_by.as_deref(), Some(desk.ana.as_str()));

    let head = Some("abc123".to_owned());
    let done = slack.post(&coder, &ask("m", "Done.", AskedDecision::Merge), head).await.unwrap();
    let shown = desk.slack.message(&desk.channel, done.ts.as_str()).unwrap();
    assert!(shown.shown.contains("Cost $0.00, 0 model calls"), "{}", shown.shown);
    let merge = desk.says(Some(&root), "merge it");
    desk.slack.wait_acked(&merge, PATIENCE).await.unwrap();
    let thread = desk.thread(&root).await.unwrap();
    let closing = thread.status.as_ref().unwrap().closing.clone().unwrap();
    assert_eq!(closing.choice, Some(ClosingChoice::Merge));
    assert_eq!(closing.head.as_deref(), Some("abc123"));
    assert_eq!(inbox(&thread, "coder").unwrap().as_str(), merge);
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), yes);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_may_come_before_the_question_is_recorded() {
    let desk = Desk::start().await;
    let root = desk.says(None, "please plan");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    for n in 0..5 {
        let text = format!("Plan {n}");
        let key = format!("p{n}");
        let answer = async {
            let shown = |m: &codebutler_testbed::slack::MessageView| m.text.contains(&text);
            desk.slack.wait_message(&desk.channel, Some(&root), PATIENCE, shown).await.unwrap();
            let yes = desk.says(Some(&root), "Go ahead!");
            desk.slack.wait_acked(&yes, PATIENCE).await.unwrap();
        };
        let plan = ask(&key, &text, AskedDecision::Plan);
        let ((), posted) = tokio::join!(answer, desk.service().post(&pm, &plan, None));
        let status = desk.thread(&root).await.unwrap().status.unwrap();
        let plan = status.plan.unwrap();
        assert_eq!(plan.ts, posted.unwrap().ts);
        assert_eq!(plan.approved_by.as_deref(), Some(desk.ana.as_str()), "{text}");
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_posts_once_whoever_repeats_it() {
    let mut desk = Desk::start().await;
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    let message = post("run-1", "# Hi\n@codebutler.coder please **look** at <!channel>");
    let (one, two) = {
        let slack = desk.service();
        tokio::join!(slack.post(&pm, &message, None), slack.post(&pm, &message, None))
    };
    let first = one.unwrap();
    assert_eq!(first, two.unwrap());

    // Slack says "later", then carries it out and the answer is lost.
    desk.slack.fail_next("chat.postMessage", 1, &CallFault::RateLimited { retry_after: 1 });
    desk.slack.fail_next("chat.postMessage", 1, &CallFault::LostReply);
    let lost = post("run-2", &format!("{}\n\nthe end", "many words ".repeat(700)));
    let sent = desk.service().post(&pm, &lost, None).await.unwrap();

    // Another process knows nothing but Slack.
    desk.gateway.take().unwrap().stop().await;
    desk.restart();
    let pm = desk.caller(&root, "pm").await;
    assert_eq!(desk.service().post(&pm, &message, None).await.unwrap(), first);
    assert_eq!(desk.service().post(&pm, &lost, None).await.unwrap(), sent);

    let messages = desk.slack.messages(&desk.channel, Some(&root));
    let keys: Vec<_> = messages
        .iter()
        .filter_map(|m| m.metadata.as_ref()?.event_payload["key"].as_str())
        .collect();
    assert_eq!(keys, ["run-1", "run-2", "run-2.2"]);
    let shown = &messages[1];
    assert_eq!(
        (shown.sender.name.as_str(), shown.sender.icon.as_deref()),
        ("The pm", Some(":pm:"))
    );
    assert_eq!(shown.text, "*Hi*\n@codebutler.coder please *look* at &lt;!channel&gt;");
    let thread = desk.thread(&root).await.unwrap();
    assert_eq!(inbox(&thread, "coder"), Some(first.ts));

    let empty = desk.service().post(&pm, &post("k", "  "), None).await.unwrap_err();
    assert_eq!(empty.code, ErrorCode::InvalidRequest);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_tells_who_said_what_to_whom() {
    let desk = Desk::start().await;
    let root = desk.says(None, "is `Vec<T>` fine?");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let (pm, coder) = (desk.caller(&root, "pm").await, desk.caller(&root, "coder").await);
    let slack = desk.service();
    let none = slack.inbox(&coder, None, Duration::ZERO).await.unwrap();
    assert_eq!((none.messages.len(), none.closed), (0, false));

    let long = Duration::from_secs(30);
    let waiting = slack.inbox(&coder, None, long);
    let asking = async {
        slack.post(&pm, &post("k", "I ask.\n@codebutler.coder is it?"), None).await.unwrap();
    };
    let (got, ()) = tokio::join!(waiting, asking);
    let got = got.unwrap();
    let seen: Vec<_> = got.messages.iter().map(|m| (&m.author, &*m.text, m.addressed)).collect();
    let (ana, role) = (desk.ana.clone(), "pm".to_owned());
    assert_eq!(
        seen,
        [
            (&MessageAuthor::User { id: ana }, "is `Vec<T>` fine?", false),
            (&MessageAuthor::Role { role }, "I ask.\n@codebutler.coder is it?", true),
        ]
    );
    let newest = got.messages[1].ts.clone();
    let rest = slack.inbox(&coder, Some(&newest), Duration::ZERO).await.unwrap();
    assert_eq!(rest.messages, []);

    desk.gateway().threads.close(&pm.key()).await.unwrap();
    assert!(slack.inbox(&coder, None, long).await.unwrap().closed);
    for _ in 0..2 {
        let late = desk.says(Some(&root), "hello?");
        desk.slack.wait_acked(&late, PATIENCE).await.unwrap();
    }
    let closed = |m: &codebutler_testbed::slack::MessageView| m.text.contains("thread is closed");
    desk.slack.wait_message(&desk.channel, Some(&root), PATIENCE, closed).await.unwrap();
    let answers = desk.slack.messages(&desk.channel, Some(&root)).into_iter().filter(closed);
    assert_eq!(answers.count(), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_ignored() {
    let desk = Desk::start().await;
    let strange = desk.slack.create_channel("elsewhere", &[&desk.ana]);
    let elsewhere = desk.slack.post_as(&desk.ana, &strange, None, "hello").unwrap();
    let bot = desk.slack.post_as_other_bot("alerts", &desk.channel, None, "down!").unwrap();
    for ts in [&elsewhere, &bot] {
        desk.slack.wait_acked(ts, PATIENCE).await.unwrap();
    }
    assert_eq!(desk.threads().await.len(), 0);
    // A reply under a message that started no Thread starts one.
    let reply = desk.says(Some(&bot), "what is this?");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    let thread = desk.thread(&bot).await.unwrap();
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), reply);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_replaced_without_losing_anything() {
    let desk = Desk::start().await;
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    desk.slack.request_refresh();
    let during = desk.says(Some(&root), "@codebutler.coder during");
    desk.slack.wait_acked(&during, PATIENCE).await.unwrap();
    desk.slack.drop_connections();
    let after = desk.says(Some(&root), "after");
    desk.slack.wait_acked(&after, PATIENCE).await.unwrap();
    let thread = desk.thread(&root).await.unwrap();
    assert_eq!(inbox(&thread, "coder").unwrap().as_str(), during);
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), after);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_slack_forgets_to_close_is_left_once_another_one_is_open() {
    let setting = Setting { grace: Some(Duration::from_hours(1)), ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    desk.slack.request_refresh();
    desk.slack.wait_connected(2, PATIENCE).await.unwrap();
    let is_one = |slack: &SlackServer| (slack.connections() == 1).then_some(());
    desk.slack.wait_for("one socket", Duration::from_mins(2), is_one).await.unwrap();
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_slack_is_told_on_the_repo() {
    let setting = Setting { bot_token: Some("xoxb-wrong"), ..Setting::default() };
    let desk = Desk::with(setting).await;
    let said = desk.unreachable().await;
    assert!(said.contains("`botToken`") && said.contains("shop-slack"), "{said}");
    desk.stop().await;

    let setting = Setting { channel: Some("C0NOWHERE"), ..Setting::default() };
    let desk = Desk::with(setting).await;
    let said = desk.unreachable().await;
    assert!(said.contains("spec.slack.channel"), "{said}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_and_decisions_survive_many_writers() {
    let desk = Desk::start().await;
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let key = desk.caller(&root, "pm").await.key();
    let here = desk.gateway().threads.clone();
    let counted = codebutler_gateway_core::metrics::GatewayMetrics::register(&mut build_registry());
    let replica = ThreadWriter::new(desk.cluster.client(), counted);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..40_u64 {
        let threads = if n % 2 == 0 { here.clone() } else { replica.clone() };
        let key = key.clone();
        tasks.spawn(async move {
            let ts: SlackTs = format!("{}.000000", 4_000_000_000 + (n * 7) % 40).parse().unwrap();
            threads.raise_inbox(&key, &["coder".to_owned()], &ts).await.unwrap();
            let pending = PendingItem {
                id: format!("n{}", n % 30),
                role: "coder".to_owned(),
                kind: "plan".to_owned(),
                choice: "approve".to_owned(),
                user: "U1".to_owned(),
                message: ts,
            };
            threads.add_pending(&key, &pending).await.unwrap();
        });
    }
    // The controller writes into the same status all the while.
    let api = kube::Api::<Thread>::namespaced(desk.cluster.client(), &key.namespace);
    for n in 0..30 {
        let patch =
            json!({"status": {"phase": "coder", "roles": {"coder": {"podUID": n.to_string()}}}});
        let patch = Patch::Merge(&patch);
        api.patch_status(&key.name, &PatchParams::default(), &patch).await.unwrap();
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let status = desk.thread(&root).await.unwrap().status.unwrap();
    let coder = &status.roles["coder"];
    assert_eq!(coder.inbox.as_ref().unwrap().as_str(), "4000000039.000000");
    assert_eq!(status.pending.len(), 30, "each once");
    assert_eq!((coder.pod_uid.as_deref(), status.phase.as_deref()), (Some("29"), Some("coder")));
    desk.stop().await;
}
