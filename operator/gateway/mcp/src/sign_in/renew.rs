//! The token of a server's requests, renewed before its end and after a 401: once at a time, and to its end even if
//! nobody waits for it any more, since a refresh token is good once.

use std::sync::Arc;
use std::time::Duration;

use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::mcp_grants::{GrantCell, KnownToken};
use codebutler_mcp::oauth::{TokenError, TokenRequest};

use super::super::session_key::ServerPlace;
use super::SignInError;
use super::client::{find_client, request_tokens};
use super::stored::{
    StoreError, StoredSignIn, StoredTokens, grant_key, read_stored, update_stored,
};

/// Attempts to keep tokens that were given, and the wait between two.
const ATTEMPTS: u32 = 5;
const AGAIN: Duration = Duration::from_millis(500);
/// Characters of the words with which a grant was taken back.
const WORDS: usize = 200;

/// The grant for one server. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct ServerGrant {
    context: GatewayContext,
    place: ServerPlace,
    cell: Arc<GrantCell>,
}

impl ServerGrant {
    /// Opens the grant of a server that people sign in to.
    pub fn new(context: &GatewayContext, place: &ServerPlace) -> Self {
        let cell = context.mcp.grants.cell(&grant_key(place));
        Self { context: context.clone(), place: place.clone(), cell }
    }

    /// Secrets that the server's words must not show.
    pub fn secrets(&self) -> Vec<String> {
        self.cell.secrets()
    }

    /// The token to send; none while nobody has signed in. `spent`: one that was not accepted.
    ///
    /// # Errors
    /// When it has ended and can't be renewed now.
    pub async fn token(&self, spent: Option<&str>) -> Result<Option<String>, SignInError> {
        let is_good =
            |token: &KnownToken| !token.is_near_end() && spent != Some(token.access.as_str());
        if let Some(token) = self.cell.known().filter(&is_good) {
            return Ok(Some(token.access));
        }
        let (own, spent) = (self.clone(), spent.map(str::to_owned));
        let renewing = tokio::spawn(async move { own.renew(spent.as_deref()).await });
        renewing.await.unwrap_or_else(|error| {
            tracing::error!(%error, "token_renewal_crashed");
            Ok(None)
        })
    }

    async fn renew(&self, spent: Option<&str>) -> Result<Option<String>, SignInError> {
        let _turn = self.cell.turn.lock().await;
        let stored = match read_stored(&self.context, &self.place).await {
            Ok(stored) => stored,
            // Without the Secret nobody can have signed in.
            Err(StoreError::Missing { .. } | StoreError::Forbidden { .. }) => {
                StoredSignIn::default()
            }
            Err(error) => return Err(error.into()),
        };
        let Some(tokens) = &stored.tokens else {
            self.cell.keep(None);
            return Ok(None);
        };
        let token = tokens.known();
        let is_spent = spent == Some(token.access.as_str());
        // A concurrent request has renewed the token meanwhile.
        if !is_spent && !token.is_near_end() {
            return Ok(Some(self.adopt(token)));
        }
        match self.refresh(&stored, tokens).await {
            Ok(Some(newer)) => Ok(Some(self.adopt(newer))),
            Ok(None) if !is_spent && !token.is_over() => Ok(Some(self.adopt(token))),
            Ok(None) => Ok(None),
            Err(SignInError::Token(TokenError::Lost(words))) => {
                self.lose(tokens, &words, false).await;
                Ok(None)
            }
            Err(SignInError::Token(TokenError::Client(words))) => {
                self.lose(tokens, &words, true).await;
                Ok(None)
            }
            Err(error) if is_spent || token.is_over() => Err(error),
            Err(error) => {
                tracing::warn!(server = self.place.spec.name, %error, "token_renewal_failed");
                Ok(Some(self.adopt(token)))
            }
        }
    }

    fn adopt(&self, token: KnownToken) -> String {
        let access = token.access.clone();
        self.cell.keep(Some(token));
        access
    }

    /// Newer tokens, on record; none where there is no way to any.
    async fn refresh(
        &self,
        stored: &StoredSignIn,
        tokens: &StoredTokens,
    ) -> Result<Option<KnownToken>, SignInError> {
        let Some((old, client)) = tokens.refresh.as_ref().zip(stored.client.as_ref()) else {
            return Ok(None);
        };
        self.cell.mask(old);
        let known = find_client(&self.context, &self.place, client).await?;
        let resource = client.resource.as_deref();
        let request = TokenRequest::of_refresh(&client.authority, &known, old, resource);
        let given = request_tokens(&self.context, request, Some(old)).await?;
        if let Some(refresh) = &given.refresh_token {
            self.cell.mask(refresh);
        }
        let newer = StoredTokens::new(given, &tokens.by, tokens.scope.as_ref())?;
        for attempt in 1.. {
            let kept = update_stored(&self.context, &self.place, |stored| {
                // A person who has signed in meanwhile has brought better ones.
                if stored.tokens.as_ref() == Some(tokens) {
                    stored.tokens = Some(newer.clone());
                }
            });
            match kept.await {
                Ok(()) => break,
                Err(error) if attempt < ATTEMPTS => {
                    tracing::warn!(server = self.place.spec.name, %error, "token_write_failed");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => {
                    tracing::error!(
                        server = self.place.spec.name, %error,
                        "token_write_abandoned"
                    );
                    break;
                }
            }
        }
        Ok(Some(newer.known()))
    }

    /// The grant was taken back, or the client is not known any more: a person has to sign in again.
    async fn lose(&self, tokens: &StoredTokens, words: &str, is_client: bool) {
        let words: String = words.trim_start_matches([':', ' ']).chars().take(WORDS).collect();
        tracing::warn!(
            repo = self.place.key.repo,
            server = self.place.spec.name,
            "server_sign_in_expired"
        );
        let lose = |stored: &mut StoredSignIn| {
            if stored.tokens.as_ref() == Some(tokens) {
                stored.lose(&words, is_client);
            }
        };
        if let Err(error) = update_stored(&self.context, &self.place, lose).await {
            tracing::warn!(%error, server = self.place.spec.name, "server_sign_in_write_failed");
        }
        self.cell.keep(None);
    }
}
