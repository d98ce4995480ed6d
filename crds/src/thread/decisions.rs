//! Questions to people about a Thread's work, their answers, and proofs of the work.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use codebutler_wire::{NanoUsd, PlanComplexity};

use crate::SlackTs;
use crate::spelling::{SpelledWord, optional_word, word};

/// Maximum number of things that one message offers.
pub const MOST_OFFERED: usize = 10;

/// A question whose message does not show yet that it is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettledQuestion {
    /// The message with the buttons.
    pub ts: SlackTs,
    /// The option that was chosen; absent if a newer question replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub choice: Option<String>,
    /// Slack user id of the person who chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub user: Option<String>,
}

/// One action that people were asked about: a yes is for exactly what the hash stands for, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionApproval {
    /// Identity of the question: role and the request's own key.
    #[schemars(length(min = 1, max = 88))]
    pub id: String,
    /// Role that wants to act.
    pub role: String,
    /// The tool, or `Push` or `PullRequest`.
    #[schemars(length(max = 64))]
    pub tool: String,
    /// SHA-256 of the exact action, in hex.
    #[schemars(length(max = 64))]
    pub hash: String,
    /// `ts` of the message that asks.
    pub ts: SlackTs,
    /// Deadline after which nobody's yes counts any more.
    pub expires: Time,
    /// The answer, once there is one.
    #[serde(default, with = "optional_word", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SpelledWord<ApprovalAnswer>>")]
    pub answer: Option<ApprovalAnswer>,
    /// Slack user id of the person who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub by: Option<String>,
    /// The message that answered, if it was said in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<SlackTs>,
    /// The role has the answer. It was for one action: a second one needs a new yes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub used: bool,
    /// SHA-256 of the words that were shown, in hex, where a yes can be for the whole thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub words: Option<String>,
    /// True if nobody was asked: a [`StandingApproval`] answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standing: bool,
}

/// A yes to the same words of a command for the rest of a Thread. The words themselves stand in the
/// message that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingApproval {
    /// SHA-256 of tool and words, in hex.
    #[schemars(length(min = 1, max = 64))]
    pub words: String,
    /// Tool that is approved.
    #[schemars(length(max = 64))]
    pub tool: String,
    /// The message that showed the words.
    pub ts: SlackTs,
    /// Slack user id of the person who said so.
    #[schemars(length(max = 64))]
    pub by: String,
    /// Time of the approval.
    pub at: Time,
}

/// Outcome of a question about an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalAnswer {
    /// A person allowed the action.
    Approved,
    /// A person refused the action.
    Denied,
    /// Nobody answered in time: neither a yes nor a no.
    Expired,
}

/// The transcript of a recording, while its speaker may correct it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeardRecording {
    /// The message that shows it.
    pub ts: SlackTs,
    /// The person whose next message corrects it.
    pub user: String,
    /// A correction was announced.
    #[serde(default)]
    pub corrected: bool,
}

/// A recording that is being written down: somebody pays for it already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BegunRecording {
    /// Slack's id of the recording's file.
    #[schemars(length(max = 64))]
    pub file: String,
    /// Time at which transcription began.
    pub since: Time,
    /// Last time at which the gateway that transcribes it said so. One that says nothing for long is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed: Option<Time>,
    /// Its words are known, and could not be shown in the thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heard: bool,
}

/// A message with buttons of a role's own making.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleOffer {
    /// The message that shows it.
    pub ts: SlackTs,
    /// Role that asks people.
    pub role: String,
    /// Kind of the question.
    #[serde(with = "word")]
    #[schemars(with = "SpelledWord<OfferKind>")]
    pub kind: OfferKind,
    /// Number of items to choose from or to judge.
    #[schemars(range(min = 1, max = MOST_OFFERED))]
    pub of: u32,
    /// Slack user id of the only person who may answer; everybody who may if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub only: Option<String>,
    /// True if nobody waits for an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// People's answers so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_OFFERED))]
    pub answers: Vec<OfferAnswer>,
}

impl RoleOffer {
    /// True if somebody waits for people's answer.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.optional && self.has_buttons()
    }

    /// True if people can still answer.
    #[must_use]
    pub fn has_buttons(&self) -> bool {
        match self.kind {
            OfferKind::Choice => self.answers.is_empty(),
            OfferKind::Learnings => self.answers.len() < self.of as usize,
        }
    }
}

/// Kind of question that an offer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OfferKind {
    /// A choice of one among several answers.
    Choice,
    /// A judgement of each learning: it is kept or not.
    Learnings,
}

/// One answer to an offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferAnswer {
    /// Number of the item, from 1.
    pub item: u32,
    /// Chosen or approved; false: rejected.
    pub yes: bool,
    /// Slack user id of the person who answered.
    #[schemars(length(max = 64))]
    pub by: String,
}

/// Details that a plan states about itself. They count once that plan is approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDetails {
    /// The message that shows the plan.
    pub plan: SlackTs,
    /// The command line whose success proves what the plan promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub test: Option<String>,
    /// Complexity of the work: decides which of a role's models does it.
    #[serde(default, with = "optional_word", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SpelledWord<PlanComplexity>>")]
    pub complexity: Option<PlanComplexity>,
    /// Files and folders that the work will change, relative to the root: by them threads are warned
    /// that get in each other's way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 24), inner(length(min = 1, max = 120)))]
    pub files: Vec<String>,
    /// Estimate of cost and duration, as people were told with the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<PlanEstimate>,
}

/// Median cost and duration of work like that of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanEstimate {
    /// Median cost, in USD.
    pub cost: NanoUsd,
    /// Median duration from the plan to the question whether to merge, in minutes.
    pub minutes: u32,
    /// Number of conversations that the estimate is based on.
    pub of: u32,
}

/// A test run that a role's harness saw, of exactly the files of a commit that is on the remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestReceipt {
    /// Id of the commit that was tested.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// Command line that was run.
    #[schemars(length(min = 1, max = 200))]
    pub command: String,
    /// Exit code of the command.
    pub exit_code: i32,
    /// Role that ran the command.
    pub role: String,
}

/// People's permissions for images in a Thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadImages {
    /// Slack user id of the person who has allowed the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub allowed_by: Option<String>,
    /// Paths at which a chosen image may be committed, beside those of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 120)))]
    pub paths: Vec<String>,
}

/// Decision on how a thread is to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadClosing {
    /// The message that asked, or the user's message that said it.
    pub ts: SlackTs,
    /// The role that acts on the answer.
    pub role: String,
    /// The user's answer, once given.
    #[serde(default, with = "optional_word", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SpelledWord<ClosingChoice>>")]
    pub choice: Option<ClosingChoice>,
    /// Slack user id of the person who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Head commit of the pull request when it was asked: nothing else is merged on this answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Reason for which the merge waits, if GitHub did not do it at once. The gateway goes on by itself.
    #[serde(default, with = "optional_word", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SpelledWord<MergeWait>>")]
    pub waits: Option<MergeWait>,
}

/// Reason for which a merge can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MergeWait {
    /// Required checks that have not reported yet.
    Checks,
    /// GitHub merges it: its merge queue, or as soon as all requirements are met.
    Queue,
    /// The pull request's turn in a merge train.
    Train,
    /// Pull requests that come before it.
    Depends,
}

/// The ways a thread can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ClosingChoice {
    /// The pull request is to be merged.
    Merge,
    /// The pull request is to be closed without a merge.
    Discard,
}
