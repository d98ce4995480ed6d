//! Discovery of the place where people sign in for a server.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Host, Url};

/// Metadata that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The metadata is not a JSON object.
    #[error("the metadata is no JSON object")]
    Form,
    /// A field is missing or of another type.
    #[error("the metadata has no usable `{0}`")]
    Field(&'static str),
    /// The metadata describes another server: answers of one server must not send people to another one's sign-in.
    #[error("the metadata is of `{found}`, not of `{expected}`")]
    Other {
        /// Identifier that it should have.
        expected: String,
        /// Identifier that it has.
        found: String,
    },
    /// RFC 8414 wants the issuer to be the address at which its metadata is looked for.
    #[error(
        "the authorization server that is named as `{expected}` calls itself the issuer `{found}` (RFC 8414 wants both to \
         be the same): if you know that this is right, write `issuer: {found}` in `oauth` of the server in \
         `spec.mcpServers`"
    )]
    Issuer {
        /// Address at which the metadata was looked up.
        expected: String,
        /// Issuer in the metadata.
        found: String,
    },
    /// Neither that nor what a person has stated.
    #[error(
        "the authorization server that is named as `{expected}` calls itself the issuer `{found}`, and not `{stated}` as \
         `oauth.issuer` says: correct `oauth.issuer` of the server in `spec.mcpServers`"
    )]
    OtherIssuer {
        /// Address at which the metadata was looked up.
        expected: String,
        /// Issuer in the metadata.
        found: String,
        /// Issuer that a person has stated.
        stated: String,
    },
    /// The address is not one of https.
    #[error("`{0}` is not an https address")]
    Plain(String),
    /// The server lacks PKCE with S256, without which a code can be stolen on its way.
    #[error(
        "the authorization server's metadata names no PKCE with S256 (`code_challenge_methods_supported`): have it \
         named there, or send a token in `headers` instead of `oauth`"
    )]
    NoPkce,
    /// The metadata says nothing about PKCE, and nobody else has.
    #[error(
        "the authorization server's metadata does not say whether it knows PKCE with S256 \
         (`code_challenge_methods_supported`): if its documentation says that it does, as those of Entra and Cognito, \
         write `pkce: Assumed` in `oauth` of the server in `spec.mcpServers`; else have it named there, or send a token in \
         `headers` instead of `oauth`"
    )]
    UnknownPkce,
}

/// Facts about an authorization server that a person has stated, besides its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatedAuthority<'a> {
    /// The issuer that it calls itself.
    pub issuer: Option<&'a str>,
    /// True if it knows PKCE with S256, where its metadata does not say which methods it knows.
    pub has_pkce: bool,
}

/// Contents of the challenge in a 401.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceChallenge {
    /// Address of the resource's metadata.
    pub resource_metadata: Option<Url>,
    /// Scope that has to be requested.
    pub scope: Option<String>,
    /// `invalid_token`, `insufficient_scope`, …
    pub error: Option<String>,
}

impl ResourceChallenge {
    /// True where a valid token lacks a right.
    pub fn lacks_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Metadata of a protected resource (RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedResource {
    /// Identifier that token requests name, as it was written: servers compare it letter by letter.
    pub resource: String,
    /// Servers that issue its tokens.
    pub authorization_servers: Vec<Url>,
    /// Scopes that can be requested.
    pub scopes: Vec<String>,
}

impl ProtectedResource {
    /// Builds the metadata of a server that has none, as before RFC 9728: its origin issues the tokens.
    pub fn of_origin(server: &Url) -> Result<Self, MetadataError> {
        require_tls(server)?;
        let mut origin = server.clone();
        origin.set_path("/");
        origin.set_query(None);
        origin.set_fragment(None);
        let mut resource = server.clone();
        resource.set_fragment(None);
        let (resource, scopes) = (resource.to_string(), Vec::new());
        Ok(Self { resource, authorization_servers: vec![origin], scopes })
    }
}

/// The scope to ask for: that of the entry, else that of the challenge, else all that the resource names. Where a
/// right is missing, it is asked for besides those that there are: `had`. Tokens that last need `offline_access`
/// where the authorization server has it.
pub fn choose_scope(
    (wanted, had): (&[String], Option<&str>),
    challenge: &ResourceChallenge,
    resource: &ProtectedResource,
    server: &AuthorizationServer,
) -> Option<String> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let missing = challenge.scope.as_deref().filter(|_| challenge.lacks_scope());
    if !wanted.is_empty() && missing.is_none() {
        return Some(wanted.join(" "));
    }
    let mut scope = match (&challenge.scope, missing) {
        (_, Some(missing)) => {
            let before =
                if wanted.is_empty() { words(had.unwrap_or_default()) } else { wanted.to_vec() };
            let mut all = before;
            for one in words(missing) {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
            all
        }
        (Some(scope), None) => words(scope),
        (None, None) => resource.scopes.clone(),
    };
    let offline = "offline_access";
    if server.scopes.iter().any(|one| one == offline) && !scope.iter().any(|one| one == offline) {
        scope.push(offline.to_owned());
    }
    (!scope.is_empty()).then(|| scope.join(" "))
}

/// Metadata of an authorization server (RFC 8414).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is said, or not, by itself")]
pub struct AuthorizationServer {
    /// Issuer identifier, which is a URL.
    pub issuer: String,
    /// Page on which people sign in.
    pub authorization_endpoint: Url,
    /// Endpoint that exchanges codes for tokens.
    pub token_endpoint: Url,
    /// Endpoint for dynamic registration.
    pub registration_endpoint: Option<Url>,
    /// Scopes that can be requested.
    pub scopes: Vec<String>,
    /// Clients without a secret are allowed.
    pub allows_public_clients: bool,
    /// True if the client's secret is accepted in header `Authorization` alone.
    pub wants_basic: bool,
    /// True if authorization responses name the issuer (RFC 9207).
    pub names_issuer: bool,
    /// True if a client may be the address of a document that describes it, and needs no registration.
    #[serde(default)]
    pub takes_documents: bool,
}

/// Reads header `WWW-Authenticate` as far as it speaks of `Bearer`.
pub fn read_challenge(header: &str) -> ResourceChallenge {
    let lower = header.to_ascii_lowercase();
    let start = lower.find("bearer").map_or(0, |at| at + "bearer".len());
    let mut challenge = ResourceChallenge::default();
    let mut rest = &header[start..];
    while let Some((name, value, after)) = next_parameter(rest) {
        match &*name.to_ascii_lowercase() {
            "resource_metadata" => challenge.resource_metadata = Url::parse(&value).ok(),
            "scope" => challenge.scope = Some(value),
            "error" => challenge.error = Some(value),
            _ => {}
        }
        rest = after;
    }
    challenge
}

fn next_parameter(text: &str) -> Option<(String, String, &str)> {
    let text = text.trim_start_matches([' ', ',', '\t']);
    let (name, rest) = text.split_once('=')?;
    // A second scheme begins with a word of its own.
    let name = name.trim().rsplit(' ').next()?.to_owned();
    let rest = rest.trim_start();
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        return Some((name, rest[..end].to_owned(), &rest[end..]));
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, letter) in quoted.char_indices() {
        match letter {
            '"' if !is_escaped => return Some((name, value, &quoted[at + 1..])),
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            letter => value.push(letter),
        }
        is_escaped = false;
    }
    None
}

/// Possible addresses of a resource's metadata, in the order in which to ask. Only the server's own origin is
/// believed.
pub fn resource_metadata_urls(server: &Url, challenge: &ResourceChallenge) -> Vec<Url> {
    let named = challenge.resource_metadata.clone().filter(|url| url.origin() == server.origin());
    let mut urls: Vec<Url> = named.into_iter().collect();
    for url in well_known(server, "oauth-protected-resource") {
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    urls
}

/// Possible addresses of an authorization server's metadata, in the order in which to ask.
pub fn authorization_server_urls(issuer: &Url) -> Vec<Url> {
    let mut urls = well_known(issuer, "oauth-authorization-server");
    if issuer.path() != "/" {
        urls.pop();
    }
    urls.extend(well_known(issuer, "openid-configuration").into_iter().take(1));
    let mut appended = issuer.clone();
    appended.set_path(&format!(
        "{}/.well-known/openid-configuration",
        issuer.path().trim_end_matches('/')
    ));
    if !urls.contains(&appended) {
        urls.push(appended);
    }
    urls
}

/// Returns the well-known addresses: with the path, and at the root.
fn well_known(base: &Url, kind: &str) -> Vec<Url> {
    let path = base.path().trim_end_matches('/');
    let at = |path: &str| {
        let mut url = base.clone();
        url.set_path(&format!("/.well-known/{kind}{path}"));
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    if path.is_empty() { vec![at("")] } else { vec![at(path), at("")] }
}

/// Reads a resource's metadata. It has to be about `server` or a parent of it.
pub fn read_protected_resource(
    body: &[u8],
    server: &Url,
) -> Result<ProtectedResource, MetadataError> {
    let value = read_object(body)?;
    let resource = url_at(&value, "resource")?;
    let (own, given) = (server.path().trim_end_matches('/'), resource.path().trim_end_matches('/'));
    let is_parent =
        own == given || own.strip_prefix(given).is_some_and(|rest| rest.starts_with('/'));
    if resource.origin() != server.origin() || !is_parent {
        return Err(MetadataError::Other {
            expected: server.to_string(),
            found: resource.to_string(),
        });
    }
    let servers = texts_at(&value, "authorization_servers");
    let mut authorization_servers: Vec<Url> =
        servers.iter().filter_map(|url| Url::parse(url).ok()).collect();
    if authorization_servers.is_empty() && servers.is_empty() {
        // RFC 9728 lets it be left out: the server's own origin issues the tokens then, as without metadata.
        authorization_servers = ProtectedResource::of_origin(server)?.authorization_servers;
    }
    if authorization_servers.is_empty() {
        return Err(MetadataError::Field("authorization_servers"));
    }
    for url in &authorization_servers {
        require_tls(url)?;
    }
    let said = value.get("resource").and_then(Value::as_str).unwrap_or_default();
    // A URL without a path has a slash here that its server may not know.
    let is_bare = format!("{said}/") == resource.as_str();
    Ok(ProtectedResource {
        resource: if is_bare { said.to_owned() } else { resource.to_string() },
        authorization_servers,
        scopes: texts_at(&value, "scopes_supported"),
    })
}

/// Reads an authorization server's metadata. Its issuer has to be the one that was asked for, or the one that a
/// person has `stated`. Methods of PKCE that it names are believed, whatever was stated.
pub fn read_authorization_server(
    body: &[u8],
    issuer: &Url,
    stated: StatedAuthority<'_>,
) -> Result<AuthorizationServer, MetadataError> {
    let value = read_object(body)?;
    let found =
        value.get("issuer").and_then(Value::as_str).ok_or(MetadataError::Field("issuer"))?;
    let is = |expected: &str| found.trim_end_matches('/') == expected.trim_end_matches('/');
    if !is(issuer.as_str()) && !stated.issuer.is_some_and(is) {
        let (expected, found) = (issuer.to_string(), found.chars().take(200).collect());
        return Err(match stated.issuer {
            None => MetadataError::Issuer { expected, found },
            Some(stated) => {
                MetadataError::OtherIssuer { expected, found, stated: stated.to_owned() }
            }
        });
    }
    let challenges = "code_challenge_methods_supported";
    let is_silent = value.get(challenges).is_none_or(Value::is_null);
    if is_silent && !stated.has_pkce {
        return Err(MetadataError::UnknownPkce);
    }
    if !is_silent && !texts_at(&value, challenges).iter().any(|method| method == "S256") {
        return Err(MetadataError::NoPkce);
    }
    let methods = texts_at(&value, "token_endpoint_auth_methods_supported");
    let has_method = |name: &str| methods.iter().any(|method| method == name);
    let is_true = |name: &str| value.get(name) == Some(&Value::Bool(true));
    let registration_endpoint = match value.get("registration_endpoint") {
        Some(Value::String(_)) => Some(secure_url_at(&value, "registration_endpoint")?),
        _ => None,
    };
    Ok(AuthorizationServer {
        issuer: found.to_owned(),
        authorization_endpoint: secure_url_at(&value, "authorization_endpoint")?,
        token_endpoint: secure_url_at(&value, "token_endpoint")?,
        registration_endpoint,
        scopes: texts_at(&value, "scopes_supported"),
        allows_public_clients: methods.is_empty() || has_method("none"),
        wants_basic: has_method("client_secret_basic") && !has_method("client_secret_post"),
        names_issuer: is_true("authorization_response_iss_parameter_supported"),
        takes_documents: is_true("client_id_metadata_document_supported"),
    })
}

fn read_object(body: &[u8]) -> Result<Value, MetadataError> {
    let value: Value = serde_json::from_slice(body).map_err(|_| MetadataError::Form)?;
    if value.is_object() { Ok(value) } else { Err(MetadataError::Form) }
}

fn url_at(value: &Value, field: &'static str) -> Result<Url, MetadataError> {
    let text = value.get(field).and_then(Value::as_str).ok_or(MetadataError::Field(field))?;
    Url::parse(text).map_err(|_| MetadataError::Field(field))
}

fn secure_url_at(value: &Value, field: &'static str) -> Result<Url, MetadataError> {
    let url = url_at(value, field)?;
    require_tls(&url)?;
    Ok(url)
}

/// People's sign-ins and tokens go there; on the machine itself there is no way to listen.
pub(super) fn require_tls(url: &Url) -> Result<(), MetadataError> {
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if url.scheme() == "https" || (url.scheme() == "http" && is_local) {
        return Ok(());
    }
    Err(MetadataError::Plain(url.to_string()))
}

fn texts_at(value: &Value, field: &str) -> Vec<String> {
    let texts = value.get(field).and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
