//! Sign-ins that this replica remembers: states already tried, the rate of exchanges, and sessions that have ended.

use std::time::{Duration, Instant};

use codebutler_runtime::recent::{RecentKeys, RecentMap};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::visitor::VisitorAddress;

/// Exchanges with the issuer: of all, and of one address, which an office may share.
const ALL: ExchangeRate = ExchangeRate { burst: 120, another: Duration::from_millis(250) };
const EACH: ExchangeRate = ExchangeRate { burst: 20, another: Duration::from_secs(2) };
/// Tried flows, and ended sessions, that are remembered.
const REMEMBERED: usize = 16_384;
/// Addresses that are remembered at least. Whoever has more of them meets what holds for all.
const ADDRESSES: usize = 4_096;

/// Rate limit of code exchanges: a burst, and the time until another one is allowed.
#[derive(Clone, Copy)]
struct ExchangeRate {
    burst: u32,
    another: Duration,
}

impl ExchangeRate {
    /// Reserves one more exchange; returns the new end of the reserved time, or `None` if the rate is exceeded.
    fn take(self, spoken: Instant, now: Instant) -> Option<Instant> {
        let next = spoken.max(now) + self.another;
        (next <= now + self.another * self.burst).then_some(next)
    }
}

/// Replay protection and rate limits of sign-ins, kept in memory.
pub(super) struct SignInFlows {
    tried: RecentKeys<[u8; 32]>,
    ended: RecentKeys<[u8; 32]>,
    spoken: Mutex<SpokenFor>,
}

/// Ends of the time that is reserved for exchanges: of all, and of each address.
struct SpokenFor {
    all: Instant,
    each: RecentMap<VisitorAddress, Instant>,
}

/// Reason why a code is not exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowRefusal {
    /// Its state was used before.
    Again,
    /// The rate limit of all exchanges is reached.
    Many,
    /// Too many are tried from one address.
    ManyFromThere,
}

impl Default for SignInFlows {
    fn default() -> Self {
        let (tried, ended) = (RecentKeys::of(REMEMBERED), RecentKeys::of(REMEMBERED));
        let spoken = SpokenFor { all: Instant::now(), each: RecentMap::new(ADDRESSES) };
        Self { tried, ended, spoken: Mutex::new(spoken) }
    }
}

impl SignInFlows {
    /// Lets the code of a flow be exchanged: once, whatever comes of it.
    ///
    /// # Errors
    /// When it was tried, or too many are.
    pub(super) fn try_once(&self, state: &str, from: VisitorAddress) -> Result<(), FlowRefusal> {
        self.try_once_at(state, from, Instant::now())
    }

    fn try_once_at(
        &self,
        state: &str,
        from: VisitorAddress,
        now: Instant,
    ) -> Result<(), FlowRefusal> {
        if self.tried.contains(&digest(state)) {
            return Err(FlowRefusal::Again);
        }
        let mut spoken = self.spoken.lock();
        let own = spoken.each.get(&from).map_or(now, |until| *until);
        let own = EACH.take(own, now).ok_or(FlowRefusal::ManyFromThere)?;
        // Both limits are checked before either is charged: a refused address uses up nothing of the common limit.
        spoken.all = ALL.take(spoken.all, now).ok_or(FlowRefusal::Many)?;
        spoken.each.insert(from, own);
        drop(spoken);
        if self.tried.first_time(digest(state)) { Ok(()) } else { Err(FlowRefusal::Again) }
    }

    /// A session that somebody has signed out of counts no more.
    pub(super) fn end(&self, session: &str) {
        self.ended.first_time(digest(session));
    }

    /// True if somebody has signed out of this session.
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
    use std::net::IpAddr;

    fn address(n: u32) -> VisitorAddress {
        IpAddr::from(n.to_be_bytes()).into()
    }

    #[test]
    fn a_flow_is_tried_once_and_a_flood_of_flows_waits() {
        let (flows, now, stranger) = (SignInFlows::default(), Instant::now(), address(1));
        flows.try_once_at("one", stranger, now).unwrap();
        assert_eq!(flows.try_once_at("one", stranger, now), Err(FlowRefusal::Again));
        let tries = |n: &u32| flows.try_once_at(&format!("flood {n}"), stranger, now).is_ok();
        assert_eq!((0..1000).filter(tries).count(), EACH.burst as usize - 1);
        let late = |now| flows.try_once_at("late", stranger, now);
        assert_eq!(late(now), Err(FlowRefusal::ManyFromThere));
        assert_eq!(flows.try_once_at("other", address(2), now), Ok(()), "others sign in");
        assert_eq!(late(now + EACH.another), Ok(()), "it was not tried before");
    }

    #[test]
    fn a_crowd_of_addresses_waits_too_and_is_not_remembered_for_long() {
        let (flows, now) = (SignInFlows::default(), Instant::now());
        let tries = |n: &u32| flows.try_once_at(&format!("flood {n}"), address(*n), now).is_ok();
        assert_eq!((0..50_000).filter(tries).count(), ALL.burst as usize);
        let late = |now| flows.try_once_at("late", address(77_777), now);
        assert_eq!((late(now), late(now + ALL.another)), (Err(FlowRefusal::Many), Ok(())));
    }

    #[test]
    fn a_session_that_was_signed_out_of_has_ended() {
        let flows = SignInFlows::default();
        assert!(!flows.has_ended("a.b"));
        flows.end("a.b");
        assert!(flows.has_ended("a.b") && !flows.has_ended("a.c"));
    }
}
