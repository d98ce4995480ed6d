//! Warm seats: pods that wait for a conversation, so that it does not wait for a pod.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most seats that a Repo can have.
pub const MOST_SEATS: u32 = 16;

/// Pods that are started before anybody has written, each with a volume that has a clone of the base branch. A new
/// Thread takes one for its first role; it is used once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.max) || self.max >= self.seats",
    "message": "max is the most seats there are at a time: it is at least seats"
}, {
    "rule": "!has(self.schedule) || has(self.idleSeconds)",
    "message": "schedule says when seats are made ready, and idleSeconds how long they stay: say both"
}]))]
pub struct WarmSpec {
    /// Seats of the first of `spec.roles` that wait for a Thread. None are kept with 0.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = MOST_SEATS))]
    pub seats: u32,
    /// Most seats at a time: each Thread that began within the last ten minutes lets one more wait, up to this. As
    /// `seats` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MOST_SEATS))]
    pub max: Option<u32>,
    /// Seats of other roles, for Threads that begin with one of them, such as by a message that mentions it. Of all
    /// seats there are 16 at most, those of the first role before these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["role"]))]
    pub roles: Vec<RoleSeats>,
    /// Times at which seats are made ready although nobody has written: cron with five fields, in the time zone of
    /// `limits.timeZone`, such as `0 8 * * 1-5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 9, max = 128))]
    pub schedule: Option<String>,
    /// Seconds after which seats go that nobody has needed: without a message in any of the Repo's Threads, and
    /// without a time of `schedule`. The next message brings them back. They stay if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 604_800))]
    pub idle_seconds: Option<u32>,
    /// PriorityClass of pods that are made as seats, also once a Thread has taken them. As all pods of the Repo if
    /// absent: among them, the controller gives up seats itself before work waits for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
}

impl WarmSpec {
    /// Maximum number of the first role's seats at a time.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.max.unwrap_or(self.seats).max(self.seats)
    }

    /// The number of seats that a role has of its own.
    #[must_use]
    pub fn seats_of(&self, role: &str) -> u32 {
        self.roles.iter().find(|own| own.role == role).map_or(0, |own| own.seats)
    }
}

/// Seats of one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleSeats {
    /// One of the roles that the Repo's `spec.roles` has, by its `role`: as people mention it.
    #[schemars(length(min = 1, max = 32))]
    pub role: String,
    /// Seats of it that wait for a Thread. For the first role this is the least that there are.
    #[schemars(range(min = 0, max = MOST_SEATS))]
    pub seats: u32,
}

const fn one() -> u32 {
    1
}

/// The state of a Repo's seats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmStatus {
    /// Seats that there are to be.
    #[serde(default)]
    pub wanted: u32,
    /// Seats that a Thread can take.
    #[serde(default)]
    pub ready: u32,
    /// The last time that anybody needed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Time>,
    /// UIDs of the pods that wait, by name: each is told when a Thread has taken it, and may read the repository's
    /// branches until then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, String>,
}
