//! Images and transcriptions, in as much detail as callers check: images are one pixel, and sound is not analyzed.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use codebutler_crds::NanoUsd;
use serde_json::{Value, json};

use super::card::ModelCard;
use super::catalogue::PlayedCatalogue;
use super::images::{self, ImageCall, ImageRefusal};
use super::ledger::ModelRequest;
use super::respond::{error_response, json_text};
use super::usage::{ScriptUsage, WrittenCost};
use super::{
    SharedModels, is_authorised, pass_gate, play, refuse_key, routed_images, unknown_path,
};

/// Cost of a minute of transcription, in USD. OpenAI's form of the answer tells the seconds instead.
const MINUTE: NanoUsd = NanoUsd(6_000_000);
/// Cost of a second of sound in a chat, in USD; the answer names it.
const HEARD: NanoUsd = NanoUsd(32_123);
/// Transcription of every recording.
const WORDS: &str = "fix the total";
/// Bytes that count as a second of sound.
const SECOND: usize = 1000;

/// Cost of an image in a chat, in USD, as text.
const DRAWN: &str = "0.039";

/// Serves `POST /v1/images/generations`.
pub(super) async fn serve_images(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let call = images::read_generation(&request);
    answer_images(&shared, &headers, request, call).await
}

/// Serves OpenRouter's `POST /v1/images`.
pub(super) async fn serve_routed_images(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if shared.options.catalogue != PlayedCatalogue::OpenRouter {
        return unknown_path();
    }
    if !is_authorised(&shared, &headers) {
        return refuse_key(&shared);
    }
    pass_gate(&shared.gate).await;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = answer_routed(&shared, &request);
    let (role, status) = (Some(model_role(&request["model"])), answer.status().as_u16());
    shared.ledger().requests.push(ModelRequest { role, body: request, status });
    answer
}

fn answer_routed(shared: &SharedModels, request: &Value) -> Response {
    let model = request["model"].as_str().unwrap_or_default();
    let card = shared.card(model);
    let Some(card) = card.filter(|card| card.output_modalities.iter().any(|one| one == "image"))
    else {
        return error_response(404, &format!("Image model {model} not found"));
    };
    let call = match routed_images::read_routed(request) {
        Ok(call) => call,
        Err(why) => return error_response(400, &why.to_string()),
    };
    if call.prompt.contains(images::BLOCKED) {
        let why = format!("{} requires moderation and your input was flagged", card.id);
        return error_response(403, &why);
    }
    bill_role(shared, &card.role, DRAWN.parse().unwrap_or_default());
    let made = call.images().into_iter();
    let made: Vec<Value> =
        made.map(|data| json!({"b64_json": data, "media_type": "image/png"})).collect();
    // The cost is inserted as text, to keep its exact digits.
    let text = json!({"created": 0, "data": made,
        "usage": {"prompt_tokens": 0, "completion_tokens": 4175, "total_tokens": 4175, "cost": "COST"}});
    json_text(text.to_string().replace("\"COST\"", DRAWN))
}

/// Serves `POST /v1/images/edits`.
pub(super) async fn serve_edits(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let form = images::read_form(kind.unwrap_or_default(), &body).unwrap_or_default();
    let text = |name: &str| {
        let field = form.iter().find(|field| field.name == name && field.kind.is_none());
        field.map(|field| String::from_utf8_lossy(&field.bytes).into_owned())
    };
    let files: Vec<&str> =
        form.iter().filter(|f| f.kind.is_some()).map(|f| f.name.as_str()).collect();
    let request = json!({"model": text("model"), "prompt": text("prompt"), "files": files});
    let call = images::read_edit(&form);
    answer_images(&shared, &headers, request, call).await
}

async fn answer_images(
    shared: &SharedModels,
    headers: &HeaderMap,
    request: Value,
    call: Result<ImageCall, ImageRefusal>,
) -> Response {
    if !is_authorised(shared, headers) {
        return refuse_key(shared);
    }
    pass_gate(&shared.gate).await;
    let role = model_role(&request["model"]);
    let keep = |status| {
        let kept = ModelRequest { role: Some(role.clone()), body: request.clone(), status };
        shared.ledger().requests.push(kept);
    };
    let call = match call {
        Ok(call) => call,
        Err(refusal) => {
            keep(400);
            return (StatusCode::BAD_REQUEST, axum::Json(refusal.body())).into_response();
        }
    };
    keep(200);
    let mut usage = call.usage();
    if shared.options.catalogue == PlayedCatalogue::OpenAi {
        bill_role(shared, &role, token_cost(&usage));
    } else {
        // A proxy reports the cost instead of tokens.
        let total = NanoUsd(call.thousandths() * 1_000_000);
        bill_role(shared, &role, total);
        usage = json!({"cost": total.as_f64()});
    }
    let images: Vec<Value> =
        call.images().into_iter().map(|data| json!({"b64_json": data})).collect();
    let answer = json!({"created": 0, "data": images, "usage": usage, "size": call.size,
        "quality": call.quality, "output_format": "png", "background": "opaque"});
    axum::Json(answer).into_response()
}

/// Cost of tokens at OpenAI's prices of gpt-image-1: $5 a million for text, $10 for input images, $40 for output
/// images.
fn token_cost(usage: &Value) -> NanoUsd {
    let tokens = |value: &Value| value.as_u64().unwrap_or_default();
    let sent = &usage["input_tokens_details"];
    NanoUsd(
        tokens(&sent["text_tokens"]) * 5_000
            + tokens(&sent["image_tokens"]) * 10_000
            + tokens(&usage["output_tokens"]) * 40_000,
    )
}

/// Builds the answer to a chat that asks for an image; nothing if it asks for none.
pub(super) fn answer_drawing(
    shared: &SharedModels,
    card: &ModelCard,
    request: &Value,
) -> Option<Response> {
    let call = match images::read_chat(request)? {
        Ok(call) => call,
        Err(error) => return Some(error_response(400, &error.to_string())),
    };
    if !card.output_modalities.iter().any(|kind| kind == "image") {
        let why = "No endpoints found that support the requested output modalities: image, text";
        return Some(error_response(404, why));
    }
    if call.prompt.contains(images::BLOCKED) {
        let why = format!("{} requires moderation and your input was flagged", card.id);
        return Some(error_response(403, &why));
    }
    let spoken = call.prompt.contains(images::SPOKEN);
    let cost = if spoken { "0.000012" } else { DRAWN };
    bill_role(shared, &card.role, cost.parse().unwrap_or_default());
    let content = if spoken { "I can't draw that." } else { "Here it is." };
    let drawn = call.images().into_iter().map(|data| {
        let url = format!("data:image/png;base64,{data}");
        json!({"type": "image_url", "image_url": {"url": url}, "index": 0})
    });
    let drawn: Vec<Value> = if spoken { Vec::new() } else { drawn.collect() };
    let message = json!({"role": "assistant", "content": content, "images": drawn});
    let choice = json!({"index": 0, "finish_reason": "stop", "message": message});
    let id = format!("gen-{}", uuid::Uuid::new_v4().simple());
    // The cost is inserted as text, to keep its exact digits.
    let text = json!({"id": id, "object": "chat.completion", "model": card.id, "choices": [choice],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1290, "total_tokens": 1310, "cost": "COST"}});
    Some(json_text(text.to_string().replace("\"COST\"", cost)))
}

/// Serves `POST /v1/audio/transcriptions`: OpenAI's form, or OpenRouter's JSON.
pub(super) async fn serve_transcriptions(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_authorised(&shared, &headers) {
        return refuse_key(&shared);
    }
    pass_gate(&shared.gate).await;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return serve_json(&shared, &body);
    }
    // A form has one file and a few short fields, so its length serves as that of the sound.
    let text = String::from_utf8_lossy(&body);
    let model = text.split("name=\"model\"").nth(1).and_then(|rest| rest.lines().nth(2));
    let role = model_role(&json!(model));
    let seconds = body.len() / SECOND;
    bill_role(&shared, &role, price_sound(seconds));
    let request = json!({"model": model, "bytes": body.len()});
    shared.ledger().requests.push(ModelRequest { role: Some(role), body: request, status: 200 });
    let usage = json!({"type": "duration", "seconds": seconds});
    axum::Json(json!({"text": WORDS, "usage": usage})).into_response()
}

fn price_sound(seconds: usize) -> NanoUsd {
    MINUTE.times(u64::try_from(seconds).unwrap_or(0), 60)
}

fn serve_json(shared: &SharedModels, body: &[u8]) -> Response {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let model = request["model"].as_str().unwrap_or_default();
    let card = shared.card(model);
    let transcribes =
        card.is_some_and(|card| card.output_modalities.iter().any(|kind| kind == "transcription"));
    let (status, answer) = match read_sound(&request["input_audio"]) {
        Err(why) => (400, error_response(400, &why.to_string())),
        Ok(_) if !transcribes => {
            let why = format!("Model {model} does not support audio transcription");
            (400, error_response(400, &why))
        }
        Ok(sound) => {
            let seconds = sound.len() / SECOND;
            let cost = price_sound(seconds);
            bill_role(shared, &model_role(&request["model"]), cost);
            let usage = json!({"seconds": seconds, "cost": cost.as_f64()});
            (200, axum::Json(json!({"text": WORDS, "usage": usage})).into_response())
        }
    };
    let role = Some(model_role(&request["model"]));
    shared.ledger().requests.push(ModelRequest { role, body: request, status });
    answer
}

/// Finds the recording in a chat request.
pub(super) fn find_recording(request: &Value) -> Option<&Value> {
    let messages = request["messages"].as_array()?.iter();
    let mut parts = messages.filter_map(|message| message["content"].as_array()).flatten();
    parts.find(|part| part["type"] == "input_audio").map(|part| &part["input_audio"])
}

/// Answers a chat that has a recording, for models that hear.
pub(super) fn answer_heard(shared: &SharedModels, model: &str, audio: &Value) -> Response {
    let card = shared.card(model);
    let hears = card.is_some_and(|card| card.input_modalities.iter().any(|kind| kind == "audio"));
    if !hears {
        return error_response(404, "No endpoints found that support input audio");
    }
    let sound = match read_sound(audio) {
        Ok(sound) => sound,
        Err(error) => return error_response(400, &error.to_string()),
    };
    let seconds = u64::try_from(sound.len() / SECOND).unwrap_or_default();
    let cost = HEARD.times(seconds, 1);
    bill_role(shared, &model_role(&json!(model)), cost);
    let message = json!({"role": "assistant", "content": WORDS, "refusal": null});
    let usage = json!({
        "prompt_tokens": seconds * 32 + 60, "completion_tokens": 4, "total_tokens": seconds * 32 + 64,
        "prompt_tokens_details": {"audio_tokens": seconds * 32}, "cost": cost.as_f64(),
    });
    let answer = json!({
        "id": format!("gen-{}", uuid::Uuid::new_v4().simple()), "object": "chat.completion", "created": 1_700_000_000,
        "model": model, "provider": "Testbed",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "native_finish_reason": "stop"}],
        "usage": usage,
    });
    axum::Json(answer).into_response()
}

/// A recording can't be heard, in the provider's words.
#[derive(Debug, thiserror::Error)]
enum SoundError {
    #[error("input_audio.{0}: Required")]
    Missing(&'static str),
    #[error("input_audio.data has to be raw base64, not a data URI")]
    DataUri,
    #[error("input_audio.data is no valid base64")]
    Base64,
    #[error("input_audio.format: Unsupported audio format {0}")]
    Format(String),
    #[error("Could not decode audio file: invalid data")]
    Invalid,
}

/// Decodes a recording, whose bytes have to match its declared format.
fn read_sound(audio: &Value) -> Result<Vec<u8>, SoundError> {
    let data = audio["data"].as_str().ok_or(SoundError::Missing("data"))?;
    let format = audio["format"].as_str().ok_or(SoundError::Missing("format"))?;
    if data.starts_with("data:") {
        return Err(SoundError::DataUri);
    }
    let sound = base64::engine::general_purpose::STANDARD.decode(data);
    let sound = sound.map_err(|_| SoundError::Base64)?;
    let begins = |mark: &[u8]| sound.starts_with(mark);
    let is_own = match format {
        "wav" => begins(b"RIFF"),
        "mp3" => begins(b"ID3") || begins(b"\xff"),
        "flac" => begins(b"fLaC"),
        "ogg" => begins(b"OggS"),
        "webm" => begins(b"\x1a\x45\xdf\xa3"),
        "m4a" => sound.get(4..8) == Some(b"ftyp"),
        "aac" => begins(b"\xff"),
        "aiff" => begins(b"FORM"),
        _ => return Err(SoundError::Format(format.to_owned())),
    };
    if is_own { Ok(sound) } else { Err(SoundError::Invalid) }
}

pub(super) fn model_role(model: &Value) -> String {
    let model = model.as_str().unwrap_or_default();
    model.strip_prefix(play::MODEL_PREFIX).unwrap_or(model).to_owned()
}

pub(super) fn bill_role(shared: &SharedModels, role: &str, amount: NanoUsd) {
    let cost = WrittenCost { text: amount.to_string(), amount };
    let usage = ScriptUsage { cost, ..ScriptUsage::default() };
    let mut ledger = shared.ledger();
    let place = u64::try_from(ledger.served.len()).unwrap_or(u64::MAX);
    ledger.serve(role, (place, 0, 0), Vec::new(), &usage);
}
