//! Images and transcriptions, as far as a caller's account of them goes: no picture is made, and
//! nothing is heard.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::NanoUsd;
use serde_json::{Value, json};

use super::ledger::ModelRequest;
use super::script::{ScriptUsage, WrittenCost};
use super::{SharedModels, is_authorised, play, refuse_key};

/// USD that an image costs, as text.
const IMAGE: &str = "0.04";
/// USD that a transcription costs. It is not told: the answer has its seconds.
const MINUTE: NanoUsd = NanoUsd(6_000_000);
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

/// `POST /v1/audio/transcriptions`. A form is one file and a few short fields: its length is the
/// sound's.
pub(super) async fn serve_transcriptions(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_authorised(&shared, &headers) {
        return refuse_key();
    }
    let text = String::from_utf8_lossy(&body);
    let model = text.split("name=\"model\"").nth(1).and_then(|rest| rest.lines().nth(2));
    let role = model_role(&json!(model));
    let seconds = body.len() / SECOND;
    bill_role(&shared, &role, MINUTE.times(u64::try_from(seconds).unwrap_or(0), 60));
    let request = json!({"model": model, "bytes": body.len()});
    shared.ledger().requests.push(ModelRequest { role: Some(role), body: request, status: 200 });
    let usage = json!({"type": "duration", "seconds": seconds});
    axum::Json(json!({"text": "fix the total", "usage": usage})).into_response()
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
