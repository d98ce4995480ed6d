//! A repository chooses among the servers that its Repo allows; anything beyond them is named, and never run.

use crate::file::{McpFile, WantedServer};

/// A server that the Repo allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedServer {
    /// Name in the Repo's `spec.mcpServers`.
    pub name: String,
    /// The roles that may use it; all where there is none.
    pub roles: Option<Vec<String>>,
}

/// Servers that one role gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChosenServers {
    /// Names of servers of the Repo.
    pub names: Vec<String>,
    /// A sentence for each server that the Repo does not allow, with the field to add.
    pub beyond: Vec<String>,
}

/// A server of the file that the Repo does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeyondServer {
    /// Name of the server in the file.
    pub name: String,
    /// Line of its name in the file.
    pub line: usize,
    /// A sentence with the field to add.
    pub message: String,
}

/// Without a file, or with one whose list is empty, a role has all servers that the Repo gives it; else those that
/// both name.
pub fn choose_servers(
    file: Option<&McpFile>,
    allowed: &[AllowedServer],
    role: &str,
) -> ChosenServers {
    let has_role = |roles: &Option<Vec<String>>| {
        roles.as_ref().is_none_or(|roles| roles.iter().any(|one| one == role))
    };
    let for_role = allowed.iter().filter(|server| has_role(&server.roles));
    let Some(file) = file.filter(|file| !file.is_blank) else {
        let names = for_role.map(|server| server.name.clone()).collect();
        return ChosenServers { names, beyond: Vec::new() };
    };
    let wanted = |name: &str| {
        let server = file.servers.iter().find(|server| server.name == name);
        server.is_some_and(|server| !server.is_disabled && has_role(&server.roles))
    };
    let names =
        for_role.filter(|server| wanted(&server.name)).map(|server| server.name.clone()).collect();
    let beyond = list_beyond(file, allowed).into_iter().map(|server| server.message).collect();
    ChosenServers { names, beyond }
}

/// Servers of the file that the Repo does not allow.
pub fn list_beyond(file: &McpFile, allowed: &[AllowedServer]) -> Vec<BeyondServer> {
    let is_beyond = |server: &&WantedServer| {
        !server.is_disabled && !allowed.iter().any(|one| one.name == server.name)
    };
    let describe = |server: &WantedServer| BeyondServer {
        name: server.name.clone(),
        line: server.line,
        message: describe_missing(server),
    };
    file.servers.iter().filter(is_beyond).map(describe).collect()
}

fn describe_missing(server: &WantedServer) -> String {
    let name = &server.name;
    let field = match (&server.url, &server.command) {
        (Some(_), _) => "`url`",
        _ => "`image` and `command`",
    };
    format!(
        "the server `{name}` is not one that the Repo allows, so it is not run: add an entry with `name: {name}` \
         and {field} to `spec.mcpServers` of the Repo, or take it out of the file"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read_mcp_file;

    fn allowed() -> Vec<AllowedServer> {
        let server = |name: &str, roles: Option<&[&str]>| AllowedServer {
            name: name.to_owned(),
            roles: roles.map(|roles| roles.iter().map(|role| (*role).to_owned()).collect()),
        };
        vec![server("db", Some(&["coder", "reviewer"])), server("docs", None)]
    }

    #[test]
    fn a_file_only_narrows_what_the_repo_gives() {
        let (file, _) = read_mcp_file(
            r#"{"servers": {
            "db": {"command": "x", "roles": ["reviewer", "pm"]},
            "linear": {"command": "curl", "args": ["evil"]},
            "off": {"command": "x", "disabled": true}}}"#,
        );
        let names = |file, role| choose_servers(file, &allowed(), role).names;
        assert_eq!(names(None, "coder"), ["db", "docs"]);
        assert_eq!(names(None, "pm"), ["docs"]);
        let choice = |text| read_mcp_file(text).0;
        for blank in ["{\"mcpServers\": {}}", "{\n  // none yet\n  \"servers\": {}\n}"] {
            let file = choice(blank);
            assert_eq!(choose_servers(Some(&file), &allowed(), "coder").names, ["db", "docs"]);
        }
        for broken in
            ["", "{}", "{\"servers\": []}", "{\"servers\": {\"db\": 1}}", "{\"servers\": {"]
        {
            let file = choice(broken);
            let chosen = choose_servers(Some(&file), &allowed(), "coder").names;
            assert_eq!(chosen, Vec::<String>::new(), "{broken}");
        }
        assert_eq!(names(Some(&file), "reviewer"), ["db"]);
        // The Repo does not give it to these, or the file does not.
        assert_eq!(names(Some(&file), "pm"), Vec::<String>::new());
        assert_eq!(names(Some(&file), "coder"), Vec::<String>::new());
        let beyond = choose_servers(Some(&file), &allowed(), "pm").beyond;
        assert_eq!(beyond.len(), 1);
        assert!(
            beyond[0].contains("`linear`") && beyond[0].contains("`spec.mcpServers`"),
            "{beyond:?}"
        );
        assert!(!beyond[0].contains("evil"), "{beyond:?}");
    }
}
