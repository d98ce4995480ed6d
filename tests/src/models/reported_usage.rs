//! Usage and cost of a call, as a provider reports them.

use codebutler_crds::NanoUsd;
use serde::Serialize;
use serde_json::value::RawValue;

use super::usage::ScriptUsage;

/// Divisor of the cost that gives the router's fee, where an account pays with its own key.
const FEE: u64 = 20;

/// Detail in which usage is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageTelling {
    /// Tokens are reported, cost is not.
    Tokens,
    /// Tokens and cost are reported.
    Cost,
    /// Tokens and cost are reported, paid with the account's own key.
    OwnKey,
}

/// The `usage` object of an answer.
#[derive(Serialize)]
pub(super) struct UsageOut {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_byok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_details: Option<CostDetails>,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

#[derive(Serialize)]
struct CostDetails {
    #[serde(rename = "upstream_inference_cost")]
    all: Option<Box<RawValue>>,
    /// Parts of the whole cost; always 0 here.
    #[serde(rename = "upstream_inference_prompt_cost")]
    prompt: u64,
    #[serde(rename = "upstream_inference_completions_cost")]
    completions: u64,
}

fn raw_json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Splits the cost into that of the router, and that of the provider behind it if that is another account. Both are
/// JSON numbers with exact text.
pub(super) fn split_usage(
    usage: &ScriptUsage,
    telling: UsageTelling,
) -> (Box<RawValue>, Option<Box<RawValue>>) {
    if telling != UsageTelling::OwnKey {
        return (raw_json(&usage.cost.text), None);
    }
    let fee = NanoUsd(usage.cost.amount.0 / FEE);
    let rest = usage.cost.amount.less(fee);
    (raw_json(&fee.to_string()), Some(raw_json(&rest.to_string())))
}

impl UsageOut {
    pub(super) fn new(usage: &ScriptUsage, telling: UsageTelling) -> Self {
        let (cost, upstream) = split_usage(usage, telling);
        let priced = telling != UsageTelling::Tokens;
        Self {
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
            total_tokens: usage.prompt + usage.completion,
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached,
                cache_write_tokens: priced.then_some(usage.written),
            },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
            cost: priced.then_some(cost),
            is_byok: priced.then_some(telling == UsageTelling::OwnKey),
            cost_details: priced.then_some(CostDetails {
                all: upstream,
                prompt: 0,
                completions: 0,
            }),
        }
    }
}
