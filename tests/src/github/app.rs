//! A GitHub App: known by its key, installed on repositories with permissions, and given tokens for
//! one hour and the repositories and rights that it asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use axum::http::{HeaderMap, Method, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{Timestamp, ToSpan as _};
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use super::error::ApiError;
use super::{GitHubServer, Shared};

/// Id of the GitHub App, as its owner sees it.
pub const ID: &str = "4711";
/// Private key of the App, as GitHub hands it out. It opens nothing but this fake.
pub const KEY: &str = include_str!("app.pem");
/// Account that acts with the App's tokens.
pub const LOGIN: &str = "codebutler[bot]";

/// The host's record of the App.
#[derive(Debug, Default)]
pub(super) struct GithubApp {
    pub installations: BTreeMap<String, AppInstallation>,
    /// Issued tokens and their limits.
    issued: BTreeMap<String, IssuedToken>,
}

/// The App's installation at an owner: repositories and permissions.
#[derive(Clone, Debug)]
pub(super) struct AppInstallation {
    pub id: u64,
    pub repositories: BTreeSet<String>,
    pub permissions: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
struct IssuedToken {
    owner: String,
    repositories: BTreeSet<String>,
    permissions: BTreeMap<String, String>,
    ends: Timestamp,
}

impl GitHubServer {
    /// Installs the App on a repository, or changes its permissions there.
    pub fn install_app(&self, owner: &str, name: &str, permissions: &[(&str, &str)]) {
        let id = self.shared.next_id();
        let mut app = self.shared.app.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh =
            AppInstallation { id, repositories: BTreeSet::new(), permissions: BTreeMap::new() };
        let installation = app.installations.entry(owner.to_owned()).or_insert(fresh);
        installation.repositories.insert(name.to_owned());
        let permissions = permissions.iter().map(|(n, l)| ((*n).to_owned(), (*l).to_owned()));
        installation.permissions = permissions.collect();
    }

    /// Id of the App's installation at an owner.
    #[must_use]
    pub fn installation_id(&self, owner: &str) -> Option<u64> {
        let app = self.shared.app.lock().unwrap_or_else(PoisonError::into_inner);
        app.installations.get(owner).map(|found| found.id)
    }

    /// The tokens that the App was given and that are valid.
    #[must_use]
    pub fn app_tokens(&self) -> Vec<String> {
        let app = self.shared.app.lock().unwrap_or_else(PoisonError::into_inner);
        app.issued.keys().cloned().collect()
    }

    /// Revokes all tokens of the App.
    pub fn revoke_app_tokens(&self) {
        self.shared.revoke_app_tokens();
    }
}

impl Shared {
    /// Revokes all tokens; see [`GitHubServer::revoke_app_tokens`].
    pub(super) fn revoke_app_tokens(&self) {
        self.app.lock().unwrap_or_else(PoisonError::into_inner).issued.clear();
    }

    /// Installation and tokens are for the repository, whatever its name is.
    pub(super) fn rename_for_app(&self, owner: &str, old: &str, new: &str) {
        let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        let GithubApp { installations, issued } = &mut *app;
        let installed = installations.get_mut(owner).map(|found| &mut found.repositories);
        let issued = issued.values_mut().filter(|token| token.owner == owner);
        for names in installed.into_iter().chain(issued.map(|token| &mut token.repositories)) {
            if names.remove(old) {
                names.insert(new.to_owned());
            }
        }
    }
}

fn undecodable_token() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "A JSON web token could not be decoded")
}

/// Verifies that a call is signed by the App's key, and that the signature is valid now and for no
/// longer than GitHub allows.
pub(super) fn check_signature(headers: &HeaderMap) -> Result<(), ApiError> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.split_once(' ')).ok_or_else(undecodable_token)?.1;
    let (text, signature) = token.rsplit_once('.').ok_or_else(undecodable_token)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| undecodable_token())?;
    let der = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).map_err(|_| undecodable_token())?;
    let key = match &der {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(undecodable_token()),
    };
    let key = key.map_err(|_| undecodable_token())?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref())
        .verify(text.as_bytes(), &signature)
        .map_err(|_| undecodable_token())?;
    let part = |text: &str| -> Option<Value> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    };
    let (head, claims) = text.split_once('.').ok_or_else(undecodable_token)?;
    let (head, claims) = part(head).zip(part(claims)).ok_or_else(undecodable_token)?;
    let issuer = claims["iss"].as_str().map(str::to_owned);
    let issuer = issuer.or_else(|| claims["iss"].as_u64().map(|id| id.to_string()));
    let now = Timestamp::now().as_second();
    let (since, until) = (claims["iat"].as_i64(), claims["exp"].as_i64());
    if head["alg"] != "RS256" || issuer.as_deref() != Some(ID) {
        return Err(undecodable_token());
    }
    let refuse = |message: &str| Err(ApiError::new(StatusCode::UNAUTHORIZED, message));
    match (since, until) {
        (Some(since), _) if since > now => refuse(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
        ),
        (Some(_), Some(until)) if until > now + 600 => {
            refuse("'Expiration time' claim ('exp') is too far in the future")
        }
        (Some(_), Some(until)) if until > now => Ok(()),
        _ => refuse(
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
        ),
    }
}

impl Shared {
    /// Gives a token to an installation.
    pub(super) fn issue(
        &self,
        installation: u64,
        repositories: Option<BTreeSet<String>>,
        permissions: Option<BTreeMap<String, String>>,
    ) -> Result<(String, Timestamp, BTreeMap<String, String>), ApiError> {
        let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        let found = app.installations.iter().find(|(_, known)| known.id == installation);
        let (owner, known) = found.ok_or_else(ApiError::not_found)?;
        let (owner, known) = (owner.clone(), known.clone());
        let repositories = repositories.unwrap_or_else(|| known.repositories.clone());
        if !repositories.is_subset(&known.repositories) {
            let message = "There is at least one repository that does not exist or is not \
                           accessible to the parent installation.";
            return Err(ApiError::unprocessable(message));
        }
        let permissions = permissions.unwrap_or_else(|| known.permissions.clone());
        let granted = permissions.iter().all(|(name, level)| {
            name == "metadata" || covers_level(known.permissions.get(name), level)
        });
        if !granted {
            let message = "The permissions requested are not granted to this installation.";
            return Err(ApiError::unprocessable(message));
        }
        let token = format!("ghs_{}", uuid::Uuid::new_v4().simple());
        let ends = Timestamp::now() + 1.hour();
        let issued = IssuedToken { owner, repositories, permissions: permissions.clone(), ends };
        app.issued.insert(token.clone(), issued);
        Ok((token, ends, permissions))
    }

    /// True if the token may bring new content of workflows: an App's only with that permission.
    pub(super) fn may_change_workflows(&self, token: &str) -> bool {
        let app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        let issued = app.issued.get(token);
        issued.is_none_or(|issued| covers_level(issued.permissions.get("workflows"), "write"))
    }

    /// Login of the token's owner, if the token permits the call.
    pub(super) fn who(&self, token: &str, method: &Method, path: &str) -> Result<String, ApiError> {
        if token == self.options.token {
            return Ok(self.options.login.clone());
        }
        let app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        let bad = || ApiError::new(StatusCode::UNAUTHORIZED, "Bad credentials");
        let issued = app.issued.get(token).filter(|issued| issued.ends > Timestamp::now());
        let issued = issued.ok_or_else(bad)?;
        let inside = path.trim_start_matches('/').trim_start_matches("api/v3/");
        if inside.starts_with("users/") {
            return Ok(LOGIN.to_owned());
        }
        let mut parts = inside.trim_start_matches("repos/").splitn(3, '/');
        let (owner, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let name = name.strip_suffix(".git").unwrap_or(name);
        let renamed = self.renamed(owner, name);
        let (owner, name) =
            renamed.as_ref().map_or((owner, name), |(_, to, new)| (to.as_str(), new.as_str()));
        if owner != issued.owner || !issued.repositories.contains(name) {
            return Err(ApiError::not_found());
        }
        let level = if method == Method::GET { "read" } else { "write" };
        let rest = parts.next().unwrap_or_default();
        // To open an issue it takes that permission; to speak on a pull request either will do.
        let opens = *method == Method::POST && rest == "issues";
        let any = if opens { &["issues"][..] } else { needed_permissions(rest) };
        if any.is_empty()
            || any.iter().any(|name| covers_level(issued.permissions.get(*name), level))
        {
            return Ok(LOGIN.to_owned());
        }
        Err(ApiError::new(StatusCode::FORBIDDEN, "Resource not accessible by integration"))
    }
}

fn covers_level(granted: Option<&String>, level: &str) -> bool {
    granted.is_some_and(|granted| granted == level || granted == "write")
}

/// Permissions of which one has to be there. A fetch is a `POST` that reads.
fn needed_permissions(rest: &str) -> &'static [&'static str] {
    let first = rest.split('/').next().unwrap_or_default();
    match first {
        "issues" => &["issues", "pull_requests"],
        "pulls" if rest.ends_with("/merge") => &["contents"],
        "pulls" => &["pull_requests"],
        "commits" if rest.ends_with("/check-runs") => &["checks"],
        "commits" if rest.ends_with("/status") => &["statuses"],
        "" | "info" | "git-upload-pack" => &[],
        _ => &["contents"],
    }
}
