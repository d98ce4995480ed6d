//! When Secrets have changed. The gateway may read each by its name and watch none, so each is read
//! from time to time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use parking_lot::{Mutex, MutexGuard};

use crate::context::GatewayContext;

/// How long a Secret is not looked at again.
const FRESH: Duration = Duration::from_secs(20);

/// What is known, by namespace and name.
#[derive(Default)]
pub struct PolledRevisions(Mutex<HashMap<(String, String), KnownRevisions>>);

#[derive(Clone)]
struct KnownRevisions {
    read: Instant,
    revision: String,
}

impl PolledRevisions {
    /// Another one after each change of the Secret, and an empty one while there is none. Nothing if it
    /// could not be read yet.
    pub async fn of(
        &self,
        context: &GatewayContext,
        namespace: &str,
        name: &str,
    ) -> Option<String> {
        let key = (namespace.to_owned(), name.to_owned());
        let known = self.lock().get(&key).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.read.elapsed() < FRESH) {
            return Some(known.revision.clone());
        }
        let secrets = Api::<Secret>::namespaced(context.client.clone(), namespace);
        let Ok(found) = secrets.get_metadata_opt(name).await else {
            return known.map(|known| known.revision);
        };
        let revision = found.map_or_else(String::new, |found| {
            let uid = found.uid().unwrap_or_default();
            format!("{uid}/{}", found.resource_version().unwrap_or_default())
        });
        let mut all = self.lock();
        // Whoever asks does so again and again.
        all.retain(|_, known| known.read.elapsed() < FRESH * 10);
        all.insert(key, KnownRevisions { read: Instant::now(), revision: revision.clone() });
        Some(revision)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), KnownRevisions>> {
        self.0.lock()
    }
}
