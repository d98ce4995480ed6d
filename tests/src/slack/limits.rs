//! Rate limits by tier, and faults that a test orders for the next calls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::options::RateLimits;

/// Slack's tiers, and the methods with a rule of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateTier {
    Unlimited,
    One,
    Two,
    Three,
    Four,
    /// `chat.postMessage`: one a second and channel, short bursts allowed.
    Posting,
    /// `conversations.history` and `conversations.replies`.
    Reading,
}

/// Posts that may come at once before the one a second applies.
const POSTING_BURST: f64 = 5.0;

/// Fault that a test injects into a Web API call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFault {
    /// HTTP 429 with `Retry-After`, in whole seconds.
    RateLimited {
        /// Value of the header, in seconds.
        retry_after: u64,
    },
    /// `ok: false` with this code.
    Error(String),
    /// `ok: false` with this code, and sentences for developers.
    Explained(String, Vec<String>),
    /// An answer of the proxy in front of Slack: this HTTP status and some HTML.
    Http(u16),
    /// A download is sent to another host of Slack's, which wants the token, too.
    Elsewhere,
    /// The call is carried out after this long.
    Slow(Duration),
    /// The call is carried out, and answered after this long.
    SlowReply(Duration),
    /// The connection breaks before the call is carried out.
    BreakBefore,
    /// The connection breaks, and the call is carried out after this long.
    BreakLate(Duration),
    /// The call is carried out, then the connection breaks: the caller can't know.
    LostReply,
}

/// Token buckets and ordered faults.
#[derive(Debug, Default)]
pub(super) struct MethodLimits {
    buckets: BTreeMap<(String, Option<String>), TokenBucket>,
    faults: BTreeMap<String, VecDeque<CallFault>>,
    pub calls: BTreeMap<String, u64>,
    /// Number of calls by method that came too early.
    pub early: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct TokenBucket {
    tokens: f64,
    at: Instant,
}

impl MethodLimits {
    pub(super) fn order(&mut self, method: &str, times: usize, fault: &CallFault) {
        let queue = self.faults.entry(method.to_owned()).or_default();
        queue.extend(std::iter::repeat_n(fault.clone(), times));
    }

    /// The fault that waits for a step of Slack's own, which nobody calls.
    pub(super) fn ordered(&mut self, step: &str) -> Option<CallFault> {
        self.faults.get_mut(step)?.pop_front()
    }

    /// Counts a call and takes the fault that waits for it, if one does.
    pub(super) fn called(&mut self, method: &str) -> Option<CallFault> {
        *self.calls.entry(method.to_owned()).or_default() += 1;
        [method, "*"].iter().find_map(|key| self.faults.get_mut(*key)?.pop_front())
    }

    /// Seconds to wait if the call comes too early.
    pub(super) fn check(
        &mut self,
        rules: RateLimits,
        method: &str,
        tier: RateTier,
        channel: Option<&str>,
        now: Instant,
    ) -> Option<u64> {
        let (capacity, per_second) = match (rules, tier) {
            (RateLimits::Off, _) | (_, RateTier::Unlimited) => return None,
            (_, RateTier::Two) => (20.0, 20.0 / 60.0),
            (RateLimits::Distributed, RateTier::Reading) => (1.0, 1.0 / 60.0),
            // Ten, so that an app can open all its connections at once.
            (_, RateTier::One) => (10.0, 1.0 / 60.0),
            (_, RateTier::Three | RateTier::Reading) => (50.0, 50.0 / 60.0),
            (_, RateTier::Four) => (100.0, 100.0 / 60.0),
            (_, RateTier::Posting) => (POSTING_BURST, 1.0),
        };
        let channel = channel.filter(|_| tier == RateTier::Posting).map(str::to_owned);
        let bucket = self
            .buckets
            .entry((method.to_owned(), channel))
            .or_insert(TokenBucket { tokens: capacity, at: now });
        let refilled = now.duration_since(bucket.at).as_secs_f64() * per_second;
        bucket.tokens = (bucket.tokens + refilled).min(capacity);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return None;
        }
        *self.early.entry(method.to_owned()).or_default() += 1;
        let wait = Duration::from_secs_f64((1.0 - bucket.tokens) / per_second);
        Some(wait.as_secs() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posting_allows_a_burst_then_one_a_second_and_channel() {
        let mut limits = MethodLimits::default();
        let start = Instant::now();
        let mut post = |channel: &str, after: u64| {
            let now = start + Duration::from_secs(after);
            limits.check(
                RateLimits::Internal,
                "chat.postMessage",
                RateTier::Posting,
                Some(channel),
                now,
            )
        };
        assert!((0..5).all(|_| post("C1", 0).is_none()));
        assert!(post("C1", 0).is_some());
        assert!(post("C2", 0).is_none());
        assert!(post("C1", 2).is_none());
    }

    #[test]
    fn distributed_apps_read_once_a_minute() {
        let mut limits = MethodLimits::default();
        let now = Instant::now();
        let mut read =
            |rules| limits.check(rules, "conversations.replies", RateTier::Reading, None, now);
        assert!(read(RateLimits::Distributed).is_none());
        assert_eq!(read(RateLimits::Distributed), Some(61));
        assert!(read(RateLimits::Off).is_none());
    }

    #[test]
    fn faults_come_in_order_and_run_out() {
        let mut limits = MethodLimits::default();
        limits.order("auth.test", 2, &CallFault::Http(500));
        assert_eq!(limits.called("auth.test"), Some(CallFault::Http(500)));
        assert_eq!(limits.called("api.test"), None);
        assert_eq!(limits.called("auth.test"), Some(CallFault::Http(500)));
        assert_eq!(limits.called("auth.test"), None);
        assert_eq!(limits.calls["auth.test"], 3);
    }
}
