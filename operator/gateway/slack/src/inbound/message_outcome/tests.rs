use codebutler_crds::thread::{ClosingChoice, HandOverReason, PostedPlan, ThreadClosing};
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::questions::{self, AnswerContext, AnswerOutcome, ButtonPress};
use crate::text::decision_words::read_intent;

fn ts(text: &str) -> SlackTs {
    text.parse().unwrap()
}

fn now() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

fn press(at: &str, action_id: &str, user: &str) -> ButtonPress {
    ButtonPress { message: ts(at), action_id: action_id.to_owned(), user: user.to_owned() }
}

fn take_press(
    status: &mut ThreadStatus,
    press: &ButtonPress,
    team: &RepoTeam,
) -> Result<AnswerOutcome, ChangeRefusal> {
    let context = AnswerContext { team, now: Timestamp::UNIX_EPOCH, today: "" };
    questions::take_press(status, press, &context)
}

fn said(at: &str, text: &str) -> PersonMessage {
    PersonMessage::test(ts(at), text)
}

/// A Repo without a role that carries plans out.
fn team(first: &str) -> RepoTeam {
    RepoTeam { roles: vec![first.to_owned()], ..RepoTeam::default() }
}

fn makers() -> RepoTeam {
    let roles = ["pm", "maker", "lead"].map(str::to_owned).to_vec();
    RepoTeam {
        implements: Some("maker".into()),
        leads: Some("lead".into()),
        roles,
        ..RepoTeam::default()
    }
}

/// A plan of the pm at 10 and a merge question of the lead at 20.
fn asked() -> ThreadStatus {
    ThreadStatus {
        plan: Some(Box::new(PostedPlan {
            ts: ts("10.000000"),
            hash: "aa".to_owned(),
            role: "pm".to_owned(),
            approved_by: None,
            declined_by: None,
        })),
        closing: Some(Box::new(ThreadClosing {
            ts: ts("20.000000"),
            role: "lead".to_owned(),
            choice: None,
            decided_by: None,
            head: Some("abc".to_owned()),
            waits: None,
        })),
        ..ThreadStatus::default()
    }
}

#[test]
fn only_a_message_that_is_nothing_but_a_decision_is_one() {
    for (text, expected) in [
        ("approve", Some(MessageIntent::Approve)),
        (" Approved! ", Some(MessageIntent::Approve)),
        ("LGTM :rocket:", Some(MessageIntent::Approve)),
        ("*go ahead*", Some(MessageIntent::Approve)),
        ("ok.", Some(MessageIntent::Approve)),
        ("sí", Some(MessageIntent::Approve)),
        ("¡Dale!", Some(MessageIntent::Approve)),
        ("aprobado", Some(MessageIntent::Approve)),
        ("merge  it", Some(MessageIntent::Merge)),
        ("Mergéalo", Some(MessageIntent::Merge)),
        ("close this thread", Some(MessageIntent::Close)),
        ("cierra este hilo", Some(MessageIntent::Close)),
        ("yes, but rename it first", None),
        ("sí, pero cambia el nombre", None),
        ("not ok", None),
        ("don't merge", None),
        ("ok?\nno", None),
        ("go-ahead", None),
        ("approve @codebutler.pm", None),
        ("", None),
        (":+1:", Some(MessageIntent::Approve)),
    ] {
        assert_eq!(read_intent(text), expected, "{text}");
    }
    assert_eq!(read_intent("ok?"), None);
    assert_eq!(read_intent("¿merge?"), None);
}

#[test]
fn words_approve_the_open_plan_once_and_wake_who_asked() {
    let mut status = asked();
    let message = said("11.000000", "go ahead");
    let decided = take_message(&mut status, &message, &team("triage"), &now()).unwrap();
    assert_eq!(decided, TakenMessage::Decided(ts("10.000000")));
    assert_eq!(status.plan.as_ref().unwrap().approved_by.as_deref(), Some("U1"));
    assert_eq!(status.pending.len(), 1);
    assert_eq!(status.roles["pm"].inbox, Some(ts("11.000000")));
    assert!(!status.roles.contains_key("triage"));

    let after = status.clone();
    assert_eq!(
        take_message(&mut status, &message, &team("triage"), &now()),
        Ok(TakenMessage::Message)
    );
    assert_eq!(status, after);
}

#[test]
fn an_unclear_yes_stays_none_when_it_is_read_again() {
    let mut status = asked();
    status.closing = None;
    status.asked = Some(ts("12.000000"));
    let message = said("13.000000", "yes");
    let team = makers();
    assert_eq!(take_message(&mut status, &message, &team, &now()), Ok(TakenMessage::Unclear));
    assert_eq!(
        find_recipients(&status, &message, &team),
        ["pm"],
        "nothing for who carries plans out"
    );
    status.asked = None;
    let after = status.clone();
    assert_eq!(take_message(&mut status, &message, &team, &now()), Ok(TakenMessage::Message));
    assert_eq!(status, after);

    let mut status = asked();
    status.closing = None;
    let refused = take_refused(&mut status, &message, "not you", &team, &now());
    assert_eq!(refused, Ok(TakenMessage::Refused("not you")));
    assert_eq!(
        (status.plan.as_ref().unwrap().approved_by.as_ref(), status.pending.len()),
        (None, 0)
    );
    assert_eq!(
        take_refused(&mut status, &message, "not you", &team, &now()),
        Ok(TakenMessage::Message)
    );
}

#[test]
fn a_plain_yes_to_the_question_whether_to_merge_is_for_who_asked() {
    let mut status = asked();
    status.plan.as_mut().unwrap().approved_by = Some("U1".to_owned());
    let message = said("21.000000", "yes");
    let taken = take_message(&mut status, &message, &makers(), &now());
    let asked = ts("20.000000");
    assert_eq!(taken, Ok(TakenMessage::Decided(asked)));
    assert_eq!(find_recipients(&status, &message, &makers()), ["lead"]);
}

#[test]
fn words_said_before_the_plan_do_not_approve_it() {
    let mut status = asked();
    let decided = take_message(&mut status, &said("9.000000", "ok"), &team("triage"), &now());
    assert_eq!(decided, Ok(TakenMessage::Message));
    assert_eq!(status.plan.as_ref().unwrap().approved_by, None);
    assert!(status.roles.contains_key("triage"));
}

#[test]
fn a_message_that_mentions_a_role_is_for_that_role() {
    let mut status = asked();
    let mut message = said("30.000000", "merge");
    message.mentioned = vec!["coder".to_owned()];
    assert_eq!(take_message(&mut status, &message, &team("pm"), &now()), Ok(TakenMessage::Message));
    assert_eq!(status.closing.as_ref().unwrap().choice, None);
    assert_eq!(status.roles.keys().collect::<Vec<_>>(), ["coder"]);
}

#[test]
fn merge_counts_only_while_it_is_asked() {
    let mut status = asked();
    take_message(&mut status, &said("21.000000", "merge it"), &team("pm"), &now()).unwrap();
    let closing = status.closing.as_ref().unwrap();
    assert_eq!(closing.choice, Some(ClosingChoice::Merge));
    assert_eq!(closing.head.as_deref(), Some("abc"));
    assert!(status.wants("lead") && !status.wants("pm"));

    let mut status = ThreadStatus::default();
    take_message(&mut status, &said("21.000000", "merge it"), &team("pm"), &now()).unwrap();
    assert_eq!(status.closing, None);
    assert!(status.wants("pm"));
}

#[test]
fn a_user_may_close_at_any_time() {
    let mut status = ThreadStatus::default();
    let message = said("21.000000", "close this thread");
    take_message(&mut status, &message, &team("pm"), &now()).unwrap();
    let closing = status.closing.clone().unwrap();
    assert_eq!(closing.choice, Some(ClosingChoice::Discard));
    assert_eq!(closing.decided_by.as_deref(), Some("U1"));
    assert_eq!(closing.role, "pm");
    let after = status.clone();
    take_message(&mut status, &message, &team("pm"), &now()).unwrap();
    assert_eq!(status, after);
}

#[test]
fn a_click_decides_once_and_its_redelivery_changes_nothing() {
    let mut status = asked();
    let approve = press("10.000000", "plan:approve", "U1");
    assert_eq!(take_press(&mut status, &approve, &team("pm")), Ok(AnswerOutcome::Counts));
    let after = status.clone();
    assert_eq!(take_press(&mut status, &approve, &team("pm")), Ok(AnswerOutcome::Counts));
    assert_eq!(status, after);

    for stale in [
        press("10.000000", "plan:approve", "U2"),
        press("10.000000", "plan:reject", "U1"),
        press("9.000000", "plan:approve", "U1"),
        press("10.000000", "merge:merge", "U1"),
    ] {
        assert_eq!(
            take_press(&mut status, &stale, &team("pm")),
            Ok(AnswerOutcome::Stale),
            "{stale:?}"
        );
    }
    assert_eq!(status, after);

    let discard = press("20.000000", "merge:discard", "U2");
    assert_eq!(take_press(&mut status, &discard, &team("pm")), Ok(AnswerOutcome::Counts));
    assert_eq!(status.closing.as_ref().unwrap().choice, Some(ClosingChoice::Discard));
    let merge = press("20.000000", "merge:merge", "U1");
    assert_eq!(take_press(&mut status, &merge, &team("pm")), Ok(AnswerOutcome::Stale));
}

#[test]
fn hold_and_modify_are_told_and_approve_nothing() {
    let mut status = asked();
    for (at, choice) in [("10.000000", "plan:modify"), ("20.000000", "merge:hold")] {
        let click = press(at, choice, "U1");
        assert_eq!(take_press(&mut status, &click, &team("pm")), Ok(AnswerOutcome::Counts));
        assert_eq!(take_press(&mut status, &click, &team("pm")), Ok(AnswerOutcome::Counts));
    }
    let told: Vec<_> = status.pending.iter().map(|p| (&*p.role, &*p.kind, &*p.choice)).collect();
    assert_eq!(told, [("pm", "plan", "modify"), ("lead", "merge", "hold")]);
    assert_eq!(status.plan.as_ref().unwrap().approved_by, None);
    assert_eq!(status.closing.as_ref().unwrap().choice, None);
}

#[test]
fn a_declined_plan_is_not_approved_by_a_yes_to_something_else() {
    for choice in ["plan:modify", "plan:reject"] {
        let mut status = asked();
        let click = |choice| press("10.000000", choice, "U1");
        assert_eq!(take_press(&mut status, &click(choice), &team("pm")), Ok(AnswerOutcome::Counts));
        assert_eq!(status.plan.as_ref().unwrap().declined_by.as_deref(), Some("U1"));

        // "Shall I leave it as it is?" "Yes." The one who asked hears it, as words.
        let yes = said("11.000000", "Yes.");
        assert_eq!(
            take_message(&mut status, &yes, &team("triage"), &now()),
            Ok(TakenMessage::Message)
        );
        assert_eq!(status.roles["pm"].inbox, Some(ts("11.000000")));
        assert!(!status.roles.contains_key("triage"));

        assert_eq!(
            take_press(&mut status, &click("plan:approve"), &team("pm")),
            Ok(AnswerOutcome::Stale)
        );
        assert_eq!(status.plan.as_ref().unwrap().approved_by, None);
        assert_eq!(status.pending.len(), 1);
    }
}

#[test]
fn approval_goes_to_the_role_that_carries_it_out_and_to_nobody_else() {
    let waiting = || {
        let mut status = ThreadStatus { closing: None, ..asked() };
        status.roles.entry("pm".to_owned()).or_default().state = Some(RoleState::Waiting);
        status
    };
    let message = said("11.000000", "go ahead");
    let click = |choice| press("10.000000", choice, "U1");

    let (mut words, mut button) = (waiting(), waiting());
    take_message(&mut words, &message, &makers(), &now()).unwrap();
    take_press(&mut button, &click("plan:approve"), &makers()).unwrap();
    for status in [&words, &button] {
        assert_eq!(status.plan.as_ref().unwrap().approved_by.as_deref(), Some("U1"));
        assert!(status.wants("maker") && !status.wants("pm"), "{:?}", status.roles);
        assert_eq!((status.pending.len(), &*status.pending[0].role), (1, "maker"));
        // Nobody answers the pm any more, and the thread is told.
        assert_eq!(status.roles["pm"].state, Some(RoleState::Idle));
        assert_eq!(status.handovers.len(), 1);
        assert_eq!(status.handovers[0].why, HandOverReason::Approved);
    }
    // Delivered again, before and after it was told and taken.
    for told in [false, true] {
        for status in [&mut words, &mut button] {
            if told {
                status.handovers.clear();
                status.pending.clear();
                status.roles.entry("maker".to_owned()).or_default().done = Some(ts("11.000000"));
            }
            let before = status.clone();
            take_message(status, &message, &makers(), &now()).unwrap();
            take_press(status, &click("plan:approve"), &makers()).unwrap();
            if status.roles["maker"].inbox == before.roles["maker"].inbox {
                // Whoever had not spoken here before has now.
                let speakers = before.speakers.clone();
                assert_eq!(ThreadStatus { speakers, ..status.clone() }, before);
            }
            assert_eq!(status.handovers, before.handovers);
            assert_eq!(status.pending, before.pending);
        }
    }
    // A plan that is not wanted as it is goes back to whoever proposed it.
    for choice in ["plan:modify", "plan:reject"] {
        let mut status = waiting();
        take_press(&mut status, &click(choice), &makers()).unwrap();
        assert!(status.wants("pm") && !status.wants("maker"));
        assert_eq!(status.handovers, []);
    }
}

#[test]
fn a_reply_that_names_nobody_goes_to_whoever_asked_and_stays_there() {
    let mut status = ThreadStatus::default();
    let role = |state, said: &str| codebutler_crds::thread::RoleStatus {
        state: Some(state),
        said: Some(ts(said)),
        ..Default::default()
    };
    status.roles.insert("pm".to_owned(), Box::new(role(RoleState::Idle, "3.000000")));
    status.roles.insert("maker".to_owned(), Box::new(role(RoleState::Waiting, "4.000000")));
    let reply = said("5.000000", "Use the other one");
    take_message(&mut status, &reply, &makers(), &now()).unwrap();
    assert!(status.wants("maker") && !status.wants("pm"));
    // Whatever has happened since, the message is read as it was stored.
    status.roles.insert("maker".to_owned(), Box::new(role(RoleState::Idle, "6.000000")));
    status.roles.insert("pm".to_owned(), Box::new(role(RoleState::Waiting, "2.000000")));
    assert_eq!(find_recipients(&status, &reply, &makers()), ["maker"]);
    take_message(&mut status, &reply, &makers(), &now()).unwrap();
    assert!(!status.wants("pm"));
    // A bare yes to a question of another role than the one with the plan is an answer to that.
    let mut status = ThreadStatus { closing: None, ..asked() };
    threads::approve_plan(&mut status, &ts("10.000000"), "U1");
    status.roles.insert("pm".to_owned(), Box::new(role(RoleState::Waiting, "12.000000")));
    take_message(&mut status, &said("13.000000", "yes"), &makers(), &now()).unwrap();
    assert!(status.wants("pm") && !status.wants("maker"));
    // A message that stops what runs wakes nobody.
    take_message(&mut status, &said("14.000000", "stop"), &makers(), &now()).unwrap();
    assert_eq!(status.roles["pm"].inbox, Some(ts("13.000000")));
}

#[test]
fn a_plain_answer_to_what_the_harness_asks_presses_its_button_and_wakes_nobody() {
    let roadmap = || {
        let proposal = json!({"ts": "10.000000", "items": [{"id": "1", "hash": "aa"}]});
        let run = json!({"wanted": "9.000000", "by": "U1", "proposal": proposal});
        serde_json::from_value::<ThreadStatus>(json!({"roadmap": run, "asked": "10.000000"}))
            .unwrap()
    };
    let (yes, no) = (said("11.000000", "yes"), said("11.000000", "no"));
    let mut status = roadmap();
    let taken = take_message(&mut status, &yes, &makers(), &now());
    assert_eq!(taken, Ok(TakenMessage::Decided(ts("10.000000"))));
    assert!(status.roadmap.as_ref().unwrap().is_approved());
    assert!(status.roles.is_empty() && find_recipients(&status, &yes, &makers()).is_empty());
    let after = status.clone();
    assert_eq!(take_message(&mut status, &yes, &makers(), &now()), Ok(TakenMessage::Message));
    assert_eq!(status, after, "read again");

    let mut status = roadmap();
    take_message(&mut status, &no, &makers(), &now()).unwrap();
    let run = status.roadmap.as_ref().unwrap();
    assert!(run.open_question().is_none() && !run.is_approved());
    let mut status = roadmap();
    let refused = take_refused(&mut status, &yes, "not you", &makers(), &now());
    assert_eq!(refused, Ok(TakenMessage::Refused("not you")));
    assert!(status.roadmap.unwrap().open_question().is_some());

    // To keep a request whole is for who proposed the parts.
    let split = json!({"asked": "10.000000", "role": "pm", "parts": []});
    let mut status: ThreadStatus =
        serde_json::from_value(json!({"split": split, "asked": "10.000000"})).unwrap();
    take_message(&mut status, &no, &makers(), &now()).unwrap();
    assert!(status.split.as_ref().unwrap().declined);
    assert_eq!(status.pending.len(), 1);
}
