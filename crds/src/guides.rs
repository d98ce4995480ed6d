//! Status of a repository's `.codebutler/`: its mistakes, and the offer to write one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The offer to learn a repository that has no `.codebutler/`, which is made once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearningOffer {
    /// Time of the first offer, or of the finding that none is needed.
    pub since: Time,
    /// True once the offer is in the channel, or there is a `.codebutler/`.
    pub settled: bool,
}

/// Mistakes in `.codebutler/` that the channel is told of, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuidesStatus {
    /// Digest of all mistakes: other ones are told anew.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// Time at which the mistakes were found.
    pub since: Time,
    /// True once the channel was told.
    pub told: bool,
}
