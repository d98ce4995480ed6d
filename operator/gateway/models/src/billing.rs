//! Reads the cost of a call from the provider's own answer. Money never passes through a float. A field of an odd form
//! says nothing: it hides no other one, and no answer.

use std::str::FromStr;

use codebutler_crds::NanoUsd;
use codebutler_crds::thread::TokenUsage;
use codebutler_crds::wire::history::ModelCall;
use memchr::memmem;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::complaint::{self, ProviderComplaint};
pub use codebutler_gateway_core::bill::ProviderBill;

/// xAI's ticks in a nano-dollar.
const TICKS: u64 = 10;

#[derive(Deserialize)]
struct BillingAnswer<'a> {
    #[serde(borrow, default, deserialize_with = "lenient_usage")]
    usage: Option<Reported<'a>>,
    #[serde(borrow, default)]
    choices: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "lenient_list")]
    data: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    /// Blocks of an answer in Anthropic's own words.
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    /// Items of an answer of OpenAI's Responses API.
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    /// Seconds of a transcription.
    #[serde(default, deserialize_with = "lenient_amount")]
    duration: Option<f64>,
}

#[derive(Deserialize)]
struct Reported<'a> {
    #[serde(borrow, default)]
    cost: Option<&'a RawValue>,
    /// xAI's.
    #[serde(default, deserialize_with = "lenient_count")]
    cost_in_usd_ticks: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    total_tokens: Option<u64>,
    /// OpenAI's and OpenRouter's.
    #[serde(borrow, default)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completion_tokens_details: Option<&'a RawValue>,
    /// Details of the tokens in OpenAI's answers with images, and in its Responses API.
    #[serde(borrow, default)]
    input_tokens_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_tokens_details: Option<&'a RawValue>,
    /// Details in OpenAI's answers with transcriptions.
    #[serde(borrow, default)]
    input_token_details: Option<&'a RawValue>,
    /// Anthropic's, and what a proxy makes of it.
    #[serde(default, deserialize_with = "lenient_kept")]
    cache_creation: KeptTokens,
    #[serde(default, deserialize_with = "lenient_count")]
    claude_cache_creation_1_h_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot's.
    #[serde(default, deserialize_with = "lenient_count")]
    cached_tokens: Option<u64>,
    /// True if the provider behind OpenRouter bills by itself: `cost` is a fee then.
    #[serde(default, deserialize_with = "lenient_flag")]
    is_byok: Option<bool>,
    /// SGLang's.
    #[serde(default, deserialize_with = "lenient_count")]
    reasoning_tokens: Option<u64>,
    #[serde(borrow, default)]
    cost_details: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient_amount")]
    seconds: Option<f64>,
    /// Mistral's.
    #[serde(default, deserialize_with = "lenient_amount")]
    prompt_audio_seconds: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    #[serde(rename = "cached_tokens", deserialize_with = "lenient_count")]
    cached: Option<u64>,
    #[serde(rename = "cache_write_tokens", deserialize_with = "lenient_count")]
    written: Option<u64>,
    #[serde(rename = "reasoning_tokens", deserialize_with = "lenient_count")]
    reasoning: Option<u64>,
    #[serde(rename = "image_tokens", deserialize_with = "lenient_count")]
    images: Option<u64>,
    #[serde(rename = "audio_tokens", deserialize_with = "lenient_count")]
    sounds: Option<u64>,
    /// LiteLLM's, of Anthropic's models.
    #[serde(rename = "cache_creation_token_details", deserialize_with = "lenient_kept")]
    kept: KeptTokens,
}

/// Tokens that are kept from now on, by how long.
#[derive(Default, Deserialize)]
#[serde(default)]
struct KeptTokens {
    #[serde(rename = "ephemeral_1h_input_tokens", deserialize_with = "lenient_count")]
    hour: Option<u64>,
}

impl Details {
    /// Details of an odd form are no reason to know nothing of the bill. To serde, an array would be a struct too.
    fn read(details: Option<&RawValue>) -> Self {
        let details = details.map(RawValue::get).filter(|text| text.starts_with('{'));
        details.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct CostDetails<'a> {
    #[serde(borrow, default)]
    upstream_inference_cost: Option<&'a RawValue>,
}

/// A figure, or a figure in quotes.
fn read_figure<T: FromStr>(figure: &RawValue) -> Option<T> {
    unquoted(figure).parse().ok()
}

fn unquoted(figure: &RawValue) -> &str {
    let text = figure.get();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).trim()
}

fn nano_amount(text: &RawValue) -> Option<NanoUsd> {
    NanoUsd::parse(unquoted(text)).ok()
}

/// A whole number, which some servers write with a point.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just before
fn lenient_count<'de, D: Deserializer<'de>>(field: D) -> Result<Option<u64>, D::Error> {
    let figure = Option::<&RawValue>::deserialize(field)?;
    Ok(figure.and_then(|figure| {
        let rounded = || read_figure::<f64>(figure).filter(|count| (0.0..1e15).contains(count));
        read_figure(figure).or_else(|| rounded().map(|count| count.round() as u64))
    }))
}

fn lenient_amount<'de, D: Deserializer<'de>>(field: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<&RawValue>::deserialize(field)?.and_then(read_figure))
}

fn lenient_flag<'de, D: Deserializer<'de>>(field: D) -> Result<Option<bool>, D::Error> {
    Ok(Option::<&RawValue>::deserialize(field)?.and_then(read_figure))
}

/// To serde, an array would be a struct too.
fn lenient_kept<'de, D: Deserializer<'de>>(field: D) -> Result<KeptTokens, D::Error> {
    let kept = Option::<&RawValue>::deserialize(field)?.map(RawValue::get);
    let kept = kept.filter(|text| text.starts_with('{'));
    Ok(kept.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
}

/// To serde, an array would be a struct too.
fn lenient_usage<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Reported<'de>>, D::Error> {
    let usage = Option::<&RawValue>::deserialize(field)?.map(RawValue::get);
    let usage = usage.filter(|text| text.starts_with('{'));
    Ok(usage.and_then(|text| serde_json::from_str(text).ok()))
}

fn lenient_list<'de, D: Deserializer<'de>>(
    field: D,
) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    let list = Option::<&RawValue>::deserialize(field)?.map(RawValue::get);
    Ok(list.and_then(|text| serde_json::from_str(text).ok()))
}

impl Reported<'_> {
    /// Returns the amount billed, by whomever.
    fn cost(&self) -> Option<NanoUsd> {
        let Some(cost) = self.cost.and_then(nano_amount) else {
            return self.cost_in_usd_ticks.map(|ticks| NanoUsd(ticks.div_ceil(TICKS)));
        };
        let details = || serde_json::from_str::<CostDetails<'_>>(self.cost_details?.get()).ok();
        let upstream = || nano_amount(details()?.upstream_inference_cost?);
        let others = self.is_byok.unwrap_or(false).then(upstream).flatten();
        Some(cost + others.unwrap_or_default())
    }

    /// Tokens of sound among those that were sent.
    fn audio_tokens(&self) -> u64 {
        let told =
            [self.prompt_tokens_details, self.input_tokens_details, self.input_token_details];
        told.into_iter().filter_map(|details| Details::read(details).sounds).max().unwrap_or(0)
    }

    /// Tokens that the provider keeps for an hour from now on.
    fn hour_tokens(&self) -> u64 {
        let told = [
            self.cache_creation.hour,
            self.claude_cache_creation_1_h_tokens,
            Details::read(self.prompt_tokens_details).kept.hour,
        ];
        told.into_iter().flatten().max().unwrap_or(0)
    }

    fn usage(&self) -> TokenUsage {
        let sent = Details::read(self.prompt_tokens_details.or(self.input_tokens_details));
        let received = Details::read(self.completion_tokens_details.or(self.output_tokens_details));
        let told = [
            sent.cached,
            self.cached_tokens,
            self.cache_read_input_tokens,
            self.prompt_cache_hit_tokens,
        ];
        let cached = told.into_iter().flatten().max().unwrap_or(0);
        let told = [sent.written, self.cache_creation_input_tokens];
        let written = told.into_iter().flatten().max().unwrap_or(0);
        let own = [self.cache_read_input_tokens, self.cache_creation_input_tokens];
        let kept = own.into_iter().flatten().fold(0, u64::saturating_add);
        // Anthropic's own count is of the fresh ones alone.
        let prompt = self.prompt_tokens;
        let prompt = prompt.unwrap_or_else(|| self.input_tokens.unwrap_or(0).saturating_add(kept));
        let completion = self.completion_tokens.or(self.output_tokens).unwrap_or(0);
        let counted = prompt.saturating_add(completion);
        let beside = self.total_tokens.unwrap_or(0).saturating_sub(counted);
        // Tokens that the sum alone has are kept ones, of those who pass Anthropic's count on, or else thoughts: xAI and
        // Google bill those as an answer, and count them beside it.
        let (prompt, thoughts) =
            if beside == kept { (prompt + beside, 0) } else { (prompt, beside) };
        let completion = completion.saturating_add(thoughts);
        let cached = cached.min(prompt);
        TokenUsage {
            cost: self.cost().unwrap_or_default(),
            prompt_tokens: prompt,
            completion_tokens: completion,
            cached_tokens: cached,
            written_tokens: written.min(prompt - cached),
            reasoning_tokens: received
                .reasoning
                .or(self.reasoning_tokens)
                .unwrap_or(thoughts)
                .min(completion),
            calls: 1,
        }
    }
}

/// Reads an answer; nothing if it is no JSON object of a completion's form.
pub fn read_bill(body: &[u8]) -> Option<ProviderBill> {
    // To serde, an array would be a struct too.
    let answer: BillingAnswer<'_> = match body.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(body).ok()?,
        _ => return None,
    };
    let choices = answer.choices.is_some_and(|choices| choices.get().starts_with('['));
    let text = answer.text.is_some_and(|text| text.get().starts_with('"'));
    let blocks = answer.content.is_some_and(|content| content.get().starts_with('['));
    let items = answer.output.is_some_and(|output| output.get().starts_with('['));
    let completed = choices || text || blocks || items || answer.data.is_some();
    let reported = answer.usage.as_ref();
    let nothing = TokenUsage { calls: 1, ..TokenUsage::default() };
    let usage = reported.map_or(nothing, Reported::usage);
    let images =
        answer.choices.map_or(0, |choices| choices.get().matches("\"image_url\":{").count());
    let images = images + answer.data.map_or(0, |data| data.len());
    Some(ProviderBill {
        usage,
        priced: reported.is_some_and(|usage| usage.cost().is_some()),
        reported: answer.usage.is_some(),
        completed,
        images: u64::try_from(images).unwrap_or(u64::MAX),
        seconds: reported
            .and_then(|usage| usage.seconds.or(usage.prompt_audio_seconds))
            .or(answer.duration)
            .and_then(whole_seconds),
        estimated: false,
        searches: 0,
        image_tokens: reported
            .and_then(|usage| Details::read(usage.input_tokens_details).images)
            .unwrap_or(0)
            .min(usage.prompt_tokens),
        audio_tokens: reported.map_or(0, Reported::audio_tokens).min(usage.prompt_tokens),
        hour_tokens: reported.map_or(0, Reported::hour_tokens).min(usage.written_tokens),
    })
}

/// Returns the provider that served an answer, where the answer says so.
pub fn find_provider(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Served {
        provider: String,
    }
    serde_json::from_slice(body).ok().map(|Served { provider }| provider)
}

/// Converts the usage of a call for people.
pub fn told_call(model: &str, usage: &TokenUsage) -> ModelCall {
    ModelCall {
        model: model.to_owned(),
        fresh: usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        cached: usage.cached_tokens,
        written: usage.written_tokens,
        answered: usage.completion_tokens,
        reasoning: usage.reasoning_tokens,
        cost: usage.cost,
        ..ModelCall::default()
    }
}

/// Finds the failure in an answer that came with status 200: an error in its place, or in its
/// choice, where no words came before it.
pub fn find_failure(body: &[u8]) -> Option<ProviderComplaint> {
    let has = |name: &[u8]| memmem::find(body, name).is_some();
    if !has(b"\"error\"") && !has(b"\"base_resp\"") {
        return None;
    }
    let answer: Value = serde_json::from_slice(body).ok()?;
    if !answer["error"].is_null() {
        return Some(complaint::complaint_of(&json!({"error": answer["error"]})));
    }
    let choice = &answer["choices"][0];
    let broke_off = !choice["error"].is_null() || choice["finish_reason"] == "error";
    let message = &choice["message"];
    let says = message["content"].as_str().is_some_and(|text| !text.trim().is_empty());
    let base = &answer["base_resp"];
    if complaint::is_failed(base) && !says && message["tool_calls"].is_null() {
        return Some(complaint::complaint_of(&json!({"base_resp": base})));
    }
    (broke_off && !says).then(|| complaint::complaint_of(&json!({"error": choice["error"]})))
}

/// True of an answer that an error has ended after its first words: it has no usage for that reason.
pub fn breaks_off(body: &[u8]) -> bool {
    memmem::find(body, b"\"error\"").is_some()
        && serde_json::from_slice::<Value>(body)
            .is_ok_and(|answer| answer["choices"][0]["finish_reason"] == "error")
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just before
fn whole_seconds(seconds: f64) -> Option<u64> {
    (0.0..1e9).contains(&seconds).then(|| seconds.ceil() as u64)
}

#[cfg(test)]
mod tests;
