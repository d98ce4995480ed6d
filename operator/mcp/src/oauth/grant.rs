//! From a registered client to tokens, and to newer ones.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rand::Rng as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::metadata::AuthorizationServer;

/// Characters of an authorization server's own words.
const WORDS: usize = 300;
/// Parameters of a link that are this client's own, or that would replace them (RFC 9101) or the way back.
const OWN: [&str; 12] = [
    "client_id",
    "client_secret",
    "code_challenge",
    "code_challenge_method",
    "redirect_uri",
    "request",
    "request_uri",
    "resource",
    "response_mode",
    "response_type",
    "scope",
    "state",
];

/// True for a parameter of a link that nobody else may set.
pub fn is_own_parameter(name: &str) -> bool {
    OWN.contains(&name)
}

/// A request for tokens, or a return from signing in, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The grant is gone: a new sign-in is needed.
    #[error("the sign-in is no longer valid{0}")]
    Lost(String),
    /// The client is what is not accepted: it has to be registered anew for a new sign-in.
    #[error("the authorization server does not know this client any more{0}")]
    Client(String),
    /// The server refuses, in its own words.
    #[error("the authorization server refuses: {0}")]
    Refused(String),
    /// The answer lacks a field, or it has another form.
    #[error("the answer of the authorization server has no usable `{0}`")]
    Form(&'static str),
    /// The link does not answer what was asked.
    #[error("the answer does not belong to this sign-in")]
    Foreign,
}

/// A client that an authorization server knows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRegistration {
    /// Id that the authorization server knows the client by.
    pub client_id: String,
    /// Secret of the client; public clients have none.
    pub client_secret: Option<String>,
    /// The way in which it was registered to prove itself, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<ClientAuthMethod>,
}

/// The way in which a client proves itself at a token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAuthMethod {
    /// It sends its id alone.
    #[serde(rename = "none")]
    Public,
    /// Its secret is in header `Authorization`.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// Its secret is in the body.
    #[serde(rename = "client_secret_post")]
    Post,
}

impl fmt::Debug for ClientRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRegistration")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// Proof that a code is used by the client that asked for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PkcePair {
    /// Kept here until the code comes.
    pub verifier: String,
    /// Hash of the verifier, which the link carries.
    pub challenge: String,
}

impl fmt::Debug for PkcePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PkcePair").field("challenge", &self.challenge).finish_non_exhaustive()
    }
}

impl PkcePair {
    /// Generates a random pair.
    pub fn generate() -> Self {
        Self::of_verifier(random_text())
    }

    /// The challenge of a verifier, by S256.
    pub fn of_verifier(verifier: String) -> Self {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        Self { verifier, challenge }
    }
}

fn random_text() -> String {
    let mut bytes = [0_u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The link for the one person who signs in, and what has to be kept until they come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationLink {
    /// URL to open: meant for the one person alone.
    pub url: Url,
    /// Comes back with the code.
    pub state: String,
    /// Shows that the code is ours.
    pub pkce: PkcePair,
    /// The page to which they return.
    pub redirect: Url,
    /// The authorization server that gives the tokens.
    pub issuer: String,
    names_issuer: bool,
}

impl AuthorizationLink {
    /// Builds a link with a fresh state and PKCE pair. `others`: parameters that this authorization server wants
    /// besides; those that are this client's own are left out.
    pub fn new(
        server: &AuthorizationServer,
        client: &ClientRegistration,
        redirect: &Url,
        (resource, scope): (Option<&str>, Option<&str>),
        others: &[(&str, &str)],
    ) -> Self {
        let (state, pkce) = (random_text(), PkcePair::generate());
        let mut url = server.authorization_endpoint.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.client_id)
            .append_pair("redirect_uri", redirect.as_str())
            .append_pair("state", &state)
            .append_pair("code_challenge", &pkce.challenge)
            .append_pair("code_challenge_method", "S256");
        if let Some(resource) = resource {
            url.query_pairs_mut().append_pair("resource", resource);
        }
        if let Some(scope) = scope.filter(|scope| !scope.is_empty()) {
            url.query_pairs_mut().append_pair("scope", scope);
        }
        for (name, value) in others.iter().filter(|(name, _)| !is_own_parameter(name)) {
            url.query_pairs_mut().append_pair(name, value);
        }
        Self {
            url,
            state,
            pkce,
            redirect: redirect.clone(),
            issuer: server.issuer.clone(),
            names_issuer: server.names_issuer,
        }
    }

    /// The code in the query with which the person comes back.
    pub fn read_return(&self, query: &str) -> Result<String, TokenError> {
        let value_of = |name: &str| {
            url::form_urlencoded::parse(query.as_bytes())
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
        };
        if value_of("state").as_ref() != Some(&self.state) {
            return Err(TokenError::Foreign);
        }
        // Codes of one server must not be brought to another one.
        let issuer = value_of("iss");
        if issuer.as_ref().is_some_and(|issuer| *issuer != self.issuer)
            || (issuer.is_none() && self.names_issuer)
        {
            return Err(TokenError::Foreign);
        }
        if let Some(error) = value_of("error") {
            let about =
                value_of("error_description").map(|about| format!(": {about}")).unwrap_or_default();
            return Err(TokenError::Refused(cut(&format!("{error}{about}"))));
        }
        value_of("code").ok_or(TokenError::Form("code"))
    }
}

/// A form to post to the token endpoint. It holds secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// URL of the token endpoint.
    pub url: Url,
    /// The body, `application/x-www-form-urlencoded`.
    pub body: String,
    /// Header `Authorization`, for a server that takes a client's secret nowhere else.
    pub authorization: Option<String>,
}

impl fmt::Debug for TokenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRequest").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl TokenRequest {
    /// Exchanges an authorization code for tokens.
    pub fn of_code(
        server: &AuthorizationServer,
        client: &ClientRegistration,
        link: &AuthorizationLink,
        code: &str,
        resource: Option<&str>,
    ) -> Self {
        let pairs = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", link.redirect.as_str()),
            ("code_verifier", &link.pkce.verifier),
        ];
        Self::new(server, client, &pairs, resource)
    }

    /// Old tokens for newer ones.
    pub fn of_refresh(
        server: &AuthorizationServer,
        client: &ClientRegistration,
        refresh_token: &str,
        resource: Option<&str>,
    ) -> Self {
        let pairs = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        Self::new(server, client, &pairs, resource)
    }

    fn new(
        server: &AuthorizationServer,
        client: &ClientRegistration,
        pairs: &[(&str, &str)],
        resource: Option<&str>,
    ) -> Self {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(pairs);
        if let Some(resource) = resource {
            form.append_pair("resource", resource);
        }
        let mut authorization = None;
        // What the server says of this client holds before what it says of all, unless both can't be true.
        let said = client.method.filter(|method| *method != ClientAuthMethod::Public);
        let usual =
            if server.wants_basic { ClientAuthMethod::Basic } else { ClientAuthMethod::Post };
        let method = said.unwrap_or(usual);
        match &client.client_secret {
            Some(secret) if method == ClientAuthMethod::Basic => {
                authorization = Some(write_basic(&client.client_id, secret));
            }
            Some(secret) => {
                form.append_pair("client_id", &client.client_id);
                form.append_pair("client_secret", secret);
            }
            None => {
                form.append_pair("client_id", &client.client_id);
            }
        }
        Self { url: server.token_endpoint.clone(), body: form.finish(), authorization }
    }
}

/// Both parts are encoded as in a form before they are joined (RFC 6749, section 2.3.1).
fn write_basic(id: &str, secret: &str) -> String {
    let encode =
        |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encode(id), encode(secret))))
}

/// The body to post to a registration endpoint, as JSON. `scope`: all that the client will ask for, as some servers
/// give a client no more than it was registered for.
pub fn registration_request(
    client_name: &str,
    redirect: &Url,
    server: &AuthorizationServer,
    scope: Option<&str>,
) -> Value {
    let method = match server {
        AuthorizationServer { allows_public_clients: true, .. } => "none",
        AuthorizationServer { wants_basic: true, .. } => "client_secret_basic",
        _ => "client_secret_post",
    };
    let mut body = json!({
        "client_name": client_name,
        "redirect_uris": [redirect.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    if let Some(scope) = scope {
        body["scope"] = scope.into();
    }
    body
}

/// Reads the answer of a registration endpoint.
pub fn read_registration(status: u16, body: &[u8]) -> Result<ClientRegistration, TokenError> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let text_at = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    if !(200..300).contains(&status) {
        let words = text_at("error_description").or_else(|| text_at("error"));
        return Err(TokenError::Refused(
            words.map_or_else(|| format!("status {status}"), |words| cut(&words)),
        ));
    }
    let client_id = text_at("client_id").ok_or(TokenError::Form("client_id"))?;
    let method = value.get("token_endpoint_auth_method").cloned().unwrap_or_default();
    Ok(ClientRegistration {
        client_id,
        client_secret: text_at("client_secret").filter(|secret| !secret.is_empty()),
        method: serde_json::from_value(method).ok(),
    })
}

pub(super) fn cut(words: &str) -> String {
    codebutler_mcp_file::clean_text(words).chars().take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> AuthorizationServer {
        let url = |path: &str| Url::parse(&format!("https://a.example/{path}")).unwrap();
        AuthorizationServer {
            issuer: "https://a.example".into(),
            authorization_endpoint: url("authorize?tenant=1"),
            token_endpoint: url("token"),
            registration_endpoint: None,
            scopes: Vec::new(),
            allows_public_clients: true,
            wants_basic: false,
            names_issuer: false,
            takes_documents: false,
        }
    }

    fn link() -> AuthorizationLink {
        let client =
            ClientRegistration { client_id: "us".into(), client_secret: None, method: None };
        let redirect = Url::parse("https://gateway.example/back").unwrap();
        let resource = "https://m.example/mcp";
        let others = [
            ("access_type", "offline"),
            ("state", "theirs"),
            ("redirect_uri", "https://b.example"),
        ];
        let asked = (Some(resource), Some("read write"));
        AuthorizationLink::new(&server(), &client, &redirect, asked, &others)
    }

    #[test]
    fn pkce_is_that_of_the_standard() {
        // Appendix B of RFC 7636.
        let pair = PkcePair::of_verifier("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        assert_eq!(pair.challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let generated = PkcePair::generate();
        assert!(generated.verifier.len() >= 43 && generated != PkcePair::generate());
    }

    #[test]
    fn only_the_answer_to_this_link_brings_a_code() {
        let link = link();
        let query = link.url.query().unwrap();
        for part in [
            "tenant=1",
            "response_type=code",
            "code_challenge_method=S256",
            "resource=https%3A%2F%2Fm.example%2Fmcp",
            "scope=read+write",
            "access_type=offline",
        ] {
            assert!(query.contains(part), "{query}");
        }
        for own in ["state=", "redirect_uri="] {
            assert_eq!(query.matches(own).count(), 1, "nobody else sets it: {query}");
        }
        let state = &link.state;
        assert_eq!(link.read_return(&format!("code=a%2Bb&state={state}")), Ok("a+b".into()));
        assert_eq!(link.read_return("code=a&state=other"), Err(TokenError::Foreign));
        assert_eq!(link.read_return("code=a"), Err(TokenError::Foreign));
        let foreign = format!("code=a&state={state}&iss=https%3A%2F%2Fevil.example");
        assert_eq!(link.read_return(&foreign), Err(TokenError::Foreign));
        let refused = format!("error=access_denied&error_description=no&state={state}");
        assert_eq!(
            link.read_return(&refused),
            Err(TokenError::Refused("access_denied: no".into()))
        );
    }

    #[test]
    fn a_secret_goes_into_a_header_where_a_server_takes_it_nowhere_else() {
        let client = ClientRegistration {
            client_id: "a:b".into(),
            client_secret: Some("c d".into()),
            method: None,
        };
        let resource = "https://m.example/mcp";
        let server = AuthorizationServer { wants_basic: true, ..server() };
        let request = TokenRequest::of_refresh(&server, &client, "r", Some(resource));
        assert_eq!(request.authorization.as_deref(), Some("Basic YSUzQWI6Yytk"));
        assert!(!request.body.contains("client"), "{}", request.body);
    }

    /// A regression: servers register a client in another way than it has asked for, and refuse it in any other.
    #[test]
    fn a_client_proves_itself_as_it_was_registered() {
        let request = |method: &str| {
            let answer = json!({
                "client_id": "us", "client_secret": "s3cret", "token_endpoint_auth_method": method,
            });
            let client = read_registration(201, answer.to_string().as_bytes()).unwrap();
            TokenRequest::of_refresh(&server(), &client, "r", None)
        };
        let basic = request("client_secret_basic");
        assert!(basic.authorization.is_some() && !basic.body.contains("client"), "{}", basic.body);
        let post = request("client_secret_post");
        assert!(post.authorization.is_none() && post.body.contains("client_secret=s3cret"));
        for odd in ["none", "private_key_jwt"] {
            assert!(request(odd).body.contains("client_secret=s3cret"), "a secret is to be sent");
        }
    }

    /// A regression: Entra refuses each request that names a resource.
    #[test]
    fn a_resource_is_left_out_of_all_requests_where_there_is_none() {
        let client =
            ClientRegistration { client_id: "us".into(), client_secret: None, method: None };
        let redirect = Url::parse("https://gateway.example/back").unwrap();
        let link = AuthorizationLink::new(&server(), &client, &redirect, (None, None), &[]);
        assert!(!link.url.as_str().contains("resource"), "{}", link.url);
        let code = TokenRequest::of_code(&server(), &client, &link, "c", None);
        let refresh = TokenRequest::of_refresh(&server(), &client, "r", None);
        for body in [code.body, refresh.body] {
            assert!(!body.contains("resource"), "{body}");
        }
    }

    #[test]
    fn a_client_is_registered_for_the_scope_that_it_will_ask_for() {
        let redirect = Url::parse("https://gateway.example/back").unwrap();
        let body = |scope| registration_request("us", &redirect, &server(), scope);
        assert_eq!(body(Some("read write"))["scope"], "read write");
        assert_eq!(body(None).get("scope"), None);
    }

    #[test]
    fn secrets_are_not_shown() {
        let link = link();
        let client = ClientRegistration {
            client_id: "us".into(),
            client_secret: Some("s3cret".into()),
            method: None,
        };
        let resource = "https://m.example/mcp";
        let request = TokenRequest::of_refresh(&server(), &client, "r3fresh", Some(resource));
        assert!(
            request.body.contains("client_secret=s3cret")
                && request.body.contains("refresh_token=r3fresh")
        );
        let shown = format!("{client:?} {request:?} {:?}", link.pkce);
        for secret in ["s3cret", "r3fresh", &link.pkce.verifier] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
