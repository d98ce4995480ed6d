//! The Secret in which sign-ins are kept: one of each namespace, a key for each server. The gateway may write this
//! one name and create none, so that nothing that it writes can become another account's credential.

use codebutler_crds::names;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::mcp_grants::{GrantKey, KnownToken, seconds_now};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::writes;
use codebutler_mcp::oauth::{
    AuthorizationLink, AuthorizationServer, ClientRegistration, ServerTokens, TokenError,
};
use http::HeaderValue;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Patch;
use kube::{Api, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::super::session_key::ServerPlace;

/// Attempts against other writers of the same Secret.
const ATTEMPTS: u32 = 8;
/// Links of one server that can be used at a time.
const PENDING: usize = 8;
/// Most bytes of a token.
const TOKEN: usize = 16 << 10;

/// A Secret that can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The team has to create it.
    #[error(
        "there is no Secret to keep the sign-in in: kubectl -n {namespace} create secret generic {}",
        names::MCP_TOKENS
    )]
    Missing {
        /// Namespace of the Repo, and so of the Secret.
        namespace: String,
    },
    /// The gateway's account lacks a right on the Secret.
    #[error(
        "the gateway may not write the Secret `{}`: bind the ClusterRole `{}` of this version to it in the namespace \
         {namespace}",
        names::MCP_TOKENS,
        names::SECRETS_ROLE
    )]
    Forbidden {
        /// Namespace of the Repo, and so of the Secret.
        namespace: String,
    },
    /// The API server refused or could not be reached.
    #[error("the Secret `{}` can't be used right now", names::MCP_TOKENS)]
    Unreadable(#[source] kube::Error),
    /// Others write it again and again.
    #[error("the Secret `{}` is written by others all the time: try again", names::MCP_TOKENS)]
    Contended,
}

/// Tokens as the Secret holds them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTokens {
    /// Access token, for header `Authorization`.
    pub access: String,
    /// Refresh token, which is exchanged for newer ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
    /// The end of the access token, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// Time at which they were given.
    pub since: i64,
    /// Slack user id of the person who signed in.
    pub by: String,
    /// The scope that was granted, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

impl StoredTokens {
    /// Tokens that were given now. A server that says nothing of their scope has granted the one that was `asked`
    /// for.
    ///
    /// # Errors
    /// When a token is none that can be sent.
    pub fn new(tokens: ServerTokens, by: &str, asked: Option<&String>) -> Result<Self, TokenError> {
        let fits = |token: &str| token.len() <= TOKEN && HeaderValue::from_str(token).is_ok();
        if !fits(&tokens.access_token) {
            return Err(TokenError::Form("access_token"));
        }
        let refresh = tokens.refresh_token.filter(|token| token.len() <= TOKEN);
        let now = seconds_now();
        let lasts = tokens.lasts.map(|lasts| i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX));
        let until = lasts.map(|lasts| now.saturating_add(lasts));
        let scope = tokens.scope.filter(|scope| !scope.is_empty()).or_else(|| asked.cloned());
        let (access, by) = (tokens.access_token, by.to_owned());
        Ok(Self { access, refresh, until, since: now, by, scope })
    }

    /// True if a scope is known to be granted.
    pub fn has_scope(&self, wanted: &str) -> bool {
        // Slack separates with commas.
        let is_apart = |letter: char| letter.is_whitespace() || letter == ',';
        let granted = self.scope.as_deref().unwrap_or_default();
        wanted.split_whitespace().all(|one| granted.split(is_apart).any(|granted| granted == one))
    }

    /// Access token with its end.
    pub fn known(&self) -> KnownToken {
        let lasts = self.until.map(|until| until.saturating_sub(self.since));
        KnownToken { access: self.access.clone(), until: self.until, lasts }
    }
}

/// The authorization server and the client there that a server's tokens come from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClient {
    /// The authorization server.
    pub authority: AuthorizationServer,
    /// Identifier of the server in token requests; none where they must not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The address to which people come back.
    pub redirect: Url,
    /// The client that was registered; none where the Repo names a Secret with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<ClientRegistration>,
    /// The scope that it was registered for, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_ask: Option<String>,
}

/// A sign-in that waits for its person.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSignIn {
    /// Hash of the ticket in the person's link.
    pub id: String,
    /// The address to send them to, and what has to come back.
    pub link: AuthorizationLink,
    /// Authorization server and client that issue the tokens.
    pub client: StoredClient,
    /// Slack user id of the person.
    pub user: String,
    /// The Thread in which it was asked for.
    pub thread: String,
    /// The scope that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Role that needs the server.
    pub role: String,
    /// True once its person was sent to the authorization server.
    #[serde(default)]
    pub opened: bool,
    /// End of the link, in seconds since 1970.
    pub until: i64,
}

/// Everything that is kept about one server. No Debug: it holds secrets.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredSignIn {
    /// UID of the Repo: another one can have its name later.
    pub repo: String,
    /// `url` of the server: its tokens go nowhere else.
    pub url: String,
    /// Authorization server and client that issue the tokens.
    pub client: Option<StoredClient>,
    /// The client that was registered last, where it is another one: for a right that the tokens in use lack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<StoredClient>,
    /// Tokens of the server, once a person has signed in.
    pub tokens: Option<StoredTokens>,
    /// The authorization server's words when it took the grant back.
    pub lost: Option<String>,
    /// Sign-ins that wait for their person.
    pub pending: Vec<PendingSignIn>,
}

impl StoredSignIn {
    /// Keeps a client that a link is of: it is registered once, whatever comes of the sign-in. That of tokens in use
    /// stays beside it.
    pub fn keep_client(&mut self, client: &StoredClient) {
        if self.tokens.is_none() {
            self.client = Some(client.clone());
        } else if self.client.as_ref() != Some(client) && client.registered.is_some() {
            self.newest = Some(client.clone());
        }
    }

    /// Notes that a person has signed in with a client.
    pub fn finish(&mut self, client: &StoredClient, tokens: &StoredTokens) {
        self.tokens = Some(tokens.clone());
        self.client = Some(client.clone());
        self.newest.take_if(|newest| newest == client);
        self.lost = None;
    }

    /// Notes that tokens are good no more. Their client stays, unless it is what is not accepted.
    pub fn lose(&mut self, words: &str, is_client: bool) {
        self.tokens = None;
        if is_client {
            (self.client, self.newest) = (None, None);
        }
        self.lost = Some(words.to_owned());
    }

    /// Adds a sign-in that waits, in place of an earlier one of the same person and Thread.
    pub fn add_pending(&mut self, pending: PendingSignIn) {
        let now = seconds_now();
        let is_same =
            |one: &PendingSignIn| one.user == pending.user && one.thread == pending.thread;
        self.pending.retain(|one| one.until > now && !is_same(one));
        self.pending.push(pending);
        let old = self.pending.len().saturating_sub(PENDING);
        self.pending.drain(..old);
    }

    /// Notes that the person of a sign-in that waits is sent to the authorization server.
    pub fn note_opened(&mut self, id: &str) {
        if let Some(one) = self.pending.iter_mut().find(|one| one.id == id) {
            one.opened = true;
        }
    }

    /// True if a person was sent to the authorization server with this client and has not come back. One that has
    /// forgotten the client says so on its own page, and to nobody else.
    pub fn has_unfinished(&self, client: &ClientRegistration) -> bool {
        let is_of = |one: &PendingSignIn| one.client.registered.as_ref() == Some(client);
        self.pending.iter().any(|one| one.opened && is_of(one))
    }

    /// Takes a sign-in that waits, which can be done once.
    pub fn take_pending(&mut self, id: &str) -> Option<PendingSignIn> {
        let at = self.pending.iter().position(|one| one.id == id)?;
        let taken = self.pending.remove(at);
        (taken.until > seconds_now()).then_some(taken)
    }
}

/// The identity of a place's grant.
pub(super) fn grant_key(place: &ServerPlace) -> GrantKey {
    GrantKey { repo: (&*place.repo).into(), server: place.spec.name.clone() }
}

/// Thread in which a sign-in was asked for.
pub(super) fn thread_of(place: &ServerPlace, pending: &PendingSignIn) -> ThreadKey {
    ThreadKey { namespace: place.key.namespace.clone(), name: pending.thread.clone() }
}

/// All that is kept of a server. Nothing of another Repo or another address is.
///
/// # Errors
/// A sentence that says what to create.
pub(super) async fn read_stored(
    context: &GatewayContext,
    place: &ServerPlace,
) -> Result<StoredSignIn, StoreError> {
    let secret = read_secret(context, &place.key.namespace).await?;
    Ok(parse_stored(&secret, place))
}

/// True if a person has signed in since a failure.
pub async fn has_signed_in(context: &GatewayContext, place: &ServerPlace, since: i64) -> bool {
    let stored = read_stored(context, place).await;
    stored.is_ok_and(|stored| stored.tokens.is_some_and(|tokens| tokens.since >= since))
}

/// True if the tokens that there are give a right already: signing in again would give no more.
pub async fn has_right(context: &GatewayContext, place: &ServerPlace, scope: &str) -> bool {
    let stored = read_stored(context, place).await;
    stored.is_ok_and(|stored| stored.tokens.is_some_and(|tokens| tokens.has_scope(scope)))
}

/// Changes what is kept of a server, and answers what the change does.
///
/// # Errors
/// As [`read_stored`].
pub(super) async fn update_stored<T>(
    context: &GatewayContext,
    place: &ServerPlace,
    change: impl Fn(&mut StoredSignIn) -> T + Send + Sync,
) -> Result<T, StoreError> {
    let namespace = &place.key.namespace;
    let api = Api::<Secret>::namespaced(context.client.clone(), namespace);
    for _ in 0..ATTEMPTS {
        let secret = read_secret(context, namespace).await?;
        let mut stored = parse_stored(&secret, place);
        let before = stored.clone();
        let answer = change(&mut stored);
        if stored == before {
            return Ok(answer);
        }
        let bytes = ByteString(serde_json::to_vec(&stored).unwrap_or_default());
        let patch = json!({
            "metadata": {"resourceVersion": secret.resource_version()},
            "data": {data_key(place): bytes},
        });
        let params = writes::patch_params();
        match api.patch(names::MCP_TOKENS, &params, &Patch::Merge(patch)).await {
            Ok(_) => return Ok(answer),
            Err(kube::Error::Api(refused)) if refused.code == 409 => {}
            Err(error) => return Err(explain_store(error, namespace)),
        }
    }
    Err(StoreError::Contended)
}

async fn read_secret(context: &GatewayContext, namespace: &str) -> Result<Secret, StoreError> {
    let api = Api::<Secret>::namespaced(context.client.clone(), namespace);
    let found = api.get_opt(names::MCP_TOKENS).await;
    let found = found.map_err(|error| explain_store(error, namespace))?;
    found.ok_or_else(|| StoreError::Missing { namespace: namespace.to_owned() })
}

fn explain_store(error: kube::Error, namespace: &str) -> StoreError {
    let namespace = namespace.to_owned();
    match error {
        kube::Error::Api(refused) if refused.code == 403 => StoreError::Forbidden { namespace },
        kube::Error::Api(refused) if refused.code == 404 => StoreError::Missing { namespace },
        error => StoreError::Unreadable(error),
    }
}

fn parse_stored(secret: &Secret, place: &ServerPlace) -> StoredSignIn {
    let bytes = secret.data.as_ref().and_then(|data| data.get(&data_key(place)));
    let stored: StoredSignIn =
        bytes.and_then(|bytes| serde_json::from_slice(&bytes.0).ok()).unwrap_or_default();
    let (repo, url) =
        (place.repo.uid().unwrap_or_default(), place.spec.url.clone().unwrap_or_default());
    if stored.repo == repo && stored.url == url {
        return stored;
    }
    StoredSignIn { repo, url, ..StoredSignIn::default() }
}

fn data_key(place: &ServerPlace) -> String {
    format!("{}.{}", place.key.repo, place.key.server)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str, scope: &str) -> StoredClient {
        let value = json!({
            "authority": {
                "issuer": "https://a.example", "authorization_endpoint": "https://a.example/authorize",
                "token_endpoint": "https://a.example/token", "registration_endpoint": null, "scopes": [],
                "allows_public_clients": true, "wants_basic": false, "names_issuer": false,
            },
            "redirect": "https://gateway.example/back",
            "registered": {"client_id": id, "client_secret": null},
            "may_ask": scope,
        });
        serde_json::from_value(value).unwrap()
    }

    fn tokens(access: &str) -> StoredTokens {
        serde_json::from_value(json!({"access": access, "since": 1, "by": "U1"})).unwrap()
    }

    /// A regression: the client of a link that adds a right was kept nowhere, so each message registered another one.
    #[test]
    fn a_client_is_kept_beside_the_one_of_tokens_in_use() {
        let (first, wider) = (client("first", "read"), client("wider", "read write"));
        let mut stored = StoredSignIn::default();
        stored.keep_client(&first);
        assert!(stored.client.as_ref() == Some(&first) && stored.newest.is_none());
        stored.finish(&first, &tokens("t1"));
        stored.keep_client(&first);
        assert!(stored.newest.is_none());
        stored.keep_client(&wider);
        let kept: StoredSignIn =
            serde_json::from_slice(&serde_json::to_vec(&stored).unwrap()).unwrap();
        assert!(kept.client.as_ref() == Some(&first) && kept.newest.as_ref() == Some(&wider));
        stored.finish(&wider, &tokens("t2"));
        assert!(stored.client.as_ref() == Some(&wider) && stored.newest.is_none());

        stored.lose("revoked", false);
        assert!(stored.tokens.is_none() && stored.client.as_ref() == Some(&wider));
        stored.lose("unknown client", true);
        assert!(stored.client.is_none() && stored.lost.as_deref() == Some("unknown client"));
    }

    /// A regression: while one person's sign-in was left unfinished, each message of all others registered a client.
    #[test]
    fn only_a_client_of_an_unfinished_sign_in_is_registered_anew() {
        let (old, new) = (client("old", "read"), client("new", "read"));
        let registered = |client: &StoredClient| client.registered.clone().unwrap();
        let link = AuthorizationLink::new(
            &old.authority,
            &registered(&old),
            &old.redirect,
            (None, None),
            &[],
        );
        let pending = PendingSignIn {
            id: "1".to_owned(),
            link,
            client: old.clone(),
            user: "U1".to_owned(),
            thread: "shop-1".to_owned(),
            scope: None,
            role: "coder".to_owned(),
            opened: false,
            until: seconds_now() + 60,
        };
        let mut stored = StoredSignIn::default();
        stored.add_pending(pending);
        assert!(!stored.has_unfinished(&registered(&old)));
        stored.note_opened("1");
        assert!(stored.has_unfinished(&registered(&old)));
        assert!(!stored.has_unfinished(&registered(&new)), "it was registered since");
    }
}
