//! What all turns of a run have before them, and how one ends.

use serde_json::Value;

use crate::tools::RoleTools;
use crate::transcript::RunOutcome;

/// What stays the same in each call of a run.
pub struct RunView {
    pub system: String,
    /// The tools that are offered.
    pub specs: Vec<Value>,
    /// How long they are, in characters.
    pub told: usize,
    /// The same tools, to carry calls out.
    pub tools: RoleTools,
}

/// How a run ended, and for failures what the thread is told.
pub type RunEnding = (RunOutcome, Option<String>);

pub fn failed_end(reason: impl Into<String>) -> RunEnding {
    (RunOutcome::Failed, Some(reason.into()))
}

/// Whether a run of so many calls has one to spare that is for words alone.
pub const fn spares_words(most: u32) -> bool {
    most > 2
}
