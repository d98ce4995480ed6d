//! Changes of roles at the Git host beside their own pull request. People approve each exactly.

use serde::{Deserialize, Serialize};

use super::{LineComment, ReviewEvent};

/// A change, with the key that [`PostMessage`](super::PostMessage) has too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRemote {
    /// The change that the role wants.
    pub change: RemoteChange,
}

/// A change at the Git host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum RemoteChange {
    /// Labels of an issue or pull request.
    Labels {
        /// Number of the issue or pull request.
        number: u64,
        /// Names of labels to add.
        add: Vec<String>,
        /// Names of labels to remove.
        remove: Vec<String>,
    },
    /// Opens a new issue.
    Issue {
        /// Title of the issue, one line.
        title: String,
        /// Description in Markdown.
        body: String,
        /// Names of labels that it has from the beginning.
        labels: Vec<String>,
    },
    /// A comment on an issue, or on the pull request of somebody else.
    Comment {
        /// Number of the issue or pull request.
        number: u64,
        /// Text of the comment, in Markdown.
        body: String,
    },
    /// A review of the pull request of somebody else.
    Review {
        /// Number of the pull request.
        number: u64,
        /// Text of the review, in Markdown.
        body: String,
        /// The conclusion; never an approval.
        #[serde(default)]
        verdict: ReviewEvent,
        /// Remarks on lines of the diff.
        #[serde(default)]
        comments: Vec<LineComment>,
    },
    /// An issue that is done with.
    Close {
        /// Number of the issue.
        number: u64,
        /// Reason for closing it.
        reason: CloseReason,
    },
    /// The people who work on an issue or pull request.
    Assign {
        /// Number of the issue or pull request.
        number: u64,
        /// Logins to add as assignees.
        add: Vec<String>,
        /// Logins to remove from the assignees.
        remove: Vec<String>,
    },
    /// An issue below another one.
    SubIssue {
        /// Number of the parent issue.
        number: u64,
        /// Number of the child issue.
        child: u64,
    },
    /// A release of the base branch, with its tag.
    Release {
        /// Tag of the release, such as `v1.2.0`.
        tag: String,
        /// Title of the release, one line.
        title: String,
        /// Release notes, in Markdown.
        notes: String,
        /// True if it is not for everybody yet.
        prerelease: bool,
    },
}

/// Reason for closing an issue, in GitHub's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// The issue's work is done.
    Completed,
    /// The issue will not be worked on.
    NotPlanned,
}

impl CloseReason {
    /// The reason's name in GitHub's API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::NotPlanned => "not_planned",
        }
    }
}

/// Issues for items of the roadmap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenItemIssues {
    /// Ids of the items; all that are open and have no issue if none is named.
    #[serde(default)]
    pub items: Vec<String>,
}

/// The issues that there are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemIssues {
    /// Issues in the order of the file, or of the request.
    pub issues: Vec<ItemIssue>,
}

/// The issue that was made of a roadmap's item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemIssue {
    /// Id of the item in the roadmap.
    pub item: String,
    /// Number of the issue.
    pub number: u64,
    /// URL of the issue's page.
    pub url: String,
}

/// Reply with the place at which the change is to be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteChanged {
    /// URL of the changed page.
    pub url: String,
}
