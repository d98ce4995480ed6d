//! `Repo`: a Git repository with the Slack channel in which a team talks about it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;
use crate::branches::BranchesSpec;
use crate::guides::{GuidesStatus, LearningOffer};
use crate::history::{ClosedThread, ThreadsSpec};
use crate::limits::LimitsSpec;
use crate::mcp::{MOST_SERVERS, McpPod, McpServerSpec, McpServerStatus};
pub use crate::model::{ModelApi, ModelNote, ModelProvider, ModelProviderSpec, ModelSpec};
use crate::pods::PodSettings;
use crate::policy::{AccessSpec, EgressSpec, PolicySpec};
use crate::prepared::PreparedStatus;
use crate::retrospective::RetrospectiveSpec;
use crate::review::ReviewSpec;
use crate::roadmap::RoadmapSpec;
pub use crate::secret_ref::SecretRef;
use crate::spelling::{OutdatedSpelling, SpelledWord};
use crate::spend::RepoSpend;
use crate::starts::{
    CommentsSpec, CommentsStatus, DeliveriesSpec, IssuesSpec, MOST_ISSUES, ScheduleSpec,
    ScheduleStatus,
};
use crate::unclear::UnclearConversation;
use crate::warm::{WarmSpec, WarmStatus};
use crate::web::WebSpec;
pub use crate::worktree::{AccessMode, WorktreeSpec};

/// A Git repository, its Slack channel, and the models and roles that work on it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "codebutler.dev",
    version = "v1alpha1",
    kind = "Repo",
    plural = "repos",
    namespaced,
    status = "RepoStatus",
    derive = "PartialEq",
    category = "codebutler",
    selectable = ".spec.slack.channel",
    doc = "A Git repository with the Slack channel in which a team talks about it.",
    printcolumn = r#"{"name":"Channel","type":"string","jsonPath":".spec.slack.channel"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Threads","type":"integer","jsonPath":".status.threads.open"}"#,
    printcolumn = r#"{"name":"Spent","type":"string","jsonPath":".status.spend.shown"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.git.url","priority":1}"#,
    printcolumn = r#"{"name":"MCP","type":"string","jsonPath":".status.conditions[?(@.type==\"McpServersReady\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Prepared","type":"string","jsonPath":".status.conditions[?(@.type==\"PreparedVolumeReady\")].reason","priority":1}"#,
    printcolumn = r#"{"name":"Prepared since","type":"date","jsonPath":".status.prepared.since","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    validation = Rule::new("self.metadata.name.size() <= 32")
        .message("a Repo's name is at most 32 characters, so that names derived from it stay valid"),
    validation = Rule::new("!self.metadata.name.contains('.')")
        .message("a Repo's name has no dots, so that names derived from it stay valid"),
    validation = Rule::new("self.spec.git.url == oldSelf.spec.git.url || !has(self.status) || !has(self.status.threads) || self.status.threads.open == 0")
        .message("spec.git.url: open Threads work on this repository: close or delete them first (kubectl get threads), or make another Repo"),
    validation = Rule::new("self.spec.slack.channel == oldSelf.spec.slack.channel || !has(self.status) || !has(self.status.threads) || self.status.threads.open == 0")
        .message("spec.slack.channel: open Threads are conversations of this channel: close or delete them first (kubectl get threads), or make another Repo"),
)]
#[serde(rename_all = "camelCase")]
pub struct RepoSpec {
    /// Git remote that holds the code.
    pub git: GitSpec,
    /// Slack channel that the team talks in.
    pub slack: SlackSpec,
    /// Model API that the roles call.
    pub model: ModelSpec,
    /// Names of the AgentRoles that may work here, looked up in the Repo's namespace and then in
    /// the operator's. The first one is addressed by messages that mention nobody.
    #[schemars(length(min = 1, max = 16))]
    pub roles: Vec<String>,
    /// The volume that each Thread works in.
    #[serde(default)]
    pub worktree: WorktreeSpec,
    /// Limits on slots, calls and money.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// People who may steer. Everybody in the channel by default.
    #[serde(default)]
    pub access: AccessSpec,
    /// Hosts that workspaces may connect to. None by default.
    #[serde(default)]
    pub egress: EgressSpec,
    /// Pages that web tools may read beside that, and who searches. As its defaults say, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebSpec>,
    /// Actions that are forbidden, text that is masked, and effects that wait for a person.
    #[serde(default)]
    pub policy: PolicySpec,
    /// Settings that are added to the pods of all its roles. An AgentRole's own `pods` take precedence over these,
    /// and these over what an installation adds to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<Box<PodSettings>>,
    /// Policy for its Threads, such as how long closed ones are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadsSpec>,
    /// Policy for keeping its Threads' branches up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branches: Option<BranchesSpec>,
    /// Conversations that the team looks back on before they are merged. Those in which more than one role worked on
    /// a pull request, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrospective: Option<RetrospectiveSpec>,
    /// Settings for the review of changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewSpec>,
    /// Settings for working off the roadmap in its repository, once somebody has that done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roadmap: Option<RoadmapSpec>,
    /// Threads that begin by the clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub schedules: Vec<ScheduleSpec>,
    /// Issues that begin work. None do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issues: Option<IssuesSpec>,
    /// Comments on issues and pull requests that begin work. None do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comments: Option<CommentsSpec>,
    /// Signed requests that begin work. None do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<DeliveriesSpec>,
    /// Servers of the Model Context Protocol whose tools roles may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_SERVERS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub mcp_servers: Vec<McpServerSpec>,
    /// Reminds people of questions that they have not answered. Nobody is reminded if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminders: Option<RemindersSpec>,
    /// Pods that wait for a conversation. None do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Box<WarmSpec>>,
    /// If true, no new work starts, and running turns end. False by default.
    #[serde(default)]
    pub suspend: bool,
}

/// Hours in which people are reminded of a question in a thread: once after some hours of work, then weekly, and only
/// in those hours. Days are those of `limits.timeZone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.from < self.to",
    "message": "the hours of work begin at `from` and end later on the same day at `to`"
}]))]
pub struct RemindersSpec {
    /// Hours of work until the first reminder.
    #[serde(default = "reminder_hours")]
    #[schemars(range(min = 1, max = 200))]
    pub hours: u32,
    /// Time of day at which work begins, such as `09:00`.
    #[serde(default = "work_begins")]
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub from: String,
    /// Time of day at which work ends, such as `18:00`.
    #[serde(default = "work_ends")]
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub to: String,
    /// Saturdays and Sundays are days of work, too.
    #[serde(default)]
    pub weekends: bool,
}

impl Default for RemindersSpec {
    fn default() -> Self {
        Self { hours: reminder_hours(), from: work_begins(), to: work_ends(), weekends: false }
    }
}

/// Git remote that holds the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSpec {
    /// `https://host/owner/name`, with or without `.git`. On github.com its API is
    /// api.github.com, on TENANT.ghe.com api.TENANT.ghe.com; elsewhere it is GitHub Enterprise's `/api/v3`
    /// on the same host. Stays as it is
    /// while Threads are open.
    #[schemars(
        regex(pattern = r"^https?://[^/@\s]+/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"),
        length(max = 512)
    )]
    pub url: String,
    /// The branch that pull requests target.
    #[serde(default = "main_branch")]
    #[schemars(length(min = 1, max = 128))]
    pub branch: String,
    /// Secret with the key `token`, or with those of a GitHub App: `appId`, `privateKey` and
    /// optionally `installationId`.
    pub credentials: SecretRef,
    /// Method by which pull requests are merged. If absent, the first of these that the repository allows. Where a
    /// merge queue is in front of the branch, the queue decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_method: Option<SpelledWord<MergeMethod>>,
    /// If true, pictures of before and after a visible change are pushed, so that the pull request can show them: to
    /// `refs/codebutler/pictures/`, which is no branch, until the Thread ends. None are pushed where
    /// `policy.requireApproval` has `Push`.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(extend("default" = true))]
    pub pictures: bool,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_yes(value: &bool) -> bool {
    *value
}

/// Method by which a pull request becomes part of its base branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MergeMethod {
    /// One commit, whose message says who approved what.
    #[default]
    Squash,
    /// A merge commit with that message, and the branch's commits.
    Merge,
    /// The branch's commits alone, made anew on top.
    Rebase,
}

impl MergeMethod {
    /// Every method, the preferred one first.
    pub const ALL: [Self; 3] = [Self::Squash, Self::Merge, Self::Rebase];

    /// The method's name in GitHub's API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Squash => "squash",
            Self::Merge => "merge",
            Self::Rebase => "rebase",
        }
    }
}

/// Slack channel in which the team talks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackSpec {
    /// Channel id, such as `C0123ABCD`, or name, such as `#shop`. A name is looked up once: the channel
    /// may be renamed afterwards. Stays as it is while Threads are open.
    #[schemars(regex(pattern = r"^([CG][A-Z0-9]{2,20}|#[\p{Ll}\p{Lo}\p{M}\p{N}_-]{1,80})$"))]
    pub channel: String,
    /// If true, a public channel that `channel` names is created if there is none. False by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_channel: bool,
    /// Bots that may write here like people, by bot id (`B0123ABCD`) or user id. What they write is
    /// never a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub allow_bots: Vec<String>,
    /// Secret with the keys `botToken` and `appToken`.
    pub credentials: SecretRef,
    /// Debounce in seconds: time for which a user's burst of messages is gathered before the first role starts.
    #[serde(default = "debounce")]
    #[schemars(range(min = 0, max = 60))]
    pub debounce_seconds: u32,
    /// If true, the team is offered once to learn a repository that has code and no `.codebutler/`: a message in the
    /// channel with a button.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub offer_learning: bool,
}

/// Status of a Repo, written by the controller and the gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepoStatus {
    /// The generation that the conditions speak of. Written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, `Reconciling`, `Stalled`, `GatewayServing`, `SchedulesValid`, `SeatsReady`, `OldSpelling` by the
    /// controller; `SlackReachable`, `GitReachable`, `ModelsKnown`, `ModelReachable`, `EgressEnforced`,
    /// `GuidesValid`, `SparseCheckoutValid`, `McpServersReady`, `SearchReachable` by the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Counts of Threads. Written by the controller.
    #[serde(default)]
    pub threads: ThreadCounts,
    /// Spending of the current day. Written by the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<RepoSpend>,
    /// Slack's side. Written by the gateway.
    #[serde(default)]
    pub slack: RepoSlackStatus,
    /// State of each of `spec.schedules`. Written by the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub schedules: Vec<ScheduleStatus>,
    /// Issues that have got a Thread, the newest last. Written by the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ISSUES))]
    pub begun_issues: Vec<u64>,
    /// Cursor of `spec.comments`: comments that were looked at. Written by the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comments: Option<CommentsStatus>,
    /// Mistakes in `.codebutler/` of the base branch. Written by the gateway; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guides: Option<GuidesStatus>,
    /// The offer to learn the repository. Written by the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningOffer>,
    /// State of each of `spec.mcpServers`. Written by the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_SERVERS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub mcp_servers: Vec<McpServerStatus>,
    /// Pods of servers that belong to no Thread, by server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_pods: BTreeMap<String, McpPod>,
    /// Closed Threads that were deleted, the newest last. Written by the controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub history: Vec<ClosedThread>,
    /// The seats of `spec.warm`. Written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Box<WarmStatus>>,
    /// The volume of `spec.worktree.prepared`. Written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Box<PreparedStatus>>,
    /// Digest of the files of the base branch that pin what a set-up installs. Written by the gateway where volumes
    /// are prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub base_locks: Option<String>,
    /// Shard of the gateways whose leader looks after the Repo. Written by the controller; absent where there is one
    /// shard only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 15))]
    pub shard: Option<u32>,
}

/// Number of Threads that a Repo has, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCounts {
    /// Threads that are not closed.
    #[serde(default)]
    pub open: u32,
}

/// The gateway's state of a Repo's Slack channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepoSlackStatus {
    /// The channel that `spec.slack.channel` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<NamedChannel>,
    /// Newest message that was taken in: reading resumes a little before it after downtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<SlackTs>,
    /// Conversations whose Threads were deleted, the newest last: what was said there before does not
    /// begin them anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ended: Vec<EndedThread>,
    /// Conversations that are about this Repo or another one of its channel: people are asked which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub unclear: Vec<UnclearConversation>,
}

/// A channel that was found by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedChannel {
    /// Name that `spec.slack.channel` had when the channel was found.
    #[schemars(length(max = 81))]
    pub name: String,
    /// Slack's id of the channel.
    #[schemars(regex(pattern = r"^[CG][A-Z0-9]{2,20}$"))]
    pub id: String,
}

impl RepoSpec {
    /// Fields that are to be written in another way.
    #[must_use]
    pub fn outdated(&self) -> Vec<OutdatedSpelling> {
        let merge = self.git.merge_method.and_then(|word| word.outdated("spec.git.mergeMethod"));
        merge.into_iter().chain(self.model.outdated()).chain(self.policy.outdated()).collect()
    }
}

impl Repo {
    /// Id of the Slack channel. None: it is named, and not found yet.
    #[must_use]
    pub fn channel(&self) -> Option<&str> {
        let wanted = self.spec.slack.channel.as_str();
        if !wanted.starts_with('#') {
            return Some(wanted);
        }
        let found = self.status.as_ref()?.slack.channel.as_ref()?;
        (found.name == wanted).then_some(found.id.as_str())
    }
}

/// The end of a conversation's Thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedThread {
    /// `ts` of the conversation's first message.
    pub root: SlackTs,
    /// Position in the conversation at which it ended: `ts` of the message that told so, or of the moment.
    pub at: SlackTs,
}

fn main_branch() -> String {
    "main".to_owned()
}
const fn reminder_hours() -> u32 {
    4
}

fn work_begins() -> String {
    "09:00".to_owned()
}

fn work_ends() -> String {
    "18:00".to_owned()
}

const fn debounce() -> u32 {
    3
}
