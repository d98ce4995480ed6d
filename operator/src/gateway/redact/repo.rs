//! One redactor per set of patterns, compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use codebutler_crds::Repo;
use codebutler_crds::policy::RedactionRule;

use super::Redactor;

/// Sets of patterns that are kept compiled.
const MOST: usize = 256;

/// Redactors by their Repo's patterns. Cheap to clone; clones share what was compiled.
#[derive(Clone, Debug, Default)]
pub struct Redactors(Arc<Mutex<HashMap<String, Arc<Redactor>>>>);

impl Redactors {
    /// The redactor of a Repo. What of its patterns can't be used, the controller says on the Repo.
    pub fn of(&self, repo: &Repo) -> Arc<Redactor> {
        self.with(&repo.spec.policy.redaction)
    }

    /// A redactor with these patterns on top of the built-in kinds.
    pub fn with(&self, rules: &[RedactionRule]) -> Arc<Redactor> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name =
            rules.iter().fold(String::new(), |all, r| all + &r.name + "\0" + &r.pattern + "\0");
        if let Some(known) = lock().get(&name) {
            return Arc::clone(known);
        }
        // Compiled without the lock: a large pattern keeps nobody else waiting.
        let (redactor, bad) = Redactor::new(rules);
        for problem in bad {
            tracing::warn!(%problem, "a redaction pattern is left out");
        }
        let redactor = Arc::new(redactor);
        let mut known = lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name, Arc::clone(&redactor));
        redactor
    }
}
