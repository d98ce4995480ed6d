//! A GitHub App's credentials: its key signs who it is, and GitHub gives a token for one repository
//! and one hour. The key itself is sent nowhere.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codebutler_crds::names::secret_key;
use http::StatusCode;
use http::header::LOCATION;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::GitHubError;
use super::exchange::{GitHubAnswer, exchange_request, read_answer};
use crate::dial::DialTrouble;
use crate::remote::Remote;
use crate::secrets::OpenedSecret;
use crate::threads::keyed::KeyedLocks;

/// A token is used until this long before its end.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// A signature's validity; GitHub takes ten minutes at most, from a clock that may differ.
const SIGNED: Duration = Duration::from_mins(8);
/// Permissions that CodeButler needs, and those that it uses where they are granted.
const NEEDED: [(&str, &str); 2] = [("contents", "write"), ("pull_requests", "write")];
const USED: [(&str, &str); 5] = [
    ("checks", "read"),
    ("issues", "read"),
    ("metadata", "read"),
    ("statuses", "read"),
    // Without it, GitHub takes no new content of a workflow, neither pushed nor merged.
    ("workflows", "write"),
];

/// Tokens in use. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct AppTokens {
    known: Arc<Mutex<HashMap<TokenKey, AppToken>>>,
    /// Lock for one request for a token at a time: callers that wait for it use its token.
    asking: KeyedLocks<TokenKey>,
}

/// A Secret's revision and the repository that its tokens are for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TokenKey {
    secret: String,
    repository: String,
}

#[derive(Clone)]
struct AppToken {
    value: String,
    ends: Timestamp,
}

impl AppTokens {
    /// A token for the repository: the one in use, or a new one.
    pub async fn of(
        &self,
        http: &reqwest::Client,
        secret: &OpenedSecret,
        remote: &Remote,
    ) -> Result<String, GitHubError> {
        let key = TokenKey { secret: secret.revision(), repository: remote.git.clone() };
        let _turn = self.asking.lock(&key).await;
        if let Some(token) = self.fresh(&key) {
            return Ok(token);
        }
        let app = App { http, secret, remote, signed: sign_token(secret, Timestamp::now())? };
        let token = app.token().await?;
        let value = token.value.clone();
        let mut known = self.known.lock();
        known.retain(|_, token| token.ends > Timestamp::now());
        known.insert(key, token);
        Ok(value)
    }

    /// GitHub does not take it any more.
    pub fn forget(&self, value: &str) {
        let mut known = self.known.lock();
        known.retain(|_, token| token.value != value);
    }

    fn fresh(&self, key: &TokenKey) -> Option<String> {
        let known = self.known.lock();
        let token = known.get(key)?;
        (token.ends > Timestamp::now() + MARGIN).then(|| token.value.clone())
    }
}

/// Returns true if a Secret holds an App's credentials instead of a token.
pub fn is_app(secret: &OpenedSecret) -> bool {
    !secret.has(secret_key::GIT_TOKEN)
        && (secret.has(secret_key::GIT_APP_ID) || secret.has(secret_key::GIT_PRIVATE_KEY))
}

/// The App's own word that it asks: a JSON Web Token by RS256.
fn sign_token(secret: &OpenedSecret, now: Timestamp) -> Result<String, GitHubError> {
    let id = secret.value(secret_key::GIT_APP_ID)?;
    let pem = secret.value(secret_key::GIT_PRIVATE_KEY)?;
    let malformed = || GitHubError::AppKey { secret: secret.name.clone() };
    let key = match PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| malformed())? {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err(malformed()),
    };
    let key = key.map_err(|_| malformed())?;
    // A clock ahead of GitHub's would sign for the future.
    let since = now.as_second() - 60;
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims =
        json!({"iat": since, "exp": now.as_second() + SIGNED.as_secs().cast_signed(), "iss": id});
    let text = format!("{}.{}", part(json!({"alg": "RS256", "typ": "JWT"})), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| malformed())?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

struct App<'a> {
    http: &'a reqwest::Client,
    secret: &'a OpenedSecret,
    remote: &'a Remote,
    signed: String,
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
    #[serde(default)]
    suspended_at: Option<String>,
}

#[derive(Deserialize)]
struct Granted {
    token: String,
    expires_at: Timestamp,
}

impl App<'_> {
    async fn token(&self) -> Result<AppToken, GitHubError> {
        let (installation, moved) = self.installation().await?;
        let missing = missing_permissions(&installation.permissions);
        if !missing.is_empty() {
            return Err(GitHubError::AppPermissions { missing, secret: self.secret.name.clone() });
        }
        let mut answer = self.ask_for_token(&installation, moved).await?;
        // Here GitHub does not lead on from an old name.
        if is_unknown(answer.status)
            && moved.is_none()
            && let Some(id) = moved_to(&self.ask_by_name().await?, &self.remote.api)
        {
            answer = self.ask_for_token(&installation, Some(id)).await?;
        }
        match answer.status {
            StatusCode::CREATED => {
                let Granted { token, expires_at } = read_answer(&answer)?;
                Ok(AppToken { value: token, ends: expires_at })
            }
            // It has no access to this repository.
            status if is_unknown(status) => Err(self.not_installed()),
            _ => Err(self.complain(&answer)),
        }
    }

    /// Asks for a token for the repository: by its id where its name is an old one.
    async fn ask_for_token(
        &self,
        installation: &Installation,
        moved: Option<u64>,
    ) -> Result<GitHubAnswer, GitHubError> {
        let mut body = json!({"permissions": wanted_permissions(&installation.permissions)});
        match moved {
            Some(id) => body["repository_ids"] = json!([id]),
            None => body["repositories"] = json!([self.remote.name]),
        }
        let path = format!("app/installations/{}/access_tokens", installation.id);
        self.send(self.http.post(format!("{}/{path}", self.remote.api)).json(&body)).await
    }

    async fn ask_by_name(&self) -> Result<GitHubAnswer, GitHubError> {
        let Remote { api, owner, name, .. } = self.remote;
        self.send(self.http.get(format!("{api}/repos/{owner}/{name}/installation"))).await
    }

    /// The installation, and the repository's id if GitHub has led on from an old name.
    async fn installation(&self) -> Result<(Installation, Option<u64>), GitHubError> {
        let api = &self.remote.api;
        let mut moved = None;
        let answer = if self.secret.has(secret_key::GIT_INSTALLATION_ID) {
            let id = self.secret.value(secret_key::GIT_INSTALLATION_ID)?;
            let id: u64 = id
                .parse()
                .map_err(|_| GitHubError::InstallationId { secret: self.secret.name.clone() })?;
            self.send(self.http.get(format!("{api}/app/installations/{id}"))).await?
        } else {
            let answer = self.ask_by_name().await?;
            moved = moved_to(&answer, api);
            match moved {
                Some(id) => {
                    let url = format!("{api}/repositories/{id}/installation");
                    self.send(self.http.get(url)).await?
                }
                None => answer,
            }
        };
        match answer.status {
            StatusCode::OK => {
                let found: Installation = read_answer(&answer)?;
                let active = found.suspended_at.is_none();
                active.then_some((found, moved)).ok_or_else(|| self.not_installed())
            }
            StatusCode::NOT_FOUND => Err(self.not_installed()),
            _ => Err(self.complain(&answer)),
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<GitHubAnswer, GitHubError> {
        let request = request
            .bearer_auth(&self.signed)
            .header(http::header::ACCEPT, "application/vnd.github+json");
        let sent = exchange_request(request).await;
        let answer = sent.map_err(|error| GitHubError::unsent(&self.remote.host, error))??;
        match DialTrouble::by_status(answer.status.as_u16()) {
            Some(trouble) => Err(GitHubError::Barred { host: self.remote.host.clone(), trouble }),
            None => Ok(answer),
        }
    }

    fn not_installed(&self) -> GitHubError {
        let Remote { host, owner, name, .. } = self.remote;
        GitHubError::NotInstalled {
            host: host.clone(),
            repository: format!("{owner}/{name}"),
            secret: self.secret.name.clone(),
        }
    }

    fn complain(&self, answer: &GitHubAnswer) -> GitHubError {
        let (host, secret) = (self.remote.host.clone(), self.secret.name.clone());
        match answer.status.as_u16() {
            300..=399 => GitHubError::Moved { host },
            401 => GitHubError::App { host, secret },
            403 | 429 if answer.is_limited() => {
                GitHubError::Limited { host, wait: Duration::from_mins(1) }
            }
            403 => self.not_installed(),
            500..=599 => GitHubError::Unavailable { host },
            status => GitHubError::Strange { host, status, said: String::new() },
        }
    }
}

/// True if GitHub knows no such repository of the installation.
fn is_unknown(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNPROCESSABLE_ENTITY | StatusCode::NOT_FOUND)
}

/// The repository's id in a redirect from its old name. Nothing else of it counts: it could lead to another host.
fn moved_to(answer: &GitHubAnswer, api: &str) -> Option<u64> {
    let place = answer.header(LOCATION.as_str()).filter(|_| answer.status.is_redirection())?;
    let inside = place.strip_prefix(api)?.strip_prefix("/repositories/")?;
    inside.split('/').next()?.parse().ok()
}

/// Lists the permissions that CodeButler needs and the App was not granted, in words.
fn missing_permissions(granted: &BTreeMap<String, String>) -> String {
    let lacks = |(name, level): &&(&str, &str)| granted.get(*name).is_none_or(|has| has != level);
    let missing = NEEDED.iter().filter(lacks).map(|(name, level)| format!("{name}: {level}"));
    missing.collect::<Vec<_>>().join(", ")
}

/// Returns the permissions to request for a token: no more than CodeButler uses.
fn wanted_permissions(granted: &BTreeMap<String, String>) -> BTreeMap<&'static str, &'static str> {
    let writes = |name: &str| granted.get(name).is_some_and(|level| level == "write");
    let has = |used: &(&'static str, &'static str)| {
        let (name, level) = *used;
        if level == "write" { writes(name) } else { granted.contains_key(name) }
    };
    let all: BTreeMap<_, _> = NEEDED.into_iter().chain(USED.into_iter().filter(has)).collect();
    // Labels, issues and answers to them, where the installation lets it.
    let level =
        |(name, level)| (name, if name == "issues" && writes(name) { "write" } else { level });
    all.into_iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(permissions: &[(&str, &str)]) -> BTreeMap<String, String> {
        permissions.iter().map(|(n, l)| ((*n).to_owned(), (*l).to_owned())).collect()
    }

    #[test]
    fn the_missing_permission_is_named() {
        let all = granted(&[("contents", "write"), ("pull_requests", "write"), ("admin", "write")]);
        assert_eq!(missing_permissions(&all), "");
        let some = granted(&[("contents", "read"), ("pull_requests", "write")]);
        assert_eq!(missing_permissions(&some), "contents: write");
        assert_eq!(missing_permissions(&granted(&[])), "contents: write, pull_requests: write");
    }

    #[test]
    fn a_token_asks_for_no_more_than_is_used() {
        let all = granted(&[
            ("administration", "write"),
            ("checks", "write"),
            ("contents", "write"),
            ("pull_requests", "write"),
        ]);
        let expected =
            [("checks", "read"), ("contents", "write"), ("pull_requests", "write")].into();
        assert_eq!(wanted_permissions(&all), expected);
        for level in ["read", "write"] {
            assert_eq!(
                wanted_permissions(&granted(&[("issues", level)])).get("issues"),
                Some(&level)
            );
        }
        let workflows = |level| wanted_permissions(&granted(&[("workflows", level)]));
        assert_eq!(workflows("write").get("workflows"), Some(&"write"));
        assert_eq!(workflows("read").get("workflows"), None);
    }
}
