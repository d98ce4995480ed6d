//! Where a run stands, and how a conversation ends.

use serde::{Deserialize, Serialize};

use crate::RoleState;
use crate::SlackTs;

/// Where a role's run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// `Running` at the start; anything else ends the run.
    pub state: RoleState,
    /// Newest message of those that are done with, all before it included: when the run ended, or while
    /// it answers others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<SlackTs>,
    /// Ids of pending items taken, when the run ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handled: Vec<String>,
    /// Model calls of this run so far.
    pub turns: u32,
    /// For `Failed`: what to tell the thread, one or two sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How the run ended: set exactly once for each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<RunTerminal>,
    /// What confines commands: `landlock-<version>`, `runtime`, or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// What a run does now. Shown in the thread and kept nowhere: one that gets lost is not missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunProgress {
    /// Identity of the run: 1 to 32 characters of `[a-z0-9]`.
    pub run: String,
    /// Model calls of this run so far.
    pub turns: u32,
    /// What it does: a few words, without markup.
    pub doing: String,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTerminal {
    /// What was asked for is done.
    Completed,
    /// A person has to say something first.
    NeedsInformation,
    /// It could not go on; the thread was told why.
    Error,
}

/// Words with which a run is about to end. Nothing is said or changed by asking about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastWords {
    /// Markdown.
    pub text: String,
}

/// Whether a run may end with its last words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndVerdict {
    /// For the model, once: why the work would rest though it is not done. Absent: the run may end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nudge: Option<String>,
}

/// Ends the conversation the way a user decided (recorded by the gateway, not claimed here).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseThread {
    /// Markdown: what was done. Becomes the pull request's description.
    pub summary: String,
    /// Markdown of a few lines: who did what, with which models and tools. The harness writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
}

/// How the conversation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadClosed {
    /// The commit on the base branch, if it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// It has not ended yet: what the merge waits for. It is done without another word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
}
