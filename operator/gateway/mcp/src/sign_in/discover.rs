//! The way from a 401 to the place where people sign in: metadata of the server, then of its authorization server. All
//! of it is named by strangers, so it is asked for through the one dialer and read within bounds.

use std::time::Duration;

use bytes::Bytes;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_mcp::HttpDialer as _;
use codebutler_mcp::oauth::{
    AuthorizationServer, ProtectedResource, authorization_server_urls, choose_scope,
    read_authorization_server, read_challenge, read_protected_resource, resource_metadata_urls,
};
use futures::StreamExt as _;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use tokio::time::timeout;
use url::Url;

use super::super::dialer::SessionDialer;
use super::SignInError;

/// Time for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER: usize = 256 << 10;
/// Authorization servers of one resource that are asked.
const SERVERS: usize = 3;

/// The place where people sign in for a server.
pub(super) struct ServerAuthority {
    /// The authorization server.
    pub authority: AuthorizationServer,
    /// Identifier of the server in requests for tokens.
    pub resource: Url,
    /// The scope to ask for.
    pub scope: Option<String>,
}

/// Finds the place where people sign in for a server, which answered with this challenge.
pub(super) async fn discover_authority(
    context: &GatewayContext,
    server: &Url,
    challenge: &str,
    scopes: &[String],
) -> Result<ServerAuthority, SignInError> {
    let challenge = read_challenge(challenge);
    let resource = match first_found(context, resource_metadata_urls(server, &challenge)).await? {
        Some(body) => read_protected_resource(&body, server)?,
        None => ProtectedResource::of_origin(server)?,
    };
    let mut failure = None;
    for issuer in resource.authorization_servers.iter().take(SERVERS) {
        match read_authority(context, issuer).await {
            Ok(authority) => {
                let scope = choose_scope(scopes, &challenge, &resource, &authority);
                return Ok(ServerAuthority { authority, resource: resource.resource, scope });
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| SignInError::NoMetadata(server.to_string())))
}

async fn read_authority(
    context: &GatewayContext,
    issuer: &Url,
) -> Result<AuthorizationServer, SignInError> {
    match first_found(context, authorization_server_urls(issuer)).await? {
        Some(body) => Ok(read_authorization_server(&body, issuer)?),
        None => Err(SignInError::NoMetadata(issuer.to_string())),
    }
}

/// The first of these addresses that has something.
async fn first_found(
    context: &GatewayContext,
    urls: Vec<Url>,
) -> Result<Option<Vec<u8>>, SignInError> {
    let mut failure = None;
    for url in urls {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json");
        match send_request(context, request, Bytes::new()).await {
            Ok((StatusCode::OK, body)) => return Ok(Some(body)),
            Ok(_) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(None), Err)
}

/// One request to a host that a server has named.
pub(super) async fn send_request(
    context: &GatewayContext,
    request: http::request::Builder,
    body: Bytes,
) -> Result<(StatusCode, Vec<u8>), SignInError> {
    let unreachable = |text: String| SignInError::Unreachable(text);
    let request = request.body(body).map_err(|error| unreachable(error.to_string()))?;
    let host = request.uri().host().unwrap_or_default().to_owned();
    let dialer = SessionDialer(context.dialer.clone());
    let exchange = async {
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
        Ok((parts.status, body))
    };
    let late = || unreachable(format!("`{host}` does not answer within {} s", PATIENCE.as_secs()));
    timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err(late()))
}
