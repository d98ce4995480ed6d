//! Arguments of the tools that show history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GitLog`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitLog {
    /// Number of commits; 20 if absent, 200 at most.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Only those that changed this file or folder.
    #[serde(default)]
    pub path: Option<String>,
    /// Only those that added or removed this text.
    #[serde(default)]
    pub search: Option<String>,
    /// `search` is a regular expression; a commit counts if a line that it changed matches (as
    /// `git log -G`).
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub regex: Option<bool>,
    /// Show what each changed.
    #[serde(default)]
    pub patch: Option<bool>,
    /// Only commits whose author's name or address contains this.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub author: Option<String>,
    /// Only commits of this day (`YYYY-MM-DD`) or later.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub since: Option<String>,
    /// Commit or branch to begin at; this conversation's branch if absent.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub commit: Option<String>,
}

/// `GitDiff`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitDiff {
    /// Commit or branch to compare with; where this branch left the base branch if absent.
    #[serde(default)]
    pub base: Option<String>,
    /// Only this file or folder.
    #[serde(default)]
    pub path: Option<String>,
}

/// `GitShow`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitShow {
    /// Such as `HEAD~1`, `main` or an id.
    pub commit: String,
    /// Only this file or folder.
    #[serde(default)]
    pub path: Option<String>,
    /// With `path`: the whole file as it was then.
    #[serde(default)]
    pub file: Option<bool>,
}

/// `GitBlame`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitBlame {
    /// File.
    pub path: String,
    /// First line, counted from 1.
    #[serde(default)]
    pub from: Option<u32>,
    /// Last line; 200 lines at most.
    #[serde(default)]
    pub to: Option<u32>,
    /// As it was in this commit; what is committed on this conversation's branch if absent.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub commit: Option<String>,
}
