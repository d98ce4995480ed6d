//! Summaries of histories.

use super::*;
use codebutler_wire::history::ToolUse;

fn line(at: u64, role: &str, event: HistoryEvent) -> HistoryLine {
    let (source, role) = ("gateway".to_owned(), Some(role.to_owned()));
    HistoryLine { v: 1, at, source, seq: None, key: None, role, run: None, event }
}

fn ended(outcome: &str) -> HistoryEvent {
    HistoryEvent::RunEnded { outcome: outcome.to_owned(), reason: None }
}

fn waits(what: &str, now: bool) -> HistoryEvent {
    HistoryEvent::Waiting { what: what.to_owned(), now, why: String::new() }
}

#[test]
fn the_state_follows_all_roles_and_a_timeline_has_their_spans() {
    let mut summary = ThreadSummary::default();
    for (at, role, event, state) in [
        (1, "pm", waits("Queued", true), "queued"),
        (5, "pm", waits("Queued", false), "done"),
        (6, "pm", HistoryEvent::RunStarted, "running"),
        (7, "coder", HistoryEvent::RunStarted, "running"),
        (9, "pm", ended("idle"), "running"),
        (12, "coder", ended("waiting"), "waiting for people"),
        (13, "coder", HistoryEvent::RunStarted, "running"),
        (14, "coder", ended("idle"), "done"),
        (15, "", waits("AwaitingUser", true), "waiting for people"),
        (20, "", HistoryEvent::Closed { by: None }, "done"),
    ] {
        summary.add(Some(&line(at, role, event)));
        assert_eq!(summary.state(), state, "at {at}");
    }
    let spans: Vec<_> =
        summary.spans.iter().map(|s| (s.role.as_str(), &*s.what, s.began, s.ended)).collect();
    let expected = [
        ("", "Queued", 1, Some(5)),
        ("pm", "idle", 6, Some(9)),
        ("coder", "waiting", 7, Some(12)),
        ("coder", "idle", 13, Some(14)),
        ("", "AwaitingUser", 15, Some(20)),
    ];
    assert_eq!(spans, expected);
}

#[test]
fn a_run_knows_what_it_cost_whatever_is_told_first() {
    let mut summary = ThreadSummary::default();
    let call =
        |nanos| HistoryEvent::ModelCall(ModelCall { cost: NanoUsd(nanos), ..ModelCall::default() });
    let tool = |tool: &str| ToolUse { tool: tool.into(), arguments: "{}".into() };
    let wants = HistoryEvent::Answer {
        model: None,
        text: None,
        thoughts: None,
        calls: vec![tool("Grep"), tool("Glob"), tool("Read")],
    };
    for (at, role, event) in [
        (10, "pm", HistoryEvent::RunStarted),
        (12, "pm", call(1)),
        (13, "pm", ended("idle")),
        // The gateway is faster than the role.
        (22, "pm", call(10)),
        (21, "coder", call(100)),
        (20, "pm", HistoryEvent::RunStarted),
        (23, "pm", call(20)),
        (24, "pm", wants),
    ] {
        summary.add(Some(&line(at, role, event)));
    }
    let costs: Vec<_> = summary.spans.iter().map(|span| span.calls.cost.0).collect();
    assert_eq!((costs, summary.spans[1].first), (vec![1, 30], 6));
    assert_eq!(summary.open_runs().next().unwrap().doing, "Grep, and 2 more tools");
    let mut shown = summary.clone();
    shown.show_progress("coder", "50 %");
    shown.show_progress("pm", "50 %");
    let doing: Vec<_> = shown.open_runs().map(|span| &*span.doing).collect();
    assert_eq!(doing, ["Grep, and 2 more tools: 50 %"]);
    let mut failed = ended("failed");
    if let HistoryEvent::RunEnded { reason, .. } = &mut failed {
        *reason = Some("no money".into());
    }
    summary.add(Some(&line(30, "pm", failed)));
    assert_eq!(summary.open_runs().count(), 0);
    assert_eq!(summary.spans[1].reason.as_deref(), Some("no money"));
    assert_eq!(summary.told_pause(), Some(("could not go on", 30)));
    for (what, words) in [
        ("Queued", "waits for a free slot"),
        ("AwaitingUser", "waits for an answer"),
        ("BudgetExceeded", "waits for a higher budget"),
    ] {
        summary.add(Some(&line(40, "", waits(what, true))));
        assert_eq!(summary.told_pause(), Some((words, 40)));
        summary.add(Some(&line(41, "", waits(what, false))));
    }
}

#[test]
fn the_plan_is_found_whatever_is_told_first() {
    let ts: SlackTs = "5.000000".parse().unwrap();
    let author = MessageAuthor::Role { role: "pm".into() };
    let said = HistoryEvent::Message { ts: ts.clone(), author, text: "Plan: look".into() };
    let posted = HistoryEvent::Plan { message: ts.clone(), approved_by: None };
    let approved = HistoryEvent::Plan { message: ts, approved_by: Some("U1".into()) };
    for events in [[&said, &posted, &approved], [&posted, &approved, &said]] {
        let mut summary = ThreadSummary::default();
        for event in events {
            summary.add(Some(&line(1, "pm", event.clone())));
        }
        let plan = summary.plan.unwrap();
        assert_eq!((&*plan.text, plan.approved_by.as_deref()), ("Plan: look", Some("U1")));
        assert!(summary.people.contains("U1"));
    }
}

fn opened(repo: &str, channel: &str) -> HistoryEvent {
    HistoryEvent::Opened { repo: repo.into(), channel: channel.into(), by: Some("U1".into()) }
}

#[test]
fn every_channel_that_a_thread_was_opened_in_is_known() {
    let mut summary = ThreadSummary::default();
    for (repo, channel) in [("shop", "C1"), ("shop", "C2"), ("docs", "C2"), ("shop", "C1")] {
        summary.add(Some(&line(1, "pm", opened(repo, channel))));
    }
    let known = [("docs", "C2"), ("shop", "C1"), ("shop", "C2")];
    let known = known.map(|(repo, channel)| (repo.to_owned(), channel.to_owned()));
    assert_eq!(summary.opened, BTreeSet::from(known));
}

#[test]
fn a_thread_of_the_same_name_has_a_page_of_its_own() {
    let mut summary = ThreadSummary::default();
    let begun = |uid: &str, whole| HistoryEvent::Begun { uid: uid.into(), whole };
    summary.add(Some(&line(1, "pm", opened("shop", "C1"))));
    summary.add(Some(&line(2, "pm", begun("one", true))));
    assert_eq!((summary.foreign, summary.opened.len()), (0, 1));
    summary.add(Some(&line(3, "pm", HistoryEvent::Closed { by: None })));
    summary.add(Some(&line(4, "pm", begun("other", false))));
    assert_eq!((summary.lines, summary.foreign), (4, 3));
    assert_eq!(summary.uid.as_deref(), Some("other"));
    assert!(summary.opened.is_empty() && summary.people.is_empty() && !summary.closed);
    // An agent can't say so.
    let mut told = line(5, "pm", begun("third", false));
    told.source = "agent/pm/j".to_owned();
    summary.add(Some(&told));
    assert_eq!(summary.uid.as_deref(), Some("other"));
}
