//! State of the company's servers for a role: the order in which it was offered their tools, so that the list stays
//! as it was where nothing changed, what a search found, and what it was told.

use std::collections::BTreeSet;

use codebutler_wire::McpTool;

/// Tools that a search found: the newest.
const MOST_FOUND: usize = 40;

/// Tools and notices of the company's servers that a role knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownServers {
    names: Vec<String>,
    found: Vec<McpTool>,
    notices: Vec<String>,
    told: BTreeSet<String>,
}

impl KnownServers {
    /// Names of tools, in the order in which they were offered first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Tools that a search found, the newest last.
    pub fn found(&self) -> &[McpTool] {
        &self.found
    }

    /// Sentences that held when the role was told last.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// True if the conversation has the instructions of a server.
    pub fn has_told(&self, server: &str) -> bool {
        self.told.contains(server)
    }

    /// Notes servers whose instructions are shown. A server that words them anew does not get more room.
    pub(super) fn tell(&mut self, servers: &[String]) {
        self.told.extend(servers.iter().cloned());
    }

    /// Notes that a summary stands for what was shown: instructions are shown again behind it.
    pub(super) fn forget_told(&mut self) {
        self.told.clear();
    }

    pub(super) fn order(&mut self, names: &[String], notices: &[String]) {
        (self.names, self.notices) = (names.to_vec(), notices.to_vec());
    }

    pub(super) fn find(&mut self, tools: &[McpTool]) {
        self.found.retain(|known| tools.iter().all(|tool| tool.name != known.name));
        self.found.extend_from_slice(tools);
        let old = self.found.len().saturating_sub(MOST_FOUND);
        self.found.drain(..old);
    }
}
