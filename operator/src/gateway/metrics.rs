//! What the gateway counts. Labels are names from the three resources and fixed words: never a
//! thread, user or message id, and never anything a caller may choose freely.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use codebutler_crds::thread::Usage;

use super::context::Caller;

/// The gateway's metric families. Cheap to clone; clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    cost: Family<ModelLabels, Counter<f64, AtomicU64>>,
    tokens: Family<TokenLabels, Counter>,
    calls: Family<CallLabels, Counter>,
    duration: Family<ModelLabels, Histogram>,
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
    pub fn spent(&self, caller: &Caller, usage: &Usage) {
        let labels = model_labels(caller);
        self.cost.get_or_create(&labels).inc_by(usage.cost.as_f64());
        for (kind, count) in [
            (TokenKind::prompt, usage.prompt_tokens),
            (TokenKind::completion, usage.completion_tokens),
        ] {
            let ModelLabels { repo, role, model } = labels.clone();
            self.tokens.get_or_create(&TokenLabels { repo, role, model, kind }).inc_by(count);
        }
    }

    /// Counts a model call, however it ended.
    pub fn model_call(&self, caller: &Caller, outcome: &'static str, took: Duration) {
        let labels = model_labels(caller);
        self.duration.get_or_create(&labels).observe(took.as_secs_f64());
        let ModelLabels { repo, role, model } = labels;
        self.calls.get_or_create(&CallLabels { repo, role, model, outcome }).inc();
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

fn model_labels(caller: &Caller) -> ModelLabels {
    ModelLabels {
        repo: caller.repo.metadata.name.clone().unwrap_or_default(),
        role: caller.role_name().to_owned(),
        model: caller.role.spec.model.default.clone(),
    }
}
