//! An OpenID Connect issuer as companies run them: discovery, authorization with PKCE, codes that are good once,
//! signed identities. It can be wrong in one way at a time, as a broken, a careless or a hostile one is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::serving::RunningServer;

/// Signs nothing but this fake's identities.
const KEY: &str = include_str!("github/app.pem");
const KEY_ID: &str = "issuer";
/// Lifetime of an identity token, in seconds.
const TOKEN_LIFE: u64 = 300;

type Fields = BTreeMap<String, String>;
type SharedIssuer = State<Arc<IssuerInner>>;

/// A fault of the issuer or of its identities, which a test switches on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssuerFault {
    /// No fault: the issuer works.
    #[default]
    None,
    /// The address was never proven to be this person's.
    UnverifiedMail,
    /// The identity does not say whether the address was proven.
    UnsaidMail,
    /// The identity has no email address.
    NoMail,
    /// The nonce is one of an earlier sign-in.
    WrongNonce,
    /// The audience is another client.
    WrongAudience,
    /// The issuer is another one.
    WrongIssuer,
    /// The identity has expired long ago.
    Expired,
    /// Signed by nobody (`alg: none`).
    Unsigned,
    /// Changed after it was signed.
    Forged,
    /// Signed with the client's secret, though the issuer says RS256.
    Symmetric,
    /// The issuer has changed its key, and the client was not told.
    UnknownKey,
    /// The person refuses to sign in.
    Denied,
    /// The issuer does not accept the client's secret any more.
    OtherSecret,
    /// The issuer's metadata name another issuer.
    Impostor,
    /// The issuer answers with a server error.
    Down,
}

#[derive(Debug)]
struct IssuerInner {
    /// The issuer's URL, known once it serves.
    origin: OnceLock<String>,
    client: (String, String),
    told: Mutex<IssuerState>,
}

#[derive(Debug, Default)]
struct IssuerState {
    fault: IssuerFault,
    redirects: Vec<String>,
    mail: String,
    codes: BTreeMap<String, IssuedCode>,
}

#[derive(Clone, Debug)]
struct IssuedCode {
    redirect: String,
    nonce: Option<String>,
    challenge: String,
}

/// A running issuer. Dropping it ends it.
#[derive(Debug)]
pub struct OpenIdIssuer {
    inner: Arc<IssuerInner>,
    _serving: RunningServer,
}

impl OpenIdIssuer {
    /// Serves on a port of the system's choice.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> std::io::Result<Self> {
        let secret = format!("issuer-{}", uuid::Uuid::new_v4().simple());
        let client = ("codebutler-pages".to_owned(), secret);
        let inner = IssuerInner { origin: OnceLock::new(), client, told: Mutex::default() };
        let inner = Arc::new(inner);
        let serving = RunningServer::start(build_router(Arc::clone(&inner))).await?;
        inner.origin.get_or_init(|| serving.url());
        Ok(Self { inner, _serving: serving })
    }

    /// Issuer name, as it is written in identities.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.inner.origin()
    }

    /// Id and secret of the client.
    #[must_use]
    pub fn client(&self) -> (String, String) {
        self.inner.client.clone()
    }

    /// Names an address to which people may be sent back.
    pub fn allow_redirect(&self, address: &str) {
        self.inner.told().redirects.push(address.to_owned());
    }

    /// From now on, every sign-in is by the person with this email address.
    pub fn sit_down(&self, mail: &str) {
        mail.clone_into(&mut self.inner.told().mail);
    }

    /// Switches on a fault from now on.
    pub fn break_in(&self, fault: IssuerFault) {
        self.inner.told().fault = fault;
    }
}

impl IssuerInner {
    fn origin(&self) -> &str {
        self.origin.get().map_or("", String::as_str)
    }

    fn told(&self) -> MutexGuard<'_, IssuerState> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn build_router(inner: Arc<IssuerInner>) -> Router {
    Router::new()
        .route("/.well-known/openid-configuration", get(serve_configuration))
        .route("/authorize", get(serve_authorize))
        .route("/token", post(serve_token))
        .route("/keys", get(serve_keys))
        .with_state(inner)
}

async fn serve_configuration(State(inner): SharedIssuer) -> Response {
    let fault = inner.told().fault;
    if fault == IssuerFault::Down {
        return (StatusCode::BAD_GATEWAY, "<h1>502</h1>").into_response();
    }
    let at = |path: &str| format!("{}{path}", inner.origin());
    let own = if fault == IssuerFault::Impostor { at("/other") } else { inner.origin().to_owned() };
    Json(json!({
        "issuer": own,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "jwks_uri": at("/keys"),
        "scopes_supported": ["openid", "email", "profile"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
    }))
    .into_response()
}

fn wrong_request(what: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{what}\n")).into_response()
}

async fn serve_authorize(State(inner): SharedIssuer, Query(asked): Query<Fields>) -> Response {
    let of = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    let mut told = inner.told();
    // Whoever asks with another client or address is told here: nobody is sent there.
    if of("client_id") != inner.client.0 {
        return wrong_request("unknown client");
    }
    if !told.redirects.iter().any(|known| known == of("redirect_uri")) {
        return wrong_request("redirect_uri is not registered");
    }
    let Ok(mut back) = url::Url::parse(of("redirect_uri")) else {
        return wrong_request("redirect_uri");
    };
    let scopes: Vec<&str> = of("scope").split(' ').collect();
    let refusal = match () {
        () if of("response_type") != "code" => Some("unsupported_response_type"),
        () if !scopes.contains(&"openid") => Some("invalid_scope"),
        () if of("code_challenge_method") != "S256" || of("code_challenge").len() != 43 => {
            Some("invalid_request")
        }
        () if told.fault == IssuerFault::Denied => Some("access_denied"),
        () => None,
    };
    if let Some(refusal) = refusal {
        back.query_pairs_mut().append_pair("error", refusal).append_pair("state", of("state"));
        return Redirect::to(back.as_str()).into_response();
    }
    let code = uuid::Uuid::new_v4().simple().to_string();
    let (redirect, nonce) = (of("redirect_uri").to_owned(), asked.get("nonce").cloned());
    let grant = IssuedCode { redirect, nonce, challenge: of("code_challenge").to_owned() };
    told.codes.insert(code.clone(), grant);
    back.query_pairs_mut().append_pair("code", &code).append_pair("state", of("state"));
    Redirect::to(back.as_str()).into_response()
}

/// An error answer of the token endpoint, as RFC 6749 defines it.
fn refuse_token(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({"error": error}))).into_response()
}

async fn serve_token(State(inner): SharedIssuer, headers: HeaderMap, body: Bytes) -> Response {
    let form: Fields = url::form_urlencoded::parse(&body).into_owned().collect();
    let of = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let mut told = inner.told();
    let basic = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let basic = basic.and_then(|value| value.strip_prefix("Basic "));
    let basic = basic.and_then(|text| String::from_utf8(STANDARD.decode(text).ok()?).ok());
    let given = basic.unwrap_or_else(|| format!("{}:{}", of("client_id"), of("client_secret")));
    let own = format!("{}:{}", inner.client.0, inner.client.1);
    if given != own || told.fault == IssuerFault::OtherSecret {
        return refuse_token(StatusCode::UNAUTHORIZED, "invalid_client");
    }
    if of("grant_type") != "authorization_code" {
        return refuse_token(StatusCode::BAD_REQUEST, "unsupported_grant_type");
    }
    // Good once, whatever becomes of it.
    let Some(grant) = told.codes.remove(of("code")) else {
        return refuse_token(StatusCode::BAD_REQUEST, "invalid_grant");
    };
    let proof = ring::digest::digest(&ring::digest::SHA256, of("code_verifier").as_bytes());
    if grant.redirect != of("redirect_uri") || URL_SAFE_NO_PAD.encode(proof) != grant.challenge {
        return refuse_token(StatusCode::BAD_REQUEST, "invalid_grant");
    }
    let (fault, mail) = (told.fault, told.mail.clone());
    drop(told);
    let claims = make_claims(&inner, fault, &mail, grant.nonce.as_ref());
    let Some(identity) = sign_identity(&claims, fault, &inner.client.1) else {
        return refuse_token(StatusCode::INTERNAL_SERVER_ERROR, "server_error");
    };
    Json(json!({
        "access_token": "opaque", "token_type": "Bearer", "expires_in": TOKEN_LIFE, "id_token": identity,
    }))
    .into_response()
}

fn make_claims(
    inner: &IssuerInner,
    fault: IssuerFault,
    mail: &str,
    nonce: Option<&String>,
) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let begun = if fault == IssuerFault::Expired { now - 86_400 } else { now };
    let mut claims = json!({
        "iss": inner.origin(), "aud": inner.client.0, "sub": "u-1", "iat": begun, "exp": begun + TOKEN_LIFE,
        "email": mail, "email_verified": true,
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    match fault {
        IssuerFault::UnverifiedMail => claims["email_verified"] = json!(false),
        IssuerFault::WrongNonce => claims["nonce"] = json!("of-another-day"),
        IssuerFault::WrongAudience => claims["aud"] = json!("another-client"),
        IssuerFault::WrongIssuer => claims["iss"] = json!("https://issuer.example"),
        IssuerFault::UnsaidMail | IssuerFault::NoMail => {
            if let Some(fields) = claims.as_object_mut() {
                fields.remove("email_verified");
                if fault == IssuerFault::NoMail {
                    fields.remove("email");
                }
            }
        }
        _ => {}
    }
    claims
}

fn sign_identity(claims: &Value, fault: IssuerFault, secret: &str) -> Option<String> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let kid = if fault == IssuerFault::UnknownKey { "new" } else { KEY_ID };
    let text = |algorithm: &str, claims: &Value| {
        let head = json!({"alg": algorithm, "typ": "JWT", "kid": kid});
        format!("{}.{}", part(&head), part(claims))
    };
    if fault == IssuerFault::Unsigned {
        return Some(format!("{}.", text("none", claims)));
    }
    if fault == IssuerFault::Symmetric {
        let text = text("HS256", claims);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let mark = ring::hmac::sign(&key, text.as_bytes());
        return Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(mark)));
    }
    let mark = sign_text(&text("RS256", claims))?;
    let mut shown = claims.clone();
    if fault == IssuerFault::Forged {
        shown["sub"] = json!("u-2");
    }
    Some(format!("{}.{mark}", text("RS256", &shown)))
}

fn find_signer() -> Option<RsaKeyPair> {
    match PrivateKeyDer::from_pem_slice(KEY.as_bytes()).ok()? {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok(),
        _ => None,
    }
}

/// The public half of the key, as a set of keys has it.
pub(crate) fn public_key(kid: &str) -> Option<Value> {
    let public: PublicKeyComponents<Vec<u8>> = find_signer()?.public().into();
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (n, e) = (part(&public.n), part(&public.e));
    Some(json!({"e": e, "n": n, "use": "sig", "kid": kid, "alg": "RS256", "kty": "RSA"}))
}

/// The signature of a token's head and claims.
pub(crate) fn sign_text(text: &str) -> Option<String> {
    let signer = find_signer()?;
    let mut mark = vec![0; signer.public().modulus_len()];
    signer.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut mark).ok()?;
    Some(URL_SAFE_NO_PAD.encode(mark))
}

async fn serve_keys() -> Json<Value> {
    let keys: Vec<_> = public_key(KEY_ID).into_iter().collect();
    Json(json!({"keys": keys}))
}
