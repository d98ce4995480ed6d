//! Risk of tool calls: the harm that they can do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Harm that a tool call can do, mildest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum RiskTier {
    /// The call changes nothing.
    Read,
    /// Changes the worktree only.
    WriteLocal,
    /// Others see it: recorded in the decision log.
    WriteVisible,
    /// Hard to undo: waits for a permitted user's consent to exactly this call.
    Destructive,
}
