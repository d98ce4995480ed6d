//! Failures of calls to GitHub, as sentences that say who has to correct what.

use std::time::Duration;

use codebutler_crds::repo::MergeMethod;
use codebutler_crds::wire::ErrorCode;

use crate::api_error::ApiError;
use crate::dial::{DialTrouble, find_trouble};
use crate::remote::RemoteError;
use crate::secrets::SecretError;

/// Failure of a call to GitHub.
#[derive(Debug, thiserror::Error)]
pub enum GitHubError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(
        "key `privateKey` of Secret `{secret}` is no RSA private key in PEM: put the .pem file into it that GitHub gave for the App"
    )]
    AppKey { secret: String },
    #[error("key `installationId` of Secret `{secret}` is no number: correct it, or leave it out")]
    InstallationId { secret: String },
    /// Objects that Git here can't name.
    #[error(
        "CodeButler can't work in a repository whose objects are not named with SHA-1, as `{commit}` on `{branch}`: name another one in spec.git.url"
    )]
    ObjectFormat { branch: String, commit: String },
    /// Status 401 for an App.
    #[error(
        "{host} does not know the App of Secret `{secret}` by this key: check `appId` and `privateKey`"
    )]
    App { host: String, secret: String },
    /// The App has no way into the repository.
    #[error(
        "the GitHub App of Secret `{secret}` is not installed on {repository} at {host}, or is suspended: install it there"
    )]
    NotInstalled {
        host: String,
        /// Repository, as `owner/name`.
        repository: String,
        secret: String,
    },
    /// The App may do too little.
    #[error(
        "the GitHub App of Secret `{secret}` lacks the permission {missing}: grant it in the App's settings, and accept it where the App is installed"
    )]
    AppPermissions {
        /// Permissions as GitHub names them: `contents: write`.
        missing: String,
        secret: String,
    },
    /// A credential that no header can carry.
    #[error("Secret `{secret}` has characters that no header allows: put a valid token into it")]
    Unsendable { secret: String },
    /// A redirect (3xx).
    #[error("{host} says that the repository has moved: correct spec.git.url")]
    Moved { host: String },
    /// Status 401 for a token.
    #[error("{host} refused the token of Secret `{secret}`: put a valid one into it")]
    Token { host: String, secret: String },
    /// 403 for a workflow, by a push or a merge.
    #[error(
        "{host} does not let the credential of Secret `{secret}` change files in .github/workflows: give its App the permission `workflows` (write), or a classic token the scope `workflow`; or let a person push or merge this change{said}"
    )]
    Workflows {
        host: String,
        secret: String,
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// A push of commits without a signature.
    #[error(
        "{host} takes only signed commits on this branch, and CodeButler can't sign them: let the rules of the repository and its organisation take unsigned commits on branches named `codebutler/**`, or let the account of the credential bypass them. GitHub signs the squash commit of a merge itself"
    )]
    Unsigned { host: String },
    /// A push to a branch that rules protect.
    #[error(
        "{host} lets nobody push to this branch. It says: “{said}”. Let the branch protection and the rulesets of the repository and its organisation allow pushes to branches named `codebutler/**`, or let the account of the credential bypass them"
    )]
    Protected {
        host: String,
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// Status 403.
    #[error(
        "{host} does not let the token of Secret `{secret}` do this: give it read and write access to contents and pull requests{said}"
    )]
    Permission {
        host: String,
        secret: String,
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// 403 for writing to what is for reading only by now.
    #[error(
        "the repository {repository} is archived, and can only be read: unarchive it, or suspend or delete the Repo"
    )]
    Archived {
        /// Repository, as `owner/name`.
        repository: String,
    },
    /// 403 for words on an issue or pull request whose conversation is locked.
    #[error(
        "the conversation is locked at GitHub: ask a person to unlock it there, or say it in the thread"
    )]
    Locked,
    /// 404 for the repository itself.
    #[error(
        "{host} has no repository {repository}, or hides it from the token of Secret `{secret}`: check spec.git.url"
    )]
    NotFound {
        host: String,
        /// Repository, as `owner/name`.
        repository: String,
        secret: String,
    },
    /// The repository has no such base branch.
    #[error("the repository has no branch `{branch}`{known}: check spec.git.branch")]
    NoBase {
        branch: String,
        /// The default branch, where that is another one.
        known: String,
    },
    /// The repository has no commit.
    #[error("the repository is empty: push a first commit to `{branch}`")]
    Empty { branch: String },
    /// Status 422 for a new branch.
    #[error(
        "GitHub does not let the branch `{branch}` be made. It says: “{said}”. Let the rulesets of the repository and its organisation allow branches named `codebutler/**`, or let the account of the credential bypass them"
    )]
    NoBranch {
        branch: String,
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// A pull request without commits.
    #[error("there is nothing to merge: push at least one commit that `{base}` does not have")]
    NothingToMerge { base: String },
    /// Status 405 for a merge.
    #[error(
        "the pull request can't be merged now. GitHub says: “{said}”. Look for conflicts, failing checks or missing reviews on its page"
    )]
    NotMergeable {
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// 405 on a merge of this kind.
    #[error(
        "the repository can't be merged as spec.git.mergeMethod says (`{method:?}`). GitHub says: “{said}”. Set the field to a method that the repository allows, or leave it out"
    )]
    MergeMethod {
        /// Method that the field names.
        method: MergeMethod,
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// The pull request has another base than the Repo says.
    #[error(
        "the pull request would be merged into `{found}`, and not into `{base}` as spec.git.branch says: set its base back on its page"
    )]
    OtherBase {
        found: String,
        /// The base that it should have.
        base: String,
    },
    /// Status 409 for a merge.
    #[error("the branch has new commits since the user decided: ask for the decision again")]
    HeadMoved,
    /// 422 for a remark on a line that the pull request does not show.
    #[error(
        "GitHub takes remarks only on lines that the pull request shows: name a changed file and a line of its new version in or near a change, or leave file and line out"
    )]
    NotInDiff,
    /// The thread's branch has no pull request.
    #[error("this thread has no pull request yet")]
    NoPull,
    /// 403 for something beside the pull request: the repository itself is fine.
    #[error(
        "{host} does not let the credential of Secret `{secret}` do this: give it write access to {needs}{said}"
    )]
    ChangeForbidden {
        host: String,
        secret: String,
        needs: &'static str,
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// A release would be of whatever the tag names.
    #[error("there is a tag {tag} already, which names some commit: choose another tag")]
    Tagged { tag: String },
    /// The tag has a release already, and it was not made by the change that is wanted.
    #[error("there is a release {tag} already: choose another tag, or leave it as it is")]
    Released { tag: String },
    /// A remark on lines that the pull request does not show.
    #[error(
        "the pull request shows no such lines: {}. Name changed files and lines in or near one change, as GHPull shows them, or say it in `body`",
        places.join(", ")
    )]
    Misplaced {
        /// Places, each with its file and lines.
        places: Vec<String>,
    },
    /// Status 404 for a pull request.
    #[error(
        "this repository has no pull request #{number}: GHPull without a number lists the open ones"
    )]
    NoSuchPull { number: u64 },
    /// An address of something else.
    #[error(
        "the link is not that of a pull request of {repository}, which is the only repository that can be read here: give `number`, or a link that ends in /pull/NUMBER"
    )]
    OtherLink {
        /// Repository, as `owner/name`.
        repository: String,
    },
    /// A file that a pull request does not change.
    #[error(
        "pull request #{number} does not change `{file}`: GHPull names the files that it changes"
    )]
    NotChanged { file: String, number: u64 },
    #[error("there is no page {page}: the last one is {pages}")]
    NoPage { page: usize, pages: usize },
    /// The thread's own pull request has tools of its own.
    #[error("#{number} is this conversation's own pull request: leave `number` out")]
    OwnPull { number: u64 },
    /// A pull request was named where an issue is wanted.
    #[error("#{number} is a pull request, and this is for issues only")]
    IsPull { number: u64 },
    /// An account that GitHub would pass over in silence.
    #[error(
        "{} can't be assigned in this repository: name the logins of people who have access to it",
        logins.join(", ")
    )]
    Unassignable { logins: Vec<String> },
    /// A sub-issue has one parent.
    #[error("#{child} is below #{parent} already: a person has to take it from there first")]
    OtherParent { child: u64, parent: u64 },
    /// 422 for a change, in GitHub's own words.
    #[error("GitHub does not do this{said}")]
    Refused {
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// Status 404 for an issue.
    #[error("this repository has no issue with this number")]
    NoIssue,
    /// 429, or 403 with a limit used up.
    #[error(
        "{host} limits the number of requests right now: try again in {} seconds",
        wait.as_secs() + 1
    )]
    Limited {
        host: String,
        /// Time for which nothing is asked.
        wait: Duration,
    },
    /// A 5xx status, or no connection.
    #[error("{host} is not available right now: try again")]
    Unavailable { host: String },
    /// Something on the way to it that a person has to fix.
    #[error("{host} can't be reached: {trouble}")]
    Barred { host: String, trouble: DialTrouble },
    #[error("{host} answered with the unexpected status {status}{said}")]
    Strange {
        host: String,
        status: u16,
        /// GitHub's own words, masked and cut.
        said: String,
    },
    /// The answer of a server that is no GitHub, for something that every GitHub has.
    #[error(
        "{host} does not answer as GitHub does, and pull requests are made on GitHub and GitHub Enterprise alone, not on GitLab, Gitea or Bitbucket: name a repository there in spec.git.url"
    )]
    OtherService { host: String },
    /// The answer is not one of GitHub's API.
    #[error("the Git host's answer is not that of GitHub's API: check spec.git.url")]
    Garbled,
}

impl GitHubError {
    /// Logs a request that got no answer, and builds its error.
    pub(crate) fn unsent(host: &str, error: reqwest::Error) -> Self {
        let error = error.without_url();
        tracing::warn!(host, %error, "github_unreachable");
        let host = host.to_owned();
        match find_trouble(&error) {
            Some(trouble) => Self::Barred { host, trouble },
            None => Self::Unavailable { host },
        }
    }

    /// Returns true if the Repo can't be worked with until somebody corrects it. The text then
    /// belongs into its `GitReachable` condition.
    pub const fn is_about_repo(&self) -> bool {
        matches!(
            self,
            Self::Remote(_)
                | Self::Secret(_)
                | Self::AppKey { .. }
                | Self::InstallationId { .. }
                | Self::App { .. }
                | Self::NotInstalled { .. }
                | Self::AppPermissions { .. }
                | Self::Unsendable { .. }
                | Self::ObjectFormat { .. }
                | Self::Moved { .. }
                | Self::Token { .. }
                | Self::Permission { .. }
                | Self::Archived { .. }
                | Self::NotFound { .. }
                | Self::OtherService { .. }
                | Self::NoBase { .. }
                | Self::Empty { .. }
                | Self::Barred { .. }
                | Self::Garbled
        )
    }

    /// Returns true if somebody has to change the repository's rules. Its remote is fine.
    pub const fn is_about_rules(&self) -> bool {
        matches!(
            self,
            Self::NoBranch { .. }
                | Self::Workflows { .. }
                | Self::Unsigned { .. }
                | Self::Protected { .. }
        )
    }

    /// Returns true for GitHub's words about a workflow that the credential may not change.
    pub fn refuses_workflows(words: &str) -> bool {
        words.to_ascii_lowercase().contains("to create or update workflow")
    }

    /// Returns the time for which GitHub wants no requests, if it limits them.
    pub const fn wait(&self) -> Option<Duration> {
        match self {
            Self::Limited { wait, .. } => Some(*wait),
            _ => None,
        }
    }

    const fn code(&self) -> ErrorCode {
        match self {
            Self::OtherBase { .. }
            | Self::NothingToMerge { .. }
            | Self::Locked
            | Self::NotInDiff
            | Self::NoPull
            | Self::Released { .. }
            | Self::Tagged { .. }
            | Self::Misplaced { .. }
            | Self::NoSuchPull { .. }
            | Self::OtherLink { .. }
            | Self::NotChanged { .. }
            | Self::NoPage { .. }
            | Self::OwnPull { .. }
            | Self::IsPull { .. }
            | Self::Unassignable { .. }
            | Self::OtherParent { .. }
            | Self::Refused { .. }
            | Self::NoIssue => ErrorCode::InvalidRequest,
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
