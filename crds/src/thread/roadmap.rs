//! A roadmap that is worked off from a Thread's conversation: what people approved of it, and what became of
//! tries. What runs is not here: each item is a Thread, found by its name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NanoUsd, SlackTs};

/// Somebody wants the roadmap worked off from here. (Gateway.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoadmapRun {
    /// The newest message that wants it.
    pub wanted: SlackTs,
    /// Slack user id of who wrote it.
    #[schemars(length(max = 64))]
    pub by: String,
    /// The message among those that was dealt with last: people were asked and have answered, or there was
    /// nothing to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<SlackTs>,
    /// USD that all of its Threads may cost together. The Repo's own limits alone hold if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NanoUsd>,
    /// What people were asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<RoadmapProposal>,
    /// Slack user id of who approved last: plans within an item's criteria count as approved by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub approved_by: Option<String>,
    /// When they did first: of two runs of a Repo the earlier one starts items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Time>,
    /// What was approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub items: Vec<ApprovedItem>,
    /// Why nothing is started any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RoadmapEnd>,
    /// The newest question whether to merge an item that people were told of together with the others. Only grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<SlackTs>,
    /// The day of the last digest, such as `2026-11-22`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10))]
    pub digest: Option<String>,
}

/// Items that people are asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoadmapProposal {
    /// The message that asks.
    pub ts: SlackTs,
    /// What it shows.
    #[schemars(length(max = 500))]
    pub items: Vec<ApprovedItem>,
    /// There are others, which are asked about after these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// They are not wanted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
}

/// An item as somebody approved it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedItem {
    /// Its id in the file.
    #[schemars(length(min = 1, max = 12))]
    pub id: String,
    /// Stands for title, acceptance criteria and notes: changed, it is another item.
    #[schemars(length(min = 1, max = 64))]
    pub hash: String,
    /// How often its Thread was told to try again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// The message with which its Thread had failed when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<SlackTs>,
}

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RoadmapEnd {
    /// All that was approved is merged.
    Done,
    /// Somebody said stop.
    Stopped,
}

impl RoadmapRun {
    /// A wish that nobody has dealt with.
    #[must_use]
    pub fn wanted(ts: SlackTs, by: &str, budget: Option<NanoUsd>) -> Self {
        Self {
            wanted: ts,
            by: by.to_owned(),
            answered: None,
            budget,
            proposal: None,
            approved_by: None,
            approved_at: None,
            items: Vec::new(),
            ended: None,
            told: None,
            digest: None,
        }
    }

    /// Whether items may be started.
    #[must_use]
    pub const fn is_approved(&self) -> bool {
        self.approved_by.is_some() && self.ended.is_none()
    }

    /// The question that people can answer.
    #[must_use]
    pub fn open_question(&self) -> Option<&RoadmapProposal> {
        self.proposal.as_ref().filter(|asked| self.ended.is_none() && self.is_open(asked))
    }

    fn is_open(&self, asked: &RoadmapProposal) -> bool {
        let same =
            |own: &ApprovedItem, item: &ApprovedItem| own.id == item.id && own.hash == item.hash;
        // Before a yes they are those of a run that was stopped.
        let approved = |item: &ApprovedItem| {
            self.approved_by.is_some() && self.items.iter().any(|own| same(own, item))
        };
        !asked.declined && !asked.items.iter().all(approved)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}
