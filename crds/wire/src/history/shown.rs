//! Parts of events that pages show as they are.

use serde::{Deserialize, Serialize};

use crate::{PageColors, PageWidth};

/// A tool with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUse {
    /// Name of the tool.
    pub tool: String,
    /// JSON, as the model wrote it.
    pub arguments: String,
}

/// One entry of a role's to-do list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TodoEntry {
    /// The work to do, in words.
    pub text: String,
    /// `open`, `doing` or `done`.
    pub state: String,
}

/// A page at one width, in one set of colours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewShown {
    /// Width of the page in the picture.
    pub width: PageWidth,
    /// Colour scheme of the page.
    pub colors: PageColors,
    /// Slack's id of the picture from before the change. Absent: the page is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Slack's id of the picture with the change.
    pub after: String,
}

/// Result of a check at the Git host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckShown {
    /// Name of the check.
    pub name: String,
    /// `pending`, `success`, `failure`, … as the host says.
    pub state: String,
}

/// An approved item of a roadmap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemShown {
    /// Id of the item in the file.
    pub id: String,
    /// Title of the item there, as text.
    pub title: String,
    /// Index of the item among the approved ones, from 0.
    pub place: u64,
    /// `merged`, `ready`, `working`, `next`, `waits` or `blocked`.
    pub state: String,
    /// Reason why it is blocked: a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Items that it begins after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Name of its Thread, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Number of its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
}
