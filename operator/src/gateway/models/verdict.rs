//! What a provider's refusal means, by its status and its words. Pure.

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;

use super::complaint::{self, ProviderComplaint};
use super::retry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerVerdict {
    /// It was not served, so it is not billed; asking again may help.
    Again,
    /// It may have been served, and billed; the answer is lost.
    Unanswered,
    /// The conversation is longer than the model takes.
    Overflow,
    /// The content does not pass.
    Content,
    Key,
    /// The account has no money left.
    Credit,
    /// There is money for an answer of so many tokens.
    Affordable(u32),
    /// The model, or the address, is not known.
    UnknownModel,
    /// The model can't call tools.
    NoTools,
    /// The model can't be shown pictures.
    NoPictures,
    /// No provider of the model knows all parameters, which the role asks for.
    NoParameters,
    /// No provider of the model promises what the role, or the account, asks for.
    DataPolicy,
    /// The role leaves no provider of the model.
    NoProvider,
    /// The model gives no answers that long.
    AnswerTooLong,
    /// Fault is found with the request.
    Request,
    Strange,
}

/// A verdict, with what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRefusal {
    pub verdict: AnswerVerdict,
    /// When the provider wants to be asked again.
    pub after: Option<Duration>,
    /// Its words, not masked.
    pub said: String,
}

/// Judges an answer whose status is not 200.
pub fn classify_answer(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> ModelRefusal {
    let complaint = complaint::read_complaint(body);
    let after = retry::asked_wait(headers, now).or(complaint.after);
    ModelRefusal {
        verdict: judge_complaint(status, &complaint, after),
        after,
        said: complaint.text,
    }
}

/// Judges an error that came with status 200: by the status that it names itself.
pub fn classify_inner(complaint: ProviderComplaint) -> ModelRefusal {
    let after = complaint.after;
    let verdict = match judge_complaint(complaint.status.unwrap_or(0), &complaint, after) {
        // It had begun. Nothing says that the next time is not better.
        AnswerVerdict::Strange | AnswerVerdict::Request
            if complaint.status.is_none_or(|code| code >= 500) =>
        {
            AnswerVerdict::Unanswered
        }
        verdict => verdict,
    };
    ModelRefusal { verdict, after, said: complaint.text }
}

fn judge_complaint(
    status: u16,
    complaint: &ProviderComplaint,
    after: Option<Duration>,
) -> AnswerVerdict {
    let text = complaint.text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is = |kinds: &[&str]| kinds.iter().any(|kind| complaint.is(kind));
    match status {
        402 => return judge_unpaid(complaint, &text, after),
        401 => return AnswerVerdict::Key,
        413 => return AnswerVerdict::Overflow,
        429 if is(&["insufficient_quota"]) || says(CREDIT) => return AnswerVerdict::Credit,
        429 if says(&["request too large", "must be reduced"]) => return AnswerVerdict::Overflow,
        429 => return AnswerVerdict::Again,
        520 | 524 => return AnswerVerdict::Unanswered,
        _ => {}
    }
    if is(&["max_tokens_exceeded"]) || says(ANSWER) {
        AnswerVerdict::AnswerTooLong
    } else if is(OVERFLOW_KINDS) || says(OVERFLOW) || (says(&["input"]) && says(INPUT_TOO_LONG)) {
        AnswerVerdict::Overflow
    } else if is(CONTENT_KINDS) || says(CONTENT) {
        AnswerVerdict::Content
    } else if is(&["payment_required"]) || says(CREDIT) {
        AnswerVerdict::Credit
    } else if is(&["api_key_invalid", "invalid_api_key", "authentication_error"]) || says(KEY) {
        AnswerVerdict::Key
    } else {
        judge_routing(&text).unwrap_or_else(|| by_status(status, complaint, &text))
    }
}

/// 402 has three causes, and each its own remedy.
fn judge_unpaid(
    complaint: &ProviderComplaint,
    text: &str,
    after: Option<Duration>,
) -> AnswerVerdict {
    let afford = text.split_once("can only afford ").and_then(|(_, rest)| {
        let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
        digits.replace(',', "").parse().ok()
    });
    let in_flight = complaint.is("openrouter_in_flight_budget") || text.contains("in-flight");
    match afford {
        _ if in_flight || after.is_some() => AnswerVerdict::Again,
        Some(tokens) => AnswerVerdict::Affordable(tokens),
        None => AnswerVerdict::Credit,
    }
}

/// What leaves no provider to ask.
fn judge_routing(text: &str) -> Option<AnswerVerdict> {
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(TOOLS) {
        Some(AnswerVerdict::NoTools)
    } else if says(PICTURES) {
        Some(AnswerVerdict::NoPictures)
    } else if says(&["data policy", "zero data retention", "guardrail restrictions", "zdr"]) {
        Some(AnswerVerdict::DataPolicy)
    } else if says(&["requested parameters"]) {
        Some(AnswerVerdict::NoParameters)
    } else if says(&["no allowed providers", "no endpoints found", "no endpoints available"]) {
        // With a model's name behind it: nobody offers that model (any more).
        let named = text.contains("no endpoints found for");
        Some(if named { AnswerVerdict::UnknownModel } else { AnswerVerdict::NoProvider })
    } else {
        None
    }
}

fn by_status(status: u16, complaint: &ProviderComplaint, text: &str) -> AnswerVerdict {
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is = |kinds: &[&str]| kinds.iter().any(|kind| complaint.is(kind));
    let unknown = is(&["model_not_found", "not_found_error"]) || says(UNKNOWN);
    match status {
        // Not for the key's sake.
        403 if says(&["country", "region", "territory"]) => AnswerVerdict::Strange,
        403 => AnswerVerdict::Key,
        404 => AnswerVerdict::UnknownModel,
        400 | 422 if unknown => AnswerVerdict::UnknownModel,
        _ if is(PASSING) => AnswerVerdict::Again,
        408 | 425 | 500..=599 => AnswerVerdict::Again,
        400 | 405..=407 | 409 | 415 | 422 => AnswerVerdict::Request,
        _ => AnswerVerdict::Strange,
    }
}

const OVERFLOW_KINDS: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "model_context_window_exceeded",
    "exceed_context_size_error",
    "request_too_large",
    "string_above_max_length",
];

/// Each of another provider: that the prompt does not fit.
const OVERFLOW: &[&str] = &[
    "maximum context length",
    "max context length",
    "model's context length",
    "context length is only",
    "context_length_exceeded",
    "context length exceeded",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the available context size",
    "exceeds the model's context",
    "exceeds context length",
    "context window exceeds limit",
    "greater than the context length",
    "larger than the context",
    "context window is full",
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "maximum prompt length",
    "maximum model length",
    "exceeded model token limit",
    "max tokens allowed",
    "maximum number of tokens allowed",
    "reduce the length of the messages",
    "reduce your prompt",
    "too large for model with",
    "range of input length should be",
    "request entity too large",
];

/// Beside the word `input`.
const INPUT_TOO_LONG: &[&str] =
    &["too long", "tokens exceed", "length exceeds", "exceeds the maximum", "exceeds the limit of"];

const ANSWER: &[&str] = &[
    "max_tokens is too large",
    "max_completion_tokens is too large",
    "maximum allowed number of output tokens",
    "max_tokens` must be less than or equal",
    "max_tokens must be less than or equal",
    "valid range of max_tokens",
];

const CONTENT_KINDS: &[&str] = &[
    "flagged",
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "refusal",
    "invalid_prompt",
    "data_inspection_failed",
    "datainspectionfailed",
    "prohibited_content",
    "sensitive_words_detected",
];

const CONTENT: &[&str] = &[
    "requires moderation",
    "flagged as potentially violating",
    "content management policy",
    "content policy",
    "content exists risk",
    "prohibited_content",
    "blocked by guardrail",
    "violated a guardrail",
    "violates our usage policies",
    "inappropriate content",
];

const CREDIT: &[&str] = &[
    "insufficient credit",
    "insufficient balance",
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance is too low",
    "key limit exceeded",
    "more credits",
];

const KEY: &[&str] =
    &["api key not valid", "invalid api key", "incorrect api key", "user not found"];

const TOOLS: &[&str] = &[
    "support tool use",
    "does not support tools",
    "does not support function calling",
    "tools is not supported",
    "enable-auto-tool-choice",
    "tool calling is not supported",
];

const PICTURES: &[&str] = &[
    "support image input",
    "does not support image",
    "not support image",
    "not a multimodal model",
    "image input is not supported",
    "image_url is only supported",
    "unknown variant `image_url`",
];

const UNKNOWN: &[&str] = &[
    "not a valid model",
    "invalid model",
    "unknown model",
    "model not exist",
    "model_not_found",
    "model does not exist",
    "no such model",
];

/// Kinds that pass by themselves.
const PASSING: &[&str] = &[
    "rate_limit_exceeded",
    "rate_limit_error",
    "overloaded_error",
    "provider_overloaded",
    "provider_unavailable",
    "server_error",
    "server",
    "api_error",
    "timeout",
    "unavailable",
    "resource_exhausted",
];

#[cfg(test)]
mod tests;
