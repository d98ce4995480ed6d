//! Roles that one role asked at the same time. They run side by side, and who asked is woken once,
//! with the end of the last run: each answer alone would begin one that can only wait. Pure,
//! monotone, and the same when applied again.

use codebutler_crds::thread::{JointQuestion, RoleState};
use codebutler_crds::{SlackTs, ThreadStatus};

/// Most roles in one question.
const MOST: usize = 8;

/// Notes the roles that a message asks at the same time. A role whose run has taken it already is
/// not waited for.
pub fn begin_joint(status: &mut ThreadStatus, by: &str, asked: &[(String, SlackTs)]) {
    let Some(ts) = asked.iter().map(|(_, ts)| ts).min().cloned() else { return };
    if status.joint_question.as_ref().is_some_and(|joint| joint.ts >= ts) {
        return;
    }
    let waits = |(role, ts): &&(String, SlackTs)| {
        let done = status.roles.get(role).and_then(|own| own.done.as_ref());
        done.is_none_or(|done| done < ts)
    };
    let awaited: Vec<String> =
        asked.iter().filter(waits).map(|(role, _)| role.clone()).take(MOST).collect();
    // Of an earlier one that was not over yet, what was answered is not lost.
    let before = status.joint_question.take().filter(|before| before.by == by);
    let answered = before.and_then(|before| before.answered);
    let joint = JointQuestion { by: by.to_owned(), ts, awaited, answered };
    status.joint_question = (!joint.awaited.is_empty()).then(|| Box::new(joint));
}

/// Keeps an answer until all are there; false if it is none.
pub fn answer_joint(status: &mut ThreadStatus, from: &str, to: &str, ts: &SlackTs) -> bool {
    let Some(joint) = status.joint_question.as_mut().filter(|joint| joint.by == to) else {
        return false;
    };
    if !joint.awaited.iter().any(|role| role == from) {
        return false;
    }
    joint.answered = joint.answered.take().max(Some(ts.clone()));
    true
}

/// A role's run has ended; answers who is woken by which message, if it was the last one. Who waits for
/// somebody else goes on later.
pub(super) fn leave_joint(status: &mut ThreadStatus, role: &str) -> Option<(String, SlackTs)> {
    let own = status.roles.get(role)?;
    let joint = status.joint_question.as_mut()?;
    let is_over = matches!(own.state, Some(RoleState::Idle | RoleState::Failed));
    if is_over && own.done.as_ref().is_some_and(|done| *done >= joint.ts) {
        joint.awaited.retain(|awaited| awaited != role);
    }
    if !joint.awaited.is_empty() {
        return None;
    }
    let joint = status.joint_question.take()?;
    Some((joint.by, joint.answered?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn ends(status: &mut ThreadStatus, role: &str, state: RoleState, done: &str) {
        let own = status.roles.entry(role.to_owned()).or_default();
        (own.state, own.done) = (Some(state), Some(ts(done)));
    }

    #[test]
    fn who_asked_is_woken_once_by_the_newest_answer() {
        let mut status = ThreadStatus::default();
        let asked = [("coder".to_owned(), ts("5.000000")), ("pm".to_owned(), ts("5.000000"))];
        begin_joint(&mut status, "lead", &asked);
        begin_joint(&mut status, "lead", &asked);
        assert_eq!(status.joint_question.as_ref().unwrap().awaited, ["coder", "pm"]);
        // A run that began before the question has not heard of it.
        ends(&mut status, "coder", RoleState::Idle, "4.000000");
        assert_eq!(leave_joint(&mut status, "coder"), None);
        assert!(answer_joint(&mut status, "pm", "lead", &ts("7.000000")));
        assert!(!answer_joint(&mut status, "pm", "coder", &ts("7.000000")), "another's");
        assert!(!answer_joint(&mut status, "reviewer", "lead", &ts("7.000000")), "not asked");
        // It asks somebody something first.
        ends(&mut status, "pm", RoleState::Waiting, "5.000000");
        assert_eq!(leave_joint(&mut status, "pm"), None);
        ends(&mut status, "pm", RoleState::Idle, "7.500000");
        assert_eq!(leave_joint(&mut status, "pm"), None);
        assert!(answer_joint(&mut status, "coder", "lead", &ts("6.000000")));
        ends(&mut status, "coder", RoleState::Failed, "5.000000");
        let woken = Some(("lead".to_owned(), ts("7.000000")));
        assert_eq!(leave_joint(&mut status, "coder"), woken);
        assert_eq!((status.joint_question.clone(), leave_joint(&mut status, "pm")), (None, None));
        // The question is recorded once more after a crash: all of it is over.
        begin_joint(&mut status, "lead", &asked);
        assert_eq!(status.joint_question, None);
    }

    #[test]
    fn whoever_answers_nothing_wakes_nobody() {
        let mut status: ThreadStatus = serde_json::from_value(json!({})).unwrap();
        begin_joint(&mut status, "lead", &[("pm".to_owned(), ts("5.000000"))]);
        ends(&mut status, "pm", RoleState::Idle, "5.000000");
        assert_eq!((leave_joint(&mut status, "pm"), status.joint_question), (None, None));
    }
}
