//! How a Repo's roadmap is worked off.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;

/// What holds where people have the roadmap developed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoadmapSpec {
    /// USD that all Threads of a roadmap may cost together before a person is asked, where whoever starts it
    /// names none. No cap of its own if absent; those of `spec.limits` hold anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NanoUsd>,
    /// When the conversation that a roadmap is developed from is told how it stands, such as `08:00`, in
    /// `spec.limits.timeZone`. Not at all if absent: it has one message that always shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub digest: Option<String>,
}
