//! Tells when a conversation is finished: nothing runs, waits or is asked in it.

use codebutler_crds::thread::{ClosingChoice, RoleState, ThreadState};
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use jiff::{SignedDuration, Timestamp};

use crate::dispatch;

/// Age from which a message is not looked at any more.
const RECENT: SignedDuration = SignedDuration::from_hours(24);

/// The newest message that is finished and does not show it. Pure.
pub fn find_finished(thread: &Thread, now: Timestamp) -> Option<SlackTs> {
    let status = thread.status.as_ref()?;
    let finished = match thread.spec.state {
        ThreadState::Active => is_resting(status),
        ThreadState::Closed => status
            .closing
            .as_ref()
            .is_some_and(|closing| closing.choice == Some(ClosingChoice::Merge)),
    };
    let newest = status.roles.values().filter_map(|role| role.inbox.clone()).max()?;
    let (seconds, _) = newest.parts();
    let said = Timestamp::from_second(seconds.cast_signed()).ok()?;
    let recent = now.duration_since(said) < RECENT;
    let known = status.finished.as_ref().is_some_and(|known| *known >= newest);
    (finished && recent && !known).then_some(newest)
}

/// Returns true if neither roles nor people have anything to do.
fn is_resting(status: &ThreadStatus) -> bool {
    let idle = status.roles.iter().all(|(name, role)| {
        matches!(role.state, None | Some(RoleState::Idle)) && !role.ended && !status.wants(name)
    });
    // Silence alone does not finish work that people approved.
    let goes_on = !status.handovers.is_empty() || dispatch::is_unfinished(status);
    let plan = status.plan.as_ref();
    let plan = plan.is_some_and(|plan| plan.approved_by.is_none() && plan.declined_by.is_none());
    let asked = plan
        || status.closing.is_some()
        || status.approvals.iter().any(|question| question.answer.is_none())
        || status.budget.as_ref().is_some_and(|budget| budget.ask.is_some());
    idle && !goes_on && !asked
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_message_is_finished_when_nobody_has_anything_left_to_do() {
        let due = |state: &str, status: Value| {
            let thread: Thread = serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
                "spec": {"repo": "r", "state": state, "slack": {"channel": "C01", "ts": "1.000000"}},
                "status": status,
            }))
            .unwrap();
            find_finished(&thread, Timestamp::from_second(10).unwrap()).map(|ts| ts.to_string())
        };
        let pm = |state: &str, done: &str| json!({"pm": {"inbox": "5.000000", "done": done, "state": state}});
        let rest = pm("Idle", "5.000000");
        assert_eq!(due("Active", json!({"roles": rest})).as_deref(), Some("5.000000"));
        for status in [
            json!({"roles": rest, "finished": "5.000000"}),
            json!({"roles": pm("Idle", "4.000000")}),
            json!({"roles": pm("Running", "5.000000")}),
            json!({"roles": pm("Waiting", "5.000000")}),
            json!({"roles": pm("Failed", "5.000000")}),
            json!({"roles": rest, "plan": {"ts": "4.000000", "hash": "h", "role": "pm"}}),
            json!({"roles": rest, "closing": {"ts": "4.000000", "role": "pm"}}),
            // Approved, and nobody has merged it.
            json!({"roles": rest,
                "plan": {"ts": "4.000000", "hash": "h", "role": "pm", "approvedBy": "U1"}}),
            json!({"roles": rest, "handovers": [{"id": "a", "why": "approved"}]}),
            json!({"roles": {"pm": {"inbox": "5.000000", "done": "5.000000", "state": "Idle", "ended": true}}}),
            json!({}),
        ] {
            assert_eq!(due("Active", status.clone()), None, "{status}");
        }
        let closed = |choice: &str| json!({"roles": rest, "closing": {"ts": "4.000000", "role": "pm", "choice": choice}});
        assert!(due("Closed", closed("merge")).is_some());
        assert_eq!(due("Closed", closed("discard")), None);
    }
}
