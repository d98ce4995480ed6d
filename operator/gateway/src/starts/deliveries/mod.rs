//! Signed requests by which programs begin Threads, as Standard Webhooks has them, on a port of their own
//! that every replica serves: a Thread's name is made of the delivery's id, so that it begins once, however
//! often and wherever the delivery comes in.

mod keys;
mod port;
mod refusal;
mod signature;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use codebutler_crds::Repo;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_runtime::listen::listen_on;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::keys::SigningKeys;
use self::port::WaitingSeat;
use self::refusal::DeliveryRefusal;
use self::signature::{SignedHead, SigningKey};
use super::{ThreadOrigin, thread_of};
use crate::state::GatewayBase;

/// Bytes of a body: the longest prompt in characters that take the most bytes fits.
const BODY: usize = 64 << 10;
/// Deliveries that are judged at once, and how long one waits for its turn.
const JUDGED: usize = 32;
const TURN: Duration = Duration::from_secs(5);
/// Timeout of a request's head, and then of its body.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout of the API server for making a Thread.
const WRITING: Duration = Duration::from_secs(20);
/// Characters of a prompt, as a Thread has it.
const PROMPT: usize = 12_000;
/// Maximum characters of a name.
const NAME: usize = 64;
/// Requester where a delivery names none.
const SOMEBODY: &str = "a signed delivery";

#[derive(Clone)]
struct DeliveryServices {
    context: GatewayContext,
    threads: ThreadWriter,
    metrics: GatewayMetrics,
    keys: SigningKeys,
    /// A random key to verify against where there is no key, so that it takes as long.
    nobodys: SigningKey,
    turns: Arc<Semaphore>,
}

/// Serves until told to stop, if there is an address.
///
/// # Errors
/// When it is taken.
pub fn serve_deliveries(
    address: Option<SocketAddr>,
    gateway: &GatewayBase,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Some(address) = address else { return Ok(()) };
    let listener = listen_on(address).with_context(|| {
        format!("deliveries can't be taken on {address}: choose another --deliveries-listen")
    })?;
    tracing::info!(%address, "deliveries_started");
    let context = gateway.context.clone();
    let services = DeliveryServices {
        keys: SigningKeys::new(context.clone(), gateway.conditions.clone()),
        context,
        threads: gateway.threads.clone(),
        metrics: gateway.metrics.clone(),
        nobodys: SigningKey::random(),
        turns: Arc::new(Semaphore::new(JUDGED)),
    };
    tokio::spawn(port::serve_port(listener, build_router(services), PATIENCE, stop));
    Ok(())
}

fn build_router(services: DeliveryServices) -> Router {
    let lost = || async { DeliveryRefusal::NoPath };
    Router::new()
        .route("/v1/repos/{namespace}/{repo}/deliveries", post(take_delivery).fallback(lost))
        .fallback(lost)
        .with_state(services)
}

/// The Thread that a delivery began.
#[derive(Debug, PartialEq, Eq)]
struct BegunThread {
    name: String,
    /// True if this delivery made the Thread, and not an earlier one.
    created: bool,
}

async fn take_delivery(
    State(services): State<DeliveryServices>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Response {
    let Ok(Path((namespace, name))) = path else {
        return DeliveryRefusal::NoPath.into_response();
    };
    match services.receive(&namespace, &name, request).await {
        Ok(BegunThread { name, created }) => {
            services.metrics.delivery(if created { "begun" } else { "known" });
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            (status, Json(json!({"thread": name, "created": created}))).into_response()
        }
        Err(refusal) => {
            services.metrics.delivery(refusal.outcome());
            refusal.into_response()
        }
    }
}

impl DeliveryServices {
    /// Receives a delivery. The body is read only once the headers can be right, and parsed only once the signature
    /// is.
    async fn receive(
        &self,
        namespace: &str,
        name: &str,
        request: Request,
    ) -> Result<BegunThread, DeliveryRefusal> {
        let (head, body) = request.into_parts();
        let signed = SignedHead::read(&head.headers, jiff::Timestamp::now().as_second())?;
        check_form(&head.headers)?;
        let body = read_body(body, PATIENCE).await?;
        if let Some(seat) = head.extensions.get::<WaitingSeat>() {
            seat.settle();
        }
        let turn = timeout(TURN, self.turns.acquire()).await;
        let _turn = turn.ok().and_then(Result::ok).ok_or(DeliveryRefusal::Busy)?;
        let repo = self.context.repo(namespace, name);
        let repo = repo.filter(|repo| repo.metadata.deletion_timestamp.is_none());
        let from = repo.as_ref().and_then(|repo| Some((repo, repo.spec.deliveries.as_ref()?)));
        let Some((repo, spec)) = from else {
            signed.is_of(&self.nobodys, &body);
            return Err(DeliveryRefusal::NotSigned);
        };
        let key = self.keys.of(repo, &spec.credentials).await.ok_or(DeliveryRefusal::NoSecret)?;
        if !signed.is_of(&key, &body) {
            return Err(DeliveryRefusal::NotSigned);
        }
        self.begin(repo, &signed.id, DeliveryBody::parse(&body)?).await
    }

    async fn begin(
        &self,
        repo: &Repo,
        id: &str,
        body: DeliveryBody,
    ) -> Result<BegunThread, DeliveryRefusal> {
        let by = body.requested_by.as_deref().unwrap_or(SOMEBODY);
        let thread = thread_of(repo, ThreadOrigin::Delivery, (id, "delivery"), by, body.prompt);
        let key = ThreadKey::from(&thread);
        let name = key.name.clone();
        if self.context.thread(&key).is_some() || is_over(repo, &name) {
            return Ok(BegunThread { name, created: false });
        }
        match timeout(WRITING, self.threads.begin(thread)).await {
            Ok(Ok((_, created))) => {
                if created {
                    tracing::info!(thread = %key, repo = repo.name_any(), "delivery_thread_started");
                }
                Ok(BegunThread { name, created })
            }
            Ok(Err(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(thread = %key, error, "delivery_thread_failed");
                Err(DeliveryRefusal::NotWritten)
            }
            Err(_) => {
                tracing::warn!(thread = %key, "delivery_timed_out");
                Err(DeliveryRefusal::NotWritten)
            }
        }
    }
}

/// True if a Thread of this name has come to its end, and was deleted since.
fn is_over(repo: &Repo, name: &str) -> bool {
    let mut history = repo.status.iter().flat_map(|status| &status.history);
    history.any(|closed| closed.name == name)
}

/// Checks the headers that describe the body: its type and length.
fn check_form(headers: &HeaderMap) -> Result<(), DeliveryRefusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(DeliveryRefusal::NotJson);
    }
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY as u64) {
        return Err(DeliveryRefusal::TooLarge);
    }
    Ok(())
}

async fn read_body(body: Body, patience: Duration) -> Result<Bytes, DeliveryRefusal> {
    match timeout(patience, Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(DeliveryRefusal::TooLarge),
        Ok(Err(_)) => Err(DeliveryRefusal::Cut),
        Err(_) => Err(DeliveryRefusal::TooSlow),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeliveryBody {
    prompt: String,
    requested_by: Option<String>,
}

impl DeliveryBody {
    /// # Errors
    /// A sentence that names the field.
    fn parse(body: &[u8]) -> Result<Self, DeliveryRefusal> {
        let wrong = |error: serde_json::Error| {
            DeliveryRefusal::Body(format!(
                "the body is no delivery: {error}. It has to be an object with `prompt` and, if you like, \
                 `requestedBy`"
            ))
        };
        let body: Self = serde_json::from_slice(body).map_err(wrong)?;
        let say = |text: &str| Err(DeliveryRefusal::Body(text.to_owned()));
        if body.prompt.trim().is_empty() || body.prompt.chars().count() > PROMPT {
            return say("`prompt` has to have 1 to 12000 characters: say what is wanted");
        }
        if let Some(by) = &body.requested_by
            && (by.trim().is_empty() || by.chars().count() > NAME || by.contains(char::is_control))
        {
            return say("`requestedBy` has to be a name of 1 to 64 characters, or left out");
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        DeliveryBody::parse(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_body_says_what_is_wanted_and_who_wants_it() {
        let body =
            DeliveryBody::parse(br#"{"prompt": "Mend it.", "requestedBy": "nightly"}"#).unwrap();
        assert_eq!((&*body.prompt, body.requested_by.as_deref()), ("Mend it.", Some("nightly")));
        let longest = json!({"prompt": "\u{1f600}".repeat(PROMPT)}).to_string();
        assert!(longest.len() <= BODY);
        assert!(DeliveryBody::parse(longest.as_bytes()).unwrap().requested_by.is_none());
    }

    #[test]
    fn a_wrong_body_is_refused_with_the_name_of_the_field() {
        let long = |field: &str, length: usize| {
            let mut body = json!({"prompt": "x"});
            body[field] = "x".repeat(length).into();
            body.to_string()
        };
        for (body, says) in [
            (r#"{"prompt": "x", "branch": "main"}"#, "`branch`"),
            (r#"{"requestedBy": "x"}"#, "`prompt`"),
            (r#"{"prompt": ""}"#, "`prompt`"),
            (r#"{"prompt": " \n"}"#, "`prompt`"),
            (r#"{"prompt": 7}"#, "string"),
            (r#"{"prompt": "x", "prompt": "y"}"#, "duplicate field `prompt`"),
            (r#"{"prompt": "x", "requestedBy": "a\nb"}"#, "`requestedBy`"),
            (r#"{"prompt": "x"} more"#, "trailing"),
            (&long("prompt", PROMPT + 1), "`prompt`"),
            (&long("requestedBy", NAME + 1), "`requestedBy`"),
            ("", "`prompt`"),
        ] {
            assert!(refused(body).contains(says), "{body}: {}", refused(body));
        }
    }

    #[test]
    fn a_body_is_json_and_small_by_its_headers() {
        let form = |kind: &str, length: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
            headers.insert(header::CONTENT_LENGTH, length.parse().unwrap());
            check_form(&headers).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(form("Application/JSON; charset=utf-8", "65536"), Ok(()));
        assert!(form("application/json", "65537").unwrap_err().contains("64 KiB"));
        for kind in ["text/plain", "application/jsonp", ""] {
            assert!(form(kind, "2").unwrap_err().contains("application/json"), "{kind}");
        }
        assert!(check_form(&HeaderMap::new()).is_err());
    }

    #[tokio::test]
    async fn a_body_that_does_not_say_its_length_is_cut_off_where_it_is_too_long() {
        let pieces = |count: usize| {
            let piece = Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 10]));
            Body::from_stream(futures::stream::iter((0..count).map(move |_| {
                piece.as_ref().map(Bytes::clone).map_err(|_| std::io::Error::other("none"))
            })))
        };
        assert_eq!(read_body(pieces(64), PATIENCE).await.unwrap().len(), BODY);
        assert!(matches!(read_body(pieces(65), PATIENCE).await, Err(DeliveryRefusal::TooLarge)));
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let never = Body::from_stream(futures::stream::pending::<std::io::Result<Bytes>>());
        let read = read_body(never, Duration::from_millis(20)).await;
        assert!(matches!(read, Err(DeliveryRefusal::TooSlow)));
    }
}
