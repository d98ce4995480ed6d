//! A set-up as agent and toolbox speak of it.

use serde::{Deserialize, Serialize};

/// The set-up of a worktree: its command and its last result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUp {
    /// Command line for the shell.
    pub command: String,
    /// The files that ask for it; none if the Repo does.
    pub from: Vec<String>,
    /// Hash of the command and the lock files.
    pub fingerprint: String,
    /// The file with its output; Read takes it.
    pub log: String,
    /// Program that the command needs and the image lacks.
    pub missing: Option<String>,
    /// Result of its last run, if it has run.
    pub ended: Option<SetUpEnd>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUpEnd {
    /// Exit code; none if the command was killed.
    pub code: Option<i32>,
    pub seconds: u32,
    /// Sentence on how the command ended.
    pub verdict: String,
    /// Last lines of the output.
    pub tail: String,
    /// Requests that the gateway refused meanwhile, a sentence each.
    pub refused: Vec<String>,
    /// True once people were told.
    pub told: bool,
}

impl SetUpEnd {
    /// True if the command succeeded, and the worktree is ready.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}
