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
    /// Digest of all of this: it changes whenever anything else here does.
    pub version: String,
    /// True if it is the version that the caller has seen: the rest is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// Tools that the model is offered, or that a search found, best first.
    #[serde(default)]
    pub tools: Vec<McpTool>,
    /// Tools that only a search finds.
    #[serde(default)]
    pub hidden: u32,
    /// Servers that the role can use.
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

/// A tool that an MCP server offers.
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

/// An MCP server that a role can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// Name in `spec.mcpServers`.
    pub name: String,
    /// True if it answered when it was last asked.
    pub available: bool,
    /// Purpose in the server's own words, masked, in one line: given where some of its tools are found by a search
    /// alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Directions for the use of its tools, in the server's own words, masked and cut. Given where the role has a use
    /// for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// Tools of it that the role may use, given where some are found by a search alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tools: u32,
    /// True if it offers resources.
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
    /// Name of the prompt, one of `prompts`.
    pub name: String,
    /// Purpose of the prompt, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Arguments that the prompt takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<McpPromptField>,
}

/// An argument that a prompt takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPromptField {
    /// Name of the argument.
    pub name: String,
    /// Purpose of the argument, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// True if the prompt needs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// Request to call a server's tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCall {
    /// The same one is the same call: it is carried out once.
    pub key: String,
    /// Name of the tool: `mcp__SERVER__TOOL`.
    pub tool: String,
    /// Arguments, in the order in which the model wrote them.
    pub arguments: Value,
}

/// Request to read a server's resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpRead {
    /// Name of the MCP server.
    pub server: String,
    /// URI of the resource.
    pub uri: String,
}

/// Request to fill in a server's prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPrompt {
    /// Name of the MCP server.
    pub server: String,
    /// Name of the prompt.
    pub name: String,
    /// Values of its arguments, by name.
    #[serde(default)]
    pub arguments: std::collections::BTreeMap<String, String>,
}

/// Result of a request, for the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResult {
    /// Text of the result, masked, and cut where it is too long.
    pub text: String,
    /// The server says that the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whole text, where `text` has a part of it.
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

/// A picture in a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPicture {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Bytes of the picture, in base64.
    pub data: String,
}

/// A sound in a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpSound {
    /// Format such as `wav`, as chat APIs name it.
    pub format: String,
    /// Bytes of the sound, in base64.
    pub data: String,
}

/// Resources of the servers of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResources {
    /// Resources, and templates whose `uri` has parts in `{}`.
    pub resources: Vec<McpResource>,
    /// True if there are more than these.
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
    /// Name of the MCP server.
    pub server: String,
    /// Address, or a template of one.
    pub uri: String,
    /// Name of the resource for people.
    pub name: String,
    /// The server's description, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Harm that a call of a server's tool can do, as a Repo says.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum McpRisk {
    /// The call changes nothing, and runs.
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
