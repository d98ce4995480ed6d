//! What roles change at the Git host beside their own pull request. People say yes to each exactly.

use serde::{Deserialize, Serialize};

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
