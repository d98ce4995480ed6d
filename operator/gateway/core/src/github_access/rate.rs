//! GitHub's limits, as its answers tell of them: how much is left, and until when it wants no request
//! at all. One per credential; an answer that was one too many stops all that share it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use jiff::Timestamp;
use parking_lot::Mutex;

/// The least that a limit is waited out for that says no time of its own.
const MINUTE: Duration = Duration::from_mins(1);
/// The longest that any limit is believed.
const LONGEST: Duration = Duration::from_hours(1);

/// Rates by credential. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct RateLimits {
    known: Arc<Mutex<HashMap<String, TokenRate>>>,
}

#[derive(Clone, Copy, Default)]
struct TokenRate {
    quota: Option<RateQuota>,
    until: Option<Instant>,
    /// Limits in a row that said no time.
    strikes: u32,
}

/// Hourly request quota of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateQuota {
    /// Requests in all.
    pub limit: u64,
    pub left: u64,
}

impl RateLimits {
    /// Returns the time left until the next request may be made; None if it may be made now.
    pub fn pause(&self, credential: &str) -> Option<Duration> {
        let known = self.known.lock();
        let until = known.get(credential)?.until?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Returns the hourly quota of the last answer.
    pub fn quota(&self, credential: &str) -> Option<RateQuota> {
        let known = self.known.lock();
        known.get(credential)?.quota
    }

    /// Takes in an answer. Answers how long to wait if it was a limit.
    pub fn note(&self, credential: &str, headers: &HeaderMap, limited: bool) -> Option<Duration> {
        let mut known = self.known.lock();
        let rate = known.entry(credential.to_owned()).or_default();
        let quota = header_number(headers, "x-ratelimit-limit")
            .zip(header_number(headers, "x-ratelimit-remaining"));
        rate.quota = quota.map(|(limit, left)| RateQuota { limit, left });
        if !limited {
            rate.strikes = 0;
            return None;
        }
        let wait = limit_duration(headers).unwrap_or_else(|| {
            rate.strikes = (rate.strikes + 1).min(5);
            MINUTE * 2_u32.pow(rate.strikes - 1)
        });
        let wait = wait.min(LONGEST);
        rate.until = Some(Instant::now() + wait);
        Some(wait)
    }
}

/// Returns how long to wait after a limit that stops nothing else; a minute where no header says it.
pub(crate) fn told_wait(headers: &HeaderMap) -> Duration {
    limit_duration(headers).unwrap_or(MINUTE).min(LONGEST)
}

/// Returns the duration of a limit, as the headers give it.
fn limit_duration(headers: &HeaderMap) -> Option<Duration> {
    if let Some(seconds) = header_number(headers, "retry-after") {
        return Some(Duration::from_secs(seconds.max(1)));
    }
    if header_number(headers, "x-ratelimit-remaining") != Some(0) {
        return None;
    }
    let reset = header_number(headers, "x-ratelimit-reset")?;
    let left = reset.cast_signed() - Timestamp::now().as_second();
    // Clocks differ.
    Some(Duration::from_secs(u64::try_from(left).unwrap_or_default() + 5))
}

fn header_number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, String)]) -> HeaderMap {
        all.iter().map(|(n, v)| (http::HeaderName::from_static(n), v.parse().unwrap())).collect()
    }

    #[test]
    fn a_limit_without_a_time_is_waited_out_for_a_minute_and_longer_each_time() {
        let rates = RateLimits::default();
        let plain = headers(&[
            ("x-ratelimit-limit", "5000".into()),
            ("x-ratelimit-remaining", "4990".into()),
        ]);
        assert_eq!(rates.note("a", &plain, false), None);
        assert_eq!(rates.quota("a"), Some(RateQuota { limit: 5000, left: 4990 }));
        assert_eq!(rates.pause("a"), None);
        assert_eq!(rates.note("a", &plain, true), Some(MINUTE));
        assert_eq!(rates.note("a", &plain, true), Some(MINUTE * 2));
        assert!(rates.pause("a").is_some_and(|left| left > MINUTE));
        assert_eq!(rates.pause("b"), None, "another credential");
        let told = headers(&[("retry-after", "7".into())]);
        assert_eq!(rates.note("b", &told, true), Some(Duration::from_secs(7)));
        let reset = (Timestamp::now().as_second() + 100).to_string();
        let spent = headers(&[("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", reset)]);
        let wait = rates.note("c", &spent, true).unwrap();
        assert!((100..=106).contains(&wait.as_secs()), "{wait:?}");
    }
}
