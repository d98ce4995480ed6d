//! The agent's only way out: typed calls to the gateway, over TLS with the cluster's own CA, with
//! the pod's projected token.
//!
//! Every call can be repeated: its effects have keys. So whatever may pass by itself is tried again
//! here, with growing pauses, for as long as the caller is patient.

mod chat;
mod files;
mod git_host;
mod images;
mod journals;
mod lasting;
pub mod mcp;
mod token;
mod upgrade;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use codebutler_wire::{
    ApprovalReply, ApprovalRequest, BuildClaim, BuildTurn, CloseThread, EgressReport, EndVerdict,
    ErrorBody, ErrorCode, LastWords, MergedBelow, OtherThread, PostMessage, PostedMessage,
    ProposeSplit, RoleSession, RunProgress, RunReport, SeatAnswer, SeatSetUpEnd, SlackTs,
    SplitAsked, ThreadClosed, VersionedInbox, WebFetch, WebPage, path,
};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Certificate, Method, RequestBuilder, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use chat::{ChatAnswer, ChatError};
use codebutler_guides::text::clip_text;
pub use files::SharedFile;

use crate::experiment::{PromptExperiment, change_session};
pub use token::TokenFile;

/// Retry budget of an ordinary call.
pub const PATIENCE: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of bytes of a call that the gateway does not take. Without any, bytes to a node that is gone are repeated for
/// a quarter of an hour.
const UNREAD: Duration = Duration::from_mins(2);
/// Longest silence of the gateway before an answer to Git, and in the middle of one: it waits for another copy of the
/// repository for at most half an hour.
const SILENCE: Duration = Duration::from_mins(45);
/// Default timeout of a call, for everything that does not wait on purpose.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout of a report that the next one replaces.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The gateway said no, in a sentence.
    #[error("{message}")]
    Refused { code: ErrorCode, message: String },
    #[error("the gateway can't be reached")]
    Unreachable(#[source] reqwest::Error),
    /// An answer that is not the gateway's API.
    #[error("the gateway answered {status}: {excerpt}")]
    Unexpected {
        status: StatusCode,
        /// The beginning of the body.
        excerpt: String,
    },
    /// Git could not connect to the gateway within its retry budget.
    #[error("the gateway can't be reached by Git: {0}")]
    Away(String),
    /// The pod's token can't be read.
    #[error("the token {path} can't be read")]
    Token {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Flags or files from which no client can be built.
    #[error("the gateway's {what} can't be used: {why}")]
    Config { what: &'static str, why: String },
}

impl GatewayError {
    /// The gateway's code, if it answered with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// True if a retry may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused { code, .. } => matches!(
                code,
                ErrorCode::Unavailable | ErrorCode::NotRegistered | ErrorCode::Unauthenticated
            ),
            Self::Unreachable(_) | Self::Away(_) | Self::Token { .. } => true,
            Self::Unexpected { status, .. } => {
                matches!(status.as_u16(), 429 | 502 | 503 | 504)
            }
            Self::Config { .. } => false,
        }
    }
}

/// Client of the gateway's API. Cheap to clone.
#[derive(Clone)]
pub struct GatewayClient {
    http: reqwest::Client,
    /// Client for bodies that the gateway may leave unread for long: a push that waits for its turn and then for the
    /// repository's mirror, and a tunnel whose other end is slow.
    unhurried: reqwest::Client,
    base: Url,
    token: TokenFile,
    /// Changes of the experiment's arm that this agent plays; empty outside of experiments.
    arm: Arc<[PromptExperiment]>,
}

impl GatewayClient {
    /// A client for `url`, reached at `address` (there is no DNS in the pod), trusting `ca` alone.
    pub fn new(
        url: &str,
        address: Option<SocketAddr>,
        ca: &Path,
        token: &Path,
    ) -> Result<Self, GatewayError> {
        Self::with_silence(url, address, (ca, token), SILENCE)
    }

    fn with_silence(
        url: &str,
        address: Option<SocketAddr>,
        (ca, token): (&Path, &Path),
        silence: Duration,
    ) -> Result<Self, GatewayError> {
        // One provider for the process; another part of it may have chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = |what, why: String| GatewayError::Config { what, why };
        let mut base = Url::parse(url).map_err(|e| config("URL", e.to_string()))?;
        let host = base.host_str().filter(|_| base.scheme() == "https").map(ToOwned::to_owned);
        let Some(host) = host else {
            return Err(config("URL", format!("`{url}` is not https://host:port")));
        };
        let pem = std::fs::read(ca).map_err(|e| config("CA file", e.to_string()))?;
        let roots =
            Certificate::from_pem_bundle(&pem).map_err(|e| config("CA file", e.to_string()))?;
        if roots.is_empty() {
            return Err(config("CA file", format!("{} holds no certificate", ca.display())));
        }
        let build = |unread: Option<Duration>| {
            let mut client = reqwest::Client::builder()
                .read_timeout(silence)
                .tls_certs_only(roots.clone())
                .https_only(true)
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT_TIMEOUT)
                // By default a connection ends whose peer reads nothing for 30 s.
                .tcp_user_timeout(unread)
                .tcp_nodelay(true);
            if let Some(address) = address {
                client = client.resolve(&host, address);
            }
            client.build().map_err(|e| config("client", e.to_string()))
        };
        let (http, unhurried) = (build(Some(UNREAD))?, build(None)?);
        if let Some(address) = address {
            // Otherwise the URL's port would win over the address'.
            let _ = base.set_port(Some(address.port()));
        }
        Ok(Self { http, unhurried, base, token: TokenFile::new(token), arm: Arc::default() })
    }

    /// Adds the changes of an experiment's arm.
    #[must_use]
    pub fn in_arm(self, arm: &[PromptExperiment]) -> Self {
        Self { arm: arm.into(), ..self }
    }

    /// True in an arm of an experiment that has this difference.
    pub fn plays(&self, one: PromptExperiment) -> bool {
        self.arm.contains(&one)
    }

    /// Reads the session: the settings of the role for a run.
    pub async fn session(&self) -> Result<RoleSession, GatewayError> {
        let mut session = self.typed(|| self.request(Method::GET, path::SESSION)).await?;
        change_session(&self.arm, &mut session);
        Ok(session)
    }

    /// Asks for the Thread that has taken the pod; waits for one for at most `wait`.
    pub async fn seat(
        &self,
        wait: Duration,
        set_up: Option<SeatSetUpEnd>,
    ) -> Result<SeatAnswer, GatewayError> {
        let mut query = vec![("wait", wait.as_secs().to_string())];
        query.extend(set_up.map(|end| ("setUp", end.name().to_owned())));
        self.typed(|| {
            let request = self.request(Method::GET, path::SEAT)?.query(&query);
            Ok(request.timeout(wait + CALL_TIMEOUT))
        })
        .await
    }

    /// Reads the messages after `after` and the pending items; waits for mail for at most `wait`. An inbox of the
    /// version `seen` is no mail.
    pub async fn inbox(
        &self,
        after: &SlackTs,
        seen: Option<&str>,
        wait: Duration,
    ) -> Result<VersionedInbox, GatewayError> {
        let wait_secs = wait.as_secs().to_string();
        let mut query = vec![("after", after.as_str()), ("wait", &wait_secs)];
        query.extend(seen.map(|seen| ("seen", seen)));
        self.typed(|| {
            let request = self.request(Method::GET, path::INBOX)?;
            Ok(request.query(&query).timeout(wait + CALL_TIMEOUT))
        })
        .await
    }

    /// A picture in a message of the conversation: its type and bytes.
    pub async fn picture(
        &self,
        message: &SlackTs,
        id: &str,
    ) -> Result<(String, Bytes), GatewayError> {
        let query = [("message", message.as_str()), ("id", id)];
        let answer = self
            .answered(PATIENCE, || Ok(self.request(Method::GET, path::PICTURES)?.query(&query)))
            .await?;
        Ok((answer.content_type, answer.body))
    }

    /// The other open threads of the Repo.
    pub async fn threads(&self) -> Result<Vec<OtherThread>, GatewayError> {
        self.typed(|| self.request(Method::GET, path::THREADS)).await
    }

    /// Commits that count as merged where the base branch is brought in.
    pub async fn merged_below(&self) -> Result<MergedBelow, GatewayError> {
        self.typed(|| self.request(Method::GET, path::MERGED_BELOW)).await
    }

    pub async fn post(&self, message: &PostMessage) -> Result<PostedMessage, GatewayError> {
        self.send(path::MESSAGES, message).await
    }

    /// Asks whether the run may end with these words.
    pub async fn last_words(&self, words: &LastWords) -> Result<EndVerdict, GatewayError> {
        self.send(path::LAST_WORDS, words).await
    }

    /// Reports the state of the run.
    pub async fn report(&self, report: &RunReport) -> Result<(), GatewayError> {
        let _: serde_json::Value = self.send(path::RUNS, report).await?;
        Ok(())
    }

    /// Reports the current activity of the run. Tried once.
    pub async fn progress(&self, progress: &RunProgress) -> Result<(), GatewayError> {
        let request = self.request(Method::POST, path::PROGRESS)?;
        send_once(Ok(request.json(progress).timeout(PROGRESS_TIMEOUT))).await.map(drop)
    }

    /// Has people asked whether the request is built in parts.
    pub async fn split(&self, request: &ProposeSplit) -> Result<SplitAsked, GatewayError> {
        self.send(path::SPLITS, request).await
    }

    /// Asks the people about exactly one action; returns the state of that question.
    pub async fn approval(&self, request: &ApprovalRequest) -> Result<ApprovalReply, GatewayError> {
        self.send(path::APPROVALS, request).await
    }

    /// Claims or releases the pod's build slot, and waits for it for at most `wait`.
    pub async fn build(
        &self,
        claim: &BuildClaim,
        wait: Duration,
    ) -> Result<BuildTurn, GatewayError> {
        let query = [("wait", wait.as_secs())];
        self.typed(|| {
            let request = self.request(Method::POST, path::BUILDS)?.query(&query).json(claim);
            Ok(request.timeout(wait + CALL_TIMEOUT))
        })
        .await
    }

    /// Ends the thread the way a user decided.
    pub async fn close(&self, request: &CloseThread) -> Result<ThreadClosed, GatewayError> {
        self.send(path::CLOSE, request).await
    }

    /// Reports if the pod could reach anything but the gateway.
    pub async fn egress(&self, report: &EgressReport) -> Result<(), GatewayError> {
        let _: serde_json::Value = self.send(path::EGRESS_CHECK, report).await?;
        Ok(())
    }

    /// A web page as text.
    pub async fn web_fetch(&self, request: &WebFetch) -> Result<WebPage, GatewayError> {
        self.send(path::WEB_FETCH, request).await
    }

    /// A request that the relay fills in and sends, or whose connection then carries another protocol.
    pub fn raw(
        &self,
        method: Method,
        path: &str,
        query: Option<&str>,
    ) -> Result<RequestBuilder, GatewayError> {
        let url = self.address(path, query);
        Ok(self.unhurried.request(method, url).bearer_auth(self.token.read()?))
    }

    /// A request that ends after [`CALL_TIMEOUT`], unless its caller sets another limit: a gateway that takes a request
    /// and never answers must not hold a role for ever.
    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, GatewayError> {
        let request = self.http.request(method, self.address(path, None));
        Ok(request.bearer_auth(self.token.read()?).timeout(CALL_TIMEOUT))
    }

    fn address(&self, path: &str, query: Option<&str>) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url.set_query(query);
        url
    }

    async fn send<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, GatewayError> {
        self.typed(|| Ok(self.request(Method::POST, path)?.json(body))).await
    }

    async fn typed<T: DeserializeOwned>(
        &self,
        build: impl Fn() -> Result<RequestBuilder, GatewayError>,
    ) -> Result<T, GatewayError> {
        parse_answer(&self.retried(PATIENCE, build).await?)
    }

    async fn retried(
        &self,
        patience: Duration,
        build: impl Fn() -> Result<RequestBuilder, GatewayError>,
    ) -> Result<Bytes, GatewayError> {
        Ok(self.answered(patience, build).await?.body)
    }

    async fn answered(
        &self,
        patience: Duration,
        build: impl Fn() -> Result<RequestBuilder, GatewayError>,
    ) -> Result<GatewayAnswer, GatewayError> {
        let deadline = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match send_once(build()).await {
                Ok(answered) => return Ok(answered),
                Err(error) => error,
            };
            if !error.may_pass() || Instant::now() + pause > deadline {
                return Err(error);
            }
            tracing::debug!(%error, ?pause, "gateway_request_retried");
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Parses an answer as the type that the caller expects.
fn parse_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, GatewayError> {
    serde_json::from_slice(body).map_err(|e| GatewayError::Unexpected {
        status: StatusCode::OK,
        excerpt: clip_text(&e.to_string(), 200),
    })
}

struct GatewayAnswer {
    content_type: String,
    body: Bytes,
}

async fn send_once(
    request: Result<RequestBuilder, GatewayError>,
) -> Result<GatewayAnswer, GatewayError> {
    let answer = request?.send().await.map_err(GatewayError::Unreachable)?;
    let status = answer.status();
    let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = answer.bytes().await.map_err(GatewayError::Unreachable)?;
    if status.is_success() {
        Ok(GatewayAnswer { content_type, body })
    } else {
        Err(read_refusal(status, &body))
    }
}

pub fn read_refusal(status: StatusCode, body: &[u8]) -> GatewayError {
    if let Ok(ErrorBody { error }) = serde_json::from_slice(body) {
        return GatewayError::Refused {
            code: error.code,
            message: clip_text(&error.message, 1000),
        };
    }
    let excerpt = clip_text(String::from_utf8_lossy(body).trim(), 200);
    GatewayError::Unexpected { status, excerpt }
}

#[cfg(test)]
mod tests;
