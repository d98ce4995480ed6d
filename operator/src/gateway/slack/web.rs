//! Calls to Slack's Web API: transport, rate limits, time limits and errors that say nothing but
//! Slack's own code. Answers are read leniently into the caller's types.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use slack_morphism::errors::SlackClientError;
use slack_morphism::hyper_tokio::connector::SlackClientHyperConnector;
use slack_morphism::prelude::{SlackApiToken, SlackApiTokenValue, SlackClient};
use url::Url;

use super::literal::literal;
use super::metrics::Metrics;
use super::queue::{Asked, Queue, Turn, Urgency};
use super::scopes::Scopes;
use crate::gateway::dial::{Connector, Dialer, Reach, Trouble, trouble};
use crate::gateway::github::text::line;

/// One answer must come within this time.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Times that a call is repeated because Slack said "later".
const LIMITED: u32 = 5;
/// The longest "later" that is waited for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Times that a reading call is repeated after a failure on the way.
const REREAD: u32 = 3;
/// Characters of Slack's own sentences that are passed on, and of its codes.
const SAID: usize = 300;
const CODE: usize = 64;

/// Why a call did not succeed. Carries no text of a message and no token.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CallError {
    /// Slack answered with an error code.
    #[error("Slack refused {method}: {code}{}", remark(said.as_deref()))]
    Refused {
        /// Slack's method.
        method: &'static str,
        /// Slack's code, such as `not_in_channel`.
        code: String,
        /// The scope that is missing, for `missing_scope`.
        needed: Option<String>,
        /// Slack's own sentences about it, on one line and cut; to be masked where they are shown.
        said: Option<String>,
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

type Client = SlackClient<SlackClientHyperConnector<Connector>>;

/// A client without identity; the token comes with each call.
#[derive(Clone)]
pub struct Web {
    client: Arc<Client>,
    metrics: Metrics,
    /// `host` or `host:port`, as Secrets name it.
    host: String,
    scheme: String,
    base: Url,
    queue: Queue,
    /// Of its reading calls.
    urgency: Urgency,
    dialer: Dialer,
}

impl Web {
    /// A client for the API at `base`.
    pub fn new(base: &Url, metrics: Metrics, dialer: &Dialer) -> Self {
        let connector = SlackClientHyperConnector::with_connector(dialer.connector())
            .with_slack_api_url(base.as_str().trim_end_matches('/'));
        let name = base.host_str().unwrap_or_default();
        let host = base.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let scheme = base.scheme().to_owned();
        let client = Arc::new(SlackClient::new(connector));
        let queue = Queue::new(metrics.clone());
        let (base, dialer) = (base.clone(), dialer.clone());
        let urgency = Urgency::Awaited;
        Self { client, metrics, host, scheme, base, queue, urgency, dialer }
    }

    /// Where tokens are sent.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// What connects to Slack.
    pub fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// For the bytes of files: follows no redirect.
    fn http(&self) -> &reqwest::Client {
        self.dialer.http(Reach::Anywhere)
    }

    /// The same, for reading that nobody waits for.
    pub fn upkeep(&self) -> Self {
        Self { urgency: Urgency::Upkeep, ..self.clone() }
    }

    /// A reading call; repeated when the answer got lost.
    pub async fn get<R: DeserializeOwned + Send>(
        &self,
        token: &SlackApiToken,
        method: &'static str,
        params: &[(&str, &str)],
    ) -> Result<R, CallError> {
        let thread = params.iter().find(|(name, _)| *name == "ts").map_or("", |(_, value)| value);
        let app = &token.token_value.0;
        let asked = Asked { app, method, channel: "", thread, urgency: self.urgency };
        let params: Vec<(&str, Option<&str>)> =
            params.iter().map(|(name, value)| (*name, Some(*value))).collect();
        let mut failures = 0;
        loop {
            let session = self.client.open_session(token);
            let call = || session.http_session_api.http_get::<R, _, _>(method, &params, None);
            match self.patiently(asked, call).await {
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
        let body = &literal(method, body);
        let call = || session.http_session_api.http_post::<Value, R>(method, body, None);
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let (app, urgency) = (&token.token_value.0, Urgency::Awaited);
        let (channel, thread) = (text("channel"), text("thread_ts"));
        self.patiently(Asked { app, method, channel, thread, urgency }, call).await
    }

    /// What a token may do, from a header that the client does not hand out. None: Slack did not
    /// say.
    pub async fn scopes(&self, token: &SlackApiToken) -> Option<Scopes> {
        let url = format!("{}/auth.test", self.base.as_str().trim_end_matches('/'));
        let request = self.http().post(url).timeout(TIMEOUT);
        let answer = request.bearer_auth(&token.token_value.0).send().await.ok()?;
        let scopes = answer.headers().get("x-oauth-scopes")?.to_str().ok()?;
        Some(Scopes::parse(scopes))
    }

    /// Bytes of a file, to where Slack said. `method` is the one that said it.
    pub async fn upload(
        &self,
        method: &'static str,
        url: Url,
        content: Vec<u8>,
    ) -> Result<(), CallError> {
        if !self.is_slack(&url) {
            return Err(failed(method, "a foreign upload address"));
        }
        let sent = self.http().post(url).timeout(TIMEOUT).body(content).send().await;
        let result = match sent {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => {
                let status = answer.status().as_u16();
                let what = answered(status).unwrap_or_else(|| format!("status {status}"));
                Err(failed(method, what))
            }
            Err(error) => Err(failed(method, unsent(&error))),
        };
        self.count("upload", if result.is_ok() { "ok" } else { "failed" });
        result
    }

    /// A file of at most `most` bytes, from Slack itself.
    pub async fn download(
        &self,
        token: &SlackApiToken,
        url: Url,
        most: usize,
    ) -> Result<Vec<u8>, CallError> {
        const NAME: &str = "download";
        if !self.is_slack(&url) {
            return Err(failed(NAME, "a file that is not Slack's"));
        }
        let request = self.http().get(url).timeout(TIMEOUT).bearer_auth(&token.token_value.0);
        let mut answer = request.send().await.map_err(|error| failed(NAME, unsent(&error)))?;
        self.count(NAME, if answer.status().is_success() { "ok" } else { "refused" });
        if let Some(why) = answered(answer.status().as_u16()) {
            return Err(failed(NAME, why));
        }
        if !answer.status().is_success() {
            // Without the scope, Slack sends one to its sign-in page.
            let code = format!("http_{}", answer.status().as_u16());
            let needed = Some("files:read".to_owned());
            return Err(CallError::Refused { method: NAME, code, needed, said: None });
        }
        let mut content = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|_| failed(NAME, "cut off"))? {
            if content.len() + chunk.len() > most {
                return Err(failed(NAME, "longer than announced"));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Slack's own host or one under it, such as `files.slack.com`: nothing else gets the token.
    fn is_slack(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let name = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let own = url.scheme() == self.scheme;
        own && (name == self.host || name.ends_with(&format!(".{}", self.host)))
    }

    /// Makes a call in its turn, again for as long as Slack says "later": nobody else makes one
    /// of its kind meanwhile.
    async fn patiently<R, F>(&self, asked: Asked<'_>, call: impl Fn() -> F) -> Result<R, CallError>
    where
        F: Future<Output = Result<R, SlackClientError>>,
    {
        let method = asked.method;
        let turn: Turn = self.queue.turn(asked).await;
        for _ in 0..=LIMITED {
            let result = match tokio::time::timeout(TIMEOUT, call()).await {
                Ok(result) => result.map_err(|error| outcome(method, &error)),
                Err(_) => Err(Outcome::Error(failed(method, "no answer in time"))),
            };
            let (label, result) = match result {
                Ok(answer) => ("ok", Some(Ok(answer))),
                Err(Outcome::Later(wait)) => {
                    self.count(method, "limited");
                    let wait = wait.min(LONGEST_WAIT);
                    turn.later(wait);
                    tokio::time::sleep(wait).await;
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
        self.metrics.call(method, outcome);
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
                let needed = body["needed"].as_str().map(|scopes| line(scopes, SAID));
                CallError::Refused { method, code: line(code, CODE), needed, said: said(&body) }
            }
        },
        SlackClientError::HttpError(http) => {
            let status = http.status_code.as_u16();
            failed(method, answered(status).unwrap_or_else(|| format!("status {status}")))
        }
        SlackClientError::ProtocolError(_) => failed(method, "unreadable answer"),
        SlackClientError::HttpProtocolError(lost) => match &lost.cause {
            Some(cause) => failed(method, unsent(&**cause)),
            None => failed(method, "no connection"),
        },
        _ => failed(method, "no connection"),
    })
}

/// Slack's sentences for developers about a refusal: what of a message it does not take, and where.
fn said(body: &Value) -> Option<String> {
    let of = |list: &Value| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let messages = of(&body["response_metadata"]["messages"]);
    let all = if messages.is_empty() { of(&body["errors"]) } else { messages };
    let all = all.iter().map(|text| text.trim_start_matches("[ERROR]").trim());
    Some(line(&all.collect::<Vec<_>>().join("; "), SAID)).filter(|said| !said.is_empty())
}

/// The same behind a sentence.
pub fn remark(said: Option<&str>) -> String {
    said.map_or_else(String::new, |said| format!(". It says: “{said}”"))
}

/// What an answer says that is no answer of Slack's.
fn answered(status: u16) -> Option<String> {
    Trouble::by_status(status).map(|why| format!("no connection: {why}"))
}

/// Why there was no connection, with what a person can do about it.
pub fn unsent(error: &(dyn std::error::Error + 'static)) -> String {
    let why = trouble(error).map_or_else(String::new, |why| format!(": {why}"));
    format!("no connection{why}")
}
