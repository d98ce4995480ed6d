//! The end of a sign-in: a person opens their link, and comes back with a code. Any replica may serve them, so that
//! nothing of it is in memory.

use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::mcp_grants::seconds_now;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_mcp::oauth::{TokenError, TokenRequest};

use super::super::session_key::ServerPlace;
use super::SignInError;
use super::begin::ticket_id;
use super::client::{find_client, request_tokens};
use super::stored::{
    PendingSignIn, StoreError, StoredSignIn, StoredTokens, grant_key, read_stored, thread_of,
    update_stored,
};

/// A visit that leads to no tokens.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The link was used, has ended or was never given, or the answer belongs to another one.
    #[error("the link was used, its time is over, or the answer belongs to another one")]
    Gone,
    /// The sign-in failed at the authorization server, or its tokens can't be kept.
    #[error(transparent)]
    Failed(#[from] SignInError),
}

/// A person with a link that can be used.
pub struct SignInVisit {
    place: ServerPlace,
    pending: PendingSignIn,
}

impl SignInVisit {
    /// Name of the server that the sign-in is for.
    pub fn server(&self) -> &str {
        &self.place.spec.name
    }

    /// Slack user id of the person whose link it is.
    pub fn user(&self) -> &str {
        &self.pending.user
    }

    /// Place of the server that the sign-in is for.
    pub fn place(&self) -> &ServerPlace {
        &self.place
    }

    /// The Thread in which they were asked.
    pub fn thread(&self) -> ThreadKey {
        thread_of(&self.place, &self.pending)
    }

    /// The role that needs the server.
    pub fn role(&self) -> &str {
        &self.pending.role
    }

    /// Names this sign-in, and is no secret.
    pub fn name(&self) -> &str {
        self.pending.id.get(..12).unwrap_or_default()
    }

    /// The page of the authorization server to send them to.
    pub fn address(&self) -> &str {
        self.pending.link.url.as_str()
    }
}

/// Finds the sign-in of a link.
///
/// # Errors
/// When there is none.
pub async fn open_visit(
    context: &GatewayContext,
    (namespace, repo, server): (&str, &str, &str),
    ticket: &str,
) -> Result<SignInVisit, VisitError> {
    let repo = context.repo(namespace, repo).ok_or(VisitError::Gone)?;
    let spec = repo.spec.mcp_servers.iter().find(|spec| spec.name == server);
    let spec = spec.filter(|spec| spec.oauth.is_some()).ok_or(VisitError::Gone)?;
    let place = ServerPlace::new(&repo, spec, None);
    let stored = read_stored(context, &place).await.map_err(SignInError::Store)?;
    let id = ticket_id(ticket);
    let found = stored.pending.into_iter().find(|one| one.id == id && one.until > seconds_now());
    Ok(SignInVisit { place, pending: found.ok_or(VisitError::Gone)? })
}

/// Notes that the person of a link is sent to the authorization server: if they don't come back, the next link is of a
/// new client.
///
/// # Errors
/// When it can't be written.
pub async fn note_opened(context: &GatewayContext, visit: &SignInVisit) -> Result<(), StoreError> {
    let SignInVisit { place, pending } = visit;
    update_stored(context, place, |stored| stored.note_opened(&pending.id)).await
}

/// Exchanges the code with which a person comes back.
///
/// # Errors
/// When it does not belong to this sign-in, was brought before, or is not taken.
pub async fn finish_sign_in(
    context: &GatewayContext,
    visit: &SignInVisit,
    query: &str,
) -> Result<(), VisitError> {
    let SignInVisit { place, pending } = visit;
    let returned = pending.link.read_return(query);
    if matches!(returned, Err(TokenError::Foreign)) {
        return Err(VisitError::Gone);
    }
    // Taken before the code is used, so that a second visit with the same answer finds nothing.
    let taken = update_stored(context, place, |stored| stored.take_pending(&pending.id)).await;
    let pending = taken.map_err(SignInError::Store)?.ok_or(VisitError::Gone)?;
    let code = returned.map_err(SignInError::Token)?;
    let client = find_client(context, place, &pending.client).await?;
    let (authority, resource) = (&pending.client.authority, pending.client.resource.as_deref());
    let request = TokenRequest::of_code(authority, &client, &pending.link, &code, resource);
    let tokens = match request_tokens(context, request, None).await {
        Ok(tokens) => StoredTokens::new(tokens, &pending.user, pending.scope.as_ref())
            .map_err(SignInError::Token)?,
        Err(error) => {
            // The client may be what is not accepted: the next sign-in registers anew.
            let forget = |stored: &mut StoredSignIn| {
                if stored.tokens.is_none() {
                    stored.client = None;
                }
                stored.newest.take_if(|newest| *newest == pending.client);
            };
            let is_lost =
                |error: &TokenError| matches!(error, TokenError::Lost(_) | TokenError::Client(_));
            if matches!(&error, SignInError::Token(error) if is_lost(error))
                && let Err(error) = update_stored(context, place, forget).await
            {
                tracing::warn!(%error, "oauth_client_removal_failed");
            }
            return Err(error.into());
        }
    };
    let kept = update_stored(context, place, |stored| stored.finish(&pending.client, &tokens));
    kept.await.map_err(SignInError::Store)?;
    context.mcp.grants.cell(&grant_key(place)).keep(None);
    Ok(())
}
