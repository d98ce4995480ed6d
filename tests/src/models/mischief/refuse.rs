//! Error responses in their providers' own words and in `OpenRouter`'s shape.

use axum::http::header;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::respond::{RefusedCall, failure_response};
use super::{MischiefKind, ModelMischief};

/// Status and body of a provider's refusal.
struct RefusalWords {
    status: u16,
    message: String,
    metadata: Value,
}

fn refusal_words(status: u16, message: impl Into<String>, metadata: Value) -> RefusalWords {
    RefusalWords { status, message: message.into(), metadata }
}

/// Builds the refusal of a request that is so many tokens long.
pub(crate) fn refuse_request(mischief: &ModelMischief, model: &str, tokens: u64) -> Response {
    let RefusalWords { status, mut message, metadata } = say_refusal(mischief.kind, model, tokens);
    if let Some(secret) = &mischief.secret {
        message = format!("{message} (asked with {secret})");
    }
    let failed = RefusedCall { status, message: &message, metadata };
    let mut response = failure_response(&failed);
    let wait = mischief.retry_after.or((mischief.kind == MischiefKind::InFlight).then_some(1));
    if let Some(seconds) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn provider_metadata(name: &str, kind: &str, raw: &Value) -> Value {
    json!({"provider_name": name, "error_type": kind, "raw": raw.to_string()})
}

fn say_refusal(kind: MischiefKind, model: &str, tokens: u64) -> RefusalWords {
    use MischiefKind as K;
    match kind {
        K::OverflowOpenai
        | K::OverflowAnthropic
        | K::OverflowGoogle
        | K::OverflowOpenrouter
        | K::OverflowVllm => say_overflow(kind, tokens),
        K::NoCredit | K::CreditForLess | K::InFlight => say_payment(kind),
        K::Moderated | K::Guardrail | K::KeyForbidden => say_forbidden(kind, model),
        K::NoToolEndpoints => refusal_words(
            404,
            "No endpoints found that support tool use. To learn more about provider routing, visit: \
             https://openrouter.ai/docs/provider-routing",
            Value::Null,
        ),
        K::NoImageEndpoints => {
            refusal_words(404, "No endpoints found that support image input", Value::Null)
        }
        K::DataPolicy => refusal_words(
            404,
            "No endpoints found matching your data policy. Configure: \
             https://openrouter.ai/settings/privacy",
            Value::Null,
        ),
        K::UnknownModel => {
            refusal_words(400, format!("{model} is not a valid model ID"), Value::Null)
        }
        K::WrongKey => refusal_words(401, "User not found.", Value::Null),
        K::TooLarge => {
            let raw = json!({"type": "error", "error": {"type": "request_too_large",
                "message": "Request exceeds the maximum size"}});
            refusal_words(
                413,
                "Provider returned error",
                provider_metadata("Anthropic", "request_too_large", &raw),
            )
        }
        K::RateLimited => refusal_words(
            429,
            "Provider returned error",
            provider_metadata(
                "Chutes",
                "rate_limit_exceeded",
                &json!(format!(
                    "{model} is temporarily rate-limited upstream. Please retry shortly."
                )),
            ),
        ),
        K::Overloaded => {
            let raw = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
            refusal_words(
                529,
                "Provider returned error",
                provider_metadata("Anthropic", "provider_overloaded", &raw),
            )
        }
        K::ProviderDown => refusal_words(
            502,
            "Provider returned error",
            provider_metadata("Together", "provider_unavailable", &json!("upstream connect error")),
        ),
        K::Unavailable => refusal_words(
            503,
            "No instances available for this model right now. Please try again.",
            json!({"error_type": "provider_unavailable"}),
        ),
        _ => {
            let raw = json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": "messages.1: the request has a fault that only the provider knows"}});
            refusal_words(
                400,
                "Provider returned error",
                provider_metadata("Anthropic", "invalid_request", &raw),
            )
        }
    }
}

fn say_overflow(kind: MischiefKind, tokens: u64) -> RefusalWords {
    let limit = tokens.saturating_sub(tokens / 4).max(1);
    match kind {
        MischiefKind::OverflowOpenai => refusal_words(
            400,
            format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in \
                 {tokens} tokens. Please reduce the length of the messages."
            ),
            json!({"provider_name": "OpenAI", "provider_code": "context_length_exceeded"}),
        ),
        MischiefKind::OverflowAnthropic => {
            let raw = json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": format!("prompt is too long: {tokens} tokens > {limit} maximum")}});
            refusal_words(
                400,
                "Provider returned error",
                json!({"provider_name": "Anthropic", "raw": raw.to_string()}),
            )
        }
        MischiefKind::OverflowGoogle => {
            let raw = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": format!(
                "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
            )}});
            refusal_words(
                400,
                "Provider returned error",
                json!({"provider_name": "Google", "raw": raw.to_string()}),
            )
        }
        MischiefKind::OverflowOpenrouter => refusal_words(
            400,
            format!(
                "Invalid request: Your request exceeded model token limit: {limit} (requested: {tokens})"
            ),
            json!({"provider_name": "Moonshot AI", "error_type": "context_length_exceeded"}),
        ),
        _ => refusal_words(
            400,
            format!(
                "the request exceeds the available context size. try increasing the context size or enable \
                 context shift: {tokens} tokens, maximum context length is {limit} tokens"
            ),
            Value::Null,
        ),
    }
}

fn say_payment(kind: MischiefKind) -> RefusalWords {
    let visit = "visit https://openrouter.ai/settings/credits";
    match kind {
        MischiefKind::CreditForLess => can_afford(65_536, 30_104),
        MischiefKind::InFlight => refusal_words(
            402,
            "Your requests in flight may cost more than what is left of your credits. Please retry shortly.",
            json!({"error_type": "payment_required", "limit_source": "openrouter_in_flight_budget"}),
        ),
        _ => refusal_words(
            402,
            format!(
                "Insufficient credits. Add more using https://openrouter.ai/settings/credits, or {visit}"
            ),
            json!({"error_type": "payment_required"}),
        ),
    }
}

/// Builds the 402 of an account that has less than such an answer may cost.
pub(crate) fn too_dear(wanted: u64, affordable: u64) -> Response {
    let RefusalWords { status, message, metadata } = can_afford(wanted, affordable);
    failure_response(&RefusedCall { status, message: &message, metadata })
}

fn can_afford(wanted: u64, affordable: u64) -> RefusalWords {
    refusal_words(
        402,
        format!(
            "This request requires more credits, or fewer max_tokens. You requested up to {wanted} tokens, but \
             can only afford {affordable}. To increase, visit https://openrouter.ai/settings/credits and \
             upgrade to a paid account"
        ),
        json!({"error_type": "payment_required"}),
    )
}

fn say_forbidden(kind: MischiefKind, model: &str) -> RefusalWords {
    match kind {
        MischiefKind::Moderated => refusal_words(
            403,
            format!("{model} requires moderation. Your input was flagged for \"violence\"."),
            json!({"error_type": "content_policy_violation", "reasons": ["violence"],
                "flagged_input": "…", "provider_name": "OpenAI", "model_slug": model}),
        ),
        MischiefKind::Guardrail => refusal_words(
            403,
            "Request blocked by a guardrail of your organisation: the model is not on its list.",
            json!({"error_type": "permission_denied", "guardrail": "models"}),
        ),
        _ => refusal_words(
            403,
            "This API key is disabled or does not have permission for this request.",
            json!({"error_type": "permission_denied"}),
        ),
    }
}
