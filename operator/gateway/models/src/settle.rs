//! Asks the provider what a call cost whose end nobody here has seen: an answer that was cut off, or
//! one that was under way when an earlier gateway died. `OpenRouter` tells by the call's id, some
//! seconds after its end. Where nobody tells, the call counts as its estimate for good.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_crds::thread::TokenUsage;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::billing;
use super::upstream::ModelUpstream;
use crate::budget::LostCall;
use crate::services::ModelServices;

/// Time for which a provider is asked about a call.
pub const PATIENCE: Duration = Duration::from_mins(10);
/// Wait before the first question.
const FIRST: Duration = Duration::from_secs(1);
/// Longest wait between two questions.
const LONGEST: Duration = Duration::from_mins(1);

/// Asks for the costs of lost calls until told to stop. Calls that are not settled then are on
/// record for the next gateway.
pub async fn run_settling(gateway: &Arc<ModelServices>, patience: Duration) {
    while let Some(lost) = gateway.shutdown.run_until_cancelled(gateway.ledger.lost()).await {
        for call in lost {
            let gateway = Arc::clone(gateway);
            gateway.calls.clone().spawn(async move {
                let asking = ask_what_it_cost(&gateway, &call, patience);
                gateway.shutdown.run_until_cancelled(asking).await;
            });
        }
    }
}

async fn ask_what_it_cost(gateway: &ModelServices, lost: &LostCall, patience: Duration) {
    let (begun, mut wait) = (Instant::now(), FIRST.min(patience));
    let repo = format!("{}/{}", lost.repo.namespace, lost.repo.name);
    loop {
        tokio::time::sleep(wait.mul_f64(rand::random_range(0.8..1.2))).await;
        if let Some((usage, model)) = ask_cost(gateway, lost).await {
            let call = gateway.ledger.reconcile(lost, usage);
            tracing::info!(repo, cost = %usage.cost, "model_call_settled");
            if let Some(call) = call {
                let model = known_model(gateway, lost, &call.role, model);
                if let Some(thread) = &lost.thread {
                    let told = billing::told_call(&model, &usage);
                    gateway.context.history.call(thread, &call.role, &lost.id, told);
                }
                gateway.metrics.settled_late(&repo, &call.role, &model, &usage);
            }
            return;
        }
        if begun.elapsed() >= patience {
            break;
        }
        wait = (wait * 2).min(LONGEST);
    }
    tracing::warn!(
        repo,
        thread = lost.thread.as_ref().map(|thread| &thread.name),
        id = lost.id,
        "model_call_estimated"
    );
    // The metric comes first: whoever sees that the call is given up finds it counted.
    gateway.metrics.never_known(&repo);
    gateway.ledger.give_up(lost);
}

/// The model as the metrics call it: one of the role's, whatever the provider calls it.
fn known_model(
    gateway: &ModelServices,
    lost: &LostCall,
    role: &str,
    told: Option<String>,
) -> String {
    let repo = gateway.context.repo(&lost.repo.namespace, &lost.repo.name);
    let roles = repo.as_ref().map(|repo| gateway.context.roles_of(repo)).unwrap_or_default();
    let Some(own) = roles.iter().find(|own| own.spec.role == role) else {
        return "unknown".to_owned();
    };
    let models = &own.spec.model;
    let repo = repo.as_ref();
    let is_own = |model: &str, told: &str| {
        let id = repo.and_then(|repo| repo.spec.model.split_name(model)).map(|(_, id)| id);
        model == told || id == Some(told)
    };
    told.and_then(|told| models.allowed().find(|model| is_own(model, &told)).map(str::to_owned))
        .unwrap_or_else(|| models.default.clone())
}

/// Asks for the cost of a call and the model that answered; None if the provider does not tell.
async fn ask_cost(
    gateway: &ModelServices,
    lost: &LostCall,
) -> Option<(TokenUsage, Option<String>)> {
    let repo = gateway.context.repo(&lost.repo.namespace, &lost.repo.name)?;
    // The record says no provider's name; an id is of one of them alone.
    for provider in repo.spec.model.all_providers() {
        let keys = &gateway.models.keys;
        let upstream = ModelUpstream::of(keys, &gateway.context, &repo, &provider).await;
        let upstream = match upstream {
            Ok(upstream) => upstream,
            Err(error) => {
                tracing::info!(%error, provider = provider.name, "model_cost_lookup_failed");
                continue;
            }
        };
        let told = upstream.generation(gateway.context.http(), &lost.id).await;
        if let Some(cost) = told.and_then(|told| read_cost(&told, &lost.id)) {
            return Some(cost);
        }
    }
    None
}

#[derive(Deserialize)]
struct GenerationAnswer<'a> {
    #[serde(borrow)]
    data: GenerationData<'a>,
}

/// Figures as their text: none passes through a float.
#[derive(Deserialize)]
struct GenerationData<'a> {
    #[serde(borrow)]
    id: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    model: Option<String>,
    #[serde(borrow)]
    total_cost: &'a RawValue,
    #[serde(borrow, default)]
    tokens_prompt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tokens_completion: Option<&'a RawValue>,
    #[serde(borrow, default)]
    native_tokens_prompt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    native_tokens_completion: Option<&'a RawValue>,
    #[serde(borrow, default)]
    native_tokens_cached: Option<&'a RawValue>,
    #[serde(borrow, default)]
    native_tokens_reasoning: Option<&'a RawValue>,
    /// True if the provider behind it bills by itself: the cost is a fee then.
    #[serde(default)]
    is_byok: Option<bool>,
    #[serde(borrow, default)]
    upstream_inference_cost: Option<&'a RawValue>,
}

/// Reads the answer about the call `id`. The tokens are the model's own, as in the usage that ends an
/// answer, where they are told.
fn read_cost(body: &[u8], id: &str) -> Option<(TokenUsage, Option<String>)> {
    let GenerationAnswer { data } = serde_json::from_slice(body).ok()?;
    if data.id.is_some_and(|told| told != id) {
        return None;
    }
    let count = |own: Option<&RawValue>, other: Option<&RawValue>| {
        let read = |text: &RawValue| text.get().parse().ok();
        own.and_then(read).or_else(|| other.and_then(read)).unwrap_or(0)
    };
    let upstream = data.upstream_inference_cost.filter(|_| data.is_byok.unwrap_or(false));
    let upstream = upstream.and_then(|cost| NanoUsd::parse(cost.get()).ok());
    let prompt_tokens = count(data.native_tokens_prompt, data.tokens_prompt);
    let completion_tokens = count(data.native_tokens_completion, data.tokens_completion);
    let usage = TokenUsage {
        cost: NanoUsd::parse(data.total_cost.get()).ok()? + upstream.unwrap_or_default(),
        prompt_tokens,
        completion_tokens,
        cached_tokens: count(data.native_tokens_cached, None).min(prompt_tokens),
        reasoning_tokens: count(data.native_tokens_reasoning, None).min(completion_tokens),
        calls: 1,
        ..TokenUsage::default()
    };
    Some((usage, data.model))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(data: &str) -> Option<TokenUsage> {
        read_cost(format!(r#"{{"data":{{{data}}}}}"#).as_bytes(), "gen-1").map(|told| told.0)
    }

    #[test]
    fn the_cost_is_exact_and_the_tokens_are_the_models_own() {
        let whole = r#""id":"gen-1","total_cost":1.5e-3,"tokens_prompt":10,"tokens_completion":25,
            "native_tokens_prompt":12,"native_tokens_completion":null,"native_tokens_cached":8,
            "native_tokens_reasoning":20,"is_byok":false,"upstream_inference_cost":9,"cancelled":true"#;
        let usage = TokenUsage {
            cost: NanoUsd(1_500_000),
            prompt_tokens: 12,
            completion_tokens: 25,
            cached_tokens: 8,
            reasoning_tokens: 20,
            calls: 1,
            ..TokenUsage::default()
        };
        assert_eq!(told(whole), Some(usage));
        let own = TokenUsage { cost: NanoUsd(9_001_500_000), ..usage };
        assert_eq!(told(&whole.replace("\"is_byok\":false", "\"is_byok\":true")), Some(own));
        let least = TokenUsage { cost: NanoUsd(100_000_001), calls: 1, ..TokenUsage::default() };
        assert_eq!(told(r#""total_cost":0.100000001"#), Some(least));
    }

    #[test]
    fn what_is_not_about_the_call_says_nothing() {
        for data in [
            r#""id":"gen-2","total_cost":1"#,
            r#""id":"gen-1","total_cost":null"#,
            r#""id":"gen-1","total_cost":-1"#,
            r#""id":"gen-1""#,
        ] {
            assert_eq!(told(data), None, "{data}");
        }
        assert_eq!(read_cost(b"<html>", "gen-1"), None);
    }
}
