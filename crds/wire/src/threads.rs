//! Other threads of a Repo, as far as they matter to one that must not get in their way. What people
//! said in them is not told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another open thread of the caller's Repo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherThread {
    /// Name of the other Thread.
    pub name: String,
    /// Name of its branch, once that is on the remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Phase of the role that ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// True if a user has approved its plan; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// Number of its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
    /// Files and folders that its plan names, unless it was declined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
    /// Files that its branch changes, as they are pushed; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Number of changed files beyond those that `changed` names.
    #[serde(default)]
    pub more: u64,
    /// Size of its change, as it is pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<ChangeSize>,
    /// Overlap with the caller's own plan and branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<ThreadOverlap>,
}

/// Overlap of two threads. At most ten of each are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadOverlap {
    /// Name of the other Thread.
    pub thread: String,
    /// Name of the other Thread's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Files that both change, and folders that one changes as a whole and the other works in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Folders in which both change different files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// Definitions that both change, as `file: name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<String>,
    /// Result of a textual merge of the two branches; absent where one of them has nothing pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextMerge>,
}

/// Size of a branch's change since it left the base branch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSize {
    /// Number of lines added and removed.
    pub lines: u64,
    /// Number of files in which they are.
    pub files: u64,
}

/// Result of a textual merge of two commits, as Git found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TextMerge {
    /// Without conflict; what it means is another question.
    Clean,
    /// Both change the same lines in different ways.
    Conflict,
    /// Git could not be asked, or gave no answer that is understood.
    Unknown,
}
