//! The client that an authorization server knows us by: one from a Secret, one that was registered before, a new one, or
//! one that a document on the pages describes.

use bytes::Bytes;
use codebutler_crds::names::secret_key;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::DialReach;
use codebutler_gateway_core::redact::log;
use codebutler_mcp::oauth::{
    AuthorizationServer, ClientRegistration, ServerTokens, TokenError, TokenRequest,
    client_document, client_of_document, read_registration, read_tokens, registration_request,
};
use http::Request;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;
use url::Url;

use super::super::session_key::ServerPlace;
use super::SignInError;
use super::discover::send_request;
use super::stored::StoredClient;

/// Name under which people see us at an authorization server.
const NAME: &str = "CodeButler";

/// Path to which people come back, see [`super::OPEN`].
pub const DONE: &str = "/sign-in/server/done";
/// Path of the document that describes this client.
pub const DOCUMENT: &str = "/sign-in/server/client.json";

/// The document that describes this client to authorization servers.
///
/// # Errors
/// When there is no public address for people.
pub fn describe_client(context: &GatewayContext) -> Result<Value, SignInError> {
    let address = document_address(context).ok_or(SignInError::NoAddress)?;
    Ok(client_document(NAME, &address, &redirect_address(context)?))
}

/// The address to which people come back.
pub(super) fn redirect_address(context: &GatewayContext) -> Result<Url, SignInError> {
    let base = context.pages.as_deref().ok_or(SignInError::NoAddress)?;
    Ok(Url::parse(&format!("{base}{DONE}"))?)
}

fn document_address(context: &GatewayContext) -> Option<Url> {
    Url::parse(&format!("{}{DOCUMENT}", context.pages.as_deref()?)).ok()
}

/// True where a client can be had that the Repo names no Secret for.
pub(super) fn can_register(context: &GatewayContext, authority: &AuthorizationServer) -> bool {
    authority.registration_endpoint.is_some() || find_document(context, authority).is_some()
}

/// This client as its document describes it, for an authorization server that reads such documents.
fn find_document(
    context: &GatewayContext,
    authority: &AuthorizationServer,
) -> Option<ClientRegistration> {
    let address = document_address(context).filter(|_| authority.takes_documents)?;
    client_of_document(&address)
}

/// The client of a Secret that the Repo names, if it names one. The Secret has to allow the host that gets it.
pub(super) async fn read_client(
    context: &GatewayContext,
    place: &ServerPlace,
    authority: &AuthorizationServer,
) -> Result<Option<ClientRegistration>, SignInError> {
    let oauth = place.spec.oauth.as_ref();
    let Some(named) = oauth.and_then(|oauth| oauth.client.as_ref()) else { return Ok(None) };
    let to = (&authority.token_endpoint, DialReach::Outside);
    let secret = context.open_secret(&place.key.namespace, named, to).await?;
    let client_id = secret.value(secret_key::CLIENT_ID)?;
    let client_secret = secret.value(secret_key::CLIENT_SECRET).ok();
    Ok(Some(ClientRegistration { client_id, client_secret, method: None }))
}

/// The client of a sign-in or a refresh.
pub(super) async fn find_client(
    context: &GatewayContext,
    place: &ServerPlace,
    stored: &StoredClient,
) -> Result<ClientRegistration, SignInError> {
    if let Some(client) = read_client(context, place, &stored.authority).await? {
        return Ok(client);
    }
    let none = || SignInError::NoRegistration { redirect: stored.redirect.to_string() };
    stored.registered.clone().ok_or_else(none)
}

/// A client at an authorization server for a scope, with the scope that it was registered for. Registration comes first,
/// since the document helps only a server that can reach the pages. A server that refuses to register this client is
/// given the document.
pub(super) async fn register_client(
    context: &GatewayContext,
    authority: &AuthorizationServer,
    redirect: &Url,
    scope: Option<&str>,
) -> Result<(ClientRegistration, Option<String>), SignInError> {
    let registered = register_for(context, authority, redirect, scope).await;
    let is_refused = |error: &SignInError| {
        matches!(error, SignInError::NoRegistration { .. })
            || matches!(error, SignInError::Registration(TokenError::Refused(_)))
    };
    match registered {
        Err(error) if is_refused(&error) => {
            let described = find_document(context, authority);
            described.map(|client| (client, None)).ok_or(error)
        }
        registered => registered,
    }
}

/// Registers a client for a scope, and returns that with it. Some servers refuse a client that names one: it is
/// registered without, and may ask for what they let each client have.
async fn register_for(
    context: &GatewayContext,
    authority: &AuthorizationServer,
    redirect: &Url,
    scope: Option<&str>,
) -> Result<(ClientRegistration, Option<String>), SignInError> {
    match send_registration(context, authority, redirect, scope).await {
        Err(SignInError::Registration(TokenError::Refused(_))) if scope.is_some() => {
            let plain = send_registration(context, authority, redirect, None).await;
            plain.map(|client| (client, None))
        }
        sent => sent.map(|client| (client, scope.map(str::to_owned))),
    }
}

async fn send_registration(
    context: &GatewayContext,
    authority: &AuthorizationServer,
    redirect: &Url,
    scope: Option<&str>,
) -> Result<ClientRegistration, SignInError> {
    let none = || SignInError::NoRegistration { redirect: redirect.to_string() };
    let endpoint = authority.registration_endpoint.as_ref().ok_or_else(none)?;
    let body = registration_request(NAME, redirect, authority, scope).to_string();
    let request = Request::post(endpoint.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json");
    let (status, answer) = send_request(context, request, Bytes::from(body)).await?;
    let client = read_registration(status.as_u16(), &answer).map_err(SignInError::Registration)?;
    if let Some(secret) = &client.client_secret {
        log::mask_issued(secret);
    }
    Ok(client)
}

/// Requests tokens. `old`: the refresh token that is in use.
pub(super) async fn request_tokens(
    context: &GatewayContext,
    request: TokenRequest,
    old: Option<&str>,
) -> Result<ServerTokens, SignInError> {
    let mut sent = Request::post(request.url.as_str())
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json");
    if let Some(authorization) = &request.authorization {
        sent = sent.header(AUTHORIZATION, authorization);
    }
    let (status, body) = send_request(context, sent, Bytes::from(request.body)).await?;
    let tokens = read_tokens(status.as_u16(), &body, old)?;
    log::mask_issued(&tokens.access_token);
    if let Some(refresh) = &tokens.refresh_token {
        log::mask_issued(refresh);
    }
    Ok(tokens)
}
