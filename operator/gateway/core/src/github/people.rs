//! Issues as people organise them: closed with a reason, given to somebody, put below another one.

use codebutler_crds::wire::CloseReason;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::pull::GitHubAccount;
use super::{GitHub, GitHubError, text};
use crate::github_access::exchange::GitHubAnswer;

/// An issue, or a pull request among the issues, as far as it is changed here.
#[derive(Debug, Deserialize)]
pub(super) struct OrganisedIssue {
    /// Id of the issue, by which another issue refers to it; not its number.
    id: u64,
    number: u64,
    html_url: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    state_reason: Option<String>,
    #[serde(default)]
    assignees: Vec<GitHubAccount>,
    #[serde(default)]
    pull_request: Option<serde::de::IgnoredAny>,
}

impl OrganisedIssue {
    fn has(&self, login: &str) -> bool {
        self.assignees.iter().any(|one| one.login.eq_ignore_ascii_case(login))
    }
}

impl GitHub {
    async fn organised(&self, number: u64) -> Result<OrganisedIssue, GitHubError> {
        let answer = self.client.get(&self.client.repo(&format!("issues/{number}"))).await?;
        if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Err(GitHubError::NoIssue);
        }
        self.client.expect(&answer, StatusCode::OK)
    }

    async fn plain_issue(&self, number: u64) -> Result<OrganisedIssue, GitHubError> {
        let issue = self.organised(number).await?;
        match issue.pull_request {
            Some(_) => Err(GitHubError::IsPull { number }),
            None => Ok(issue),
        }
    }

    /// The page of an issue that is closed for this reason.
    pub(super) async fn find_closed(
        &self,
        number: u64,
        reason: CloseReason,
    ) -> Result<Option<String>, GitHubError> {
        let issue = self.plain_issue(number).await?;
        let same = issue.state_reason.as_deref().is_none_or(|known| known == reason.name());
        Ok((issue.state == "closed" && same).then_some(issue.html_url))
    }

    pub(super) async fn close_issue(
        &self,
        number: u64,
        reason: CloseReason,
    ) -> Result<String, GitHubError> {
        let path = self.client.repo(&format!("issues/{number}"));
        let body = json!({"state": "closed", "state_reason": reason.name()});
        let answer = self.client.patch(&path, &body).await?;
        Ok(self.updated_issue(&answer, StatusCode::OK)?.html_url)
    }

    /// The page of what is assigned like this already. Accounts that GitHub would pass over are refused.
    pub(super) async fn find_assigned(
        &self,
        number: u64,
        add: &[String],
        remove: &[String],
    ) -> Result<Option<String>, GitHubError> {
        let issue = self.organised(number).await?;
        if add.iter().all(|login| issue.has(login)) && !remove.iter().any(|login| issue.has(login))
        {
            return Ok(Some(issue.html_url));
        }
        let mut unknown = Vec::new();
        for login in add.iter().filter(|login| !issue.has(login)) {
            let answer = self.client.get(&self.client.repo(&format!("assignees/{login}"))).await?;
            match answer.status {
                StatusCode::NO_CONTENT => {}
                StatusCode::NOT_FOUND => unknown.push(text::one_line(login, 60)),
                _ => return Err(self.client.complain(&answer)),
            }
        }
        if unknown.is_empty() {
            Ok(None)
        } else {
            Err(GitHubError::Unassignable { logins: unknown })
        }
    }

    pub(super) async fn assign(
        &self,
        number: u64,
        add: &[String],
        remove: &[String],
    ) -> Result<String, GitHubError> {
        let path = self.client.repo(&format!("issues/{number}/assignees"));
        let mut issue = None;
        if !add.is_empty() {
            let answer = self.client.post(&path, &json!({"assignees": add})).await?;
            let made = self.updated_issue(&answer, StatusCode::CREATED)?;
            // GitHub says nothing where it has not done it.
            let missing = add.iter().filter(|login| !made.has(login));
            let logins: Vec<_> = missing.map(|login| text::one_line(login, 60)).collect();
            if !logins.is_empty() {
                return Err(GitHubError::Unassignable { logins });
            }
            issue = Some(made);
        }
        if !remove.is_empty() {
            let answer = self.client.delete_part(&path, &json!({"assignees": remove})).await?;
            issue = Some(self.updated_issue(&answer, StatusCode::OK)?);
        }
        issue.map(|issue| issue.html_url).ok_or(GitHubError::NoIssue)
    }

    /// The page of the upper issue if the lower one is below it already.
    pub(super) async fn find_sub_issue(
        &self,
        number: u64,
        child: u64,
    ) -> Result<Option<String>, GitHubError> {
        let upper = self.plain_issue(number).await?;
        self.plain_issue(child).await?;
        let path = self.client.repo(&format!("issues/{child}/parent"));
        let answer = self.client.get(&path).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let parent: OrganisedIssue = self.client.expect(&answer, StatusCode::OK)?;
        // An upper issue may be in another repository, with the same number.
        if parent.id == upper.id {
            return Ok(Some(upper.html_url));
        }
        Err(GitHubError::OtherParent { child, parent: parent.number })
    }

    pub(super) async fn add_sub_issue(
        &self,
        number: u64,
        child: u64,
    ) -> Result<String, GitHubError> {
        let lower = self.plain_issue(child).await?;
        let path = self.client.repo(&format!("issues/{number}/sub_issues"));
        let answer = self.client.post(&path, &json!({"sub_issue_id": lower.id})).await?;
        self.updated_issue(&answer, StatusCode::CREATED)?;
        Ok(self.organised(number).await?.html_url)
    }

    fn updated_issue(
        &self,
        answer: &GitHubAnswer,
        status: StatusCode,
    ) -> Result<OrganisedIssue, GitHubError> {
        match answer.status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Err(GitHubError::NoIssue),
            StatusCode::UNPROCESSABLE_ENTITY => {
                Err(GitHubError::Refused { said: self.client.remark(answer) })
            }
            _ => self.client.expect(answer, status),
        }
    }
}
