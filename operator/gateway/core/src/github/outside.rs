//! Labels, issues, comments and releases beside a thread's pull request: what is there is found first.

use codebutler_crds::wire::RemoteChange;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::label::IssueLabel;
use super::{GitHub, GitHubError, RemarkKey, text};

/// An issue, a pull request among the issues, a comment or a release.
#[derive(Deserialize)]
struct FoundResource {
    html_url: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    labels: Vec<IssueLabel>,
}

impl FoundResource {
    fn has(&self, label: &str) -> bool {
        self.labels.iter().filter_map(IssueLabel::name).any(|own| own.eq_ignore_ascii_case(label))
    }
}

/// The subject of a change, as people are shown it.
#[derive(Clone, Debug, Default)]
pub struct ChangeTarget {
    /// The commit that is released or reviewed.
    pub commit: Option<String>,
    /// Title of the pull request that is reviewed.
    pub title: Option<String>,
}

impl GitHub {
    /// The subject of a change that has not happened yet. `own_branch` is the branch of the thread that wants it.
    ///
    /// # Errors
    /// When it can't happen: then people need not be asked.
    pub async fn find_target(
        &self,
        change: &RemoteChange,
        base: &str,
        own_branch: &str,
    ) -> Result<ChangeTarget, GitHubError> {
        match change {
            RemoteChange::Release { .. } => {
                let commit = self.tip(base).await?.map(|tip| tip.commit);
                Ok(ChangeTarget { commit, title: None })
            }
            RemoteChange::Review { number, comments, .. } => {
                let pull = self.any_pull(*number).await?;
                if pull.is_of_branch(own_branch, &self.client.remote) {
                    return Err(GitHubError::OwnPull { number: *number });
                }
                if !comments.is_empty() {
                    let places = self.pull_files(*number).await?.misplaced(comments);
                    if !places.is_empty() {
                        return Err(GitHubError::Misplaced { places });
                    }
                }
                let (commit, title) = (Some(pull.head().to_owned()), pull.title.as_str());
                Ok(ChangeTarget { commit, title: Some(text::one_line(title, 120)) })
            }
            _ => Ok(ChangeTarget::default()),
        }
    }

    /// The page of a change that has happened.
    ///
    /// # Errors
    /// When what it is about does not exist, a release of that tag is somebody else's, or GitHub can't be asked.
    pub async fn find_change(
        &self,
        change: &RemoteChange,
        key: &RemarkKey,
    ) -> Result<Option<String>, GitHubError> {
        match change {
            RemoteChange::Labels { number, add, remove } => {
                let issue =
                    self.found(&format!("issues/{number}")).await?.ok_or(GitHubError::NoIssue)?;
                let done = add.iter().all(|label| issue.has(label))
                    && !remove.iter().any(|label| issue.has(label));
                Ok(done.then_some(issue.html_url))
            }
            RemoteChange::Issue { .. } => Ok(self.find_issues(&[key]).await?.pop().flatten()),
            RemoteChange::Review { number, .. } => {
                self.any_pull(*number).await?;
                Ok(self.find_review(*number, key).await?.map(|there| there.url))
            }
            RemoteChange::Close { number, reason } => self.find_closed(*number, *reason).await,
            RemoteChange::Assign { number, add, remove } => {
                self.find_assigned(*number, add, remove).await
            }
            RemoteChange::SubIssue { number, child } => self.find_sub_issue(*number, *child).await,
            RemoteChange::Comment { number, .. } => {
                self.found(&format!("issues/{number}")).await?.ok_or(GitHubError::NoIssue)?;
                let path = self.client.repo(&format!("issues/{number}/comments"));
                let all: Vec<FoundResource> = self.client.list(&path).await?;
                Ok(all.into_iter().find(|one| key.is_in(one.body.as_ref())).map(|one| one.html_url))
            }
            RemoteChange::Release { tag, .. } => {
                match self.found(&format!("releases/tags/{tag}")).await? {
                    Some(release) if key.is_in(release.body.as_ref()) => Ok(Some(release.html_url)),
                    Some(_) => Err(GitHubError::Released { tag: tag.clone() }),
                    None if self.has_tag(tag).await? => {
                        Err(GitHubError::Tagged { tag: tag.clone() })
                    }
                    None => Ok(None),
                }
            }
        }
    }

    /// The pages of issues that were opened under these keys, in their order.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn find_issues(
        &self,
        keys: &[&RemarkKey],
    ) -> Result<Vec<Option<String>>, GitHubError> {
        let path = self.client.repo("issues");
        let all: Vec<FoundResource> = self.client.list_with(&path, "&state=all").await?;
        let find = |key: &&RemarkKey| {
            let found = all.iter().find(|one| key.is_in(one.body.as_ref()));
            found.map(|one| one.html_url.clone())
        };
        Ok(keys.iter().map(find).collect())
    }

    /// Makes it, a release or a review of this commit; answers with its page.
    ///
    /// # Errors
    /// When GitHub refuses.
    pub async fn make_change(
        &self,
        change: &RemoteChange,
        key: &RemarkKey,
        commit: &str,
    ) -> Result<String, GitHubError> {
        let needs = match change {
            RemoteChange::Release { .. } => "contents",
            RemoteChange::Review { .. } => "pull requests",
            _ => "issues",
        };
        self.try_change(change, key, commit).await.map_err(|error| match error {
            GitHubError::Permission { host, secret, said } => {
                GitHubError::ChangeForbidden { host, secret, needs, said }
            }
            other => other,
        })
    }

    async fn try_change(
        &self,
        change: &RemoteChange,
        key: &RemarkKey,
        commit: &str,
    ) -> Result<String, GitHubError> {
        let (path, body) = match change {
            RemoteChange::Labels { number, add, remove } => {
                return self.relabel(*number, add, remove).await;
            }
            RemoteChange::Review { number, body, verdict, comments } => {
                let said = (body.as_str(), comments.as_slice());
                let made = self.post_review(*number, commit, key, *verdict, said).await?;
                return Ok(made.url);
            }
            RemoteChange::Close { number, reason } => {
                return self.close_issue(*number, *reason).await;
            }
            RemoteChange::Assign { number, add, remove } => {
                return self.assign(*number, add, remove).await;
            }
            RemoteChange::SubIssue { number, child } => {
                return self.add_sub_issue(*number, *child).await;
            }
            RemoteChange::Issue { title, body, labels } => (
                "issues".to_owned(),
                json!({"title": title, "body": key.sign(body), "labels": labels}),
            ),
            RemoteChange::Comment { number, body } => {
                (format!("issues/{number}/comments"), json!({"body": key.sign(body)}))
            }
            RemoteChange::Release { tag, title, notes, prerelease } => {
                let body = json!({
                    "tag_name": tag, "target_commitish": commit, "name": title, "body": key.sign(notes),
                    "prerelease": prerelease,
                });
                ("releases".to_owned(), body)
            }
        };
        let answer = self.client.post(&self.client.repo(&path), &body).await?;
        let made: FoundResource = self.client.expect(&answer, StatusCode::CREATED)?;
        Ok(made.html_url)
    }

    async fn relabel(
        &self,
        number: u64,
        add: &[String],
        remove: &[String],
    ) -> Result<String, GitHubError> {
        let path = self.client.repo(&format!("issues/{number}/labels"));
        if !add.is_empty() {
            let answer = self.client.post(&path, &json!({"labels": add})).await?;
            self.client.expect::<Vec<IssueLabel>>(&answer, StatusCode::OK)?;
        }
        for label in remove {
            let name = percent_encoded(label);
            let answer = self.client.delete(&format!("{path}/{name}")).await?;
            // It is not there: that is what is wanted.
            if answer.status != StatusCode::NOT_FOUND {
                self.client.expect::<Vec<IssueLabel>>(&answer, StatusCode::OK)?;
            }
        }
        let issue = self.found(&format!("issues/{number}")).await?.ok_or(GitHubError::NoIssue)?;
        Ok(issue.html_url)
    }

    async fn has_tag(&self, tag: &str) -> Result<bool, GitHubError> {
        let answer = self.client.get(&self.client.repo(&format!("git/ref/tags/{tag}"))).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.client.expect::<serde_json::Value>(&answer, StatusCode::OK).map(|_| true)
    }

    async fn found(&self, path: &str) -> Result<Option<FoundResource>, GitHubError> {
        let answer = self.client.get(&self.client.repo(path)).await?;
        if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Ok(None);
        }
        self.client.expect(&answer, StatusCode::OK).map(Some)
    }
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_part_of_a_path() {
        assert_eq!(percent_encoded("good first issue?"), "good%20first%20issue%3F");
    }
}
