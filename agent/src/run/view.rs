//! What all turns of a run have before them, and how one ends.

use codebutler_wire::EditForm;
use serde_json::Value;

use crate::prompt::{self, SystemText};
use crate::tools::hand_up::hand_up_spec;
use crate::tools::{RoleTool, RoleTools};
use crate::transcript::RunOutcome;

/// What stays the same in each call of a run.
pub(super) struct RunView {
    pub system: String,
    /// Bytes of it that all conversations of the role have.
    pub shared: usize,
    /// The tools that are offered.
    pub specs: Vec<Value>,
    /// How long they are, in characters.
    pub told: usize,
    /// The same tools, to carry calls out.
    pub tools: RoleTools,
    /// The repository has files that people see as pages.
    pub shows_pages: bool,
    reads_back: bool,
    looks_first: bool,
}

impl RunView {
    /// What each call of a run is given.
    pub(super) fn new(system: SystemText, tools: RoleTools, shows_pages: bool) -> Self {
        let SystemText { text: system, shared } = system;
        let specs = tools.specs();
        let told = prompt::told_length(&system, &specs);
        Self {
            system,
            shared,
            specs,
            told,
            tools,
            shows_pages,
            reads_back: false,
            looks_first: false,
        }
    }

    /// Offers the tools in the form that the model knows which answers now, and those that are of use.
    pub(super) fn suit(&mut self, form: EditForm, useless: Vec<&'static str>) {
        if self.tools.form() != form || self.tools.useless() != useless {
            self.tools.suit(form, useless);
            self.tell_specs();
        }
    }

    /// Offers these tools of servers from now on.
    pub(super) fn serve(&mut self, tools: Vec<Box<dyn RoleTool>>) {
        self.tools.serve(tools);
        self.tell_specs();
    }

    fn tell_specs(&mut self) {
        let mut specs = self.tools.specs();
        specs.extend(self.reads_back.then(|| self.tools.back_spec()));
        specs.extend(self.looks_first.then(hand_up_spec));
        self.told = prompt::told_length(&self.system, &specs);
        self.specs = specs;
    }

    /// Offers the tool by which a cheaper model hands over to the role's own, as long as it looks first.
    pub(super) fn look_first(&mut self, looks_first: bool) {
        if self.looks_first != looks_first {
            self.looks_first = looks_first;
            self.tell_specs();
        }
    }

    /// Offers the tool that shows what a model is not shown any more, from now on.
    pub(super) fn read_back(&mut self) {
        if !self.reads_back {
            self.reads_back = true;
            self.tell_specs();
        }
    }
}

/// How a run ended, and for failures what the thread is told.
pub(super) type RunEnding = (RunOutcome, Option<String>);

pub(super) fn failed_end(reason: impl Into<String>) -> RunEnding {
    (RunOutcome::Failed, Some(reason.into()))
}

/// Whether a run of so many calls has one to spare that is for words alone.
pub(super) const fn spares_words(most: u32) -> bool {
    most > 2
}
