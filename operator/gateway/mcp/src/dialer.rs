//! The gateway's one way out, for sessions with remote servers. Its client follows no redirect and has no limit on a
//! stream that is open; it reaches what a Repo may name, and nothing else.

use std::error::Error as _;
use std::io;

use bytes::Bytes;
use codebutler_gateway_core::dial::{
    DialReach, DialTrouble, OutsideDialer, find_refusal, find_trouble,
};
use codebutler_mcp::{BodyStream, DialError, HttpDialer};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use url::Url;

/// Sends requests of sessions.
#[derive(Clone)]
pub struct SessionDialer(pub OutsideDialer);

impl HttpDialer for SessionDialer {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<BodyStream>, DialError>> {
        let dialer = self.0.clone();
        async move {
            let url = Url::parse(&request.uri().to_string())
                .map_err(|error| DialError(format!("its address is no URL: {error}")))?;
            dialer.admit(&url).map_err(|refusal| DialError(refusal.to_string()))?;
            let host = url.host_str().unwrap_or_default().to_owned();
            let request = reqwest::Request::try_from(request)
                .map_err(|error| DialError(explain_failure(&error, &host)))?;
            let answer = dialer.http(DialReach::Outside).execute(request).await;
            let answer = answer.map_err(|error| DialError(explain_failure(&error, &host)))?;
            if let Some(trouble) = DialTrouble::by_status(answer.status().as_u16()) {
                return Err(DialError(trouble.to_string()));
            }
            let mut response = Response::new(());
            *response.status_mut() = answer.status();
            *response.headers_mut() = answer.headers().clone();
            let body = answer.bytes_stream().map_err(io::Error::other).boxed();
            Ok(response.map(|()| body as BodyStream))
        }
        .boxed()
    }
}

/// A sentence without the URL: its query can hold a key.
fn explain_failure(error: &reqwest::Error, host: &str) -> String {
    if let Some(refusal) = find_refusal(error) {
        return refusal.to_string();
    }
    if let Some(trouble) = find_trouble(error) {
        return trouble.to_string();
    }
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(|cause| cause.source()) {
        cause = Some(deeper);
    }
    let why = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
    if error.is_connect() {
        format!("no connection to `{host}` can be made{why}")
    } else {
        format!("the connection to `{host}` broke off{why}")
    }
}
