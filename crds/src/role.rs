//! `AgentRole`: what a role is. Everything that tells one role from another is data in here.

mod workspace;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use self::workspace::{SandboxKind, WorkspaceSpec, WorktreeAccess};
pub use codebutler_wire::{CHANGING, RoleDecision, TOOLS};

use crate::pods::{PodSettings, PullSecret};
use crate::spelling::{OutdatedSpelling, SpelledWord};
use crate::thread::PlanComplexity;

/// The tool of [`CHANGING`] that changes nothing where the role has its own copy.
const IN_COPY: &str = "Bash";

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
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.workspace.image","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    validation = Rule::new("!has(self.spec.prompt) || !has(self.spec.promptFrom)")
        .message("at most one of spec.prompt and spec.promptFrom"),
)]
#[serde(rename_all = "camelCase")]
pub struct AgentRoleSpec {
    /// The role's short name: `@codebutler.<role>` addresses it.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9]{0,15}$"))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "an AgentRole stays the role that it is: create another one"}]))]
    pub role: String,
    /// Name and icon of the role in Slack.
    pub display: RoleDisplay,
    /// Description that the other roles are told, in one sentence.
    #[serde(default)]
    #[schemars(length(max = 400))]
    pub description: String,
    /// The phase a Thread is in while this role is the last one that ran. Informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z]{1,16}$"))]
    pub phase: Option<String>,
    /// Models that it thinks with.
    pub model: RoleModel,
    /// Tools that it is offered. Tools with an outside effect are refused by the gateway as well.
    #[serde(default)]
    pub tools: ToolNames,
    /// Decisions that it may ask people for; by its place in the team if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 3))]
    pub decisions: Option<Vec<SpelledWord<RoleDecision>>>,
    /// Right to push, and its condition. Absent: it may not push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<PushRights>,
    /// Limits at which a run is ended by force.
    #[serde(default)]
    pub limits: RunLimits,
    /// Instructions added to the repository's own `.codebutler/<role>.md` or the seed's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub prompt: Option<String>,
    /// ConfigMap that holds such instructions instead, such as one made of the files of a Git repository. A change
    /// takes effect as one of `prompt` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_from: Option<PromptSource>,
    /// Container in which its commands run.
    #[serde(default)]
    pub workspace: WorkspaceSpec,
    /// Seconds for which its pod stays with nothing to do.
    #[serde(default = "idle_timeout")]
    #[schemars(range(min = 0, max = 86_400))]
    pub idle_timeout_seconds: u32,
    /// Settings that are added to its pods, over what the Repo adds to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<Box<PodSettings>>,
    /// The older spelling of `pods.nodeSelector`, which goes before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// The older spelling of `pods.tolerations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// The older spelling of `pods.runtimeClassName`, which goes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// The older spelling of `pods.priorityClassName`, which goes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// The older spelling of `pods.imagePullSecrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub image_pull_secrets: Vec<PullSecret>,
    /// Requests that the role answers at the same time, each in a conversation of its own. It needs a
    /// role without tools that change the worktree (Write, Edit, GitCommit, GitUpdate, GitPush, and Bash unless
    /// `workspace.worktree` is `ReadOnly`): one that has such a tool answers one after the other, and
    /// its condition `Parallel` says so.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16))]
    pub parallelism: u32,
}

/// One key of a ConfigMap in the AgentRole's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptSource {
    /// Name of the ConfigMap. It carries the label `codebutler.dev/prompt`, with any value, without
    /// which it is not looked at.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// The key in it, `prompt.md` if absent; at most 64 KiB of text.
    // No default of the schema: it would stay behind, alone and invalid, when an applier that owns
    // `configMap` alone takes the whole field back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[-._a-zA-Z0-9]{1,253}$"))]
    pub key: Option<String>,
}

impl PromptSource {
    /// Key of the ConfigMap to read, the default included.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or("prompt.md")
    }
}

/// A role's name and picture in Slack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleDisplay {
    /// Name of the sender of its messages.
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
    /// Id of the model that is used unless something else is asked for.
    #[schemars(length(min = 1, max = 200))]
    pub default: String,
    /// Models that users may switch to, and that stand in, in this order, while the default fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 200)))]
    pub pool: Vec<String>,
    /// A cheaper model that takes the first look at each conversation of a person's. It answers questions by itself;
    /// for a plan, for anything that other people see, and where it is in doubt, the default goes on with the whole
    /// conversation, once. The default from the beginning if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub first_look: Option<String>,
    /// Models by how complex the plan says the work is; the default where one is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<ModelTiers>,
    /// Most tokens that a model is shown, the answer included. A longer conversation is summed up. What
    /// the model in use takes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8000, max = 10_000_000))]
    pub context_tokens: Option<u32>,
    /// Longest answer, in tokens, reasoning included. What a call may cost is granted with it. The
    /// model's own limit, and 16,000 at most, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 256, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// Effort of the models' reasoning; each model's own default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ModelReasoning>,
    /// Restrictions on OpenRouter's providers; sent to no other API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<ModelRouting>,
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
        let others = self.image.iter().chain(&self.audio).map(String::as_str);
        self.talking().map(|(_, model)| model).chain(others)
    }

    /// The models that the role can talk with, the default first, each with the field that names it.
    /// One that is named twice comes twice.
    pub fn talking(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let tiers = self.tiers.iter().flat_map(|tiers| {
            [
                ("tiers.simple", &tiers.simple),
                ("tiers.medium", &tiers.medium),
                ("tiers.complex", &tiers.complex),
            ]
        });
        let tiers = tiers.filter_map(|(field, tier)| Some((field, tier.as_deref()?)));
        let pool = self.pool.iter().map(|model| ("pool", model.as_str()));
        let first_look = self.first_look.iter().map(|model| ("firstLook", model.as_str()));
        std::iter::once(("default", self.default.as_str()))
            .chain(pool)
            .chain(tiers)
            .chain(first_look)
    }
}

impl RoleModel {
    /// The model for work that is so hard.
    #[must_use]
    pub fn for_work(&self, complexity: Option<PlanComplexity>) -> &str {
        let tiers = self.tiers.as_ref();
        let tier = complexity.zip(tiers).and_then(|(complexity, tiers)| match complexity {
            PlanComplexity::Simple => tiers.simple.as_deref(),
            PlanComplexity::Medium => tiers.medium.as_deref(),
            PlanComplexity::Complex => tiers.complex.as_deref(),
        });
        tier.unwrap_or(&self.default)
    }

    /// Another model to try where `current` gets stuck: the model for complex work, or else another view, the first
    /// of the pool.
    #[must_use]
    pub fn stronger_than(&self, current: &str) -> Option<&str> {
        let complex = self.tiers.iter().filter_map(|tiers| tiers.complex.as_ref());
        complex.chain(&self.pool).map(String::as_str).find(|model| *model != current)
    }
}

/// Reasoning of models before they answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelReasoning {
    /// Reasoning effort. Left out for models that don't say that they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<ReasoningEffort>,
    /// Most tokens of thinking, for models that take a number. It has to be less than `maxTokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024, max = 128_000))]
    pub max_tokens: Option<u32>,
}

/// Reasoning effort of a model, as OpenRouter and OpenAI name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the provider's own words
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// Restrictions on OpenRouter's providers for a role's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelRouting {
    /// If true, only providers that know every parameter of the request, tools among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_parameters: Option<bool>,
    /// `deny`: only providers that keep nothing and train on nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_collection: Option<DataCollection>,
    /// If true, only endpoints with zero data retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zdr: Option<bool>,
    /// Providers to try first, in this order. Calls no longer stay with one provider by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub order: Vec<String>,
    /// The only providers that may answer. Any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub only: Vec<String>,
    /// Providers that may never answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub ignore: Vec<String>,
    /// If true, other providers stand in where those of `order` fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_fallbacks: Option<bool>,
}

/// Permission for providers to keep or train on what they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the provider's own words
pub enum DataCollection {
    Allow,
    Deny,
}

/// Models by the work's complexity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelTiers {
    /// Model for a line or two in one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub simple: Option<String>,
    /// Model for several files on known ground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub medium: Option<String>,
    /// Model for design work, or where work is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub complex: Option<String>,
}

/// Tools of a role, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolNames {
    /// The tools it has. Nothing else exists for it.
    #[serde(default)]
    #[schemars(schema_with = "tool_names")]
    pub allow: Vec<String>,
    /// Tools taken out of `allow`; for a GitOps overlay on the shipped roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "tool_names")]
    pub deny: Vec<String>,
}

impl ToolNames {
    /// The tools that the role has, in the order of `allow`.
    pub fn offered(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().filter(|tool| !self.deny.contains(tool)).map(String::as_str)
    }
}

/// Conditions under which a role may push its thread's branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushRights {
    /// Refuse pushes and pull requests until a user has approved the thread's plan.
    #[serde(default = "yes")]
    pub needs_approved_plan: bool,
    /// If true, it may rewrite what is on its thread's branch already (`git push --force`). False by default.
    #[serde(default)]
    pub rewrite: bool,
    /// Glob patterns of the only files that it may push a change to; a folder's name means all that
    /// is in it. Any file that the Repo does not protect if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 256)))]
    pub paths: Vec<String>,
    /// Beside `paths`: images at the paths that the approved plan names, or that people have allowed in the Thread.
    /// Without `paths` it means nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub planned_images: bool,
}

/// Limits of one run: from waking up to waiting or being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLimits {
    /// Model calls per run; 50 by default.
    #[serde(default = "turns")]
    #[schemars(range(min = 1, max = 1000))]
    pub turns: u32,
    /// Wall-clock seconds per run; 3600 by default.
    #[serde(default = "timeout")]
    #[schemars(range(min = 10, max = 86_400))]
    pub timeout_seconds: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { turns: turns(), timeout_seconds: timeout() }
    }
}

/// Status of an AgentRole, written by the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRoleStatus {
    /// The generation that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, `Reconciling`, `Stalled`, `Parallel`, `OldSpelling`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Text of `spec.promptFrom` when it was last read. Pods are started with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub prompt: Option<String>,
}

impl AgentRoleSpec {
    /// Fields that are to be written in another way. Defaults may have been filled in by an older
    /// definition, and nobody has written them.
    #[must_use]
    pub fn outdated(&self) -> Vec<OutdatedSpelling> {
        let WorkspaceSpec { sandbox, worktree, .. } = &self.workspace;
        let sandbox = sandbox.outdated("spec.workspace.sandbox").filter(|_| !sandbox.is_default());
        let worktree =
            worktree.outdated("spec.workspace.worktree").filter(|_| !worktree.is_default());
        sandbox.into_iter().chain(worktree).collect()
    }

    /// Requests that it answers at the same time: one if it could change the worktree under the
    /// others.
    #[must_use]
    pub fn at_once(&self) -> u32 {
        if self.changing().next().is_some() { 1 } else { self.parallelism.max(1) }
    }

    /// Settings that are added to its pods, the older spellings included.
    #[must_use]
    pub fn pod_settings(&self) -> PodSettings {
        let older = PodSettings {
            node_selector: self.node_selector.clone(),
            tolerations: self.tolerations.clone(),
            runtime_class_name: self.runtime_class_name.clone(),
            priority_class_name: self.priority_class_name.clone(),
            image_pull_secrets: self.image_pull_secrets.clone(),
            ..PodSettings::default()
        };
        self.pods.clone().unwrap_or_default().over(&older)
    }

    /// Tools of the role that change a worktree.
    pub fn changing(&self) -> impl Iterator<Item = &str> {
        let copy = *self.workspace.worktree == WorktreeAccess::ReadOnly;
        self.tools
            .offered()
            .filter(move |tool| CHANGING.contains(tool) && !(copy && *tool == IN_COPY))
    }
}

impl AgentRole {
    /// The instructions added to the repository's own: given here, or read from the ConfigMap.
    #[must_use]
    pub fn prompt(&self) -> Option<&str> {
        let read = || self.status.as_ref().and_then(|status| status.prompt.as_deref());
        let named = self.spec.prompt_from.is_some();
        self.spec.prompt.as_deref().or_else(|| if named { read() } else { None })
    }

    /// True if `spec.promptFrom` names instructions that have not been read yet.
    #[must_use]
    pub fn lacks_prompt(&self) -> bool {
        self.spec.prompt_from.is_some() && self.prompt().is_none()
    }
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
fn tool_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 64, "items": {
            "type": "string",
            "anyOf": [
                {"enum": TOOLS.as_slice()},
                {"pattern": r"^mcp__[A-Za-z0-9_.*?-]{1,96}$"},
            ],
        },
    })
}
const fn idle_timeout() -> u32 {
    300
}
