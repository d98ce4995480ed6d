//! An authorization server for servers of the Model Context Protocol, as strict as the official example: clients that
//! register, addresses compared letter by letter, PKCE with S256, codes that are good once, tokens for one resource,
//! and refresh tokens that are replaced at each use. A refresh token that comes twice ends its whole grant.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::serving::RunningServer;

/// Seconds that an access token lasts.
const LIFE: u64 = 3600;

type FormFields = BTreeMap<String, String>;
type SharedAuthority = State<Arc<AuthorityState>>;

struct AskedCode {
    client: String,
    redirect: String,
    challenge: String,
    resource: String,
    scope: String,
}

struct GivenRefresh {
    client: String,
    resource: String,
    scope: String,
    grant: u64,
}

/// An access token that was given.
struct GivenAccess {
    resource: String,
    scope: String,
    grant: u64,
}

/// A client that has registered.
struct KnownClient {
    redirects: Vec<String>,
    secret: String,
    /// Scopes that it may ask for: those that it named when it registered.
    scopes: Vec<String>,
}

/// Habits of an authority besides those of the standards.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum AuthorityHabits {
    /// It has none.
    #[default]
    Standard,
    /// Errors of tokens have a status of success and words of their own.
    GitHub,
    /// It registers no clients: their ids are addresses of documents that describe them.
    Documents,
    /// The same, but it says that it registers clients, and does so for those that it knows.
    Guarded,
    /// Its metadata is redirected and names no methods of PKCE, and requests may not name a resource.
    Entra,
}

#[derive(Default)]
struct AuthorityBook {
    life: Option<u64>,
    refuses: bool,
    habits: AuthorityHabits,
    /// The issuer that it calls itself, in place of its address.
    issuer: Option<String>,
    /// A page for people stands where its metadata is looked for first.
    has_front_page: bool,
    resources: HashSet<String>,
    clients: HashMap<String, KnownClient>,
    codes: HashMap<String, AskedCode>,
    access: HashMap<String, GivenAccess>,
    refresh: HashMap<String, GivenRefresh>,
    /// Refresh tokens that were replaced.
    spent: HashMap<String, u64>,
    secrets: Vec<String>,
    refreshes: usize,
    grants: u64,
}

impl AuthorityBook {
    fn end_grant(&mut self, grant: u64) {
        self.access.retain(|_, given| given.grant != grant);
        self.refresh.retain(|_, given| given.grant != grant);
    }
}

/// State of an authority, which the servers that trust it look into.
pub(super) struct AuthorityState {
    origin: OnceLock<String>,
    book: Mutex<AuthorityBook>,
}

impl AuthorityState {
    fn origin(&self) -> &str {
        self.origin.get().map_or("", String::as_str)
    }

    /// True if an access token is good at a resource.
    pub(super) fn accepts(&self, token: &str, resource: &str) -> bool {
        self.book.lock().access.get(token).is_some_and(|given| given.resource == resource)
    }

    /// True if an access token gives a right.
    pub(super) fn gives(&self, token: &str, right: &str) -> bool {
        let book = self.book.lock();
        let given = book.access.get(token);
        given.is_some_and(|given| given.scope.split_whitespace().any(|scope| scope == right))
    }

    fn issuer(&self) -> String {
        self.book.lock().issuer.clone().unwrap_or_else(|| self.origin().to_owned())
    }

    /// The metadata of a resource (RFC 9728).
    pub(super) fn describe_resource(&self, resource: &str) -> Value {
        json!({
            "resource": resource, "authorization_servers": [self.origin()],
            "scopes_supported": ["mcp:tools"], "bearer_methods_supported": ["header"],
        })
    }

    pub(super) fn protect(&self, resource: &str) {
        self.book.lock().resources.insert(resource.to_owned());
    }
}

/// A running authorization server.
pub struct SignInAuthority {
    state: Arc<AuthorityState>,
    _running: RunningServer,
}

impl SignInAuthority {
    /// Starts one that knows no client.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> std::io::Result<Self> {
        let state = Arc::new(AuthorityState { origin: OnceLock::new(), book: Mutex::default() });
        let router = Router::new()
            .route("/.well-known/oauth-authorization-server", get(serve_first))
            .route("/.well-known/openid-configuration", get(serve_second))
            .route("/metadata", get(serve_metadata))
            .route("/register", post(register_client))
            .route("/authorize", get(authorize_person))
            .route("/token", post(give_tokens))
            .with_state(Arc::clone(&state));
        let running = RunningServer::start(router).await?;
        state.origin.get_or_init(|| running.url());
        Ok(Self { state, _running: running })
    }

    pub(super) fn state(&self) -> Arc<AuthorityState> {
        Arc::clone(&self.state)
    }

    /// Origin of the authority, which is its name as an issuer.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.state.origin()
    }

    /// The person at the browser says no from now on, or yes again.
    pub fn refuse(&self, refuses: bool) {
        self.state.book.lock().refuses = refuses;
    }

    /// Access tokens that are given from now on last so many seconds.
    pub fn set_life(&self, seconds: u64) {
        self.state.book.lock().life = Some(seconds);
    }

    /// Answers errors about tokens with a status of success, and in other words than the standard's, as GitHub does.
    pub fn speak_like_github(&self) {
        self.state.book.lock().habits = AuthorityHabits::GitHub;
    }

    /// Calls itself this issuer, wherever its metadata is.
    pub fn call_itself(&self, issuer: &str) {
        self.state.book.lock().issuer = Some(issuer.to_owned());
    }

    /// Knows PKCE without a word about it in its metadata, and refuses requests that name a resource, as Entra does.
    pub fn be_like_entra(&self) {
        self.state.book.lock().habits = AuthorityHabits::Entra;
    }

    /// Registers no clients, and reads the document that a client's id is the address of.
    pub fn read_documents(&self) {
        self.state.book.lock().habits = AuthorityHabits::Documents;
    }

    /// The same where it refuses to register clients that it does not know.
    pub fn guard_registration(&self) {
        self.state.book.lock().habits = AuthorityHabits::Guarded;
    }

    /// Shows people a page where its metadata is looked for first.
    pub fn show_front_page(&self) {
        self.state.book.lock().has_front_page = true;
    }

    /// Expires all access tokens; refresh tokens stay good.
    pub fn end_access(&self) {
        self.state.book.lock().access.clear();
    }

    /// Forgets the clients that have registered, as one that keeps them in memory does when it restarts.
    pub fn forget_clients(&self) {
        self.state.book.lock().clients.clear();
    }

    /// All grants are taken back.
    pub fn revoke(&self) {
        let mut book = self.state.book.lock();
        book.access.clear();
        book.refresh.clear();
    }

    /// Refresh tokens that were replaced by newer ones.
    #[must_use]
    pub fn refreshes(&self) -> usize {
        self.state.book.lock().refreshes
    }

    /// Clients that have registered.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.state.book.lock().clients.len()
    }

    /// All tokens, and secrets of clients, that it ever gave.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.state.book.lock().secrets.clone()
    }
}

fn random_text(kind: &str) -> String {
    format!("{kind}-{}", uuid::Uuid::new_v4().simple())
}

async fn serve_first(state: SharedAuthority) -> Response {
    if state.book.lock().has_front_page {
        return Html("<!doctype html><title>Welcome</title>").into_response();
    }
    serve_metadata(state).await.into_response()
}

async fn serve_second(state: SharedAuthority) -> Response {
    if state.book.lock().habits == AuthorityHabits::Entra {
        return Redirect::temporary("/metadata").into_response();
    }
    serve_metadata(state).await.into_response()
}

async fn serve_metadata(State(state): SharedAuthority) -> Json<Value> {
    let at = |path: &str| format!("{}{path}", state.origin());
    let mut metadata = json!({
        "issuer": state.issuer(),
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"),
        "scopes_supported": ["mcp:tools", "offline_access"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    let habits = state.book.lock().habits;
    if let Some(fields) = metadata.as_object_mut() {
        match habits {
            AuthorityHabits::Entra => {
                fields.remove("code_challenge_methods_supported");
            }
            AuthorityHabits::Documents | AuthorityHabits::Guarded => {
                if habits == AuthorityHabits::Documents {
                    fields.remove("registration_endpoint");
                }
                fields.insert("client_id_metadata_document_supported".to_owned(), json!(true));
                let methods = json!(["none"]);
                fields.insert("token_endpoint_auth_methods_supported".to_owned(), methods);
            }
            AuthorityHabits::Standard | AuthorityHabits::GitHub => {}
        }
    }
    Json(metadata)
}

/// Reads the document that a client's id is the address of. Such a client has no secret.
async fn read_document(state: &AuthorityState, asked: &FormFields) -> Option<()> {
    let id = asked.get("client_id")?;
    let habits = state.book.lock().habits;
    if !matches!(habits, AuthorityHabits::Documents | AuthorityHabits::Guarded) {
        return None;
    }
    let client = reqwest::Client::builder().no_proxy().build().ok()?;
    let read = client.get(id).send().await.ok()?.error_for_status().ok()?;
    let document: Value = read.json().await.ok()?;
    if document["client_id"] != json!(id) || document["token_endpoint_auth_method"] != "none" {
        return None;
    }
    let redirects = document["redirect_uris"].as_array()?.iter().filter_map(Value::as_str);
    let redirects = redirects.map(str::to_owned).collect();
    let scopes = asked.get("scope").map(String::as_str).unwrap_or_default().split_whitespace();
    let scopes = scopes.map(str::to_owned).collect();
    let known = KnownClient { redirects, secret: String::new(), scopes };
    state.book.lock().clients.insert(id.clone(), known);
    Some(())
}

fn refuse_request(status: StatusCode, error: &str, about: &str) -> Response {
    (status, Json(json!({"error": error, "error_description": about}))).into_response()
}

async fn register_client(State(state): SharedAuthority, Json(asked): Json<Value>) -> Response {
    let texts = |field: &str| -> Vec<String> {
        let list = asked[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let redirects = texts("redirect_uris");
    if state.book.lock().habits == AuthorityHabits::Guarded {
        let about = "only clients with a token of the operator are registered";
        return refuse_request(StatusCode::UNAUTHORIZED, "invalid_token", about);
    }
    let fits = |address: &String| {
        Url::parse(address).is_ok_and(|url| url.fragment().is_none() && url.has_host())
    };
    if redirects.is_empty() || !redirects.iter().all(fits) {
        let about = "redirect_uris have to be absolute addresses";
        return refuse_request(StatusCode::BAD_REQUEST, "invalid_redirect_uri", about);
    }
    let grants = texts("grant_types");
    let needs = ["authorization_code", "refresh_token"];
    if asked["token_endpoint_auth_method"] != "client_secret_post"
        || !needs.iter().all(|need| grants.iter().any(|grant| grant == need))
    {
        let about = "confidential clients with refresh tokens only";
        return refuse_request(StatusCode::BAD_REQUEST, "invalid_client_metadata", about);
    }
    let (id, secret) = (random_text("client"), random_text("secret"));
    let mut book = state.book.lock();
    book.secrets.push(secret.clone());
    let scopes = asked["scope"].as_str().unwrap_or_default().split_whitespace();
    let scopes = scopes.map(str::to_owned).collect();
    let known = KnownClient { redirects, secret: secret.clone(), scopes };
    book.clients.insert(id.clone(), known);
    let mut answer = asked.clone();
    answer["client_id"] = json!(id);
    answer["client_secret"] = json!(secret);
    answer["client_secret_expires_at"] = json!(0);
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn authorize_person(
    State(state): SharedAuthority,
    Query(asked): Query<FormFields>,
) -> Response {
    let of = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    read_document(&state, &asked).await;
    let issuer = state.issuer();
    let mut book = state.book.lock();
    // Errors about the client or its address are shown here: nobody is sent there.
    let Some(client) = book.clients.get(of("client_id")) else {
        return refuse_request(StatusCode::BAD_REQUEST, "invalid_client", "unknown client");
    };
    if !client.redirects.iter().any(|known| known == of("redirect_uri")) {
        let about = "redirect_uri is not registered";
        return refuse_request(StatusCode::BAD_REQUEST, "invalid_request", about);
    }
    let Ok(mut back) = Url::parse(of("redirect_uri")) else {
        return refuse_request(StatusCode::BAD_REQUEST, "invalid_request", "redirect_uri");
    };
    let scopes: Vec<&str> = of("scope").split_whitespace().collect();
    // As the official Python server does.
    let may_ask = scopes.iter().all(|scope| client.scopes.iter().any(|known| known == scope));
    let has_target = if book.habits == AuthorityHabits::Entra {
        of("resource").is_empty()
    } else {
        book.resources.contains(of("resource"))
    };
    let error = match () {
        () if of("response_type") != "code" => Some("unsupported_response_type"),
        () if of("code_challenge_method") != "S256" || of("code_challenge").len() != 43 => {
            Some("invalid_request")
        }
        () if of("state").len() < 22 => Some("invalid_request"),
        () if !has_target => Some("invalid_target"),
        () if !may_ask || !scopes.contains(&"mcp:tools") => Some("invalid_scope"),
        () if book.refuses => Some("access_denied"),
        () => None,
    };
    back.query_pairs_mut().append_pair("state", of("state")).append_pair("iss", &issuer);
    if let Some(error) = error {
        back.query_pairs_mut().append_pair("error", error);
        return Redirect::to(back.as_str()).into_response();
    }
    let code = random_text("code");
    let asked = AskedCode {
        client: of("client_id").to_owned(),
        redirect: of("redirect_uri").to_owned(),
        challenge: of("code_challenge").to_owned(),
        resource: of("resource").to_owned(),
        scope: of("scope").to_owned(),
    };
    book.codes.insert(code.clone(), asked);
    back.query_pairs_mut().append_pair("code", &code);
    Redirect::to(back.as_str()).into_response()
}

async fn give_tokens(State(state): SharedAuthority, headers: HeaderMap, body: Bytes) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let bad = |error: &str, about: &str| refuse_request(StatusCode::BAD_REQUEST, error, about);
    if kind != Some("application/x-www-form-urlencoded") {
        return bad("invalid_request", "a form is wanted");
    }
    let form: FormFields = url::form_urlencoded::parse(&body).into_owned().collect();
    let of = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let mut book = state.book.lock();
    let is_like_github = book.habits == AuthorityHabits::GitHub;
    let bad = |error: &str, about: &str| {
        if is_like_github {
            let own = if of("grant_type") == "refresh_token" {
                "bad_refresh_token"
            } else {
                "bad_verification_code"
            };
            return refuse_request(StatusCode::OK, own, about);
        }
        bad(error, about)
    };
    let client = of("client_id").to_owned();
    let secret = book.clients.get(&client).map(|known| known.secret.as_str());
    if secret != Some(of("client_secret")) {
        return refuse_request(StatusCode::UNAUTHORIZED, "invalid_client", "wrong client");
    }
    let (resource, scope, grant) = match of("grant_type") {
        "authorization_code" => {
            // Good once, whatever becomes of it.
            let Some(asked) = book.codes.remove(of("code")) else {
                return bad("invalid_grant", "unknown code");
            };
            let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier")));
            let is_same = asked.client == client
                && asked.redirect == of("redirect_uri")
                && asked.resource == of("resource")
                && asked.challenge == proof;
            if !is_same {
                return bad("invalid_grant", "the code was given for another request");
            }
            book.grants += 1;
            (asked.resource, asked.scope, book.grants)
        }
        "refresh_token" => {
            if let Some(grant) = book.spent.get(of("refresh_token")).copied() {
                book.end_grant(grant);
                return bad("invalid_grant", "the refresh token was used before");
            }
            let Some(given) = book.refresh.remove(of("refresh_token")) else {
                return bad("invalid_grant", "the grant was revoked");
            };
            book.spent.insert(of("refresh_token").to_owned(), given.grant);
            if given.client != client || given.resource != of("resource") {
                return bad("invalid_grant", "the refresh token was given for another request");
            }
            book.refreshes += 1;
            (given.resource, given.scope, given.grant)
        }
        _ => return bad("unsupported_grant_type", "authorization_code or refresh_token"),
    };
    let (access, refresh) = (random_text("access"), random_text("refresh"));
    // Without a resource, a token is good at all servers that trust this one; there is one in tests.
    let target =
        book.resources.iter().next().filter(|_| book.habits == AuthorityHabits::Entra).cloned();
    let target = target.unwrap_or_else(|| resource.clone());
    book.secrets.extend([access.clone(), refresh.clone()]);
    let given = GivenAccess { resource: target, scope: scope.clone(), grant };
    book.access.insert(access.clone(), given);
    let given = GivenRefresh { client, resource, scope: scope.clone(), grant };
    book.refresh.insert(refresh.clone(), given);
    let mut answer = Json(json!({
        "access_token": access, "token_type": "Bearer", "expires_in": book.life.unwrap_or(LIFE),
        "refresh_token": refresh, "scope": scope,
    }))
    .into_response();
    answer.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    answer
}
