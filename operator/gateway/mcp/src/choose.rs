//! The choice of `.codebutler/mcp.json` among the servers that the Repo gives a role. The file is that of the base
//! branch, so a role can't change it by itself; nothing that it names beyond the Repo's servers is ever run.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_gateway_core::mcp_facts::RepositoryChoice;
use codebutler_mcp_file::{AllowedServer, MCP_FILE, choose_servers};
use kube::ResourceExt as _;
use tokio::time::timeout;

/// Time that a role waits for the file of a base branch that nobody has read yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// Servers that a role has, and sentences about those that it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleChoice {
    /// Names of servers of the Repo.
    pub names: Vec<String>,
    /// Remarks for the model, as sentences.
    pub notices: Vec<String>,
}

/// Narrows the servers that the Repo gives a role. Every Git request and every look at the guides brings the file up
/// to date, so this waits only for a gateway that has just begun.
pub async fn choose_for_role(
    context: &GatewayContext,
    repo: &Repo,
    role: &str,
    allowed: &[AllowedServer],
) -> RoleChoice {
    if allowed.is_empty() {
        return RoleChoice::default();
    }
    if let Some(choice) = read_choice(context, repo).await {
        return narrow_servers(&choice, allowed, role);
    }
    let mut all = narrow_servers(&RepositoryChoice::default(), allowed, role);
    all.notices.push(format!(
        "`{MCP_FILE}` of the base branch can't be read at the moment: you have the servers that the Repo gives your role"
    ));
    all
}

/// The servers that a Repo may give roles, as the choice narrows them.
pub fn list_allowed(repo: &Repo) -> Vec<AllowedServer> {
    repo.spec.mcp_servers.iter().map(allow_server).collect()
}

/// A server of a Repo, with the roles that may use it.
pub fn allow_server(spec: &McpServerSpec) -> AllowedServer {
    let roles = (!spec.roles.is_empty()).then(|| spec.roles.clone());
    AllowedServer { name: spec.name.clone(), roles }
}

fn narrow_servers(choice: &RepositoryChoice, allowed: &[AllowedServer], role: &str) -> RoleChoice {
    let chosen = choose_servers(choice.file.as_ref(), allowed, role);
    // People are told of servers beyond the Repo's; a model can do nothing about them.
    RoleChoice { names: chosen.names, notices: choice.complaint().into_iter().collect() }
}

/// The file of the base branch; nothing where it can't be read soon.
pub async fn read_choice(context: &GatewayContext, repo: &Repo) -> Option<Arc<RepositoryChoice>> {
    if let Some(choice) = context.mcp.choice(repo) {
        return Some(choice);
    }
    if context.mcp.has_missed(repo) {
        return None;
    }
    let why = match timeout(PATIENCE, ask_host(context, repo)).await {
        Ok(Ok(choice)) => return Some(choice),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "GitHub takes too long".to_owned(),
    };
    context.mcp.miss(repo);
    tracing::warn!(repo = repo.name_any(), why, "server_choice_unknown");
    None
}

async fn ask_host(
    context: &GatewayContext,
    repo: &Repo,
) -> Result<Arc<RepositoryChoice>, GitHubError> {
    let base = &repo.spec.git.branch;
    let github = GitHub::of(context, repo).await?;
    let Some(tip) = github.tip(base).await? else { return Err(github.no_base(base).await) };
    let file = github.file(MCP_FILE, &tip.commit).await?;
    // A mistake in it has to be said in a thread, which the next Git request does.
    let choice = RepositoryChoice::read(file.as_deref());
    let commit = if choice.problem.is_none() { tip.commit.as_str() } else { "" };
    Ok(context.mcp.learn(repo, commit, file.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_mistake_leaves_out_its_server_and_says_so() {
        let allowed =
            ["db", "docs"].map(|name| AllowedServer { name: name.to_owned(), roles: None });
        let read = |text: &str| {
            narrow_servers(&RepositoryChoice::read(Some(text.as_bytes())), &allowed, "pm")
        };
        let choice = read(
            "{\"servers\": {\"db\": {\"command\": \"x\"},\n\"docs\": {\"ulr\": \"x\"}, \"linear\": {\"url\": \"https://l\"}}}",
        );
        assert_eq!(choice.names, ["db"]);
        assert_eq!(choice.notices.len(), 1, "{choice:?}");
        assert!(choice.notices[0].contains("line 2, column 10"), "{choice:?}");
        let good =
            read("{\"mcpServers\": {\"docs\": {\"url\": \"https://x\", \"roles\": [\"pm\"]}}}");
        assert_eq!((good.names, good.notices), (vec!["docs".to_owned()], Vec::new()));
        let none = narrow_servers(&RepositoryChoice::default(), &allowed, "pm");
        assert_eq!(none.names, ["db", "docs"]);
    }
}
