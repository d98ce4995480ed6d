//! Reads the tip of a branch.

use http::StatusCode;
use serde::Deserialize;

use super::{GitHub, GitHubError, branch_path};
use crate::github_access::exchange::read_answer;

/// The newest commit of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchTip {
    pub commit: String,
    /// Id of its tree: the same for the same files, whatever the history.
    pub tree: String,
}

#[derive(Deserialize)]
struct TipBranch {
    name: String,
    commit: TipCommit,
}

#[derive(Deserialize)]
struct TipCommit {
    sha: String,
    commit: CommitContent,
}

#[derive(Deserialize)]
struct CommitContent {
    tree: CommitTree,
}

#[derive(Deserialize)]
struct CommitTree {
    sha: String,
}

impl GitHub {
    /// Returns the tip of a branch; None if there is no such branch.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn tip(&self, branch: &str) -> Result<Option<BranchTip>, GitHubError> {
        let answer = self.client.get(&self.client.repo(&branch_path("branches", branch))).await?;
        match answer.status {
            StatusCode::OK => {
                let TipBranch { name, commit } = read_answer(&answer)?;
                let tip = BranchTip { commit: commit.sha, tree: commit.commit.tree.sha };
                // From a name that a branch had before, GitHub leads on to the one that it has now.
                Ok((name == branch).then_some(tip))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.client.complain(&answer)),
        }
    }
}
