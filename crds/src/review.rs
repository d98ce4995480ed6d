//! Settings for how a team reviews changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings for the review of changes before anybody is asked whether to merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewSpec {
    /// A review begins with the cheapest model of the role, by the prices that the provider or the Repo
    /// names; only what that lets pass is looked at by the role's own. Without prices there is one pass.
    #[serde(default)]
    pub two_pass: bool,
}
