//! Callers, as proven by their pods' tokens.

use std::sync::Arc;

use codebutler_crds::mcp::{McpPod, McpServerSpec};
use codebutler_crds::role::WorktreeAccess;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::wire::SeatSetUp;
use codebutler_crds::{AgentRole, Repo, Thread, names};
use kube::ResourceExt as _;

use crate::thread_key::ThreadKey;

/// A caller: proven by a pod's token, resolved to a role of a Thread.
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

    /// Returns true if the role has this tool.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.role.spec.tools.offered().any(|offered| offered == tool)
    }
}

/// A seat that no Thread has taken: proven by the token of its pod.
#[derive(Clone)]
pub struct ProvenSeat {
    pub repo: Arc<Repo>,
    pub pod: String,
    /// Set-up that its clone gets. Without one nothing runs in it that would connect to the outside.
    pub set_up: Option<SeatSetUp>,
}

impl ProvenSeat {
    /// Namespace and name of its pod: no two seats, and no Thread, have the same.
    pub fn key(&self) -> ThreadKey {
        let namespace = self.repo.namespace().unwrap_or_default();
        ThreadKey { namespace, name: self.pod.clone() }
    }
}

/// The set-up of a clone in a pod that was made for the role `own`: as for a Thread, if commands of one of the roles
/// will run in it and in the same image. What another image installs may not work there.
pub(crate) fn find_seat_set_up(
    repo: &Repo,
    roles: &[Arc<AgentRole>],
    own: &str,
) -> Option<SeatSetUp> {
    let own = roles.iter().find(|role| role.spec.role == own)?;
    let needs = |role: &&Arc<AgentRole>| {
        role.spec.tools.offered().any(|tool| tool == "Bash")
            && *role.spec.workspace.worktree == WorktreeAccess::ReadWrite
            && role.spec.workspace.image == own.spec.workspace.image
    };
    roles.iter().find(needs).map(|_| SeatSetUp {
        command: repo.spec.worktree.setup.clone(),
        requires_enforcement: repo.spec.egress.require_enforcement,
    })
}

/// A server of `spec.mcpServers`: proven by the token of its pod, or found for somebody who may use it.
#[derive(Clone)]
pub struct ProvenServer {
    /// The Repo that names the server.
    pub repo: Arc<Repo>,
    /// The Thread whose own it is; none if it belongs to the Repo.
    pub thread: Option<Arc<Thread>>,
    /// The server, as the Repo says now.
    pub spec: McpServerSpec,
}

impl ProvenServer {
    /// The server of this name with an image; none if the Repo names none.
    pub fn find(repo: Arc<Repo>, thread: Option<Arc<Thread>>, name: &str) -> Option<Self> {
        let mut servers = repo.spec.mcp_servers.iter();
        let spec = servers.find(|spec| spec.name == name && spec.image.is_some())?.clone();
        Some(Self { repo, thread, spec })
    }

    /// Namespace and name of its pod: no two servers have the same.
    pub fn key(&self) -> ThreadKey {
        let owner = self.thread.as_ref().map_or_else(|| self.repo.name_any(), |t| t.name_any());
        let namespace = self.repo.namespace().unwrap_or_default();
        ThreadKey { namespace, name: names::mcp_pod_name(&owner, &self.spec.name) }
    }

    /// Returns the pod, as the status of its Thread or Repo has it.
    pub fn pod(&self) -> Option<&McpPod> {
        match &self.thread {
            Some(thread) => {
                let mcp = thread.status.as_ref()?.mcp.as_ref()?;
                mcp.servers.get(&self.spec.name)?.pod.as_ref()
            }
            None => self.repo.status.as_ref()?.mcp_pods.get(&self.spec.name),
        }
    }

    /// True if its Thread is closed, or its Thread or Repo goes.
    pub fn is_over(&self) -> bool {
        let closed = |t: &Arc<Thread>| t.spec.state == ThreadState::Closed || t.is_going();
        self.thread.as_ref().is_some_and(closed) || self.repo.metadata.deletion_timestamp.is_some()
    }
}
