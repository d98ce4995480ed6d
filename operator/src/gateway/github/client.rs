//! The transport below GitHub's API: one token, bounded time, errors by status.

use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::Repo;
use codebutler_crds::names::secret_key;
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::ResourceExt as _;
use octocrab::Octocrab;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::GitHubError;
use crate::gateway::context::Context;
use crate::gateway::remote::Remote;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Reads are repeated this often; writes never, for their outcome is unknown.
const READS: u32 = 3;
const MAX_ANSWER: usize = 8 * 1024 * 1024;

/// A repository's API.
pub struct Client {
    octocrab: Octocrab,
    pub remote: Remote,
    secret: String,
}

/// What GitHub said.
pub struct Answer {
    pub status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Client {
    pub async fn of(context: &Context, repo: &Repo) -> Result<Self, GitHubError> {
        let git = &repo.spec.git;
        let remote = Remote::parse(&git.url)?;
        let namespace = repo.namespace().unwrap_or_default();
        // A Secret that may be sent to github.com may be sent to its API.
        let token = context
            .secret(&namespace, &git.credentials, secret_key::GIT_TOKEN, &remote.host)
            .await?;
        let client = |error| GitHubError::Client(Box::new(error));
        let octocrab = Octocrab::builder()
            .base_uri(remote.api.as_str())
            .map_err(client)?
            .set_connect_timeout(Some(Duration::from_secs(10)))
            .personal_token(token)
            .build()
            .map_err(client)?;
        Ok(Self { octocrab, remote, secret: git.credentials.name.clone() })
    }

    /// The path of something in the repository.
    pub fn repo(&self, path: &str) -> String {
        let Remote { owner, name, .. } = &self.remote;
        format!("/repos/{owner}/{name}/{path}").trim_end_matches('/').to_owned()
    }

    pub async fn get(&self, path: &str) -> Result<Answer, GitHubError> {
        let mut attempt = 1;
        loop {
            let outcome = self.send(Method::GET, path, None).await;
            let again = match &outcome {
                Ok(answer) => answer.status.is_server_error(),
                Err(error) => matches!(error, GitHubError::Unavailable { .. }),
            };
            if !again || attempt == READS {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(300) * attempt).await;
            attempt += 1;
        }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, GitHubError> {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Answer, GitHubError> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer, GitHubError> {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer, GitHubError> {
        self.send(Method::DELETE, path, None).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, GitHubError> {
        let unavailable = || GitHubError::Unavailable { host: self.remote.host.clone() };
        let uri = Uri::try_from(path).map_err(|_| GitHubError::Garbled)?;
        let request = http::Request::builder().method(method).uri(uri);
        let request = self
            .octocrab
            .build_request(request, body)
            .map_err(|error| GitHubError::Client(Box::new(error)))?;
        let exchange = async {
            let response = self.octocrab.execute(request).await.map_err(|error| {
                tracing::warn!(host = self.remote.host, %error, "GitHub can't be asked");
                unavailable()
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|_| unavailable())?;
            Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| Err(unavailable()))
    }

    /// The sentence for an answer that is not what was asked for. GitHub's own words stay out.
    pub fn complain(&self, answer: &Answer) -> GitHubError {
        let host = self.remote.host.clone();
        let secret = self.secret.clone();
        let limit_used_up = || {
            answer.headers.contains_key("retry-after")
                || answer.headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0")
        };
        match answer.status.as_u16() {
            401 => GitHubError::Token { host, secret },
            429 => GitHubError::Limited { host },
            403 if limit_used_up() => GitHubError::Limited { host },
            403 => GitHubError::Permission { host, secret },
            404 => {
                let repository = format!("{}/{}", self.remote.owner, self.remote.name);
                GitHubError::NotFound { host, repository, secret }
            }
            500..=599 => GitHubError::Unavailable { host },
            status => GitHubError::Strange { host, status },
        }
    }
}

/// Reads what GitHub described.
pub fn read<T: DeserializeOwned>(answer: &Answer) -> Result<T, GitHubError> {
    serde_json::from_slice(&answer.body).map_err(|_| GitHubError::Garbled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client {
            octocrab: Octocrab::builder().build().unwrap(),
            remote: Remote::parse("https://github.com/acme/shop").unwrap(),
            secret: "git".into(),
        }
    }

    fn answer(status: u16, headers: &[(&'static str, &str)]) -> Answer {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.collect(),
            body: Bytes::new(),
        }
    }

    #[tokio::test]
    async fn every_status_says_who_has_to_correct_what() {
        let client = client();
        let says = |status, headers: &[_]| client.complain(&answer(status, headers)).to_string();
        assert!(says(401, &[]).contains("Secret `git`"), "{}", says(401, &[]));
        assert!(says(404, &[]).contains("spec.git.url"), "{}", says(404, &[]));
        assert!(says(403, &[]).contains("contents and pull requests"));
        assert!(says(403, &[("x-ratelimit-remaining", "0")]).contains("limits"));
        assert!(says(503, &[]).contains("try again"));
        assert!(!client.complain(&answer(503, &[])).is_about_repo());
        assert!(client.complain(&answer(401, &[])).is_about_repo());
        assert_eq!(client.repo(""), "/repos/acme/shop");
        assert_eq!(client.repo("pulls"), "/repos/acme/shop/pulls");
    }
}
