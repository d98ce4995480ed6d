//! Signs of work in a conversation: one message while a run lasts, ✅ on what is finished, and nothing that says
//! "working" when nobody works.

use std::time::Duration;

use codebutler_crds::thread::RoleState;
use codebutler_crds::wire::{AskedDecision, RunProgress, RunReport};
use codebutler_testbed::slack::{CallFault, MessageView, StreamStanding};
use serde_json::json;

use super::desk::{Desk, PATIENCE};
use super::{ask, post};

fn report(state: RoleState, done: Option<&str>) -> RunReport {
    RunReport {
        state,
        done: done.map(|ts| ts.parse().unwrap()),
        handled: Vec::new(),
        turns: 1,
        reason: None,
        terminal: None,
        sandbox: None,
    }
}

fn progress(turns: u32, doing: &str) -> RunProgress {
    RunProgress { run: "0123456789abcdef".to_owned(), turns, doing: doing.to_owned() }
}

impl Desk {
    /// A conversation in which the pm runs.
    async fn running(&self) -> String {
        let root = self.says(None, "the total is wrong");
        self.slack.wait_acked(&root, PATIENCE).await.unwrap();
        self.role(&root, "pm", json!({"podUID": "pod-1"})).await;
        self.reports(&root, RoleState::Running, None).await;
        root
    }

    async fn reports(&self, root: &str, state: RoleState, done: Option<&str>) {
        let caller = self.caller(root, "pm").await;
        let report = report(state, done);
        self.gateway().threads.report(&caller.key(), "pm", &report).await.unwrap();
        self.service().run_changed();
    }

    /// The pm says what it does, until the thread shows it.
    async fn shown(&self, root: &str, turns: u32, doing: &str, words: &str) -> MessageView {
        let caller = self.caller(root, "pm").await;
        let found = || self.progress_of(root).into_iter().find(|m| m.shown.contains(words));
        self.until(words, || async {
            self.service().progress(&caller, &progress(turns, doing)).unwrap();
            found().is_some()
        })
        .await;
        found().unwrap()
    }

    fn progress_of(&self, root: &str) -> Vec<MessageView> {
        let is_it = |m: &MessageView| {
            m.stream.is_some()
                || m.metadata.as_ref().is_some_and(|m| m.event_payload["kind"] == "progress")
        };
        self.slack.messages(&self.channel, Some(root)).into_iter().filter(is_it).collect()
    }

    async fn nothing_shown(&self, root: &str) {
        self.until("no progress in the thread", || async {
            let thread = self.thread(root).await.unwrap();
            let mut roles = thread.status.iter().flat_map(|status| status.roles.values());
            self.progress_of(root).is_empty() && roles.all(|role| role.shown.is_none())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_message_that_is_edited_and_goes_with_it() {
    let desk = Desk::start().await;
    let root = desk.running().await;
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let doing = format!("Bash `cargo test` <!channel> @here {secret}");
    let first = desk.shown(&root, 1, &doing, "cargo test").await;
    assert!(first.shown.contains("turn 1"), "{}", first.shown);
    assert!(!first.shown.contains(secret) && !first.text.contains("<!"), "{}", first.text);
    assert_eq!(first.sender.name, "The pm");

    let second = desk.shown(&root, 2, "Read src/cart.rs", "src/cart.rs").await;
    assert_eq!(first.ts, second.ts);
    assert!(second.shown.contains("turn 2"), "{}", second.shown);
    assert_eq!((second.edited, desk.progress_of(&root).len()), (None, 1));
    assert!(second.shown.contains("✓ Bash"), "{}", second.shown);
    assert!(desk.slack.calls("chat.appendStream") <= 2, "additions are paced");
    assert_eq!(desk.slack.calls("chat.update"), 0);

    // No role reads it.
    let pm = desk.caller(&root, "pm").await;
    let inbox = desk.service().inbox(&pm, None, Duration::ZERO).await.unwrap();
    assert_eq!(inbox.messages.len(), 1);

    desk.service().post(&pm, &post("answer", "It is a rounding error."), None).await.unwrap();
    desk.reports(&root, RoleState::Idle, Some(&root)).await;
    desk.nothing_shown(&root).await;
    desk.stop().await;
}

/// Slack ends a stream, loses its answers, is busy, or takes none: there is one message all the same, which
/// goes on as a line and goes away with its run.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_goes_on_as_a_line() {
    let desk = Desk::start().await;
    for (method, fault, streams) in [
        ("chat.startStream", CallFault::LostReply, true),
        ("chat.startStream", CallFault::Error("thread_not_found".to_owned()), false),
        ("chat.startStream", CallFault::RateLimited { retry_after: 1 }, true),
        ("chat.appendStream", CallFault::Error("msg_too_long".to_owned()), true),
        ("chat.appendStream", CallFault::LostReply, true),
        ("chat.stopStream", CallFault::LostReply, true),
    ] {
        let root = desk.running().await;
        desk.slack.fail_next(method, 1, &fault);
        let first = desk.shown(&root, 1, "Read a.rs", "Read a.rs").await;
        assert_eq!(first.stream.is_some(), streams, "{method} {fault:?}");
        let second = desk.shown(&root, 2, "Read b.rs", "Read b.rs").await;
        desk.slack.break_streams();
        let third = desk.shown(&root, 3, "Read c.rs", "Read c.rs").await;
        assert_eq!((&first.ts, &first.ts), (&second.ts, &third.ts), "{method} {fault:?}");
        assert!(third.shown.starts_with(":hourglass"), "{}", third.shown);
        assert_ne!(third.stream, Some(StreamStanding::Broken), "{method} {fault:?}");
        assert_eq!(third.metadata.unwrap().event_payload["kind"], "progress");
        assert_eq!(desk.progress_of(&root).len(), 1, "{method} {fault:?}");
        desk.reports(&root, RoleState::Idle, Some(&root)).await;
        desk.nothing_shown(&root).await;
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_slack_lets_nobody_edit_is_posted_anew_once() {
    let desk = Desk::start().await;
    let plain = CallFault::Error("thread_not_found".to_owned());
    desk.slack.fail_next("chat.startStream", 1, &plain);
    let root = desk.running().await;
    let first = desk.shown(&root, 1, "Read a.rs", "Read a.rs").await;
    let closed = CallFault::Error("edit_window_closed".to_owned());
    // The first attempt ends before the old line is gone.
    desk.slack.fail_next("chat.update", 2, &closed);
    desk.slack.fail_next("chat.delete", 1, &CallFault::Http(503));
    let second = desk.shown(&root, 2, "Read b.rs", "Read b.rs").await;
    assert_ne!(first.ts, second.ts);
    assert_eq!(desk.progress_of(&root).len(), 1);

    desk.slack.fail_next("chat.update", 1, &closed);
    let before = desk.slack.calls("chat.update");
    let caller = desk.caller(&root, "pm").await;
    desk.until("it is refused again", || async {
        desk.service().progress(&caller, &progress(3, "Read c.rs")).unwrap();
        desk.slack.calls("chat.update") > before
    })
    .await;
    let third = desk.shown(&root, 4, "Read d.rs", "Read d.rs").await;
    assert_eq!(second.ts, third.ts, "{:?}", desk.progress_of(&root));
    desk.reports(&root, RoleState::Idle, Some(&root)).await;
    desk.nothing_shown(&root).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_may_not_stream_edits_and_says_so() {
    let desk = Desk::start().await;
    let session = CallFault::Error("missing_scope".to_owned());
    desk.slack.fail_next("agents.sessions.setStatus", 1, &session);
    let root = desk.running().await;
    desk.slack.fail_next("chat.startStream", 1, &CallFault::Error("unknown_method".to_owned()));
    let shown = desk.shown(&root, 1, "Read a.rs", "Read a.rs").await;
    assert_eq!(shown.stream, None);
    let said = || async {
        let repo = desk.repo().await;
        let conditions = repo.status.map(|status| status.conditions).unwrap_or_default();
        let said = ["chat.startStream (unknown_method)", "setStatus (missing_scope)", "agent_view"];
        conditions.iter().any(|one| {
            one.type_ == "SlackReachable" && said.iter().all(|part| one.message.contains(part))
        })
    };
    desk.until("the manifest's lines", said).await;
    desk.shown(&root, 2, "Read b.rs", "Read b.rs").await;
    let other = desk.running().await;
    desk.shown(&other, 1, "Read c.rs", "Read c.rs").await;
    for method in ["chat.startStream", "agents.sessions.setStatus"] {
        assert_eq!(desk.slack.calls(method), 1, "{method}: asked once for all conversations");
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_leaves_nothing_that_says_working() {
    let mut desk = Desk::start().await;
    let root = desk.running().await;
    desk.shown(&root, 1, "thinking", "thinking").await;
    desk.gateway.take().unwrap().stop().await;
    desk.role(&root, "pm", json!({"state": "Idle"})).await;
    assert_eq!(desk.progress_of(&root).len(), 1);
    desk.restart();
    desk.nothing_shown(&root).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_a_closed_and_a_deleted_thread_leave_nothing_either() {
    let desk = Desk::start().await;
    let root = desk.running().await;
    desk.shown(&root, 1, "thinking", "thinking").await;
    desk.role(&root, "pm", json!({"podUID": null})).await;
    desk.nothing_shown(&root).await;

    // Its successor goes on with the same run.
    desk.role(&root, "pm", json!({"podUID": "pod-2"})).await;
    desk.shown(&root, 2, "thinking again", "thinking again").await;
    let pm = desk.caller(&root, "pm").await;
    desk.gateway().threads.close(&pm.key()).await.unwrap();
    desk.nothing_shown(&root).await;

    let root = desk.running().await;
    desk.shown(&root, 1, "thinking", "thinking").await;
    let name = desk.thread(&root).await.unwrap().metadata.name.unwrap();
    desk.api().delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    desk.until("gone", || async { desk.thread(&root).await.is_none() }).await;
    assert!(desk.progress_of(&root).is_empty());
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_finished_gets_a_check_mark_and_what_waits_does_not() {
    let desk = Desk::start().await;
    let root = desk.running().await;
    let checked =
        |ts: &str| desk.slack.message(&desk.channel, ts).unwrap().has_reaction("white_check_mark");
    desk.reports(&root, RoleState::Waiting, Some(&root)).await;
    let reply = desk.says(Some(&root), "the one of the cart");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    desk.eyes(&reply).await;
    assert!(!checked(&root));
    desk.reports(&root, RoleState::Running, None).await;
    desk.reports(&root, RoleState::Idle, Some(&reply)).await;
    desk.until("both are checked", || async { checked(&root) && checked(&reply) }).await;
    assert!(desk.slack.message(&desk.channel, &root).unwrap().has_reaction("eyes"));

    // A new message begins anew, and the old ones are not looked at again.
    let calls = desk.slack.calls("reactions.add");
    let next = desk.says(Some(&root), "one more thing");
    desk.slack.wait_acked(&next, PATIENCE).await.unwrap();
    desk.eyes(&next).await;
    desk.reports(&root, RoleState::Idle, Some(&next)).await;
    desk.until("checked", || async { checked(&next) }).await;
    assert_eq!(desk.slack.calls("reactions.add"), calls + 2);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_a_session_and_slacks_own_stop_button() {
    let desk = Desk::start().await;
    let root = desk.running().await;
    desk.shown(&root, 1, "thinking", "thinking").await;
    let session = || desk.slack.session(&desk.channel, &root).map(|session| session.status);
    desk.until("processing", || async { session().as_deref() == Some("processing") }).await;
    desk.slack.stop_as(&desk.ana, &desk.channel, &root).unwrap();
    desk.until("told to stop", || async {
        let status = desk.thread(&root).await.unwrap().status.unwrap();
        status.pending.iter().any(|pending| pending.kind == "stop" && pending.user == desk.ana)
    })
    .await;
    // It does not end by itself, and Slack may have a bad moment.
    desk.slack.fail_next("agents.sessions.setStatus", 1, &CallFault::Http(500));
    desk.reports(&root, RoleState::Waiting, Some(&root)).await;
    desk.nothing_shown(&root).await;
    desk.until("active", || async { session().as_deref() == Some("active") }).await;
    desk.stop().await;

    // Not declared an agent: plain messages only.
    let scopes: &[&str] = &["chat:write", "channels:history", "channels:read", "reactions:write"];
    let setting = super::Setting { scopes: Some(scopes), ..super::Setting::default() };
    let desk = Desk::with(setting).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let root = desk.running().await;
    let shown = desk.shown(&root, 1, "thinking", "thinking").await;
    assert!(shown.shown.contains("The pm"), "without a name of its own: {}", shown.shown);
    assert_eq!(desk.slack.calls("agents.sessions.setStatus"), 0);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_shows_what_a_conversation_is_about_and_that_it_waits_for_people() {
    let mut desk = Desk::start().await;
    let root = desk.running().await;
    desk.shown(&root, 1, "thinking", "thinking").await;
    let (slack, place) = (desk.slack.clone(), desk.channel.clone());
    let session = || slack.session(&place, &root);
    let is = |status: &str| session().is_some_and(|session| session.status == status);
    desk.until("processing", || async { is("processing") }).await;
    let begun = session().unwrap();
    assert_eq!(begun.title.as_deref(), Some("the total is wrong"));
    assert_eq!(begun.initiator.as_deref(), Some(&*desk.ana));
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("plan-1", "**Plan**: `src/a.rs:1`", AskedDecision::Plan);
    let plan = desk.service().post(&pm, &plan, None).await.unwrap().ts.to_string();
    // Somebody is at work on it still.
    assert!(is("processing"), "{:?}", session());
    desk.reports(&root, RoleState::Waiting, Some(&root)).await;
    desk.until("suspended", || async { is("suspended") }).await;
    desk.gateway.take().unwrap().stop().await;
    desk.restart();
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    // Whoever comes next takes it back.
    let click = desk.slack.click(&desk.ana, &desk.channel, &plan, "plan:approve").unwrap();
    desk.slack.wait_acked(&click, PATIENCE).await.unwrap();
    desk.until("active", || async { is("active") }).await;
    desk.until("over", || async { !desk.thread(&root).await.unwrap().status.unwrap().suspended })
        .await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_hears_that_a_conversation_waits_from_the_next_process() {
    let mut desk = Desk::start().await;
    let root = desk.running().await;
    desk.shown(&root, 1, "thinking", "thinking").await;
    let (slack, place) = (desk.slack.clone(), desk.channel.clone());
    let is = |status: &str| slack.session(&place, &root).is_some_and(|s| s.status == status);
    desk.until("processing", || async { is("processing") }).await;
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("plan-1", "**Plan**: `src/a.rs:1`", AskedDecision::Plan);
    desk.service().post(&pm, &plan, None).await.unwrap();
    desk.gateway.take().unwrap().stop().await;
    // It died when it had recorded that the conversation waits, and Slack had not heard it.
    desk.role(&root, "pm", json!({"state": "Waiting", "shown": null})).await;
    desk.patch_status(&root, json!({"suspended": true})).await;
    assert!(is("processing"));
    desk.restart();
    desk.until("suspended", || async { is("suspended") }).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_run_that_was_never_shown_is_waited_for_and_may_be_nobodys() {
    let desk = Desk::start().await;
    let root = desk.said("please plan").await;
    // Whoever began it has gone: Slack takes no session of theirs, but one of nobody's.
    desk.slack.remove_member(&desk.channel, &desk.ana).unwrap();
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("plan-1", "**Plan**: `src/a.rs:1`", AskedDecision::Plan);
    desk.service().post(&pm, &plan, None).await.unwrap();
    let session = || desk.slack.session(&desk.channel, &root);
    desk.until("suspended", || async { session().is_some_and(|s| s.status == "suspended") }).await;
    assert_eq!(session().unwrap().initiator, None);
    desk.stop().await;
}
