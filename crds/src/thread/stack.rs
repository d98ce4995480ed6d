//! State of a stacked branch: what it has of the branch on which it began.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Comparison of the branch of an item with the one that it began on, the branch below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackStanding {
    /// The newest commit of the branch below that this one has. Once the item below is merged, all that this commit
    /// leads to counts as merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(with = "String")]
    pub has: Option<String>,
    /// The merge commit that the gateway put on the branch last, or is about to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<StackMerge>,
    /// The item below is merged, and what has to come in for that is there or is a role's to bring in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
}

/// A merge commit of the gateway's on a stacked branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackMerge {
    /// The branch's commit before.
    #[schemars(length(max = 64))]
    pub from: String,
    /// Id of the merge commit.
    #[schemars(length(max = 64))]
    pub to: String,
    /// True if it brings in the base branch, so that a decision about the commit before holds for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub base: bool,
}
