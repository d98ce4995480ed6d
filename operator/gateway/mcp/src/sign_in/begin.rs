//! The beginning of a sign-in: all that can fail without the person has not failed when they get their link.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::mcp_grants::seconds_now;
use codebutler_mcp::oauth::{AuthorizationLink, ClientRegistration};
use rand::Rng as _;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::super::session_key::ServerPlace;
use super::SignInError;
use super::client::{can_register, read_client, redirect_address, register_client};
use super::discover::{ServerAuthority, SignInWish, discover_authority};
use super::stored::{PendingSignIn, StoredClient, StoredSignIn, read_stored, update_stored};

/// Path of a person's link, and of the page to which they come back.
pub const OPEN: &str = "/sign-in/server";
/// Seconds for which a link can be used.
const LIFE: i64 = 15 * 60;

/// The person who is asked to sign in, and what for.
pub struct SignInAsker<'a> {
    /// Slack user id of the person.
    pub user: &'a str,
    /// Name of the Thread in which they are asked.
    pub thread: &'a str,
    /// The role that needs the server.
    pub role: &'a str,
}

/// Sign-in link that only one person may use.
pub struct PersonalLink {
    /// URL of the link.
    pub address: String,
    /// Host of the page on which they sign in.
    pub host: String,
    /// True if an earlier grant was taken back, or is not accepted any more.
    pub was_lost: bool,
}

/// Checks that a sign-in could begin, without a trace anywhere.
///
/// # Errors
/// A sentence that says what is missing.
pub async fn check_sign_in(
    context: &GatewayContext,
    place: &ServerPlace,
    challenge: &str,
) -> Result<StoredSignIn, SignInError> {
    let redirect = redirect_address(context)?;
    let stored = read_stored(context, place).await?;
    let found = find_authority(context, place, challenge, &stored).await?;
    let named = read_client(context, place, &found.authority).await?;
    let can_register = can_register(context, &found.authority);
    if named.is_none()
        && !can_register
        && known_clients(&stored, &found, &redirect).next().is_none()
    {
        return Err(SignInError::NoRegistration { redirect: redirect.to_string() });
    }
    Ok(stored)
}

/// Begins a sign-in.
///
/// # Errors
/// A sentence that says what is missing.
pub async fn begin_sign_in(
    context: &GatewayContext,
    place: &ServerPlace,
    challenge: &str,
    asker: &SignInAsker<'_>,
) -> Result<PersonalLink, SignInError> {
    let redirect = redirect_address(context)?;
    let stored = read_stored(context, place).await?;
    let found = find_authority(context, place, challenge, &stored).await?;
    let named = read_client(context, place, &found.authority).await?;
    let scope = found.scope.as_deref();
    let known = choose_client(known_clients(&stored, &found, &redirect), scope);
    let (known, is_enough) = known.map_or((None, false), |(known, covers)| (Some(known), covers));
    let registered = match (&named, known) {
        (Some(_), _) => None,
        (None, Some(known)) if is_enough && !stored.has_unfinished(&known.0) => Some(known),
        (None, known) => match register_client(context, &found.authority, &redirect, scope).await {
            Ok(client) => Some(client),
            Err(error) => Some(known.ok_or(error)?),
        },
    };
    let (registered, may_ask) = registered.unzip();
    let may_ask = may_ask.flatten();
    let none = || SignInError::NoRegistration { redirect: redirect.to_string() };
    let client = named.or_else(|| registered.clone()).ok_or_else(none)?;
    let ServerAuthority { authority, resource, scope } = found;
    let oauth = place.spec.oauth.as_ref();
    let others = oauth.iter().flat_map(|oauth| &oauth.parameters);
    let others: Vec<_> = others.map(|one| (&*one.name, &*one.value)).collect();
    let wanted = (resource.as_deref(), scope.as_deref());
    let link = AuthorizationLink::new(&authority, &client, &redirect, wanted, &others);
    let host = link.url.host_str().unwrap_or_default().to_owned();
    let client = StoredClient { authority, resource, redirect, registered, may_ask };
    let ticket = random_ticket();
    let pending = PendingSignIn {
        id: ticket_id(&ticket),
        link,
        client: client.clone(),
        user: asker.user.to_owned(),
        thread: asker.thread.to_owned(),
        scope,
        role: asker.role.to_owned(),
        opened: false,
        until: seconds_now() + LIFE,
    };
    let was_lost = update_stored(context, place, |stored| {
        stored.keep_client(&client);
        stored.add_pending(pending.clone());
        stored.lost.is_some() || stored.tokens.is_some()
    })
    .await?;
    let base = context.pages.as_deref().ok_or(SignInError::NoAddress)?;
    let (namespace, repo) = (&place.key.namespace, &place.key.repo);
    let address = format!("{base}{OPEN}/{namespace}/{repo}/{}/{ticket}", place.key.server);
    Ok(PersonalLink { address, host, was_lost })
}

async fn find_authority(
    context: &GatewayContext,
    place: &ServerPlace,
    challenge: &str,
    stored: &StoredSignIn,
) -> Result<ServerAuthority, SignInError> {
    let url = Url::parse(place.spec.url.as_deref().unwrap_or_default())?;
    let wish = SignInWish {
        server: &url,
        oauth: &place.spec.oauth.clone().unwrap_or_default(),
        had: stored.tokens.as_ref().and_then(|tokens| tokens.scope.as_deref()),
    };
    discover_authority(context, &wish, challenge).await
}

/// A client, and the scope that it was registered for.
type ScopedClient = (ClientRegistration, Option<String>);

/// The clients that were registered at this authorization server for this address, the newest first.
fn known_clients<'a>(
    stored: &'a StoredSignIn,
    found: &'a ServerAuthority,
    redirect: &'a Url,
) -> impl Iterator<Item = ScopedClient> + 'a {
    let all = stored.newest.iter().chain(&stored.client);
    let here = all.filter(move |known| {
        known.authority.issuer == found.authority.issuer && known.redirect == *redirect
    });
    here.filter_map(|known| Some((known.registered.clone()?, known.may_ask.clone())))
}

/// The first client that may ask for a scope; else the first of all. True where it may.
fn choose_client(
    known: impl Iterator<Item = ScopedClient>,
    scope: Option<&str>,
) -> Option<(ScopedClient, bool)> {
    let mut known: Vec<_> = known.collect();
    let enough = known.iter().position(|(_, may)| covers(may.as_deref(), scope));
    (!known.is_empty()).then(|| (known.swap_remove(enough.unwrap_or(0)), enough.is_some()))
}

/// True for a client that may ask for a scope, as far as it is known what it was registered for.
fn covers(registered: Option<&str>, scope: Option<&str>) -> bool {
    let Some(registered) = registered else { return true };
    let mut wanted = scope.unwrap_or_default().split_whitespace();
    wanted.all(|one| registered.split_whitespace().any(|known| known == one))
}

fn random_ticket() -> String {
    let mut bytes = [0_u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The hash by which a ticket is known.
pub(super) fn ticket_id(ticket: &str) -> String {
    hex::encode(Sha256::digest(ticket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_may_ask_for_a_scope_is_used_again() {
        let client = |id: &str, may: &str| {
            let registered =
                ClientRegistration { client_id: id.into(), client_secret: None, method: None };
            (registered, Some(may.to_owned()))
        };
        let both = || [client("wider", "read write"), client("first", "read")].into_iter();
        let chosen =
            |scope| choose_client(both(), scope).map(|((one, _), may)| (one.client_id, may));
        assert_eq!(chosen(Some("read write")), Some(("wider".into(), true)));
        assert_eq!(chosen(Some("delete")), Some(("wider".into(), false)));
        let less = choose_client([client("first", "read")].into_iter(), Some("write"));
        assert!(less.is_some_and(|(_, is_enough)| !is_enough));
        assert!(choose_client(std::iter::empty(), None).is_none());
    }

    #[test]
    fn a_client_that_was_registered_for_less_is_not_enough() {
        let registered = Some("read offline_access");
        for (scope, enough) in
            [(Some("read"), true), (None, true), (Some("read write"), false), (Some("rea"), false)]
        {
            assert_eq!(covers(registered, scope), enough, "{scope:?}");
        }
        assert!(covers(None, Some("read")), "an earlier version has not kept what it was for");
    }
}
