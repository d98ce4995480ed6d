//! Items beside messages that wait for a role: decisions of people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;

/// An item for a role that Slack's message history does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingItem {
    /// Dedup key: derived from the Slack payload, the same on redelivery.
    #[schemars(length(min = 1, max = 100))]
    pub id: String,
    /// The role that is to take it.
    pub role: String,
    /// A decision's kind and the choice made, such as `plan` and `approve`.
    pub kind: String,
    /// The choice; its words depend on `kind`.
    pub choice: String,
    /// Slack user id of who decided.
    pub user: String,
    /// The message it refers to.
    pub message: SlackTs,
}

/// A decision of people: the one meaning of `kind` and `choice` of a [`PendingItem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDecision {
    /// A person wants every run ended.
    Stop,
    /// Decision on the role's plan.
    Plan(PlanChoice),
    /// Decision on the pull request.
    Merge(MergeChoice),
    /// A limit has given way: it was raised, or its time is over.
    Budget {
        /// True if somebody raised the budget.
        raised: bool,
    },
    /// Decision on whether one action may happen.
    Action(ActionChoice),
    /// Number of the answer that was chosen among several, from 1.
    Choice(u32),
    /// The branch is to be brought up to date with the base branch.
    Update,
    /// The request is not built in parts.
    KeepWhole,
    /// Decision on whether a learning is kept.
    Learning {
        /// Number of the learning, from 1.
        item: u32,
        /// True if it is kept, false if not.
        approved: bool,
    },
    /// A learning is kept in a person's own words, which the message says in which it was decided.
    LearningEdited {
        /// Number of the learning, from 1.
        item: u32,
    },
}

/// Decision on a role's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanChoice {
    /// The plan is carried out as it is.
    Approve,
    /// The plan is to be changed; how is said next.
    Modify,
    /// The plan is not wanted.
    Reject,
}

/// Decision on a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeChoice {
    /// The pull request is merged.
    Merge,
    /// The pull request is not merged yet.
    Hold,
    /// The thread is closed without merging.
    Discard,
}

/// Outcome of a question about one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionChoice {
    /// A person allowed the action.
    Approved,
    /// A person refused the action.
    Denied,
    /// Nobody answered before the deadline.
    Expired,
}

impl PendingDecision {
    /// The words of [`PendingItem::kind`] and [`PendingItem::choice`] for this decision.
    #[must_use]
    pub fn to_words(self) -> (&'static str, String) {
        let (kind, choice) = match self {
            Self::Stop => ("stop", "stop"),
            Self::Update => ("update", "update"),
            Self::KeepWhole => ("split", "whole"),
            Self::Plan(PlanChoice::Approve) => ("plan", "approve"),
            Self::Plan(PlanChoice::Modify) => ("plan", "modify"),
            Self::Plan(PlanChoice::Reject) => ("plan", "reject"),
            Self::Merge(MergeChoice::Merge) => ("merge", "merge"),
            Self::Merge(MergeChoice::Hold) => ("merge", "hold"),
            Self::Merge(MergeChoice::Discard) => ("merge", "discard"),
            Self::Budget { raised: true } => ("budget", "raise"),
            Self::Budget { raised: false } => ("budget", "continue"),
            Self::Action(ActionChoice::Approved) => ("approval", "approved"),
            Self::Action(ActionChoice::Denied) => ("approval", "denied"),
            Self::Action(ActionChoice::Expired) => ("approval", "expired"),
            Self::Choice(item) => return ("choice", item.to_string()),
            Self::Learning { item, approved } => {
                let word = if approved { "approve" } else { "reject" };
                return ("learning", format!("{word} {item}"));
            }
            Self::LearningEdited { item } => return ("learning", format!("edit {item}")),
        };
        (kind, choice.to_owned())
    }

    fn from_words(kind: &str, choice: &str) -> Option<Self> {
        let learning = || {
            let (word, item) = choice.split_once(' ')?;
            let item = item.parse().ok()?;
            Some(match word {
                "edit" => Self::LearningEdited { item },
                word => Self::Learning { item, approved: word == "approve" },
            })
        };
        let decision = match (kind, choice) {
            ("stop", _) => Self::Stop,
            ("update", "update") => Self::Update,
            ("split", "whole") => Self::KeepWhole,
            ("plan", "approve") => Self::Plan(PlanChoice::Approve),
            ("plan", "modify") => Self::Plan(PlanChoice::Modify),
            ("plan", "reject") => Self::Plan(PlanChoice::Reject),
            ("merge", "merge") => Self::Merge(MergeChoice::Merge),
            ("merge", "hold") => Self::Merge(MergeChoice::Hold),
            ("merge", "discard") => Self::Merge(MergeChoice::Discard),
            ("budget", choice) => Self::Budget { raised: choice == "raise" },
            ("approval", "approved") => Self::Action(ActionChoice::Approved),
            ("approval", "denied") => Self::Action(ActionChoice::Denied),
            ("approval", "expired") => Self::Action(ActionChoice::Expired),
            ("choice", item) => Self::Choice(item.parse().ok()?),
            ("learning", _) => learning()?,
            _ => return None,
        };
        Some(decision)
    }
}

impl PendingItem {
    /// Makes an item from a decision for a role.
    #[must_use]
    pub fn new(
        id: String,
        role: &str,
        decision: PendingDecision,
        user: &str,
        message: &SlackTs,
    ) -> Self {
        let (kind, choice) = decision.to_words();
        Self {
            id,
            role: role.to_owned(),
            kind: kind.to_owned(),
            choice,
            user: user.to_owned(),
            message: message.clone(),
        }
    }

    /// Parses the decision; nothing if it is of a version that knows more kinds.
    #[must_use]
    pub fn decision(&self) -> Option<PendingDecision> {
        PendingDecision::from_words(&self.kind, &self.choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_is_read_as_it_is_written() {
        let plan = [PlanChoice::Approve, PlanChoice::Modify, PlanChoice::Reject];
        let merge = [MergeChoice::Merge, MergeChoice::Hold, MergeChoice::Discard];
        let action = [ActionChoice::Approved, ActionChoice::Denied, ActionChoice::Expired];
        let all = [PendingDecision::Stop, PendingDecision::Update, PendingDecision::KeepWhole]
            .into_iter();
        let all = all.chain([PendingDecision::Choice(3)]);
        let all = all.chain(plan.map(PendingDecision::Plan));
        let all = all.chain(merge.map(PendingDecision::Merge));
        let all = all.chain(action.map(PendingDecision::Action));
        let all = all.chain([true, false].map(|raised| PendingDecision::Budget { raised }));
        let learning = |approved| PendingDecision::Learning { item: 10, approved };
        for decision in all.chain([true, false].map(learning)) {
            let (kind, choice) = decision.to_words();
            assert_eq!(
                PendingDecision::from_words(kind, &choice),
                Some(decision),
                "{kind} {choice}"
            );
        }
        for (kind, choice) in
            [("poll", "yes"), ("choice", "x"), ("learning", "approve"), ("plan", "")]
        {
            assert_eq!(PendingDecision::from_words(kind, choice), None, "{kind} {choice}");
        }
    }
}
