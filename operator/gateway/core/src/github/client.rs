//! The transport below GitHub's API: one credential, bounded time and size, errors by status. A redirect
//! is followed within the API alone: elsewhere could be a host that the Secret does not name.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use http::header::{ACCEPT, AUTHORIZATION, LOCATION};
use http::{Method, StatusCode};
use kube::ResourceExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{GitHubError, text};
use crate::context::GatewayContext;
use crate::credential::RemoteCredential;
use crate::dial::DialTrouble;
use crate::github_access::GitHubAccess;
use crate::github_access::exchange::{
    GitHubAnswer, exchange_request, names_limit, read_answer, read_value, refusal_words,
};
use crate::github_access::rate::{RateQuota, told_wait};
use crate::redact::SecretRedactor;
use crate::remote::Remote;

/// Reads are repeated this often; writes never, for their outcome is unknown.
const READS: u32 = 3;
/// Redirects that are followed in a row.
const REDIRECTS: u32 = 3;
/// Characters of GitHub's own words that are shown.
const SAID: usize = 290;
/// Items of a page; the most that GitHub gives.
const PAGE: usize = 100;
/// Pages of a list that are read.
const PAGES: usize = 10;
pub(super) const MOST_LISTED: usize = PAGE * PAGES;
/// Pages of a list in an object that are read: a matrix of builds has more checks than anything
/// else has items.
const OBJECT_PAGES: usize = 30;

/// Items of a list, and how many more there are.
#[derive(Clone, Debug)]
pub(super) struct ListedItems<T> {
    pub items: Vec<T>,
    pub missing: usize,
}

/// GitHub's answer to a GraphQL request.
pub(super) enum GraphqlAnswer {
    Data(Value),
    /// GitHub's words on why there are no data.
    Refused(String),
}

pub(super) struct GitHubClient {
    http: reqwest::Client,
    credential: RemoteCredential,
    pub remote: Remote,
    redactor: Arc<SecretRedactor>,
    pub access: GitHubAccess,
    /// Key by which the credential is known to all that use it.
    shared: String,
}

impl GitHubClient {
    pub(super) async fn of(context: &GatewayContext, repo: &Repo) -> Result<Self, GitHubError> {
        let remote = Remote::parse(&repo.spec.git.url)?;
        let remote = context.github.moved.of(&remote).unwrap_or(remote);
        let credential = RemoteCredential::of(context, repo, &remote).await?;
        let (http, redactor) = (context.http().clone(), context.redactors.of(repo));
        let namespace = repo.namespace().unwrap_or_default();
        let shared = format!("{} {namespace}/{}", remote.host, credential.secret());
        let access = context.github.clone();
        Ok(Self { http, credential, remote, redactor, access, shared })
    }

    /// Returns the rest of the credential's request quota.
    pub(super) fn quota(&self) -> Option<RateQuota> {
        self.access.rates.quota(&self.shared)
    }

    /// Returns the key by which something of the repository is known to all that use the same
    /// credential.
    pub(super) fn shared_key(&self, name: &str) -> String {
        format!("{} {}/{} {name}", self.shared, self.remote.owner, self.remote.name)
    }

    /// The path of something in the repository.
    pub(super) fn repo(&self, path: &str) -> String {
        let Remote { owner, name, .. } = &self.remote;
        format!("/repos/{owner}/{name}/{path}").trim_end_matches('/').to_owned()
    }

    pub(super) async fn get(&self, path: &str) -> Result<GitHubAnswer, GitHubError> {
        let mut attempt = 1;
        loop {
            let outcome = self.send(Method::GET, &self.url(path), None).await;
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

    /// Lists all items, up to a thousand. `path` has no query of its own.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Vec<T>, GitHubError> {
        self.list_with(path, "").await
    }

    /// Lists all items, with more of a query, each part with its `&`; also what a caller that went away has made there.
    pub(super) async fn list_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
    ) -> Result<Vec<T>, GitHubError> {
        self.access.unsettled.settle(&self.url(path)).await;
        let mut all = Vec::new();
        for page in 1..=PAGES {
            let answer = self.get(&format!("{path}?per_page={PAGE}&page={page}{query}")).await?;
            let items: Vec<T> = self.expect(&answer, StatusCode::OK)?;
            let last = items.len() < PAGE;
            all.extend(items);
            if last {
                break;
            }
        }
        Ok(all)
    }

    /// Lists all items that an object holds under `field`, as checks, statuses and workflow runs
    /// are listed. None where the credential may not read them.
    pub(super) async fn list_in<T: DeserializeOwned>(
        &self,
        path: &str,
        field: &str,
        query: &str,
    ) -> Result<Option<ListedItems<T>>, GitHubError> {
        let (mut items, mut missing) = (Vec::new(), 0);
        for page in 1..=OBJECT_PAGES {
            let answer = self.get(&format!("{path}?per_page={PAGE}&page={page}{query}")).await?;
            if matches!(answer.status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND) {
                return Ok(None);
            }
            let mut object: Value = self.expect(&answer, StatusCode::OK)?;
            let more: Vec<T> = read_value(object[field].take())?;
            let count = more.len();
            items.extend(more);
            let total =
                object["total_count"].as_u64().and_then(|total| usize::try_from(total).ok());
            let left = total.map(|total| total.saturating_sub(items.len()));
            // Pages can be short before the last one; where nothing says how many there are, a short one is it.
            if count == 0 || left.map_or(count < PAGE, |left| left == 0) {
                missing = 0;
                break;
            }
            missing = left.unwrap_or(1);
        }
        Ok(Some(ListedItems { items, missing }))
    }

    /// Asks GraphQL.
    pub(super) async fn graphql(
        &self,
        query: &str,
        variables: &Value,
    ) -> Result<GraphqlAnswer, GitHubError> {
        let body = json!({"query": query, "variables": variables});
        let answer = self.send(Method::POST, &self.remote.graphql, Some(&body)).await?;
        self.read_graphql(&answer)
    }

    /// Reads an answer of GraphQL, which reports its limits with status 200 like any other error.
    fn read_graphql(&self, answer: &GitHubAnswer) -> Result<GraphqlAnswer, GitHubError> {
        let mut all: Value = self.expect(answer, StatusCode::OK)?;
        if all["errors"].as_array().is_none_or(Vec::is_empty) {
            return Ok(GraphqlAnswer::Data(all["data"].take()));
        }
        let said = refusal_words(&all);
        if names_limit(&said) {
            // GraphQL has a limit of its own: REST may be asked all the same.
            let (host, wait) = (self.remote.host.clone(), told_wait(&answer.headers));
            return Err(GitHubError::Limited { host, wait });
        }
        Ok(GraphqlAnswer::Refused(self.shown(&said)))
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<GitHubAnswer, GitHubError> {
        let url = self.url(path);
        let under_way = self.access.unsettled.begin(&url);
        let answer = self.send(Method::POST, &url, Some(body)).await;
        // A lost answer says nothing either.
        if answer.is_ok() {
            under_way.end();
        }
        answer
    }

    pub(super) async fn patch(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<GitHubAnswer, GitHubError> {
        self.send(Method::PATCH, &self.url(path), Some(body)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<GitHubAnswer, GitHubError> {
        self.send(Method::PUT, &self.url(path), Some(body)).await
    }

    /// Deletes with a body, as GitHub wants it for a part of a list.
    pub(super) async fn delete_part(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<GitHubAnswer, GitHubError> {
        self.send(Method::DELETE, &self.url(path), Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<GitHubAnswer, GitHubError> {
        self.send(Method::DELETE, &self.url(path), None).await
    }

    /// Reads an answer that has to have this status.
    pub(super) fn expect<T: DeserializeOwned>(
        &self,
        answer: &GitHubAnswer,
        status: StatusCode,
    ) -> Result<T, GitHubError> {
        if answer.status == status { read_answer(answer) } else { Err(self.complain(answer)) }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.remote.api)
    }

    /// Goes after a repository that has another name by now.
    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<GitHubAnswer, GitHubError> {
        let mut answer = self.send_here(method.clone(), url, body).await?;
        for _ in 0..REDIRECTS {
            let Some(next) = self.leads_to(&answer, &method) else { break };
            if !self.stays_with_owner(&next).await? {
                return Err(GitHubError::Moved { host: self.remote.host.clone() });
            }
            answer = self.send_here(method.clone(), &next, body).await?;
        }
        Ok(answer)
    }

    /// Returns the redirect target of an answer, if the same request may be made there.
    fn leads_to(&self, answer: &GitHubAnswer, method: &Method) -> Option<String> {
        let same = match answer.status.as_u16() {
            301 | 302 => *method == Method::GET,
            307 | 308 => true,
            _ => false,
        };
        let next = answer.header(LOCATION.as_str()).filter(|_| same)?;
        let inside = next.strip_prefix(&*self.remote.api)?;
        (inside.starts_with('/') && !inside.contains("..")).then(|| next.to_owned())
    }

    /// False where a redirect leads to somebody else's repository: it was given away, and only a person can say that work
    /// goes on there. An owner that is no more has another name by now.
    async fn stays_with_owner(&self, next: &str) -> Result<bool, GitHubError> {
        let Remote { api, owner, git, .. } = &self.remote;
        let place = next.strip_prefix(&**api).and_then(|path| path.strip_prefix("/repositories/"));
        let Some(id) = place.and_then(|place| place.split(['/', '?']).next()) else {
            return Ok(true);
        };
        let key = format!("{git} is {id}");
        if let Some(stays) = self.access.members.get(&key) {
            return Ok(stays);
        }
        let found = self.send_here(Method::GET, &format!("{api}/repositories/{id}"), None).await?;
        let found: Value = self.expect(&found, StatusCode::OK)?;
        let name = found["full_name"].as_str().unwrap_or_default();
        let is_same = name.split('/').next().is_some_and(|now| now.eq_ignore_ascii_case(owner));
        let stays = is_same || {
            let user = self.send_here(Method::GET, &format!("{api}/users/{owner}"), None).await?;
            match user.status {
                StatusCode::NOT_FOUND => true,
                StatusCode::OK => false,
                _ => return Err(self.complain(&user)),
            }
        };
        self.access.members.put(key, stays);
        Ok(stays)
    }

    /// An App's token that was taken back is refused before anything is done: any request may be
    /// sent again with the next one.
    async fn send_here(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<GitHubAnswer, GitHubError> {
        // Asking on is what gets an account blocked.
        if let Some(wait) = self.access.rates.pause(&self.shared) {
            return Err(GitHubError::Limited { host: self.remote.host.clone(), wait });
        }
        let token = self.credential.token();
        let answer = self.send_once(method.clone(), url, body).await?;
        if answer.status == StatusCode::UNAUTHORIZED && self.credential.renew(&token).await? {
            return self.send_once(method, url, body).await;
        }
        Ok(answer)
    }

    async fn send_once(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<GitHubAnswer, GitHubError> {
        let mut request = self
            .http
            .request(method, url)
            .header(AUTHORIZATION, self.credential.header(|token| format!("Bearer {token}"))?)
            .header(ACCEPT, "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        if let Some(body) = body {
            request = request.json(body);
        }
        let sent = exchange_request(request).await;
        let answer = sent.map_err(|error| GitHubError::unsent(&self.remote.host, error))??;
        if let Some(trouble) = DialTrouble::by_status(answer.status.as_u16()) {
            return Err(GitHubError::Barred { host: self.remote.host.clone(), trouble });
        }
        let wait = self.access.rates.note(&self.shared, &answer.headers, answer.is_limited());
        match wait {
            Some(wait) => Err(GitHubError::Limited { host: self.remote.host.clone(), wait }),
            None => Ok(answer),
        }
    }

    /// GitHub's own words about a refusal, for people: others may have had a say in them.
    pub(super) fn said(&self, answer: &GitHubAnswer) -> String {
        self.shown(&answer.words())
    }

    fn shown(&self, words: &str) -> String {
        text::one_line(&self.redactor.mask(words), SAID)
    }

    /// Returns GitHub's words as a sentence behind another one; empty where GitHub said nothing.
    pub(super) fn remark(&self, answer: &GitHubAnswer) -> String {
        let said = self.said(answer);
        if said.is_empty() { said } else { format!(". It says: “{said}”") }
    }

    /// The error for a change of a workflow that the credential may not make.
    pub(super) fn bar_workflows(&self, answer: &GitHubAnswer) -> GitHubError {
        self.credential.forget();
        let (host, secret) = (self.remote.host.clone(), self.credential.secret().to_owned());
        GitHubError::Workflows { host, secret, said: self.remark(answer) }
    }

    /// The sentence for an answer that is not what was asked for.
    pub(super) fn complain(&self, answer: &GitHubAnswer) -> GitHubError {
        let host = self.remote.host.clone();
        let secret = self.credential.secret().to_owned();
        match answer.status.as_u16() {
            300..=399 => GitHubError::Moved { host },
            401 => GitHubError::Token { host, secret },
            403 if answer.mentions("archived") => GitHubError::Archived {
                repository: format!("{}/{}", self.remote.owner, self.remote.name),
            },
            403 if answer.mentions("is locked") => GitHubError::Locked,
            403 if GitHubError::refuses_workflows(&answer.words()) => self.bar_workflows(answer),
            403 => GitHubError::Permission { host, secret, said: self.remark(answer) },
            404 | 405 | 410 if !self.remote.is_cloud() && !answer.is_from_github() => {
                GitHubError::OtherService { host }
            }
            404 => {
                let repository = format!("{}/{}", self.remote.owner, self.remote.name);
                GitHubError::NotFound { host, repository, secret }
            }
            500..=599 => GitHubError::Unavailable { host },
            status => GitHubError::Strange { host, status, said: self.remark(answer) },
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn client() -> GitHubClient {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let remote = Remote::parse("https://github.com/acme/shop").unwrap();
        let credential = RemoteCredential::fixed(&remote, "git", "t");
        let redactor = Arc::new(SecretRedactor::default());
        let (access, shared) = (GitHubAccess::default(), String::new());
        GitHubClient { http: reqwest::Client::new(), credential, remote, redactor, access, shared }
    }

    fn answer(status: u16, headers: &[(&'static str, &str)]) -> GitHubAnswer {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        GitHubAnswer {
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
        assert!(says(301, &[]).contains("spec.git.url"), "{}", says(301, &[]));
        assert!(says(403, &[]).contains("contents and pull requests"));
        assert!(answer(403, &[("x-ratelimit-remaining", "0")]).is_limited());
        assert!(!answer(403, &[("x-ratelimit-remaining", "9")]).is_limited());
        assert!(says(503, &[]).contains("try again"));
        assert!(!client.complain(&answer(503, &[])).is_about_repo());
        assert!(client.complain(&answer(401, &[])).is_about_repo());
        let locked =
            Bytes::from(r#"{"message": "Unable to create comment because issue is locked."}"#);
        let locked = client.complain(&GitHubAnswer { body: locked, ..answer(403, &[]) });
        assert!(locked.to_string().contains("unlock it") && !locked.is_about_repo(), "{locked}");
        let workflow = Bytes::from(
            r#"{"message": "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` without `workflows` permission"}"#,
        );
        let workflow = client.complain(&GitHubAnswer { body: workflow, ..answer(403, &[]) });
        assert!(workflow.to_string().contains("`workflows` (write)"), "{workflow}");
        assert!(workflow.is_about_rules() && !workflow.is_about_repo(), "the rest works");
        assert_eq!(client.repo(""), "/repos/acme/shop");
        assert_eq!(client.repo("pulls"), "/repos/acme/shop/pulls");
    }

    #[tokio::test]
    async fn a_host_that_is_no_github_is_said_to_be_none() {
        let mut client = client();
        client.remote = Remote::parse("https://git.acme.dev/acme/shop").unwrap();
        // As Gitea and GitLab answer.
        for status in [404, 410] {
            let error = client.complain(&answer(status, &[]));
            let said = error.to_string();
            assert!(said.starts_with("git.acme.dev does not answer as GitHub does"), "{said}");
            assert!(said.contains("spec.git.url") && error.is_about_repo(), "{said}");
        }
        let enterprise = answer(404, &[("x-github-request-id", "1")]);
        let error = client.complain(&enterprise);
        assert!(matches!(error, GitHubError::NotFound { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_limit_of_graphql_is_no_refusal_although_its_status_is_200() {
        let client = client();
        let body = r#"{"data": null, "errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}]}"#;
        let headers = [("x-ratelimit-remaining", "0"), ("retry-after", "7")];
        let limited = GitHubAnswer { body: Bytes::from(body), ..answer(200, &headers) };
        let Err(error) = client.read_graphql(&limited) else { panic!("taken for a refusal") };
        assert_eq!(error.wait(), Some(Duration::from_secs(7)), "{error}");
        let other = Bytes::from(body.replace("API rate limit exceeded", "No such node"));
        let other = client.read_graphql(&GitHubAnswer { body: other, ..answer(200, &[]) });
        assert!(
            matches!(other, Ok(GraphqlAnswer::Refused(said)) if said.starts_with("No such node"))
        );
    }
}
