//! Comparison of a Thread's branch with those of the Repo's other open Threads, and with the base branch.

use codebutler_wire::{ChangeSize, TextMerge};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unset::is_zero;

/// Meetings that are kept of a Thread: the gravest ones.
pub const MOST_MEETINGS: usize = 8;
/// Removed commits that are kept of a Thread's branch: the newest ones.
pub const MOST_REMOVED: usize = 64;

/// Result of the latest comparison of a Thread's branch with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchRadar {
    /// Short summary, for `kubectl get threads -o wide`.
    #[schemars(length(max = 200))]
    pub summary: String,
    /// The commit that the branch was at when the remote was looked at last. One that is no longer in it was taken
    /// away by people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(with = "String")]
    pub tip: Option<String>,
    /// A push of a role that is under way, or whose end is not on record yet: what it changes, people have not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushing: Option<BranchPush>,
    /// Commits that people removed from the branch, newest first: no role's push brings them back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub removed: Vec<RemovedCommit>,
    /// Fork point: the commit at which the branch left the base branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkPoint>,
    /// Size of the branch's change.
    pub size: ChangeSize,
    /// Other Threads that change the same files, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub meets: Vec<BranchMeeting>,
    /// Comparison with the base branch, where that has moved past the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseStanding>,
    /// Number of further branches that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
}

/// A push that moves a branch from one commit to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchPush {
    /// The commit before; absent where the push made the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(with = "String")]
    pub from: Option<String>,
    /// Id of the commit after the push.
    #[schemars(length(max = 64))]
    pub to: String,
}

/// A commit that people removed from a Thread's branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedCommit {
    /// Id of the removed commit.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// A digest of its change, by which it is known under another id. Absent where the change stayed on the branch,
    /// is none, or could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(with = "String")]
    pub patch: Option<String>,
    /// The first line of its message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 100))]
    pub subject: String,
    /// Author of the commit, as it says itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 100))]
    pub author: String,
    /// Time at which the removal was noticed.
    pub noticed: Time,
}

/// The newest commit of the base branch that a Thread's branch has. Once it is not on the base branch any more,
/// people took it off there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkPoint {
    /// Name of the base branch.
    #[schemars(length(max = 255))]
    pub base: String,
    /// Id of the fork point's commit.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// Commits of the branch that were taken off the base branch: a merge would put them back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed: u32,
}

/// Another Thread that changes the same files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchMeeting {
    /// Name of the other Thread.
    #[schemars(length(max = 50))]
    pub thread: String,
    /// Result of a textual merge of the two branches.
    pub text: TextMerge,
    /// Result that the conversation was told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<TextMerge>,
}

/// A branch that lacks what its base branch has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseStanding {
    /// Number of the base branch's commits that it lacks.
    pub behind: u64,
    /// Result of a textual merge of the two.
    pub text: TextMerge,
    /// The newest commit that both have.
    #[schemars(length(max = 64))]
    pub left: String,
    /// Result that the conversation was told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<TextMerge>,
}
