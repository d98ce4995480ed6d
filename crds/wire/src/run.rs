//! Reports on runs, and the end of a conversation.

use serde::{Deserialize, Serialize};

use crate::RoleState;
use crate::SlackTs;

/// State of a role's run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// `Running` at the start; anything else ends the run.
    pub state: RoleState,
    /// Cursor: the newest message of those that are done with, all before it included: when the run ended, or while
    /// it answers others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<SlackTs>,
    /// Ids of pending items taken, when the run ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handled: Vec<String>,
    /// Model calls of this run so far.
    pub turns: u32,
    /// Reason of `Failed` for the thread, in one or two sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Outcome of the run: set exactly once for each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<RunTerminal>,
    /// Sandbox of commands: `landlock-<version>`, `runtime`, or the reason why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// Current activity of a run. Shown in the thread and kept nowhere: one that gets lost is not missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunProgress {
    /// Identity of the run: 1 to 32 characters of `[a-z0-9]`.
    pub run: String,
    /// Model calls of this run so far.
    pub turns: u32,
    /// The activity in a few words, without markup.
    pub doing: String,
}

/// Outcome of a role's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTerminal {
    /// The request of the run is done.
    Completed,
    /// A person has to say something first.
    NeedsInformation,
    /// The role could not go on; the thread was told why.
    Error,
}

/// Last words of a run that is about to end. Nothing is said or changed by asking about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastWords {
    /// Text of the message, in Markdown.
    pub text: String,
}

/// Verdict on whether a run may end with its last words.
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

/// Outcome of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadClosed {
    /// The commit on the base branch, if it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// Reason why it has not ended yet: what the merge waits for. It is done without another word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
}
