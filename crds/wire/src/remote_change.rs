//! What roles change at the Git host beside their own pull request. People say yes to each exactly.

use serde::{Deserialize, Serialize};

use super::{LineComment, ReviewEvent};

/// A change, with the key that [`PostMessage`](super::PostMessage) has too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRemote {
    /// What is wanted.
    pub change: RemoteChange,
}

/// Something at the Git host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum RemoteChange {
    /// Labels of an issue or pull request.
    Labels {
        /// Whose.
        number: u64,
        /// To be there.
        add: Vec<String>,
        /// To be gone.
        remove: Vec<String>,
    },
    /// A new issue.
    Issue {
        /// One line.
        title: String,
        /// Markdown.
        body: String,
        /// To be there from the beginning.
        labels: Vec<String>,
    },
    /// A comment on an issue, or on the pull request of somebody else.
    Comment {
        /// Of the issue or pull request.
        number: u64,
        /// Markdown.
        body: String,
    },
    /// A review of the pull request of somebody else.
    Review {
        /// Of the pull request.
        number: u64,
        /// Markdown.
        body: String,
        /// The conclusion; never an approval.
        #[serde(default)]
        verdict: ReviewEvent,
        /// Remarks on lines.
        #[serde(default)]
        comments: Vec<LineComment>,
    },
    /// An issue that is done with.
    Close {
        /// Of the issue.
        number: u64,
        /// Why.
        reason: CloseReason,
    },
    /// The people who work on an issue or pull request.
    Assign {
        /// Of the issue or pull request.
        number: u64,
        /// Logins to be there.
        add: Vec<String>,
        /// Logins to be gone.
        remove: Vec<String>,
    },
    /// An issue below another one.
    SubIssue {
        /// Of the upper one.
        number: u64,
        /// Of the lower one.
        child: u64,
    },
    /// A release of the base branch, with its tag.
    Release {
        /// Such as `v1.2.0`.
        tag: String,
        /// One line.
        title: String,
        /// Markdown.
        notes: String,
        /// Not for everybody yet.
        prerelease: bool,
    },
}

/// Why an issue is closed, in GitHub's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// The work is done.
    Completed,
    /// It will not be done.
    NotPlanned,
}

impl CloseReason {
    /// As GitHub names it.
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
    /// In the order of the file, or of the request.
    pub issues: Vec<ItemIssue>,
}

/// The issue of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemIssue {
    /// Its id in the roadmap.
    pub item: String,
    /// The issue's number.
    pub number: u64,
    /// Its page.
    pub url: String,
}

/// Where it is to be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteChanged {
    /// Its page.
    pub url: String,
}
