//! Workspace of a role: the container in which its commands run, and the sandbox that confines them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spelling::SpelledWord;

/// The container in which a role's commands run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// Any image with a shell and the repository's tools; the operator's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Resource requests and limits of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Literal environment variables. References to Secrets do not exist here on purpose.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 64,
        "x-kubernetes-validations" = [{
            "rule": "self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
            "message": "a variable's name has letters, digits and _, and begins with no digit"
        }]
    ))]
    pub env: BTreeMap<String, String>,
    /// Sandbox that confines a command inside the container; `Landlock` if absent.
    #[serde(default, skip_serializing_if = "SpelledWord::is_default")]
    pub sandbox: SpelledWord<SandboxKind>,
    /// Access of commands to the Thread's worktree; `ReadWrite` if absent.
    #[serde(default, skip_serializing_if = "SpelledWord::is_default")]
    pub worktree: SpelledWord<WorktreeAccess>,
}

/// Access of a role's commands to the worktree that the roles of a Thread share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorktreeAccess {
    /// Commands read and write the shared worktree.
    #[default]
    ReadWrite,
    /// They work in a copy of the role's own, which follows the worktree and is thrown away with the
    /// Thread: tests run in it, and nothing that they do reaches the worktree, `.git` or another
    /// role. Such a role has no Write, Edit, GitCommit, GitUpdate or GitPush. It needs `sandbox: Landlock`.
    ReadOnly,
}

/// The second wall around a command; the first is the container without secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SandboxKind {
    /// The kernel's Landlock; commands are refused where it can't be enforced in full.
    #[default]
    Landlock,
    /// The pod's runtime (gVisor, Kata), which has no Landlock.
    Runtime,
}
