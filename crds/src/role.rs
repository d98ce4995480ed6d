//! `AgentRole`: what a role is. Everything that tells one role from another is data in here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tools that agents know: what `spec.tools.allow` may name.
pub const TOOLS: [&str; 16] = [
    "Read",
    "Write",
    "Edit",
    "Bash",
    "Grep",
    "Glob",
    "GitLog",
    "GitDiff",
    "GitCommit",
    "GitPush",
    "WebFetch",
    "WebSearch",
    "GHCreatePR",
    "GHStatus",
    "SendMessage",
    "CloseThread",
];

/// A role that an agent plays in a Thread: its model, tools, rights, prompt and pod.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "codebutler.dev",
    version = "v1alpha1",
    kind = "AgentRole",
    plural = "agentroles",
    namespaced,
    status = "AgentRoleStatus",
    derive = "PartialEq",
    category = "codebutler",
    shortname = "agr",
    selectable = ".spec.role",
    doc = "A role that an agent plays in a Thread: its model, tools, rights, prompt and pod.",
    printcolumn = r#"{"name":"Role","type":"string","jsonPath":".spec.role"}"#,
    printcolumn = r#"{"name":"Model","type":"string","jsonPath":".spec.model.default"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.workspace.image","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AgentRoleSpec {
    /// The role's short name: `@codebutler.<role>` addresses it.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9]{0,15}$"))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "an AgentRole stays the role that it is: create another one"}]))]
    pub role: String,
    /// How it appears in Slack.
    pub display: Display,
    /// What the other roles are told about it, in one sentence.
    #[serde(default)]
    #[schemars(length(max = 400))]
    pub description: String,
    /// The phase a Thread is in while this role is the last one that ran. Informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z]{1,16}$"))]
    pub phase: Option<String>,
    /// Which model it thinks with.
    pub model: RoleModel,
    /// Which tools it is offered. Tools with an outside effect are refused by the gateway as well.
    #[serde(default)]
    pub tools: Tools,
    /// Whether it may push, and under which condition. Absent: it may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<PushRights>,
    /// When a run ends by force.
    #[serde(default)]
    pub limits: RunLimits,
    /// Instructions added to the repository's own `.codebutler/<role>.md` or the seed's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub prompt: Option<String>,
    /// Where its commands run.
    #[serde(default)]
    pub workspace: Workspace,
    /// How long its pod stays with nothing to do.
    #[serde(default = "idle_timeout")]
    #[schemars(range(min = 0, max = 86_400))]
    pub idle_timeout_seconds: u32,
    /// Labels of the nodes its pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints its pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// RuntimeClass of its pods, such as `gvisor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// Requests that the role answers at the same time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16))]
    pub parallelism: u32,
}

/// A role's name and picture in Slack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Display {
    /// Shown as the sender.
    #[schemars(length(min = 1, max = 80))]
    pub name: String,
    /// An emoji such as `:hammer:`.
    #[schemars(regex(pattern = r"^:[a-z0-9_+-]{1,64}:$"))]
    pub icon: String,
}

/// A role's models, by the provider's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleModel {
    /// Used unless something else is asked for.
    #[schemars(length(min = 1, max = 200))]
    pub default: String,
    /// Models that users may switch to, and that stand in, in this order, while the default fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 200)))]
    pub pool: Vec<String>,
    /// Models by how complex the plan says the work is; the default where one is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<ModelTiers>,
    /// The model that makes images; the role makes none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub image: Option<String>,
    /// The model that writes down what is said; the role hears nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub audio: Option<String>,
}

impl RoleModel {
    /// Every model the role may ask for, the default first.
    pub fn allowed(&self) -> impl Iterator<Item = &str> {
        let tiers = self.tiers.iter().flat_map(|t| [&t.simple, &t.medium, &t.complex]).flatten();
        let others = self.pool.iter().chain(tiers).chain(&self.image).chain(&self.audio);
        std::iter::once(&self.default).chain(others).map(String::as_str)
    }
}

impl RoleModel {
    /// Where the default gets stuck: the model for complex work, or the first of the pool.
    #[must_use]
    pub fn stronger(&self) -> Option<&str> {
        let complex = self.tiers.as_ref().and_then(|tiers| tiers.complex.as_ref());
        complex.or(self.pool.first()).map(String::as_str).filter(|model| *model != self.default)
    }
}

/// Models by the work's complexity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelTiers {
    /// A line or two, one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub simple: Option<String>,
    /// Several files, known ground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub medium: Option<String>,
    /// Design work, or stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub complex: Option<String>,
}

/// A role's tools by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tools {
    /// The tools it has. Nothing else exists for it.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub allow: Vec<String>,
    /// Tools taken out of `allow`; for a GitOps overlay on the shipped roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub deny: Vec<String>,
}

impl Tools {
    /// The tools that the role has, in the order of `allow`.
    pub fn offered(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().filter(|tool| !self.deny.contains(tool)).map(String::as_str)
    }
}

/// Under which condition a role may push its thread's branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushRights {
    /// Refuse pushes and pull requests until a user has approved the thread's plan.
    #[serde(default = "yes")]
    pub needs_approved_plan: bool,
    /// Whether it may rewrite what is on its thread's branch already (`git push --force`).
    #[serde(default)]
    pub rewrite: bool,
}

/// Limits of one run: from waking up to waiting or being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLimits {
    /// Model calls.
    #[serde(default = "turns")]
    #[schemars(range(min = 1, max = 1000))]
    pub turns: u32,
    /// Wall-clock seconds.
    #[serde(default = "timeout")]
    #[schemars(range(min = 10, max = 86_400))]
    pub timeout_seconds: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { turns: turns(), timeout_seconds: timeout() }
    }
}

/// The container in which a role's commands run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Any image with a shell and the repository's tools; the operator's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Its requests and limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Literal environment variables. References to Secrets do not exist here on purpose.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What confines a command inside the container.
    #[serde(default)]
    pub sandbox: Sandbox,
}

/// The second wall around a command; the first is the container without secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Sandbox {
    /// The kernel's Landlock; commands are refused where it can't be enforced in full.
    #[default]
    Landlock,
    /// The pod's runtime (gVisor, Kata), which has no Landlock.
    Runtime,
}

/// What is known of an AgentRole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRoleStatus {
    /// The generation that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

const fn yes() -> bool {
    true
}
const fn one() -> u32 {
    1
}
const fn turns() -> u32 {
    50
}
const fn timeout() -> u32 {
    3600
}
const fn idle_timeout() -> u32 {
    300
}
