//! What a Repo forbids, masks and wants a person for.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use codebutler_redact::RedactionRule;
pub use codebutler_wire::RiskTier;

/// Who may steer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessSpec {
    /// Slack user ids that may start threads, approve, steer and merge. Empty: everybody in the
    /// channel may start and steer, and full members of the app's own workspace approve and merge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(regex(pattern = r"^[UW][A-Z0-9]{2,20}$")))]
    pub users: Vec<String>,
}

/// Where commands and web tools may connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressSpec {
    /// Hosts such as `docs.acme.dev`, `*.widgets.dev` or `registry.internal:8443`. Without a port: 443 and
    /// 80. Nothing else can be reached from a workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        inner(regex(
            pattern = r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$"
        ))
    )]
    pub hosts: Vec<String>,
    /// Refuse to run where the cluster lets agent pods connect past the gateway.
    #[serde(default = "yes")]
    pub require_enforcement: bool,
}

impl Default for EgressSpec {
    fn default() -> Self {
        Self { hosts: Vec::new(), require_enforcement: true }
    }
}

/// Rules on top of the roles' own rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Risk tier by tool; it can only make a tool's own tier stricter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_overrides: BTreeMap<String, RiskTier>,
    /// What waits for a permitted user's consent each time, plan or no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub require_approval: Vec<Guarded>,
    /// What is masked, besides the built-in patterns, in everything that leaves as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub redaction: Vec<RedactionRule>,
    /// Whether the same is masked in what models are sent. What is masked then is not known to them:
    /// a role can't work with an address or a credential that it never sees.
    #[serde(default)]
    pub redact_models: bool,
    /// Glob patterns of files that no role may push a change to.
    #[serde(default = "protected")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 256)))]
    pub protected_paths: Vec<String>,
    /// Seconds that people have to answer a question about one action.
    #[serde(default = "approval_seconds")]
    #[schemars(range(min = 1, max = 604_800))]
    pub approval_seconds: u32,
    /// Largest file that a role may push, in MiB.
    #[serde(default = "file_mib")]
    #[schemars(range(min = 1, max = 100))]
    pub max_file_mib: u32,
    /// Largest push, packed, in MiB.
    #[serde(default = "push_mib")]
    #[schemars(range(min = 1, max = 2048))]
    pub max_push_mib: u32,
}

impl Default for PolicySpec {
    fn default() -> Self {
        Self {
            tool_overrides: BTreeMap::new(),
            require_approval: Vec::new(),
            redaction: Vec::new(),
            redact_models: false,
            protected_paths: protected(),
            approval_seconds: approval_seconds(),
            max_file_mib: file_mib(),
            max_push_mib: push_mib(),
        }
    }
}

/// Effects that can be made to wait for consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Guarded {
    /// A push to the thread's branch.
    Push,
    /// Opening a pull request.
    PullRequest,
}

const fn yes() -> bool {
    true
}
const fn approval_seconds() -> u32 {
    86_400
}
const fn file_mib() -> u32 {
    10
}
const fn push_mib() -> u32 {
    100
}
fn protected() -> Vec<String> {
    [".github/**", "CODEOWNERS", "docs/CODEOWNERS"].map(str::to_owned).into()
}
