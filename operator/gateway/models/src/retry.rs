//! Computes the backoff before a provider is asked again.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::Timestamp;

/// Most requests for one call, the first included.
pub const ATTEMPTS: u32 = 4;
/// Longest wait between two attempts. A provider that asks for more is not waited for here: the
/// caller is told when to come back.
pub const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Longest wait that is passed on to the caller.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// `Retry-After`, in seconds or as a date.
pub fn asked_wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Duration::try_from(date.duration_since(now)).unwrap_or_default()
    };
    Some(wait.min(LONGEST_ASKED))
}

/// Returns the wait after the `attempt`th request (from 1); None if the caller is to wait instead.
/// `jitter` is a random number from 0 to 1.
pub fn retry_wait(attempt: u32, asked: Option<Duration>, jitter: f64) -> Option<Duration> {
    if attempt >= ATTEMPTS || asked.is_some_and(|asked| asked > LONGEST_WAIT) {
        return None;
    }
    let grown = Duration::from_millis(500) * 2_u32.saturating_pow(attempt.saturating_sub(1));
    let spread = grown.min(LONGEST_WAIT).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    Some(asked.map_or(spread, |asked| asked + spread / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_are_spread_and_end() {
        let ms = |attempt, asked, jitter| retry_wait(attempt, asked, jitter).map(|d| d.as_millis());
        assert_eq!(ms(1, None, 0.0), Some(250));
        assert_eq!(ms(1, None, 1.0), Some(500));
        assert_eq!(ms(3, None, 1.0), Some(2000));
        assert_eq!(ms(ATTEMPTS, None, 1.0), None);
        assert_eq!(ms(1, Some(Duration::from_secs(3)), 1.0), Some(3125));
        assert_eq!(ms(1, Some(Duration::from_mins(1)), 1.0), None);
    }

    #[test]
    fn a_providers_wish_is_read() {
        let now = "2026-10-21T07:27:30Z".parse().unwrap();
        let with = |text: &str| {
            asked_wait(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]), now)
        };
        assert_eq!(with("7"), Some(Duration::from_secs(7)));
        assert_eq!(with("99999999"), Some(LONGEST_ASKED));
        assert_eq!(with("Wed, 21 Oct 2026 07:28:00 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(with("Wed, 21 Oct 2026 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(with("soon"), None);
        assert_eq!(with("-1"), None);
    }
}
