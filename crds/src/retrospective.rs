//! Retrospectives: the conditions under which a team looks back on a conversation, and the cost of that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;

/// Conditions under which the lead looks back, and asks what the team shall remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetrospectiveSpec {
    /// If true, the team looks back. True by default.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The least that a conversation has to have cost, in USD.
    #[serde(default = "least_cost")]
    pub min_cost: NanoUsd,
    /// Budget of a retrospective, in USD, the answers of roles that are asked included: from there on the lead is
    /// told to say what it has, or to go on without, and asks nobody any more. A call under way is not cut.
    #[serde(default = "most_cost")]
    pub max_cost: NanoUsd,
    /// If true, the pull request has a journal of the conversation, in `.codebutler/journals/`. True by default.
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

/// Five cents, in billionths of a dollar.
const fn least_cost() -> NanoUsd {
    NanoUsd(50_000_000)
}

/// Fifty cents, in billionths of a dollar.
const fn most_cost() -> NanoUsd {
    NanoUsd(500_000_000)
}
