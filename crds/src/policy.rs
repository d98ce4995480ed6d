//! Policy of a Repo: actions that it forbids, text that it masks, and effects that need a person's consent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use codebutler_redact::RedactionRule;
pub use codebutler_wire::RiskTier;

use crate::egress::EgressPreset;
use crate::spelling::OutdatedSpelling;

/// People who may start, steer and approve work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessSpec {
    /// Slack user ids that may start threads, approve, steer and merge; the id of a user group (`S0123ABC`) stands
    /// for its members, whom the app sees with the scope `usergroups:read`. Empty: everybody in the channel may start
    /// and steer, and full members of the app's own workspace approve and merge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(regex(pattern = r"^[UWS][A-Z0-9]{2,20}$")))]
    pub users: Vec<String>,
}

/// Hosts that commands and web tools may connect to.
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
    /// Ecosystems whose registries commands may connect to as well. `charts/codebutler/EGRESS.md` lists the hosts
    /// of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub presets: Vec<EgressPreset>,
    /// Refuse to run where the cluster lets agent pods connect past the gateway.
    #[serde(default = "yes")]
    pub require_enforcement: bool,
    /// Let roles work also where agent pods can connect to the node that they run on. The network plugins of EKS (VPC
    /// CNI) and kind always allow that. Commands then reach what listens on the node, such as the kubelet. Every other
    /// way past the gateway still has to be closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_own_node: bool,
}

impl Default for EgressSpec {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            presets: Vec::new(),
            require_enforcement: true,
            allow_own_node: false,
        }
    }
}

impl EgressSpec {
    /// Every host that commands may connect to: those that are named, and those of the presets.
    pub fn all_hosts(&self) -> impl Iterator<Item = &str> {
        let presets = self.presets.iter().flat_map(|preset| preset.hosts());
        self.hosts.iter().map(String::as_str).chain(presets.map(|host| host.name))
    }
}

/// Rules on top of the roles' own rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.maxFileSize) || !has(self.maxFileMib) || self.maxFileMib == 10",
        "message": "maxFileMib is what maxFileSize was before: leave it out"
    },
    {
        "rule": "!has(self.maxPushSize) || !has(self.maxPushMib) || self.maxPushMib == 100",
        "message": "maxPushMib is what maxPushSize was before: leave it out"
    }
]))]
pub struct PolicySpec {
    /// Risk tier by tool; it can only make a tool's own tier stricter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_overrides: BTreeMap<String, RiskTier>,
    /// Effects that need a permitted user's consent each time, plan or no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub require_approval: Vec<GuardedEffects>,
    /// Patterns that are masked, besides the built-in ones, in everything that leaves as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub redaction: Vec<RedactionRule>,
    /// If true, the same is masked in what models are sent, so that they don't know it: a role can't work with an
    /// address or a credential that it never sees. False by default.
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
    /// Largest file that a role may push, 10Mi if absent: a quantity of 1Mi to 100Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([1-9][0-9]?|100)Mi$"))]
    pub max_file_size: Option<String>,
    /// Largest push, packed, 100Mi if absent: a quantity of 1Mi to 2Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^([1-9][0-9]{0,2}|1[0-9]{3}|20[0-3][0-9]|204[0-8])Mi$|^[12]Gi$"
    ))]
    pub max_push_size: Option<String>,
    /// Older spelling of `maxFileSize`, in MiB. Read until v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_file_mib: Option<u32>,
    /// Older spelling of `maxPushSize`, in MiB. Read until v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2048))]
    pub max_push_mib: Option<u32>,
}

/// Default limits of pushes, in MiB. Where the old fields have these values, an older definition may have filled them
/// in.
const FILE_MIB: u32 = 10;
const PUSH_MIB: u32 = 100;

impl PolicySpec {
    /// Largest file that a role may push, in MiB.
    #[must_use]
    pub fn file_mib(&self) -> u32 {
        self.max_file_size.as_deref().and_then(parse_mib).or(self.max_file_mib).unwrap_or(FILE_MIB)
    }

    /// Largest push, packed, in MiB.
    #[must_use]
    pub fn push_mib(&self) -> u32 {
        self.max_push_size.as_deref().and_then(parse_mib).or(self.max_push_mib).unwrap_or(PUSH_MIB)
    }

    /// Fields that are to be written in another way.
    pub fn outdated(&self) -> impl Iterator<Item = OutdatedSpelling> {
        let file = self.max_file_mib.filter(|old| *old != FILE_MIB);
        let push = self.max_push_mib.filter(|old| *old != PUSH_MIB);
        let told = |field, old: u32, name: &str, new: &str| {
            let (old, new) = (format!("{name}: {old}"), format!("{new}: {old}Mi"));
            OutdatedSpelling { field, old, new }
        };
        let file = file.map(|old| told("spec.policy", old, "maxFileMib", "maxFileSize"));
        let push = push.map(|old| told("spec.policy", old, "maxPushMib", "maxPushSize"));
        file.into_iter().chain(push)
    }
}

fn parse_mib(size: &str) -> Option<u32> {
    let gib = size.strip_suffix("Gi").and_then(|n| n.parse::<u32>().ok()?.checked_mul(1024));
    gib.or_else(|| size.strip_suffix("Mi")?.parse().ok())
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
            max_file_size: None,
            max_push_size: None,
            max_file_mib: None,
            max_push_mib: None,
        }
    }
}

/// Effects that can be made to wait for consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GuardedEffects {
    /// A push to the thread's branch.
    Push,
    /// Opening of a pull request.
    PullRequest,
}

const fn yes() -> bool {
    true
}
const fn approval_seconds() -> u32 {
    86_400
}
fn protected() -> Vec<String> {
    [".github/**", "CODEOWNERS", "docs/CODEOWNERS"].map(str::to_owned).into()
}
