//! Forms of tools that were called, so that a change can be shown.

use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_mcp::tools::{PinScope, PinnedTool, ServerTool};
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;

use super::usage::mark_tool;

/// Forms that are remembered, and tools of Threads.
const REMEMBERED: usize = 1024;
/// Earlier forms of a tool after which people hear of the remedy.
const EARLIER: usize = 2;

/// Thread, server and name of a tool.
type ToolOfThread = (ThreadKey, String, String);
/// Hashes of a form: of all of it, and of all but its description.
type FormHashes = (String, String);

/// Forms of tools that were met lately.
pub struct ToolForms {
    /// Texts of forms, by their marks.
    texts: Mutex<RecentMap<String, PinnedTool>>,
    /// The first forms of a tool in a Thread.
    first: Mutex<RecentMap<ToolOfThread, Vec<FormHashes>>>,
}

impl Default for ToolForms {
    fn default() -> Self {
        let texts = Mutex::new(RecentMap::new(REMEMBERED));
        Self { texts, first: Mutex::new(RecentMap::new(REMEMBERED)) }
    }
}

impl ToolForms {
    /// Remembers the form under its mark.
    pub fn keep(&self, pin: &PinnedTool) {
        self.texts.lock().insert(mark_tool(pin), pin.clone());
    }

    /// Looks up the form with this mark.
    pub fn find(&self, mark: &str) -> Option<PinnedTool> {
        self.texts.lock().get(&mark.to_owned()).cloned()
    }

    /// Notes the form of a tool, and returns true for its third one in a Thread where nothing but its description was
    /// another one each time. The answer for a form stays the same, as a question to people is known by its words.
    pub fn is_reworded(&self, thread: &ThreadKey, server: &str, tool: &ServerTool) -> bool {
        let hash = |scope| PinnedTool::new(tool, scope).hash;
        let form = (hash(PinScope::Whole), hash(PinScope::Schema));
        let key = (thread.clone(), server.to_owned(), tool.name.clone());
        let mut first = self.first.lock();
        let Some(known) = first.get(&key) else {
            first.insert(key, vec![form]);
            return false;
        };
        if known.len() <= EARLIER && !known.contains(&form) {
            known.push(form.clone());
        }
        let place = known.iter().position(|one| *one == form);
        place == Some(EARLIER) && known.iter().all(|(_, others)| *others == form.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn tool(description: &str) -> ServerTool {
        testing::tool("find", description)
    }

    #[test]
    fn the_third_wording_of_a_tool_is_told_from_other_changes() {
        let forms = ToolForms::default();
        let thread = |name: &str| ThreadKey { namespace: "team".into(), name: name.into() };
        let note = |name: &str, tool: &ServerTool| forms.is_reworded(&thread(name), "docs", tool);
        let days = ["Monday.", "Tuesday.", "Tuesday.", "Monday.", "Wednesday.", "Wednesday."];
        let noted = days.map(|day| note("shop-1", &tool(day)));
        assert_eq!(noted, [false, false, false, false, true, true]);
        assert!(!note("shop-1", &tool("Thursday.")), "it is said once");
        assert!(!note("shop-2", &tool("Wednesday.")), "another Thread");

        let mut harmless = tool("Tuesday.");
        harmless.annotations = serde_json::json!({"readOnlyHint": true});
        for form in [tool("Monday."), harmless, tool("Wednesday.")] {
            assert!(!note("shop-3", &form), "more than its words has changed");
        }
    }
}
