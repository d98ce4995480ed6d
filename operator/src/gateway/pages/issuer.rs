//! Asks an OpenID Connect issuer who somebody is. Its answers come over the gateway's own dialer.

use std::fmt;
use std::time::{Duration, Instant};

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken,
    EmptyExtraTokenFields, HttpRequest, HttpResponse, IdTokenFields, IssuerUrl, Nonce, RedirectUrl,
    Scope, StandardErrorResponse, StandardTokenResponse, TokenResponse as _,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use url::Url;

use super::options::SignInKind;
use crate::gateway::dial::{Dialer, Reach};

/// How long what the issuer says of itself counts.
const FRESH: Duration = Duration::from_mins(5);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is read.
const ANSWER: usize = 1024 * 1024;

/// Who somebody is, as the issuer says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Identity {
    /// In Slack.
    Slack {
        user: String,
        team: String,
        #[serde(default)]
        enterprise: Option<String>,
    },
    /// By a verified address.
    Mail(String),
}

/// What the product is at the issuer. No Debug: it holds a secret.
#[derive(Clone)]
pub struct Registration {
    pub id: String,
    pub secret: String,
    pub redirect: Url,
}

/// Why nobody can be signed in now. Carries nothing that the issuer said.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    #[error("the issuer can't be asked: {0}")]
    Away(String),
    #[error("the issuer did not accept the sign-in")]
    Refused,
    #[error("the issuer's answer is not to be trusted: {0}")]
    Untrusted(String),
    #[error("the issuer does not say what is needed: {0}")]
    Silent(&'static str),
}

/// Slack's own claims.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SlackClaims {
    #[serde(rename = "https://slack.com/user_id", default)]
    user: Option<String>,
    #[serde(rename = "https://slack.com/team_id", default)]
    team: Option<String>,
    #[serde(rename = "https://slack.com/enterprise_id", default)]
    enterprise: Option<String>,
}

impl AdditionalClaims for SlackClaims {}

type Fields = IdTokenFields<
    SlackClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type Tokens = StandardTokenResponse<Fields, CoreTokenType>;
type Party<A, D, I, R, T, U> = Client<
    SlackClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    A,
    D,
    I,
    R,
    T,
    U,
>;

/// See the module.
pub struct Issuer {
    kind: SignInKind,
    url: IssuerUrl,
    dialer: Dialer,
    known: Mutex<Option<(Instant, CoreProviderMetadata)>>,
}

/// Where a browser goes to say who it is, and what has to come back.
pub struct Question {
    pub address: Url,
    pub state: String,
    pub nonce: String,
}

#[derive(Debug)]
struct Unreached(String);

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreached {}

impl Issuer {
    pub fn new(kind: SignInKind, url: &Url, dialer: Dialer) -> Self {
        // As it is written: issuers are compared letter by letter.
        let url = IssuerUrl::from_url(url.clone());
        let url = match url.as_str().strip_suffix('/') {
            Some(bare) if url.url().path() == "/" => IssuerUrl::new(bare.to_owned()).unwrap_or(url),
            _ => url,
        };
        Self { kind, url, dialer, known: Mutex::default() }
    }

    /// Begins a sign-in.
    ///
    /// # Errors
    /// When the issuer can't be asked.
    pub async fn question(&self, own: &Registration) -> Result<Question, IssuerError> {
        let metadata = self.metadata(false).await?;
        let client = client(metadata, own);
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let mut request = client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        if self.kind == SignInKind::Oidc {
            request = request.add_scope(Scope::new("email".to_owned()));
        }
        let (address, state, nonce) = request.url();
        let (state, nonce) = (state.secret().clone(), nonce.secret().clone());
        Ok(Question { address, state, nonce })
    }

    /// Ends one: who came back with the code.
    ///
    /// # Errors
    /// When the issuer does not say so, or not in a way that can be trusted.
    pub async fn answer(
        &self,
        own: &Registration,
        code: String,
        nonce: &str,
    ) -> Result<Identity, IssuerError> {
        // Its keys as they are now.
        let metadata = self.metadata(true).await?;
        let client = client(metadata, own);
        let exchange = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|_| IssuerError::Silent("it has no token endpoint"))?;
        let http = |request| fetch(self.dialer.clone(), request);
        let tokens = exchange.request_async(&http).await.map_err(|error| {
            tracing::info!(error = %brief(&error), "a sign-in was not accepted");
            IssuerError::Refused
        })?;
        let token = tokens.id_token().ok_or(IssuerError::Silent("it gives no identity token"))?;
        let verifier = client.id_token_verifier();
        let claims = token.claims(&verifier, &Nonce::new(nonce.to_owned()));
        let claims = claims.map_err(|error| IssuerError::Untrusted(error.to_string()))?;
        match self.kind {
            SignInKind::Slack => {
                let SlackClaims { user, team, enterprise } = claims.additional_claims().clone();
                let (user, team) = user.zip(team).ok_or(IssuerError::Silent("no user or team"))?;
                Ok(Identity::Slack { user, team, enterprise })
            }
            SignInKind::Oidc => {
                let proven = claims.email_verified() == Some(true);
                let mail = claims.email().filter(|_| proven);
                let mail = mail.ok_or(IssuerError::Silent("no verified e-mail address"))?;
                Ok(Identity::Mail(mail.to_lowercase()))
            }
        }
    }

    async fn metadata(&self, anew: bool) -> Result<CoreProviderMetadata, IssuerError> {
        let mut known = self.known.lock().await;
        if let Some((at, metadata)) = &*known
            && !anew
            && at.elapsed() < FRESH
        {
            return Ok(metadata.clone());
        }
        let http = |request| fetch(self.dialer.clone(), request);
        let metadata = CoreProviderMetadata::discover_async(self.url.clone(), &http).await;
        let metadata = metadata.map_err(|error| IssuerError::Away(brief(&error)))?;
        *known = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }
}

fn client(
    metadata: CoreProviderMetadata,
    own: &Registration,
) -> Party<
    openidconnect::EndpointSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointMaybeSet,
    openidconnect::EndpointMaybeSet,
> {
    let secret = ClientSecret::new(own.secret.clone());
    Client::from_provider_metadata(metadata, ClientId::new(own.id.clone()), Some(secret))
        .set_redirect_uri(RedirectUrl::from_url(own.redirect.clone()))
}

/// What went wrong, without what was said: that may hold anything.
fn brief(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text: String = error.to_string().chars().take(200).collect();
    if let Some(source) = error.source().filter(|source| source.is::<Unreached>()) {
        text = source.to_string();
    }
    text
}

/// One request; nothing is followed elsewhere.
async fn fetch(dialer: Dialer, request: HttpRequest) -> Result<HttpResponse, Unreached> {
    let away = |error: reqwest::Error| Unreached(error.without_url().to_string());
    let request = reqwest::Request::try_from(request).map_err(away)?;
    let client = dialer.http(Reach::Anywhere);
    let asked = tokio::time::timeout(PATIENCE, async {
        let mut answer = client.execute(request).await.map_err(away)?;
        let mut built = http::Response::builder().status(answer.status());
        if let Some(headers) = built.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(away)? {
            if body.len() + chunk.len() > ANSWER {
                return Err(Unreached("it answers too much".to_owned()));
            }
            body.extend_from_slice(&chunk);
        }
        built.body(body).map_err(|error| Unreached(error.to_string()))
    });
    asked.await.unwrap_or_else(|_| Err(Unreached("it does not answer in time".to_owned())))
}
