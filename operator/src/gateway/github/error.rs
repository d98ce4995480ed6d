//! What can go wrong with GitHub, as sentences that say who has to correct what.

use codebutler_crds::wire::ErrorCode;

use crate::gateway::context::{ApiError, SecretError};
use crate::gateway::remote::RemoteError;

/// Why GitHub did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitHubError {
    /// The Repo's URL.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The Repo's Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// No client could be built.
    #[error("no TLS client for the Git host")]
    Client(#[source] Box<octocrab::Error>),
    /// 401.
    #[error("{host} refused the token of Secret `{secret}`: put a valid one into it")]
    Token {
        /// The API's host.
        host: String,
        /// Name of the Secret.
        secret: String,
    },
    /// 403.
    #[error(
        "{host} does not let the token of Secret `{secret}` do this: give it read and write access to contents and pull requests"
    )]
    Permission {
        /// The API's host.
        host: String,
        /// Name of the Secret.
        secret: String,
    },
    /// 404 for the repository itself.
    #[error(
        "{host} has no repository {repository}, or hides it from the token of Secret `{secret}`: check spec.git.url"
    )]
    NotFound {
        /// The API's host.
        host: String,
        /// `owner/name`.
        repository: String,
        /// Name of the Secret.
        secret: String,
    },
    /// The repository has no such base branch.
    #[error("the repository has no branch `{branch}`: check spec.git.branch")]
    NoBase {
        /// The base branch.
        branch: String,
    },
    /// The repository has no commit.
    #[error("the repository is empty: push a first commit to `{branch}`")]
    Empty {
        /// The base branch.
        branch: String,
    },
    /// A pull request without commits.
    #[error("there is nothing to merge: push at least one commit that `{base}` does not have")]
    NothingToMerge {
        /// The base branch.
        base: String,
    },
    /// 405 on a merge.
    #[error(
        "the pull request can't be merged now: look for conflicts, failing checks or missing reviews on its page"
    )]
    NotMergeable,
    /// 409 on a merge.
    #[error("the branch has new commits since the user decided: ask for the decision again")]
    HeadMoved,
    /// 429, or 403 with the limit used up.
    #[error("{host} limits the number of requests right now: try again later")]
    Limited {
        /// The API's host.
        host: String,
    },
    /// 5xx, or no connection.
    #[error("{host} is not available right now: try again")]
    Unavailable {
        /// The API's host.
        host: String,
    },
    /// Any other status.
    #[error("{host} answered with the unexpected status {status}")]
    Strange {
        /// The API's host.
        host: String,
        /// The status.
        status: u16,
    },
    /// Not what GitHub's API answers.
    #[error("the Git host's answer is not that of GitHub's API: check spec.git.url")]
    Garbled,
}

impl GitHubError {
    /// Whether the Repo can't be worked with until somebody corrects it. The text then belongs into
    /// its `GitReachable` condition.
    pub const fn is_about_repo(&self) -> bool {
        matches!(
            self,
            Self::Remote(_)
                | Self::Secret(_)
                | Self::Token { .. }
                | Self::Permission { .. }
                | Self::NotFound { .. }
                | Self::NoBase { .. }
                | Self::Empty { .. }
                | Self::Garbled
        )
    }

    const fn code(&self) -> ErrorCode {
        match self {
            Self::NothingToMerge { .. } => ErrorCode::InvalidRequest,
            Self::HeadMoved => ErrorCode::NeedsApproval,
            Self::Limited { .. } | Self::Unavailable { .. } => ErrorCode::Unavailable,
            _ => ErrorCode::Upstream,
        }
    }
}

impl From<GitHubError> for ApiError {
    fn from(error: GitHubError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
