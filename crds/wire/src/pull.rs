//! Pull requests of the repository, of any author, as a role reads them.

use serde::{Deserialize, Serialize};

use super::{HeadCheck, LineRef, ReviewState};

/// Which part of a pull request is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PullPart {
    /// State, description, checks, reviews and the names of the changed files.
    #[default]
    Overview,
    /// The diff, file by file.
    Diff,
    /// Comments, reviews and remarks on lines, oldest first.
    Conversation,
}

/// The query of `GET /v1/pulls`; without `number` and `link` the open ones are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadPull {
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Its page instead of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The part.
    #[serde(default)]
    pub part: PullPart,
    /// Of the diff: this file alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<usize>,
}

/// The answer. All texts in it are untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PullReading {
    /// The open ones, the latest change first.
    List(OpenPulls),
    /// One of them.
    Overview(Box<PullOverview>),
    /// A page of its diff.
    Diff(PullDiff),
    /// A page of what was said on it.
    Conversation(PullConversation),
}

/// Open pull requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPulls {
    /// The latest change first.
    pub pulls: Vec<PullSummary>,
    /// Open ones beside those.
    #[serde(default)]
    pub unlisted: usize,
}

/// A pull request in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullSummary {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// One line.
    pub title: String,
    /// `open`, `draft`, `merged` or `closed`.
    pub state: String,
    /// Login.
    pub author: String,
    /// Where its commits are: `branch`, or `owner:branch` of a fork.
    pub head: String,
    /// The branch that it would be merged into.
    pub base: String,
    /// Last change, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<String>,
    /// Logins and teams that were asked for a review and have not answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
    /// True if a conversation of CodeButler's made it.
    #[serde(default)]
    pub own: bool,
}

/// A pull request without its diff and conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullOverview {
    /// As lists have it.
    pub summary: PullSummary,
    /// The repository that its commits come from, where that is a fork; `deleted` once it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<String>,
    /// Its newest commit.
    pub commit: String,
    /// True if it can be merged; absent until GitHub knows.
    pub mergeable: Option<bool>,
    /// GitHub's word for what keeps it from being merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_state: Option<String>,
    /// Markdown, cut to 16,000 characters.
    #[serde(default)]
    pub body: String,
    /// Checks and commit statuses of its newest commit.
    #[serde(default)]
    pub checks: Vec<HeadCheck>,
    /// Each reviewer's last word.
    #[serde(default)]
    pub reviews: Vec<ReviewState>,
    /// The files that it changes, at most 300.
    #[serde(default)]
    pub files: Vec<PulledFile>,
    /// Changed files beside those.
    #[serde(default)]
    pub unlisted: usize,
    /// Comments, reviews with words, and remarks on lines.
    #[serde(default)]
    pub remarks: usize,
}

/// A file that a pull request changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PulledFile {
    /// Its path; the new one of a renamed file.
    pub path: String,
    /// The old one of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// `added`, `removed`, `modified`, `renamed`, …
    pub status: String,
    /// Lines.
    pub additions: u64,
    /// Lines.
    pub deletions: u64,
}

/// A page of a diff.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullDiff {
    /// Its number.
    pub number: u64,
    /// The commit that it leads to.
    pub commit: String,
    /// Counted from 1.
    pub page: usize,
    /// The number of the last page.
    pub pages: usize,
    /// Files, or parts of a long one.
    pub files: Vec<FileDiff>,
    /// GitHub names no more than 3,000 files of a pull request.
    #[serde(default)]
    pub unlisted: usize,
}

/// The changes of one file, or a part of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// Which.
    #[serde(flatten)]
    pub file: PulledFile,
    /// Unified diff without a header; none where GitHub gives none, as for binary and very large files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// It began on the page before.
    #[serde(default)]
    pub continued: bool,
    /// Another request may bring what is missing: the answer as a whole was too large.
    #[serde(default)]
    pub left_out: bool,
}

/// A page of what was said on a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullConversation {
    /// Its number.
    pub number: u64,
    /// Counted from 1.
    pub page: usize,
    /// The number of the last page.
    pub pages: usize,
    /// Oldest first.
    pub said: Vec<SaidOnPull>,
    /// GitHub was asked for the first thousand of a kind only.
    #[serde(default)]
    pub cut: bool,
}

/// Something that was said on a pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SaidOnPull {
    /// Login.
    pub author: String,
    /// When, in RFC 3339.
    pub time: String,
    /// Of a review: `approved`, `changes_requested`, `commented` or `dismissed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Of a remark on a line: where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<LineRef>,
    /// The line is no longer part of the diff.
    #[serde(default)]
    pub outdated: bool,
    /// Markdown, cut to 4,000 characters.
    pub body: String,
}
