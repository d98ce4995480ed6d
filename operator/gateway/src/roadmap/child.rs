//! State of an item, read from its Thread. Pure.

use codebutler_crds::thread::{PullState, RoleState, ThreadState};
use codebutler_crds::{SlackTs, Thread};
use codebutler_gateway_core::threads::open_questions;
use sha2::{Digest as _, Sha256};

/// Longest part of a Repo's name in that of an item's Thread.
const REPO: usize = 20;

/// The Thread of an item: by its name it is found again, so that it is made once.
pub fn child_name(repo: &str, parent: &str, item: &str) -> String {
    let hash = hex::encode(&Sha256::digest(parent)[..5]);
    let repo: String = repo.chars().take(REPO).collect();
    format!("{}-{item}-{hash}", repo.trim_end_matches('-'))
}

/// State of the work in a Thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// Roles work on it, or are about to.
    Works,
    /// People are asked whether to merge it.
    Ready(SlackTs),
    /// People are asked something else.
    Asks(SlackTs),
    /// A role has stopped because it could not go on, and nobody else works.
    Failed {
        /// Role whose run failed.
        role: String,
        /// The message that says so.
        mark: SlackTs,
    },
    /// Nobody works, nobody is asked, and nothing was merged.
    Rests(SlackTs),
    /// The work is merged.
    Merged,
    /// The Thread was closed without a merge.
    Dropped,
}

impl ChildState {
    pub fn of(thread: &Thread) -> Self {
        let empty = codebutler_crds::ThreadStatus::default();
        let status = thread.status.as_ref().unwrap_or(&empty);
        let pull = status.pull_request.as_ref();
        if pull.is_some_and(|p| p.merge_commit.is_some() || p.state == Some(PullState::Merged)) {
            return Self::Merged;
        }
        if thread.spec.state == ThreadState::Closed || thread.is_going() {
            return Self::Dropped;
        }
        let closing = status.closing.as_ref();
        if closing.is_some_and(|closing| closing.choice.is_some()) {
            return Self::Works;
        }
        // The offer to bring a branch up to date holds up nobody, whatever the answer.
        let offer = status.update_offer.as_ref();
        let asked = open_questions(status).into_iter().filter(|ts| Some(ts) != offer).max();
        let is_busy = |name: &str| status.is_running(name) || status.wants(name);
        let busy = status.roles.keys().any(|name| is_busy(name))
            || !status.handovers.is_empty()
            || !status.queued.is_empty()
            || status.roles.values().any(|role| role.ended);
        if let Some(closing) = closing.filter(|closing| asked.as_ref() == Some(&closing.ts)) {
            return Self::Ready(closing.ts.clone());
        }
        if busy {
            return Self::Works;
        }
        if let Some(asked) = asked {
            return Self::Asks(asked);
        }
        let waits = status.roles.values().any(|role| role.state == Some(RoleState::Waiting));
        if let Some(asked) = status.asked.clone().filter(|_| waits) {
            return Self::Asks(asked);
        }
        let failed = status.roles.iter().find_map(|(name, role)| {
            let failed = role.state == Some(RoleState::Failed);
            Some((name.clone(), role.said.clone().filter(|_| failed)?))
        });
        if let Some((role, mark)) = failed {
            return Self::Failed { role, mark };
        }
        let said = status.roles.values().filter_map(|role| role.said.clone()).max();
        match said {
            Some(said) => Self::Rests(said),
            // No role has said anything yet: the work has only begun.
            None => Self::Works,
        }
    }

    /// True if it takes one of the places that a roadmap has.
    pub const fn takes_place(&self) -> bool {
        matches!(self, Self::Works | Self::Failed { .. })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(spec: &str, status: &Value) -> ChildState {
        let thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "r", "prompt": "p", "state": spec}, "status": status,
        }))
        .unwrap();
        ChildState::of(&thread)
    }

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_short_and_each_parents_own() {
        let parent = "a-repo-with-a-long-name-of-32-ch-1767268700-000100";
        let name = child_name("a-repo-with-a-long-name-of-32-ch", parent, "abcdefghijkl");
        assert!(name.len() <= 20 + 1 + 12 + 1 + 10, "{name}");
        assert_ne!(name, child_name("a-repo-with-a-long-name-of-32-ch", "other", "abcdefghijkl"));
        assert_eq!(child_name("shop", "p", "3"), child_name("shop", "p", "3"));
    }

    #[test]
    fn a_thread_says_how_its_item_stands() {
        let pull = |state: &str| json!({"number": 1, "url": "u", "state": state});
        let plan = json!({"ts": "5.000000", "hash": "aa", "role": "pm"});
        let closing = json!({"ts": "6.000000", "role": "lead"});
        let idle = |state: &str| json!({"pm": {"inbox": "2.000000", "done": "2.000000", "state": state, "said": "4.000000"}});
        for (status, expected) in [
            (json!({}), ChildState::Works),
            (json!({"roles": {"pm": {"inbox": "2.000000"}}}), ChildState::Works),
            (json!({"roles": idle("Idle")}), ChildState::Rests(ts("4.000000"))),
            (
                json!({"roles": idle("Failed")}),
                ChildState::Failed { role: "pm".into(), mark: ts("4.000000") },
            ),
            (json!({"plan": plan, "roles": idle("Waiting")}), ChildState::Asks(ts("5.000000"))),
            (
                json!({"asked": "4.000000", "roles": idle("Waiting")}),
                ChildState::Asks(ts("4.000000")),
            ),
            (json!({"plan": plan, "roles": idle("Running")}), ChildState::Works),
            (
                json!({"closing": closing, "roles": idle("Running")}),
                ChildState::Ready(ts("6.000000")),
            ),
            (
                json!({"closing": closing, "roles": idle("Waiting")}),
                ChildState::Ready(ts("6.000000")),
            ),
            (
                json!({"closing": closing, "updateOffer": "7.000000", "roles": idle("Idle")}),
                ChildState::Ready(ts("6.000000")),
            ),
            (
                json!({"updateOffer": "7.000000", "roles": idle("Failed")}),
                ChildState::Failed { role: "pm".into(), mark: ts("4.000000") },
            ),
            (json!({"pullRequest": pull("merged")}), ChildState::Merged),
            (
                json!({"pullRequest": pull("closed"), "roles": idle("Idle")}),
                ChildState::Rests(ts("4.000000")),
            ),
        ] {
            assert_eq!(state("Active", &status), expected, "{status}");
        }
        assert_eq!(state("Closed", &json!({})), ChildState::Dropped);
        assert_eq!(state("Closed", &json!({"pullRequest": pull("merged")})), ChildState::Merged);
    }
}
