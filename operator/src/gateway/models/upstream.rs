//! One model call to the provider, with retries where a repetition can't be billed twice.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use codebutler_crds::names::secret_key;
use codebutler_crds::wire::ErrorCode;
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use kube::ResourceExt as _;
use url::Url;

use super::retry::{self, Verdict};
use crate::gateway::context::{Caller, Context, SecretError};
use crate::gateway::remote::authority;

/// How long a provider may take for one answer.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Longest answer.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The Repo's own fields.
    #[error("the Repo's spec.model.baseURL can't be used: write https://host/v1")]
    BaseUrl,
    /// The Repo's Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The key has characters that no header can carry.
    #[error("the API key in Secret `{0}` has characters that an API key can't have")]
    KeyForm(String),
    /// 401 or 403.
    #[error("the provider refused the key of Secret `{0}`: put a valid one into it")]
    Key(String),
    /// 402.
    #[error("the provider says that the account of Secret `{0}` has no credit left")]
    Payment(String),
    /// 404.
    #[error("the provider does not know the model `{0}`, or spec.model.baseURL is wrong")]
    NotFound(String),
    /// 400, 413, 422.
    #[error("the provider finds fault with the request (status {0})")]
    Request(u16),
    /// Any other status.
    #[error("the provider answered with the unexpected status {0}")]
    Strange(u16),
    /// 429, 5xx, or no connection, to the end.
    #[error("the provider is not available right now ({what}): try again")]
    Unavailable {
        /// Status or the like.
        what: String,
        /// When it wants to be asked again.
        after: Option<Duration>,
    },
    /// The request was sent, and then nothing came, or not all of it.
    #[error("the provider's answer was lost on the way; whether it was billed is unknown")]
    Lost,
    /// More than anybody can use.
    #[error("the provider's answer is longer than {} MiB", MAX_ANSWER / 1024 / 1024)]
    TooLong,
    /// Not a completion.
    #[error("the provider's answer is no chat completion")]
    Garbled,
}

impl ModelError {
    /// The code that the agent acts on.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Request(_) => ErrorCode::InvalidRequest,
            Self::Unavailable { .. } => ErrorCode::Unavailable,
            _ => ErrorCode::Upstream,
        }
    }

    /// The metric's label.
    pub const fn outcome(&self) -> &'static str {
        match self {
            Self::BaseUrl | Self::Secret(_) | Self::KeyForm(_) => "misconfigured",
            Self::Key(_) | Self::Payment(_) => "refused",
            Self::NotFound(_) | Self::Request(_) | Self::Strange(_) => "rejected",
            Self::Unavailable { .. } => "unavailable",
            Self::Lost => "lost",
            Self::TooLong | Self::Garbled => "garbled",
        }
    }
}

/// Where and as whom to ask.
pub struct Upstream {
    url: Url,
    authorization: HeaderValue,
    secret: String,
    model: String,
}

impl Upstream {
    /// The provider of the caller's Repo.
    ///
    /// # Errors
    /// When the Repo or its Secret does not say it.
    pub async fn of(context: &Context, caller: &Caller) -> Result<Self, ModelError> {
        let spec = &caller.repo.spec.model;
        let mut url = Url::parse(&spec.base_url).map_err(|_| ModelError::BaseUrl)?;
        let host = authority(&url).ok_or(ModelError::BaseUrl)?;
        url.path_segments_mut()
            .map_err(|()| ModelError::BaseUrl)?
            .pop_if_empty()
            .extend(["chat", "completions"]);
        let namespace = caller.repo.namespace().unwrap_or_default();
        let key =
            context.secret(&namespace, &spec.credentials, secret_key::MODEL_API_KEY, &host).await?;
        let secret = spec.credentials.name.clone();
        let mut authorization = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| ModelError::KeyForm(secret.clone()))?;
        authorization.set_sensitive(true);
        Ok(Self { url, authorization, secret, model: caller.role.spec.model.default.clone() })
    }

    /// Asks until there is an answer, or none is to be expected.
    ///
    /// # Errors
    /// What to tell the caller.
    pub async fn ask(&self, http: &reqwest::Client, body: Vec<u8>) -> Result<Bytes, ModelError> {
        let body = Bytes::from(body);
        let mut attempt = 1;
        loop {
            let (what, asked) = match self.send(http, body.clone()).await? {
                Attempt::Answer(answer) => return Ok(answer),
                Attempt::Again(what, asked) => (what, asked),
            };
            let Some(wait) = retry::wait(attempt, asked, rand::random()) else {
                return Err(ModelError::Unavailable { what, after: asked });
            };
            tracing::info!(what, attempt, ?wait, "asking the provider again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn send(&self, http: &reqwest::Client, body: Bytes) -> Result<Attempt, ModelError> {
        let sent = http
            .post(self.url.clone())
            .timeout(TIMEOUT)
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .send()
            .await;
        let response = match sent {
            Ok(response) => response,
            // Nothing was sent, so nothing can have been billed.
            Err(error) if error.is_connect() => {
                return Ok(Attempt::Again("no connection".to_owned(), None));
            }
            Err(error) => {
                tracing::warn!(error = %error.without_url(), "a model call got no answer");
                return Err(ModelError::Lost);
            }
        };
        let status = response.status();
        match retry::verdict(status) {
            Verdict::Good => read(response).await.map(Attempt::Answer),
            Verdict::Again => {
                let asked = retry::asked_wait(response.headers());
                Ok(Attempt::Again(format!("status {}", status.as_u16()), asked))
            }
            Verdict::Key => Err(ModelError::Key(self.secret.clone())),
            Verdict::Payment => Err(ModelError::Payment(self.secret.clone())),
            Verdict::NotFound => Err(ModelError::NotFound(self.model.clone())),
            Verdict::Request => Err(ModelError::Request(status.as_u16())),
            Verdict::Strange => Err(ModelError::Strange(status.as_u16())),
        }
    }
}

enum Attempt {
    Answer(Bytes),
    /// Why, and how long the provider wants to be left alone.
    Again(String, Option<Duration>),
}

async fn read(mut response: reqwest::Response) -> Result<Bytes, ModelError> {
    let mut answer = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if answer.len() + chunk.len() > MAX_ANSWER => {
                return Err(ModelError::TooLong);
            }
            Ok(Some(chunk)) => answer.extend_from_slice(&chunk),
            Ok(None) => return Ok(answer.freeze()),
            Err(error) => {
                tracing::warn!(error = %error.without_url(), "a model's answer broke off");
                return Err(ModelError::Lost);
            }
        }
    }
}
