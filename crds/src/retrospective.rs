//! When a team looks back on a conversation, and what that may cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;

/// When the lead looks back, and asks what the team shall remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetrospectiveSpec {
    /// Whether it does at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The least that a conversation has to have cost, in USD.
    #[serde(default = "least_cost")]
    pub min_cost: NanoUsd,
    /// What looking back may cost, in USD, the answers of roles that are asked included: from there on the lead is
    /// told to say what it has, or to go on without, and asks nobody any more. A call under way is not cut.
    #[serde(default = "most_cost")]
    pub max_cost: NanoUsd,
    /// Whether the pull request has a journal of the conversation, in `.codebutler/journals/`.
    #[serde(default = "yes")]
    pub journal: bool,
}

impl Default for RetrospectiveSpec {
    fn default() -> Self {
        Self { enabled: true, min_cost: least_cost(), max_cost: most_cost(), journal: true }
    }
}

const fn yes() -> bool {
    true
}

/// Five cents.
const fn least_cost() -> NanoUsd {
    NanoUsd(50_000_000)
}

/// Fifty cents.
const fn most_cost() -> NanoUsd {
    NanoUsd(500_000_000)
}
