//! Limits of a search service as its answers name them. Pure.

use std::time::Duration;

use http::HeaderMap;

/// Longest wait for a limit that passes by itself; for a longer one nobody is kept waiting.
const LONGEST_WAIT: Duration = Duration::from_secs(3);
const DAY: u64 = 86_400;

/// A limit of the account that a search ran into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::web) struct ReachedLimit {
    /// Time until the service answers again, where it tells that.
    pub passes_in: Option<Duration>,
    /// Searches that the window takes, where that is told.
    pub most: Option<u64>,
}

impl ReachedLimit {
    /// Reads Brave's headers: a figure for each window, such as `1, 15000`. Of the windows that are used up the longest
    /// decides.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let figures = |name: &str| -> Vec<u64> {
            let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            text.split(',').filter_map(|figure| figure.trim().parse().ok()).collect()
        };
        let (remaining, resets) = (figures("x-ratelimit-remaining"), figures("x-ratelimit-reset"));
        let limits = figures("x-ratelimit-limit");
        // Zero stands for a window without a limit, of which nothing is ever left either.
        let is_limited = |index: usize| limits.get(index).is_none_or(|most| *most > 0);
        let is_used =
            |index: usize| is_limited(index) && remaining.get(index).is_none_or(|left| *left == 0);
        let used = resets.iter().enumerate().filter(|(index, _)| is_used(*index));
        match used.max_by_key(|(_, seconds)| **seconds) {
            Some((index, seconds)) => Self {
                passes_in: Some(Duration::from_secs(*seconds)),
                most: limits.get(index).copied(),
            },
            None => Self::default(),
        }
    }

    /// The wait after which the search is made again, if it is short. `jitter` is from 0 to 1.
    pub(super) fn short_wait(self, jitter: f64) -> Option<Duration> {
        let wait = self.passes_in.unwrap_or(Duration::from_secs(1));
        let spread = Duration::from_millis(250).mul_f64(jitter.clamp(0.0, 1.0));
        (wait <= LONGEST_WAIT).then(|| wait.max(Duration::from_millis(200)) + spread)
    }

    /// True for the limit of a month's plan, which waiting does not help against.
    pub(super) fn is_quota(self) -> bool {
        self.passes_in.is_some_and(|wait| wait > Duration::from_hours(1))
    }

    /// Words for the limit, and for when it passes.
    pub(super) fn describe(self) -> String {
        let most = self.most.map(|most| format!(" (the plan has {most})")).unwrap_or_default();
        let when = match self.passes_in.map(|wait| wait.as_secs()) {
            None => String::new(),
            Some(seconds) if seconds >= DAY => format!(", again in {} days", seconds.div_ceil(DAY)),
            Some(seconds) if seconds > 120 => format!(", again in {} min", seconds.div_ceil(60)),
            Some(seconds) => format!(", again in {} s", seconds.max(1)),
        };
        format!("{most}{when}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&'static str, &str)]) -> ReachedLimit {
        let pairs =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        ReachedLimit::read(&pairs.collect::<HeaderMap>())
    }

    #[test]
    fn the_window_that_is_used_up_says_when_to_search_again() {
        let second = read(&[
            ("x-ratelimit-limit", "1, 15000"),
            ("x-ratelimit-remaining", "0, 1000"),
            ("x-ratelimit-reset", "1, 1419704"),
        ]);
        assert_eq!(second.passes_in, Some(Duration::from_secs(1)));
        assert_eq!(second.short_wait(0.0), Some(Duration::from_secs(1)));
        assert!(!second.is_quota());
        assert_eq!(second.describe(), " (the plan has 1), again in 1 s");
        let month = read(&[
            ("x-ratelimit-limit", "1, 15000"),
            ("x-ratelimit-remaining", "0, 0"),
            ("x-ratelimit-reset", "1, 1419704"),
        ]);
        assert_eq!((month.short_wait(1.0), month.is_quota()), (None, true));
        assert_eq!(month.describe(), " (the plan has 15000), again in 17 days");
    }

    #[test]
    fn a_month_without_a_limit_is_never_used_up() {
        let second = read(&[
            ("x-ratelimit-limit", "50, 0"),
            ("x-ratelimit-remaining", "0, 0"),
            ("x-ratelimit-reset", "1, 1419704"),
        ]);
        assert_eq!(second.short_wait(0.0), Some(Duration::from_secs(1)));
        assert!(!second.is_quota());
        assert_eq!(second.describe(), " (the plan has 50), again in 1 s");
    }

    #[test]
    fn a_limit_without_readable_headers_passes_after_a_moment() {
        for pairs in [&[][..], &[("x-ratelimit-reset", "soon")], &[("x-ratelimit-reset", "-1, ")]] {
            let limit = read(pairs);
            assert_eq!((limit, limit.is_quota()), (ReachedLimit::default(), false));
            assert_eq!(limit.short_wait(0.0), Some(Duration::from_secs(1)));
            assert_eq!(limit.describe(), "");
        }
    }
}
