//! The thread's pull request, and issues of its repository.

use serde::{Deserialize, Serialize};

use super::TestProof;

/// Opens the thread's pull request, or updates title and body of the one there is (the head branch
/// is the key).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPullRequest {
    /// One line.
    pub title: String,
    /// Markdown.
    pub body: String,
    /// What the harness knows of the tests. The gateway puts its verdict under the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<TestProof>,
}

/// The thread's pull request as the remote sees it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestState {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// `open`, `closed` or `merged`.
    pub state: String,
    /// One line.
    pub title: String,
    /// Head commit.
    pub head: String,
    /// Whether it can be merged, once the remote knows.
    pub mergeable: Option<bool>,
    /// Whether this call created it.
    #[serde(default)]
    pub created: bool,
    /// Why it can't be merged yet, in the remote's word: `clean`, `blocked`, `behind`, `dirty`,
    /// `unstable`, `draft`, … (Only asked for with `GET`, as all that follows.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_state: Option<String>,
    /// Checks and commit statuses of the head commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<HeadCheck>,
    /// Each reviewer's last word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<ReviewState>,
    /// What people wrote on it, oldest first; the newest 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<RemoteRemark>,
    /// What of title and description stays as people left it, a sentence each. (Answered to a `POST` alone.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// A comment on the thread's pull request, or on a line of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostComment {
    /// Identity of the effect, as in [`PostMessage`].
    pub key: String,
    /// Markdown.
    pub body: String,
    /// File and line that it is about; the whole pull request if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<LineRef>,
}

/// A review of the thread's pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostReview {
    /// Identity of the effect, as in [`PostMessage`].
    pub key: String,
    /// Markdown.
    pub body: String,
    /// What the reviewer concludes. It is never an approval that lets anything be merged: that is
    /// a person's.
    #[serde(default)]
    pub verdict: ReviewEvent,
    /// Remarks on lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<LineComment>,
}

/// What a review concludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReviewEvent {
    /// Remarks only.
    #[default]
    Comment,
    /// Something has to change.
    RequestChanges,
}

/// A line of the new version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineRef {
    /// Path in the repository.
    pub path: String,
    /// Counted from 1.
    pub line: u64,
}

/// A remark on a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineComment {
    /// Where.
    #[serde(flatten)]
    pub at: LineRef,
    /// Markdown.
    pub body: String,
}

/// A comment or review that is on the remote now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostedComment {
    /// Its page.
    pub url: String,
    /// Whether this call made it.
    #[serde(default)]
    pub created: bool,
}

/// An issue of the repository. Its texts are untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoIssue {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// One line.
    pub title: String,
    /// `open` or `closed`.
    pub state: String,
    /// Login of who opened it.
    pub author: String,
    /// Names.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Markdown, cut to 16,000 characters.
    #[serde(default)]
    pub body: String,
    /// The oldest ones first; only for a single issue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<RemoteRemark>,
}

/// Something a person or bot wrote on the remote. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteRemark {
    /// Login.
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
    /// Its name.
    pub name: String,
    /// `pending`, `success`, `failure`, `neutral`, `cancelled`, `skipped`, … as the remote says.
    pub state: String,
    /// What it says of itself, cut to 1,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A reviewer's last word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewState {
    /// Login.
    pub author: String,
    /// `approved`, `changes_requested`, `commented` or `dismissed`.
    pub state: String,
}
