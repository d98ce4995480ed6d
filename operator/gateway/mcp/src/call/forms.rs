//! Forms of tools that were called, so that a change can be shown.

use codebutler_mcp::tools::PinnedTool;
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;

use super::usage::mark_tool;

/// Forms that are remembered.
const REMEMBERED: usize = 1024;

/// Texts of forms of tools, by their marks.
pub struct ToolForms(Mutex<RecentMap<String, PinnedTool>>);

impl Default for ToolForms {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

impl ToolForms {
    /// Remembers the form under its mark.
    pub fn keep(&self, pin: &PinnedTool) {
        self.0.lock().insert(mark_tool(pin), pin.clone());
    }

    /// Looks up the form with this mark.
    pub fn find(&self, mark: &str) -> Option<PinnedTool> {
        self.0.lock().get(&mark.to_owned()).cloned()
    }
}
