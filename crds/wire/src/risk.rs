//! How much harm a tool call can do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much harm a tool call can do, mildest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum RiskTier {
    /// Changes nothing.
    Read,
    /// Changes the worktree only.
    WriteLocal,
    /// Others see it: recorded in the decision log.
    WriteVisible,
    /// Hard to undo: waits for a permitted user's consent to exactly this call.
    Destructive,
}
