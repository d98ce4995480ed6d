//! The model proxy: OpenAI's chat completions, images and transcriptions with the Repo's key,
//! granted before they are made and metered where the money is spent. What is asked and answered is
//! never logged.
//!
//! Pure: [`billing`], [`collect`], [`complaint`], [`dialect`], [`drawing`], [`foreign`], [`job`], [`params`],
//! [`prepare`], [`refusal`], [`request`], [`retry`], [`search`], [`slow`], [`sse`], [`verdict`].
//!
//! [`facts`] knows the models, [`catalog`] their lists, [`model_conditions`] reports on each Repo what is wrong with its
//! roles' models. [`flights`] limits how many calls a role makes at once, and [`breaker`] leaves a model alone that
//! keeps failing. [`call`] makes a call, [`form`] reads what one with a recording sends, [`draw`] makes calls for
//! images, [`bought`] those of other services, and [`charge`] settles the bill. Where a call is refused, [`reshape`]
//! changes its form, and [`learned`] remembers the form. [`upstream`] talks to the provider, [`stream`] hands on,
//! [`settle`] asks what lost answers have cost.

mod answer;
mod asking;
pub mod billing;
pub mod bought;
pub mod breaker;
pub mod budget;
mod calibration;
mod call;
mod calling;
pub mod catalog;
mod charge;
pub mod collect;
pub mod complaint;
pub mod dialect;
pub mod draw;
mod drawing;
pub mod facts;
mod flights;
mod foreign;
pub mod form;
#[cfg(test)]
mod fuzz;
mod hearing;
mod job;
mod learned;
pub mod model_conditions;
mod params;
mod pool;
pub mod prepare;
pub mod recording;
pub mod refusal;
pub mod request;
mod reshape;
pub mod retry;
mod search;
pub mod services;
pub mod settle;
mod slow;
pub mod sse;
pub mod stream;
mod tools;
mod trace;
pub mod upstream;
pub mod verdict;

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use codebutler_crds::wire::{ErrorCode, STAND_IN, WebResults};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::estimate;
use codebutler_gateway_core::extract::BoundedBody;
use codebutler_gateway_core::searcher::WebSearcher;
use codebutler_gateway_core::speech::{SoundRecording, SpeechDesk, SpeechError, SpeechScribe};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use kube::ResourceExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tracing::Instrument as _;

pub use self::asking::build_asker;
use self::call::ModelReply;
pub use self::calling::AdmittedCaller;
use self::dialect::ApiDialect;
pub use self::flights::CallSlot;
use self::form::RecordingForm;
use self::job::ModelJob;
pub use self::pool::ModelPool;
use self::request::ForwardableRequest;
use self::services::ModelServices;
use self::upstream::ModelError;

/// `POST /v1/chat/completions`
pub async fn complete_chat(
    State(gateway): State<Arc<ModelServices>>,
    AdmittedCaller(caller, place): AdmittedCaller,
    BoundedBody(body): BoundedBody,
) -> Result<Response, ApiError> {
    let request = read_request(&gateway, &caller, body).await?;
    answer_job(gateway, caller, ModelJob::Chat(request), place).await
}

/// `POST /v1/audio/transcriptions`
pub async fn transcribe_sound(
    State(gateway): State<Arc<ModelServices>>,
    AdmittedCaller(caller, place): AdmittedCaller,
    headers: HeaderMap,
    BoundedBody(body): BoundedBody,
) -> Result<Response, ApiError> {
    let recording = RecordingForm::read(&headers, body, &caller.role.spec.model).await;
    let job = ModelJob::Speech(recording.map_err(|e| invalid_request(&e))?);
    answer_job(gateway, caller, job, place).await
}

/// Builds the transcriber of Slack's recordings. It acts as the role that wants to know: with the
/// Repo's key, within its budget, and on its account.
pub fn build_scribe(gateway: &Arc<ModelServices>) -> SpeechScribe {
    let gateway = Arc::clone(gateway);
    Arc::new(move |caller, sound| {
        let gateway = Arc::clone(&gateway);
        Box::pin(async move { write_down(gateway, caller, sound).await })
    })
}

/// Builds the transcriber of conversations' recordings, with tasks that are served to their end.
pub fn build_speech_desk(gateway: &Arc<ModelServices>) -> SpeechDesk {
    SpeechDesk { scribe: build_scribe(gateway), tasks: gateway.answers.clone() }
}

async fn write_down(
    gateway: Arc<ModelServices>,
    caller: ProvenCaller,
    sound: SoundRecording,
) -> Result<String, SpeechError> {
    let lasting = |sentence: &str| SpeechError { sentence: sentence.to_owned(), is_billed: true };
    let model = caller.role.spec.model.audio.clone();
    let model = model.ok_or_else(|| SpeechError {
        sentence: "the role has no spec.model.audio".to_owned(),
        is_billed: false,
    })?;
    let recording = RecordingForm::of(model, (&sound.name, &sound.kind), sound.bytes);
    let (reply, answered) = tokio::sync::oneshot::channel();
    let making = call::make_call(gateway.clone(), caller, ModelJob::Speech(recording), reply);
    gateway.answers.spawn(making.in_current_span());
    match answered.await {
        Ok(Ok(ModelReply::Whole { answer, .. })) => recording::read_transcript(&answer)
            .ok_or_else(|| lasting("the provider's answer has no text")),
        Ok(Ok(ModelReply::Stream(_))) => Err(lasting("the provider answered in pieces")),
        Ok(Err(error)) => {
            Err(SpeechError { sentence: error.to_string(), is_billed: error.may_be_billed() })
        }
        Err(_) => Err(lasting("the gateway lost the call")),
    }
}

/// Searches the web for a role with a model whose provider can, within the role's budget and on its account.
pub fn build_searcher(gateway: &Arc<ModelServices>) -> WebSearcher {
    let gateway = Arc::clone(gateway);
    Arc::new(move |caller, query| {
        let gateway = Arc::clone(&gateway);
        Box::pin(async move { search_by_model(gateway, caller, query).await })
    })
}

async fn search_by_model(
    gateway: Arc<ModelServices>,
    caller: ProvenCaller,
    query: String,
) -> Result<WebResults, ApiError> {
    let (model, dialect) = choose_searcher(&gateway, &caller)?;
    let routed = gateway.models.catalog.route(&caller.repo, &model);
    let body = search::search_request((dialect, routed.id), &model, &query);
    let request = ForwardableRequest::own(model, &body).map_err(|e| invalid_request(&e))?;
    let (reply, answered) = tokio::sync::oneshot::channel();
    let making = call::make_call(gateway.clone(), caller, ModelJob::Search(request), reply);
    gateway.answers.spawn(making.in_current_span());
    let failed =
        |why: &str| ApiError::new(ErrorCode::Upstream, format!("the web search failed: {why}"));
    match answered.await {
        Ok(Ok(ModelReply::Whole { answer, .. })) => {
            search::read_sources(dialect, &answer).ok_or_else(|| failed("its answer can't be read"))
        }
        Ok(Ok(ModelReply::Stream(_))) => Err(failed("it was answered in pieces")),
        Ok(Err(error)) => {
            let hint = if search::is_switched_off(dialect, &error.to_string()) {
                search::SWITCH
            } else {
                ""
            };
            Err(ApiError::new(error.code(), format!("the web search failed: {error}{hint}")))
        }
        Err(_) => {
            Err(ApiError::new(ErrorCode::Unavailable, "the gateway lost this search: try again"))
        }
    }
}

/// The model that the Repo names for searches, or the cheapest of the role's that can search.
fn choose_searcher(
    gateway: &ModelServices,
    caller: &ProvenCaller,
) -> Result<(String, ApiDialect), ApiError> {
    let catalog = &gateway.models.catalog;
    let wanted = caller.repo.spec.web.as_ref().and_then(|web| web.search_model.as_deref());
    let now = Timestamp::now();
    let own = caller.role.spec.model.talking().map(|(_, model)| model);
    let candidates = own.filter(|model| wanted.is_none_or(|wanted| *model == wanted));
    let able = candidates.filter_map(|model| {
        let routed = catalog.route(&caller.repo, model);
        let dialect = ApiDialect::of(&routed.provider);
        let facts = catalog.facts_at(&caller.repo, &routed);
        let price = facts.prices.map_or(estimate::UNKNOWN, |prices| prices.at(0, now));
        let can = search::can_search(dialect, routed.id) && facts.tools != Some(false);
        can.then(|| ((price.prompt, price.completion), model.to_owned(), dialect))
    });
    let cheapest = able.min_by_key(|(price, ..)| *price);
    cheapest.map(|(_, model, dialect)| (model, dialect)).ok_or_else(|| {
        let own = caller.role.spec.model.talking();
        let dialects =
            own.map(|(_, model)| ApiDialect::of(&catalog.route(&caller.repo, model).provider));
        let message = search::explain_unable(wanted, &caller.role.name_any(), dialects);
        ApiError::new(ErrorCode::Forbidden, message)
    })
}

/// A request that may be forwarded, masked where the Repo wants that. Takes the body, so that nothing
/// keeps it, and the connection's buffer with it, until there is an answer.
async fn read_request(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    body: Bytes,
) -> Result<ForwardableRequest, ApiError> {
    let mut request = ForwardableRequest::read(&body, &caller.role.spec.model)
        .map_err(|e| invalid_request(&e))?;
    drop(body);
    if caller.repo.spec.policy.redact_models {
        request.mask(&*Box::pin(gateway.outcomes.redactor(caller)).await?);
    }
    Ok(request)
}

async fn answer_job(
    gateway: Arc<ModelServices>,
    caller: ProvenCaller,
    job: ModelJob,
    place: CallSlot,
) -> Result<Response, ApiError> {
    let is_speech = matches!(job, ModelJob::Speech(_));
    let (reply, answered) = tokio::sync::oneshot::channel();
    // On a task of its own: a call that has begun is paid for, so it is metered even if the pod that
    // asked is gone before the answer comes.
    let made = call::make_call(gateway.clone(), caller, job, reply);
    // Its place is taken until it is paid for, whether or not anybody still waits.
    let making = async move {
        made.await;
        drop(place);
    };
    gateway.answers.spawn(making.in_current_span());
    let lost = |_| ApiError::new(ErrorCode::Unavailable, "the gateway lost this call: try again");
    Ok(match answered.await.map_err(lost)? {
        Ok(ModelReply::Whole { answer, instead }) => {
            let answer = if is_speech { recording::as_transcription(answer) } else { answer };
            let mut response = ([(CONTENT_TYPE, "application/json")], answer).into_response();
            // Its caller offers the tools that this one knows from now on.
            let instead = instead.and_then(|model| HeaderValue::from_str(&model).ok());
            let named = instead.map(|model| (HeaderName::from_static(STAND_IN), model));
            response.headers_mut().extend(named);
            response
        }
        Ok(ModelReply::Stream(pieces)) => {
            let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
            (headers, HttpBody::from_stream(ReceiverStream::new(pieces))).into_response()
        }
        Err(error) => refusal_response(&error),
    })
}

fn invalid_request(why: &impl ToString) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, why.to_string())
}

fn refusal_response(error: &ModelError) -> Response {
    let after = match error {
        ModelError::Unavailable { after, .. } => *after,
        _ => None,
    };
    let seconds = after.map(|after| u32::try_from(after.as_secs()).unwrap_or(u32::MAX));
    ApiError { retry_after: seconds, ..ApiError::new(error.code(), error.to_string()) }
        .into_response()
}
