//! `Thread`: one conversation, one branch, one worktree volume, one pull request.
//!
//! The status has two writers. The controller owns conditions, phase, active role and pod fields;
//! the gateway owns marks, pending decisions, usage, branch, plan and pull request. A message's text
//! is never stored here: Slack is the message store.

mod decisions;
mod feedback;
mod handover;
mod parts;
mod pictures;
mod radar;
mod roadmap;
mod role_status;
mod silence;
mod stack;
mod train;
mod waiting;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::decisions::{
    ActionApproval, ApprovalAnswer, BegunRecording, ClosingChoice, HeardRecording, MOST_OFFERED,
    MergeWait, OfferAnswer, OfferKind, PlanDetails, PlanEstimate, RoleOffer, SettledQuestion,
    StandingApproval, TestReceipt, ThreadClosing, ThreadImages,
};
pub use self::feedback::{AnswerFeedback, HelpRequest, MOST_FEEDBACK, MOST_HELPED};
pub use self::handover::{
    HandOver, HandOverReason, HandoverRounds, JointQuestion, QueuedRole, RoutedReply,
};
pub use self::parts::{LandedHalf, RequestPart, RequestSplit, SplitEnd};
pub use self::pictures::{MOST_VIEWS, PushedView, ThreadPictures};
pub use self::radar::{BaseStanding, BranchMeeting, BranchPush, BranchRadar, ForkPoint};
pub use self::radar::{MOST_MEETINGS, MOST_REMOVED, RemovedCommit};
pub use self::roadmap::{ApprovedItem, RoadmapEnd, RoadmapProposal, RoadmapRun};
pub use self::role_status::{RoleStatus, RunMessage};
pub use self::silence::AgentSilence;
pub use self::stack::{StackMerge, StackStanding};
pub use self::train::{
    MOST_CARS, MergeTrain, TrainCar, TrainEnd, TrainProposal, TrainRound, TrainStep,
};
pub use self::waiting::{MOST_SPEAKERS, PeopleQuestion, is_user};
use crate::mcp::ThreadMcp;
use crate::spelling::pull_request;
use crate::spend::ThreadBudget;
use crate::unset::is_zero;
use crate::{NanoUsd, SlackTs};
pub use codebutler_wire::{
    PendingItem, PlanComplexity, PostedPlan, PullRequest, PullState, RoleState, TokenUsage,
};

/// One conversation of a team with its roles.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "codebutler.dev",
    version = "v1alpha1",
    kind = "Thread",
    plural = "threads",
    namespaced,
    status = "ThreadStatus",
    derive = "PartialEq",
    category = "codebutler",
    shortname = "thr",
    doc = "One conversation: one Slack thread, one branch, one worktree volume, one pull request.",
    printcolumn = r#"{"name":"Repo","type":"string","jsonPath":".spec.repo"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".spec.state"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Waits","type":"string","jsonPath":".status.waits"}"#,
    printcolumn = r#"{"name":"Role","type":"string","jsonPath":".status.activeRole"}"#,
    printcolumn = r#"{"name":"PR","type":"integer","jsonPath":".status.pullRequest.number"}"#,
    printcolumn = r#"{"name":"Cost","type":"string","jsonPath":".status.shownCost"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase","priority":1}"#,
    printcolumn = r#"{"name":"Queue","type":"integer","jsonPath":".status.queuePosition","priority":1}"#,
    printcolumn = r#"{"name":"Branch","type":"string","jsonPath":".status.branch","priority":1}"#,
    printcolumn = r#"{"name":"Title","type":"string","jsonPath":".status.pullRequest.title","priority":1}"#,
    printcolumn = r#"{"name":"Radar","type":"string","jsonPath":".status.radar.summary","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    selectable = ".spec.repo",
    selectable = ".spec.state",
    validation = Rule::new("has(self.spec.slack) != has(self.spec.prompt)")
        .message("exactly one of spec.slack and spec.prompt: a Thread begins in Slack or with a prompt"),
    validation = Rule::new("has(self.spec.slack) == has(oldSelf.spec.slack)")
        .message("a Thread stays with its Slack conversation or its prompt"),
    validation = Rule::new("has(self.spec.parent) == has(oldSelf.spec.parent) && has(self.spec.item) == has(oldSelf.spec.item)")
        .message("a Thread keeps its parent and its item"),
    validation = Rule::new("has(self.spec.requestedBy) == has(oldSelf.spec.requestedBy)")
        .message("who started a Thread stays as it was written first"),
    validation = Rule::new("!has(self.spec.parent) || self.spec.parent != self.metadata.name")
        .message("spec.parent: a Thread is not a part of itself"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9-]{1,50}$')")
        .message("a Thread's name has at most 50 characters of a-z, 0-9 and -, so that names derived from it stay valid"),
)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSpec {
    /// The Repo, in the same namespace.
    #[schemars(length(min = 1, max = 32))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "a Thread stays with its Repo"}]))]
    pub repo: String,
    /// The Slack conversation, of a Thread that began there. `status.slack` of all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "a Thread stays with its Slack conversation"}]))]
    #[schemars(with = "SlackThread")]
    pub slack: Option<SlackThread>,
    /// Request in Markdown, of a Thread that did not begin in Slack: the gateway opens a conversation in the Repo's
    /// channel with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 12000))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "a prompt is said once: say more in the Slack thread"}]))]
    #[schemars(with = "String")]
    pub prompt: Option<String>,
    /// The Thread that this one is a part of, of the same Repo or of one whose request has a part here; at most three
    /// above each other. No role starts before it exists. Closing or deleting it leaves this one as it is, and the
    /// other way round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 50))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "a Thread keeps its parent"}]))]
    #[schemars(with = "String")]
    pub parent: Option<String>,
    /// The item of the parent's roadmap that this one is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "a Thread keeps its item"}]))]
    #[schemars(with = "String")]
    pub item: Option<String>,
    /// Requester: the Slack user id of whoever started the Thread, or how they are to be named where they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "who started a Thread stays as it was written first"}]))]
    #[schemars(with = "String")]
    pub requested_by: Option<String>,
    /// `Closed` removes pods and volume. Only a user closes a Thread, and nobody opens it again.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "oldSelf != 'Closed' || self == 'Closed'", "message": "a closed Thread stays closed: write in its conversation, or make another one"}]))]
    pub state: ThreadState,
}

/// Slack thread in which a conversation happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackThread {
    /// Slack's id of the channel.
    #[schemars(regex(pattern = r"^[CG][A-Z0-9]{2,20}$"))]
    pub channel: String,
    /// `ts` of the first message.
    pub ts: SlackTs,
}

/// State of a Thread: it takes messages, or it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ThreadState {
    /// The Thread is open: messages wake its roles.
    #[default]
    Active,
    /// The Thread was merged or abandoned by a user.
    Closed,
}

/// Status of a Thread, written by the controller and the gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStatus {
    /// The generation that the conditions speak of. (Controller.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Phase of the role that ran last, then `closed`. Informational. (Controller.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The role that runs or ran last. (Controller.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_role: Option<String>,
    /// The Slack conversation that was opened for `spec.prompt`. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<SlackThread>,
    /// Claim of the gateway replica that posts a message of its own here, so that no other replica posts it too.
    /// (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ReplicaClaim>,
    /// Number of times that a controller took over while this Thread had something to do. What the one before it had
    /// still under way is refused then. (Controller.)
    #[serde(default, skip_serializing_if = "is_zero")]
    pub term: u32,
    /// Place in the Repo's queue, from 1, while roles wait for a slot. (Controller.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<u32>,
    /// Name of its volume claim, where that is one of a seat that it took (`spec.warm` of its Repo). As the Thread is
    /// called if absent. (Controller.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub volume: Option<String>,
    /// Cause of the wait: `person`, `slot`, `budget` or `node`. (Controller.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub waits: Option<String>,
    /// The branch, once it exists on the remote. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The pull request. (Gateway.)
    #[serde(default, with = "pull_request", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pull_request::schema")]
    pub pull_request: Option<Box<PullRequest>>,
    /// The plan that was posted last, and who approved it. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<PostedPlan>>,
    /// Details that the plan states about itself. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_details: Option<Box<PlanDetails>>,
    /// The newest test run that is proven for a commit on the remote. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<TestReceipt>>,
    /// Comparison of its branch with those of other Threads. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radar: Option<Box<BranchRadar>>,
    /// Comparison of the branch of a roadmap's item with the one that it began on. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Box<StackStanding>>,
    /// The open or answered question how to end the thread. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<Box<ThreadClosing>>,
    /// Questions that nobody can answer any more and that still show buttons, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub settled: Vec<SettledQuestion>,
    /// Actions that people were asked about, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub approvals: Vec<ActionApproval>,
    /// Commands that were approved for the whole thread, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub standing: Vec<StandingApproval>,
    /// Questions with answers to choose from, and learnings to judge one by one, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub offers: Vec<RoleOffer>,
    /// People's feedback on answers, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_FEEDBACK))]
    pub feedback: Vec<AnswerFeedback>,
    /// Requests for help that were answered to who asked, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_HELPED))]
    pub helped: Vec<SlackTs>,
    /// Requests for help that are being answered, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_HELPED))]
    pub helping: Vec<HelpRequest>,
    /// Slack shows that the conversation waits for people. (Gateway.)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// Newest message in which a role asks people something, in whatever way. Only grows. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<SlackTs>,
    /// People's messages that another replica has received, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub unmarked: Vec<SlackTs>,
    /// Time of the latest edit or deletion of a message: what was read before may be wrong. Only grows. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<SlackTs>,
    /// The message that warns that the thread will be closed, while it can be answered. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warned: Option<SlackTs>,
    /// The message that offers to bring the branch up to date, while it can be answered. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_offer: Option<SlackTs>,
    /// Recordings whose words were shown and may still be corrected: no role gets mail while one waits. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub heard: Vec<HeardRecording>,
    /// Recordings that are being written down: each is paid for once, whatever becomes of a gateway. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub hearing: Vec<BegunRecording>,
    /// Newest message that shows that it is finished, or that is older than one that does. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<SlackTs>,
    /// Marks, pod and usage by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, Box<RoleStatus>>,
    /// Queue of items that Slack's history does not hold and no role has taken yet, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub pending: Vec<PendingItem>,
    /// Hand-overs to roles that were not addressed, kept until the conversation was told. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub handovers: Vec<HandOver>,
    /// Roles whose turn comes when those are done that were addressed before them. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub queued: Vec<QueuedRole>,
    /// Roles that were asked at the same time, until all have answered. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joint_question: Option<Box<JointQuestion>>,
    /// Replies of people to whoever asked or stopped, oldest first. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub routed: Vec<RoutedReply>,
    /// Number of times in a row that two roles handed work to each other. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Box<HandoverRounds>>,
    /// The roadmap that is carried out from here. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roadmap: Option<Box<RoadmapRun>>,
    /// Of the roadmap item from whose approved text CodeButler made this Thread. Its plan counts as approved only
    /// where this is the text that people approved; absent where somebody else made the Thread. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(with = "String")]
    pub item_hash: Option<String>,
    /// The parts in which the request is built. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Box<RequestSplit>>,
    /// Its use of the servers of its Repo's `spec.mcpServers`. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Box<ThreadMcp>>,
    /// People's permissions for images. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Box<ThreadImages>>,
    /// Pictures of before and after its change, which the pull request shows. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Box<ThreadPictures>>,
    /// The pull requests that are merged from here, one behind the other. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Box<MergeTrain>>,
    /// USD spent by all roles. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<NanoUsd>,
    /// The same in cents, as people read it. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 24))]
    pub shown_cost: Option<String>,
    /// Money that is granted, flagged, raised or asked for. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<ThreadBudget>>,
    /// Slack user id of the person who last spoke to a role: model calls are charged to them, before that to
    /// `spec.requestedBy`. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub speaker: Option<String>,
    /// Slack user ids of those who spoke or decided last, the latest at the end: questions call them. (Gateway.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_SPEAKERS), inner(length(max = 64)))]
    pub speakers: Vec<String>,
    /// Time of the latest activity in the conversation. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity: Option<Time>,
    /// `Ready`, `Reconciling`, `Stalled`, `WorktreeReady`, `AwaitingUser`, `Queued`, `Collecting`
    /// (controller); `Opened` of a Thread with a prompt (gateway).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A replica's claim to open a conversation, to answer who asks for help in it, or to tell it that the Thread goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaClaim {
    /// Gateway process that claims.
    #[schemars(length(max = 64))]
    pub by: String,
    /// Time of the claim. One that is not fulfilled soon is void, and anybody may claim.
    pub since: Time,
}

impl Thread {
    /// Slack thread of the conversation: the one it began in, or the one opened for a prompt. None if nobody opened
    /// it yet.
    #[must_use]
    pub fn conversation(&self) -> Option<&SlackThread> {
        let opened = || self.status.as_ref().and_then(|status| status.slack.as_ref());
        self.spec.slack.as_ref().or_else(opened)
    }

    /// The name of its worktree's volume claim.
    #[must_use]
    pub fn volume_claim(&self) -> String {
        let taken = self.status.as_ref().and_then(|status| status.volume.clone());
        taken.unwrap_or_else(|| self.metadata.name.clone().unwrap_or_default())
    }

    /// True if the object is being deleted.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl ThreadStatus {
    /// Details of the plan, once it is approved.
    #[must_use]
    pub fn approved_details(&self) -> Option<&PlanDetails> {
        let plan = self.plan.as_ref().filter(|plan| plan.approved_by.is_some())?;
        self.plan_details.as_deref().filter(|details| details.plan == plan.ts)
    }

    /// True if a role has something to do: mail, or a pending decision.
    #[must_use]
    pub fn wants(&self, role: &str) -> bool {
        self.roles.get(role).is_some_and(|own| own.has_mail())
            || self.pending.iter().any(|p| p.role == role)
    }

    /// True if a role is in a run, by what its pod said last.
    #[must_use]
    pub fn is_running(&self, role: &str) -> bool {
        self.roles.get(role).is_some_and(|own| own.state == Some(RoleState::Running))
    }

    /// True if a role may begin a run or go on with one. While its Repo is `suspended`, running work goes on and
    /// nothing begins.
    #[must_use]
    pub fn may_run(&self, role: &str, suspended: bool) -> bool {
        let admitted = self.roles.get(role).is_some_and(|own| own.admitted);
        admitted && (!suspended || self.is_running(role))
    }
}
