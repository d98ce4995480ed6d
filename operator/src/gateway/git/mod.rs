//! Git's smart HTTP protocol between a pod and the Repo's remote. The gateway adds the credentials
//! and decides about every push before a byte of it is forwarded; fetches pass as they are.

pub mod pktline;
pub mod push;

use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use codebutler_crds::names::{self, secret_key};
use codebutler_crds::wire::ErrorCode;
use futures::{StreamExt as _, stream};
use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use kube::ResourceExt as _;
use serde::Deserialize;

use self::push::{Push, Refusal, Rights};
use super::api::{Open, Query, Shared};
use super::approval;
use super::context::{ApiError, Caller, SecretError};
use super::remote::Remote;

const FETCH: &str = "git-upload-pack";
const PUSH: &str = "git-receive-pack";
const PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

/// Most bytes of a refused push that are read and thrown away, so that Git reads the refusal
/// instead of a broken connection.
const MAX_DRAIN: usize = 256 * 1024 * 1024;

/// `?service=…` of `info/refs`.
#[derive(Debug, Deserialize)]
pub struct Service {
    service: Option<String>,
}

/// `GET info/refs`: what the remote has.
pub async fn info_refs(
    State(gateway): State<Shared>,
    Open(caller): Open,
    Query(query): Query<Service>,
    headers: HeaderMap,
) -> Response {
    let service = match query.service.as_deref() {
        Some(FETCH) => FETCH,
        Some(PUSH) => PUSH,
        _ => {
            let message = "CodeButler speaks Git's smart HTTP protocol only: update Git";
            return text(StatusCode::FORBIDDEN, message);
        }
    };
    if service == PUSH && caller.role.spec.push.is_none() {
        gateway.metrics.git_request(&caller.repo.name_any(), PUSH, "refused");
        return text(
            StatusCode::FORBIDDEN,
            &push::explain(&[("", Refusal::Role)], &rights(&caller, "", false)),
        );
    }
    let forward = Forward { service, path: format!("info/refs?service={service}"), content: None };
    finish(&gateway, &caller, service, forward.run(&gateway, &caller, &headers).await)
}

/// `POST git-upload-pack`: a fetch.
pub async fn upload_pack(
    State(gateway): State<Shared>,
    Open(caller): Open,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let content = reqwest::Body::wrap_stream(body.into_data_stream());
    let forward = Forward { service: FETCH, path: FETCH.to_owned(), content: Some(content) };
    finish(&gateway, &caller, FETCH, forward.run(&gateway, &caller, &headers).await)
}

/// `POST git-receive-pack`: a push.
pub async fn receive_pack(
    State(gateway): State<Shared>,
    Open(caller): Open,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = receive(&gateway, &caller, &headers, body).await;
    finish(&gateway, &caller, PUSH, outcome)
}

async fn receive(
    gateway: &Shared,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<Answered, GitError> {
    // Git compresses fetch requests only. A push that hides its command list is not looked into.
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(GitError::Encoding);
    }
    let mut stream = body.into_data_stream();
    let (head, push, used) = read_commands(&mut stream).await?;
    if push.commands.is_empty() {
        // Git's probe before a large push: it changes nothing and needs no remote.
        return Ok(Answered { response: result(Vec::new()), outcome: "ok" });
    }
    let lacks_approval = approval::lacks_approved_plan(gateway, caller).await?;
    let branch = names::branch(&caller.thread.name_any());
    let rights = rights(caller, &branch, lacks_approval);
    let refused = push::judge(&push, &rights);
    if !refused.is_empty() {
        drain(stream, head.len().saturating_sub(used)).await;
        let message = push::explain(&refused, &rights);
        tracing::warn!(
            thread = caller.thread.name_any(),
            role = caller.role_name(),
            refused = refused.len(),
            "refused a push"
        );
        let response = result(push::report(&push, &refused, &message));
        return Ok(Answered { response, outcome: "refused" });
    }
    let content = stream::once(async move { Ok(head) }).chain(stream);
    let content = Some(reqwest::Body::wrap_stream(content));
    let forward = Forward { service: PUSH, path: PUSH.to_owned(), content };
    forward.run(gateway, caller, headers).await
}

/// Reads until the command list is complete: all bytes read, the list, and its length.
async fn read_commands(stream: &mut BodyDataStream) -> Result<(Bytes, Push, usize), GitError> {
    let mut head = BytesMut::new();
    loop {
        if let Some((push, used)) = push::parse(&head)? {
            return Ok((head.freeze(), push, used));
        }
        match stream.next().await {
            Some(Ok(chunk)) => head.extend_from_slice(&chunk),
            Some(Err(_)) | None => return Err(GitError::Cut),
        }
    }
}

async fn drain(mut stream: BodyDataStream, mut read: usize) {
    while read < MAX_DRAIN
        && let Some(Ok(chunk)) = stream.next().await
    {
        read += chunk.len();
    }
}

fn rights<'a>(caller: &Caller, branch: &'a str, lacks_approval: bool) -> Rights<'a> {
    Rights { may_push: caller.role.spec.push.is_some(), lacks_approval, branch }
}

/// A request for the remote.
struct Forward {
    service: &'static str,
    path: String,
    content: Option<reqwest::Body>,
}

impl Forward {
    async fn run(
        self,
        gateway: &Shared,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Answered, GitError> {
        let git = &caller.repo.spec.git;
        let namespace = caller.repo.namespace().unwrap_or_default();
        let outcome = async {
            let remote = Remote::parse(&git.url).map_err(|e| GitError::Remote(e.to_string()))?;
            let token = gateway
                .context
                .secret(&namespace, &git.credentials, secret_key::GIT_TOKEN, &remote.host)
                .await?;
            self.send(gateway, &remote, &token, headers).await?.answer(&git.credentials.name)
        }
        .await;
        match &outcome {
            Ok(_) => gateway.conditions.git_works(&caller.repo).await,
            Err(GitError::Remote(why)) => gateway.conditions.git_fails(&caller.repo, why).await,
            Err(GitError::Secret(why)) => {
                gateway.conditions.git_fails(&caller.repo, &why.to_string()).await;
            }
            Err(_) => {}
        }
        outcome
    }

    async fn send(
        self,
        gateway: &Shared,
        remote: &Remote,
        token: &str,
        headers: &HeaderMap,
    ) -> Result<Answer, GitError> {
        let url = format!("{}/{}", remote.git, self.path);
        let mut request = match self.content {
            Some(content) => gateway.http.post(url).body(content),
            None => gateway.http.get(url),
        };
        let basic = STANDARD.encode(format!("x-access-token:{token}"));
        let mut basic = HeaderValue::try_from(format!("Basic {basic}")).map_err(|_| {
            GitError::Remote("the Git token has characters no header allows".into())
        })?;
        basic.set_sensitive(true);
        request = request.header(AUTHORIZATION, basic);
        let mut passed = vec![ACCEPT, CONTENT_TYPE, CONTENT_LENGTH];
        if self.service == FETCH {
            // Protocol 2 exists for fetches only.
            passed.extend([PROTOCOL, CONTENT_ENCODING]);
        }
        for name in passed {
            if let Some(value) = headers.get(&name) {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.map_err(|error| {
            tracing::warn!(error = %error.without_url(), host = remote.host, "the Git host failed");
            GitError::Unreachable(remote.host.clone())
        })?;
        Ok(Answer { response, host: remote.host.clone() })
    }
}

/// What the remote said.
struct Answer {
    response: reqwest::Response,
    host: String,
}

impl Answer {
    /// Passes a good answer on, as it comes; turns anything else into a sentence.
    fn answer(self, secret: &str) -> Result<Answered, GitError> {
        let status = self.response.status();
        if let Some(why) = complaint(status, &self.host, secret) {
            return Err(why);
        }
        let mut response = Response::new(Body::empty());
        for name in [CONTENT_TYPE, CACHE_CONTROL] {
            if let Some(value) = self.response.headers().get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        *response.body_mut() = Body::from_stream(self.response.bytes_stream());
        Ok(Answered { response, outcome: "ok" })
    }
}

fn complaint(status: StatusCode, host: &str, secret: &str) -> Option<GitError> {
    let why = match status.as_u16() {
        200 => return None,
        300..=399 => format!("{host} says that the repository has moved: correct spec.git.url"),
        401 => format!("{host} refused the token of Secret `{secret}`: put a valid one into it"),
        403 => {
            format!("{host} does not let the token of Secret `{secret}` do this: extend its rights")
        }
        404 => format!(
            "{host} has no such repository, or hides it from the token of Secret `{secret}`: check spec.git.url"
        ),
        status => return Some(GitError::Status(host.to_owned(), status)),
    };
    Some(GitError::Remote(why))
}

/// What Git is answered, and how that is counted.
struct Answered {
    response: Response,
    outcome: &'static str,
}

/// Why a Git request went no further.
#[derive(Debug, thiserror::Error)]
enum GitError {
    #[error("{0}")]
    Remote(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Push(#[from] push::PushError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{0} can't be reached: try again")]
    Unreachable(String),
    #[error("{0} failed with status {1}: try again")]
    Status(String, u16),
    #[error("a push may not be compressed as a whole (Content-Encoding)")]
    Encoding,
    #[error("the push ended in the middle of its command list")]
    Cut,
}

fn finish(
    gateway: &Shared,
    caller: &Caller,
    service: &'static str,
    outcome: Result<Answered, GitError>,
) -> Response {
    let repo = caller.repo.name_any();
    let error = match outcome {
        Ok(answer) => {
            gateway.metrics.git_request(&repo, service, answer.outcome);
            return answer.response;
        }
        Err(error) => error,
    };
    let (status, outcome) = match &error {
        GitError::Push(_) | GitError::Encoding | GitError::Cut => {
            (StatusCode::BAD_REQUEST, "invalid")
        }
        GitError::Api(error) if error.code == ErrorCode::Forbidden => {
            (StatusCode::FORBIDDEN, "refused")
        }
        GitError::Api(_) => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
        _ => (StatusCode::BAD_GATEWAY, "failed"),
    };
    gateway.metrics.git_request(&repo, service, outcome);
    text(status, &format!("CodeButler: {error}"))
}

/// A body that Git shows to its user.
fn text(status: StatusCode, message: &str) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{message}\n")).into_response()
}

fn result(body: Vec<u8>) -> Response {
    let headers =
        [(CONTENT_TYPE, "application/x-git-receive-pack-result"), (CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}
