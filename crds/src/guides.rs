//! What is known of a repository's `.codebutler/`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The offer to learn a repository that has no `.codebutler/`, which is made once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearningOffer {
    /// Time of the first offer, or of the finding that none is needed.
    pub since: Time,
    /// It is in the channel, or there is a `.codebutler/`.
    pub settled: bool,
}

/// Mistakes in `.codebutler/` that the channel is told of, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuidesStatus {
    /// Of all that is wrong: other mistakes are told anew.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// When they were found.
    pub since: Time,
    /// Whether the channel was told.
    pub told: bool,
}
