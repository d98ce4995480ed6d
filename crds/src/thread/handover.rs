//! Hand-overs from one role to another that no message alone shows: decisions made without a model, and what people
//! and roles said before them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;
use crate::spelling::{SpelledWord, word};

/// A decision about who goes on, made from the facts and not by a model. It is kept until the
/// conversation was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// Idempotency key: the hand-over is told once.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// Role that goes on; the people if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub role: Option<String>,
    /// Role whose work it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub from: Option<String>,
    /// The other role, where it is about two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub with: Option<String>,
    /// Reason for the hand-over.
    #[serde(with = "word")]
    #[schemars(with = "SpelledWord<HandOverReason>")]
    pub why: HandOverReason,
    /// `ts` of messages that say more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub views: Vec<SlackTs>,
}

/// Reason for which somebody goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HandOverReason {
    /// A user approved the plan; the role has the decision already.
    Approved,
    /// The plan is approved, and nobody works on it.
    PlanWaits,
    /// The pull request was not reviewed.
    NotReviewed,
    /// The review found nothing that has to change.
    ReviewPassed,
    /// The review found something.
    ReviewFound,
    /// The role had asked, and the answer is there.
    Answered,
    /// The role was addressed together with another one, which is done.
    AlsoAddressed,
    /// Two roles go back and forth without an end.
    Rounds,
    /// The work is done and reviewed, and nobody asked whether it is to be merged.
    NotClosed,
    /// The role that carries out the plan has stopped without a pull request.
    NoPullRequest,
}

/// A role that was addressed in second place: its turn comes when the others are done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedRole {
    /// Short name of the addressed role.
    #[schemars(length(max = 16))]
    pub role: String,
    /// Role that addressed it.
    #[schemars(length(max = 16))]
    pub from: String,
    /// `ts` of the message that addressed it.
    pub ts: SlackTs,
}

/// Roles that one role asked at the same time: it goes on once, when all have answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JointQuestion {
    /// Role that asked the others.
    #[schemars(length(max = 16))]
    pub by: String,
    /// `ts` of the message that asked.
    pub ts: SlackTs,
    /// Roles whose run about it has not ended yet.
    #[schemars(length(max = 8), inner(length(max = 16)))]
    pub awaited: Vec<String>,
    /// The newest answer so far: it wakes who asked when the last one is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<SlackTs>,
}

/// A person's message that names nobody, and is for another role than the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutedReply {
    /// `ts` of the person's message.
    pub ts: SlackTs,
    /// Role that the message is for.
    #[schemars(length(max = 16))]
    pub role: String,
}

/// Two roles that hand work to each other, and nobody else, since a person last spoke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoverRounds {
    /// Role that handed over last.
    #[schemars(length(max = 16))]
    pub from: String,
    /// Role that it handed over to.
    #[schemars(length(max = 16))]
    pub to: String,
    /// The message with which it did.
    pub ts: SlackTs,
    /// `ts` of the other role's message before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SlackTs>,
    /// Hand-overs in a row; two are a round.
    pub times: u32,
    /// Number of those in a row whose messages said nothing new.
    #[serde(default, skip_serializing_if = "is_none")]
    pub idle: u32,
}

// Serde's `skip_serializing_if` passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_none(count: &u32) -> bool {
    *count == 0
}
