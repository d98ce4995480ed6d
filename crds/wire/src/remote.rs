//! The thread's pull request, and issues of its repository.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::TestProof;

/// Opens the thread's pull request, or updates title and body of the one there is (the head branch
/// is the key).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPullRequest {
    /// Title of the pull request, one line.
    pub title: String,
    /// Description in Markdown.
    pub body: String,
    /// The harness's proof of tests. The gateway puts its verdict under the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<TestProof>,
}

/// The thread's pull request as the remote sees it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestState {
    /// Number of the pull request.
    pub number: u64,
    /// URL of the pull request's page.
    pub url: String,
    /// `open`, `closed` or `merged`.
    pub state: String,
    /// Title of the pull request, one line.
    pub title: String,
    /// Id of the head commit.
    pub head: String,
    /// True if it can be merged; absent until the remote knows.
    pub mergeable: Option<bool>,
    /// True if this call created it.
    #[serde(default)]
    pub created: bool,
    /// Mergeability in the remote's word, which says why it can't be merged yet: `clean`, `blocked`, `behind`,
    /// `dirty`, `unstable`, `draft`, … (Only asked for with `GET`, as all that follows.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_state: Option<String>,
    /// Checks and commit statuses of the head commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<HeadCheck>,
    /// Latest verdict of each reviewer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<ReviewState>,
    /// People's remarks on it, oldest first; the newest 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<RemoteRemark>,
    /// Parts of title and description that stay as people left them, a sentence each. (Answered to a `POST` alone.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// A comment on the thread's pull request, or on a line of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostComment {
    /// Idempotency key, as in [`PostMessage`].
    pub key: String,
    /// Text of the comment, in Markdown.
    pub body: String,
    /// File and line that it is about; the whole pull request if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<LineRef>,
}

/// A review of the thread's pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostReview {
    /// Idempotency key, as in [`PostMessage`].
    pub key: String,
    /// Text of the review, in Markdown.
    pub body: String,
    /// Verdict of the reviewer. It is never an approval that lets anything be merged: that is a person's.
    #[serde(default)]
    pub verdict: ReviewEvent,
    /// Remarks on lines of the diff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<LineComment>,
}

/// Verdict of a review on the pull request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReviewEvent {
    /// The review only has remarks.
    #[default]
    Comment,
    /// The review wants something changed.
    RequestChanges,
}

/// A line of a file that a change touches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineRef {
    /// Path of the file in the repository.
    pub path: String,
    /// Number of the line in the new version, from 1. 0 where somebody remarked on the whole file.
    pub line: u64,
    /// First of several lines, of which `line` is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Lines are those of the version before the change, such as one that it removes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl LineRef {
    /// True if a remark can be written there, as far as the numbers say.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let in_order = self.first.is_none_or(|first| (1..=self.line).contains(&first));
        !self.path.is_empty() && self.line > 0 && in_order
    }
}

impl fmt::Display for LineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, first, removed } = self;
        match first {
            _ if *line == 0 => return f.write_str(path),
            Some(first) if first < line => write!(f, "{path}:{first}-{line}")?,
            _ => write!(f, "{path}:{line}")?,
        }
        f.write_str(if *removed { " before the change" } else { "" })
    }
}

/// A review's remark on a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineComment {
    /// Line that the remark is on.
    #[serde(flatten)]
    pub at: LineRef,
    /// Text of the remark, in Markdown.
    pub body: String,
}

/// A comment or review that is on the remote now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostedComment {
    /// URL of the comment's page.
    pub url: String,
    /// True if this call made it.
    #[serde(default)]
    pub created: bool,
}

/// An issue of the repository. Its texts are untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoIssue {
    /// Number of the issue.
    pub number: u64,
    /// URL of the issue's page.
    pub url: String,
    /// Title of the issue, one line.
    pub title: String,
    /// State: `open` or `closed`.
    pub state: String,
    /// Login of who opened the issue.
    pub author: String,
    /// Names of the issue's labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Markdown, cut to 16,000 characters.
    #[serde(default)]
    pub body: String,
    /// The oldest ones first; only for a single issue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<RemoteRemark>,
}

/// A comment of a person or bot on the remote. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteRemark {
    /// Login of the author.
    pub author: String,
    /// Markdown, cut to 4,000 characters.
    pub body: String,
    /// File and line, for remarks on code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<LineRef>,
}

/// A check of the pull request's head commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadCheck {
    /// Name of the check.
    pub name: String,
    /// `pending`, `success`, `failure`, `neutral`, `cancelled`, `skipped`, … as the remote says.
    pub state: String,
    /// Summary that the check gives of itself, cut to 1,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The remote's id of this attempt, for the gateway only: a check that runs again and ends in the same way has another.
    #[serde(skip)]
    pub attempt: Option<String>,
}

/// Latest verdict of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewState {
    /// Login of the reviewer.
    pub author: String,
    /// `approved`, `changes_requested`, `commented` or `dismissed`.
    pub state: String,
}
