//! Context shared by all turns of a run, and the way in which a run ends.

use codebutler_guides::text::head_and_tail;
use codebutler_wire::EditForm;
use serde_json::Value;

use crate::prompt::{self, SystemText};
use crate::tools::hand_up::hand_up_spec;
use crate::tools::{RoleTool, RoleTools};
use crate::transcript::RunOutcome;

/// Characters of a tool's description for a provider that takes 1024, as OpenAI and Azure for gpt-4o. The words between
/// both ends are not counted.
const DESCRIPTION: usize = 900;

/// Parts of a model call that stay the same throughout a run.
pub(super) struct RunView {
    pub system: String,
    /// Length in bytes of the prefix that all conversations of the role share.
    pub shared: usize,
    /// Specifications of the offered tools.
    pub specs: Vec<Value>,
    /// Length of instructions and tools together, in characters.
    pub told: usize,
    /// The same tools, to carry out calls.
    pub tools: RoleTools,
    /// True if the repository has files that people see as pages.
    pub shows_pages: bool,
    reads_back: bool,
    looks_first: bool,
    /// Characters of the longest description of a tool.
    longest: usize,
    /// Changes of the offer that the specifications lack.
    changes: u32,
}

impl RunView {
    /// Builds the fixed part of each model call; the tools are specified by [`Self::tell_specs`].
    pub(super) fn new(system: SystemText, tools: RoleTools, shows_pages: bool) -> Self {
        let SystemText { text: system, shared } = system;
        Self {
            told: system.len(),
            system,
            shared,
            specs: Vec::new(),
            tools,
            shows_pages,
            reads_back: false,
            looks_first: false,
            longest: usize::MAX,
            changes: 1,
        }
    }

    /// Offers the tools in the form that the answering model knows, without the useless ones.
    pub(super) fn suit(&mut self, form: EditForm, useless: Vec<&'static str>) {
        if self.tools.form() != form || self.tools.useless() != useless {
            self.tools.suit(form, useless);
            self.changes += 1;
        }
    }

    /// Offers these tools of servers from now on.
    pub(super) fn serve(&mut self, tools: Vec<Box<dyn RoleTool>>) {
        self.tools.serve(tools);
        self.changes += 1;
    }

    /// Specifies the tools anew where the offer has changed: once before each model call, whatever has changed.
    pub(super) fn tell_specs(&mut self) {
        if std::mem::take(&mut self.changes) == 0 {
            return;
        }
        let mut specs = self.tools.specs();
        specs.extend(self.reads_back.then(|| self.tools.back_spec()));
        specs.extend(self.looks_first.then(hand_up_spec));
        for spec in &mut specs {
            shorten_description(spec, self.longest);
        }
        self.told = prompt::told_length(&self.system, &specs);
        self.specs = specs;
    }

    /// Offers the tool by which a cheaper model hands over to the role's own, as long as it looks first.
    pub(super) fn look_first(&mut self, looks_first: bool) {
        if self.looks_first != looks_first {
            self.looks_first = looks_first;
            self.changes += 1;
        }
    }

    /// Shortens what is said of each tool, for a provider that takes no more.
    pub(super) fn be_brief(&mut self, is_brief: bool) {
        let longest = if is_brief { DESCRIPTION } else { usize::MAX };
        if self.longest != longest {
            self.longest = longest;
            self.changes += 1;
        }
    }

    /// From now on, offers the tool that shows what a model is not shown any more.
    pub(super) fn read_back(&mut self) {
        if !self.reads_back {
            self.reads_back = true;
            self.changes += 1;
            self.tell_specs();
        }
    }
}

/// The end stays, too: there a stranger's words are closed.
fn shorten_description(spec: &mut Value, longest: usize) {
    let about = spec.pointer_mut("/function/description");
    if let Some(Value::String(text)) = about
        && text.len() > longest
    {
        *text = head_and_tail(text, longest);
    }
}

/// Outcome of a run and, for failures, the text for the thread.
pub(super) type RunEnding = (RunOutcome, Option<String>);

pub(super) fn failed_end(reason: impl Into<String>) -> RunEnding {
    (RunOutcome::Failed, Some(reason.into()))
}

/// True if a run of so many calls can spare one for words alone.
pub(super) const fn spares_words(most: u32) -> bool {
    most > 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::mcp::ServerTool;

    #[test]
    fn changes_of_the_offer_are_specified_together_before_a_call() {
        let system = SystemText { text: "You look.".to_owned(), shared: 0 };
        let tools = RoleTools::new(&["Read".to_owned(), "mcp__*".to_owned()]);
        let mut view = RunView::new(system, tools, false);
        view.look_first(true);
        view.serve(vec![Box::new(ServerTool::unlisted("mcp__pg__query"))]);
        assert!(view.specs.is_empty(), "nothing is specified for a call that is not made yet");
        view.tell_specs();
        let named = |view: &RunView| -> Vec<String> {
            let name = |spec: &Value| spec["function"]["name"].as_str().unwrap().to_owned();
            view.specs.iter().map(name).collect()
        };
        assert_eq!(named(&view)[..2], ["Read", "mcp__pg__query"]);
        assert_eq!(
            (view.specs.len(), view.told),
            (3, prompt::told_length("You look.", &view.specs))
        );
        let before = view.specs.as_ptr();
        view.tell_specs();
        assert_eq!(view.specs.as_ptr(), before, "nothing has changed");
        view.read_back();
        assert_eq!(view.specs.len(), 4);
    }

    /// A regression: a server with a long description took all tools from a role, as its provider refused each request.
    #[test]
    fn descriptions_are_shortened_where_a_provider_takes_no_more() {
        let long = format!("{}</end>", "é".repeat(3000));
        let mut spec = serde_json::json!({"function": {"name": "a", "description": long}});
        shorten_description(&mut spec, DESCRIPTION);
        let text = spec["function"]["description"].as_str().unwrap();
        assert!(text.len() > 1000 && text.chars().count() <= 1024, "{text}");
        assert!(text.ends_with("</end>"), "{text}");
        let mut short = serde_json::json!({"function": {"name": "a", "description": "Reads."}});
        shorten_description(&mut short, DESCRIPTION);
        assert_eq!(short["function"]["description"], "Reads.");
    }
}
