use codebutler_crds::thread::PostedPlan;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::questions::answered::{AnsweredQuestion, find_answered};
use crate::text::decision_words::read_intent;

fn ts(text: &str) -> SlackTs {
    text.parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A question of the coder, to be answered until second 100.
fn question(key: &str, ts_: &str) -> ActionApproval {
    ActionApproval {
        id: format!("coder:{key}"),
        role: "coder".to_owned(),
        tool: "Bash".to_owned(),
        hash: "aa".to_owned(),
        ts: ts(ts_),
        expires: Time(at(100)),
        answer: None,
        by: None,
        said: None,
        used: false,
        words: Some("ww".to_owned()),
        standing: false,
    }
}

fn asked(questions: &[ActionApproval]) -> ThreadStatus {
    ThreadStatus { approvals: questions.to_vec(), ..ThreadStatus::default() }
}

fn take(
    status: &mut ThreadStatus,
    (message, answer, user): (&str, ActionAnswer, &str),
    now: Timestamp,
) -> Result<AnswerOutcome, ChangeRefusal> {
    take_answer(status, (&ts(message), answer, user), now)
}

fn said(at: &str, text: &str) -> PersonMessage {
    PersonMessage::test(ts(at), text)
}

#[test]
fn the_first_answer_counts_once_and_wakes_the_role() {
    let mut status = asked(&[question("k", "5.000000")]);
    let yes = ("5.000000", ActionAnswer::Approve, "U1");
    for (late, outcome) in [
        (("4.000000", ActionAnswer::Approve, "U1"), AnswerOutcome::Unknown),
        (yes, AnswerOutcome::Counts),
        (yes, AnswerOutcome::Counts),
        (("5.000000", ActionAnswer::Deny, "U1"), AnswerOutcome::Stale),
        (("5.000000", ActionAnswer::Approve, "U2"), AnswerOutcome::Stale),
    ] {
        assert_eq!(take(&mut status, late, at(10)), Ok(outcome), "{late:?}");
    }
    let pending: Vec<_> =
        status.pending.iter().map(|p| (&*p.id, &*p.role, &*p.choice, &*p.user)).collect();
    assert_eq!(pending, [("approval:coder:k", "coder", "approved", "U1")]);
    assert_eq!(status.settled.len(), 1);
    let (state, by) = hand_out(&mut status, "coder:k", "aa", at(10)).unwrap();
    assert_eq!((state, by.as_deref()), (ApprovalState::Approved, Some("U1")));
}

#[test]
fn a_yes_is_for_exactly_one_action_of_one_role() {
    let mut status = asked(&[question("k", "5.000000")]);
    take(&mut status, ("5.000000", ActionAnswer::Approve, "U1"), at(10)).unwrap();
    assert_eq!(hand_out(&mut status, "coder:k", "bb", at(10)), Err(ChangeRefusal::OtherAction));
    assert_eq!(hand_out(&mut status, "pm:k", "aa", at(10)), Err(ChangeRefusal::NotAsked));
    assert!(!status.approvals[0].used);
    hand_out(&mut status, "coder:k", "aa", at(10)).unwrap();
    assert!(status.approvals[0].used);
    // The yes has no use for an action that is asked about anew.
    add_question(&mut status, &question("l", "6.000000")).unwrap();
    assert_eq!(hand_out(&mut status, "coder:l", "aa", at(10)).unwrap().0, ApprovalState::Pending);
}

#[test]
fn a_question_that_nobody_answered_in_time_is_neither_yes_nor_no() {
    let mut status = asked(&[question("k", "5.000000"), question("l", "6.000000")]);
    let yes = ("5.000000", ActionAnswer::Approve, "U1");
    assert_eq!(take(&mut status, yes, at(100)), Ok(AnswerOutcome::Late));
    assert_eq!(take(&mut status, yes, at(50)), Ok(AnswerOutcome::Late), "it stays so");
    expire_questions(&mut status, at(100)).unwrap();
    for id in ["coder:k", "coder:l"] {
        let (state, by) = hand_out(&mut status, id, "aa", at(100)).unwrap();
        assert_eq!((state, by), (ApprovalState::Expired, None));
    }
    let choices: Vec<_> = status.pending.iter().map(|p| p.choice.as_str()).collect();
    assert_eq!(choices, ["expired", "expired"]);
    assert_eq!(status.settled[0].choice.as_deref(), Some(EXPIRED));
}

#[test]
fn words_answer_the_one_open_question_that_was_asked_before_them() {
    for (text, expected) in [
        ("yes", Some(ApprovalAnswer::Approved)),
        ("Dale!", Some(ApprovalAnswer::Approved)),
        ("no", Some(ApprovalAnswer::Denied)),
        ("don't", Some(ApprovalAnswer::Denied)),
        ("Mejor no.", Some(ApprovalAnswer::Denied)),
        ("no, use git clean", None),
        ("stop", None),
    ] {
        let mut status = asked(&[question("k", "5.000000")]);
        let reply = said("6.000000", text);
        if let AnsweredQuestion::Action(one) = find_answered(&status, &reply) {
            let id = one.id.clone();
            assert_eq!(take_words(&mut status, &id, &reply, at(10)), Ok(AnswerOutcome::Counts));
            // Read again, by the role: it is still the answer to this.
            assert!(
                matches!(find_answered(&status, &reply), AnsweredQuestion::Action(_)),
                "{text}"
            );
        }
        assert_eq!(status.approvals[0].answer, expected, "{text}");
    }
    let status = asked(&[question("k", "5.000000")]);
    assert_eq!(
        find_answered(&status, &said("4.000000", "yes")),
        AnsweredQuestion::Nothing,
        "said before"
    );
    let mut two = asked(&[question("k", "5.000000"), question("l", "6.000000")]);
    assert_eq!(find_answered(&two, &said("7.000000", "yes")), AnsweredQuestion::Unclear);
    two.approvals.pop();
    two.plan = Some(Box::new(PostedPlan {
        ts: ts("6.500000"),
        hash: "aa".to_owned(),
        role: "pm".to_owned(),
        approved_by: None,
        declined_by: None,
    }));
    assert_eq!(
        find_answered(&two, &said("7.000000", "yes")),
        AnsweredQuestion::Unclear,
        "or is the plan meant?"
    );
    if let Some(plan) = &mut two.plan {
        plan.approved_by = Some("U1".to_owned());
    }
    assert!(matches!(find_answered(&two, &said("7.000000", "yes")), AnsweredQuestion::Action(_)));
}

#[test]
fn a_yes_that_was_spent_in_vain_counts_again_and_a_late_question_does_not() {
    let mut status = asked(&[question("k", "5.000000"), question("l", "6.000000")]);
    take(&mut status, ("5.000000", ActionAnswer::Approve, "U1"), at(10)).unwrap();
    expire_questions(&mut status, at(100)).unwrap();
    let mut state = |change: &dyn Fn(&mut ThreadStatus), id: &str| {
        change(&mut status);
        hand_out(&mut status, id, "aa", at(100)).unwrap().0
    };
    let spend = |is_first: bool| {
        move |status: &mut ThreadStatus| assert_eq!(spend_approval(status, "coder:k"), is_first)
    };
    assert_eq!(state(&spend(true), "coder:k"), ApprovalState::Expired);
    assert_eq!(state(&spend(false), "coder:k"), ApprovalState::Expired);
    let restore = |status: &mut ThreadStatus| restore_approval(status, "coder:k");
    assert_eq!(state(&restore, "coder:k"), ApprovalState::Approved);
    assert_eq!(state(&spend(true), "coder:k"), ApprovalState::Expired);
    let late = |status: &mut ThreadStatus| restore_approval(status, "coder:l");
    assert_eq!(state(&late, "coder:l"), ApprovalState::Expired);
}

#[test]
fn an_answered_question_makes_room_and_an_open_one_does_not() {
    let mut status = ThreadStatus::default();
    for n in 0..KEPT {
        add_question(&mut status, &question(&n.to_string(), &format!("{n}.000000"))).unwrap();
    }
    let more = question("more", "90.000000");
    assert!(!has_room(&status));
    assert_eq!(add_question(&mut status, &more), Err(ChangeRefusal::Asked));
    // An answer that the role does not have yet is not forgotten.
    take(&mut status, ("3.000000", ActionAnswer::Deny, "U1"), at(10)).unwrap();
    assert_eq!(add_question(&mut status, &more), Err(ChangeRefusal::Asked));
    hand_out(&mut status, "coder:3", "aa", at(10)).unwrap();
    // Nor one whose message still looks open: asked anew, it would be taken for the question.
    assert_eq!(add_question(&mut status, &more), Err(ChangeRefusal::Asked));
    status.settled.clear();
    add_question(&mut status, &more).unwrap();
    assert_eq!(status.approvals.len(), KEPT);
    assert_eq!(hand_out(&mut status, "coder:3", "aa", at(10)), Err(ChangeRefusal::NotAsked));
}

#[test]
fn a_yes_for_the_thread_answers_the_same_words_until_it_is_taken_back() {
    let mut status = asked(&[question("k", "5.000000")]);
    take(&mut status, ("5.000000", ActionAnswer::Always, "U1"), at(10)).unwrap();
    hand_out(&mut status, "coder:k", "aa", at(10)).unwrap();
    assert_eq!(status.settled[0].choice.as_deref(), Some("approval:thread"));
    let given = &status.standing[0];
    assert_eq!(
        (&*given.words, &*given.by, given.at.0, &given.ts),
        ("ww", "U1", at(10), &ts("5.000000"))
    );

    let again = ActionApproval {
        role: "pm".to_owned(),
        id: "pm:l".to_owned(),
        ..question("l", "5.000000")
    };
    // Whoever said so may not any more.
    assert_eq!(
        thread_approval::answer_for_thread(&mut status, &again, &["U2".to_owned()]),
        Ok(false)
    );
    let other = ActionApproval { words: Some("xx".to_owned()), ..again.clone() };
    assert_eq!(thread_approval::answer_for_thread(&mut status, &other, &[]), Ok(false));
    let once = ActionApproval { words: None, ..again.clone() };
    assert_eq!(thread_approval::answer_for_thread(&mut status, &once, &[]), Ok(false));
    for _ in 0..2 {
        assert_eq!(
            thread_approval::answer_for_thread(&mut status, &again, &["U1".to_owned()]),
            Ok(true)
        );
    }
    assert_eq!(status.approvals.len(), 2);
    let (state, by) = hand_out(&mut status, "pm:l", "aa", at(11)).unwrap();
    assert_eq!((state, by.as_deref()), (ApprovalState::Approved, Some("U1")));
    // The answer wakes nobody, and takes the buttons off no message.
    assert_eq!((status.pending.len(), status.settled.len()), (1, 1));

    crate::inbound::message_outcome::stop_runs(&mut status, &ts("7.000000"), "U2").unwrap();
    assert!(status.standing.is_empty());
    let third = ActionApproval { id: "pm:m".to_owned(), ..again };
    assert_eq!(thread_approval::answer_for_thread(&mut status, &third, &[]), Ok(false));
}

#[test]
fn words_give_it_and_what_has_no_words_gets_a_yes_for_once() {
    for (words, stands) in [(Some("ww".to_owned()), 1), (None, 0)] {
        let open = ActionApproval { words, ..question("k", "5.000000") };
        let mut status = asked(&[open]);
        let reply = said("6.000000", "Approve for this thread!");
        take_words(&mut status, "coder:k", &reply, at(10)).unwrap();
        assert_eq!(status.approvals[0].answer, Some(ApprovalAnswer::Approved));
        assert_eq!(status.standing.len(), stands);
    }
    assert_eq!(read_intent("siempre"), Some(MessageIntent::Always));
    assert_eq!(read_intent("revoke"), Some(MessageIntent::Revoke));
    assert_eq!(read_intent("always use tabs"), None);
    let mut many = ThreadStatus::default();
    for n in 0..40 {
        let one = ActionApproval { words: Some(n.to_string()), ..question("k", "5.000000") };
        thread_approval::grant_thread(&mut many, &one, "U1", at(n));
    }
    assert_eq!((many.standing.len(), &*many.standing[0].words), (16, "24"));
}

#[test]
fn a_yes_for_the_thread_ends_with_its_givers_membership() {
    let mut status = asked(&[question("k", "5.000000")]);
    take(&mut status, ("5.000000", ActionAnswer::Always, "U1"), at(10)).unwrap();
    let other = ActionApproval { words: Some("xx".to_owned()), ..question("l", "6.000000") };
    thread_approval::grant_thread(&mut status, &other, "U2", at(11));
    threads::revoke_allowances_of(&mut status, "U1");
    assert_eq!(status.standing.iter().map(|one| &*one.by).collect::<Vec<_>>(), ["U2"]);
    // Back again, they are asked again.
    let again = ActionApproval { id: "pm:m".to_owned(), ..question("m", "7.000000") };
    assert_eq!(thread_approval::answer_for_thread(&mut status, &again, &[]), Ok(false));
}
