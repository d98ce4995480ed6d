//! Catalog of all metric families, by the process that exports them.

use MetricKind::{Counter, Gauge, Histogram};

use super::PREFIX;
use super::family::{FamilySpec, MetricKind};

/// A family without the number of its labels.
#[derive(Clone, Copy, Debug)]
pub struct CatalogEntry {
    /// See [`FamilySpec::name`].
    pub name: &'static str,
    /// See [`FamilySpec::kind`].
    pub kind: MetricKind,
    /// See [`FamilySpec::unit`].
    pub unit: Option<&'static str>,
    /// See [`FamilySpec::labels`].
    pub labels: &'static [&'static str],
    /// See [`FamilySpec::help`].
    pub help: &'static str,
}

impl CatalogEntry {
    /// Returns the name as a query writes it, `_total` of a counter included.
    pub fn full_name(&self) -> String {
        let unit = self.unit.map(|unit| format!("_{unit}")).unwrap_or_default();
        let total = if self.kind == Counter { "_total" } else { "" };
        format!("{PREFIX}_{}{unit}{total}", self.name)
    }
}

impl<const N: usize> FamilySpec<N> {
    const fn entry(&'static self) -> CatalogEntry {
        let Self { name, kind, unit, ref labels, help } = *self;
        CatalogEntry { name, kind, unit, labels, help }
    }
}

/// Upper bounds of model calls and waits, in seconds.
const LONG: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0];
/// Upper bounds of what should take milliseconds, in seconds.
const SHORT: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

macro_rules! families {
    ($($id:ident: $n:literal = $spec:expr;)*) => {
        $(#[doc = "Means what its help says."] pub static $id: FamilySpec<$n> = $spec;)*
        pub static ALL: &[CatalogEntry] = &[$($id.entry()),*];
    };
}

/// Families of the controller.
pub mod controller {
    use super::{CatalogEntry, Counter, FamilySpec, Gauge, Histogram, LONG, SHORT};

    families! {
        LEADER: 0 = FamilySpec::new("controller_leader", Gauge, [],
            "1 on the replica that acts, 0 on those that stand by");
        RECONCILES: 2 = FamilySpec::new("reconciles", Counter, ["kind", "outcome"],
            "Looks at objects: done, stale (the cache was behind) or failed (tried again)");
        RECONCILE_DURATION: 1 = FamilySpec::new("reconcile_duration", Histogram(SHORT), ["kind"],
            "How long one look at an object took").unit("seconds");
        PODS_STARTED: 2 = FamilySpec::new("pods_started", Counter, ["repo", "role"],
            "Agent pods that were created");
        VOLUMES_CLONED: 1 = FamilySpec::new("volumes_cloned", Counter, ["repo"],
            "Volumes of Threads that were asked for as clones of a prepared one");
        SEATS_TAKEN: 2 = FamilySpec::new("seats_taken", Counter, ["repo", "role"],
            "Seats of spec.warm that a Thread took instead of starting a pod");
        SEATS: 2 = FamilySpec::new("seats", Gauge, ["repo", "state"],
            "Seats of spec.warm that are wanted, and those that are ready for a Thread");
        SEAT_SECONDS: 1 = FamilySpec::new("seat", Counter, ["repo"],
            "How long pods had waited as seats when a Thread took them or they were deleted").unit("seconds");
        QUEUE_WAIT: 1 = FamilySpec::new("queue_wait", Histogram(LONG), ["repo"],
            "How long roles that started had waited for a slot").unit("seconds");
        THREADS: 2 = FamilySpec::new("threads", Gauge, ["repo", "phase"],
            "Threads by the phase of the role that ran last; new before the first one, closed at the end");
        THREADS_WAITING: 2 = FamilySpec::new("threads_waiting", Gauge, ["repo", "reason"],
            "Open Threads that wait for a slot, a user or a budget");
        QUEUE_OLDEST_WAIT: 1 = FamilySpec::new("queue_oldest_wait", Gauge, ["repo"],
            "For how long the first Thread in the queue has waited; 0 if none does").unit("seconds");
        SLOTS_USED: 2 = FamilySpec::new("slots_used", Gauge, ["repo", "slot"],
            "Threads in which a role runs, and roles that run (runs)");
        SLOTS_ALLOWED: 2 = FamilySpec::new("slots_allowed", Gauge, ["repo", "slot"],
            "How many may at once: `concurrentThreads` and `concurrentRuns` of the Repo");
        BUDGET_USED: 2 = FamilySpec::new("budget_used", Gauge, ["repo", "state"],
            "Today's money: settled by the provider, granted to calls under way, or flagged (unknown, counts as spent)")
            .unit("usd");
        BUDGET_ALLOWED: 1 = FamilySpec::new("budget_allowed", Gauge, ["repo"],
            "`limits.budget.perDay` of the Repo; absent without a cap").unit("usd");
        TEAM_BUDGET_USED: 3 = FamilySpec::new("team_budget_used", Gauge, ["repo", "team", "period"],
            "Money of a team of `limits.budget.teams` in the present day or month").unit("usd");
        TEAM_BUDGET_ALLOWED: 3 = FamilySpec::new("team_budget_allowed", Gauge, ["repo", "team", "period"],
            "`perDay` or `perMonth` of the team; absent without a cap").unit("usd");
        PEOPLE_NEAR_BUDGET: 2 = FamilySpec::new("people_near_budget", Gauge, ["repo", "period"],
            "People who have used `limits.budget.warnAt` percent of their budget of the present day or month");
        CALLS_USED: 1 = FamilySpec::new("hourly_calls_used", Gauge, ["repo"],
            "Model calls of this hour");
        CALLS_ALLOWED: 1 = FamilySpec::new("hourly_calls_allowed", Gauge, ["repo"],
            "`limits.callsPerHour` of the Repo");
        DECISIONS_WAITING: 2 = FamilySpec::new("decisions_waiting", Gauge, ["repo", "kind"],
            "Questions that only a person can answer: a plan, a merge, an action, a budget");
        REPO_CONDITION: 2 = FamilySpec::new("repo_condition", Gauge, ["repo", "condition"],
            "1 while the condition of the Repo is True, 0 while it is not");
    }
}

pub mod gateway {
    use super::{CatalogEntry, Counter, FamilySpec, Gauge, Histogram, LONG, SHORT};

    families! {
        LEADER: 0 = FamilySpec::new("gateway_leader", Gauge, [],
            "1 on the replica that serves agents (of a shard), 0 on those that only hear Slack");
        SHARDS: 0 = FamilySpec::new("gateway_shards", Gauge, [],
            "Number of shards (gateway.shards) that the replica was started with: so many should lead");
        COST: 3 = FamilySpec::new("cost", Counter, ["repo", "role", "model"],
            "What the providers billed").unit("usd");
        TOKENS: 4 = FamilySpec::new("tokens", Counter, ["repo", "role", "model", "kind"],
            "Tokens that the providers counted: prompt (of which cached and written are parts) or completion (of which reasoning is one)");
        MODEL_CALLS: 4 = FamilySpec::new("model_calls", Counter, ["repo", "role", "model", "outcome"],
            "Model calls by how they ended; ok if they were answered");
        MODEL_CALL_DURATION: 3 = FamilySpec::new("model_call_duration", Histogram(LONG), ["repo", "role", "model"],
            "Time from a model call's arrival to the end of its answer, retries included").unit("seconds");
        IMAGES: 3 = FamilySpec::new("images", Counter, ["repo", "role", "model"],
            "Images that models made");
        AUDIO: 3 = FamilySpec::new("audio", Counter, ["repo", "role", "model"],
            "Sound that models heard, rounded up for each recording").unit("seconds");
        LIMIT_EXCEEDED: 2 = FamilySpec::new("limit_exceeded", Counter, ["repo", "limit"],
            "Model calls that were not let through because a limit of the Repo was reached");
        BUDGET_WARNED: 2 = FamilySpec::new("budget_warnings", Counter, ["repo", "limit"],
            "Budgets that came near (`limits.budget.warnAt`), each once in its period");
        LEDGER_UNWRITTEN: 0 = FamilySpec::new("ledger_unwritten", Gauge, [],
            "Threads and Repos whose latest costs could not be put on record yet");
        CALLS_UNKNOWN: 1 = FamilySpec::new("calls_unknown", Counter, ["repo"],
            "Model calls whose end was lost and whose cost the provider did not tell: they count as what they may have cost");
        RUNS: 3 = FamilySpec::new("runs", Counter, ["repo", "role", "outcome"],
            "Runs that ended: idle (nothing is expected), waiting (for an answer) or failed");
        PULL_REQUESTS: 2 = FamilySpec::new("pull_requests", Counter, ["repo", "outcome"],
            "Pull requests that were opened, merged or closed without merging");
        GIT_REQUESTS: 3 = FamilySpec::new("git_requests", Counter, ["repo", "service", "outcome"],
            "Requests of Git's protocol");
        GIT_CACHE: 0 = FamilySpec::new("git_cache", Gauge, [],
            "What copies of repositories take of gateway.gitCacheSize").unit("bytes");
        HISTORY_WAITING: 0 = FamilySpec::new("history_events_waiting", Gauge, [],
            "Events that wait because the history can't be written; work goes on");
        HISTORY_LOST: 0 = FamilySpec::new("history_events_lost", Gauge, [],
            "Events that there was no room for; told in the next history that can be written, and 0 then");
        PULL_REQUEST_ROUNDS: 2 = FamilySpec::new("pull_request_rounds", Counter, ["repo", "outcome"],
            "Rounds in which a Repo's open pull requests were looked at: ok, or failed (the Repo is left alone for a while)");
        IDENTITY_REFUSED: 1 = FamilySpec::new("identity_refused", Counter, ["reason"],
            "Calls refused because the caller proved no role of an active Thread");
        EGRESS_REFUSED: 1 = FamilySpec::new("egress_refused", Counter, ["reason"],
            "Connections and pages refused to workspaces and web tools");
        MCP_CALLS: 3 = FamilySpec::new("mcp_calls", Counter, ["repo", "server", "outcome"],
            "Calls of tools of a Repo's servers: ok, failed (the tool says so), error (of the server or on the way), cancelled or refused (not sent)");
        MCP_CALL_DURATION: 2 = FamilySpec::new("mcp_call_duration", Histogram(LONG), ["repo", "server"],
            "Time from sending a call to a server to its end").unit("seconds");
        MCP_COST: 2 = FamilySpec::new("mcp_cost", Counter, ["repo", "server"],
            "What calls of servers of a Repo cost: their price, and answers of models that servers asked for; it is part of codebutler_cost_usd").unit("usd");
        MCP_SESSIONS: 0 = FamilySpec::new("mcp_sessions", Gauge, [],
            "Open sessions with servers of Repos");
        DELIVERIES: 1 = FamilySpec::new("deliveries", Counter, ["outcome"],
            "Signed deliveries by what became of them: begun, known (came before), refused (the sender has to correct it), unsigned, busy or failed (come again)");
        SLACK_SOCKETS: 0 = FamilySpec::new("slack_sockets", Gauge, [],
            "Open Socket Mode connections");
        SLACK_ENVELOPES: 1 = FamilySpec::new("slack_envelopes", Counter, ["outcome"],
            "What Slack sent, by what became of it: message, click, reaction, links, assistant, ignored, unreadable (of a known kind, and lacks what it can't be without), unknown or failed (comes again)");
        SLACK_UNREAD: 1 = FamilySpec::new("slack_unread", Counter, ["path"],
            "Fields of what Slack sent that could not be read and counted as absent, by their path");
        SLACK_FEEDBACK: 3 = FamilySpec::new("slack_feedback", Counter, ["repo", "role", "answer"],
            "Whether answers helped, as people said with the buttons under them: yes or no; who changes their mind counts in both");
        SLACK_ACK: 0 = FamilySpec::new("slack_ack", Histogram(SHORT), [],
            "Time from an envelope's arrival to its acknowledgement, after its effect was stored").unit("seconds");
        SLACK_CALLS: 2 = FamilySpec::new("slack_calls", Counter, ["method", "outcome"],
            "Slack Web API calls: ok, refused, limited (told to wait) or failed");
        SLACK_SENDS_WAITING: 0 = FamilySpec::new("slack_sends_waiting", Gauge, [],
            "Messages that wait for their channel's turn to be posted");
    }
}
