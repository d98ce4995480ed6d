//! Asks an OpenID Connect issuer who somebody is. Its answers come over the gateway's own dialer.

use std::fmt;
use std::time::{Duration, Instant};

use codebutler_gateway_core::dial::{DialReach, OutsideDialer};
use http::header::ACCEPT;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AuthorizationCode, ClaimsVerificationError, Client, ClientId, ClientSecret,
    CsrfToken, EmptyExtraTokenFields, HttpRequest, HttpResponse, IdTokenFields, IssuerUrl, Nonce,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, SignatureVerificationError,
    StandardErrorResponse, StandardTokenResponse, TokenResponse as _,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use super::options::SignInKind;

/// Time for which the issuer's metadata is cached.
const FRESH: Duration = Duration::from_mins(5);
/// Timeout of a request to the issuer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Cooldown after a failed request to the issuer.
const AGAIN: Duration = Duration::from_secs(1);
/// Path of the discovery document below the address of an issuer.
const DISCOVERY: &str = ".well-known/openid-configuration";
/// Longest answer that is read.
const ANSWER: usize = 1024 * 1024;

/// Identity that the issuer asserts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum IssuerIdentity {
    /// Signed in with Slack: user and workspace ids.
    Slack {
        user: String,
        team: String,
        #[serde(default)]
        enterprise: Option<String>,
    },
    /// Verified mail address.
    Mail(String),
}

/// The product's client registration at the issuer. No Debug: it holds a secret.
#[derive(Clone)]
pub(super) struct ClientRegistration {
    pub id: String,
    pub secret: String,
    pub redirect: Url,
}

/// Reason why nobody can be signed in now. Carries nothing that the issuer said.
#[derive(Debug, thiserror::Error)]
pub(super) enum IssuerError {
    #[error("the issuer can't be asked: {0}")]
    Away(String),
    #[error("the issuer did not accept the sign-in")]
    Refused,
    #[error("the issuer's answer is not to be trusted: {0}")]
    Untrusted(String),
    #[error("the issuer does not say what is needed: {0}")]
    Silent(&'static str),
    #[error("the issuer gives no verified e-mail address")]
    NoMail,
}

impl IssuerError {
    /// Explanation for the person who wanted to sign in, with the remedy where known.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Away(_) => "The issuer can't be reached.",
            Self::Refused => {
                "The issuer did not take back what it gave out: sign in again. If that lasts, the client's secret or address \
                 at the issuer is another one than in the Secret of `pages.secret`; the gateway's log says more."
            }
            Self::Untrusted(_) => {
                "What the issuer said can't be trusted: its signature, its time, or whom it is for is wrong. The gateway's log \
                 says which."
            }
            Self::Silent(_) => {
                "The issuer does not say who you are: its client here has to be allowed `openid` and what the chart's page \
                 names."
            }
            Self::NoMail => {
                "The issuer gives no verified e-mail address for you. Have it verified there, or the issuer's client there \
                 has to be allowed the scope `email` with the claim `email_verified`."
            }
        }
    }
}

/// Claims that only Slack's tokens have.
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

type TokenFields = IdTokenFields<
    SlackClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type Tokens = StandardTokenResponse<TokenFields, CoreTokenType>;
type RelyingParty<A, D, I, R, T, U> = Client<
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

/// Client of the OpenID issuer that pages sign people in with.
pub(super) struct OpenIdIssuer {
    kind: SignInKind,
    url: IssuerUrl,
    dialer: OutsideDialer,
    known: Mutex<KnownIssuer>,
}

/// Cached metadata of the issuer, and the error of the last failed request.
#[derive(Default)]
struct KnownIssuer {
    metadata: Option<(Instant, CoreProviderMetadata)>,
    away: Option<(Instant, String)>,
}

/// Authorization request of one sign-in: the browser's address, and the values that the answer has to match.
pub(super) struct SignInQuestion {
    pub address: Url,
    pub state: String,
    pub nonce: String,
    /// Proves that who asked is who comes with the code (PKCE). Slack has none.
    pub verifier: Option<String>,
}

#[derive(Debug)]
struct UnreachableIssuer(String);

impl fmt::Display for UnreachableIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreachableIssuer {}

impl OpenIdIssuer {
    pub(super) fn new(kind: SignInKind, url: &Url, dialer: OutsideDialer) -> Self {
        // The URL stays exactly as it is written: issuers are compared letter by letter.
        let url = IssuerUrl::from_url(url.clone());
        let url = match url.as_str().strip_suffix('/') {
            Some(bare) if url.url().path() == "/" => IssuerUrl::new(bare.to_owned()).unwrap_or(url),
            _ => url,
        };
        Self { kind, url, dialer, known: Mutex::default() }
    }

    /// Starts a sign-in: builds the authorization request.
    ///
    /// # Errors
    /// When the issuer can't be asked.
    pub(super) async fn question(
        &self,
        own: &ClientRegistration,
    ) -> Result<SignInQuestion, IssuerError> {
        let metadata = self.metadata(false).await?;
        let client = build_client(metadata, own);
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let mut request = client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        let mut verifier = None;
        if self.kind == SignInKind::Oidc {
            let (challenge, secret) = PkceCodeChallenge::new_random_sha256();
            verifier = Some(secret.into_secret());
            request = request.add_scope(Scope::new("email".to_owned()));
            request = request.set_pkce_challenge(challenge);
        }
        let (address, state, nonce) = request.url();
        let (state, nonce) = (state.secret().clone(), nonce.secret().clone());
        Ok(SignInQuestion { address, state, nonce, verifier })
    }

    /// Ends one: who came back with the code.
    ///
    /// # Errors
    /// When the issuer does not say so, or not in a way that can be trusted.
    pub(super) async fn answer(
        &self,
        own: &ClientRegistration,
        code: String,
        nonce: &str,
        verifier: Option<String>,
    ) -> Result<IssuerIdentity, IssuerError> {
        let metadata = self.metadata_now().await?;
        let client = build_client(metadata, own);
        let mut exchange = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|_| IssuerError::Silent("it has no token endpoint"))?;
        if let Some(verifier) = verifier {
            exchange = exchange.set_pkce_verifier(PkceCodeVerifier::new(verifier));
        }
        let http = |request| fetch_once(self.dialer.clone(), request);
        let tokens = exchange.request_async(&http).await.map_err(|error| {
            tracing::info!(error = %brief_error(&error), "page_sign_in_refused");
            IssuerError::Refused
        })?;
        let token = tokens.id_token().ok_or(IssuerError::Silent("it gives no identity token"))?;
        let nonce = Nonce::new(nonce.to_owned());
        let newer;
        let mut claims = token.claims(&client.id_token_verifier(), &nonce);
        if matches!(&claims, Err(error) if lacks_key(error)) {
            // The issuer may have rotated its keys: fetch them again.
            newer = build_client(self.metadata(true).await?, own);
            claims = token.claims(&newer.id_token_verifier(), &nonce);
        }
        let claims = claims.map_err(|error| IssuerError::Untrusted(error.to_string()))?;
        match self.kind {
            SignInKind::Slack => {
                let SlackClaims { user, team, enterprise } = claims.additional_claims().clone();
                let (user, team) = user.zip(team).ok_or(IssuerError::Silent("no user or team"))?;
                Ok(IssuerIdentity::Slack { user, team, enterprise })
            }
            SignInKind::Oidc => {
                let proven = claims.email_verified() == Some(true);
                let mail = claims.email().filter(|_| proven);
                let mail = mail.ok_or(IssuerError::NoMail)?;
                Ok(IssuerIdentity::Mail(mail.to_lowercase()))
            }
        }
    }

    /// Fetches the issuer's metadata. Its keys are fetched again only if the metadata differs from what is cached.
    async fn metadata_now(&self) -> Result<CoreProviderMetadata, IssuerError> {
        let known = self.metadata(false).await?;
        let away = |error: &dyn fmt::Display| IssuerError::Away(error.to_string());
        let address = self.url.join(DISCOVERY).map_err(|error| away(&error))?;
        let request = http::Request::get(address.as_str()).header(ACCEPT, "application/json");
        let request = request.body(Vec::new()).map_err(|error| away(&error))?;
        let answer = fetch_once(self.dialer.clone(), request).await;
        let answer = answer.map_err(|error| away(&error))?;
        if !answer.status().is_success() {
            return Err(away(&answer.status()));
        }
        let told: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let is = |field: &str, known: Option<&str>| told[field].as_str() == known;
        let same = is("issuer", Some(known.issuer().as_str()))
            && is("token_endpoint", known.token_endpoint().map(|url| url.as_str()))
            && is("jwks_uri", Some(known.jwks_uri().as_str()));
        if same { Ok(known) } else { self.metadata(true).await }
    }

    async fn metadata(&self, anew: bool) -> Result<CoreProviderMetadata, IssuerError> {
        let mut known = self.known.lock().await;
        if let Some((at, metadata)) = &known.metadata
            && !anew
            && at.elapsed() < FRESH
        {
            return Ok(metadata.clone());
        }
        // Sign-ins during the cooldown fail at once with the last error, instead of waiting for the issuer.
        if let Some((at, why)) = &known.away
            && at.elapsed() < AGAIN
        {
            return Err(IssuerError::Away(why.clone()));
        }
        let http = |request| fetch_once(self.dialer.clone(), request);
        match CoreProviderMetadata::discover_async(self.url.clone(), &http).await {
            Ok(metadata) => {
                let now = Some((Instant::now(), metadata.clone()));
                *known = KnownIssuer { metadata: now, away: None };
                Ok(metadata)
            }
            Err(error) => {
                let why = brief_error(&error);
                known.away = Some((Instant::now(), why.clone()));
                Err(IssuerError::Away(why))
            }
        }
    }
}

/// True if a token is signed with a key that is not among the known ones.
fn lacks_key(error: &ClaimsVerificationError) -> bool {
    matches!(
        error,
        ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)
    )
}

fn build_client(
    metadata: CoreProviderMetadata,
    own: &ClientRegistration,
) -> RelyingParty<
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

/// Describes an error by its kind, without the issuer's answer: that may hold anything.
fn brief_error(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text: String = error.to_string().chars().take(200).collect();
    if let Some(source) = error.source().filter(|source| source.is::<UnreachableIssuer>()) {
        text = source.to_string();
    }
    text
}

/// Sends one request, without following redirects.
async fn fetch_once(
    dialer: OutsideDialer,
    request: HttpRequest,
) -> Result<HttpResponse, UnreachableIssuer> {
    let away = |error: reqwest::Error| UnreachableIssuer(error.without_url().to_string());
    let request = reqwest::Request::try_from(request).map_err(away)?;
    let client = dialer.http(DialReach::Anywhere);
    let asked = tokio::time::timeout(PATIENCE, async {
        let mut answer = client.execute(request).await.map_err(away)?;
        let mut built = http::Response::builder().status(answer.status());
        if let Some(headers) = built.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(away)? {
            if body.len() + chunk.len() > ANSWER {
                return Err(UnreachableIssuer("it answers too much".to_owned()));
            }
            body.extend_from_slice(&chunk);
        }
        built.body(body).map_err(|error| UnreachableIssuer(error.to_string()))
    });
    asked.await.unwrap_or_else(|_| Err(UnreachableIssuer("it does not answer in time".to_owned())))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::digest::{SHA256, digest};
    use serde_json::json;

    use super::*;
    use codebutler_gateway_core::dial::DialOptions;

    #[tokio::test]
    async fn a_crowd_that_signs_in_asks_an_issuer_once_that_is_away() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                drop(stream);
            }
        });
        let loopback = ["127.0.0.0/8".parse().unwrap()].into();
        let options = DialOptions { egress_allow: loopback, ..DialOptions::default() };
        let dialer = OutsideDialer::new(&options).unwrap();
        let issuer = OpenIdIssuer::new(SignInKind::Oidc, &own, dialer);
        let all = futures::future::join_all((0..50).map(|_| issuer.metadata(false))).await;
        assert!(all.iter().all(|one| matches!(one, Err(IssuerError::Away(_)))), "{all:?}");
        let asked = asked.load(std::sync::atomic::Ordering::SeqCst);
        assert!((1..=3).contains(&asked), "{asked} connections");
    }

    async fn asked(kind: SignInKind) -> (SignInQuestion, Vec<(String, String)>) {
        let own = "https://id.example.com".parse().unwrap();
        let issuer =
            OpenIdIssuer::new(kind, &own, OutsideDialer::new(&DialOptions::default()).unwrap());
        let metadata = serde_json::from_value(json!({
            "issuer": "https://id.example.com",
            "authorization_endpoint": "https://id.example.com/authorize",
            "token_endpoint": "https://id.example.com/token",
            "jwks_uri": "https://id.example.com/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }));
        issuer.known.lock().await.metadata = Some((Instant::now(), metadata.unwrap()));
        let redirect = "https://pages.example.com/sign-in/done".parse().unwrap();
        let registration =
            ClientRegistration { id: "id".into(), secret: "secret".into(), redirect };
        let question = issuer.question(&registration).await.unwrap();
        let query = question.address.query_pairs().into_owned().collect();
        (question, query)
    }

    #[tokio::test]
    async fn an_issuer_learns_what_only_who_asked_can_prove_and_slack_is_asked_as_it_was() {
        let (question, query) = asked(SignInKind::Oidc).await;
        let of = |name: &str| query.iter().find(|(own, _)| own == name).map(|(_, v)| v.as_str());
        let verifier = question.verifier.unwrap();
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        assert_eq!(of("code_challenge"), Some(challenge.as_str()));
        assert_eq!(of("code_challenge_method"), Some("S256"));
        assert_eq!(of("scope"), Some("openid email"));
        assert!(!question.address.as_str().contains(&verifier), "it stays with the browser");
        let (question, query) = asked(SignInKind::Slack).await;
        assert_eq!(question.verifier, None);
        assert!(query.iter().all(|(name, _)| !name.starts_with("code_challenge")), "{query:?}");
    }
}
