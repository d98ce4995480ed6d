//! Policy for keeping the branches of a Repo's Threads up to date with the base branch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Policy for branches whose base branch has moved on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchesSpec {
    /// Action where the base branch has moved past a Thread's branch. Where the two conflict, the role that pushes is
    /// told, unless this is `Never`.
    #[serde(default)]
    pub update: BranchUpdate,
    /// Minutes that the checks of a merge train may take, from the push on. 60 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub train_minutes: Option<u32>,
}

/// Action where a branch merges with the base branch without a conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BranchUpdate {
    /// People are asked whether the branch shall be brought up to date.
    #[default]
    Offer,
    /// The role that pushes does it, and runs the tests again.
    Automatic,
    /// Nothing happens, unless somebody says so.
    Never,
}
