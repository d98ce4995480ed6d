use codebutler_crds::thread::Plan;

use super::*;
use crate::gateway::slack::words::intent;

fn ts(text: &str) -> SlackTs {
    text.parse().unwrap()
}

fn now() -> Time {
    Time(jiff::Timestamp::UNIX_EPOCH)
}

fn said(at: &str, text: &str) -> Said {
    let (user, mentioned, intent) = ("U1".to_owned(), Vec::new(), intent(text));
    Said { ts: ts(at), user, mentioned, intent, is_bot: false }
}

/// A plan of the pm at 10 and a merge question of the lead at 20.
fn asked() -> ThreadStatus {
    ThreadStatus {
        plan: Some(Plan {
            ts: ts("10.000000"),
            hash: "aa".to_owned(),
            role: "pm".to_owned(),
            approved_by: None,
            declined_by: None,
        }),
        closing: Some(Closing {
            ts: ts("20.000000"),
            role: "lead".to_owned(),
            choice: None,
            decided_by: None,
            head: Some("abc".to_owned()),
        }),
        ..ThreadStatus::default()
    }
}

#[test]
fn only_a_message_that_is_nothing_but_a_decision_is_one() {
    for (text, expected) in [
        ("approve", Some(Intent::Approve)),
        (" Approved! ", Some(Intent::Approve)),
        ("LGTM :rocket:", Some(Intent::Approve)),
        ("*go ahead*", Some(Intent::Approve)),
        ("ok.", Some(Intent::Approve)),
        ("sí", Some(Intent::Approve)),
        ("¡Dale!", Some(Intent::Approve)),
        ("aprobado", Some(Intent::Approve)),
        ("merge  it", Some(Intent::Merge)),
        ("Mergéalo", Some(Intent::Merge)),
        ("close this thread", Some(Intent::Close)),
        ("cierra este hilo", Some(Intent::Close)),
        ("yes, but rename it first", None),
        ("sí, pero cambia el nombre", None),
        ("not ok", None),
        ("don't merge", None),
        ("ok?\nno", None),
        ("go-ahead", None),
        ("approve @codebutler.pm", None),
        ("", None),
        (":+1:", None),
    ] {
        assert_eq!(intent(text), expected, "{text}");
    }
    assert_eq!(intent("ok?"), None);
    assert_eq!(intent("¿merge?"), None);
}

#[test]
fn words_approve_the_open_plan_once_and_wake_who_asked() {
    let mut status = asked();
    let message = said("11.000000", "go ahead");
    let decided = take_message(&mut status, &message, Some("triage"), &now()).unwrap();
    assert_eq!(
        decided,
        Taken::Decided(Decided { asked: ts("10.000000"), choice: Choice::Approve })
    );
    assert_eq!(status.plan.as_ref().unwrap().approved_by.as_deref(), Some("U1"));
    assert_eq!(status.pending.len(), 1);
    assert_eq!(status.roles["pm"].inbox, Some(ts("11.000000")));
    assert!(!status.roles.contains_key("triage"));

    let after = status.clone();
    assert_eq!(take_message(&mut status, &message, Some("triage"), &now()), Ok(Taken::Message));
    assert_eq!(status, after);
}

#[test]
fn words_said_before_the_plan_do_not_approve_it() {
    let mut status = asked();
    let decided = take_message(&mut status, &said("9.000000", "ok"), Some("triage"), &now());
    assert_eq!(decided, Ok(Taken::Message));
    assert_eq!(status.plan.as_ref().unwrap().approved_by, None);
    assert!(status.roles.contains_key("triage"));
}

#[test]
fn a_message_that_mentions_a_role_is_for_that_role() {
    let mut status = asked();
    let mut message = said("30.000000", "merge");
    message.mentioned = vec!["coder".to_owned()];
    assert_eq!(take_message(&mut status, &message, Some("pm"), &now()), Ok(Taken::Message));
    assert_eq!(status.closing.as_ref().unwrap().choice, None);
    assert_eq!(status.roles.keys().collect::<Vec<_>>(), ["coder"]);
}

#[test]
fn merge_counts_only_while_it_is_asked() {
    let mut status = asked();
    take_message(&mut status, &said("21.000000", "merge it"), Some("pm"), &now()).unwrap();
    let closing = status.closing.as_ref().unwrap();
    assert_eq!(closing.choice, Some(ClosingChoice::Merge));
    assert_eq!(closing.head.as_deref(), Some("abc"));
    assert!(status.wants("lead") && !status.wants("pm"));

    let mut status = ThreadStatus::default();
    take_message(&mut status, &said("21.000000", "merge it"), Some("pm"), &now()).unwrap();
    assert_eq!(status.closing, None);
    assert!(status.wants("pm"));
}

#[test]
fn a_user_may_close_at_any_time() {
    let mut status = ThreadStatus::default();
    let message = said("21.000000", "close this thread");
    take_message(&mut status, &message, Some("pm"), &now()).unwrap();
    let closing = status.closing.clone().unwrap();
    assert_eq!(closing.choice, Some(ClosingChoice::Discard));
    assert_eq!(closing.decided_by.as_deref(), Some("U1"));
    assert_eq!(closing.role, "pm");
    let after = status.clone();
    take_message(&mut status, &message, Some("pm"), &now()).unwrap();
    assert_eq!(status, after);
}

#[test]
fn a_click_decides_once_and_its_redelivery_changes_nothing() {
    let mut status = asked();
    let click =
        |at: &str, choice, user: &str| Clicked { message: ts(at), choice, user: user.to_owned() };
    let approve = click("10.000000", Choice::Approve, "U1");
    assert_eq!(take_click(&mut status, &approve), Ok(ClickOutcome::Counts));
    let after = status.clone();
    assert_eq!(take_click(&mut status, &approve), Ok(ClickOutcome::Counts));
    assert_eq!(status, after);

    for stale in [
        click("10.000000", Choice::Approve, "U2"),
        click("10.000000", Choice::Reject, "U1"),
        click("9.000000", Choice::Approve, "U1"),
        click("10.000000", Choice::Merge, "U1"),
    ] {
        assert_eq!(take_click(&mut status, &stale), Ok(ClickOutcome::Stale), "{stale:?}");
    }
    assert_eq!(status, after);

    let discard = click("20.000000", Choice::Discard, "U2");
    assert_eq!(take_click(&mut status, &discard), Ok(ClickOutcome::Counts));
    assert_eq!(status.closing.as_ref().unwrap().choice, Some(ClosingChoice::Discard));
    let merge = click("20.000000", Choice::Merge, "U1");
    assert_eq!(take_click(&mut status, &merge), Ok(ClickOutcome::Stale));
}

#[test]
fn hold_and_modify_are_told_and_approve_nothing() {
    let mut status = asked();
    for (at, choice) in [("10.000000", Choice::Modify), ("20.000000", Choice::Hold)] {
        let click = Clicked { message: ts(at), choice, user: "U1".to_owned() };
        assert_eq!(take_click(&mut status, &click), Ok(ClickOutcome::Counts));
        assert_eq!(take_click(&mut status, &click), Ok(ClickOutcome::Counts));
    }
    let told: Vec<_> = status.pending.iter().map(|p| (&*p.role, &*p.kind, &*p.choice)).collect();
    assert_eq!(told, [("pm", "plan", "modify"), ("lead", "merge", "hold")]);
    assert_eq!(status.plan.as_ref().unwrap().approved_by, None);
    assert_eq!(status.closing.as_ref().unwrap().choice, None);
}

#[test]
fn a_declined_plan_is_not_approved_by_a_yes_to_something_else() {
    for choice in [Choice::Modify, Choice::Reject] {
        let mut status = asked();
        let click = |choice| Clicked { message: ts("10.000000"), choice, user: "U1".to_owned() };
        assert_eq!(take_click(&mut status, &click(choice)), Ok(ClickOutcome::Counts));
        assert_eq!(status.plan.as_ref().unwrap().declined_by.as_deref(), Some("U1"));

        // "Shall I leave it as it is?" "Yes." The one who asked hears it, as words.
        let yes = said("11.000000", "Yes.");
        assert_eq!(take_message(&mut status, &yes, Some("triage"), &now()), Ok(Taken::Message));
        assert_eq!(status.roles["pm"].inbox, Some(ts("11.000000")));
        assert!(!status.roles.contains_key("triage"));

        assert_eq!(take_click(&mut status, &click(Choice::Approve)), Ok(ClickOutcome::Stale));
        assert_eq!(status.plan.as_ref().unwrap().approved_by, None);
        assert_eq!(status.pending.len(), 1);
    }
}

#[test]
fn every_button_is_found_by_its_action_id() {
    for choice in [Decision::Plan, Decision::Merge].map(Choice::of).into_iter().flatten() {
        assert_eq!(Choice::by_action_id(&choice.action_id()), Some(choice));
    }
    assert_eq!(Choice::by_action_id("plan:merge"), None);
}
