//! One model call to the provider, with retries where a repetition can't be billed twice.

pub mod lookup;
mod sending;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use codebutler_crds::Repo;
use codebutler_crds::model::ModelProvider;
use codebutler_crds::names::secret_key;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::{DialReach, DialTrouble, find_trouble};
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_gateway_core::remote::annotation_name;
use codebutler_gateway_core::secrets::SecretError;
use codebutler_runtime::step;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use url::Url;

use super::billing::ProviderBill;
use super::complaint;
use super::dialect::{ApiDialect, is_internal_url};
use super::refusal::{self, RefusalSubject, RefusedModel};
use super::retry;
use super::slow::{self, SlowModel};
use super::verdict::{self, AnswerVerdict, ModelRefusal};
use crate::budget::BilledCall;

/// Timeout for the first byte of a whole answer.
pub const WHOLE: Duration = Duration::from_mins(10);
/// Timeout for the first byte of a streamed answer.
pub const STREAMED: Duration = Duration::from_mins(3);
/// Longest silence in the middle of an answer.
pub const IDLE: Duration = Duration::from_mins(2);
/// Time for which a key is not read again.
const FRESH: Duration = Duration::from_secs(10);
pub const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("{0}.baseURL of the Repo can't be used: write https://host/v1")]
    BaseUrl(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The key has characters that no header can carry.
    #[error("the API key in Secret `{0}` has characters that an API key can't have")]
    KeyForm(String),
    /// The provider refused; asking again does not help.
    #[error("{}", .0.sentence)]
    Refused(Box<RefusedModel>),
    /// Something on the way to the provider that a person has to fix.
    #[error("{host} can't be reached: {trouble}")]
    Barred { host: String, trouble: DialTrouble },
    /// 429, 5xx, or no connection, to the end.
    #[error("{}", refusal::with_words(format!("the provider is not available right now ({what}): try again"), said))]
    Unavailable {
        what: String,
        /// The provider's words, masked.
        said: String,
        /// Wait before the next request, as the provider wants it.
        after: Option<Duration>,
    },
    /// The request was sent, and then nothing came, or not all of it.
    #[error("the provider's answer was lost on the way; whether it was billed is unknown")]
    Lost,
    /// The answer came, but a part of it did not, or can't be read. Its bill, where that came.
    #[error("a part of the provider's answer is missing or can't be read")]
    Incomplete(Option<Box<ProviderBill>>),
    /// The answer did not come in time, and a person can do something about it.
    #[error("{0}")]
    Slow(String),
    /// More than anybody can use.
    #[error("the provider's answer is longer than {} MiB", MAX_ANSWER / 1024 / 1024)]
    TooLong,
    /// The answer is not a completion.
    #[error("the provider's answer is no completion")]
    Garbled,
    /// The gateway can't put on record what it would spend.
    #[error("the gateway can't put the call on record right now: try again")]
    Unrecorded,
    #[error("{0}")]
    Exceeded(String),
}

impl ModelError {
    /// The code that the agent acts on.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(refused) => refused.code(),
            Self::Lost | Self::Incomplete(_) | Self::Garbled | Self::TooLong => {
                ErrorCode::Unanswered
            }
            Self::Unavailable { .. } | Self::Unrecorded => ErrorCode::Unavailable,
            Self::Exceeded(_) => ErrorCode::BudgetExceeded,
            Self::BaseUrl(_)
            | Self::Secret(_)
            | Self::KeyForm(_)
            | Self::Barred { .. }
            | Self::Slow(_) => ErrorCode::Upstream,
        }
    }

    /// Returns true if it was sent, and nobody knows whether it was billed.
    pub fn may_be_billed(&self) -> bool {
        match self {
            Self::Lost | Self::Incomplete(_) | Self::Slow(_) => true,
            Self::Refused(refused) => refused.verdict == AnswerVerdict::Unanswered,
            _ => false,
        }
    }

    /// Returns the bill of an answer that is of no use, where it came.
    pub fn bill(&self) -> Option<ProviderBill> {
        match self {
            Self::Incomplete(bill) => bill.as_deref().copied(),
            _ => None,
        }
    }

    /// Returns the tokens that the model takes, where a conversation was too long for it.
    pub fn window(&self) -> Option<u32> {
        match self {
            Self::Refused(refused) => refused.window,
            _ => None,
        }
    }

    /// Returns true if it was refused for being asked as a stream.
    pub fn is_about_streams(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.sentence.to_lowercase().contains("stream"))
    }

    /// The longest answer that there is credit for, if that is what is in the way.
    pub fn affordable(&self) -> Option<u32> {
        match self {
            Self::Refused(refused) => match refused.verdict {
                AnswerVerdict::Affordable(tokens) => Some(tokens),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true if the provider did not take the key.
    pub fn is_about_key(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.verdict == AnswerVerdict::Key)
    }

    pub fn outcome(&self) -> &'static str {
        match self {
            Self::BaseUrl(_) | Self::Secret(_) | Self::KeyForm(_) | Self::Barred { .. } => {
                "misconfigured"
            }
            Self::Refused(refused) => refused.outcome(),
            Self::Unavailable { .. } => "unavailable",
            Self::Unrecorded => "unrecorded",
            Self::Exceeded(_) => "budget_exceeded",
            Self::Lost => "lost",
            Self::Slow(_) => "slow",
            Self::TooLong | Self::Incomplete(_) | Self::Garbled => "garbled",
        }
    }
}

/// Keys of providers, for a moment. No Debug.
#[derive(Default)]
pub struct ProviderKeys {
    known: Mutex<HashMap<KeyId, (Instant, HeaderValue)>>,
}

/// Namespace and name of the Secret, and the host that it is for.
type KeyId = (String, String, String);

impl ProviderKeys {
    async fn of(
        &self,
        context: &GatewayContext,
        repo: &Repo,
        (provider, url): (&ModelProvider<'_>, &Url),
    ) -> Result<(KeyId, HeaderValue), ModelError> {
        let host = annotation_name(url).ok_or_else(|| ModelError::BaseUrl(provider.field()))?;
        let credentials = provider.credentials;
        let namespace = repo.namespace().unwrap_or_default();
        let id = (namespace, credentials.name.clone(), host);
        let known = self.lock().get(&id).cloned();
        if let Some((_, key)) = known.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok((id, key));
        }
        let to = (url, DialReach::Outside);
        let key = context.secret(&id.0, credentials, secret_key::MODEL_API_KEY, to).await?;
        let mut header = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| ModelError::KeyForm(credentials.name.clone()))?;
        header.set_sensitive(true);
        let mut known = self.lock();
        known.retain(|_, (at, _)| at.elapsed() < FRESH);
        known.insert(id.clone(), (Instant::now(), header.clone()));
        drop(known);
        Ok((id, header))
    }

    /// Has all of them read anew.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn forget(&self, id: &KeyId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<KeyId, (Instant, HeaderValue)>> {
        self.known.lock()
    }
}

/// The provider of a call, and the credential to ask it with.
pub struct ModelUpstream<'a> {
    keys: &'a ProviderKeys,
    id: KeyId,
    url: Url,
    authorization: HeaderValue,
    redactor: Arc<SecretRedactor>,
    pub dialect: ApiDialect,
    /// The field of the Repo that describes it, for sentences.
    field: String,
}

pub struct UpstreamRequest<'a> {
    pub path: &'a [&'a str],
    /// Subject of a refusal's sentence.
    pub subject: CallSubject<'a>,
    pub content_type: HeaderValue,
    /// Body, kept for retries.
    pub body: Bytes,
    /// Time that the answer may take to begin.
    pub patience: Duration,
    /// True if it is in the provider's own words, which want the key in a header of its own.
    pub is_native: bool,
}

/// Subject of a call, for sentences: the model and the role.
#[derive(Clone, Copy)]
pub struct CallSubject<'a> {
    /// The model's name, as the role says it.
    pub model: &'a str,
    /// The model's id at the provider.
    pub id: &'a str,
    /// The caller's `AgentRole`.
    pub role: &'a str,
    /// Models of the provider with similar names.
    pub nearest: &'a (dyn Fn() -> Vec<String> + Send + Sync),
}

impl<'a> ModelUpstream<'a> {
    /// Opens one of the providers of a Repo.
    ///
    /// # Errors
    /// When the Repo or its Secret does not say it.
    pub async fn of(
        keys: &'a ProviderKeys,
        context: &GatewayContext,
        repo: &Repo,
        provider: &ModelProvider<'_>,
    ) -> Result<Self, ModelError> {
        let field = provider.field();
        let url = Url::parse(provider.base_url).map_err(|_| ModelError::BaseUrl(field.clone()))?;
        let (id, authorization) = keys.of(context, repo, (provider, &url)).await?;
        let dialect = ApiDialect::of(provider);
        let redactor = context.redactors.of(repo);
        Ok(Self { keys, id, url, authorization, redactor, dialect, field })
    }

    /// The model with this id there, for what is said of slow answers.
    pub fn slow_model<'m>(&self, model: &'m str, id: &str) -> SlowModel<'m> {
        SlowModel { model, field: format!("{}.models.{id}", self.field) }
    }

    /// Returns true if it is a server of one's own network.
    pub fn is_internal(&self) -> bool {
        is_internal_url(&self.url)
    }

    /// Returns true if a model there costs nothing unless somebody names a price.
    pub fn is_free(&self) -> bool {
        self.dialect.is_free_at(&self.url)
    }

    /// Returns true if the same provider would be asked with another key.
    pub fn has_other_key(&self, other: &Self) -> bool {
        self.authorization != other.authorization
    }

    /// Asks until an answer begins, or none is to be expected. `failed` hears of each failure and
    /// says whether to go on trying.
    ///
    /// # Errors
    /// What to tell the caller.
    pub async fn ask(
        &self,
        http: &reqwest::Client,
        question: &UpstreamRequest<'_>,
        call: &mut BilledCall,
        failed: impl Fn() -> bool,
    ) -> Result<reqwest::Response, ModelError> {
        let mut attempt = 1;
        loop {
            step::point("before send");
            call.sent();
            let sent = self.send(http, question).await;
            step::point("after send");
            let (what, said, asked) = match sent {
                Ok(ProviderAttempt::Answer(answer)) => return Ok(answer),
                Ok(ProviderAttempt::Again { what, said, asked }) => (what, said, asked),
                Err(error) => {
                    if error.may_be_billed() {
                        failed();
                    } else {
                        call.refused();
                    }
                    return Err(error);
                }
            };
            call.refused();
            let wait = retry::retry_wait(attempt, asked, rand::random()).filter(|_| failed());
            let Some(wait) = wait else {
                return Err(ModelError::Unavailable { what, said, after: asked });
            };
            tracing::info!(what, said, attempt, ?wait, "provider_retried");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// Explains a refusal: a caller that asks again is told when to.
    pub fn tell(
        &self,
        subject: &CallSubject<'_>,
        status: u16,
        refusal: ModelRefusal,
    ) -> ModelError {
        let ModelRefusal { verdict, after, said, window } = refusal;
        let said = self.shown(&said);
        if verdict == AnswerVerdict::Again {
            return ModelError::Unavailable { what: format!("status {status}"), said, after };
        }
        if verdict == AnswerVerdict::Key {
            // A new one may be in the Secret already.
            self.keys.forget(&self.id);
        }
        let unknown = verdict == AnswerVerdict::UnknownModel;
        let nearest = if unknown { (subject.nearest)() } else { Vec::new() };
        let CallSubject { model, role, .. } = *subject;
        let secret = &self.id.1;
        let field = self.field.as_str();
        let about =
            RefusalSubject { secret, field, model, role, nearest: &nearest, status, window };
        ModelError::Refused(Box::new(RefusedModel::new(verdict, &about, &said)))
    }

    /// The provider's words as they may be shown.
    fn shown(&self, said: &str) -> String {
        refusal::shown_refusal(said, self.key(), &self.redactor)
    }

    /// Returns the bare key.
    fn key(&self) -> &str {
        self.authorization.to_str().unwrap_or_default().trim_start_matches("Bearer ")
    }

    async fn send(
        &self,
        http: &reqwest::Client,
        question: &UpstreamRequest<'_>,
    ) -> Result<ProviderAttempt, ModelError> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .map_err(|()| ModelError::BaseUrl(self.field.clone()))?
            .pop_if_empty()
            .extend(question.path);
        let sent = self
            .call_request(http, url, question.is_native)?
            .header(CONTENT_TYPE, question.content_type.clone())
            .body(question.body.clone())
            .send();
        let patience = question.patience;
        let response = match timeout(patience, sent).await {
            Ok(Ok(response)) => response,
            // Nothing was sent, so nothing can have been billed.
            Ok(Err(error)) if error.is_connect() => {
                if let Some(trouble) = find_trouble(&error) {
                    return Err(ModelError::Barred { host: self.id.2.clone(), trouble });
                }
                let what = "no connection".to_owned();
                return Ok(ProviderAttempt::Again { what, said: String::new(), asked: None });
            }
            Ok(Err(error)) => {
                tracing::warn!(error = %error.without_url(), "provider_request_failed");
                return Err(ModelError::Lost);
            }
            Err(_) => {
                tracing::warn!(?patience, "provider_timed_out");
                let CallSubject { model, id, .. } = question.subject;
                let told = slow::tell_silence(&self.slow_model(model, id), patience);
                return Err(if self.is_internal() {
                    ModelError::Slow(told)
                } else {
                    ModelError::Lost
                });
            }
        };
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(ProviderAttempt::Answer(response));
        }
        if let Some(trouble) = DialTrouble::by_status(status.as_u16()) {
            return Err(ModelError::Barred { host: self.id.2.clone(), trouble });
        }
        let headers = response.headers().clone();
        let body = read_beginning(response).await;
        let refusal = verdict::classify_answer(status.as_u16(), &headers, &body, Timestamp::now());
        match self.tell(&question.subject, status.as_u16(), refusal) {
            ModelError::Unavailable { what, said, after } => {
                Ok(ProviderAttempt::Again { what, said, asked: after })
            }
            error => Err(error),
        }
    }
}

/// Reads as much of a refusal as is looked at.
async fn read_beginning(mut response: reqwest::Response) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < complaint::READ
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // The bytes that came until then are of use, too.
    let _ = timeout(Duration::from_secs(5), reading).await;
    body.truncate(complaint::READ);
    body
}

/// The provider's id of an answer that has begun, where it is told so early.
pub fn id_of(response: &reqwest::Response) -> Option<&str> {
    response.headers().get("x-generation-id")?.to_str().ok()
}

enum ProviderAttempt {
    Answer(reqwest::Response),
    /// The call is to be tried again: the reason, the provider's words, and the wait that it asks
    /// for.
    Again {
        what: String,
        said: String,
        asked: Option<Duration>,
    },
}

/// The next piece of an answer; nothing at its end.
///
/// # Errors
/// `Lost` when it broke off, or nothing came for too long.
pub async fn next_piece(response: &mut reqwest::Response) -> Result<Option<Bytes>, ModelError> {
    match timeout(IDLE, response.chunk()).await {
        Ok(Ok(chunk)) => Ok(chunk),
        Ok(Err(error)) => {
            tracing::warn!(error = %error.without_url(), "answer_interrupted");
            Err(ModelError::Lost)
        }
        Err(_) => {
            tracing::warn!(idle = ?IDLE, "answer_stalled");
            Err(ModelError::Lost)
        }
    }
}

/// The whole of an answer.
///
/// # Errors
/// `Lost` or `TooLong`.
pub async fn collect_answer(mut response: reqwest::Response) -> Result<Bytes, ModelError> {
    let mut answer = BytesMut::new();
    while let Some(chunk) = next_piece(&mut response).await? {
        if answer.len() + chunk.len() > MAX_ANSWER {
            return Err(ModelError::TooLong);
        }
        answer.extend_from_slice(&chunk);
    }
    Ok(answer.freeze())
}
