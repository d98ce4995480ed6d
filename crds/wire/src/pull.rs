//! Pull requests of the repository, of any author, as a role reads them.

use serde::{Deserialize, Serialize};

use super::{HeadCheck, LineRef, ReviewState};

/// Part of a pull request to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PullPart {
    /// State, description, checks, reviews and the names of the changed files.
    #[default]
    Overview,
    /// Diff of each changed file.
    Diff,
    /// Comments, reviews and remarks on lines, oldest first.
    Conversation,
}

/// The query of `GET /v1/pulls`; without `number` and `link` the open ones are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadPull {
    /// Number of the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// URL of the pull request's page, instead of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Part to read, the overview by default.
    #[serde(default)]
    pub part: PullPart,
    /// Path of the only file of the diff to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Page of that part, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<usize>,
}

/// The answer. All texts in it are untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PullReading {
    /// The open ones, the latest change first.
    List(OpenPulls),
    /// Overview of one pull request.
    Overview(Box<PullOverview>),
    /// One page of its diff.
    Diff(PullDiff),
    /// A page of what was said on it.
    Conversation(PullConversation),
}

/// List of open pull requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPulls {
    /// Pull requests, the latest change first.
    pub pulls: Vec<PullSummary>,
    /// Number of open ones beside those.
    #[serde(default)]
    pub unlisted: usize,
}

/// A pull request in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullSummary {
    /// Number of the pull request.
    pub number: u64,
    /// URL of the pull request's page.
    pub url: String,
    /// Title of the pull request, one line.
    pub title: String,
    /// `open`, `draft`, `merged` or `closed`.
    pub state: String,
    /// Login of its author.
    pub author: String,
    /// Head ref: `branch`, or `owner:branch` of a fork.
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
    /// The summary that lists have too.
    pub summary: PullSummary,
    /// The repository that its commits come from, where that is a fork; `deleted` once it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<String>,
    /// Id of its newest commit, the head.
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
    /// Latest verdict of each reviewer.
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
    /// Path of the file; the new one of a renamed file.
    pub path: String,
    /// The old one of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// `added`, `removed`, `modified`, `renamed`, …
    pub status: String,
    /// Number of lines that the change adds.
    pub additions: u64,
    /// Number of lines that the change deletes.
    pub deletions: u64,
}

/// One page of a pull request's diff.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullDiff {
    /// Number of the pull request.
    pub number: u64,
    /// The commit that it leads to.
    pub commit: String,
    /// This page's number, counted from 1.
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
    /// The file and its counts of lines.
    #[serde(flatten)]
    pub file: PulledFile,
    /// Unified diff without a header; none where GitHub gives none, as for binary and very large files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// True if it began on the page before.
    #[serde(default)]
    pub continued: bool,
    /// True if another request may bring what is missing: the answer as a whole was too large.
    #[serde(default)]
    pub left_out: bool,
}

/// A page of what was said on a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullConversation {
    /// Number of the pull request.
    pub number: u64,
    /// This page's number, counted from 1.
    pub page: usize,
    /// The number of the last page.
    pub pages: usize,
    /// Comments, the oldest first.
    pub said: Vec<SaidOnPull>,
    /// GitHub was asked for the first thousand of a kind only.
    #[serde(default)]
    pub cut: bool,
}

/// A comment or review on a pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SaidOnPull {
    /// Login of the author.
    pub author: String,
    /// Time of the comment, in RFC 3339.
    pub time: String,
    /// Verdict of a review: `approved`, `changes_requested`, `commented` or `dismissed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Line of a remark on a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<LineRef>,
    /// The line is no longer part of the diff.
    #[serde(default)]
    pub outdated: bool,
    /// Markdown, cut to 4,000 characters.
    pub body: String,
}
