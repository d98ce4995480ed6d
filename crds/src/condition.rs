//! Status conditions as kstatus (Flux, Argo CD, `kubectl wait`) reads them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// True when the object is in its desired state and working.
pub const READY: &str = "Ready";
/// True while the controller is still moving towards the desired state.
pub const RECONCILING: &str = "Reconciling";
/// True when only a person can help; the message says how.
pub const STALLED: &str = "Stalled";
/// A Thread's worktree volume exists.
pub const WORKTREE_READY: &str = "WorktreeReady";
/// A Thread waits for a person's answer or click.
pub const AWAITING_USER: &str = "AwaitingUser";
/// A Thread's roles wait because a limit of its Repo is reached.
pub const BUDGET_EXCEEDED: &str = "BudgetExceeded";
/// A Thread with a prompt has its Slack conversation. Written by the gateway.
pub const OPENED: &str = "Opened";
/// Roles of a Thread wait for a slot. Present only while true.
pub const QUEUED: &str = "Queued";
/// Nothing new starts, because somebody wants it so. Present only while true.
pub const SUSPENDED: &str = "Suspended";
/// A Thread is closed, and why is its reason. True once nothing of it is left to remove.
pub const FINISHED: &str = "Finished";
/// A Thread that nobody needs is about to be collected. Present only while true.
pub const COLLECTING: &str = "Collecting";
/// A Repo's Slack channel could be reached with its credentials.
pub const SLACK_REACHABLE: &str = "SlackReachable";
/// A Repo's Git remote could be reached with its credentials.
pub const GIT_REACHABLE: &str = "GitReachable";
/// A gateway serves agents. Written by the controller, from the gateway's Lease.
pub const GATEWAY_SERVING: &str = "GatewayServing";
/// The models of a Repo's roles are ones that its provider has. Unknown where it does not tell.
pub const MODELS_KNOWN: &str = "ModelsKnown";
/// A Repo's model API serves its key. Unknown where only a first call can tell.
pub const MODEL_REACHABLE: &str = "ModelReachable";
/// A Repo's agent pods reach the gateway and nothing else.
pub const EGRESS_ENFORCED: &str = "EgressEnforced";
/// Each file of `.codebutler/` on the base branch can be used as it stands. Absent until there is a copy of it.
pub const GUIDES_VALID: &str = "GuidesValid";
/// Each folder of a Repo's `spec.worktree.sparse` is on the base branch. Absent where it names none, and until there is
/// a copy of the branch.
pub const SPARSE_CHECKOUT_VALID: &str = "SparseCheckoutValid";
/// Each server of a Repo's `spec.mcpServers` answers. Unknown while all that were asked do, and others were never
/// started. Absent where there is none.
pub const MCP_SERVERS_READY: &str = "McpServersReady";
/// The search service of a Repo's `spec.web.search` answers with its key. Unknown where only a search can tell. Absent
/// where it names none.
pub const SEARCH_REACHABLE: &str = "SearchReachable";
/// As many pods wait for a conversation as a Repo's `spec.warm` says. Absent where it says none.
pub const SEATS_READY: &str = "SeatsReady";
/// The clone of the seat that was set up last could be. Absent where none has been.
pub const SEATS_SET_UP: &str = "SeatsSetUp";
/// A Repo has a volume that those of new Threads can be made from (`spec.worktree.prepared`). Absent where it wants none.
pub const PREPARED_VOLUME_READY: &str = "PreparedVolumeReady";
/// Each of a Repo's schedules names times that come. Present only while false.
pub const SCHEDULES_VALID: &str = "SchedulesValid";

/// A field is written as the first previews had it. Present only while true.
pub const OLD_SPELLING: &str = "OldSpelling";

/// An AgentRole answers as many requests at the same time as it says. Present only while false.
pub const PARALLEL: &str = "Parallel";

/// Sets one condition and keeps `lastTransitionTime` unless the status flipped.
///
/// Returns whether anything but the transition time changed, so that callers write only then.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: bool,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: &Time,
) -> bool {
    let status = if status { "True" } else { "False" };
    set_to(conditions, type_, status, reason, message, generation, now)
}

/// The same where it may be `Unknown`, too.
pub fn set_to(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: &Time,
) -> bool {
    let wanted = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: now.clone(),
    };
    let Some(current) = conditions.iter_mut().find(|c| c.type_ == type_) else {
        conditions.push(wanted);
        return true;
    };
    let flipped = current.status != wanted.status;
    let since = if flipped { now.clone() } else { current.last_transition_time.clone() };
    let next = Condition { last_transition_time: since, ..wanted };
    let changed = *current != next;
    *current = next;
    changed
}

/// Removes a condition; returns whether it was there.
pub fn clear_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    conditions.len() != before
}

/// True if a condition is present and `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|c| c.type_ == type_ && c.status == "True")
}
