//! Images and transcriptions, as far as a caller's account of them goes: no picture is made, and
//! nothing is heard.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use codebutler_crds::NanoUsd;
use serde_json::{Value, json};

use super::ledger::ModelRequest;
use super::respond::error_response;
use super::script::{ScriptUsage, WrittenCost};
use super::{SharedModels, is_authorised, pass_gate, play, refuse_key};

/// USD that an image costs, as text.
const IMAGE: &str = "0.04";
/// USD that a transcription costs. It is not told: the answer has its seconds.
const MINUTE: NanoUsd = NanoUsd(6_000_000);
/// USD that a second costs in a chat, where the answer says what it cost.
const HEARD: NanoUsd = NanoUsd(32_123);
/// The words of every recording.
const WORDS: &str = "fix the total";
/// Bytes of a second of sound.
const SECOND: usize = 1000;

/// `POST /v1/images/generations`
pub(super) async fn serve_images(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (role, count) = (model_role(&request["model"]), request["n"].as_u64().unwrap_or(1));
    if !is_authorised(&shared, &headers) {
        return refuse_key();
    }
    let total: NanoUsd = (0..count).filter_map(|_| IMAGE.parse::<NanoUsd>().ok()).sum();
    bill_role(&shared, &role, total);
    shared.ledger().requests.push(ModelRequest { role: Some(role), body: request, status: 200 });
    let images: Vec<Value> = (0..count).map(|_| json!({"b64_json": "iVBORw0KGgo="})).collect();
    let cost = total.as_f64();
    axum::Json(json!({"created": 0, "data": images, "usage": {"cost": cost}})).into_response()
}

/// `POST /v1/audio/transcriptions`: OpenAI's form, or OpenRouter's JSON.
pub(super) async fn serve_transcriptions(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_authorised(&shared, &headers) {
        return refuse_key();
    }
    pass_gate(&shared.gate).await;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return serve_json(&shared, &body);
    }
    // A form is one file and a few short fields: its length is the sound's.
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
        Err(why) => (400, error_response(400, &why)),
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

/// The recording in a chat.
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
        Err(why) => return error_response(400, &why),
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

/// The bytes of a recording, which has to be what it says.
fn read_sound(audio: &Value) -> Result<Vec<u8>, String> {
    let data = audio["data"].as_str().ok_or("input_audio.data: Required")?;
    let format = audio["format"].as_str().ok_or("input_audio.format: Required")?;
    if data.starts_with("data:") {
        return Err("input_audio.data has to be raw base64, not a data URI".to_owned());
    }
    let sound = base64::engine::general_purpose::STANDARD.decode(data);
    let sound = sound.map_err(|_| "input_audio.data is no valid base64".to_owned())?;
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
        _ => return Err(format!("input_audio.format: Unsupported audio format {format}")),
    };
    if is_own { Ok(sound) } else { Err("Could not decode audio file: invalid data".to_owned()) }
}

fn model_role(model: &Value) -> String {
    let model = model.as_str().unwrap_or_default();
    model.strip_prefix(play::MODEL_PREFIX).unwrap_or(model).to_owned()
}

fn bill_role(shared: &SharedModels, role: &str, amount: NanoUsd) {
    let cost = WrittenCost { text: amount.to_string(), amount };
    let usage = ScriptUsage { cost, ..ScriptUsage::default() };
    let mut ledger = shared.ledger();
    let place = u64::try_from(ledger.served.len()).unwrap_or(u64::MAX);
    ledger.serve(role, (place, 0, 0), Vec::new(), &usage);
}
