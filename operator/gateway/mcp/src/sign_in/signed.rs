//! Requests with the token of a grant. A request that is answered with 401 was not looked at by its server, so it is
//! sent once more with a newer token.

use bytes::Bytes;
use codebutler_mcp::{BodyStream, DialError, HttpDialer};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};

use super::super::dialer::SessionDialer;
use super::renew::ServerGrant;

/// Sends requests of sessions with a server that people sign in to.
pub struct SignedDialer {
    dialer: SessionDialer,
    grant: ServerGrant,
}

impl SignedDialer {
    /// Wraps a dialer, so that it sends the token of this grant.
    pub const fn new(dialer: SessionDialer, grant: ServerGrant) -> Self {
        Self { dialer, grant }
    }
}

impl HttpDialer for SignedDialer {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<BodyStream>, DialError>> {
        let (dialer, grant) = (self.dialer.clone(), self.grant.clone());
        async move {
            let token = find_token(&grant, None).await?;
            let first = dialer.send(sign_request(&request, token.as_deref())).await?;
            let Some(token) = token.filter(|_| first.status() == StatusCode::UNAUTHORIZED) else {
                return Ok(first);
            };
            match find_token(&grant, Some(&token)).await? {
                Some(newer) if newer != token => {
                    dialer.send(sign_request(&request, Some(&newer))).await
                }
                _ => Ok(first),
            }
        }
        .boxed()
    }
}

async fn find_token(grant: &ServerGrant, spent: Option<&str>) -> Result<Option<String>, DialError> {
    let failed = |error| DialError(format!("the sign-in can't be renewed right now: {error}"));
    grant.token(spent).await.map_err(failed)
}

fn sign_request(request: &Request<Bytes>, token: Option<&str>) -> Request<Bytes> {
    let mut signed = request.clone();
    let value = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    if let Some(mut value) = value {
        value.set_sensitive(true);
        signed.headers_mut().insert(AUTHORIZATION, value);
    }
    signed
}
