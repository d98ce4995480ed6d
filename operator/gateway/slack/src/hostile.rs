//! Tests of input from Slack that is no good: answered or ignored on purpose, and never a crash.

use codebutler_crds::ThreadStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::api::channel::RepoChannel;
use crate::api::frame::SocketFrame;
use crate::api::lenient::UnreadFields;
use crate::inbound::event::EnvelopePayload;
use crate::inbound::message_outcome::{self, TakenMessage};
use crate::inbound::route::{self, IgnoredReason, RouteAction};
use crate::text::person_message::PersonMessage;

fn payload(frame: Value) -> EnvelopePayload {
    let frame: SocketFrame = serde_json::from_value(frame).unwrap();
    frame.payload(&mut UnreadFields::default())
}

fn event(event: &Value) -> EnvelopePayload {
    payload(json!({"type": "events_api", "envelope_id": "e", "payload": {"event": event}}))
}

fn said(text: &str) -> PersonMessage {
    let incoming = event(&json!({"type": "message", "channel": "C01", "ts": "5.000000",
        "user": "U1", "text": text}));
    let EnvelopePayload::Message(incoming) = incoming else { panic!("{incoming:?}") };
    match route::route_message(&incoming, &[RepoChannel::test()]) {
        RouteAction::Message { said, .. } => said,
        other => panic!("{other:?}"),
    }
}

/// Applies a message to a Thread: returns what it was taken for, the roles that hear it, and the status's size.
fn taken(text: &str) -> (TakenMessage, Vec<String>, usize) {
    let mut status = ThreadStatus::default();
    let now = Time(jiff::Timestamp::UNIX_EPOCH);
    let taken =
        message_outcome::take_message(&mut status, &said(text), &RepoChannel::test().team, &now)
            .unwrap();
    let size = serde_json::to_string(&status).unwrap().len();
    (taken, status.roles.keys().cloned().collect(), size)
}

#[test]
fn unknown_events_and_frames_pass() {
    for frame in [
        json!({}),
        json!({"type": "slash_commands", "payload": {"command": "/x"}}),
        json!({"type": "events_api"}),
        json!({"type": "events_api", "payload": []}),
        json!({"type": "interactive", "payload": {"type": "block_actions", "actions": [7]}}),
        json!({"type": "interactive", "payload": "text"}),
    ] {
        assert!(matches!(payload(frame.clone()), EnvelopePayload::Unknown), "{frame}");
    }
    // Slack tells of a reply, at times without saying that it does.
    for mut reply in [json!({"subtype": "message_replied"}), json!({})] {
        for (name, value) in [
            ("type", json!("message")),
            ("channel", json!("C01")),
            ("ts", json!("6.000000")),
            ("hidden", json!(true)),
            ("message", json!({"ts": "5.000000", "user": "U1", "text": "stop", "reply_count": 1})),
        ] {
            reply[name] = value;
        }
        let EnvelopePayload::Message(heard) = event(&reply) else { panic!("{reply}") };
        let ignored = RouteAction::Ignore(IgnoredReason::NotAPerson);
        assert_eq!(route::route_message(&heard, &[RepoChannel::test()]), ignored, "{reply}");
    }
    for unknown in [
        json!({"type": "assistant_thread_context_changed"}),
        json!({"type": 5}),
        json!([1, 2]),
        json!({"type": "reaction_added", "item": "x"}),
    ] {
        assert!(matches!(event(&unknown), EnvelopePayload::Unknown), "{unknown}");
    }
    for odd in [
        json!({"type": "reaction_added", "user": "U1", "reaction": "+1", "event_ts": "soon",
            "item": {"type": "message", "channel": "C01", "ts": "1.000000"}}),
        json!({"type": "message", "channel": "C01", "ts": "1e9"}),
    ] {
        assert!(matches!(event(&odd), EnvelopePayload::Unreadable), "{odd}");
    }
}

#[test]
fn blocks_of_any_shape_do_not_hide_the_message() {
    for blocks in [json!("x"), json!({"a": 1}), json!([null, [[]], {"type": 7}]), Value::Null] {
        let message = event(&json!({"type": "message", "channel": "C01", "ts": "5.000000",
            "user": "U1", "text": "hello", "blocks": blocks, "files": 7, "metadata": "x"}));
        let EnvelopePayload::Message(incoming) = message else { panic!("{blocks}: {message:?}") };
        assert_eq!(incoming.message.text.as_deref(), Some("hello"));
    }
}

#[test]
fn a_huge_payload_leaves_a_small_mark() {
    let text = "yes ".repeat(2_000_000);
    let message = event(&json!({"type": "message", "channel": "C01", "ts": "5.000000",
        "user": "U1", "text": text, "blocks": [{"type": "section", "text": {"text": text}}]}));
    assert!(matches!(message, EnvelopePayload::Message(_)));
    let (taken, roles, size) = taken(&text);
    assert_eq!((taken, roles), (TakenMessage::Message, vec!["pm".to_owned()]));
    assert!(size < 500, "{size}");
}

#[test]
fn ten_thousand_pasted_lines_are_one_message_for_one_role() {
    let paste = "approve\nmerge\nstop\n> quoted\n".repeat(2_500);
    let (taken, roles, size) = taken(&paste);
    assert_eq!((taken, roles), (TakenMessage::Message, vec!["pm".to_owned()]));
    assert!(size < 500, "{size}");
}

#[test]
fn a_role_that_does_not_exist_is_no_role() {
    for text in [
        "@codebutler.wizard do it",
        "@codebutler. do it",
        "@codebutler.coderx do it",
        "@codebutler.__proto__ do it",
        "<@U0EVIL|codebutler.coder> do it",
    ] {
        assert_eq!(taken(text).1, ["pm"], "{text}");
    }
}

#[test]
fn what_looks_like_a_decision_and_is_none_is_none() {
    for text in [
        "y\u{200b}es",
        "st\u{2060}op",
        "\u{443}es",
        "ye\u{455}",
        "\u{202e}sey",
        "yes\u{2028}but not now",
        "yes\nno",
        "`yes`, he said",
        "",
        "\u{200b}",
    ] {
        assert_eq!(said(text).intent, None, "{text:?}");
    }
}

#[test]
fn nobody_reacts_for_the_bot_or_from_another_channel() {
    let react = |user: &str, place: &str, name: &str| {
        let added = event(&json!({"type": "reaction_added", "user": user, "reaction": name,
            "item": {"type": "message", "channel": place, "ts": "1.000000"},
            "item_user": "U0BOT", "event_ts": "2.000000"}));
        let EnvelopePayload::Reaction(reaction) = added else { panic!("{added:?}") };
        route::route_reaction(&reaction, &[RepoChannel::test()])
    };
    let elsewhere = RouteAction::Ignore(IgnoredReason::Channel("C99".to_owned()));
    assert_eq!(react("U1", "C99", "+1"), elsewhere);
    assert_eq!(react("U0BOT", "C01", "+1"), RouteAction::Ignore(IgnoredReason::NotOurs));
    assert_eq!(react("U1", "C01", "+1 ::x"), RouteAction::Ignore(IgnoredReason::NotOurs));
    assert!(matches!(react("U1", "C01", "+1::skin-tone-6"), RouteAction::Reaction { .. }));
}

#[test]
fn edits_and_stops_of_any_shape_are_taken_in_or_ignored() {
    let changed = |before: Value, now: Value| {
        json!({"type": "message", "subtype": "message_changed", "channel": "C01",
            "previous_message": before, "message": now})
    };
    let said = |text: &str| json!({"ts": "5.000000", "user": "U1", "text": text});
    for nothing in [
        changed(Value::Null, said("a")),
        changed(said("same"), said("same")),
        changed(json!({"ts": "5.000000.0"}), said("a")),
        changed(json!("text"), json!([])),
    ] {
        assert!(matches!(event(&nothing), EnvelopePayload::Ignored), "{nothing}");
    }
    let of = |value: &Value| match event(value) {
        EnvelopePayload::Changed(changed) => route::route_change(&changed, &[RepoChannel::test()]),
        other => panic!("{other:?}"),
    };
    let RouteAction::Changed { said: now, .. } = of(&changed(said("a"), said("approve"))) else {
        panic!()
    };
    assert_eq!(now.unwrap().intent, None, "an edit is no decision");
    let tombstone = json!({"ts": "5.000000", "subtype": "tombstone", "user": "USLACKBOT"});
    assert!(matches!(of(&changed(said("a"), tombstone)), RouteAction::Changed { said: None, .. }));
    let with = |text: &str, file: &Value| json!({"ts": "5.000000", "user": "U1", "text": text, "files": [file]});
    let (plain, gone) = (json!({"id": "F1"}), json!({"id": "F1", "mode": "tombstone"}));
    let pictured = json!({"id": "F1", "thumb_360": "https://files.slack.com/t"});
    for (text, file, is_news) in [
        ("see", &gone, true),
        ("see", &pictured, false),
        ("stop", &gone, false),
        ("stop", &pictured, false),
    ] {
        let edit = changed(with(text, &plain), with(text, file));
        let RouteAction::Changed { said: now, .. } = of(&edit) else { panic!("{edit}") };
        assert_eq!(now.is_some(), is_news, "{edit}");
    }
    let ours = json!({"ts": "5.000000", "user": "U0BOT", "bot_id": "B1", "text": "a"});
    assert_eq!(of(&changed(ours, said("b"))), RouteAction::Ignore(IgnoredReason::NotAPerson));

    for stop in [
        json!({"type": "agent_session_stopped"}),
        json!({"type": "agent_session_stopped", "channel": "C01", "thread_ts": "now",
            "user": "U1", "event_ts": "6.000000"}),
    ] {
        assert!(matches!(event(&stop), EnvelopePayload::Unreadable), "{stop}");
    }
}
