//! The person of a bench: says what the issue says, agrees to what is asked, and pushes twice when
//! nobody goes on. What it had to do is part of the result.

use std::time::Duration;

use codebutler_crds::Thread;
use codebutler_crds::thread::{RoleState, ThreadState};
use serde::{Deserialize, Serialize};

use codebutler_testbed::scenario::{ObservedWorld, SeenMessage};

/// Name of the person on the chat.
pub(super) const NAME: &str = "ana";
/// Most nudges: times that a team at rest is told to go on.
const NUDGES: u32 = 2;
/// Message to a team that waits or rests: it does not help, and does not say what is wrong.
pub(super) const NUDGE: &str = "I know no more than what I wrote. Please go on as you think best, until there is a pull request.";

/// The next action of the simulated person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PersonMove {
    /// Waits and does nothing.
    Wait,
    /// Clicks a button of a message.
    Click {
        /// Message that has the button.
        message: SeenMessage,
        button: String,
        /// Kind of the agreement.
        what: AgreedTo,
    },
    /// Writes [`NUDGE`] into the conversation.
    Nudge,
    /// Ends the conversation with this outcome.
    End(ConversationEnd),
}

/// The kinds of things that the person agrees to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgreedTo {
    /// A plan that the team proposes.
    Plan,
    /// An action that needs consent.
    Action,
    /// The first of several answers to a question.
    Choice,
}

/// The end of a conversation, as far as a bench is concerned with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConversationEnd {
    /// A role asked whether to merge.
    MergeQuestion,
    /// There is a pull request and everybody rests.
    PullRequest,
    /// Everybody rests without one, whatever is said.
    Stalled,
    /// The budget has been spent.
    Budget,
    /// The time limit has been reached.
    Late,
    /// The conversation was closed.
    Closed,
}

/// The person's messages, clicks and nudges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PersonEffort {
    /// Messages: the issue, and each push.
    pub messages: u32,
    /// Plans that were agreed to.
    pub plans: u32,
    /// Actions that were agreed to.
    pub actions: u32,
    /// Questions with answers to choose from.
    pub choices: u32,
    /// Pushes: messages that a good team needs none of.
    pub nudges: u32,
}

impl PersonEffort {
    /// Counts a move of the person.
    pub(super) fn add(&mut self, next: &PersonMove) {
        match next {
            PersonMove::Click { what: AgreedTo::Plan, .. } => self.plans += 1,
            PersonMove::Click { what: AgreedTo::Action, .. } => self.actions += 1,
            PersonMove::Click { what: AgreedTo::Choice, .. } => self.choices += 1,
            PersonMove::Nudge => {
                self.nudges += 1;
                self.messages += 1;
            }
            PersonMove::Wait | PersonMove::End(_) => {}
        }
    }
}

/// True if no role runs and none has unread messages or pending work.
#[must_use]
pub(super) fn is_quiet(seen: &ObservedWorld) -> bool {
    let Some(thread) = seen_thread(seen) else { return false };
    let status = thread.status.unwrap_or_default();
    !status.roles.is_empty()
        && status.pending.is_empty()
        && status.roles.values().all(|r| r.state != Some(RoleState::Running) && !r.has_mail())
}

fn seen_thread(seen: &ObservedWorld) -> Option<Thread> {
    serde_json::from_value(seen.threads.first()?.clone()).ok()
}

/// The next move. `quiet`: for how long nobody has done anything.
#[must_use]
pub(super) fn decide_move(
    seen: &ObservedWorld,
    effort: &PersonEffort,
    quiet: Duration,
    patience: Duration,
) -> PersonMove {
    if let Some(next) = seen.messages.iter().rev().find_map(asked_move) {
        return next;
    }
    let Some(thread) = seen_thread(seen) else { return PersonMove::Wait };
    if thread.spec.state == ThreadState::Closed {
        return PersonMove::End(ConversationEnd::Closed);
    }
    let budget = thread.status.and_then(|status| status.budget).unwrap_or_default();
    if budget.ask.is_some() {
        return PersonMove::End(ConversationEnd::Budget);
    }
    match (quiet >= patience, seen.pull_requests.is_empty()) {
        (false, _) => PersonMove::Wait,
        (true, false) => PersonMove::End(ConversationEnd::PullRequest),
        (true, true) if effort.nudges < NUDGES => PersonMove::Nudge,
        (true, true) => PersonMove::End(ConversationEnd::Stalled),
    }
}

fn asked_move(message: &SeenMessage) -> Option<PersonMove> {
    let has = |text: &str| message.buttons.iter().any(|button| button == text);
    if has("Merge") {
        return Some(PersonMove::End(ConversationEnd::MergeQuestion));
    }
    let what = match () {
        () if has("Approve") && has("Modify") => AgreedTo::Plan,
        () if has("Approve") => AgreedTo::Action,
        () if message.from == "codebutler" => return None,
        () => AgreedTo::Choice,
    };
    let first = message.buttons.first()?;
    let button = if has("Approve") { "Approve".to_owned() } else { first.clone() };
    Some(PersonMove::Click { message: message.clone(), button, what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_testbed::github::{PullRequest, PullState};
    use serde_json::{Value, json};

    const PATIENCE: Duration = Duration::from_secs(5);

    fn seen(buttons: &[&str], status: &Value) -> ObservedWorld {
        let message = SeenMessage {
            from: "pm".to_owned(),
            buttons: buttons.iter().map(|b| (*b).to_owned()).collect(),
            ..SeenMessage::default()
        };
        let thread = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "a", "slack": {"channel": "C1", "ts": "1.000001"}}, "status": status,
        });
        ObservedWorld { messages: vec![message], threads: vec![thread], ..ObservedWorld::default() }
    }

    fn resting() -> Value {
        json!({"roles": {"pm": {"state": "Idle", "inbox": "1.000001", "done": "1.000001"}}})
    }

    fn next(seen: &ObservedWorld, nudges: u32, quiet: u64) -> PersonMove {
        let effort = PersonEffort { nudges, ..PersonEffort::default() };
        decide_move(seen, &effort, Duration::from_secs(quiet), PATIENCE)
    }

    #[test]
    fn it_agrees_to_what_is_asked() {
        for (buttons, expected) in [
            (vec!["Approve", "Modify", "Reject"], Some((AgreedTo::Plan, "Approve"))),
            (vec!["Approve", "Deny"], Some((AgreedTo::Action, "Approve"))),
            (vec!["Red", "Blue"], Some((AgreedTo::Choice, "Red"))),
            (vec![], None),
        ] {
            let found = match next(&seen(&buttons, &resting()), 0, 0) {
                PersonMove::Click { button, what, .. } => Some((what, button)),
                _ => None,
            };
            assert_eq!(found.as_ref().map(|(what, b)| (*what, b.as_str())), expected);
        }
    }

    #[test]
    fn it_ends_where_a_bench_has_seen_enough() {
        let merge = seen(&["Merge", "Hold"], &resting());
        assert_eq!(next(&merge, 0, 0), PersonMove::End(ConversationEnd::MergeQuestion));
        let mut pulled = seen(&[], &resting());
        pulled.pull_requests = vec![PullRequest {
            number: 1,
            title: String::new(),
            body: String::new(),
            state: PullState::Open,
            head: String::new(),
            head_sha: String::new(),
            base: String::new(),
            merge_commit: None,
            comments: Vec::new(),
            reviews: Vec::new(),
            lines: Vec::new(),
        }];
        assert_eq!(next(&pulled, 0, 1), PersonMove::Wait);
        assert_eq!(next(&pulled, 0, 9), PersonMove::End(ConversationEnd::PullRequest));
    }

    #[test]
    fn it_pushes_twice() {
        let stuck = seen(&[], &resting());
        assert!(is_quiet(&stuck));
        assert_eq!(next(&stuck, 0, 1), PersonMove::Wait);
        assert_eq!(next(&stuck, 0, 9), PersonMove::Nudge);
        assert_eq!(next(&stuck, 1, 9), PersonMove::Nudge);
        assert_eq!(next(&stuck, 2, 9), PersonMove::End(ConversationEnd::Stalled));
        let busy = json!({"roles": {"pm": {"state": "Running"}}});
        assert!(!is_quiet(&seen(&[], &busy)));
        let mail =
            json!({"roles": {"pm": {"state": "Idle", "inbox": "2.000001", "done": "1.000001"}}});
        assert!(!is_quiet(&seen(&[], &mail)));
    }
}
