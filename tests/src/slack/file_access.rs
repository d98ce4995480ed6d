//! Files that Slack does not hand out.

use serde::{Deserialize, Serialize};

/// Ways in which Slack withholds a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// Messages only name it: `files.info` describes it.
    CheckFileInfo,
    /// Hidden because the plan's storage limit is reached.
    HiddenByLimit,
    /// The file was deleted; the message keeps its place.
    Tombstone,
    /// Described as ever, but for its name.
    Nameless,
}
