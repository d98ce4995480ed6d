//! Events of a Thread: refusals, and steps that an operator looks for, found in a change of its
//! status. None has a word of a person in it.

use codebutler_crds::spend::CallLimit;
use codebutler_crds::thread::PullState;
use codebutler_crds::{NanoUsd, Thread, ThreadStatus};
use codebutler_runtime::apply::{event_action, shorten_text};
use codebutler_runtime::notice::EventNotice;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Resource as _, ResourceExt as _};

use super::{ChangeRefusal, ThreadWriter};

/// Characters of a plan's hash.
const HASH: usize = 12;

/// Most bytes of an event's note; the API takes 1,024.
const NOTE: usize = 1000;

/// Publishes events of Threads.
#[derive(Clone)]
pub(super) struct ThreadEvents(pub Recorder);

impl ThreadEvents {
    /// A refusal is never silent: it is shown where `kubectl describe` looks.
    pub(super) async fn tell_refusal(&self, thread: &Thread, refusal: &ChangeRefusal) {
        self.publish(thread, &EventNotice::warning("Refused", refusal.to_string())).await;
    }

    /// Publishes the steps of a change that was written.
    pub(super) async fn tell_steps(
        &self,
        thread: &Thread,
        before: &ThreadStatus,
        after: &ThreadStatus,
    ) {
        for step in find_steps(before, after) {
            self.publish(thread, &step).await;
        }
    }

    async fn publish(&self, thread: &Thread, notice: &EventNotice) {
        let event = Event {
            type_: if notice.warning { EventType::Warning } else { EventType::Normal },
            reason: notice.reason.to_owned(),
            note: Some(shorten_text(&notice.note, NOTE)),
            action: event_action(notice.reason, &notice.note),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, &thread.object_ref(&())).await {
            tracing::warn!(error = %error, thread = thread.name_any(), "event_write_failed");
        }
    }
}

impl ThreadWriter {
    /// Publishes that a budget comes near.
    pub async fn warn_of_budget(&self, thread: &Thread, limit: CallLimit, cap: NanoUsd) {
        let note = format!("the limit `{}` of ${cap} comes near", limit.name());
        self.events.publish(thread, &EventNotice::warning("BudgetNear", note)).await;
    }
}

/// The steps that lie between two states.
pub(super) fn find_steps(before: &ThreadStatus, after: &ThreadStatus) -> Vec<EventNotice> {
    let mut steps = Vec::new();
    let approved = |status: &ThreadStatus| {
        let plan = status.plan.as_ref()?;
        Some((plan.hash.clone(), plan.approved_by.clone()?))
    };
    if let Some((hash, by)) = approved(after).filter(|_| approved(before) != approved(after)) {
        let hash: String = hash.chars().take(HASH).collect();
        steps
            .push(EventNotice::normal("PlanApproved", format!("plan {hash} was approved by {by}")));
    }
    let number = |status: &ThreadStatus| status.pull_request.as_ref().map(|pull| pull.number);
    if let Some(pull) = &after.pull_request {
        let is_new = number(before) != number(after);
        let name = format!("#{} {}", pull.number, pull.url);
        if is_new {
            steps.push(EventNotice::normal("PullRequestOpened", name.clone()));
        }
        let state = before.pull_request.as_ref().filter(|_| !is_new).and_then(|pull| pull.state);
        match pull.state.filter(|now| Some(*now) != state) {
            Some(PullState::Merged) => {
                let commit = pull.merge_commit.as_deref().unwrap_or_default();
                let commit: String = commit.chars().take(HASH).collect();
                let note = if commit.is_empty() { name } else { format!("{name} as {commit}") };
                steps.push(EventNotice::normal("PullRequestMerged", note));
            }
            Some(PullState::Closed) => {
                steps.push(EventNotice::normal(
                    "PullRequestClosed",
                    format!("{name} without a merge"),
                ));
            }
            _ => {}
        }
    }
    let ask = |status: &ThreadStatus| status.budget.as_ref().and_then(|budget| budget.ask.clone());
    let question = |status: &ThreadStatus| ask(status).map(|ask| ask.ts);
    if let Some(ask) = ask(after).filter(|_| question(before) != question(after)) {
        let cap = ask.cap.map(|cap| format!(" of ${cap}")).unwrap_or_default();
        let note = format!("the limit `{}`{cap} is reached: the thread asks", ask.limit.name());
        steps.push(EventNotice::warning("BudgetReached", note));
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn status(value: Value) -> ThreadStatus {
        let thread = json!({"metadata": {}, "spec": {"repo": "r"}, "status": value});
        serde_json::from_value::<Thread>(thread).unwrap().status.unwrap()
    }

    fn shown(before: &ThreadStatus, after: &ThreadStatus) -> Vec<String> {
        let steps = find_steps(before, after).into_iter();
        steps.map(|step| format!("{}: {}", step.reason, step.note)).collect()
    }

    #[test]
    fn each_step_is_an_event_once() {
        let pull = |fields: Value| {
            let mut pull = json!({"number": 5, "url": "https://git.example/pull/5"});
            pull.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({"pullRequest": pull})
        };
        let plan = |approved: Option<&str>| {
            let hash = "0123456789abcdef";
            status(
                json!({"plan": {"ts": "1.000001", "hash": hash, "role": "pm", "approvedBy": approved}}),
            )
        };
        let none = ThreadStatus::default();
        assert!(shown(&none, &plan(None)).is_empty());
        let approved = ["PlanApproved: plan 0123456789ab was approved by U1"];
        assert_eq!(shown(&plan(None), &plan(Some("U1"))), approved);
        assert!(shown(&plan(Some("U1")), &plan(Some("U1"))).is_empty());
        let open = status(pull(json!({})));
        assert_eq!(shown(&none, &open), ["PullRequestOpened: #5 https://git.example/pull/5"]);
        let merged = status(pull(json!({"state": "merged", "mergeCommit": "fedcba9876543210"})));
        assert_eq!(
            shown(&open, &merged),
            ["PullRequestMerged: #5 https://git.example/pull/5 as fedcba987654"]
        );
        assert!(shown(&merged, &merged).is_empty());
        let closed = status(pull(json!({"state": "closed"})));
        assert_eq!(
            shown(&open, &closed),
            ["PullRequestClosed: #5 https://git.example/pull/5 without a merge"]
        );
    }

    #[test]
    fn a_budget_is_reached_once_for_each_question() {
        let asks = |ts: &str| {
            status(json!({"budget": {"ask": {"ts": ts, "limit": "perThread", "cap": "5"}}}))
        };
        let reached = ["BudgetReached: the limit `perThread` of $5.00 is reached: the thread asks"];
        assert_eq!(shown(&ThreadStatus::default(), &asks("1.000001")), reached);
        assert!(shown(&asks("1.000001"), &asks("1.000001")).is_empty());
        assert_eq!(shown(&asks("1.000001"), &asks("2.000001")), reached);
    }
}
