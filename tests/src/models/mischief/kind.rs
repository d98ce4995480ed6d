//! Faults of a model or its provider, by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of mischief. The names are the scenario files' vocabulary.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MischiefKind {
    /// No text, no calls, `finish_reason: stop`.
    Empty,
    /// Thinking, and nothing after it.
    ReasoningOnly,
    /// The `refusal` field instead of an answer.
    Refusal,
    /// `finish_reason: content_filter`, nothing said.
    ContentFilter,
    /// `finish_reason: length`, in the middle of the text, or of the first call's arguments.
    Length,
    /// `finish_reason: error` after half of the text, and no word of what it was.
    FinishError,
    /// Status 200, and an error for a body.
    #[serde(rename = "error_in_200")]
    ErrorIn200,
    /// Status 200, half of the text, and an error inside the choice.
    ChoiceError,
    /// Nothing said, `finish_reason: stop`; only `native_finish_reason` knows of a malformed call.
    SilentStop,
    /// A stream that ends with an error event; asked for whole, as `choice_error`.
    StreamError,
    /// The connection breaks inside the arguments of a call, or inside the text.
    CutInCall,
    /// The calls as text, as Kimi's template writes them.
    LeakedKimi,
    /// The calls as text, as Qwen's and Hermes' templates write them.
    LeakedQwen,
    /// The calls as text, as Llama's template writes them.
    LeakedLlama,
    /// The calls as text behind `<|python_tag|>`.
    LeakedPython,
    /// The right answer, with ids such as `functions.Grep:0`.
    OddIds,
    /// The right answer, with no ids at all.
    MissingIds,
    /// It says what it will do next, and doesn't.
    Narration,
    /// The right text, with its hand-over in bold.
    MentionBold,
    /// The right text, with its hand-over as an item of a list.
    MentionListed,
    /// The right text, with its hand-over in the middle of a line.
    MentionMidline,
    /// The right text, which says its hand-over twice.
    MentionDoubled,
    /// The right text without its hand-over.
    MentionMissing,
    /// 400: too long, as OpenAI says it.
    OverflowOpenai,
    /// 400: too long, as Anthropic says it.
    OverflowAnthropic,
    /// 400: too long, as Google says it.
    OverflowGoogle,
    /// 400: too long, as Moonshot says it through OpenRouter, with `metadata.error_type`.
    OverflowOpenrouter,
    /// 400: too long, as vLLM and llama.cpp say it.
    OverflowVllm,
    /// 400: the provider finds fault with the request; its own words are in `metadata.raw`.
    BadRequest,
    /// 400: not a valid model ID.
    UnknownModel,
    /// 401: no such key.
    WrongKey,
    /// 402: the account is empty.
    NoCredit,
    /// 402: less could be afforded.
    CreditForLess,
    /// 402 with `Retry-After`: too much is in flight.
    InFlight,
    /// 403: the input was flagged.
    Moderated,
    /// 403: a guardrail of the account.
    Guardrail,
    /// 403: the key may not do this.
    KeyForbidden,
    /// 404: nobody serves the model with tools.
    NoToolEndpoints,
    /// 404: nobody serves the model with pictures.
    NoImageEndpoints,
    /// 404: nobody who does keeps to the account's data policy.
    DataPolicy,
    /// 413.
    TooLarge,
    /// 429, with `Retry-After` if the mischief has one.
    RateLimited,
    /// 529.
    Overloaded,
    /// 502: the provider behind is down.
    ProviderDown,
    /// 503, with `Retry-After` if the mischief has one.
    Unavailable,
}

/// Effect of a kind on the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MischiefManner {
    /// No answer is given: the status is other than 200.
    Error,
    /// An answer other than the script's is given.
    Answer,
    /// The script's answer is given in another form.
    Clothes,
    /// The script's text is given with another hand-over.
    Mention,
}

impl MischiefKind {
    /// Every kind of fault that can be played.
    pub const ALL: [Self; 45] = [
        Self::Empty,
        Self::ReasoningOnly,
        Self::Refusal,
        Self::ContentFilter,
        Self::Length,
        Self::FinishError,
        Self::ErrorIn200,
        Self::ChoiceError,
        Self::SilentStop,
        Self::StreamError,
        Self::CutInCall,
        Self::LeakedKimi,
        Self::LeakedQwen,
        Self::LeakedLlama,
        Self::LeakedPython,
        Self::OddIds,
        Self::MissingIds,
        Self::Narration,
        Self::MentionBold,
        Self::MentionListed,
        Self::MentionMidline,
        Self::MentionDoubled,
        Self::MentionMissing,
        Self::OverflowOpenai,
        Self::OverflowAnthropic,
        Self::OverflowGoogle,
        Self::OverflowOpenrouter,
        Self::OverflowVllm,
        Self::BadRequest,
        Self::UnknownModel,
        Self::WrongKey,
        Self::NoCredit,
        Self::CreditForLess,
        Self::InFlight,
        Self::Moderated,
        Self::Guardrail,
        Self::KeyForbidden,
        Self::NoToolEndpoints,
        Self::NoImageEndpoints,
        Self::DataPolicy,
        Self::TooLarge,
        Self::RateLimited,
        Self::Overloaded,
        Self::ProviderDown,
        Self::Unavailable,
    ];

    pub(crate) const fn manner(self) -> MischiefManner {
        use MischiefKind as K;
        match self {
            K::OddIds | K::MissingIds => MischiefManner::Clothes,
            K::MentionBold
            | K::MentionListed
            | K::MentionMidline
            | K::MentionDoubled
            | K::MentionMissing => MischiefManner::Mention,
            K::Empty
            | K::ReasoningOnly
            | K::Refusal
            | K::ContentFilter
            | K::Length
            | K::FinishError
            | K::ErrorIn200
            | K::ChoiceError
            | K::SilentStop
            | K::StreamError
            | K::CutInCall
            | K::LeakedKimi
            | K::LeakedQwen
            | K::LeakedLlama
            | K::LeakedPython
            | K::Narration => MischiefManner::Answer,
            _ => MischiefManner::Error,
        }
    }
}
