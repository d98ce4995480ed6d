//! Threads that nobody needs any more. The controller only decides and writes it down as the
//! condition `Collecting`: `Warned`, and a day later `Due`. The gateway tells the thread, and when it
//! is due undoes what is outside of Kubernetes and closes the Thread. Whatever is written in the
//! thread meanwhile is activity, and stops it.

use codebutler_crds::thread::{PullState, RoleState};
use codebutler_crds::{ThreadStatus, condition};
use codebutler_runtime::notice::EventNotice;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::plan::ThreadPlan;
use super::view::{ThreadView, find_definition};

/// Silence after which a Thread may be forgotten.
const SILENCE: SignedDuration = SignedDuration::from_hours(48);
const GRACE: SignedDuration = SignedDuration::from_hours(24);

/// Writes the condition, and when to look again.
pub(super) fn tell_inactivity(view: &ThreadView, plan: &mut ThreadPlan) {
    let created = view.thread.metadata.creation_timestamp.as_ref();
    let active = view.status.last_activity.as_ref().or(created).map_or(view.now, |time| time.0);
    let silent = view.now.duration_since(active);
    if is_needed(view) || silent < SILENCE {
        condition::clear_condition(&mut plan.status.conditions, condition::COLLECTING);
        if !is_needed(view) {
            plan.look_again_in((SILENCE - silent).unsigned_abs());
        }
        return;
    }
    let warned = warned_at(view.status);
    let left = warned.map_or(GRACE, |at| GRACE - view.now.duration_since(at));
    let (reason, message) = if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
        ("Warned", "silent for two days: collected in a day, unless somebody writes in the thread")
    } else {
        ("Due", "silent for three days: worktree and branch are removed")
    };
    if warned.is_none() {
        plan.notices.push(EventNotice::normal("Collecting", message));
    }
    condition::set_condition(
        &mut plan.status.conditions,
        condition::COLLECTING,
        true,
        reason,
        message,
        view.thread.metadata.generation,
        &Time(view.now),
    );
}

fn warned_at(status: &ThreadStatus) -> Option<Timestamp> {
    let found = status.conditions.iter().find(|c| c.type_ == condition::COLLECTING);
    found.filter(|c| c.status == "True").map(|c| c.last_transition_time.0)
}

/// Something runs or waits to run, the role that writes code is at it, or a pull request is open.
fn is_needed(view: &ThreadView) -> bool {
    let status = view.status;
    let open = status.pull_request.as_ref().is_some_and(|pull| {
        pull.merge_commit.is_none() && pull.state.is_none_or(|state| state == PullState::Open)
    });
    let busy = status
        .roles
        .iter()
        .any(|(name, role)| status.wants(name) || role.state == Some(RoleState::Running));
    let writes = |name: &String| {
        find_definition(view.observed, name).is_some_and(|role| role.spec.push.is_some())
    };
    open || busy || !status.pending.is_empty() || status.active_role.as_ref().is_some_and(writes)
}
