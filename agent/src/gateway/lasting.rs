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
    /// arrived before. A connection that is lost after minutes is retried as long as one that is lost at once; a
    /// timeout ends it.
    pub(super) async fn retry_lasting<T: DeserializeOwned>(
        &self,
        (mut again, limit): (bool, Duration),
        build: impl Fn(bool) -> Result<RequestBuilder, GatewayError>,
    ) -> Result<T, GatewayError> {
        let (mut since, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let began = Instant::now();
            let request = build(again).map(|request| request.timeout(limit));
            let error = match send_once(request).await {
                Ok(answered) => return parse_answer(&answered.body),
                Err(error) => error,
            };
            if began.elapsed() > PATIENCE {
                (since, pause) = (Instant::now(), FIRST_PAUSE);
            }
            if !error.may_pass() || is_over(&error) || since.elapsed() + pause > PATIENCE {
                return Err(error);
            }
            again |= !has_begun_nothing(&error);
            tracing::debug!(%error, ?pause, again, "long_request_retried");
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
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
