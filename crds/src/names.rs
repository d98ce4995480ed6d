//! Names that more than one process has to agree on.

use crate::SlackTs;

/// Label on every child object: the Repo it belongs to.
pub const LABEL_REPO: &str = "codebutler.dev/repo";
/// Label on every child object: the Thread it belongs to.
pub const LABEL_THREAD: &str = "codebutler.dev/thread";
/// Label on pods: the role that runs in it. For people and selectors; it proves nothing.
pub const LABEL_ROLE: &str = "codebutler.dev/role";
/// Label on the pod of a server of `spec.mcpServers`: its name. It proves nothing either.
pub const LABEL_MCP_SERVER: &str = "codebutler.dev/mcp-server";
/// Label on pods that were made as a seat, with its name. It proves nothing.
pub const LABEL_SEAT: &str = "codebutler.dev/seat";
/// Label on Threads that nobody asked for in Slack: what began them, such as `schedule`.
pub const LABEL_ORIGIN: &str = "codebutler.dev/origin";
/// `app.kubernetes.io/managed-by` of every child, and its well-known sisters' values.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`LABEL_MANAGED_BY`] and the field manager of applied children.
pub const CONTROLLER: &str = "codebutler-controller";
/// The field manager of what the gateway writes.
pub const GATEWAY: &str = "codebutler-gateway";
/// The ClusterRole that a team binds so that the gateway reads its namespace's Secrets.
pub const SECRETS_ROLE: &str = "codebutler-gateway-secrets";
/// The Secret in which the gateway keeps people's sign-ins to servers of `spec.mcpServers`, in each Repo's namespace.
pub const MCP_TOKENS: &str = "codebutler-mcp-tokens";
/// Annotation on a Secret: comma-separated hosts (`host` or `host:port`) that it may be sent to.
pub const ANNOTATION_HOSTS: &str = "codebutler.dev/hosts";
/// Annotation on the Thread of each item of a roadmap: the budget of all items together, in USD. It stays known where
/// their parent is gone.
pub const ANNOTATION_ROADMAP_BUDGET: &str = "codebutler.dev/roadmap-budget";
/// The Thread of the item from whose branch an item's own begins, as that one was not merged yet.
pub const ANNOTATION_STACKED_ON: &str = "codebutler.dev/stacked-on";
/// Annotation on the Lease of the gateways' first shard: the number of shards in force. One without it.
pub const ANNOTATION_SHARDS: &str = "codebutler.dev/shards";
/// Label of a ConfigMap that AgentRoles may read instructions from.
pub const LABEL_PROMPT: &str = "codebutler.dev/prompt";
/// Finalizer of a Thread whose Slack conversation has to be told before it goes.
pub const FINALIZER: &str = "codebutler.dev/cleanup";
/// Audience of the token by which an agent pod proves who it is.
pub const TOKEN_AUDIENCE: &str = "codebutler-gateway";
/// ConfigMap with the gateway's CA certificate, in the gateway's namespace (written by it) and in
/// each Repo's namespace (copied by the controller). Key: [`CA_KEY`].
pub const CA_CONFIG_MAP: &str = "codebutler-gateway-ca";
/// The key of the PEM bundle inside [`CA_CONFIG_MAP`].
pub const CA_KEY: &str = "ca.crt";

/// Keys inside the Secrets that a Repo names.
pub mod secret_key {
    /// Slack bot token (`xoxb-…`).
    pub const SLACK_BOT_TOKEN: &str = "botToken";
    /// Slack app-level token for Socket Mode (`xapp-…`).
    pub const SLACK_APP_TOKEN: &str = "appToken";
    /// Token for Git and the GitHub API.
    pub const GIT_TOKEN: &str = "token";
    /// Id (or client id) of a GitHub App, in place of a token.
    pub const GIT_APP_ID: &str = "appId";
    /// Id of the App's installation; found by the repository if absent.
    pub const GIT_INSTALLATION_ID: &str = "installationId";
    /// The App's private key, as PEM.
    pub const GIT_PRIVATE_KEY: &str = "privateKey";
    /// The product at whoever says who people are, for its pages.
    pub const CLIENT_ID: &str = "clientId";
    /// OAuth client secret that goes with [`CLIENT_ID`].
    pub const CLIENT_SECRET: &str = "clientSecret";
    /// Secret that deliveries are signed with (`whsec_…`).
    pub const SIGNING_SECRET: &str = "signingSecret";
    /// API key of the model provider.
    pub const MODEL_API_KEY: &str = "apiKey";
}

pub use codebutler_wire::pod;

/// Longest Repo name for which every derived name stays a valid label value and host name (63).
pub const MAX_REPO_NAME: usize = 32;

/// The Thread of a Slack conversation: `<repo>-<seconds>-<micros>` of its first message.
#[must_use]
pub fn thread_name(repo: &str, ts: &SlackTs) -> String {
    let (secs, micros) = ts.parts();
    format!("{repo}-{secs}-{micros:06}")
}

/// The branch of a Thread. Derived from its name, never from a message: a message's text must reach
/// neither etcd nor a shell.
#[must_use]
pub fn branch_name(thread: &str) -> String {
    format!("codebutler/{thread}")
}

/// The pod of a role in a Thread.
#[must_use]
pub fn pod_name(thread: &str, role: &str) -> String {
    format!("{thread}-{role}")
}

/// Separator between the names of its owner and of its server in the name of a server's pod. No role's name has a
/// dot.
const MCP: &str = ".mcp.";

/// The pod of a server that belongs to a Thread or a Repo.
#[must_use]
pub fn mcp_pod_name(owner: &str, server: &str) -> String {
    format!("{owner}{MCP}{server}")
}

/// The server whose pod has this name; none if it is another pod of `owner`.
#[must_use]
pub fn server_of_pod<'a>(owner: &str, pod: &'a str) -> Option<&'a str> {
    pod.strip_prefix(owner)?.strip_prefix(MCP)
}

/// The worktree volume claim of a Thread that has taken no seat.
#[must_use]
pub fn volume_claim(thread: &str) -> String {
    thread.to_owned()
}

/// Separator between a Repo's name and a seat's own part.
const SEAT: &str = "-seat-";
/// The same for a volume that is prepared.
const PREPARED: &str = "-prep-";
/// Length of the random part of a seat's name.
const SEAT_ID: usize = 8;

/// A seat of a Repo, and its volume claim. Its pod is [`pod_name`] of it.
#[must_use]
pub fn seat_name(repo: &str, id: u32) -> String {
    format!("{repo}{SEAT}{id:08x}")
}

/// The claim of a Repo's prepared volume. Its pod is [`pod_name`] of it.
#[must_use]
pub fn prepared_name(repo: &str, id: u32) -> String {
    format!("{repo}{PREPARED}{id:08x}")
}

/// The seat and the role of a pod that was made as one; none if it was not.
#[must_use]
pub fn seat_of_pod<'a>(repo: &str, pod: &'a str) -> Option<(&'a str, &'a str)> {
    part_of_pod(repo, SEAT, pod)
}

/// The claim and the role of a pod that prepares a volume; none of another pod.
#[must_use]
pub fn prepared_of_pod<'a>(repo: &str, pod: &'a str) -> Option<(&'a str, &'a str)> {
    part_of_pod(repo, PREPARED, pod)
}

fn part_of_pod<'a>(repo: &str, kind: &str, pod: &'a str) -> Option<(&'a str, &'a str)> {
    let own = pod.strip_prefix(repo)?.strip_prefix(kind)?;
    let (id, role) = (own.get(..SEAT_ID)?, own.get(SEAT_ID..)?.strip_prefix('-')?);
    let is_id = id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let seat = pod.get(..repo.len() + kind.len() + SEAT_ID)?;
    (is_id && !role.is_empty()).then_some((seat, role))
}

/// The ServiceAccount, without rights, of a Repo's agent pods.
#[must_use]
pub fn service_account(repo: &str) -> String {
    format!("codebutler-{repo}")
}
