//! Servers of the Model Context Protocol: a company's own tools.

use std::collections::BTreeMap;

use codebutler_wire::McpRisk;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;
use crate::secret_ref::SecretRef;

/// Maximum number of MCP servers of a Repo.
pub const MOST_SERVERS: usize = 32;

/// A server whose tools roles may use: a program in a pod of its own, or a URL that the gateway calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.image) != has(self.url)",
        "message": "a server has either an `image`, with a `command`, or a `url`"
    },
    {
        "rule": "!has(self.image) || (has(self.command) && size(self.command) > 0)",
        "message": "a server with an `image` needs its `command`: what the image itself would start is not known to the bridge"
    },
    {
        "rule": "!has(self.url) || (!has(self.command) && !has(self.env) && !has(self.egress) && !has(self.worktree) && !has(self.resources))",
        "message": "`command`, `env`, `egress`, `worktree` and `resources` belong to a server with an `image`; one with a `url` has `headers` and `query`"
    },
    {
        "rule": "!has(self.worktree) || !has(self.scope) || self.scope == 'Thread'",
        "message": "`worktree` needs `scope: Thread`: a server that all Threads share has no worktree"
    },
    {
        "rule": "!has(self.image) || (!has(self.headers) && !has(self.query) && !has(self.oauth))",
        "message": "`headers`, `query` and `oauth` belong to a server with a `url`; one with an `image` has `env`"
    }
]))]
pub struct McpServerSpec {
    /// Part of the names of its tools: `mcp__NAME__TOOL`.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$"))]
    pub name: String,
    /// Image in which `command` runs. It speaks over its standard input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Program and arguments, such as `["npx", "-y", "@acme/server"]`. It is not given to a shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,
    /// Address of a server that speaks streamable HTTP, or the older form with server-sent events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://[^/@\s]+(/\S*)?$"), length(max = 1024))]
    pub url: Option<String>,
    /// Variables of the program's environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<McpValue>,
    /// Headers of each request to `url`, such as `Authorization`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub headers: Vec<McpValue>,
    /// Parameters that are added to `url`, such as `api_key`, for servers that take a key nowhere else. Where the path of
    /// `url` has the name in braces, as in `https://tools.example/s/{api_key}/mcp`, the value takes that place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub query: Vec<McpValue>,
    /// A person signs in to `url`, from a link in Slack that only they see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpOauth>,
    /// Roles that may use it; all roles of the Repo that have `mcp__…` among their tools, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub roles: Vec<String>,
    /// Hosts that its pod may connect to through the gateway, in the form of `spec.egress.hosts`. Nothing else can be
    /// reached from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(regex(
            pattern = r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$"
        ))
    )]
    pub egress: Vec<String>,
    /// Scope of a server: each Thread has one of its own, or all Threads of the Repo share one.
    #[serde(default)]
    pub scope: McpScope,
    /// Mounts the Thread's worktree into its pod. It has none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<McpWorktree>,
    /// Requests and limits of its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Seconds without a call after which its pod, or its session, ends.
    #[serde(default = "idle_seconds")]
    #[schemars(range(min = 10, max = 86_400))]
    pub idle_seconds: u32,
    /// Seconds that a call may take without any sign of progress.
    #[serde(default = "call_seconds")]
    #[schemars(range(min = 1, max = 540))]
    pub call_seconds: u32,
    /// Rules that say which tools may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<McpToolRules>,
    /// Risk of calls of some tools, whatever the server says. The strictest rule that names a tool holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub risk: Vec<McpRiskRule>,
    /// `Schema` leaves descriptions of tools out of what is compared to find out whether a tool has changed: for servers
    /// that word them anew each time, such as with a date. People are not asked about new ones then. All of a tool is
    /// compared if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<McpPin>,
    /// Lets it ask the model of the role whose call it works on (sampling), on the role's account and within its
    /// budget. It is refused if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<McpSampling>,
    /// Most calls in a Thread; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_calls: Option<u32>,
    /// Price of a call in US dollars, for servers that bill by the call. It counts towards all budgets. A reading of a
    /// resource or a prompt is a call, too. Free if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_call: Option<NanoUsd>,
}

/// Parts of a tool that are compared to find out whether it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpPin {
    /// Name, title, schemas and hints, but not the description.
    Schema,
}

/// Bounds of the answers that a server may ask a model for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpSampling {
    /// Longest answer, in tokens.
    #[serde(default = "sampling_tokens")]
    #[schemars(range(min = 1, max = 16_000))]
    pub max_tokens: u32,
    /// Most answers for one call of a tool.
    #[serde(default = "sampling_calls")]
    #[schemars(range(min = 1, max = 100))]
    pub max_calls: u32,
}

/// An environment variable, an HTTP header or a parameter of an address, with a literal value or one from a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.value) != has(self.secret)",
    "message": "it has either a `value` or a `secret`"
}]))]
pub struct McpValue {
    /// Name of the variable, header or parameter.
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"))]
    pub name: String,
    /// Literal value, which everybody can read who can read the Repo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub value: Option<String>,
    /// Reference to the Secret that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<McpSecretKey>,
}

/// A key of a Secret in the Repo's namespace. The Secret's annotation `codebutler.dev/hosts` names the hosts that it
/// may be sent to: that of `url`, or all of `egress`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpSecretKey {
    /// Name of a Secret in the Repo's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret's data.
    #[schemars(regex(pattern = r"^[-._a-zA-Z0-9]{1,253}$"))]
    pub key: String,
    /// Goes before the value, such as `Bearer ` in a header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub prefix: Option<String>,
}

/// OAuth settings with which a person signs in to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpOauth {
    /// Secret with `clientId`, and `clientSecret` if there is one. The gateway registers itself if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<SecretRef>,
    /// Scopes to ask for; those that the server names if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    pub scopes: Vec<String>,
    /// The issuer that its authorization server calls itself, where that is not the address at which its metadata is
    /// found, as RFC 8414 wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://[^/@?#\s]+(/[^?#\s]*)?$"), length(max = 1024))]
    pub issuer: Option<String>,
    /// Parameters that the address of its sign-in page needs besides those of OAuth, such as `access_type` with the
    /// value `offline` at Google.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub parameters: Vec<McpOauthParameter>,
    /// `Assumed` where its authorization server knows PKCE with S256, but names no methods in its metadata. PKCE is
    /// used in any case; a list without S256 is still refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkce: Option<McpPkce>,
    /// `Omitted` where its authorization server refuses requests that name the server as their resource (RFC 8707).
    /// Its tokens may then be good at other servers, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<McpOauthResource>,
}

/// A parameter of the address of a sign-in page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpOauthParameter {
    /// Name of the parameter. Those that OAuth itself needs can't be set.
    #[schemars(regex(pattern = r"^[a-z][A-Za-z0-9_.-]{0,63}$"))]
    pub name: String,
    /// Value of the parameter, which everybody can read who can read the Repo.
    #[schemars(length(max = 512))]
    pub value: String,
}

/// Source of the knowledge that an authorization server knows PKCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpPkce {
    /// A person has read it in the server's documentation.
    Assumed,
}

/// Use of the parameter `resource` in requests to an authorization server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpOauthResource {
    /// No request has it.
    Omitted,
}

/// Scope of a running server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpScope {
    /// Each Thread has a server of its own.
    #[default]
    Thread,
    /// All Threads of the Repo share one server.
    Repo,
}

/// Access of a server to the worktree of its Thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpWorktree {
    /// The server can read the worktree, at `/workspace`.
    ReadOnly,
}

/// Tools of a server that may be used, by its own names, with `*` and `?`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolRules {
    /// Tools that may be used; all of the server's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    pub allow: Vec<String>,
    /// Tools that may not be used, whatever `allow` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    pub deny: Vec<String>,
}

/// Risk of calls of some tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpRiskRule {
    /// Tools that the rule holds for, by the server's own names, with `*` and `?`.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 256)))]
    pub tools: Vec<String>,
    /// Risk that calls of those tools have.
    pub risk: McpRisk,
}

/// Status of a Repo's MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    /// Name in `spec.mcpServers`.
    pub name: String,
    /// True if it answered when it was last asked.
    pub ready: bool,
    /// Version that the server says of itself, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Number of tools that may be used.
    #[serde(default)]
    pub tools: u32,
    /// Time since which this state holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Reason why the server is not ready, for people. Empty if nothing is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For a server with an `image` that was used: a hash of the entry and its Secrets as they were then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub used_spec: String,
}

/// A Thread's use of its Repo's MCP servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMcp {
    /// State by the server's name in `spec.mcpServers`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, ThreadMcpServer>,
}

/// A Thread's use of one MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMcpServer {
    /// Calls that were carried out.
    #[serde(default)]
    pub calls: u32,
    /// Pod of the server that belongs to this Thread, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<McpPod>,
    /// Slack user id of who was sent a link to sign in, until a call gets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub sign_in: Option<String>,
    /// Roles that need that sign-in: it wakes those of them that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 63)))]
    pub sign_in_roles: Vec<String>,
    /// Tools that people have allowed for this Thread: hashes of their names and definitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub allowed: Vec<String>,
    /// Slack user ids of those who have allowed them, by such a hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allowed_by: BTreeMap<String, String>,
    /// The latest form of each tool that was called, as such a hash: a tool that changes afterwards is asked about,
    /// whatever it says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub seen: Vec<String>,
    /// Short definitions of such tools, masked, so that a change can be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 2100)))]
    pub forms: Vec<String>,
    /// Latest calls that may have changed something: hashes of their keys. They are not repeated, even by another
    /// gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub keys: Vec<String>,
}

/// The pod of a server with an `image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpPod {
    /// Time of the latest use that needs the pod: the controller starts it, and keeps it for `idleSeconds`
    /// afterwards. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Time>,
    /// A hash of the server for which the hosts of its Secrets were checked: no other one is started. (Gateway.)
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec: String,
    /// UID of the pod that speaks for the server. (Controller.)
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// A sentence about what keeps it from working. (Controller.)
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trouble: String,
    /// Condition that the starting pod waits for, such as the pull of its image. (Controller.)
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits: String,
    /// A hash of the revisions of its Secrets: a pod that was started with others is replaced. (Gateway.)
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secrets: String,
}

const fn idle_seconds() -> u32 {
    300
}
const fn sampling_tokens() -> u32 {
    2_000
}
const fn sampling_calls() -> u32 {
    10
}
const fn call_seconds() -> u32 {
    90
}
