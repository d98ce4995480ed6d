//! What all turns of a run have before them, and how one ends.

use serde_json::Value;

use crate::prompt;
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
    reads_back: bool,
}

impl RunView {
    /// What each call of a run is given.
    pub fn new(system: String, tools: RoleTools) -> Self {
        let specs = tools.specs();
        let told = prompt::told_length(&system, &specs);
        Self { system, specs, told, tools, reads_back: false }
    }

    /// Offers the tool that shows what a model is not shown any more, from now on.
    pub fn read_back(&mut self) {
        if !self.reads_back {
            self.reads_back = true;
            self.specs.push(self.tools.back_spec());
            self.told = prompt::told_length(&self.system, &self.specs);
        }
    }
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
