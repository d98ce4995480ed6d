//! A roadmap that is carried out from a Thread's conversation: what people approved of it, and what became of
//! tries. What runs is not here: each item is a Thread, found by its name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unset::is_zero;
use crate::{NanoUsd, SlackTs};

/// Run of the roadmap that a person asked for in this conversation. (Gateway.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoadmapRun {
    /// The newest message that wants it.
    pub wanted: SlackTs,
    /// Slack user id of the person who wrote it.
    #[schemars(length(max = 64))]
    pub by: String,
    /// The message among those that was dealt with last: people were asked and have answered, or there was
    /// nothing to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<SlackTs>,
    /// USD that all of its Threads may cost together. The Repo's own limits alone hold if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NanoUsd>,
    /// Latest proposal that people were asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<RoadmapProposal>,
    /// Slack user id of the person who approved last: plans within an item's criteria count as approved by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub approved_by: Option<String>,
    /// Time of the first approval: of two runs of a Repo the earlier one starts items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Time>,
    /// Items that people approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub items: Vec<ApprovedItem>,
    /// Reason why nothing is started any more.
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
    /// `ts` of the message that asks.
    pub ts: SlackTs,
    /// Items that the message shows.
    #[schemars(length(max = 500))]
    pub items: Vec<ApprovedItem>,
    /// There are others, which are asked about after these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// True if people don't want the items.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
}

/// An item as somebody approved it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedItem {
    /// Id of the item in the file.
    #[schemars(length(min = 1, max = 12))]
    pub id: String,
    /// Stands for title, acceptance criteria and notes: changed, it is another item.
    #[schemars(length(min = 1, max = 64))]
    pub hash: String,
    /// Number of times that its Thread was told to try again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// The message with which its Thread had failed when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<SlackTs>,
}

/// Reason for which a roadmap's run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RoadmapEnd {
    /// Everything that was approved is merged.
    Done,
    /// A person told it to stop.
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

    /// True if items may be started.
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
        // Until a new yes, the approved items are those of a run that was stopped.
        let approved = |item: &ApprovedItem| {
            self.approved_by.is_some() && self.items.iter().any(|own| same(own, item))
        };
        !asked.declined && !asked.items.iter().all(approved)
    }
}
