//! A circuit breaker per model: after three failures in a row another model of the role's pool
//! answers for five minutes. Pure but for the lock.

use std::collections::HashMap;
use std::time::Duration;

use codebutler_crds::role::RoleModel;
use codebutler_gateway_core::repo_key::RepoKey;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Failures in a row that open it.
const FAILURES: u32 = 3;
const OPEN: Duration = Duration::from_mins(5);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProviderCircuit {
    failures: u32,
    opened: Option<Instant>,
}

impl ProviderCircuit {
    /// Returns true while the circuit is open. After five minutes one failure is enough to open it
    /// again.
    fn is_open(&self, now: Instant) -> bool {
        self.opened.is_some_and(|at| now < at + OPEN)
    }

    fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES && !self.is_open(now) {
            self.opened = Some(now);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenModel {
    pub model: String,
    /// Time at which the requested model's breaker opened, if this is another model.
    pub instead_since: Option<Instant>,
}

#[derive(Debug, Default)]
pub struct CircuitBreakers {
    circuits: Mutex<HashMap<(RepoKey, String), ProviderCircuit>>,
}

impl CircuitBreakers {
    /// The model that was asked for, or the first of the pool that works. If none does, the one
    /// that was asked for: it may be well again.
    pub fn choose(
        &self,
        repo: &RepoKey,
        asked: &str,
        models: &RoleModel,
        now: Instant,
    ) -> ChosenModel {
        let circuits = self.lock();
        let circuit = |model: &str| circuits.get(&(repo.clone(), model.to_owned())).copied();
        let works = |model: &&String| circuit(model).is_none_or(|circuit| !circuit.is_open(now));
        let broken = circuit(asked).filter(|circuit| circuit.is_open(now));
        let stands_in = models.pool.iter().filter(|model| *model != asked).find(works);
        match (broken, stands_in) {
            (Some(circuit), Some(model)) => {
                ChosenModel { model: model.clone(), instead_since: circuit.opened }
            }
            _ => ChosenModel { model: asked.to_owned(), instead_since: None },
        }
    }

    pub fn failed(&self, repo: &RepoKey, model: &str, now: Instant) {
        self.lock().entry((repo.clone(), model.to_owned())).or_default().failed(now);
    }

    pub fn worked(&self, repo: &RepoKey, model: &str) {
        self.lock().remove(&(repo.clone(), model.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(RepoKey, String), ProviderCircuit>> {
        self.circuits.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_and_the_pool_stands_in_for_five_minutes() {
        let breakers = CircuitBreakers::default();
        let repo = RepoKey { namespace: "team".into(), name: "shop".into() };
        let models = serde_json::json!({"default": "a", "pool": ["a", "b", "c"]});
        let models: RoleModel = serde_json::from_value(models).unwrap();
        let now = Instant::now();
        let choose = |now| breakers.choose(&repo, "a", &models, now).model;
        let fail = |model: &str, times, now| {
            (0..times).for_each(|_| breakers.failed(&repo, model, now));
        };
        fail("a", 2, now);
        breakers.worked(&repo, "a");
        fail("a", 2, now);
        assert_eq!(choose(now), "a");
        fail("a", 1, now);
        assert_eq!(choose(now), "b");
        assert_eq!(breakers.choose(&repo, "a", &models, now).instead_since, Some(now));
        fail("b", 3, now);
        assert_eq!(choose(now), "c");
        fail("c", 3, now);
        assert_eq!(choose(now), "a", "there is nothing better");
        breakers.worked(&repo, "b");
        let later = now + OPEN;
        assert_eq!(choose(later), "a");
        fail("a", 1, later);
        assert_eq!(choose(later), "b", "still broken: one try was enough");
        breakers.worked(&repo, "a");
        assert_eq!(choose(later), "a");
    }
}
