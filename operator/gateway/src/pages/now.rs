//! Current state of a Thread for pages, from its object. Pure but for the look into the cache.

use std::collections::BTreeSet;

use codebutler_crds::thread::{PullState, RoleState, ThreadState};
use codebutler_crds::{Thread, ThreadStatus, condition};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_history::ThreadPlace;
use codebutler_pages::{ListedThread, ThreadNow, ThreadSummary, WaitCause, WaitNow};

use super::door::ThreadSight;

impl ThreadSight {
    /// Adds the Thread's current state to a summary, if the Thread exists.
    pub(super) fn overlay(&self, place: &ThreadPlace, summary: &mut ThreadSummary) {
        if let Some(now) = self.now(place) {
            summary.stand(now);
        }
    }

    /// Adds the current state to each thread of a list.
    pub(super) fn overlay_all(&self, threads: &mut [ListedThread]) {
        for one in threads {
            if let Ok(place) = one.name.parse::<ThreadPlace>() {
                self.overlay(&place, &mut one.summary);
            }
        }
    }

    pub(super) fn now(&self, place: &ThreadPlace) -> Option<ThreadNow> {
        let (namespace, name) = (place.namespace().to_owned(), place.name().to_owned());
        let thread = self.context.thread(&ThreadKey { namespace, name })?;
        Some(stand_of(&thread))
    }
}

/// Derives the current state from the object alone.
fn stand_of(thread: &Thread) -> ThreadNow {
    let closed = thread.spec.state == ThreadState::Closed;
    let Some(status) = &thread.status else {
        return ThreadNow { closed, ..ThreadNow::default() };
    };
    let named = |is: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        status.roles.keys().filter(|role| is(role)).cloned().collect()
    };
    let has_pod = |role: &str| status.roles.get(role).is_some_and(|own| own.pod_uid.is_some());
    let runs = |role: &str| {
        has_pod(role)
            && status.roles.get(role).is_some_and(|own| own.state == Some(RoleState::Running))
    };
    let mut starting = named(&|role| status.wants(role) && !runs(role));
    starting.extend(status.pending.iter().map(|pending| pending.role.clone()));
    let working = named(&runs);
    starting.retain(|role| !working.contains(role));
    let wait = find_wait(thread, status, working.is_empty() && starting.is_empty());
    let pull = status.pull_request.as_ref().map(|pull| (pull.number, name_state(pull.state)));
    ThreadNow { closed, working, starting, away: named(&|role| !has_pod(role)), wait, pull }
}

/// The state of a pull request, as histories have it.
fn name_state(state: Option<PullState>) -> &'static str {
    match state.unwrap_or(PullState::Open) {
        PullState::Open => "open",
        PullState::Merged => "merged",
        PullState::Closed => "closed",
    }
}

/// `rests`: no role works or is about to.
fn find_wait(thread: &Thread, status: &ThreadStatus, rests: bool) -> Option<WaitNow> {
    let since = |type_: &str| {
        let found = status.conditions.iter().find(|one| one.type_ == type_ && one.status == "True");
        found.map(|one| u64::try_from(one.last_transition_time.0.as_millisecond()).unwrap_or(0))
    };
    if let Some(since) = since(condition::QUEUED) {
        return Some(WaitNow { cause: WaitCause::Slot, people: Vec::new(), since });
    }
    let asked = |ts: &codebutler_crds::SlackTs| ts.parts().0.saturating_mul(1000);
    if let Some(ask) = status.budget.as_ref().and_then(|budget| budget.ask.as_ref()) {
        let until = ask.until.as_ref().and_then(|at| u64::try_from(at.0.as_millisecond()).ok());
        let (cause, people) = if ask.limit.is_raised_in_thread() {
            (WaitCause::Budget, thread.people())
        } else {
            (WaitCause::Limit { until, is_budget: ask.limit.is_of_people() }, Vec::new())
        };
        return Some(WaitNow { cause, people, since: asked(&ask.ts) });
    }
    let stuck = status.conditions.iter().find(|one| {
        one.type_ == condition::READY
            && one.status == "False"
            && since(condition::STALLED).is_some()
    });
    if let Some(stuck) = stuck {
        let since = since(condition::STALLED).unwrap_or_default();
        let cause = WaitCause::Trouble(stuck.message.clone());
        return Some(WaitNow { cause, people: Vec::new(), since });
    }
    let since = since(condition::AWAITING_USER).filter(|_| rests)?;
    let deeds: Vec<_> = status.questions_of_roles().iter().map(|one| one.deed()).collect();
    Some(WaitNow {
        cause: WaitCause::Answer(deeds.join(" and ")),
        people: thread.asked_people(),
        since,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stand(status: &Value) -> ThreadNow {
        let thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "r", "requestedBy": "U01"}, "status": status,
        }))
        .unwrap();
        stand_of(&thread)
    }

    fn is_true(type_: &str) -> Value {
        json!({"type": type_, "status": "True", "reason": "R", "message": "m",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_role_works_only_in_a_pod_that_is_there() {
        let mail = "2.000000";
        let now = stand(&json!({"roles": {
            "pm": {"inbox": mail, "state": "Running"},
            "coder": {"inbox": mail, "state": "Running", "podUID": "a"},
            "lead": {"inbox": mail, "done": mail, "state": "Idle"}}}));
        let set = |roles: &[&str]| roles.iter().map(|role| (*role).to_owned()).collect();
        let (working, starting, away) = (set(&["coder"]), set(&["pm"]), set(&["pm", "lead"]));
        let idle = ThreadNow { working, starting, away, ..ThreadNow::default() };
        assert_eq!(now, idle);
        let again = json!({"number": 7, "url": "https://git.example/7", "state": "closed"});
        assert_eq!(stand(&json!({"pullRequest": again})).pull, Some((7, "closed")));
    }

    #[test]
    fn a_wait_names_what_and_whom() {
        let cause = |status: Value| stand(&status).wait.map(|wait| (wait.cause, wait.people));
        let answer = |deed: &str| WaitCause::Answer(deed.to_owned());
        let people = vec!["U01".to_owned(), "U02".to_owned()];
        let open = json!({"ts": "2.000000", "hash": "h", "role": "pm"});
        let asked =
            json!({"plan": open, "speakers": ["U02"], "conditions": [is_true("AwaitingUser")]});
        assert_eq!(cause(asked), Some((answer("to approve the plan"), people.clone())));
        let held = json!({"closing": {"ts": "2.000000", "role": "lead"}});
        assert_eq!(cause(held), None, "somebody holds the merge back");
        let busy = json!({"plan": open, "roles": {"pm": {"inbox": "3.000000"}}});
        assert_eq!(cause(busy), None);
        let queued = json!({"plan": open, "conditions": [is_true("Queued")]});
        assert_eq!(cause(queued), Some((WaitCause::Slot, vec![])));
        let ask = json!({"ts": "2.000000", "limit": "perThread", "roles": ["pm"]});
        let money = json!({"budget": {"ask": ask}, "speakers": ["U02"]});
        assert_eq!(cause(money), Some((WaitCause::Budget, people)));
        let mut ask =
            json!({"ts": "2.000000", "limit": "callsPerHour", "until": "1970-01-01T01:00:00Z"});
        let limit = |is_budget| WaitCause::Limit { until: Some(3_600_000), is_budget };
        assert_eq!(cause(json!({"budget": {"ask": ask}})), Some((limit(false), vec![])));
        ask["limit"] = json!("teamPerMonth");
        assert_eq!(cause(json!({"budget": {"ask": ask}})), Some((limit(true), vec![])));
        assert_eq!(cause(json!({})), None);
    }
}
