//! The choice of `.codebutler/mcp.json` among the servers that the Repo gives a role.

use codebutler_mcp::config::AllowedServer;

use super::McpServers;
use crate::gateway::caller::ProvenCaller;

/// Servers that a role has, and sentences about those that it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleChoice {
    /// Names of servers of the Repo.
    pub names: Vec<String>,
    /// Sentences for the model.
    pub notices: Vec<String>,
}

/// Narrows the servers that the Repo gives the caller's role.
#[expect(clippy::unused_async, reason = "the file of the repository will have to be read for it")]
pub async fn choose(
    _servers: &McpServers,
    _caller: &ProvenCaller,
    allowed: Vec<AllowedServer>,
) -> RoleChoice {
    let names = allowed.into_iter().map(|server| server.name).collect();
    RoleChoice { names, notices: Vec::new() }
}
