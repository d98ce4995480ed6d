//! State of the company's servers for a role: the order in which it was offered their tools, so that the list stays
//! as it was where nothing changed, what a search found, and what it was told.

use std::collections::BTreeMap;

use codebutler_wire::{McpServer, McpTool};
use sha2::{Digest as _, Sha256};

/// Tools that a search found: the newest.
const MOST_FOUND: usize = 40;
/// Times that a conversation is shown the instructions of one server: one that words them anew again and again would
/// fill it.
const MOST_TOLD: usize = 4;
/// Bytes of a digest of instructions.
const DIGEST: usize = 8;

/// Tools and notices of the company's servers that a role knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownServers {
    names: Vec<String>,
    found: Vec<McpTool>,
    notices: Vec<String>,
    /// Digests of the instructions that the model has read, by server, the newest last. An empty one stands for any: an earlier
    /// version has kept none.
    told: BTreeMap<String, Vec<String>>,
}

/// The digest of a server's instructions.
pub fn digest_instructions(server: &McpServer) -> String {
    hex::encode(&Sha256::digest(server.instructions.trim())[..DIGEST])
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

    /// True if the conversation has the latest instructions of a server, or has had others of it too often.
    pub fn has_told(&self, server: &McpServer) -> bool {
        self.told.get(&server.name).is_some_and(|told| {
            let last = told.last().map(String::as_str).unwrap_or_default();
            told.len() >= MOST_TOLD || last.is_empty() || last == digest_instructions(server)
        })
    }

    /// True if the conversation has earlier instructions of a server.
    pub fn has_told_before(&self, server: &McpServer) -> bool {
        self.told.contains_key(&server.name)
    }

    /// Notes servers whose instructions are shown, with the digests of these.
    pub(super) fn tell(&mut self, servers: &[String], digests: &[String]) {
        for (at, server) in servers.iter().enumerate() {
            let digest = digests.get(at).cloned().unwrap_or_default();
            self.told.entry(server.clone()).or_default().push(digest);
        }
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
