//! Agents that are not heard of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An agent that had something to do, and said nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSilence {
    /// UID of the silent pod.
    #[schemars(length(max = 64))]
    pub pod: String,
    /// Time at which the silence was noticed.
    pub since: Time,
    /// Seconds for which nothing was heard until then.
    pub seconds: u32,
}
