//! Metrics of the gateway; the catalog says what each family means.

use std::time::Duration;

use codebutler_crds::spend::CallLimit;
use codebutler_crds::thread::{PullRequest, PullState, RoleState, TokenUsage};
use codebutler_crds::{AgentRole, NanoUsd, Repo};
use codebutler_runtime::metrics::catalog::gateway as catalog;
use codebutler_runtime::metrics::family::{AmountFamily, CountFamily, TimeFamily};
use codebutler_runtime::metrics::repo_label;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::bill::ProviderBill;
use crate::caller::ProvenCaller;

/// The gateway's metric families. Cheap to clone; clones share their values.
#[derive(Clone, Debug)]
pub struct GatewayMetrics {
    leader: Gauge,
    shards: Gauge,
    cost: AmountFamily<3>,
    tokens: CountFamily<4>,
    calls: CountFamily<4>,
    duration: TimeFamily<3>,
    images: CountFamily<3>,
    audio: CountFamily<3>,
    exceeded: CountFamily<2>,
    warned: CountFamily<2>,
    unwritten: Gauge,
    unknown: CountFamily<1>,
    runs: CountFamily<3>,
    pulls: CountFamily<2>,
    rounds: CountFamily<2>,
    git: CountFamily<3>,
    cache: Gauge,
    history_waiting: Gauge,
    history_lost: Gauge,
    refused: CountFamily<1>,
    egress: CountFamily<1>,
    deliveries: CountFamily<1>,
    mcp_calls: CountFamily<3>,
    mcp_duration: TimeFamily<2>,
    mcp_cost: AmountFamily<2>,
    mcp_sessions: Gauge,
}

impl GatewayMetrics {
    /// Makes the families and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let deliveries = catalog::DELIVERIES.counts(registry);
        // Known from the first one on: a rate needs what was before.
        for outcome in ["begun", "known", "refused", "unsigned", "busy", "failed"] {
            deliveries.add([outcome], 0);
        }
        Self {
            leader: catalog::LEADER.level(registry),
            shards: catalog::SHARDS.level(registry),
            cost: catalog::COST.amounts(registry),
            tokens: catalog::TOKENS.counts(registry),
            calls: catalog::MODEL_CALLS.counts(registry),
            duration: catalog::MODEL_CALL_DURATION.times(registry),
            images: catalog::IMAGES.counts(registry),
            audio: catalog::AUDIO.counts(registry),
            exceeded: catalog::LIMIT_EXCEEDED.counts(registry),
            warned: catalog::BUDGET_WARNED.counts(registry),
            unwritten: catalog::LEDGER_UNWRITTEN.level(registry),
            unknown: catalog::CALLS_UNKNOWN.counts(registry),
            runs: catalog::RUNS.counts(registry),
            pulls: catalog::PULL_REQUESTS.counts(registry),
            rounds: catalog::PULL_REQUEST_ROUNDS.counts(registry),
            git: catalog::GIT_REQUESTS.counts(registry),
            cache: catalog::GIT_CACHE.level(registry),
            history_waiting: catalog::HISTORY_WAITING.level(registry),
            history_lost: catalog::HISTORY_LOST.level(registry),
            refused: catalog::IDENTITY_REFUSED.counts(registry),
            egress: catalog::EGRESS_REFUSED.counts(registry),
            deliveries,
            mcp_calls: catalog::MCP_CALLS.counts(registry),
            mcp_duration: catalog::MCP_CALL_DURATION.times(registry),
            mcp_cost: catalog::MCP_COST.amounts(registry),
            mcp_sessions: catalog::MCP_SESSIONS.level(registry),
        }
    }

    /// Sets the disk space that copies of repositories take.
    pub fn git_cache(&self, bytes: u64) {
        self.cache.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Events that wait for the history to be writable, and those that there was no room for.
    pub fn history(&self, waiting: usize, lost: u64) {
        self.history_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.history_lost.set(i64::try_from(lost).unwrap_or(i64::MAX));
    }

    /// Sets the number of shards among which Repos are shared.
    pub fn shards(&self, shards: u32) {
        self.shards.set(i64::from(shards));
    }

    /// Notes that this replica serves agents now.
    pub fn leads(&self) {
        self.leader.set(1);
    }

    /// Notes that this process leads no more.
    pub fn follows(&self) {
        self.leader.set(0);
    }

    /// Shows a role's counters before anything happened: the first step of a counter that begins
    /// with it is none for `increase`.
    pub fn expect(&self, repo: &Repo, role: &AgentRole) {
        let (repo, model) = (repo_label(repo), &role.spec.model);
        let labels = [repo.as_str(), &role.spec.role, &model.default];
        self.cost.add(labels, 0.0);
        self.unknown.add([&repo], 0);
        for outcome in ["idle", "waiting", "failed"] {
            self.runs.add([&repo, &role.spec.role, outcome], 0);
        }
        for outcome in ["opened", "merged", "closed"] {
            self.pulls.add([&repo, outcome], 0);
        }
        for limit in CallLimit::ALL {
            self.exceeded.add([&repo, limit.name()], 0);
            self.warned.add([&repo, limit.name()], 0);
        }
        if let Some(model) = &model.image {
            self.images.add([&repo, &role.spec.role, model], 0);
        }
        if let Some(model) = &model.audio {
            self.audio.add([&repo, &role.spec.role, model], 0);
        }
    }

    /// Counts an answered model call. `model` is one of the role's: callers can't make up others.
    pub fn spent(&self, caller: &ProvenCaller, model: &str, bill: &ProviderBill) {
        let (repo, role) = caller_labels(caller);
        let (labels, usage) = ([repo.as_str(), role, model], &bill.usage);
        self.cost.add(labels, usage.cost.as_f64());
        if bill.images > 0 {
            self.images.add(labels, bill.images);
        }
        if let Some(seconds) = bill.seconds {
            self.audio.add(labels, seconds);
        }
        self.tokens([&repo, role, model], usage);
    }

    /// Parts of others only where there are any.
    fn tokens(&self, [repo, role, model]: [&str; 3], usage: &TokenUsage) {
        let count = |kind, tokens| self.tokens.add([repo, role, model, kind], tokens);
        count("prompt", usage.prompt_tokens);
        count("completion", usage.completion_tokens);
        for (kind, tokens) in [
            ("cached", usage.cached_tokens),
            ("written", usage.written_tokens),
            ("reasoning", usage.reasoning_tokens),
        ] {
            if tokens > 0 {
                count(kind, tokens);
            }
        }
    }

    /// Counts what a lost answer has cost after all.
    pub fn settled_late(&self, repo: &str, role: &str, model: &str, usage: &TokenUsage) {
        self.cost.add([repo, role, model], usage.cost.as_f64());
        self.tokens([repo, role, model], usage);
    }

    /// Counts a lost answer whose cost the provider does not tell.
    pub fn never_known(&self, repo: &str) {
        self.unknown.one([repo]);
    }

    /// Counts a model call, however it ended.
    pub fn model_call(
        &self,
        caller: &ProvenCaller,
        model: &str,
        outcome: &'static str,
        took: Duration,
    ) {
        let (repo, role) = caller_labels(caller);
        self.duration.observe([&repo, role, model], took);
        self.calls.one([&repo, role, model, outcome]);
    }

    /// Counts a call that ran into a limit.
    pub fn exceeded(&self, caller: &ProvenCaller, limit: CallLimit) {
        self.exceeded.one([&caller_labels(caller).0, limit.name()]);
    }

    /// Counts a budget that a call has brought near.
    pub fn warned(&self, caller: &ProvenCaller, limit: CallLimit) {
        self.warned.one([&caller_labels(caller).0, limit.name()]);
    }

    /// Costs of one object more, or one less, could not be put on record.
    pub fn unwritten(&self, more: bool) {
        self.unwritten.inc_by(if more { 1 } else { -1 });
    }

    /// Counts a run that ended, and expects one that begins.
    pub fn run(&self, caller: &ProvenCaller, state: RoleState) {
        let outcome = match state {
            RoleState::Running => return self.expect(&caller.repo, &caller.role),
            RoleState::Waiting => "waiting",
            RoleState::Idle => "idle",
            RoleState::Failed => "failed",
        };
        let (repo, role) = caller_labels(caller);
        self.runs.one([&repo, role, outcome]);
    }

    /// Counts what became of a pull request, by what was known of it before.
    pub fn pull_request(&self, repo: &str, before: Option<&PullRequest>, now: &PullRequest) {
        let before = before.filter(|before| before.number == now.number);
        if before.is_none() {
            self.pulls.one([repo, "opened"]);
        }
        let state = |pull: &PullRequest| match pull.state {
            _ if pull.merge_commit.is_some() => Some("merged"),
            Some(PullState::Merged) => Some("merged"),
            Some(PullState::Closed) => Some("closed"),
            Some(PullState::Open) | None => None,
        };
        if let Some(end) = state(now).filter(|_| before.and_then(state) != state(now)) {
            self.pulls.one([repo, end]);
        }
    }

    /// Counts a round in which a Repo's pull requests were looked at.
    pub fn pull_request_round(&self, repo: &Repo, worked: bool) {
        self.rounds.one([&repo_label(repo), if worked { "ok" } else { "failed" }]);
    }

    /// Counts a request of Git's protocol.
    pub fn git_request(&self, repo: &Repo, service: &'static str, outcome: &'static str) {
        self.git.one([&repo_label(repo), service, outcome]);
    }

    /// Counts a connection or page that was refused.
    pub fn egress_refused(&self, reason: &'static str) {
        self.egress.one([reason]);
    }

    /// Counts a call of a server's tool. `server` is one that the Repo names.
    pub fn mcp_call(&self, repo: &Repo, server: &str, outcome: &str) {
        self.mcp_calls.one([&repo_label(repo), server, outcome]);
    }

    /// Notes the duration of a call that was sent.
    pub fn mcp_took(&self, repo: &Repo, server: &str, took: Duration) {
        self.mcp_duration.observe([&repo_label(repo), server], took);
    }

    /// Counts what answers of models cost that a server asked for in a call.
    pub fn mcp_cost(&self, repo: &Repo, server: &str, cost: NanoUsd) {
        if cost > NanoUsd::default() {
            self.mcp_cost.add([&repo_label(repo), server], cost.as_f64());
        }
    }

    /// Notes the number of open sessions.
    pub fn mcp_sessions(&self, open: usize) {
        self.mcp_sessions.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    /// Counts a delivery by what became of it.
    pub fn delivery(&self, outcome: &'static str) {
        self.deliveries.one([outcome]);
    }

    /// Counts a call whose caller was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refused.one([reason]);
    }
}

/// The labels of a caller: Repo and role.
fn caller_labels(caller: &ProvenCaller) -> (String, &str) {
    (repo_label(&*caller.repo), caller.role_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_pull_request_is_counted_once_for_what_became_of_it() {
        let mut registry = codebutler_runtime::metrics::build_registry();
        let metrics = GatewayMetrics::register(&mut registry);
        let pull = |number, state, merge_commit: Option<&str>| PullRequest {
            merge_commit: merge_commit.map(str::to_owned),
            state,
            ..PullRequest::of(number, "")
        };
        let open = pull(1, Some(PullState::Open), None);
        let merged = pull(1, Some(PullState::Merged), Some("abc"));
        let steps = [(None, &open), (Some(&open), &open), (Some(&open), &merged)];
        for (before, now) in steps.into_iter().chain([(Some(&merged), &merged)]) {
            metrics.pull_request("team/shop", before, now);
        }
        metrics.pull_request("team/shop", Some(&merged), &pull(2, Some(PullState::Closed), None));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for (outcome, count) in [("opened", 2), ("merged", 1), ("closed", 1)] {
            let line = format!(
                "codebutler_pull_requests_total{{repo=\"team/shop\",outcome=\"{outcome}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}: {text}");
        }
    }

    fn caller(number: usize) -> ProvenCaller {
        let mut repo = testing::repo();
        repo.metadata.name = Some(format!("shop{}", number % 3));
        let thread = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": format!("thread-{number}"), "namespace": "team"},
            "spec": {"repo": "shop", "prompt": "x", "requestedBy": format!("U{number:05}")},
        });
        let role = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
            "metadata": {"name": "pm", "namespace": "team"},
            "spec": {"role": "pm", "display": {"name": "PM", "icon": ":x:"},
                     "model": {"default": "scripted/x"}},
        });
        ProvenCaller {
            thread: Arc::new(serde_json::from_value(thread).unwrap()),
            repo: Arc::new(repo),
            role: Arc::new(serde_json::from_value(role).unwrap()),
        }
    }

    #[test]
    fn five_thousand_threads_have_as_many_series_as_fifty() {
        let series = |threads: usize| {
            let mut registry = codebutler_runtime::metrics::build_registry();
            let metrics = GatewayMetrics::register(&mut registry);
            let bill = ProviderBill {
                usage: TokenUsage::default(),
                priced: true,
                reported: true,
                completed: true,
                images: 1,
                seconds: Some(2),
                estimated: false,
                searches: 1,
                image_tokens: 0,
                audio_tokens: 0,
                hour_tokens: 0,
            };
            for number in 0..threads {
                let caller = caller(number);
                metrics.spent(&caller, "scripted/x", &bill);
                metrics.model_call(&caller, "scripted/x", "ok", Duration::from_secs(1));
                metrics.exceeded(&caller, CallLimit::PerThread);
                metrics.run(&caller, RoleState::Idle);
                metrics.git_request(&caller.repo, "git-upload-pack", "ok");
            }
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            assert!(!text.contains("thread-") && !text.contains("U0"), "an id is in a label");
            text.lines().filter(|line| !line.starts_with('#')).count()
        };
        assert_eq!(series(50), series(5000));
    }
}
