//! Requests that last for minutes, and are repeated with a key where they cost something: what is sent a second time
//! only asks what became of the first.

use std::time::{Duration, Instant};

use codebutler_wire::{WebResults, WebSearch, path};
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;

use super::{
    FIRST_PAUSE, GatewayClient, GatewayError, LONGEST_PAUSE, PATIENCE, parse_answer, send_once,
};

/// Timeout of a search: the longest that a provider may take for a whole answer, and the gateway's own attempts
/// before.
const SEARCH_LIMIT: Duration = Duration::from_mins(30);
/// Attempts lost after minutes that are each followed by as much patience as the first one.
const MAX_RENEWALS: u32 = 3;

impl GatewayClient {
    /// Searches the web, once per key.
    ///
    /// # Errors
    /// With what the gateway says, at once; without a word of it only after a while.
    pub async fn web_search(&self, wanted: &WebSearch) -> Result<WebResults, GatewayError> {
        self.retry_lasting((wanted.again, SEARCH_LIMIT), |again| {
            let wanted = WebSearch { again, ..wanted.clone() };
            Ok(self.request(Method::POST, path::WEB_SEARCH)?.json(&wanted))
        })
        .await
    }

    /// Sends a request of at most `limit`, and again where no answer came. `build` is told whether it may have
    /// arrived before. A connection that is lost after minutes is retried as long as one that is lost at once, but a
    /// few times only; a timeout ends it.
    pub(super) async fn retry_lasting<T: DeserializeOwned>(
        &self,
        (mut again, limit): (bool, Duration),
        build: impl Fn(bool) -> Result<RequestBuilder, GatewayError>,
    ) -> Result<T, GatewayError> {
        let mut patience = RetryPatience::new(Instant::now());
        loop {
            let began = Instant::now();
            let request = build(again).map(|request| request.timeout(limit));
            let error = match send_once(request).await {
                Ok(answered) => return parse_answer(&answered.body),
                Err(error) => error,
            };
            if !error.may_pass() || is_over(&error) {
                return Err(error);
            }
            let Some(pause) = patience.next_pause(began, Instant::now()) else {
                return Err(error);
            };
            again |= !has_begun_nothing(&error);
            tracing::debug!(%error, ?pause, again, "long_request_retried");
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
        }
    }
}

/// Decides how long a request that fails on its way is repeated.
struct RetryPatience {
    /// Start of the current patience.
    since: Instant,
    pause: Duration,
    renewals: u32,
}

impl RetryPatience {
    const fn new(now: Instant) -> Self {
        Self { since: now, pause: FIRST_PAUSE, renewals: 0 }
    }

    /// The pause before the next attempt, after one that began at `began` and failed at `now`; None if there is to be
    /// none. A gateway that fails each time after minutes would otherwise be asked until the run ends.
    fn next_pause(&mut self, began: Instant, now: Instant) -> Option<Duration> {
        let took = now.saturating_duration_since(began);
        if took > PATIENCE && self.renewals < MAX_RENEWALS {
            (self.since, self.pause) = (now, FIRST_PAUSE);
            self.renewals += 1;
        }
        if now.saturating_duration_since(self.since) + self.pause > PATIENCE {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        Some(pause)
    }
}

/// True where the call did not get as far as to cost anything: the gateway refused it, or was not there.
fn has_begun_nothing(error: &GatewayError) -> bool {
    match error {
        GatewayError::Refused { .. } | GatewayError::Token { .. } => true,
        GatewayError::Unreachable(error) => error.is_connect(),
        _ => false,
    }
}

/// True if the time for a call is over.
pub fn is_over(error: &GatewayError) -> bool {
    matches!(error, GatewayError::Unreachable(error) if error.is_timeout() && !error.is_connect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the attempts at a request each of which fails after `each`.
    fn attempts(each: Duration) -> u32 {
        let mut now = Instant::now();
        let mut patience = RetryPatience::new(now);
        for attempt in 1..10_000 {
            let began = now;
            now += each;
            match patience.next_pause(began, now) {
                Some(pause) => now += pause,
                None => return attempt,
            }
        }
        panic!("repeated without end");
    }

    #[test]
    fn what_always_fails_after_minutes_is_repeated_a_few_times_only() {
        assert_eq!(attempts(Duration::from_mins(5)), 4);
        // The gateway restarts: it is refused at once for a minute.
        assert!((10..30).contains(&attempts(Duration::ZERO)));
        assert_eq!(attempts(Duration::from_secs(50)), 2);
    }

    #[test]
    fn a_connection_that_is_lost_after_minutes_gets_the_whole_patience() {
        let begun = Instant::now();
        let mut patience = RetryPatience::new(begun);
        let lost = begun + Duration::from_mins(10);
        assert_eq!(patience.next_pause(begun, lost), Some(FIRST_PAUSE));
        let later = lost + PATIENCE / 2;
        assert!(patience.next_pause(later, later).is_some());
        let over = lost + PATIENCE;
        assert_eq!(patience.next_pause(over, over), None);
    }
}
