//! Whose call it is.

use std::sync::Arc;

use codebutler_crds::{AgentRole, Repo, Thread};

use super::thread_key::ThreadKey;

/// Who calls: proven by a pod's token, resolved to a role of a Thread.
#[derive(Clone)]
pub struct ProvenCaller {
    /// The Thread, as cached when the call came in.
    pub thread: Arc<Thread>,
    pub repo: Arc<Repo>,
    pub role: Arc<AgentRole>,
}

impl ProvenCaller {
    pub fn key(&self) -> ThreadKey {
        ThreadKey::from(&*self.thread)
    }

    pub fn role_name(&self) -> &str {
        &self.role.spec.role
    }

    /// Whether the role has a tool.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.role.spec.tools.offered().any(|offered| offered == tool)
    }
}
