//! Calls to Slack's Web API: transport, rate limits, time limits and errors that say nothing but
//! Slack's own code. Answers are read leniently into the caller's types.

use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slack_morphism::errors::SlackClientError;
use slack_morphism::hyper_tokio::connector::SlackClientHyperConnector;
use slack_morphism::prelude::{SlackApiToken, SlackApiTokenValue, SlackClient};
use url::Url;

use super::metrics::{CallLabels, Metrics};

/// One answer must come within this time.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Times that a call is repeated because Slack said "later".
const LIMITED: u32 = 5;
/// The longest "later" that is waited for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Times that a reading call is repeated after a failure on the way.
const REREAD: u32 = 3;

/// Why a call did not succeed. Carries no text of a message and no token.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CallError {
    /// Slack answered with an error code.
    #[error("Slack refused {method}: {code}")]
    Refused {
        /// Slack's method.
        method: &'static str,
        /// Slack's code, such as `not_in_channel`.
        code: String,
        /// The scope that is missing, for `missing_scope`.
        needed: Option<String>,
    },
    /// Slack kept saying "later".
    #[error("Slack limits {method}: try again later")]
    Limited {
        /// Slack's method.
        method: &'static str,
    },
    /// No usable answer: whether the call had its effect is not known.
    #[error("Slack did not answer {method} properly ({what})")]
    Failed {
        /// Slack's method.
        method: &'static str,
        /// What happened, in a word.
        what: String,
    },
}

impl CallError {
    /// Slack's code, if it answered with one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }
}

type Client = SlackClient<SlackClientHyperConnector<HttpsConnector<HttpConnector>>>;

/// A client without identity; the token comes with each call.
#[derive(Clone)]
pub struct Web {
    client: Arc<Client>,
    metrics: Metrics,
    /// `host` or `host:port`, as Secrets name it.
    host: String,
}

impl Web {
    /// A client for the API at `base`.
    ///
    /// # Errors
    /// When the system's certificate authorities can't be read.
    pub fn new(base: &Url, metrics: Metrics) -> std::io::Result<Self> {
        let provider = rustls::crypto::ring::default_provider();
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)?
            .https_or_http()
            .enable_http1()
            .build();
        let connector = SlackClientHyperConnector::with_connector(connector)
            .with_slack_api_url(base.as_str().trim_end_matches('/'));
        let name = base.host_str().unwrap_or_default();
        let host = base.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        Ok(Self { client: Arc::new(SlackClient::new(connector)), metrics, host })
    }

    /// Where tokens are sent.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// A reading call; repeated when the answer got lost.
    pub async fn get<R: DeserializeOwned + Send>(
        &self,
        token: &SlackApiToken,
        method: &'static str,
        params: &[(&str, &str)],
    ) -> Result<R, CallError> {
        let params: Vec<(&str, Option<&str>)> =
            params.iter().map(|(name, value)| (*name, Some(*value))).collect();
        let mut failures = 0;
        loop {
            let session = self.client.open_session(token);
            let call = || session.http_session_api.http_get::<R, _, _>(method, &params, None);
            match self.patiently(method, call).await {
                Err(CallError::Failed { .. }) if failures < REREAD => {
                    failures += 1;
                    tokio::time::sleep(Duration::from_millis(100 << failures)).await;
                }
                result => return result,
            }
        }
    }

    /// A writing call. After `Failed` it may have had its effect.
    pub async fn post<R: DeserializeOwned + Send>(
        &self,
        token: &SlackApiToken,
        method: &'static str,
        body: &Value,
    ) -> Result<R, CallError> {
        let session = self.client.open_session(token);
        let call = || session.http_session_api.http_post::<Value, R>(method, body, None);
        self.patiently(method, call).await
    }

    /// Repeats a call for as long as Slack says "later".
    async fn patiently<R, F>(
        &self,
        method: &'static str,
        call: impl Fn() -> F,
    ) -> Result<R, CallError>
    where
        F: Future<Output = Result<R, SlackClientError>>,
    {
        for _ in 0..=LIMITED {
            let result = match tokio::time::timeout(TIMEOUT, call()).await {
                Ok(result) => result.map_err(|error| outcome(method, &error)),
                Err(_) => Err(Outcome::Error(failed(method, "no answer in time"))),
            };
            let (label, result) = match result {
                Ok(answer) => ("ok", Some(Ok(answer))),
                Err(Outcome::Later(wait)) => {
                    self.count(method, "limited");
                    tokio::time::sleep(wait.min(LONGEST_WAIT)).await;
                    continue;
                }
                Err(Outcome::Error(error)) => {
                    let label = if error.code().is_some() { "refused" } else { "failed" };
                    (label, Some(Err(error)))
                }
            };
            self.count(method, label);
            if let Some(result) = result {
                return result;
            }
        }
        Err(CallError::Limited { method })
    }

    fn count(&self, method: &'static str, outcome: &'static str) {
        self.metrics.calls.get_or_create(&CallLabels { method, outcome }).inc();
    }
}

/// A token as the client takes it.
pub fn token(value: &str) -> SlackApiToken {
    SlackApiToken::new(SlackApiTokenValue(value.to_owned()))
}

enum Outcome {
    Later(Duration),
    Error(CallError),
}

fn failed(method: &'static str, what: impl Into<String>) -> CallError {
    CallError::Failed { method, what: what.into() }
}

/// The client's errors carry whole bodies: only the code leaves this function.
fn outcome(method: &'static str, error: &SlackClientError) -> Outcome {
    let second = Duration::from_secs(1);
    Outcome::Error(match error {
        SlackClientError::RateLimitError(limit) => {
            return Outcome::Later(limit.retry_after.unwrap_or(second));
        }
        SlackClientError::ApiError(refusal) => match refusal.code.as_str() {
            "ratelimited" | "rate_limited" => return Outcome::Later(second),
            "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" => {
                failed(method, refusal.code.as_str())
            }
            code => {
                let body = refusal.http_response_body.as_deref().unwrap_or_default();
                let body: Value = serde_json::from_str(body).unwrap_or_default();
                let needed = body["needed"].as_str().map(str::to_owned);
                CallError::Refused { method, code: code.chars().take(64).collect(), needed }
            }
        },
        SlackClientError::HttpError(http) => {
            failed(method, format!("status {}", http.status_code.as_u16()))
        }
        SlackClientError::ProtocolError(_) => failed(method, "unreadable answer"),
        _ => failed(method, "no connection"),
    })
}
