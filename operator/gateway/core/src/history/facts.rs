//! Derives history facts from a Thread's object. Pure: each fact has a key under which it is told
//! once.

use codebutler_crds::thread::{AnswerFeedback, ApprovalAnswer, PullState, ThreadState};
use codebutler_crds::wire::PendingItem;
use codebutler_crds::wire::history::HistoryEvent;
use codebutler_crds::{SlackTs, Thread, ThreadStatus, condition};

/// A fact: its key, the role it is about, and what it says.
pub(crate) type ThreadFact = (String, Option<String>, HistoryEvent);

/// Conditions that say why nothing happens.
const WAITS: [&str; 4] = [
    condition::QUEUED,
    condition::AWAITING_USER,
    condition::BUDGET_EXCEEDED,
    condition::COLLECTING,
];

/// Returns all facts that a Thread's object tells.
pub(crate) fn thread_facts(thread: &Thread) -> Vec<ThreadFact> {
    let Some(status) = &thread.status else { return Vec::new() };
    let mut facts: Vec<_> = opening_fact(thread).into_iter().collect();
    if let Some(plan) = &status.plan {
        let fact = |approved_by: Option<String>| {
            let by = approved_by.as_deref().unwrap_or_default();
            let key = format!("plan:{}:{by}", plan.ts);
            (key, None, HistoryEvent::Plan { message: plan.ts.clone(), approved_by })
        };
        facts.push(fact(None));
        facts.extend(plan.approved_by.clone().map(|by| fact(Some(by))));
    }
    facts.extend(status.approvals.iter().filter_map(approval_fact));
    facts.extend(status.feedback.iter().map(feedback_fact));
    if let Some(receipt) = &status.receipt {
        let key = format!("receipt:{}:{}", receipt.commit, receipt.exit_code);
        let (commit, command) = (receipt.commit.clone(), receipt.command.clone());
        let event = HistoryEvent::Receipt { commit, command, exit_code: receipt.exit_code };
        facts.push((key, Some(receipt.role.clone()), event));
    }
    if let Some(pull) = &status.pull_request {
        let state = match pull.state.unwrap_or(PullState::Open) {
            PullState::Open => "open",
            PullState::Merged => "merged",
            PullState::Closed => "closed",
        };
        let key = format!("pull:{}:{state}", pull.number);
        let (url, state) = (pull.url.clone(), state.to_owned());
        facts.push((key, None, HistoryEvent::PullRequest { number: pull.number, url, state }));
    }
    facts.extend(wait_facts(status));
    if thread.spec.state == ThreadState::Closed {
        let by = status.closing.as_ref().and_then(|closing| closing.decided_by.clone());
        facts.push(("closed".to_owned(), None, HistoryEvent::Closed { by }));
    }
    facts
}

/// Records the channel, because it decides who may read the history, even once the Thread is gone.
fn opening_fact(thread: &Thread) -> Option<ThreadFact> {
    let conversation = thread.conversation()?;
    let (repo, channel) = (thread.spec.repo.clone(), conversation.channel.clone());
    let by = thread.spec.requested_by.clone();
    Some((format!("opened:{channel}"), None, HistoryEvent::Opened { repo, channel, by }))
}

fn approval_fact(approval: &codebutler_crds::thread::ActionApproval) -> Option<ThreadFact> {
    let choice = match approval.answer? {
        ApprovalAnswer::Approved => "approved",
        ApprovalAnswer::Denied => "denied",
        ApprovalAnswer::Expired => "expired",
    };
    let event = HistoryEvent::Decision {
        kind: "approval".to_owned(),
        choice: choice.to_owned(),
        user: approval.by.clone().unwrap_or_default(),
        message: approval.ts.clone(),
    };
    Some((format!("approval:{}:{choice}", approval.id), Some(approval.role.clone()), event))
}

/// Records whether an answer helped: one that did not counts as friction for whoever looks back.
fn feedback_fact(said: &AnswerFeedback) -> ThreadFact {
    let AnswerFeedback { message, role, by, helps, at, why, .. } = said;
    let choice = match (helps, why) {
        (true, _) => "yes".to_owned(),
        (false, Some(why)) => format!("no, see message {why}"),
        (false, None) => "no".to_owned(),
    };
    let key = format!("feedback:{message}:{by}:{at}:{}", why.as_ref().map_or("", SlackTs::as_str));
    let kind = "feedback".to_owned();
    let event = HistoryEvent::Decision { kind, choice, user: by.clone(), message: message.clone() };
    (key, Some(role.clone()), event)
}

fn wait_facts(status: &ThreadStatus) -> impl Iterator<Item = ThreadFact> {
    let waits = status.conditions.iter().filter(|one| WAITS.contains(&one.type_.as_str()));
    waits.map(|one| {
        let key = format!("waits:{}:{}:{}", one.type_, one.status, one.last_transition_time.0);
        let (what, now) = (one.type_.clone(), one.status == "True");
        (key, None, HistoryEvent::Waiting { what, now, why: one.message.clone() })
    })
}

/// Records a decision of people that a role is about to hear. The outcome of a question about an
/// action has a record of its own.
pub fn decision_fact(pending: &PendingItem) -> Option<ThreadFact> {
    let PendingItem { id, role, kind, choice, user, message } = pending;
    let event = HistoryEvent::Decision {
        kind: kind.clone(),
        choice: choice.clone(),
        user: user.clone(),
        message: message.clone(),
    };
    (kind != "approval").then(|| (format!("decision:{id}"), Some(role.clone()), event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_thread_tells_who_decided_and_what_it_waits_for() {
        let thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "shop-1", "namespace": "team"},
            "spec": {"repo": "shop", "state": "Closed", "slack": {"channel": "C1", "ts": "1.000000"}},
            "status": {
                "plan": {"ts": "2.000000", "hash": "h", "role": "pm", "approvedBy": "U1"},
                "pullRequest": {"number": 3, "url": "https://x/3", "state": "merged"},
                "closing": {"ts": "5.000000", "role": "lead", "choice": "merge", "decidedBy": "U2"},
                "conditions": [
                    {"type": "Queued", "status": "True", "reason": "R", "message": "place 2",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Ready", "status": "True", "reason": "R", "message": "",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
            },
        }))
        .unwrap();
        let keys: Vec<_> = thread_facts(&thread).into_iter().map(|(key, ..)| key).collect();
        let expected = [
            "opened:C1",
            "plan:2.000000:",
            "plan:2.000000:U1",
            "pull:3:merged",
            "waits:Queued:True:2026-01-01T00:00:00Z",
            "closed",
        ];
        assert_eq!(keys, expected);
    }
}
