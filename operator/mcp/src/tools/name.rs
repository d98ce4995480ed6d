//! Names of tools for models: `mcp__server__tool`, as every provider takes them. A name depends on nothing but the
//! server's and the tool's, so that it stays the same when others come and go.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::ServerTool;

/// Characters that the strictest provider allows.
pub const NAME_LENGTH: usize = 64;
/// Hexadecimal digits that tell names apart that had to be changed.
const DIGITS: usize = 8;

/// Tools by their names for models.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedTools {
    /// Name for models to server and tool.
    pub tools: BTreeMap<String, (String, ServerTool)>,
    /// A sentence for each tool that has no name of its own.
    pub skipped: Vec<String>,
}

/// Name of a tool for models: at most [`NAME_LENGTH`] characters of `a-z`, `A-Z`, `0-9`, `_` and `-`. One that had to
/// be changed for that ends with digits of a hash.
pub fn name_tool(server: &str, tool: &str) -> String {
    // The server's part has no underscore, so it ends at the first two of them.
    let clean_server: String =
        server.chars().map(|letter| if is_plain(letter, false) { letter } else { '-' }).collect();
    let clean_tool: String =
        tool.chars().map(|letter| if is_plain(letter, true) { letter } else { '_' }).collect();
    let name = format!("mcp__{clean_server}__{clean_tool}");
    if clean_server == server && clean_tool == tool && name.len() <= NAME_LENGTH && !tool.is_empty()
    {
        return name;
    }
    let digest = Sha256::digest(format!("{server}\0{tool}"));
    let hash = &hex::encode(digest)[..DIGITS];
    let kept: String = name.chars().take(NAME_LENGTH - DIGITS - 1).collect();
    format!("{kept}_{hash}")
}

fn is_plain(letter: char, with_underscore: bool) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || (with_underscore && letter == '_')
}

/// Names tools of several servers. Names in `taken` (the built-in tools) are given to nothing else.
pub fn assign_names(
    servers: Vec<(String, Vec<ServerTool>)>,
    taken: &BTreeSet<String>,
) -> NamedTools {
    let mut named = NamedTools::default();
    for (server, tools) in servers {
        for tool in tools {
            let name = name_tool(&server, &tool.name);
            if taken.contains(&name) || named.tools.contains_key(&name) {
                let own: String = tool.name.chars().take(80).collect();
                named.skipped.push(format!(
                    "the tool `{own}` of `{server}` would be named `{name}`, which is another tool"
                ));
                continue;
            }
            named.tools.insert(name, (server.clone(), tool));
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(name_tool("sentry", "search_issues"), "mcp__sentry__search_issues");
        assert_eq!(name_tool("my-db", "Bash"), "mcp__my-db__Bash");
    }

    #[test]
    fn any_two_tools_have_different_names_that_every_provider_takes() {
        let long = "x".repeat(100);
        let tools = [
            ("a", "get_user"),
            ("a", "get.user"),
            ("a", "get/user"),
            ("a", "get user"),
            ("a", ""),
            ("a", "日本語"),
            ("a", "中文字"),
            ("a__b", "c"),
            ("a", "b__c"),
            ("a_b", "c"),
            ("a-b", "c"),
            ("a", &long),
            (&long, "a"),
            ("a", &long[..60]),
            ("a", "get\u{202e}user"),
            ("A", "get_user"),
        ];
        let names: BTreeSet<String> =
            tools.iter().map(|(server, tool)| name_tool(server, tool)).collect();
        assert_eq!(names.len(), tools.len(), "{names:#?}");
        for name in &names {
            assert!(
                name.len() <= NAME_LENGTH && name.chars().all(|letter| is_plain(letter, true)),
                "{name}"
            );
            assert!(name.starts_with("mcp__"));
        }
    }

    #[test]
    fn a_name_does_not_depend_on_the_other_tools_and_never_is_a_built_in_one() {
        let tool = |name: &str| {
            ServerTool::read(json!({"name": name}).as_object().unwrap(), 100, 100).unwrap()
        };
        let imitated = name_tool("s", "get.user");
        let own_name = imitated.strip_prefix("mcp__s__").unwrap();
        let servers = vec![("s".to_owned(), vec![tool("get.user"), tool(own_name), tool("Bash")])];
        let taken = ["Bash".to_owned(), "mcp__s__Bash".to_owned()].into();
        let named = assign_names(servers, &taken);
        assert_eq!(named.tools.keys().collect::<Vec<_>>(), [&imitated]);
        assert_eq!(named.tools[&imitated].1.name, "get.user");
        assert_eq!(named.skipped.len(), 2, "{:?}", named.skipped);
    }
}
