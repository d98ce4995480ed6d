//! Several pull requests that are merged one behind the other, tested together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;

/// Pull requests of one merge train at most.
pub const MOST_CARS: usize = 50;

/// Merge train that a person asked for in this conversation, of everything that is ready. (Gateway.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergeTrain {
    /// The newest message that wants it.
    pub wanted: SlackTs,
    /// Slack user id of the person who wrote it.
    #[schemars(length(max = 64))]
    pub by: String,
    /// The message among those that was dealt with last: people were asked and have answered, or there was
    /// nothing to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<SlackTs>,
    /// Latest proposal that people were asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<TrainProposal>,
    /// Slack user id of the person who approved: the merges are theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub approved_by: Option<String>,
    /// Pull requests that people approved, in the order of merging.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub cars: Vec<TrainCar>,
    /// Number of the remaining pull requests that are tried together next; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Number of the remaining pull requests that failed together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspects: Option<u32>,
    /// Trees on which checks have failed, by Git's ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200), inner(length(max = 64)))]
    pub failed: Vec<String>,
    /// GitHub tests nothing that is pushed for a train: what a Thread's own role has tested counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untested: bool,
    /// Number of rounds of tests so far.
    #[serde(default)]
    pub rounds: u32,
    /// Round that is tested or merged right now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<TrainRound>,
    /// Reason why nothing is merged any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<TrainEnd>,
    /// More about that, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub reason: Option<String>,
}

/// Pull requests that people are asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainProposal {
    /// `ts` of the message that asks.
    pub ts: SlackTs,
    /// Pull requests that the message shows, in the order of merging.
    #[schemars(length(max = 50))]
    pub cars: Vec<TrainCar>,
    /// True if people don't want them merged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
}

/// One pull request of a merge train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainCar {
    /// Name of the Thread of the pull request.
    #[schemars(length(max = 50))]
    pub thread: String,
    /// Number of the pull request at GitHub.
    pub number: u64,
    /// The commit that people approved: nothing else is merged.
    #[schemars(length(max = 64))]
    pub head: String,
    /// True once its Thread knows that it is merged here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coupled: bool,
    /// The commit on the base branch, once merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub merged: Option<String>,
    /// True if somebody else's commit came in between: the base branch got another tree than the tested one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overtaken: bool,
    /// Reason for which it was left out, for people. Its branch stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub left_out: Option<String>,
    /// True once its Thread knows that it was left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told: bool,
}

/// Pull requests that are tested together, as one commit on top of the base branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainRound {
    /// The branch that is pushed for the tests.
    #[schemars(length(max = 200))]
    pub branch: String,
    /// Id of the commit that `branch` is at.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// The base branch's commit below.
    #[schemars(length(max = 64))]
    pub base: String,
    /// Id of that commit's tree.
    #[schemars(length(max = 64))]
    pub base_tree: String,
    /// The pull requests, each with the tree that the base branch has to have once it is merged. The last
    /// one is the tree that is tested.
    #[schemars(length(max = 50))]
    pub steps: Vec<TrainStep>,
    /// Time at which the branch was pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed: Option<Time>,
    /// True once its tests have passed: it is merged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passed: bool,
}

/// One merge of a round of tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainStep {
    /// The pull request's number.
    pub number: u64,
    /// Id of the tree that it leads to.
    #[schemars(length(max = 64))]
    pub tree: String,
}

/// Reason for which a merge train ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrainEnd {
    /// Each pull request was merged or left out.
    Done,
    /// A person told it to stop.
    Stopped,
    /// The train can't go on until somebody does something.
    Failed,
}

impl MergeTrain {
    /// A wish that nobody has dealt with.
    #[must_use]
    pub fn wanted(ts: SlackTs, by: &str) -> Self {
        Self {
            wanted: ts,
            by: by.to_owned(),
            answered: None,
            proposal: None,
            approved_by: None,
            cars: Vec::new(),
            limit: None,
            suspects: None,
            failed: Vec::new(),
            untested: false,
            rounds: 0,
            round: None,
            ended: None,
            reason: None,
        }
    }

    /// True while pull requests are being merged.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        self.approved_by.is_some() && self.ended.is_none()
    }

    /// The question that people can answer.
    #[must_use]
    pub fn open_question(&self) -> Option<&TrainProposal> {
        let is_open = self.approved_by.is_none() && self.ended.is_none();
        self.proposal.as_ref().filter(|asked| is_open && !asked.declined)
    }

    /// Pull requests of which nothing is decided yet, in order.
    pub fn left(&self) -> impl Iterator<Item = &TrainCar> {
        self.cars.iter().filter(|car| car.is_left())
    }

    /// True if a Thread's pull request waits for its turn here.
    #[must_use]
    pub fn holds(&self, thread: &str) -> bool {
        self.approved_by.is_some()
            && self.cars.iter().any(|car| car.thread == thread && car.is_here())
    }
}

impl TrainCar {
    /// A pull request that is ready at this commit.
    #[must_use]
    pub fn ready(thread: &str, number: u64, head: &str) -> Self {
        Self {
            thread: thread.to_owned(),
            number,
            head: head.to_owned(),
            coupled: false,
            merged: None,
            overtaken: false,
            left_out: None,
            told: false,
        }
    }

    /// Neither merged nor left out.
    #[must_use]
    pub const fn is_left(&self) -> bool {
        self.merged.is_none() && self.left_out.is_none()
    }

    /// True until its Thread has been let go.
    #[must_use]
    pub const fn is_here(&self) -> bool {
        self.is_left() || (self.left_out.is_some() && !self.told)
    }
}
