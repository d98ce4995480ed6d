//! What the gateway counts. Labels are names from the three resources and fixed words: never a
//! thread, user or message id, and never anything a caller may choose freely.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use codebutler_crds::spend::Limit;

use super::budget::Standing;
use super::context::Caller;
use super::models::billing::Bill;

/// The gateway's metric families. Cheap to clone; clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    cost: Family<ModelLabels, Counter<f64, AtomicU64>>,
    tokens: Family<TokenLabels, Counter>,
    calls: Family<CallLabels, Counter>,
    duration: Family<ModelLabels, Histogram>,
    images: Family<ModelLabels, Counter>,
    audio: Family<ModelLabels, Counter>,
    exceeded: Family<LimitLabels, Counter>,
    limit_used: Family<RepoLimitLabels, Gauge<f64, AtomicU64>>,
    limit_allowed: Family<RepoLimitLabels, Gauge<f64, AtomicU64>>,
    git: Family<GitLabels, Counter>,
    refused: Family<RefusedLabels, Counter>,
    egress: Family<RefusedLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    repo: String,
    role: String,
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    repo: String,
    role: String,
    model: String,
    kind: TokenKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types)] // the derive writes a variant's name as the label's value
enum TokenKind {
    prompt,
    completion,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    repo: String,
    role: String,
    model: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    repo: String,
    role: String,
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RepoLimitLabels {
    repo: String,
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GitLabels {
    repo: String,
    service: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    reason: &'static str,
}

impl Metrics {
    /// Makes the families and registers them (the registry adds the prefix `codebutler_`).
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            cost: Family::default(),
            tokens: Family::default(),
            calls: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            images: Family::default(),
            audio: Family::default(),
            exceeded: Family::default(),
            limit_used: Family::default(),
            limit_allowed: Family::default(),
            git: Family::default(),
            refused: Family::default(),
            egress: Family::default(),
        };
        registry.register("cost_usd", "US dollars that the providers billed", metrics.cost.clone());
        registry.register("tokens", "Tokens that the providers counted", metrics.tokens.clone());
        registry.register("model_calls", "Model calls by outcome", metrics.calls.clone());
        registry.register(
            "model_call_duration_seconds",
            "Time from a model call's arrival to its answer, retries included",
            metrics.duration.clone(),
        );
        registry.register("images", "Images that models made", metrics.images.clone());
        registry.register(
            "audio_seconds",
            "Seconds of sound that models heard, rounded up for each recording",
            metrics.audio.clone(),
        );
        registry.register(
            "limit_exceeded",
            "Model calls that were not let through because a limit of the Repo was reached",
            metrics.exceeded.clone(),
        );
        registry.register(
            "limit_used",
            "What a Repo used of a limit today (US dollars) or this hour (calls)",
            metrics.limit_used.clone(),
        );
        registry.register(
            "limit_allowed",
            "A limit of a Repo: US dollars a day, or calls an hour",
            metrics.limit_allowed.clone(),
        );
        registry.register("git_requests", "Requests of Git's protocol", metrics.git.clone());
        registry.register(
            "identity_refused",
            "Calls refused because the caller proved no role of an active Thread",
            metrics.refused.clone(),
        );
        registry.register(
            "egress_refused",
            "Connections and pages refused to workspaces and web tools, by reason",
            metrics.egress.clone(),
        );
        metrics
    }

    /// Counts an answered model call.
    pub fn spent(&self, caller: &Caller, model: &str, bill: &Bill) {
        let labels = model_labels(caller, model);
        let usage = &bill.usage;
        self.cost.get_or_create(&labels).inc_by(usage.cost.as_f64());
        if bill.images > 0 {
            self.images.get_or_create(&labels).inc_by(bill.images);
        }
        if let Some(seconds) = bill.seconds {
            self.audio.get_or_create(&labels).inc_by(seconds);
        }
        for (kind, count) in [
            (TokenKind::prompt, usage.prompt_tokens),
            (TokenKind::completion, usage.completion_tokens),
        ] {
            let ModelLabels { repo, role, model } = labels.clone();
            self.tokens.get_or_create(&TokenLabels { repo, role, model, kind }).inc_by(count);
        }
    }

    /// Counts a model call, however it ended.
    pub fn model_call(&self, caller: &Caller, model: &str, outcome: &'static str, took: Duration) {
        let labels = model_labels(caller, model);
        self.duration.get_or_create(&labels).observe(took.as_secs_f64());
        let ModelLabels { repo, role, model } = labels;
        self.calls.get_or_create(&CallLabels { repo, role, model, outcome }).inc();
    }

    /// Counts a call that ran into a limit.
    pub fn exceeded(&self, caller: &Caller, limit: Limit) {
        let (repo, role) = (repo_name(caller), caller.role_name().to_owned());
        self.exceeded.get_or_create(&LimitLabels { repo, role, limit: limit.name() }).inc();
    }

    /// Shows how much of its limits a Repo has used.
    pub fn standing(&self, caller: &Caller, standing: Standing) {
        let labels =
            |limit: Limit| RepoLimitLabels { repo: repo_name(caller), limit: limit.name() };
        let day = labels(Limit::PerDay);
        self.limit_used.get_or_create(&day).set(standing.day.as_f64());
        if let Some(cap) = standing.day_cap {
            self.limit_allowed.get_or_create(&day).set(cap.as_f64());
        }
        let calls = labels(Limit::CallsPerHour);
        self.limit_used.get_or_create(&calls).set(standing.calls.into());
        self.limit_allowed.get_or_create(&calls).set(standing.calls_cap.into());
    }

    /// Counts a request of Git's protocol.
    pub fn git_request(&self, repo: &str, service: &'static str, outcome: &'static str) {
        self.git.get_or_create(&GitLabels { repo: repo.to_owned(), service, outcome }).inc();
    }

    /// Counts a connection or page that was refused.
    pub fn egress_refused(&self, reason: &'static str) {
        self.egress.get_or_create(&RefusedLabels { reason }).inc();
    }

    /// Counts a call whose caller was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }
}

const DURATION_BUCKETS: [f64; 11] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0];

fn repo_name(caller: &Caller) -> String {
    caller.repo.metadata.name.clone().unwrap_or_default()
}

/// `model` is one of the role's: callers can't make up others.
fn model_labels(caller: &Caller, model: &str) -> ModelLabels {
    let (repo, role) = (repo_name(caller), caller.role_name().to_owned());
    ModelLabels { repo, role, model: model.to_owned() }
}
