//! Sign in with Slack: discovery, consent page, code, identity token, keys. As strict as Slack: a code is
//! good once, for ten minutes, for the client and the address that it was given for.
//!
//! Which person sits at the browser is the driver's to say: nobody types a password here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::SlackServer;
use super::core::{SharedSlack, SlackCore};
use super::openid_grants::OpenIdGrant;
use super::world::unix_now;
use crate::openid::{public_key, sign_text};

const KEY_ID: &str = "testbed";
const CODE_LIFE: Duration = Duration::from_mins(10);
/// Lifetime of tokens in seconds, as in Slack's own.
const TOKEN_LIFE: i64 = 300;

type OpenIdState = State<Arc<SharedSlack>>;
type OpenIdFields = BTreeMap<String, String>;

impl SlackServer {
    /// Client id and secret of the app.
    pub fn openid_client(&self) -> (String, String) {
        self.inner.read(|core| (core.openid.client.clone(), core.openid.secret.clone()))
    }

    /// Names an address to which people may be sent back.
    pub fn allow_redirect(&self, address: &str) {
        self.inner.update(|core| core.openid.redirects.push(address.to_owned()));
    }

    /// The app is installed again with one more scope.
    pub fn grant_scope(&self, scope: &str) {
        self.inner.update(|core| core.options.scopes.push(scope.to_owned()));
    }

    /// Signs a person in at every browser from now on, in the app's workspace or in `team`.
    pub fn sit_down(&self, user: &str, team: Option<&str>) {
        self.inner.update(|core| {
            let team = team.unwrap_or(&core.world.team.id).to_owned();
            core.openid.browser = Some((user.to_owned(), team));
        });
    }
}

pub(super) fn build_router(inner: Arc<SharedSlack>) -> Router {
    Router::new()
        .route("/.well-known/openid-configuration", get(serve_configuration))
        .route("/openid/connect/authorize", get(serve_authorize))
        .route("/openid/connect/keys", get(serve_keys))
        .route("/api/openid.connect.token", post(serve_token))
        .route("/api/openid.connect.userInfo", get(user_info).post(user_info))
        .with_state(inner)
}

async fn serve_configuration(State(inner): OpenIdState) -> Json<Value> {
    let at = |path: &str| format!("{}{path}", inner.origin);
    Json(json!({
        "issuer": inner.origin,
        "authorization_endpoint": at("/openid/connect/authorize"),
        "token_endpoint": at("/api/openid.connect.token"),
        "userinfo_endpoint": at("/api/openid.connect.userInfo"),
        "jwks_uri": at("/openid/connect/keys"),
        "scopes_supported": ["openid", "profile", "email"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["form_post"],
        "grant_types_supported": ["authorization_code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "claims_supported": ["sub", "auth_time", "iss"],
        "claims_parameter_supported": false,
        "request_parameter_supported": false,
        "request_uri_parameter_supported": true,
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
    }))
}

/// Error page that Slack shows to people whose app sent a wrong request.
fn wrong_request(what: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("Something went wrong: {what}\n")).into_response()
}

async fn serve_authorize(State(inner): OpenIdState, Query(asked): Query<OpenIdFields>) -> Response {
    inner.update(|core| give_consent(core, &asked))
}

fn give_consent(core: &mut SlackCore, asked: &OpenIdFields) -> Response {
    let of = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    let openid = &mut core.openid;
    if of("client_id") != openid.client {
        return wrong_request("invalid_client_id");
    }
    if !openid.redirects.iter().any(|known| known == of("redirect_uri")) {
        return wrong_request("redirect_uri did not match any configured URIs");
    }
    if of("response_type") != "code" {
        return wrong_request("response_type has to be code");
    }
    let scopes: Vec<String> = of("scope").split([' ', ',']).map(str::to_owned).collect();
    if !scopes.iter().any(|scope| scope == "openid") {
        return wrong_request("scope has to include openid");
    }
    if asked.contains_key("code_challenge") && of("code_challenge_method") != "S256" {
        return wrong_request("code_challenge_method has to be S256");
    }
    let Some((user, team)) = openid.browser.clone() else {
        return wrong_request("nobody is signed in");
    };
    let Ok(mut back) = url::Url::parse(of("redirect_uri")) else {
        return wrong_request("redirect_uri");
    };
    let ticket = format!("{}.{}", unix_now(), uuid::Uuid::new_v4().simple());
    back.query_pairs_mut().append_pair("code", &ticket).append_pair("state", of("state"));
    let nonce = asked.get("nonce").cloned();
    let challenge = asked.get("code_challenge").cloned();
    let redirect = of("redirect_uri").to_owned();
    let given = Instant::now();
    let grant = OpenIdGrant { user, team, redirect, nonce, challenge, scopes, given, used: false };
    openid.codes.insert(ticket, grant);
    Redirect::to(back.as_str()).into_response()
}

async fn serve_keys() -> Response {
    let Some(key) = public_key(KEY_ID) else { return wrong_request("no key") };
    Json(json!({"keys": [key]})).into_response()
}

fn refuse_token(code: &str) -> Response {
    Json(json!({"ok": false, "error": code})).into_response()
}

async fn serve_token(State(inner): OpenIdState, headers: HeaderMap, body: Bytes) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return refuse_token("invalid_form_data");
    }
    let form: OpenIdFields = url::form_urlencoded::parse(&body).into_owned().collect();
    let (id, secret) = basic_credentials(&headers).unwrap_or_else(|| {
        let of = |name: &str| form.get(name).cloned().unwrap_or_default();
        (of("client_id"), of("client_secret"))
    });
    let issuer = inner.origin.clone();
    inner.update(|core| exchange_code(core, &issuer, (&id, &secret), &form))
}

fn exchange_code(
    core: &mut SlackCore,
    issuer: &str,
    (id, secret): (&str, &str),
    form: &OpenIdFields,
) -> Response {
    let of = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    if id != core.openid.client {
        return refuse_token("invalid_client_id");
    }
    if secret != core.openid.secret {
        return refuse_token("bad_client_secret");
    }
    if !matches!(of("grant_type"), "" | "authorization_code") {
        return refuse_token("invalid_grant_type");
    }
    let Some(grant) = core.openid.codes.get_mut(of("code")) else {
        return refuse_token("invalid_code");
    };
    if grant.used {
        return refuse_token("code_already_used");
    }
    if grant.given.elapsed() > CODE_LIFE {
        return refuse_token("invalid_code");
    }
    if grant.redirect != of("redirect_uri") {
        return refuse_token("bad_redirect_uri");
    }
    let proof = form.get("code_verifier").map(|secret| {
        URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, secret.as_bytes()))
    });
    if proof != grant.challenge {
        return refuse_token("bad_code_verifier");
    }
    grant.used = true;
    let grant = grant.clone();
    let access = format!("xoxp-{}", uuid::Uuid::new_v4().simple());
    core.openid.tokens.insert(access.clone(), grant.clone());
    let mut claims = describe_person(core, &grant);
    let now = unix_now();
    for (name, value) in [
        ("iss", json!(issuer)),
        ("aud", json!(id)),
        ("iat", json!(now)),
        ("auth_time", json!(now)),
        ("exp", json!(now + TOKEN_LIFE)),
    ] {
        claims[name] = value;
    }
    if let Some(nonce) = &grant.nonce {
        claims["nonce"] = json!(nonce);
    }
    let Some(identity) = sign_claims(&claims) else { return refuse_token("internal_error") };
    Json(json!({"ok": true, "access_token": access, "token_type": "Bearer", "id_token": identity}))
        .into_response()
}

/// OpenID claims about a person.
fn describe_person(core: &SlackCore, grant: &OpenIdGrant) -> Value {
    let name = core.world.users.get(&grant.user).map_or("somebody", |user| user.name.as_str());
    let mut claims = json!({
        "sub": grant.user,
        "https://slack.com/user_id": grant.user,
        "https://slack.com/team_id": grant.team,
    });
    if grant.scopes.iter().any(|scope| scope == "email") {
        claims["email"] = json!(format!("{name}@example.com"));
        claims["email_verified"] = json!(true);
    }
    claims
}

fn sign_claims(claims: &Value) -> Option<String> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = json!({"alg": "RS256", "typ": "JWT", "kid": KEY_ID});
    let text = format!("{}.{}", part(&head), part(claims));
    Some(format!("{text}.{}", sign_text(&text)?))
}

async fn user_info(State(inner): OpenIdState, headers: HeaderMap) -> Response {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
    let Some(token) = token else { return refuse_token("not_authed") };
    inner.read(|core| {
        let Some(grant) = core.openid.tokens.get(&token) else {
            return refuse_token("invalid_auth");
        };
        let mut claims = describe_person(core, grant);
        claims["ok"] = json!(true);
        Json(claims).into_response()
    })
}

/// Client id and secret, form-encoded each, as RFC 6749 has it.
fn basic_credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let text = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decoded = |part: &str| {
        let mut parsed = url::form_urlencoded::parse(part.as_bytes());
        parsed.next().map(|(name, _)| name.into_owned()).unwrap_or_default()
    };
    Some((decoded(id), decoded(secret)))
}
