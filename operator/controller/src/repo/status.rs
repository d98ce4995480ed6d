//! The controller's part of a Repo's status, and the smallest patch that writes it.
//!
//! Conditions are one list with two writers (the gateway adds whether it reaches Slack and Git), so
//! the list is only ever written together with the version of the Repo that it was made from.

use codebutler_crds::RepoStatus;
use codebutler_crds::repo::ThreadCounts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The controller's part of a Repo's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct OwnRepoStatus {
    /// See [`RepoStatus::observed_generation`].
    pub observed_generation: Option<i64>,
    /// See [`RepoStatus::threads`].
    pub threads: ThreadCounts,
    /// See [`RepoStatus::shard`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// All conditions of the Repo, the gateway's unchanged.
    pub conditions: Vec<Condition>,
}

impl OwnRepoStatus {
    pub(super) fn of(status: &RepoStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            threads: status.threads,
            shard: status.shard,
            conditions: status.conditions.clone(),
        }
    }

    /// The merge patch that turns `before` into this; nothing if they are equal.
    pub(super) fn patch(&self, before: Option<&RepoStatus>) -> Option<Value> {
        let old = before.map(Self::of).unwrap_or_default();
        let mut patch = Map::new();
        if self.observed_generation != old.observed_generation {
            patch.insert("observedGeneration".to_owned(), json!(self.observed_generation));
        }
        if self.threads != old.threads || before.is_none() {
            patch.insert("threads".to_owned(), json!(self.threads));
        }
        if self.shard != old.shard {
            patch.insert("shard".to_owned(), json!(self.shard));
        }
        if self.conditions != old.conditions {
            patch.insert("conditions".to_owned(), json!(self.conditions));
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
}
