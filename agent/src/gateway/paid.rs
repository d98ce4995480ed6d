//! Calls that last for minutes and are paid for, with keys: what is sent a second time only asks what became of the first.

use std::time::{Duration, Instant};

use codebutler_wire::{WebResults, WebSearch, path};
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;

use super::mcp::is_over;
use super::{
    FIRST_PAUSE, GatewayClient, GatewayError, LONGEST_PAUSE, PATIENCE, parse_answer, send_once,
};

/// As long as a provider may take for a whole answer, and the gateway's own attempts before.
const SEARCH_LIMIT: Duration = Duration::from_mins(30);

impl GatewayClient {
    /// What the web's search finds. The same key is the same search.
    ///
    /// # Errors
    /// With what the gateway says, at once; without a word of it only after a while.
    pub async fn web_search(&self, wanted: &WebSearch) -> Result<WebResults, GatewayError> {
        self.pay_once((wanted.again, SEARCH_LIMIT), |again| {
            let wanted = WebSearch { again, ..wanted.clone() };
            Ok(self.request(Method::POST, path::WEB_SEARCH)?.json(&wanted))
        })
        .await
    }

    /// Sends a request of at most `limit`, and asks again what became of it where that is not known. What is built is
    /// told whether the call may have arrived before.
    pub(super) async fn pay_once<T: DeserializeOwned>(
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
            tracing::debug!(%error, ?pause, again, "paid_request_retried");
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
