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
const RETRY_AFTER_MS: &str = "retry-after-ms";

/// The wait that headers ask for: `Retry-After` in seconds or as a date, and `Retry-After-Ms`, which OpenAI and Azure
/// send for waits of less than a second.
pub fn asked_wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let millis = header_text(headers, RETRY_AFTER_MS).and_then(|text| text.parse::<f64>().ok());
    if let Some(wait) = millis.and_then(|millis| wait_of(millis / 1000.0)) {
        return Some(wait);
    }
    let text = header_text(headers, RETRY_AFTER.as_str())?;
    let wait = if let Ok(seconds) = text.parse::<f64>() {
        wait_of(seconds)?
    } else {
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Duration::try_from(date.duration_since(now)).unwrap_or_default()
    };
    Some(wait.min(LONGEST_ASKED))
}

/// The wait until a time, unless that is past.
pub fn wait_until(time: Timestamp, now: Timestamp) -> Option<Duration> {
    let wait = Duration::try_from(time.duration_since(now)).ok()?;
    Some(wait.min(LONGEST_ASKED)).filter(|wait| !wait.is_zero())
}

fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

/// A wait of so many seconds, unless it is none.
fn wait_of(seconds: f64) -> Option<Duration> {
    let is_wait = seconds.is_finite() && seconds >= 0.0;
    is_wait.then(|| Duration::from_secs_f64(seconds.min(LONGEST_ASKED.as_secs_f64())))
}

/// The wait that words ask for: `try again in 6m0.5s` (OpenAI, Groq), `retry in 36.6s` (Google), `retry after 13
/// seconds` (Azure), `try again in 20ms`.
pub fn worded_wait(said: &str) -> Option<Duration> {
    const BEFORE: [&str; 4] = ["try again in ", "retry in ", "retry after ", "try again after "];
    let said = said.to_lowercase();
    let mut found = BEFORE.iter().filter_map(|words| said.split_once(words));
    found.find_map(|(_, rest)| read_span(rest))
}

/// A span of time at the beginning of a text: numbers with units, one after the other.
fn read_span(text: &str) -> Option<Duration> {
    let (mut rest, mut total, mut is_read) = (text, 0.0, false);
    loop {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c: char| !is_digit(c)).unwrap_or(rest.len());
        let Ok(number) = rest[..end].parse::<f64>() else { break };
        let unit = rest[end..].trim_start();
        let length = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let Some(seconds) = unit_seconds(&unit[..length]) else { break };
        (total, is_read) = (total + number * seconds, true);
        rest = &unit[length..];
    }
    is_read.then_some(total).and_then(wait_of)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "milliseconds" => 0.001,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
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
    use http::HeaderName;

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
        assert_eq!(with("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(with("soon"), None);
        assert_eq!(with("-1"), None);
        let both = [(RETRY_AFTER, "1"), (HeaderName::from_static(RETRY_AFTER_MS), "250")];
        let both = both.map(|(name, text)| (name, text.parse().unwrap()));
        assert_eq!(asked_wait(&HeaderMap::from_iter(both), now), Some(Duration::from_millis(250)));
    }

    #[test]
    fn a_wish_in_words_is_read() {
        for (said, millis) in [
            (
                "Rate limit reached for gpt-5.6 on tokens per min. Please try again in 6m0.5s. Visit",
                Some(360_500),
            ),
            ("Rate limit reached. Please try again in 20ms.", Some(20)),
            ("* Quota exceeded. Please retry in 36.6s.", Some(36_600)),
            ("Please retry after 13 seconds.", Some(13_000)),
            ("Please try again in 2h30m.", Some(3_600_000)),
            ("Please try again in a moment.", None),
            ("Please try again later.", None),
            ("retry after 3 apples", None),
        ] {
            assert_eq!(worded_wait(said), millis.map(Duration::from_millis), "{said}");
        }
    }
}
