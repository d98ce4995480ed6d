//! How a Thread's branch stands to those of the Repo's other open Threads, and to the base branch.

use codebutler_wire::{ChangeSize, TextMerge};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Meetings that are kept of a Thread: the gravest ones.
pub const MOST_MEETINGS: usize = 8;
/// Removed commits that are kept of a Thread's branch: the newest ones.
pub const MOST_REMOVED: usize = 64;

/// What was seen of a Thread's branch when branches were compared last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchRadar {
    /// In a few words, for `kubectl get threads -o wide`.
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
    /// Where the branch left the base branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkPoint>,
    /// How much the branch changes.
    pub size: ChangeSize,
    /// Other Threads that change the same files, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub meets: Vec<BranchMeeting>,
    /// How the branch stands to the base branch, where that has moved past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseStanding>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
}

/// From where to where a push moves a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchPush {
    /// The commit before; absent where the push made the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(with = "String")]
    pub from: Option<String>,
    /// The commit after.
    #[schemars(length(max = 64))]
    pub to: String,
}

/// A commit that people removed from a Thread's branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedCommit {
    /// Its id.
    #[schemars(length(max = 64))]
    pub commit: String,
    /// A digest of its change, by which it is known under another id. Absent where the change stayed on the branch, is
    /// none, or could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(with = "String")]
    pub patch: Option<String>,
    /// The first line of its message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 100))]
    pub subject: String,
    /// Who wrote it, as it says itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 100))]
    pub author: String,
    /// When its removal was noticed.
    pub noticed: Time,
}

/// The newest commit of the base branch that a Thread's branch has. Once it is not on the base branch any more, people
/// took it off there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkPoint {
    /// The base branch.
    #[schemars(length(max = 255))]
    pub base: String,
    /// The commit's id.
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
    /// Whether the two branches merge as text.
    pub text: TextMerge,
    /// What the conversation was told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<TextMerge>,
}

/// A branch that lacks what its base branch has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseStanding {
    /// Commits that it lacks.
    pub behind: u64,
    /// Whether the two merge as text.
    pub text: TextMerge,
    /// The newest commit that both have.
    #[schemars(length(max = 64))]
    pub left: String,
    /// What the conversation was told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<TextMerge>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}
