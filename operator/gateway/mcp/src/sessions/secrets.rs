//! Secrets of servers over time. Whatever a server was sent stays masked in its words. A program in a pod has the
//! Secrets with which its pod was started, so where these are others by now, its session ends when its calls have,
//! and the pod is replaced for the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use codebutler_gateway_core::mcp_facts::SessionOutcome;
use codebutler_runtime::recent::RecentMap;
use tokio::time::sleep;

use super::{OpenSession, SessionPool};
use crate::link::LinkError;
use crate::masking::WordGuard;
use crate::session_key::{ServerPlace, SessionKey};

/// Values of one server that are masked.
const MASKED: usize = 32;
/// Time for which calls may go on with old Secrets: longer than any call.
const DRAIN: Duration = Duration::from_mins(11);
/// Timeout of a new call that waits for them, below the caller's own: it learns in time that its call was not sent.
const PATIENCE: Duration = Duration::from_mins(2);
/// Reason for the wait of such a call, for the model.
const OLD_CALLS: &str = "its Secrets have changed, and calls with the earlier ones end first";
/// Interval between checks if the calls have ended.
const LOOK: Duration = Duration::from_millis(500);

impl SessionPool {
    /// Values that a server was sent as credentials, now and lately.
    pub fn known_secrets(&self, place: &ServerPlace) -> Vec<String> {
        self.0.state.lock().secrets.get(&place.key).cloned().unwrap_or_default()
    }

    pub(super) fn remember_secrets(&self, key: &SessionKey, values: &[String]) {
        add_secrets(&mut self.0.state.lock().secrets, key, values);
    }

    /// Masks the secrets that a server was sent in the outcome of its session.
    pub(super) fn mask_outcome(
        &self,
        place: &ServerPlace,
        outcome: SessionOutcome,
    ) -> SessionOutcome {
        let redactor = self.0.context.redactors.of(&place.repo);
        let guard = WordGuard::new(redactor, &self.known_secrets(place));
        match outcome {
            SessionOutcome::Answered { version, tools, remark } => SessionOutcome::Answered {
                version: guard.mask(&version),
                tools,
                remark: guard.mask(&remark),
            },
            SessionOutcome::Failed(words) => SessionOutcome::Failed(guard.mask(&words)),
        }
    }

    /// True once the Secrets of a session's pod are others than it was started with.
    pub(super) async fn has_old_secrets(&self, open: &OpenSession) -> bool {
        let Some(place) = &open.pod else { return false };
        let mark = open.sent.lock().mark.clone();
        // A pod that was started without Secrets has none that could change.
        if mark.is_empty() {
            return false;
        }
        let Some(new) = self.0.pods.new_secrets(place, &mark).await else { return false };
        self.remember_secrets(&open.key, &new.values);
        let mut sent = open.sent.lock();
        let is_old = new.values != sent.values;
        // A changed annotation alone does not make another Secret.
        sent.replace(new);
        is_old
    }

    /// Takes a session out of the list whose pod has old Secrets. Calls under way go on.
    pub(super) fn retire(&self, open: &Arc<OpenSession>) {
        let mut state = self.0.state.lock();
        if state.open.get(&open.key).is_some_and(|known| Arc::ptr_eq(known, open)) {
            state.open.remove(&open.key);
            self.0.metrics.mcp_sessions(state.open.len());
            state.retiring.push((Arc::clone(open), Instant::now()));
        }
    }

    pub(super) fn forget_retired(&self, open: &Arc<OpenSession>) {
        self.0.state.lock().retiring.retain(|(known, _)| !Arc::ptr_eq(known, open));
    }

    /// Waits for the end of calls in the pod that is to be replaced.
    ///
    /// # Errors
    /// When they take longer than a new call can wait.
    pub(super) async fn await_retired(&self, key: &SessionKey) -> Result<(), LinkError> {
        let works = |(open, since): &(Arc<OpenSession>, Instant)| {
            let runs = open.running.load(Ordering::SeqCst) > 0 && !open.session.is_closed();
            open.key == *key && runs && since.elapsed() < DRAIN
        };
        await_end(|| self.0.state.lock().retiring.iter().any(works), PATIENCE).await
    }
}

/// Waits until old calls have ended, but only for `patience`.
async fn await_end(is_busy: impl Fn() -> bool, patience: Duration) -> Result<(), LinkError> {
    let begun = Instant::now();
    while is_busy() {
        if begun.elapsed() >= patience {
            return Err(LinkError::Starting(OLD_CALLS.to_owned()));
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// Adds values to be masked in a server's words; beyond the limit the oldest are dropped.
pub(super) fn add_secrets(
    known: &mut RecentMap<SessionKey, Vec<String>>,
    key: &SessionKey,
    values: &[String],
) {
    let mut all = known.get(key).cloned().unwrap_or_default();
    all.retain(|value| !values.contains(value));
    all.extend_from_slice(values);
    let old = all.len().saturating_sub(MASKED);
    all.drain(..old);
    known.insert(key.clone(), all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_waits_too_long_for_old_ones_is_told_that_nothing_was_run() {
        let refused = await_end(|| true, Duration::ZERO).await;
        assert!(matches!(refused, Err(LinkError::Starting(_))), "{refused:?}");
        let looks = std::cell::Cell::new(0);
        let ends = || {
            looks.set(looks.get() + 1);
            looks.get() < 2
        };
        assert!(await_end(ends, PATIENCE).await.is_ok());
        assert_eq!(looks.get(), 2);
    }

    #[test]
    fn what_a_server_was_sent_stays_masked_after_it_was_replaced() {
        let key = SessionKey {
            namespace: "team".into(),
            repo: "shop".into(),
            server: "db".into(),
            thread: None,
        };
        let mut known = RecentMap::new(4);
        for value in ["old", "new", "old", "newer"] {
            add_secrets(&mut known, &key, &[value.to_owned()]);
        }
        assert_eq!(known.get(&key).cloned().unwrap(), ["new", "old", "newer"]);
        for n in 0..100 {
            add_secrets(&mut known, &key, &[format!("value-{n}")]);
        }
        assert_eq!(known.get(&key).map_or(0, |all| all.len()), MASKED);
    }
}
