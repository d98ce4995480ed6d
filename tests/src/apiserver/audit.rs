//! Who asked for what: every different request, once, and whether it was allowed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::auth::{ApiUser, RequestAttributes};

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditRecord {
    /// User name.
    pub user: String,
    /// Verb.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Resource or `resource/subresource`; empty for a bare path.
    pub resource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// Path, for what is no resource.
    pub path: String,
}

/// The requests so far.
#[derive(Debug, Default)]
pub(super) struct RequestAudit(Mutex<BTreeMap<AuditRecord, bool>>);

impl RequestAudit {
    /// Notes a request.
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

    /// What a user asked for, and whether it was always allowed.
    pub(super) fn of(&self, user: &str) -> Vec<(AuditRecord, bool)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|(r, _)| r.user == user)
            .map(|(r, allowed)| (r.clone(), *allowed))
            .collect()
    }
}
