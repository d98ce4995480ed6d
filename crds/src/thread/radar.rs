//! How a Thread's branch stands to those of the Repo's other open Threads, and to the base branch.

use codebutler_wire::{ChangeSize, TextMerge};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Meetings that are kept of a Thread: the gravest ones.
pub const MOST_MEETINGS: usize = 8;

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
