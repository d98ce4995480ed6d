//! A server's objects as a value, so that another life of it can go on where this one ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::ObjectStore;
use super::{ServerState, object};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Kinds that a snapshot leaves out, as they belong to one run: processes that end with it, locks of
/// such processes, and objects about the server's own address.
const OF_ONE_LIFE: [&str; 3] = ["pods", "leases.coordination.k8s.io", "nodes"];
const OWN: [(&str, &str); 2] = [("services", "kubernetes"), ("endpoints", "kubernetes")];

/// Every object that outlives the server's process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerSnapshot {
    version: u64,
    tables: BTreeMap<String, Vec<Value>>,
}

impl ServerSnapshot {
    pub(super) fn of(store: &ObjectStore) -> Self {
        let (tables, version) = store.everything();
        let lasting = tables.into_iter().filter(|(name, _)| !OF_ONE_LIFE.contains(&name.as_str()));
        let tables = lasting.map(|(name, objects)| {
            let kept = objects.iter().filter(|stored| {
                let named = (name.as_str(), object::object_name(&stored.value));
                !OWN.contains(&named) || object::object_namespace(&stored.value) != "default"
            });
            let kept = kept.map(|stored| stored.value.clone()).collect();
            (name, kept)
        });
        Self { version, tables: tables.collect() }
    }
}

impl ServerState {
    /// Takes up what a snapshot holds. Before anything is served or seeded.
    pub(super) fn restore(&self, snapshot: ServerSnapshot) {
        self.store.restore(snapshot.tables, snapshot.version);
        let definitions = self.store.list(DEFINITIONS, None).0;
        if let Some(kind) =
            self.kinds.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        {
            for definition in definitions {
                self.after_write(&kind, &definition.value);
            }
        }
    }
}
