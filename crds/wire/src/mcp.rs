//! Tools, resources and prompts of a company's own servers (Model Context Protocol), as the gateway offers them to an
//! agent. Every word of a server is untrusted.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names of tools of servers begin with it: `mcp__SERVER__TOOL`.
pub const MCP_PREFIX: &str = "mcp__";
/// Longest pattern for names of tools, without the prefix.
const MAX_PATTERN: usize = 96;

/// True for what `spec.tools.allow` takes for tools of servers: such a name, with `*` and `?` in it.
#[must_use]
pub fn is_tool_pattern(name: &str) -> bool {
    let takes = |b: u8| b.is_ascii_alphanumeric() || b"_.*?-".contains(&b);
    name.strip_prefix(MCP_PREFIX)
        .is_some_and(|rest| (1..=MAX_PATTERN).contains(&rest.len()) && rest.bytes().all(takes))
}

/// The server and its tool that a name stands for.
#[must_use]
pub fn split_tool_name(name: &str) -> Option<(&str, &str)> {
    // Names of servers have no underscore.
    let (server, tool) = name.strip_prefix(MCP_PREFIX)?.split_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some((server, tool))
}

/// A tool's name for people: `SERVER: TOOL` of a server's, and any other as it is.
#[must_use]
pub fn show_tool_name(name: &str) -> Cow<'_, str> {
    match split_tool_name(name) {
        Some((server, tool)) => Cow::Owned(format!("{server}: {tool}")),
        None => Cow::Borrowed(name),
    }
}

/// Tools of servers that the caller's role may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpTools {
    /// Another one whenever anything else of this is another.
    pub version: String,
    /// It is the version that the caller has seen: the rest is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// Tools that the model is offered, or that a search found, best first.
    #[serde(default)]
    pub tools: Vec<McpTool>,
    /// Tools that only a search finds.
    #[serde(default)]
    pub hidden: u32,
    /// Servers of the role.
    #[serde(default)]
    pub servers: Vec<McpServer>,
    /// Sentences about what is not available and what to do, for the model.
    #[serde(default)]
    pub notices: Vec<String>,
}

impl McpTools {
    /// An answer to who has seen this version.
    #[must_use]
    pub fn unchanged_since(version: String) -> Self {
        Self { version, unchanged: true, ..Self::default() }
    }
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpTool {
    /// `mcp__SERVER__TOOL`, at most 64 characters.
    pub name: String,
    /// The server's words, fenced and masked.
    pub description: String,
    /// A schema that every provider takes.
    pub schema: Value,
    /// Calls change nothing: they may run side by side.
    #[serde(default)]
    pub reads: bool,
}

/// A server of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// Name in `spec.mcpServers`.
    pub name: String,
    /// It answered when it was last asked.
    pub available: bool,
    /// Its purpose in its own words, masked, in one line: given where some of its tools are found by a search alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Tools of it that the role may use, given likewise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tools: u32,
    /// It has resources.
    #[serde(default)]
    pub resources: bool,
    /// Names of its prompts, as UsePrompt takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<String>,
    /// The same with what they are for and filled in with, as far as the server says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_forms: Vec<McpPromptForm>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A prompt of a server and what it is filled in with. All texts are the server's, masked, in one line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPromptForm {
    /// Its name, one of `prompts`.
    pub name: String,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<McpPromptField>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPromptField {
    /// Its name.
    pub name: String,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The prompt needs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCall {
    /// The same one is the same call: it is carried out once.
    pub key: String,
    /// `mcp__SERVER__TOOL`.
    pub tool: String,
    /// Arguments, in the order in which the model wrote them.
    pub arguments: Value,
}

/// A resource to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpRead {
    /// Name of the server.
    pub server: String,
    /// The resource.
    pub uri: String,
}

/// A prompt to fill in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPrompt {
    /// Name of the server.
    pub server: String,
    /// The prompt.
    pub name: String,
    /// Its arguments, by name.
    #[serde(default)]
    pub arguments: std::collections::BTreeMap<String, String>,
}

/// A result for the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResult {
    /// Words, masked, and cut where they are too long.
    pub text: String,
    /// The server says that the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// All words, where `text` has a part of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
    /// Pictures for models that see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<McpPicture>,
    /// Sounds for models that hear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sounds: Vec<McpSound>,
    /// Sentences of the gateway about the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A picture of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPicture {
    /// Such as `image/png`.
    pub media_type: String,
    /// Base64.
    pub data: String,
}

/// A sound of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpSound {
    /// Such as `wav`, as chat APIs name it.
    pub format: String,
    /// Base64.
    pub data: String,
}

/// Resources of the servers of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResources {
    /// Resources, and templates whose `uri` has parts in `{}`.
    pub resources: Vec<McpResource>,
    /// There are more.
    #[serde(default)]
    pub truncated: bool,
    /// Sentences about what could not be listed.
    #[serde(default)]
    pub notices: Vec<String>,
}

/// A resource, or a template of resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    /// Name of the server.
    pub server: String,
    /// Address, or a template of one.
    pub uri: String,
    /// Name for people.
    pub name: String,
    /// The server's description, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// How much harm a call of a server's tool can do, as a Repo says.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum McpRisk {
    /// It changes nothing, and runs.
    Read,
    /// People say yes the first time in a thread.
    Visible,
    /// People say yes each time, to the exact arguments.
    Destructive,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_tool_is_shown_by_both_names() {
        for (name, shown) in [
            ("mcp__sentry__search_issues", "sentry: search_issues"),
            ("mcp__my-db__a__b", "my-db: a__b"),
            ("mcp__sentry", "mcp__sentry"),
            ("mcp____x", "mcp____x"),
            ("Bash", "Bash"),
        ] {
            assert_eq!(show_tool_name(name), shown);
        }
    }

    #[test]
    fn only_whole_prefixes_are_patterns() {
        for (name, expected) in [
            ("mcp__*", true),
            ("mcp__sentry__*", true),
            ("mcp__my-db__get_?", true),
            ("mcp_sentry", false),
            ("mcp__", false),
            ("mcp__a b", false),
            ("*", false),
            ("Read", false),
        ] {
            assert_eq!(is_tool_pattern(name), expected, "{name}");
        }
    }
}
