//! The tools of a role.

/// The tools that agents know: what `spec.tools.allow` may name.
pub const TOOLS: [&str; 31] = [
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
    "WebFetch",
    "WebSearch",
    "GHCreatePR",
    "GHStatus",
    "GHComment",
    "GHReview",
    "GHIssues",
    "PlanReview",
    "ReviewThread",
    "ProposeLearnings",
    "WriteMap",
    "ProposeMaps",
    "ProposeItems",
    "ListThreads",
    "SendMessage",
    "CloseThread",
];

/// The tools that change a worktree. Whoever has one works on one request at a time.
pub const CHANGING: [&str; 6] = ["Write", "Edit", "Bash", "GitCommit", "GitUpdate", "GitPush"];
