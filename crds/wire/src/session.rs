//! Session of a role: everything that it knows when it starts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RiskTier;
use crate::SlackTs;
use crate::{EditForm, RoleDecision};
use crate::{NanoUsd, PlanComplexity, PostedPlan, PullRequest, TokenUsage};

/// The answer to a pod that waits for a Thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeatAnswer {
    /// The name of the Thread that has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The branch to have a clone of until then.
    pub base_branch: String,
    /// Folders that the clone has. The whole repository if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sparse: Vec<String>,
    /// Set-up of that clone, if commands of some role will work in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_up: Option<SeatSetUp>,
}

/// How the set-up of such a clone ended: what a seat tells with its next question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SeatSetUpEnd {
    /// All of its commands succeeded.
    Done,
    /// A command failed, or took too long.
    Failed,
}

impl SeatSetUpEnd {
    /// Its word in the query.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The set-up of a clone that waits for a Thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeatSetUp {
    /// The Repo's command; without one it is found by the files in the clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// True if no command may run while the pod can reach anything but the gateway.
    pub requires_enforcement: bool,
}

/// Everything a role needs to know to start a run. Taken once per turn boundary.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own on the wire")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleSession {
    /// Namespace of the Thread and its Repo.
    pub namespace: String,
    /// Name of the Thread that the role is in.
    pub thread: String,
    /// Name of the Thread's Repo.
    pub repo: String,
    /// Short name of the caller's role.
    pub role: String,
    /// Id of the model to ask for.
    pub model: String,
    /// The role's own bound on what any model is shown, in tokens.
    #[serde(default)]
    pub context_tokens: Option<u32>,
    /// The role's own bound on an answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Facts about the models that the role may use, by id. One that is not here is assumed to be
    /// [`ModelFacts::default`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, ModelFacts>,
    /// Names of the tools that the role has.
    pub tools: Vec<String>,
    /// The decisions that it may ask people for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<RoleDecision>,
    /// Maximum number of model calls per run.
    pub max_turns: u32,
    /// Maximum duration of a run, in seconds.
    pub timeout_seconds: u32,
    /// Seconds to stay with nothing to do.
    pub idle_timeout_seconds: u32,
    /// Additional instructions from the AgentRole.
    pub prompt: Option<String>,
    /// The roles of this Repo, the caller included.
    pub roles: Vec<RoleCard>,
    /// The thread's own branch; published on the remote before this is answered.
    pub branch: String,
    /// The branch that a pull request targets.
    pub base_branch: String,
    /// The commit of the base branch from which this call made `branch`, which is at it; nothing if it did not make
    /// it, or has added to it.
    pub base_commit: Option<String>,
    /// Another item's work from which `branch` was made, where that was not to wait for its merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacked_on: Option<StackedBranch>,
    /// The current plan, approved or not.
    pub plan: Option<PostedPlan>,
    /// Text of the approved plan, as it was approved; absent if it can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_text: Option<String>,
    /// Names of this conversation's people, by their id. Their own words, made harmless.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub people: BTreeMap<String, String>,
    /// The pull request, if there is one.
    pub pull_request: Option<PullRequest>,
    /// Newest message that an ended run of this role had taken.
    pub done: Option<SlackTs>,
    /// `ts` of the conversation's first message.
    pub root: SlackTs,
    /// Usage so far, by role.
    pub usage: Vec<(String, TokenUsage)>,
    /// Models that a user may switch the role to, `model` included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The model to go on with where `model` is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stronger: Option<String>,
    /// True if `stronger` is the role's model for complex work, and not only another view.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steps_up: bool,
    /// True if `model` itself is the role's model for complex work: `stronger` is only another view then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_strongest: bool,
    /// The Repo's risk tiers by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_overrides: BTreeMap<String, RiskTier>,
    /// The command whose success proves a change: the Repo's, or else that of the approved plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Files and folders that the approved plan names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
    /// Complexity of the work by the approved plan: the reason for `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<PlanComplexity>,
    /// The conversation's first message, for roles that write down where something was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The team looks back on this conversation before it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub looks_back: bool,
    /// The conversation is one of several about which people are asked together, when all of them are done: what is
    /// to be learned from it is proposed then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub learns_later: bool,
    /// The most that looking back may cost, roles that are asked included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_back_limit: Option<NanoUsd>,
    /// True if it leaves a journal in the repository.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_journal: bool,
    /// Answers that people said did not help, for a role that looks back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unhelpful: Vec<UnhelpfulAnswer>,
    /// True if it is the first conversation about this repository.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_first: bool,
    /// The cheaper model that reviews first, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_pass: Option<String>,
    /// The cheaper model that takes the first look at a conversation without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_look: Option<String>,
    /// The Repo's command that prepares a worktree; without one it is found by the files in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Folders of the repository that a new clone has. The whole of it if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sparse: Vec<String>,
    /// Hosts that the role's commands reach, as the Repo lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Requests to answer at the same time.
    #[serde(default = "one")]
    pub parallelism: u32,
}

const fn one() -> u32 {
    1
}

/// An answer that did not help a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnhelpfulAnswer {
    /// `ts` of the answer's message.
    pub message: SlackTs,
    /// Role that gave the answer.
    pub role: String,
    /// Slack user id of the person who says so.
    pub by: String,
    /// The message that says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<SlackTs>,
}

/// The work of another item that a branch begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackedBranch {
    /// Id of that other item.
    pub item: String,
    /// The commit that has its work, as people were asked whether to merge it.
    pub commit: String,
}

/// Commits of a branch that began on others: the base branch has all that they lead to, under other names where the
/// host squashed or rebased it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedBelow {
    /// The newest one of each branch that is merged.
    pub commits: Vec<String>,
}

/// Facts about a model: from the provider, or from the Repo, which takes precedence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelFacts {
    /// Tokens that it takes, the answer included.
    pub context_tokens: u32,
    /// Longest answer, in tokens, reasoning included.
    pub max_tokens: Option<u32>,
    /// True if it accepts images. Unknown: it is tried.
    pub sees: Option<bool>,
    /// True if it is known to take sounds in a conversation.
    pub hears: bool,
    /// True if it can call tools. Unknown: it is tried.
    pub tools: Option<bool>,
    /// Form of the provider's prompt cache.
    pub cache: CacheForm,
    /// The form in which it was trained to change files.
    pub edits: EditForm,
}

impl Default for ModelFacts {
    /// Facts that hold for all but the smallest models of today.
    fn default() -> Self {
        Self {
            context_tokens: 128_000,
            max_tokens: None,
            sees: None,
            hears: false,
            tools: None,
            cache: CacheForm::default(),
            edits: EditForm::default(),
        }
    }
}

/// Form in which a provider caches the beginning of a conversation, to sell it for less the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CacheForm {
    /// The provider caches by itself, or not at all: nothing is to be sent.
    #[default]
    Automatic,
    /// Up to where `cache_control: {"type": "ephemeral"}` stands on a content part (Anthropic, and Qwen
    /// on Alibaba): at most four.
    Marked,
}

/// A role as the other roles know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleCard {
    /// Short name; `@codebutler.<role>` addresses it.
    pub role: String,
    /// Display name in Slack.
    pub name: String,
    /// Description in one sentence.
    pub description: String,
    /// True if it carries out what people approve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implements: bool,
    /// True if it reviews the work of the role that carries it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reviews: bool,
    /// True if it asks whether to merge, and decides between others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leads: bool,
}
