//! The controller's part of a Thread's status, and the smallest patch that writes it. The gateway's
//! part is never in a patch.

use std::collections::BTreeMap;

use codebutler_crds::ThreadStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The controller's part of a Thread's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct OwnThreadStatus {
    /// See [`ThreadStatus::observed_generation`].
    pub observed_generation: Option<i64>,
    /// See [`ThreadStatus::phase`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// See [`ThreadStatus::active_role`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_role: Option<String>,
    /// See [`ThreadStatus::queue_position`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<u32>,
    /// See [`ThreadStatus::waits`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// See [`ThreadStatus::volume`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    pub roles: BTreeMap<String, OwnRole>,
    /// See [`ThreadStatus::conditions`].
    pub conditions: Vec<Condition>,
}

/// The controller's part of a role's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct OwnRole {
    /// UID of the pod that speaks for the role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// True if the role holds a slot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub admitted: bool,
    /// Number of pods that died in a row.
    pub failures: u32,
}

impl OwnThreadStatus {
    /// The controller's part of a status.
    pub(super) fn of(status: &ThreadStatus) -> Self {
        let role = |(name, role): (&String, &codebutler_crds::thread::RoleStatus)| {
            let own = OwnRole {
                pod_uid: role.pod_uid.clone(),
                admitted: role.admitted,
                failures: role.failures,
            };
            (name.clone(), own)
        };
        Self {
            observed_generation: status.observed_generation,
            phase: status.phase.clone(),
            active_role: status.active_role.clone(),
            queue_position: status.queue_position,
            waits: status.waits.clone(),
            volume: status.volume.clone(),
            roles: status.roles.iter().map(|(name, own)| role((name, own))).collect(),
            conditions: status.conditions.clone(),
        }
    }

    /// The merge patch that turns `before` into this; nothing if they are equal.
    pub(super) fn patch(&self, before: &ThreadStatus) -> Option<Value> {
        let old = Self::of(before);
        let mut patch = Map::new();
        let mut set = |key: &str, value: Value| patch.insert(key.to_owned(), value);
        if self.observed_generation != old.observed_generation {
            set("observedGeneration", json!(self.observed_generation));
        }
        if self.phase != old.phase {
            set("phase", json!(self.phase));
        }
        if self.active_role != old.active_role {
            set("activeRole", json!(self.active_role));
        }
        if self.queue_position != old.queue_position {
            set("queuePosition", json!(self.queue_position));
        }
        if self.waits != old.waits {
            set("waits", json!(self.waits));
        }
        if self.volume != old.volume {
            set("volume", json!(self.volume));
        }
        if self.conditions != old.conditions {
            set("conditions", json!(self.conditions));
        }
        let roles: Map<_, _> = self
            .roles
            .iter()
            .filter_map(|(name, role)| {
                let before = old.roles.get(name).cloned().unwrap_or_default();
                Some((name.clone(), role.patch(&before)?))
            })
            .collect();
        if !roles.is_empty() {
            set("roles", Value::Object(roles));
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
}

impl OwnRole {
    fn patch(&self, before: &Self) -> Option<Value> {
        let mut patch = Map::new();
        if self.pod_uid != before.pod_uid {
            patch.insert("podUID".to_owned(), json!(self.pod_uid));
        }
        if self.admitted != before.admitted {
            patch.insert("admitted".to_owned(), json!(self.admitted.then_some(true)));
        }
        if self.failures != before.failures {
            patch.insert("failures".to_owned(), json!(self.failures));
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_holds_only_what_changed_and_only_the_controllers_part() {
        let before: ThreadStatus = serde_json::from_value(json!({
            "phase": "pm", "branch": "codebutler/x", "cost": "0.25",
            "roles": {
                "pm": {"inbox": "1763765623.000100", "podUID": "a", "admitted": true, "turns": 3},
                "coder": {"inbox": "1763765623.000200"},
            },
        }))
        .unwrap();
        let mut own = OwnThreadStatus::of(&before);
        assert_eq!(own.patch(&before), None);
        let pm = own.roles.entry("pm".to_owned()).or_default();
        (pm.pod_uid, pm.admitted) = (None, false);
        own.roles.entry("coder".to_owned()).or_default().failures = 2;
        own.roles.entry("lead".to_owned()).or_default();
        own.active_role = Some("coder".to_owned());
        let wanted = json!({
            "activeRole": "coder",
            "roles": {"pm": {"podUID": null, "admitted": null}, "coder": {"failures": 2}},
        });
        assert_eq!(own.patch(&before), Some(wanted));
    }
}
