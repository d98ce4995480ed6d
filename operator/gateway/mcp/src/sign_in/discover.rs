//! The way from a 401 to the place where people sign in: metadata of the server, then of its authorization server.
//! All of it is named by strangers, so it is asked for through the one dialer and read within bounds.

use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::mcp::McpOauth;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_mcp::HttpDialer as _;
use codebutler_mcp::oauth::{
    AuthorizationServer, MetadataError, ProtectedResource, StatedAuthority,
    authorization_server_urls, choose_scope, read_authorization_server, read_challenge,
    read_protected_resource, resource_metadata_urls,
};
use futures::StreamExt as _;
use http::header::{ACCEPT, LOCATION};
use http::{Request, StatusCode};
use tokio::time::timeout;
use url::Url;

use super::super::dialer::SessionDialer;
use super::SignInError;

/// Time limit of one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of an answer.
const ANSWER: usize = 256 << 10;
/// Redirects on the way to metadata.
const REDIRECTS: usize = 3;
/// Authorization servers of one resource that are asked.
const SERVERS: usize = 3;

/// The place where people sign in for a server.
pub(super) struct ServerAuthority {
    /// The authorization server.
    pub authority: AuthorizationServer,
    /// Identifier of the server in requests for tokens; none where they must not have it.
    pub resource: Option<String>,
    /// Scope to request.
    pub scope: Option<String>,
}

/// The entry of a server as far as it says how people sign in, and what they have allowed so far.
pub(super) struct SignInWish<'a> {
    /// URL of the server.
    pub server: &'a Url,
    /// Settings from the Repo's entry.
    pub oauth: &'a McpOauth,
    /// The scope of the tokens that there are.
    pub had: Option<&'a str>,
}

/// Finds the place where people sign in for a server, which answered with this challenge.
pub(super) async fn discover_authority(
    context: &GatewayContext,
    wish: &SignInWish<'_>,
    challenge: &str,
) -> Result<ServerAuthority, SignInError> {
    let (server, challenge) = (wish.server, read_challenge(challenge));
    let urls = resource_metadata_urls(server, &challenge);
    let read = |body: &[u8]| read_protected_resource(body, server);
    let resource = match first_usable(context, urls, read).await? {
        Some(resource) => resource,
        None => ProtectedResource::of_origin(server)?,
    };
    let mut named: Vec<Url> =
        resource.authorization_servers.iter().take(SERVERS).cloned().collect();
    // Lets a person state the right address where the server names a wrong one.
    let oauth = wish.oauth;
    let stated = oauth.issuer.as_deref().map(Url::parse).transpose();
    let stated = stated.map_err(SignInError::Issuer)?;
    named.extend(stated.filter(|stated| !resource.authorization_servers.contains(stated)));
    let mut failure = None;
    for issuer in &named {
        match read_authority(context, issuer, oauth).await {
            Ok(authority) => {
                let scopes = (&*oauth.scopes, wish.had);
                let scope = choose_scope(scopes, &challenge, &resource, &authority);
                let resource = oauth.resource.is_none().then_some(resource.resource);
                return Ok(ServerAuthority { authority, resource, scope });
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| SignInError::NoMetadata(server.to_string())))
}

async fn read_authority(
    context: &GatewayContext,
    issuer: &Url,
    oauth: &McpOauth,
) -> Result<AuthorizationServer, SignInError> {
    let stated =
        StatedAuthority { issuer: oauth.issuer.as_deref(), has_pkce: oauth.pkce.is_some() };
    let read = |body: &[u8]| read_authorization_server(body, issuer, stated);
    let found = first_usable(context, authorization_server_urls(issuer), read).await?;
    found.ok_or_else(|| SignInError::NoMetadata(issuer.to_string()))
}

/// Reads the metadata from the first of these addresses that has any. Servers answer unknown addresses with their
/// front page, too: an answer that is no JSON counts as absent.
async fn first_usable<T>(
    context: &GatewayContext,
    urls: Vec<Url>,
    read: impl Fn(&[u8]) -> Result<T, MetadataError>,
) -> Result<Option<T>, SignInError> {
    let mut failure = None;
    for url in urls {
        match fetch_metadata(context, url).await {
            Ok((StatusCode::OK, body)) => match read(&body) {
                Ok(found) => return Ok(Some(found)),
                Err(MetadataError::Form) => {}
                // The first mistake is the one that a person can act on.
                Err(error) => failure = failure.or(Some(SignInError::Metadata(error))),
            },
            Ok(_) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(None), Err)
}

/// Fetches metadata, which may be redirected. It says itself whom it is of, so another host may hold it.
async fn fetch_metadata(
    context: &GatewayContext,
    mut url: Url,
) -> Result<(StatusCode, Vec<u8>), SignInError> {
    let stray = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        SignInError::Unreachable(format!("the metadata at `{host}` is redirected to nowhere"))
    };
    for _ in 0..=REDIRECTS {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json");
        let (parts, body) = exchange(context, request, Bytes::new()).await?;
        let location = parts.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        match location.filter(|_| parts.status.is_redirection()) {
            None => return Ok((parts.status, body)),
            Some(location) => url = follow_redirect(&url, location).ok_or_else(|| stray(&url))?,
        }
    }
    Err(stray(&url))
}

/// The address that metadata is redirected to. Nobody on the way there may change it.
fn follow_redirect(from: &Url, location: &str) -> Option<Url> {
    let next = from.join(location).ok()?;
    (next.scheme() == "https" || next.origin() == from.origin()).then_some(next)
}

/// Sends one request to a host that a server has named.
pub(super) async fn send_request(
    context: &GatewayContext,
    request: http::request::Builder,
    body: Bytes,
) -> Result<(StatusCode, Vec<u8>), SignInError> {
    let (parts, body) = exchange(context, request, body).await?;
    Ok((parts.status, body))
}

async fn exchange(
    context: &GatewayContext,
    request: http::request::Builder,
    body: Bytes,
) -> Result<(http::response::Parts, Vec<u8>), SignInError> {
    let unreachable = |text: String| SignInError::Unreachable(text);
    let request = request.body(body).map_err(|error| unreachable(error.to_string()))?;
    let host = request.uri().host().unwrap_or_default().to_owned();
    let dialer = SessionDialer(context.dialer.clone());
    let exchanging = async {
        let response =
            dialer.send(request).await.map_err(|error| unreachable(error.to_string()))?;
        let (parts, mut stream) = response.into_parts();
        let mut body = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk =
                chunk.map_err(|_| unreachable(format!("the answer of `{host}` broke off")))?;
            if body.len() + chunk.len() > ANSWER {
                return Err(unreachable(format!("the answer of `{host}` is too long")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((parts, body))
    };
    let late = || unreachable(format!("`{host}` does not answer within {} s", PATIENCE.as_secs()));
    timeout(PATIENCE, exchanging).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_followed_to_its_own_origin_or_over_tls() {
        let from = Url::parse("http://m.example/.well-known/a").unwrap();
        for (location, expected) in [
            ("/b", Some("http://m.example/b")),
            ("https://id.example/c", Some("https://id.example/c")),
            ("http://id.example/c", None),
            ("http://m.example:81/c", None),
            ("file:///etc/passwd", None),
            ("http://[", None),
        ] {
            let next = follow_redirect(&from, location);
            assert_eq!(next.as_ref().map(Url::as_str), expected, "{location}");
        }
    }
}
