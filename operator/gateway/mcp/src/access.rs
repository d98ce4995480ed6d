//! Rights of a role: the servers of its Repo that it has, and the tools of them.

use std::sync::Arc;

use codebutler_crds::mcp::McpServerSpec;
use codebutler_crds::role::AgentRoleSpec;
use codebutler_crds::wire::MCP_PREFIX;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_mcp::tools::{NamePatterns, PatternError, ToolFilter};

use super::McpServers;
use super::choose::{allow_server, choose_for_role};
use super::session_key::ServerPlace;

/// Patterns of a role for names of tools.
#[derive(Clone, Debug)]
pub struct ToolRights {
    allow: NamePatterns,
    deny: NamePatterns,
    /// The beginnings of the patterns to allow, up to their first wildcard.
    heads: Vec<String>,
    /// The patterns that can allow or deny a server as a whole.
    open_allow: Vec<OpenPattern>,
    open_deny: Vec<OpenPattern>,
}

/// A pattern that ends with `*`: it matches all names that go on after what its beginning matches.
#[derive(Clone, Debug)]
struct OpenPattern {
    /// The pattern without its last `*`.
    head: NamePatterns,
    /// The pattern without `?*` at its end, if it ends so: a name has at least one more letter there.
    short: Option<NamePatterns>,
}

impl OpenPattern {
    fn of(pattern: &str) -> Option<Self> {
        let head = pattern.trim_end_matches('*');
        if head.len() == pattern.len() {
            return None;
        }
        let read = |pattern: &str| NamePatterns::new(&[pattern]).ok();
        Some(Self { head: read(head)?, short: head.strip_suffix('?').and_then(read) })
    }

    /// True if it matches whatever begins so and goes on.
    fn covers(&self, beginning: &str) -> bool {
        let mut ends = beginning.char_indices().map(|(at, _)| at).chain([beginning.len()]);
        ends.any(|end| self.head.matches(&beginning[..end]))
            || self.short.as_ref().is_some_and(|short| short.matches(beginning))
    }
}

impl ToolRights {
    /// Reads the patterns of a role.
    ///
    /// # Errors
    /// A pattern that can't be read: the role has no tools of servers then.
    pub fn of(role: &AgentRoleSpec) -> Result<Self, PatternError> {
        Self::new(&role.tools.allow, &role.tools.deny)
    }

    fn new(allow: &[String], deny: &[String]) -> Result<Self, PatternError> {
        let own = |patterns: &[String]| -> Vec<String> {
            patterns.iter().filter(|name| name.starts_with(MCP_PREFIX)).cloned().collect()
        };
        let (allow, deny) = (own(allow), own(deny));
        let head = |pattern: &String| pattern.split(['*', '?', '[', '{']).next().map(str::to_owned);
        let heads = allow.iter().filter_map(head).collect();
        let open =
            |patterns: &[String]| patterns.iter().filter_map(|one| OpenPattern::of(one)).collect();
        let (open_allow, open_deny) = (open(&allow), open(&deny));
        let (allow, deny) = (NamePatterns::new(&allow)?, NamePatterns::new(&deny)?);
        Ok(Self { allow, deny, heads, open_allow, open_deny })
    }

    /// True if the role may use the tool of this name.
    pub fn allows(&self, name: &str) -> bool {
        self.allow.matches(name) && !self.deny.matches(name)
    }

    /// True if the role could have a tool of this server.
    pub fn reaches(&self, server: &str) -> bool {
        let name = format!("{MCP_PREFIX}{server}__");
        let mut heads = self.heads.iter();
        heads.any(|head| name.starts_with(&**head) || head.starts_with(&name))
            && !self.open_deny.iter().any(|pattern| pattern.covers(&name))
    }

    /// True if the role may read the server's resources and prompts: they have no names that a pattern could tell
    /// apart, so it needs the server as a whole.
    pub fn reads(&self, server: &str) -> bool {
        let name = format!("{MCP_PREFIX}{server}__");
        self.reaches(server) && self.open_allow.iter().any(|pattern| pattern.covers(&name))
    }
}

/// A server that a role may use.
#[derive(Clone)]
pub struct RoleServer {
    pub place: ServerPlace,
    /// The tools that the Repo lets roles use.
    pub filter: ToolFilter,
}

/// Servers of a role, and its rights on their tools.
#[derive(Clone)]
pub struct RoleServers {
    /// Servers in the order of the Repo's spec.
    pub servers: Vec<RoleServer>,
    pub rights: Arc<ToolRights>,
    /// Remarks for the model, as sentences.
    pub notices: Vec<String>,
}

impl RoleServers {
    /// Reads the servers of a caller's role. None where the role has no pattern for tools of servers.
    pub async fn of(servers: &McpServers, caller: &ProvenCaller) -> Option<Self> {
        let rights = match ToolRights::of(&caller.role.spec) {
            Ok(rights) => Arc::new(rights),
            Err(error) => {
                let notices = vec![format!("no tools of servers can be used: {error}")];
                let rights = ToolRights::new(&[], &[]).ok()?;
                return Some(Self { servers: Vec::new(), rights: Arc::new(rights), notices });
            }
        };
        if rights.heads.is_empty() || caller.repo.spec.mcp_servers.is_empty() {
            return None;
        }
        let reached = |spec: &&McpServerSpec| rights.reaches(&spec.name);
        let reached: Vec<&McpServerSpec> =
            caller.repo.spec.mcp_servers.iter().filter(reached).collect();
        let allowed: Vec<_> = reached.iter().map(|spec| allow_server(spec)).collect();
        let (context, name) = (&servers.context, caller.role_name());
        let chosen = choose_for_role(context, &caller.repo, name, &allowed).await;
        let mut role = Self { servers: Vec::new(), rights, notices: chosen.notices };
        for spec in reached.into_iter().filter(|spec| chosen.names.contains(&spec.name)) {
            let rules = spec.tools.clone().unwrap_or_default();
            match ToolFilter::new(&rules.allow, &rules.deny) {
                Ok(filter) => {
                    let place = ServerPlace::new(&caller.repo, spec, Some(caller.key()));
                    role.servers.push(RoleServer { place, filter });
                }
                Err(error) => role.notices.push(format!(
                    "the server `{}` can't be used: {error} (`tools` of `spec.mcpServers`)",
                    spec.name
                )),
            }
        }
        Some(role)
    }

    pub fn server(&self, name: &str) -> Option<&RoleServer> {
        self.servers.iter().find(|server| server.place.spec.name == name)
    }

    /// The server whose tool has this name.
    pub fn server_of(&self, tool: &str) -> Option<&RoleServer> {
        let (server, _) = tool.strip_prefix(MCP_PREFIX)?.split_once("__")?;
        self.server(server)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rights(allow: &[&str], deny: &[&str]) -> Result<ToolRights, PatternError> {
        let role = json!({"role": "pm", "display": {"name": "PM", "icon": ":x:"},
            "model": {"default": "m"}, "tools": {"allow": allow, "deny": deny}});
        ToolRights::of(&serde_json::from_value(role).unwrap())
    }

    #[test]
    fn a_role_has_the_tools_that_its_patterns_name() {
        let rights = rights(&["Read", "mcp__sentry__*", "mcp__db__query"], &["mcp__*__delete_*"]);
        let rights = rights.unwrap();
        for (name, expected) in [
            ("mcp__sentry__search", true),
            ("mcp__sentry__delete_issue", false),
            ("mcp__db__query", true),
            ("mcp__db__write", false),
            ("mcp__other__search", false),
            ("Read", false),
        ] {
            assert_eq!(rights.allows(name), expected, "{name}");
        }
        assert!(rights.reaches("sentry") && rights.reaches("db") && !rights.reaches("other"));
        assert!(!rights.reaches("sent"), "a name that only begins like it");
    }

    #[test]
    fn wildcards_reach_servers_and_a_broken_pattern_gives_nothing() {
        let all = rights(&["mcp__*"], &[]).unwrap();
        assert!(all.reaches("any") && all.allows("mcp__any__tool"));
        let some = rights(&["mcp__a*__read"], &[]).unwrap();
        assert!(some.reaches("abc") && !some.reaches("b"));
        assert!(rights(&["mcp__a[b"], &[]).is_err());
        assert!(!rights(&["Read"], &[]).unwrap().reaches("any"));
    }

    #[test]
    fn a_server_that_is_denied_as_a_whole_is_not_reached() {
        for deny in ["mcp__hr__*", "mcp__hr*", "mcp__h?__**", "mcp__hr__?*", "mcp__*"] {
            let rights = rights(&["mcp__*"], &[deny]).unwrap();
            assert!(!rights.reaches("hr") && !rights.reads("hr"), "{deny}");
            assert_eq!(rights.reaches("docs"), deny != "mcp__*", "{deny}");
        }
        for deny in ["mcp__hr__delete_*", "mcp__hr__??*", "mcp__hr__", "mcp__hr2__*", "mcp__*__x*"]
        {
            assert!(rights(&["mcp__*"], &[deny]).unwrap().reaches("hr"), "{deny}");
        }
    }

    #[test]
    fn resources_need_the_server_as_a_whole() {
        for (allow, expected) in [
            ("mcp__hr__*", true),
            ("mcp__*", true),
            ("mcp__h*", true),
            ("mcp__hr__search", false),
            ("mcp__hr__read_*", false),
            ("mcp__docs__*", false),
        ] {
            assert_eq!(rights(&[allow], &[]).unwrap().reads("hr"), expected, "{allow}");
        }
    }
}
