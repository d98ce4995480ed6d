//! What is known of a repository's `.codebutler/`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
