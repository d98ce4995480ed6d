//! Settings for working off a Repo's roadmap.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;

/// Settings that hold where people have the roadmap developed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoadmapSpec {
    /// USD that all Threads of a roadmap may cost together before a person is asked, where whoever starts it
    /// names none. No cap of its own if absent; those of `spec.limits` hold anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NanoUsd>,
    /// Time of day, such as `08:00`, in `spec.limits.timeZone`, at which the conversation that a roadmap is developed
    /// from is told of its progress. Never if absent: one message there shows it at all times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub digest: Option<String>,
}
