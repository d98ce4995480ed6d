//! Extractors of the gateway's handlers, and the callers that each refuses.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use bytes::{Bytes, BytesMut};
use codebutler_crds::wire::{ErrorCode, path};
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::field::display;

use crate::api_error::ApiError;
use crate::bodies::{BodyBudget, BodyClaim, FREE, NoRoom};
use crate::caller::{ProvenCaller, ProvenSeat, ProvenServer};
use crate::identity::{self, CallerIdentity};
use crate::metrics::GatewayMetrics;
use crate::pulse::AgentHeartbeats;

/// Largest request body but for Git's: a model call with a full context and pictures.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// Room that is taken at once for a body that does not say how long it is.
const STEP: usize = 1024 * 1024;
/// Time limit for a whole body, and for a pause in it.
const PATIENCE: Duration = Duration::from_mins(2);
const STALL: Duration = Duration::from_secs(20);
/// Seconds after which there may be room.
const AGAIN: u32 = 5;

/// Shared state by which a request is judged before its handler sees it.
pub struct CallerGate {
    pub identity: CallerIdentity,
    /// Time at which each agent was last heard.
    pub pulse: AgentHeartbeats,
    pub metrics: GatewayMetrics,
    /// Memory budget of request bodies.
    pub bodies: BodyBudget,
}

/// A caller, whatever the state of its Thread.
pub struct AnyCaller(pub ProvenCaller);

/// A caller whose Thread is not closed.
pub struct OpenCaller(pub ProvenCaller);

impl<S> FromRequestParts<S> for AnyCaller
where
    Arc<CallerGate>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let gate = Arc::<CallerGate>::from_ref(state);
        // Apart: few tokens have to be reviewed, and every call would keep room for it.
        let caller = Box::pin(gate.identity.caller(&parts.headers)).await?;
        let span = tracing::Span::current();
        span.record("thread", display(caller.key()));
        span.record("role", caller.role_name());
        if let Some(claim) = parts.extensions.get::<BodyClaim>() {
            claim.owned_by(caller.key(), (&*caller.repo).into());
        }
        if is_own_word(parts.uri.path()) {
            gate.pulse.heard(&caller);
        }
        Ok(Self(caller))
    }
}

/// Returns true if a call shows that the agent itself lives. Connections of its commands, and
/// history told after the fact, do not.
fn is_own_word(called: &str) -> bool {
    called != path::CONNECT && called != path::HISTORY && !called.starts_with(path::GIT)
}

impl<S> FromRequestParts<S> for OpenCaller
where
    Arc<CallerGate>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let AnyCaller(caller) = AnyCaller::from_request_parts(parts, state).await?;
        if identity::is_closed(&caller) {
            Arc::<CallerGate>::from_ref(state).metrics.refused("thread_closed");
            return Err(ApiError::new(ErrorCode::ThreadClosed, "the Thread is closed"));
        }
        Ok(Self(caller))
    }
}

/// A server whose Thread is not closed. The token of its pod opens nothing else.
pub struct ServerCaller(pub ProvenServer);

impl<S> FromRequestParts<S> for ServerCaller
where
    Arc<CallerGate>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let gate = Arc::<CallerGate>::from_ref(state);
        let server = Box::pin(gate.identity.server(&parts.headers)).await?;
        tracing::Span::current().record("thread", display(server.key()));
        if server.is_over() {
            gate.metrics.refused("thread_closed");
            return Err(ApiError::new(ErrorCode::ThreadClosed, "the Thread is closed"));
        }
        Ok(Self(server))
    }
}

/// A caller that may connect to the outside.
pub enum OutsideCaller {
    /// A role, for its commands.
    Role(Box<ProvenCaller>),
    /// A server, for its program.
    Server(Box<ProvenServer>),
    /// A seat, for the set-up of its clone.
    Seat(Box<ProvenSeat>),
}

impl<S> FromRequestParts<S> for OutsideCaller
where
    Arc<CallerGate>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let gate = Arc::<CallerGate>::from_ref(state);
        if gate.identity.claims_server(&parts.headers) {
            let ServerCaller(server) = ServerCaller::from_request_parts(parts, state).await?;
            return Ok(Self::Server(Box::new(server)));
        }
        if gate.identity.claims_seat(&parts.headers) {
            let seat = Box::pin(gate.identity.seat(&parts.headers)).await?;
            if seat.set_up.is_none() {
                gate.metrics.refused("waiting_seat");
                let message =
                    "the clone of this seat is not set up: no role's commands will run in it";
                return Err(ApiError::new(ErrorCode::Forbidden, message));
            }
            return Ok(Self::Seat(Box::new(seat)));
        }
        OpenCaller::from_request_parts(parts, state)
            .await
            .map(|OpenCaller(role)| Self::Role(Box::new(role)))
    }
}

pub struct QueryParams<T>(pub T);

impl<S, T> FromRequestParts<S> for QueryParams<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        axum::extract::Query::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|refused| ApiError::new(ErrorCode::InvalidRequest, refused.body_text()))
    }
}

/// A whole body of bounded size, within the budget of all.
pub struct BoundedBody(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for BoundedBody {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let length = length.and_then(|length| length.parse().ok());
        let claim = parts.extensions.get::<BodyClaim>();
        let read = timeout(PATIENCE, collect_body(body, length, claim, STALL)).await;
        Ok(Self(read.unwrap_or(Err(BodyError::Slow))?))
    }
}

/// Failure to read a body.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("the request is longer than {} MiB", MAX_BODY >> 20)]
    Long,
    #[error("the request broke off")]
    Cut,
    #[error("the request came too slowly: send it again")]
    Slow,
    #[error(transparent)]
    Room(#[from] NoRoom),
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let busy = matches!(error, BodyError::Room(_));
        let code = if busy { ErrorCode::Unavailable } else { ErrorCode::InvalidRequest };
        let retry_after = busy.then_some(AGAIN);
        Self { retry_after, ..Self::new(code, error.to_string()) }
    }
}

/// Reads a body into room that was taken for it before.
async fn collect_body(
    mut body: Body,
    length: Option<usize>,
    claim: Option<&BodyClaim>,
    stall: Duration,
) -> Result<Bytes, BodyError> {
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(BodyError::Long);
    }
    // A body without a length takes room as it comes.
    let (mut read, mut room) = (BytesMut::new(), FREE);
    if let (Some(claim), Some(length)) = (claim, length.filter(|length| *length > FREE)) {
        claim.take(length).await?;
        room = length;
    }
    loop {
        let frame = timeout(stall, body.frame()).await.map_err(|_| BodyError::Slow)?;
        let Some(frame) = frame else { return Ok(read.freeze()) };
        let Ok(data) = frame.map_err(|_| BodyError::Cut)?.into_data() else { continue };
        let now = read.len() + data.len();
        if now > MAX_BODY {
            return Err(BodyError::Long);
        }
        if let Some(claim) = claim.filter(|_| now > room) {
            let more = (now - room).max(STEP);
            claim.take(more).await?;
            room += more;
        }
        read.extend_from_slice(&data);
    }
}

pub struct JsonBody<T>(pub T);

impl<S, T> FromRequest<S> for JsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let BoundedBody(body) = BoundedBody::from_request(request, state).await?;
        read_json(&body).map(Self)
    }
}

/// A body as JSON.
///
/// # Errors
/// `InvalidRequest`, with what is wrong with it.
pub fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::new(ErrorCode::InvalidRequest, format!("the request's body: {error}"))
    })
}

/// Refuses a caller whose role has none of `tools`.
///
/// # Errors
/// `Forbidden`, naming the first tool.
pub fn needs_tool(caller: &ProvenCaller, tools: &[&str]) -> Result<(), ApiError> {
    if tools.iter().any(|tool| caller.has_tool(tool)) {
        return Ok(());
    }
    let (role, tool) = (caller.role_name(), tools.first().copied().unwrap_or_default());
    let message = format!("the role {role} does not have the tool {tool}");
    Err(ApiError::new(ErrorCode::Forbidden, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo_key::RepoKey;
    use crate::thread_key::ThreadKey;
    use futures::StreamExt as _;

    fn claim(budget: &BodyBudget, thread: &str) -> BodyClaim {
        let claim = budget.claim();
        let key = ThreadKey { namespace: "team".into(), name: thread.into() };
        claim.owned_by(key, RepoKey { namespace: "team".into(), name: thread.into() });
        claim
    }

    /// A piece, behind which nothing comes.
    fn stalls(piece: Bytes) -> Body {
        let begun = futures::stream::iter([Ok::<_, std::io::Error>(piece)]);
        Body::from_stream(begun.chain(futures::stream::pending()))
    }

    #[tokio::test]
    async fn bodies_that_stall_take_a_share_and_end_and_others_are_taken() {
        let (soon, stall) = (Duration::from_millis(50), Duration::from_millis(500));
        let budget = BodyBudget::that_waits(soon, None);
        let piece = Bytes::from(vec![b' '; MAX_BODY - 1]);
        let flood: Vec<_> = (0..100)
            .map(|_| {
                let (claim, piece) = (claim(&budget, "bad"), piece.clone());
                tokio::spawn(async move {
                    collect_body(stalls(piece), Some(MAX_BODY), Some(&claim), stall).await
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let good = claim(&budget, "good");
        let (body, length) = (Body::from(vec![b' '; 1 << 20]), Some(1 << 20));
        let asked = std::time::Instant::now();
        assert_eq!(collect_body(body, length, Some(&good), STALL).await.unwrap().len(), 1 << 20);
        assert!(asked.elapsed() < stall, "it had to wait");
        let (mut slow, mut refused) = (0, 0);
        for body in flood {
            match body.await.unwrap().unwrap_err() {
                BodyError::Slow => slow += 1,
                BodyError::Room(NoRoom::Thread) => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert_eq!((slow, refused), (1, 99));
    }

    #[tokio::test]
    async fn a_body_that_does_not_say_its_length_takes_room_as_it_comes() {
        let budget = BodyBudget::within(None);
        let pieces = |mib: usize| {
            let piece = Bytes::from(vec![b' '; 1 << 20]);
            let pieces = (0..mib).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
            Body::from_stream(futures::stream::iter(pieces))
        };
        let own = claim(&budget, "one");
        assert_eq!(collect_body(pieces(3), None, Some(&own), STALL).await.unwrap().len(), 3 << 20);
        assert!(matches!(collect_body(pieces(33), None, None, STALL).await, Err(BodyError::Long)));
        let long = collect_body(Body::empty(), Some(MAX_BODY + 1), None, STALL).await;
        assert!(long.unwrap_err().to_string().contains("longer than 32 MiB"));
    }
}
