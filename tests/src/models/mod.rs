//! An OpenAI-compatible server that plays a script.
//!
//! A role's model is called `scripted/<role>`; others are offered by their cards. The server keeps no
//! conversation: the place in the script is read from each request. It does keep an exact account of
//! what it billed, and of what it did wrong on purpose.

mod card;
mod catalogue;
mod chat;
mod follow;
mod generation;
mod images;
mod ledger;
mod media;
mod messages;
mod meter;
mod mischief;
mod options;
mod otherwise;
mod particular;
mod play;
mod played;
mod reply;
mod reported_usage;
mod respond;
mod responses;
mod routed_images;
mod script;
mod searching;
mod shape;
mod sign;
mod strict;
mod summary;
mod text;
mod usage;
mod validate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use self::card::{CacheRule, ModelCard, PriceCard, PriceOverride};
pub use self::catalogue::PlayedCatalogue;
use self::ledger::ModelLedger;
pub use self::ledger::{ModelBill, ModelRequest, PlayedMischief, RoleBill, ServedAnswer};
use self::meter::KeptMeter;
pub use self::meter::count_tokens;
pub use self::mischief::{MischiefKind, MischiefList, ModelMischief, RandomMischief};
pub use self::options::ModelOptions;
pub use self::otherwise::OtherwiseAnswers;
use self::respond::{error_response, plain_error};
pub use self::script::{
    FaultKind, ModelScript, RoleScript, ScriptFault, ScriptStep, ScriptedConversation, ToolCall,
};
pub use self::searching::SearchedPage;
pub use self::text::{CheckedPattern, TextMatch};
pub(crate) use self::usage::amount;
pub use self::usage::{ScriptUsage, WrittenCost, WrittenCostError};
use crate::serving::RunningServer;
pub use images::small_png;

/// A running model server. Dropping it stops it.
#[derive(Debug)]
pub struct ModelServer {
    shared: Arc<SharedModels>,
    serving: RunningServer,
}

#[derive(Debug)]
struct SharedModels {
    script: ModelScript,
    options: ModelOptions,
    ledger: Mutex<ModelLedger>,
    meter: Mutex<KeptMeter>,
    /// Offset by which the server's clock is ahead.
    passed: Mutex<Duration>,
    gate: watch::Sender<AnswerGate>,
    /// Gate in the middle of answers.
    midway: watch::Sender<AnswerGate>,
}

/// Gate at which answers wait while a test looks at what happens in the middle of a call.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerGate {
    shut: bool,
    waiting: usize,
}

/// One call waiting at a gate; it counts until its caller hangs up.
struct WaitingAnswer<'a>(&'a watch::Sender<AnswerGate>);

impl<'a> WaitingAnswer<'a> {
    fn at(gate: &'a watch::Sender<AnswerGate>) -> Self {
        gate.send_modify(|gate| gate.waiting += 1);
        Self(gate)
    }
}

impl Drop for WaitingAnswer<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|gate| gate.waiting -= 1);
    }
}

impl SharedModels {
    fn ledger(&self) -> MutexGuard<'_, ModelLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> MutexGuard<'_, KeptMeter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::now() + *self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass_gate(gate: &watch::Sender<AnswerGate>) {
    if !gate.borrow().shut {
        return;
    }
    let _counted = WaitingAnswer::at(gate);
    let _ = gate.subscribe().wait_for(|gate| !gate.shut).await;
}

impl ModelServer {
    /// Starts a server that plays `script`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(script: ModelScript, options: ModelOptions) -> std::io::Result<Self> {
        let at = options.at;
        let shared = Arc::new(SharedModels {
            script,
            options,
            ledger: Mutex::default(),
            meter: Mutex::default(),
            passed: Mutex::default(),
            gate: watch::Sender::default(),
            midway: watch::Sender::default(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat::serve_chat))
            .route("/v1/images", post(media::serve_routed_images))
            .route("/v1/images/generations", post(media::serve_images))
            .route("/v1/images/edits", post(media::serve_edits))
            .route("/v1/audio/transcriptions", post(media::serve_transcriptions))
            .route("/v1/generation", get(generation::serve_generation))
            .route("/v1/messages", post(messages::serve_messages))
            .route("/v1/responses", post(responses::serve_responses))
            .route("/v1/models", get(catalogue::serve_models))
            .route("/v1/key", get(catalogue::serve_key))
            .route("/v1/model/{author}/{slug}", get(catalogue::serve_model))
            .fallback(async || unknown_path())
            // Long conversations are large requests.
            .layer(DefaultBodyLimit::max(64 << 20))
            .with_state(Arc::clone(&shared));
        Ok(Self { shared, serving: RunningServer::start_at(at, router).await? })
    }

    /// Base URL of the API, `http://<address>:<port>/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/v1", self.serving.url())
    }

    /// Port that the server listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.serving.port()
    }

    /// API key that the server accepts.
    #[must_use]
    pub fn api_key(&self) -> &str {
        &self.shared.options.api_key
    }

    /// Name of the model that plays a role's script.
    #[must_use]
    pub fn model(role: &str) -> String {
        format!("{}{role}", play::MODEL_PREFIX)
    }

    /// Holds every call from now on, unanswered and unbilled, until [`release`](Self::release).
    pub fn hold(&self) {
        self.shared.gate.send_modify(|gate| gate.shut = true);
    }

    /// Returns once a call waits at the gate.
    pub async fn held(&self) {
        self.all_held(1).await;
    }

    /// Returns once so many calls wait at the same time.
    pub async fn all_held(&self, calls: usize) {
        // The sender lives as long as `self`: there is no error to meet.
        let _ = self.shared.gate.subscribe().wait_for(|gate| gate.waiting >= calls).await;
    }

    /// Lets the waiting calls, and later ones, be answered.
    pub fn release(&self) {
        self.shared.gate.send_modify(|gate| gate.shut = false);
    }

    /// Holds every answer from now on, begun and billed already, in its middle until it is cut off or the server
    /// goes.
    pub fn hold_midway(&self) {
        self.shared.midway.send_modify(|gate| gate.shut = true);
    }

    /// Returns once an answer waits midway.
    pub async fn held_midway(&self) {
        self.all_held_midway(1).await;
    }

    /// Returns once so many answers wait midway at the same time.
    pub async fn all_held_midway(&self, answers: usize) {
        let mut gate = self.shared.midway.subscribe();
        let _ = gate.wait_for(|gate| gate.waiting >= answers).await;
    }

    /// Lets the answers that wait midway go on.
    pub fn release_midway(&self) {
        self.shared.midway.send_modify(|gate| gate.shut = false);
    }

    /// Advances the server's clock, so that caches expire.
    pub fn pass_time(&self, time: Duration) {
        *self.shared.passed.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// From now on, the server does not tell afterwards what an answer has cost, as most providers.
    pub fn keep_costs_secret(&self) {
        self.shared.ledger().secret = true;
    }

    /// Exact totals of all that was billed.
    #[must_use]
    pub fn billed(&self) -> ModelBill {
        self.shared.ledger().bill()
    }

    /// Every answer that was billed, oldest first.
    #[must_use]
    pub fn served(&self) -> Vec<ServedAnswer> {
        self.shared.ledger().served.clone()
    }

    /// Every request, refused ones too, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.ledger().requests.clone()
    }

    /// Every fault played on purpose, oldest first.
    #[must_use]
    pub fn misplayed(&self) -> Vec<PlayedMischief> {
        self.shared.ledger().misplayed.clone()
    }

    /// Places where the conversation left the script: with any entry here, a scenario has failed.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.shared.ledger().failures.clone()
    }
}

fn is_authorised(shared: &SharedModels, headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    value.and_then(|v| v.strip_prefix("Bearer ")) == Some(shared.options.api_key.as_str())
}

/// Refuses a wrong key in the words of the provider whose list is played.
fn refuse_key(shared: &SharedModels) -> Response {
    let refuse = |body: Value| (StatusCode::UNAUTHORIZED, axum::Json(body)).into_response();
    match shared.options.catalogue {
        PlayedCatalogue::OpenRouter | PlayedCatalogue::Ollama => {
            error_response(401, "User not found.")
        }
        PlayedCatalogue::OpenAi => plain_error(
            401,
            "invalid_request_error",
            &json!("invalid_api_key"),
            "Incorrect API key provided.",
        ),
        PlayedCatalogue::Vllm => refuse(json!({"error": "Unauthorized"})),
        PlayedCatalogue::Anthropic => {
            let error = json!({"type": "authentication_error", "message": "invalid x-api-key"});
            refuse(json!({"type": "error", "error": error}))
        }
    }
}

fn unknown_path() -> Response {
    error_response(404, "Not Found")
}
