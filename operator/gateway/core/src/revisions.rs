//! Notices changes of Secrets. The gateway may read each by its name and watch none, so each is
//! polled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use parking_lot::{Mutex, MutexGuard};

use crate::context::GatewayContext;

/// Interval after which a Secret is read again.
const FRESH: Duration = Duration::from_secs(20);

/// Revisions read last, by namespace and name.
#[derive(Default)]
pub struct PolledRevisions(Mutex<HashMap<(String, String), KnownRevisions>>);

#[derive(Clone)]
struct KnownRevisions {
    read: Instant,
    revision: String,
}

impl PolledRevisions {
    /// Returns a revision that differs after each change of the Secret, and is empty while there is
    /// none. None if it could not be read yet.
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
