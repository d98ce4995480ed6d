//! A request that is built in several parts, each a Thread with a pull request of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;

/// A role proposed to build a request in parts. (Gateway.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestSplit {
    /// The message that asks people.
    pub asked: SlackTs,
    /// The role that proposed it.
    #[schemars(length(max = 32))]
    pub role: String,
    /// Parts in order; each is known by its number, from 1.
    #[schemars(length(max = 10))]
    pub parts: Vec<RequestPart>,
    /// True if people want it built as one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    /// Slack user id of the person who said yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub approved_by: Option<String>,
    /// Parts that were merged while another one, in another repository, was not: what people were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub halves: Vec<LandedHalf>,
    /// Reason why no more parts are started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<SplitEnd>,
}

/// One part of a request that was split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestPart {
    /// Title of the part, one line.
    #[schemars(length(min = 1, max = 80))]
    pub title: String,
    /// Request of the part, in words.
    #[schemars(length(min = 1, max = 2000))]
    pub request: String,
    /// The Repo in which it is built; the Thread's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub repo: Option<String>,
    /// Numbers of parts that come before it. Of the same Repo: they are merged before it begins. Of another
    /// one: it begins at once and is merged after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub after: Vec<u32>,
    /// True once its pull request says what it depends on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub linked: bool,
}

/// A part that was merged while another one was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LandedHalf {
    /// Number of the part, from 1.
    pub part: u32,
    /// The message that asks what becomes of it.
    pub asked: SlackTs,
    /// True if the part is to be taken back, false if it stays; absent until somebody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<bool>,
    /// Slack user id of the person who said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub by: Option<String>,
}

/// Reason why no part is started any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SplitEnd {
    /// Each part was merged, or will not be.
    Done,
    /// A person told it to stop.
    Stopped,
}

impl RequestSplit {
    /// True while parts are being built.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        self.approved_by.is_some() && self.ended.is_none()
    }

    /// True while people are asked whether to split.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.approved_by.is_none() && self.ended.is_none() && !self.declined
    }

    /// True while people are asked what becomes of a part that was merged without the others.
    #[must_use]
    pub fn asks_to_take_back(&self) -> bool {
        self.halves.iter().any(|half| half.undo.is_none())
    }

    /// The part of a number, counted from 1.
    #[must_use]
    pub fn part(&self, number: u32) -> Option<&RequestPart> {
        self.parts.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The parts with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &RequestPart)> {
        (1..).zip(&self.parts)
    }
}
