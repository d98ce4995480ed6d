//! Issues of the repository: read, never written.

use codebutler_crds::wire::{RemoteRemark, RepoIssue};
use http::StatusCode;
use serde::Deserialize;

use super::label::IssueLabel;
use super::pull::GitHubAccount;
use super::{GitHub, GitHubError, text};

/// Longest issue, in characters.
const BODY: usize = 16_000;
/// Longest comment, in characters.
const REMARK: usize = 4000;
const COMMENTS: usize = 50;
/// Most issues in a list.
const LIST: usize = 30;
/// Longest text of an issue in a list.
const EXCERPT: usize = 300;

#[derive(Deserialize)]
struct FoundIssues {
    number: u64,
    html_url: String,
    title: String,
    state: String,
    #[serde(default)]
    user: Option<GitHubAccount>,
    #[serde(default)]
    labels: Vec<IssueLabel>,
    #[serde(default)]
    body: Option<String>,
    /// GitHub counts pull requests among the issues.
    #[serde(default)]
    pull_request: Option<serde::de::IgnoredAny>,
}

impl FoundIssues {
    fn into_issue(self, limit: usize, comments: Vec<RemoteRemark>) -> RepoIssue {
        let ghost = || "ghost".to_owned();
        RepoIssue {
            number: self.number,
            url: self.html_url,
            title: text::one_line(&self.title, 300),
            state: text::one_line(&self.state, 20),
            author: self.user.map_or_else(ghost, |user| text::one_line(&user.login, 60)),
            labels: self
                .labels
                .iter()
                .filter_map(IssueLabel::name)
                .take(20)
                .map(|name| text::one_line(name, 60))
                .collect(),
            body: text::incoming_text(&self.body.unwrap_or_default(), limit),
            comments,
        }
    }
}

impl GitHub {
    /// Reads one issue with its comments.
    ///
    /// # Errors
    /// When there is none, or GitHub can't be asked.
    pub async fn issue(&self, number: u64) -> Result<RepoIssue, GitHubError> {
        let answer = self.client.get(&self.client.repo(&format!("issues/{number}"))).await?;
        if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Err(GitHubError::NoIssue);
        }
        let found: FoundIssues = self.client.expect(&answer, StatusCode::OK)?;
        // Other threads' pull requests are not for this one.
        if found.pull_request.is_some() {
            return Err(GitHubError::NoIssue);
        }
        let said = self.said(&format!("issues/{number}/comments")).await?;
        let comments = said.iter().take(COMMENTS).map(|said| RemoteRemark {
            author: said.author(),
            body: said.words(REMARK),
            at: None,
        });
        Ok(found.into_issue(BODY, comments.collect()))
    }

    /// The newest open ones, without their comments and with the beginning of their text.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn issues(&self, label: Option<&str>) -> Result<Vec<RepoIssue>, GitHubError> {
        let path = self.client.repo(&format!("issues?{}", issues_query(label)));
        let answer = self.client.get(&path).await?;
        let found: Vec<FoundIssues> = self.client.expect(&answer, StatusCode::OK)?;
        let issues = found.into_iter().filter(|found| found.pull_request.is_none());
        Ok(issues.take(LIST).map(|found| found.into_issue(EXCERPT, Vec::new())).collect())
    }

    /// Lists all open issues that have a label, the oldest first, with their text up to `limit`
    /// characters.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn labelled(&self, label: &str, limit: usize) -> Result<Vec<RepoIssue>, GitHubError> {
        let label: String = url::form_urlencoded::byte_serialize(label.as_bytes()).collect();
        let query = format!("&state=open&sort=created&direction=asc&labels={label}");
        let found: Vec<FoundIssues> =
            self.client.list_with(&self.client.repo("issues"), &query).await?;
        let issues = found.into_iter().filter(|found| found.pull_request.is_none());
        let mut issues: Vec<_> = issues.map(|i| i.into_issue(limit, Vec::new())).collect();
        issues.sort_by_key(|issue| issue.number);
        Ok(issues)
    }
}

fn issues_query(label: Option<&str>) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("state", "open").append_pair("per_page", "100");
    if let Some(label) = label {
        query.append_pair("labels", label);
    }
    query.finish()
}
