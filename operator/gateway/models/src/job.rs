//! The kinds of call, as far as they differ: where they go, what they may cost, and what is
//! sent.

use bytes::Bytes;
use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use codebutler_crds::thread::TokenUsage;
use codebutler_gateway_core::estimate;
use http::HeaderValue;

use super::dialect::ApiDialect;
use super::drawing::DrawingJob;
use super::form::RecordingForm;
use super::prepare::RequestShape;
use super::recording::{self, RecordingShape};
use super::request::{ForwardableRequest, RequestError};
use super::search::SearchApi;

/// Bytes of what a search shows to the model, which are billed as if they had been sent. Anthropic and OpenAI show whole pages.
const FOUND: usize = 16 * 1024;
const FOUND_WHOLE: usize = 96 * 1024;

#[derive(Debug)]
pub(crate) enum ModelJob {
    Chat(ForwardableRequest),
    Speech(RecordingForm),
    /// A web search of the provider's own.
    Search(ForwardableRequest),
    /// Images of CodeButler's own wording.
    Drawing(DrawingJob),
}

impl ModelJob {
    /// Below the provider's base URL.
    pub(crate) fn path(&self, shape: &RequestShape<'_>) -> &'static [&'static str] {
        match self {
            Self::Search(_) => SearchApi::of(shape.dialect, shape.id).path(),
            Self::Chat(_) => &["chat", "completions"],
            Self::Speech(_) => RecordingShape::of(shape).path(),
            Self::Drawing(job) => job.path(shape),
        }
    }

    /// Returns true if it is asked in the provider's own words, with its own headers: OpenAI's words know no search there.
    pub(crate) fn is_native(&self, dialect: ApiDialect) -> bool {
        matches!(self, Self::Search(_)) && dialect == ApiDialect::Anthropic
    }

    /// The model that was asked for.
    pub(crate) fn model(&self) -> &str {
        match self {
            Self::Chat(request) | Self::Search(request) => &request.model,
            Self::Speech(recording) => &recording.model,
            Self::Drawing(job) => &job.model,
        }
    }

    /// Returns true if the answer is to be streamed.
    pub(crate) const fn streams(&self) -> bool {
        matches!(self, Self::Chat(ForwardableRequest { stream: true, .. }))
    }

    /// Returns true if the whole answer can be put together from a stream.
    pub(crate) const fn may_be_collected(&self) -> bool {
        matches!(self, Self::Chat(ForwardableRequest { stream: false, answers: 1, .. }))
    }

    /// Returns true if the model is given tools.
    pub(crate) fn has_tools(&self) -> bool {
        matches!(self, Self::Chat(request) if request.fields.get("tools").is_some_and(|tools| !matches!(tools.get(), "null" | "[]")))
    }

    /// Returns true if another model may stand in.
    pub(crate) const fn may_fall_back(&self) -> bool {
        matches!(self, Self::Chat(_))
    }

    /// Estimates the cost. `body` is what is sent.
    pub(crate) fn estimate(
        &self,
        body: &[u8],
        shape: &RequestShape<'_>,
        price: &ModelPrice,
    ) -> NanoUsd {
        match self {
            Self::Chat(request) => {
                estimate::estimate_chat(body, Some(request.cap(shape)), request.answers, price)
            }
            Self::Search(request) => {
                // OpenRouter's list tells no price of a search.
                let search = estimate::price_searches(1, price);
                let found = match SearchApi::of(shape.dialect, shape.id) {
                    SearchApi::Messages | SearchApi::Responses => FOUND_WHOLE,
                    SearchApi::Chat => FOUND,
                };
                let shown = estimate::estimate_chat(&vec![b' '; found], Some(0), 1, price);
                estimate::estimate_chat(body, Some(request.cap(shape)), 1, price) + shown + search
            }
            Self::Speech(recording) => {
                let bytes = recording.speech_bytes();
                let by_minute = estimate::estimate_recording(bytes, price);
                let form = RecordingShape::of(shape);
                if form == RecordingShape::Form {
                    return by_minute;
                }
                // Lists name no price of a minute, and a token of sound may cost more than one of text.
                let unlisted = estimate::estimate_recording(bytes, &estimate::UNKNOWN);
                let (heard, said) = match form {
                    RecordingShape::Chat => recording::chat_tokens(estimate::sound_seconds(bytes)),
                    RecordingShape::Form | RecordingShape::Json => (0, 0),
                };
                let tokens = TokenUsage {
                    prompt_tokens: heard,
                    completion_tokens: said,
                    ..TokenUsage::default()
                };
                by_minute.max(estimate::price_tokens(&tokens, price)).max(unlisted)
            }
            Self::Drawing(job) => job.estimate(price),
        }
    }

    /// The body to send, for `model`, as the role calls it.
    ///
    /// # Errors
    /// Never, as far as is known.
    pub(crate) fn body(
        &self,
        model: &str,
        shape: &RequestShape<'_>,
    ) -> Result<(HeaderValue, Bytes), RequestError> {
        let json = HeaderValue::from_static("application/json");
        match self {
            Self::Search(request) => {
                let api = SearchApi::of(shape.dialect, shape.id);
                Ok((json, api.body(request, model, shape)?.into()))
            }
            Self::Chat(request) => Ok((json, request.body(model, shape)?.into())),
            Self::Speech(one) => Ok(match RecordingShape::of(shape) {
                RecordingShape::Form => one.body(shape.id),
                RecordingShape::Json => (json, recording::json_body(one, shape.id)),
                RecordingShape::Chat => (json, recording::chat_body(one, shape)),
            }),
            Self::Drawing(job) => Ok(job.body(shape)),
        }
    }
}
