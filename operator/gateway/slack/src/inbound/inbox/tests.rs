use super::*;

fn ts(text: &str) -> SlackTs {
    text.parse().unwrap()
}

#[test]
fn what_was_taken_already_does_not_answer_at_once() {
    let mut status = ThreadStatus::default();
    assert!(!has_mail(&status, "pm", None));
    status.roles.entry("pm".to_owned()).or_default().inbox = Some(ts("9.000000"));
    assert!(has_mail(&status, "pm", None));
    assert!(has_mail(&status, "pm", Some(&ts("8.000000"))));
    assert!(!has_mail(&status, "pm", Some(&ts("9.000000"))));
    status.roles.entry("pm".to_owned()).or_default().done = Some(ts("9.000000"));
    assert!(!has_mail(&status, "pm", Some(&ts("8.000000"))));
}

#[test]
fn before_a_recording_only_what_is_new_and_for_the_role_goes_on() {
    let message = |at: &str, addressed| ThreadMessage {
        ts: ts(at),
        author: MessageAuthor::User { id: "U1".to_owned() },
        text: "look".to_owned(),
        addressed,
        pictures: Vec::new(),
    };
    let mut status = ThreadStatus::default();
    let said = [message("5.000000", true), message("6.000000", false)];
    assert!(has_request(&status, "pm", &said));
    assert!(!has_request(&status, "pm", &said[1..]), "it would wake nobody");
    status.roles.entry("pm".to_owned()).or_default().done = Some(ts("5.000000"));
    assert!(!has_request(&status, "pm", &said), "done");
}

#[test]
fn authors_are_known_by_ids_and_metadata_never_by_text() {
    let account = SlackAccount::test("UBOT", "BBOT");
    let status = ThreadStatus::default();
    let thread: Thread = serde_json::from_value(serde_json::json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
        "metadata": {"name": "shop-1-000000"},
        "spec": {"repo": "shop", "prompt": "@codebutler.coder fix **it**", "requestedBy": "ci"},
        "status": {"slack": {"channel": "C01", "ts": "1.000000"}},
    }))
    .unwrap();
    let reader = InboxReader {
        status: &status,
        role: "coder",
        thread: &thread,
        channel: RepoChannel { bot_user: Some("UBOT".to_owned()), ..RepoChannel::test() },
        account: &account,
        users: &[],
    };
    let read = |value: serde_json::Value| {
        let message = reader.message(&serde_json::from_value(value).unwrap()).unwrap();
        (message.author, message.addressed)
    };
    let metadata = |event: &str, thread: &str| {
        serde_json::json!({"event_type": event, "event_payload": {
            "role": "pm", "key": "k", "kind": "message", "thread": thread}})
    };
    let pm = MessageAuthor::Role { role: "pm".to_owned() };
    let bot = |id: &str| MessageAuthor::Bot { id: id.to_owned() };
    let text = "@codebutler.coder go";
    for (bot, event, thread, expected) in [
        ("BBOT", "codebutler", "shop-1-000000", (pm, true)),
        ("BBOT", "codebutler", "shop-2-000000", (bot("BBOT"), false)),
        ("BBOT", "other", "shop-1-000000", (bot("BBOT"), false)),
        ("BEVIL", "codebutler", "shop-1-000000", (bot("BEVIL"), false)),
    ] {
        let value = serde_json::json!({"ts": "5.000000", "bot_id": bot, "text": text,
            "metadata": metadata(event, thread)});
        assert_eq!(read(value), expected, "{bot} {event} {thread}");
    }
    let mut notice = metadata("codebutler", "shop-1-000000");
    notice["event_payload"]["role"] = "".into();
    let notice = serde_json::json!({"ts": "5.000000", "bot_id": "BBOT", "metadata": notice});
    assert_eq!(read(notice), (MessageAuthor::System, false));
    let user = read(serde_json::json!({"ts": "5.000000", "user": "U1", "text": "hi",
        "metadata": metadata("codebutler", "shop-1-000000")}));
    assert_eq!(user, (MessageAuthor::User { id: "U1".to_owned() }, false));

    let opening = |ts: &str| {
        let mut metadata = metadata("codebutler", "shop-1-000000");
        metadata["event_payload"]["kind"] = opening::KIND.into();
        let value = serde_json::json!({"ts": ts, "bot_id": "BBOT", "text": "From ci: fix *it*",
            "metadata": metadata});
        reader.message(&serde_json::from_value(value).unwrap())
    };
    let prompt = opening("1.000000").unwrap();
    assert_eq!((&*prompt.text, prompt.addressed), ("@codebutler.coder fix **it**", true));
    assert!(matches!(prompt.author, MessageAuthor::Prompt { .. }));
    // The parts that a long one is shown in.
    assert_eq!(opening("2.000000"), None);
}
