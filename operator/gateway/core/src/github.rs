//! GitHub's REST API, as far as a thread needs it: its branch and its pull request. What exists is
//! looked for before it is made, so that a repeated call changes nothing.

mod actions;
mod activity;
mod changed;
mod checks;
mod client;
mod commands;
mod file;
mod files;
mod issues;
mod label;
mod members;
mod merge;
pub mod moved;
mod outside;
mod people;
mod pull;
mod pulls;
mod rules;
mod talk;
pub mod text;
mod tip;

use codebutler_crds::Repo;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

pub use self::changed::ChangedPulls;
use self::client::{GitHubClient, MOST_LISTED};
pub use self::commands::{ChangedFile, CommandPlace, HeardCommand, HeardComments};
pub use self::merge::{MergeMessage, MergeProgress};
pub use self::outside::ChangeTarget;
pub use self::pull::GitHubPull;
pub use self::rules::BranchRules;
pub use self::talk::{PullComment, PullTalk, RemarkKey};
pub use self::tip::BranchTip;
use crate::context::GatewayContext;
use crate::github_access::exchange::read_answer;
pub use crate::github_access::{GitHubAccess, GitHubError, RateQuota};
use crate::remote::Remote;

/// Digits of a SHA-1 object name.
const SHA1_DIGITS: usize = 40;

pub struct GitHub {
    client: GitHubClient,
}

/// Paths that a pull request changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullFiles {
    pub paths: Vec<String>,
    /// True if there may be more than GitHub was asked for.
    pub is_cut: bool,
}

/// Text to write to a pull request; absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullText {
    pub title: Option<String>,
    pub body: Option<String>,
}

#[derive(Deserialize)]
struct DefaultBranch {
    default_branch: String,
}

#[derive(Deserialize)]
struct Ref {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    sha: String,
}

impl GitHub {
    /// The repository of a Repo, with its token.
    ///
    /// # Errors
    /// A sentence that names the field or Secret to correct.
    pub async fn of(context: &GatewayContext, repo: &Repo) -> Result<Self, GitHubError> {
        Ok(Self { client: GitHubClient::of(context, repo).await? })
    }

    /// Returns the remote that the client talks to.
    pub const fn remote(&self) -> &Remote {
        &self.client.remote
    }

    /// Makes sure that `branch` exists. Answers with the commit of `base` that it was made from, if
    /// this call made it.
    ///
    /// # Errors
    /// A sentence that names what is missing.
    pub async fn ensure_branch(
        &self,
        branch: &str,
        base: &str,
    ) -> Result<Option<String>, GitHubError> {
        let answer =
            self.client.get(&self.client.repo(&branch_path("git/ref/heads", branch))).await?;
        match answer.status {
            StatusCode::OK => return Ok(None),
            StatusCode::NOT_FOUND | StatusCode::CONFLICT => {}
            _ => return Err(self.client.complain(&answer)),
        }
        let answer =
            self.client.get(&self.client.repo(&branch_path("git/ref/heads", base))).await?;
        let commit = match answer.status {
            StatusCode::OK => read_answer::<Ref>(&answer)?.object.sha,
            // GitHub says 409 for a repository without a commit.
            StatusCode::CONFLICT => return Err(GitHubError::Empty { branch: base.to_owned() }),
            StatusCode::NOT_FOUND => return Err(self.no_base(base).await),
            _ => return Err(self.client.complain(&answer)),
        };
        if commit.len() != SHA1_DIGITS {
            let branch = base.to_owned();
            return Err(GitHubError::ObjectFormat { branch, commit: text::one_line(&commit, 64) });
        }
        let body = json!({"ref": format!("refs/heads/{branch}"), "sha": commit});
        let answer = self.client.post(&self.client.repo("git/refs"), &body).await?;
        match answer.status {
            StatusCode::CREATED => Ok(Some(commit)),
            // Somebody was faster.
            StatusCode::UNPROCESSABLE_ENTITY if answer.mentions("already exists") => Ok(None),
            StatusCode::UNPROCESSABLE_ENTITY => {
                let (branch, said) = (branch.to_owned(), self.client.said(&answer));
                Err(GitHubError::NoBranch { branch, said })
            }
            _ => Err(self.client.complain(&answer)),
        }
    }

    /// Explains why the base branch is missing: no such repository, no such branch, or no commit at
    /// all.
    pub async fn no_base(&self, base: &str) -> GitHubError {
        match self.client.get(&self.client.repo("")).await {
            Ok(answer) if answer.status == StatusCode::OK => {
                let found = read_answer::<DefaultBranch>(&answer).ok();
                let name = found.map(|found| text::one_line(&found.default_branch, 100));
                let other = name.filter(|name| name != base);
                let known = other.map(|name| format!(" (its default branch is `{name}`)"));
                GitHubError::NoBase { branch: base.to_owned(), known: known.unwrap_or_default() }
            }
            Ok(answer) => self.client.complain(&answer),
            Err(error) => error,
        }
    }

    /// The pull request of a branch: the open one, else the newest.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn find_pull(&self, branch: &str) -> Result<Option<GitHubPull>, GitHubError> {
        let head: String = url::form_urlencoded::byte_serialize(
            format!("{}:{branch}", self.client.remote.owner).as_bytes(),
        )
        .collect();
        let query = format!("pulls?state=all&per_page=100&head={head}");
        let answer = self.client.get(&self.client.repo(&query)).await?;
        let pulls: Vec<GitHubPull> = self.client.expect(&answer, StatusCode::OK)?;
        let best = pulls.into_iter().max_by_key(|pull| (pull.is_open(), pull.number));
        let Some(best) = best else { return Ok(None) };
        // Only the single view says whether it can be merged.
        self.pull(best.number).await.map(Some)
    }

    /// A pull request by number.
    ///
    /// # Errors
    /// When GitHub can't be asked, or has none.
    pub async fn pull(&self, number: u64) -> Result<GitHubPull, GitHubError> {
        let answer = self.client.get(&self.client.repo(&format!("pulls/{number}"))).await?;
        self.client.expect(&answer, StatusCode::OK)
    }

    /// Returns the rest of the credential's request quota, as the last answer had it.
    pub fn quota(&self) -> Option<RateQuota> {
        self.client.quota()
    }

    /// Opens a branch's pull request, or updates the open one. `write` says what it is to say, given the open one.
    /// Tells whether it was opened now.
    ///
    /// # Errors
    /// A sentence on what keeps it from being opened.
    pub async fn open_pull(
        &self,
        branch: &str,
        base: &str,
        mut write: impl FnMut(Option<&GitHubPull>) -> PullText,
    ) -> Result<(GitHubPull, bool), GitHubError> {
        if let Some(pull) = self.find_pull(branch).await?.filter(GitHubPull::is_open) {
            let text = write(Some(&pull));
            return Ok((self.rewrite_pull(pull, &text).await?, false));
        }
        let PullText { title, body } = write(None);
        let request = json!({"title": title, "body": body, "head": branch, "base": base});
        let answer = self.client.post(&self.client.repo("pulls"), &request).await?;
        if answer.status != StatusCode::UNPROCESSABLE_ENTITY {
            return Ok((self.client.expect(&answer, StatusCode::CREATED)?, true));
        }
        // Opened by somebody else in between, or GitHub says why it can't be.
        match self.find_pull(branch).await?.filter(GitHubPull::is_open) {
            Some(pull) => {
                let text = write(Some(&pull));
                Ok((self.rewrite_pull(pull, &text).await?, false))
            }
            None if answer.mentions("No commits between") => {
                Err(GitHubError::NothingToMerge { base: base.to_owned() })
            }
            None => Err(GitHubError::Refused { said: self.client.remark(&answer) }),
        }
    }

    async fn rewrite_pull(
        &self,
        pull: GitHubPull,
        text: &PullText,
    ) -> Result<GitHubPull, GitHubError> {
        if text.title.is_none() && text.body.is_none() {
            return Ok(pull);
        }
        self.update_pull(pull.number, text.title.as_deref(), text.body.as_deref()).await
    }

    /// Sets what is given of a pull request's title and description.
    ///
    /// # Errors
    /// When GitHub refuses.
    pub async fn update_pull(
        &self,
        number: u64,
        title: Option<&str>,
        body: Option<&str>,
    ) -> Result<GitHubPull, GitHubError> {
        let mut request = json!({});
        for (field, text) in [("title", title), ("body", body)] {
            if let Some(text) = text {
                request[field] = text.into();
            }
        }
        let path = self.client.repo(&format!("pulls/{number}"));
        let answer = self.client.patch(&path, &request).await?;
        self.client.expect(&answer, StatusCode::OK)
    }

    /// Closes a pull request without merging.
    ///
    /// # Errors
    /// When GitHub refuses.
    pub async fn close_pull(&self, number: u64) -> Result<(), GitHubError> {
        let path = self.client.repo(&format!("pulls/{number}"));
        let answer = self.client.patch(&path, &json!({"state": "closed"})).await?;
        self.client.expect::<GitHubPull>(&answer, StatusCode::OK).map(drop)
    }

    /// Paths that a pull request changes, of a renamed file both; its branch may be gone.
    ///
    /// # Errors
    /// When GitHub refuses.
    pub async fn changed_by(&self, number: u64) -> Result<PullFiles, GitHubError> {
        #[derive(Deserialize)]
        struct File {
            filename: String,
            previous_filename: Option<String>,
        }
        let files: Vec<File> =
            self.client.list(&self.client.repo(&format!("pulls/{number}/files"))).await?;
        let is_cut = files.len() >= MOST_LISTED;
        let both = |file: File| [Some(file.filename), file.previous_filename];
        Ok(PullFiles { paths: files.into_iter().flat_map(both).flatten().collect(), is_cut })
    }

    /// Keeps a commit under a ref that is no branch; one that is there already is fine.
    ///
    /// # Errors
    /// When GitHub refuses.
    pub async fn keep(&self, name: &str, commit: &str) -> Result<(), GitHubError> {
        let path = self.client.repo("git/refs");
        let body = serde_json::json!({"ref": name, "sha": commit});
        let answer = self.client.post(&path, &body).await?;
        match answer.status {
            StatusCode::CREATED => Ok(()),
            StatusCode::UNPROCESSABLE_ENTITY if answer.mentions("already exists") => Ok(()),
            _ => Err(self.client.complain(&answer)),
        }
    }

    /// Deletes a branch, and answers whether it is gone. Rules of the repository may keep it, which is no error.
    ///
    /// # Errors
    /// When GitHub can't be asked, or does not let the credential delete.
    pub async fn delete_branch(&self, branch: &str) -> Result<bool, GitHubError> {
        let path = self.client.repo(&branch_path("git/refs/heads", branch));
        let answer = self.client.delete(&path).await?;
        match answer.status {
            StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(true),
            StatusCode::UNPROCESSABLE_ENTITY if answer.mentions("does not exist") => Ok(true),
            StatusCode::UNPROCESSABLE_ENTITY => {
                let said = self.client.said(&answer);
                tracing::warn!(branch, said, "branch_deletion_refused");
                Ok(false)
            }
            _ => Err(self.client.complain(&answer)),
        }
    }
}

/// A branch's name inside a path: its slashes stay.
fn branch_path(prefix: &str, branch: &str) -> String {
    let encode = |part: &str| url::form_urlencoded::byte_serialize(part.as_bytes()).collect();
    let parts: Vec<String> = branch.split('/').map(encode).collect();
    format!("{prefix}/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_can_reach_no_other_path() {
        assert_eq!(
            branch_path("git/refs/heads", "codebutler/a-1"),
            "git/refs/heads/codebutler/a-1"
        );
        assert_eq!(branch_path("x", "a#b?c%2f"), "x/a%23b%3Fc%252f");
    }
}
