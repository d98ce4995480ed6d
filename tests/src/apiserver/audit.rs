//! The audit log: every different request, once, with its user and whether it was always allowed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::auth::{ApiUser, RequestAttributes};

/// A request by its user and what it asks for; equal requests share one record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditRecord {
    /// Name of the user who asked.
    pub user: String,
    /// Verb of the request, such as `list`.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Resource or `resource/subresource`; empty for a bare path.
    pub resource: String,
    /// Namespace, or empty for cluster-wide requests.
    pub namespace: String,
    /// Name of the object, or empty for a collection.
    pub name: String,
    /// Path, for what is no resource.
    pub path: String,
}

/// Requests so far, each with true if it was always allowed.
#[derive(Debug, Default)]
pub(super) struct RequestAudit(Mutex<BTreeMap<AuditRecord, bool>>);

impl RequestAudit {
    /// Records a request and its outcome.
    pub(super) fn note(&self, user: &ApiUser, wanted: &RequestAttributes, allowed: bool) {
        let record = AuditRecord {
            user: user.name.clone(),
            verb: wanted.verb.clone(),
            group: wanted.group.clone(),
            resource: wanted.full_resource(),
            namespace: wanted.namespace.clone(),
            name: wanted.name.clone(),
            path: if wanted.resource.is_empty() { wanted.path.clone() } else { String::new() },
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry(record).or_insert(allowed);
        // One refusal is worth knowing, whatever came later.
        *seen = *seen && allowed;
    }

    /// Requests that a user has made, each with true if it was always allowed.
    pub(super) fn of(&self, user: &str) -> Vec<(AuditRecord, bool)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|(r, _)| r.user == user)
            .map(|(r, allowed)| (r.clone(), *allowed))
            .collect()
    }
}
