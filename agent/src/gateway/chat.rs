//! Model calls. What the way to the gateway does wrong is repeated here; what the model or its
//! provider does wrong is the run's to judge.

use std::time::{Duration, Instant};

use bytes::Bytes;
use codebutler_wire::{ErrorBody, ErrorCode, STAND_IN, path};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

use crate::experiment::change_body;

use super::{FIRST_PAUSE, GatewayClient, GatewayError, LONGEST_PAUSE, read_refusal};

/// How long the way to the gateway is tried for.
const PATIENCE: Duration = Duration::from_mins(4);
/// A model may think for long; the run's own limit is usually shorter.
const TIMEOUT: Duration = Duration::from_mins(30);

/// A model's answer as it came.
#[derive(Clone, Debug)]
pub struct ChatAnswer {
    pub body: Bytes,
    /// The model that gave it in place of the one that was asked.
    pub instead: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct ChatError {
    #[source]
    pub error: GatewayError,
    /// When a repetition may be worth it, where somebody said so.
    pub retry_after: Option<Duration>,
}

impl From<GatewayError> for ChatError {
    fn from(error: GatewayError) -> Self {
        Self { error, retry_after: None }
    }
}

impl ChatError {
    /// Whether the same call may be answered later.
    pub fn may_pass(&self) -> bool {
        let later = [ErrorCode::Unavailable, ErrorCode::Unanswered, ErrorCode::BudgetExceeded];
        self.error.code().is_some_and(|code| later.contains(&code))
    }

    /// Whether it is nobody's word about this call: then it is repeated as any other.
    fn is_on_the_way(&self) -> bool {
        self.error.may_pass() && self.error.code() != Some(ErrorCode::Unavailable)
    }
}

impl GatewayClient {
    /// A model call with a body of JSON; the answer as it came.
    ///
    /// # Errors
    /// With what the gateway says, at once; without a word of it only after a while.
    pub async fn chat(&self, body: Bytes) -> Result<ChatAnswer, ChatError> {
        let body = change_body(&self.arm, body);
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.chat_once(body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.is_on_the_way() || Instant::now() + pause > deadline {
                return Err(error);
            }
            tracing::debug!(%error, ?pause, "model_call_retried");
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn chat_once(&self, body: Bytes) -> Result<ChatAnswer, ChatError> {
        let request = self.request(Method::POST, path::CHAT)?.body(body);
        let request = request.header(CONTENT_TYPE, "application/json").timeout(TIMEOUT);
        let answer = request.send().await.map_err(GatewayError::Unreachable)?;
        let status = answer.status();
        let instead = answer.headers().get(STAND_IN).and_then(|model| model.to_str().ok());
        let instead = instead.map(ToOwned::to_owned);
        let body = answer.bytes().await.map_err(GatewayError::Unreachable)?;
        if status.is_success() {
            return Ok(ChatAnswer { body, instead });
        }
        let told: Option<ErrorBody> = serde_json::from_slice(&body).ok();
        let seconds = told.and_then(|told| told.error.retry_after);
        let retry_after = seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Err(ChatError { error: read_refusal(status, &body), retry_after })
    }
}
