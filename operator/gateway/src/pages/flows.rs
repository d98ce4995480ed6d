//! What this replica remembers of sign-ins: which were tried, how many were, and which sessions have ended.

use std::time::{Duration, Instant};

use codebutler_runtime::recent::RecentKeys;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Exchanges with the issuer that may come at once, and how soon there is another one.
const BURST: u32 = 60;
const ANOTHER: Duration = Duration::from_millis(500);
/// Tried flows, and ended sessions, that are remembered.
const REMEMBERED: usize = 16_384;

/// See the module.
pub(super) struct SignInFlows {
    tried: RecentKeys<[u8; 32]>,
    ended: RecentKeys<[u8; 32]>,
    /// Until when exchanges are spoken for, each for [`ANOTHER`].
    spoken: Mutex<Instant>,
}

/// Why a code is not exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowRefusal {
    /// It was tried before.
    Again,
    /// Too many are tried.
    Many,
}

impl Default for SignInFlows {
    fn default() -> Self {
        let (tried, ended) = (RecentKeys::of(REMEMBERED), RecentKeys::of(REMEMBERED));
        Self { tried, ended, spoken: Mutex::new(Instant::now()) }
    }
}

impl SignInFlows {
    /// Lets the code of a flow be exchanged: once, whatever comes of it.
    ///
    /// # Errors
    /// When it was tried, or too many are.
    pub(super) fn try_once(&self, state: &str) -> Result<(), FlowRefusal> {
        self.try_once_at(state, Instant::now())
    }

    fn try_once_at(&self, state: &str, now: Instant) -> Result<(), FlowRefusal> {
        if self.tried.contains(&digest(state)) {
            return Err(FlowRefusal::Again);
        }
        let mut spoken = self.spoken.lock();
        let next = (*spoken).max(now) + ANOTHER;
        if next > now + ANOTHER * BURST {
            return Err(FlowRefusal::Many);
        }
        *spoken = next;
        drop(spoken);
        if self.tried.first_time(digest(state)) { Ok(()) } else { Err(FlowRefusal::Again) }
    }

    /// A session that somebody has signed out of counts no more.
    pub(super) fn end(&self, session: &str) {
        self.ended.first_time(digest(session));
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self, session: &str) -> bool {
        self.ended.contains(&digest(session))
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_tried_once_and_a_flood_of_flows_waits() {
        let (flows, now) = (SignInFlows::default(), Instant::now());
        flows.try_once_at("one", now).unwrap();
        assert_eq!(flows.try_once_at("one", now), Err(FlowRefusal::Again));
        let tried = (0..1000).filter(|n| flows.try_once_at(&format!("flood {n}"), now).is_ok());
        assert_eq!(tried.count(), BURST as usize - 1);
        assert_eq!(flows.try_once_at("late", now), Err(FlowRefusal::Many));
        assert_eq!(flows.try_once_at("late", now + ANOTHER), Ok(()), "it was not tried before");
    }

    #[test]
    fn a_session_that_was_signed_out_of_has_ended() {
        let flows = SignInFlows::default();
        assert!(!flows.has_ended("a.b"));
        flows.end("a.b");
        assert!(flows.has_ended("a.b") && !flows.has_ended("a.c"));
    }
}
