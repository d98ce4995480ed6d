//! Names of the tools that a role may have, and the forms in which models edit files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tools that agents know: what `spec.tools.allow` may name.
pub const TOOLS: [&str; 47] = [
    "Read",
    "Write",
    "Edit",
    "Bash",
    "Grep",
    "Glob",
    "GitLog",
    "GitDiff",
    "GitShow",
    "GitBlame",
    "GitCommit",
    "GitUpdate",
    "GitPush",
    "ReadMemory",
    "Todo",
    "SaveAttachment",
    "WebFetch",
    "WebSearch",
    "Screenshot",
    "GenerateImage",
    "EditImage",
    "KeepImage",
    "GHCreatePR",
    "GHStatus",
    "GHComment",
    "GHReview",
    "GHPull",
    "GHIssues",
    "GHLabel",
    "GHChangeIssue",
    "GHOpenIssue",
    "GHAnswer",
    "GHRelease",
    "PlanReview",
    "ReviewThread",
    "AskRoles",
    "ProposeLearnings",
    "WriteMap",
    "ProposeMaps",
    "KeepResearch",
    "ProposeItems",
    "GHOpenIssues",
    "ProposeWorkflow",
    "SplitRequest",
    "ListThreads",
    "SendMessage",
    "CloseThread",
];

/// The tools that change a worktree. Whoever has one works on one request at a time.
pub const CHANGING: [&str; 7] =
    ["Write", "Edit", "Bash", "GitCommit", "GitUpdate", "GitPush", "SaveAttachment"];

/// The form in which a model was trained to change files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EditForm {
    /// `Edit` with a path and a list of replacements: for models whose family is not known.
    #[default]
    Replacements,
    /// `Edit`, `Read` and `Write` with the parameters of Claude Code: `file_path`, `old_string`, `new_string`,
    /// `replace_all`.
    ClaudeNames,
    /// `apply_patch` as a function with one text.
    Patch,
    /// `apply_patch` as a tool that takes free text, of which only some APIs know.
    FreePatch,
}
