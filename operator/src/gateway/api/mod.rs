//! The agents' API: who may call what, and how requests and refusals look on the wire. What a call
//! does is in the module of its name.

mod approval;
mod conversation;
mod history;
mod pull_request;
mod remote;
mod remote_change;
mod session;
mod split;
mod threads;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use codebutler_crds::wire::{ErrorCode, path};
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing::field::{Empty, display};

use super::budget::Ledger;
use super::builds::Builds;
use super::close;
use super::conditions::Conditions;
use super::context::{ApiError, Caller, Context};
use super::egress::{self, Egress};
use super::git::mirror::Mirrors;
use super::identity::{self, Identity};
use super::metrics::Metrics;
use super::models::Models;
use super::pulse::Pulse;
use super::radar::BranchDesk;
use super::slack::Slack;
use super::threads::{Threads, WriteError};
use super::{builds, git, models, web};
use crate::tasks::Tasks;

pub(super) use self::session::{redactor, tell};

/// Largest request body but for Git's: a model call with a full context and pictures.
const MAX_BODY: usize = 32 * 1024 * 1024;

pub struct Gateway {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: Context,
    pub identity: Identity,
    pub threads: Threads,
    pub slack: Slack,
    /// Writes conditions of Repos.
    pub conditions: Conditions,
    /// What is granted and spent.
    pub ledger: Ledger,
    pub builds: Builds,
    pub pulse: Pulse,
    /// What is known of branches, and which are to be compared.
    pub branches: BranchDesk,
    pub models: Models,
    /// Copies of the Repos' repositories.
    pub mirrors: Mirrors,
    /// Connections of workspaces and web tools to the outside.
    pub egress: Egress,
    pub search: web::Search,
    pub metrics: Metrics,
    /// Requests that are no model calls: only one gateway serves them.
    pub requests: Tasks,
    /// Work that they have begun, and that has to end well even if its caller is gone.
    pub calls: Tasks,
    /// Model calls, which are served to their end.
    pub answers: Tasks,
    pub connections: Tasks,
    pub shutdown: CancellationToken,
}

impl Gateway {
    /// The same for a new term: nothing of an earlier one is in its books, or under way.
    #[must_use]
    pub fn begin_term(&self) -> Self {
        let Self { context, identity, threads, slack, conditions, mirrors, .. } = self;
        let ledger = Ledger::new(context.clone(), threads.clone(), self.metrics.clone());
        Self {
            context: context.clone(),
            identity: identity.clone(),
            threads: threads.clone(),
            slack: slack.clone(),
            conditions: conditions.clone(),
            ledger,
            builds: Builds::default(),
            pulse: Pulse::default(),
            branches: BranchDesk::default(),
            models: Models::default(),
            mirrors: mirrors.clone(),
            egress: self.egress.clone(),
            search: self.search.clone(),
            metrics: self.metrics.clone(),
            requests: Tasks::default(),
            calls: Tasks::default(),
            answers: Tasks::default(),
            connections: Tasks::default(),
            shutdown: self.shutdown.child_token(),
        }
    }

    /// Ends all that is under way, where it is: the right to act is lost. Returns when nothing of it
    /// can write any more.
    pub async fn cut(&self) {
        // The books first: what ends a call gives its grant back, which is not this one's to write any more.
        self.ledger.cut().await;
        self.shutdown.cancel();
        let Self { requests, calls, answers, connections, .. } = self;
        tokio::join!(requests.cut(), calls.cut(), answers.cut(), connections.cut());
    }
}

/// The gateway as handlers share it.
#[derive(Clone)]
pub struct Shared(Arc<Gateway>);

impl From<Gateway> for Shared {
    fn from(gateway: Gateway) -> Self {
        Self(Arc::new(gateway))
    }
}

impl Deref for Shared {
    type Target = Gateway;
    fn deref(&self) -> &Gateway {
        &self.0
    }
}

/// All paths of [`path`], with the methods that each has.
pub fn router(gateway: Shared) -> Router {
    endpoints()
        .into_iter()
        .fold(Router::new(), |router, (path, _, handler)| router.route(&path, handler))
        .fallback(|| async { ApiError::new(ErrorCode::InvalidRequest, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(ErrorCode::InvalidRequest, "this path has no such method")
        })
        .layer(middleware::from_fn_with_state(gateway.clone(), admit))
        .layer(middleware::from_fn(in_span))
        .with_state(gateway)
}

/// One span for each call: who calls is recorded once that is known.
async fn in_span(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("call", path, thread = Empty, role = Empty);
    next.run(request).instrument(span).await
}

/// Lets model calls be served to their end, and all else only as long as this gateway may act.
async fn admit(State(gateway): State<Shared>, request: Request, next: Next) -> Response {
    let calls = [path::CHAT, path::IMAGES, path::TRANSCRIPTIONS];
    let lasts = calls.contains(&request.uri().path());
    let response = if lasts && !gateway.requests.are_cut() {
        Some(next.run(request).await)
    } else {
        gateway.requests.run(next.run(request)).await
    };
    response.unwrap_or_else(|| {
        let message = "another gateway takes over: try again";
        ApiError::new(ErrorCode::Unavailable, message).into_response()
    })
}

/// Method and path of everything that an agent can call.
pub fn calls() -> Vec<(Method, String)> {
    let calls = endpoints().into_iter();
    calls
        .flat_map(|(path, methods, _)| methods.iter().map(move |m| (m.clone(), path.clone())))
        .collect()
}

/// One line for each path, so that none is served that [`calls`] does not name.
fn endpoints() -> Vec<(String, &'static [Method], MethodRouter<Shared>)> {
    const GET: &[Method] = &[Method::GET];
    const POST: &[Method] = &[Method::POST];
    const BOTH: &[Method] = &[Method::GET, Method::POST];
    let git = |rest: &str| format!("{}/{rest}", path::GIT);
    vec![
        (path::SESSION.into(), GET, get(session::session)),
        (path::INBOX.into(), GET, get(conversation::inbox)),
        (path::MESSAGES.into(), POST, post(conversation::message)),
        (path::PICTURES.into(), GET, get(conversation::picture)),
        (path::THREADS.into(), GET, get(threads::list)),
        (path::APPROVALS.into(), POST, post(approval::ask)),
        (path::RUNS.into(), POST, post(conversation::run)),
        (path::HISTORY.into(), BOTH, get(history::kept).post(history::tell)),
        (path::LAST_WORDS.into(), POST, post(conversation::last_words)),
        (path::PROGRESS.into(), POST, post(conversation::progress)),
        (path::PULL_REQUEST.into(), BOTH, get(pull_request::state).post(pull_request::open)),
        (path::COMMENTS.into(), POST, post(remote::comment)),
        (path::REVIEWS.into(), POST, post(remote::review)),
        (path::ISSUES.into(), GET, get(remote::issues)),
        (path::REMOTE_CHANGES.into(), POST, post(remote_change::change)),
        (path::SPLITS.into(), POST, post(split::propose)),
        (path::BUILDS.into(), POST, post(builds::claim)),
        (path::CLOSE.into(), POST, post(close::close)),
        (path::CHAT.into(), POST, post(models::complete)),
        (path::IMAGES.into(), POST, post(models::images)),
        (path::TRANSCRIPTIONS.into(), POST, post(models::transcriptions)),
        (path::CONNECT.into(), GET, get(egress::connect)),
        (path::EGRESS_CHECK.into(), POST, post(egress::check::report)),
        (path::WEB_FETCH.into(), POST, post(web::page)),
        (path::WEB_SEARCH.into(), POST, post(web::results)),
        (git("info/refs"), GET, get(git::info_refs)),
        (git("git-upload-pack"), POST, post(git::upload_pack)),
        (git("git-receive-pack"), POST, post(git::receive_pack)),
    ]
}

/// A caller, whatever the state of its Thread.
pub struct Any(pub Caller);

/// A caller whose Thread is not closed.
pub struct Open(pub Caller);

impl FromRequestParts<Shared> for Any {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, gateway: &Shared) -> Result<Self, ApiError> {
        // Apart: few tokens have to be reviewed, and every call would keep room for it.
        let caller = Box::pin(gateway.identity.caller(&parts.headers)).await?;
        let span = tracing::Span::current();
        span.record("thread", display(caller.key()));
        span.record("role", caller.role_name());
        if is_own_word(parts.uri.path()) {
            gateway.pulse.heard(&caller);
        }
        Ok(Self(caller))
    }
}

/// What commands do through the agent, and what is told of it after the fact, shows nothing of the agent.
fn is_own_word(called: &str) -> bool {
    called != path::CONNECT && called != path::HISTORY && !called.starts_with(path::GIT)
}

impl FromRequestParts<Shared> for Open {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, gateway: &Shared) -> Result<Self, ApiError> {
        let Any(caller) = Any::from_request_parts(parts, gateway).await?;
        if identity::is_closed(&caller) {
            gateway.metrics.refused("thread_closed");
            return Err(ApiError::new(ErrorCode::ThreadClosed, "the Thread is closed"));
        }
        Ok(Self(caller))
    }
}

pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, gateway: &Shared) -> Result<Self, ApiError> {
        axum::extract::Query::from_request_parts(parts, gateway)
            .await
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|refused| ApiError::new(ErrorCode::InvalidRequest, refused.body_text()))
    }
}

/// A whole body of bounded size.
pub struct Body(pub Bytes);

impl FromRequest<Shared> for Body {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &Shared) -> Result<Self, ApiError> {
        let invalid = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
        match Limited::new(request.into_body(), MAX_BODY).collect().await {
            Ok(body) => Ok(Self(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(invalid(format!("the request is longer than {} MiB", MAX_BODY / 1024 / 1024)))
            }
            Err(_) => Err(invalid("the request broke off".to_owned())),
        }
    }
}

pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, gateway: &Shared) -> Result<Self, ApiError> {
        let Body(body) = Body::from_request(request, gateway).await?;
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            ApiError::new(ErrorCode::InvalidRequest, format!("the request's body: {error}"))
        })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (status(self.code), axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

const fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::NotRegistered
        | ErrorCode::Forbidden
        | ErrorCode::NeedsApproval
        | ErrorCode::ContentRefused => StatusCode::FORBIDDEN,
        ErrorCode::BudgetExceeded => StatusCode::PAYMENT_REQUIRED,
        ErrorCode::ThreadClosed => StatusCode::CONFLICT,
        ErrorCode::InvalidRequest | ErrorCode::ContextOverflow => StatusCode::BAD_REQUEST,
        ErrorCode::Upstream | ErrorCode::Unanswered => StatusCode::BAD_GATEWAY,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Refuses a caller whose role has none of `tools`.
///
/// # Errors
/// `Forbidden`, naming the first tool.
pub fn needs_tool(caller: &Caller, tools: &[&str]) -> Result<(), ApiError> {
    if tools.iter().any(|tool| caller.has_tool(tool)) {
        return Ok(());
    }
    let (role, tool) = (caller.role_name(), tools.first().copied().unwrap_or_default());
    let message = format!("the role {role} does not have the tool {tool}");
    Err(ApiError::new(ErrorCode::Forbidden, message))
}

/// What an agent is told when its Thread could not be written.
pub fn unwritten(error: &WriteError) -> ApiError {
    tracing::warn!(%error, "a Thread was not written");
    match error {
        WriteError::Missing(_) => {
            ApiError::new(ErrorCode::ThreadClosed, "the Thread does not exist any more")
        }
        WriteError::Refused(why) => ApiError::new(ErrorCode::InvalidRequest, why.to_string()),
        WriteError::Contended(_) | WriteError::Api(_) => ApiError::new(
            ErrorCode::Unavailable,
            "the Thread can't be written right now: try again",
        ),
    }
}
