//! An OpenAI-compatible server that plays a script.
//!
//! A role's model is called `scripted/<role>`. The server keeps no conversation: the place in the
//! script is read from each request. It does keep an exact account of what it billed.

mod generation;
mod ledger;
mod media;
mod otherwise;
mod play;
mod respond;
mod script;
mod text;
mod validate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::watch;

use self::generation::Generation;
use self::ledger::Ledger;
pub use self::ledger::{Bill, Request, RoleBill, Served};
pub use self::otherwise::Otherwise;
use self::otherwise::{Lost, waits_for};
use self::play::{Answer, Place};
use self::respond::{About, error};
pub(crate) use self::script::amount;
pub use self::script::{
    Conversation, Cost, Fault, FaultKind, RoleScript, Script, Step, ToolCall, Usage,
};
pub use self::text::{Pattern, Text};
use crate::serving::{HangUp, Serving};

/// How the server is set up.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The one API key that is accepted.
    pub api_key: String,
    /// How to answer where the script does not know how to; else it is a failure of the script.
    pub otherwise: Option<Otherwise>,
    /// Port to listen at if it is free.
    pub port: Option<u16>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        let api_key = format!("sk-or-v1-{}", uuid::Uuid::new_v4().simple());
        Self { api_key, otherwise: None, port: None }
    }
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct ModelServer {
    shared: Arc<Shared>,
    serving: Serving,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    options: ModelOptions,
    ledger: Mutex<Ledger>,
    gate: watch::Sender<Gate>,
    /// In the middle of answers.
    midway: watch::Sender<Gate>,
}

/// Where answers wait while a test looks at what happens in the middle of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    shut: bool,
    waiting: usize,
}

/// One waiting call; a caller that hangs up waits no longer.
struct Waiting<'a>(&'a watch::Sender<Gate>);

impl<'a> Waiting<'a> {
    fn at(gate: &'a watch::Sender<Gate>) -> Self {
        gate.send_modify(|gate| gate.waiting += 1);
        Self(gate)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|gate| gate.waiting -= 1);
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass(gate: &watch::Sender<Gate>) {
    if !gate.borrow().shut {
        return;
    }
    let _counted = Waiting::at(gate);
    let _ = gate.subscribe().wait_for(|gate| !gate.shut).await;
}

impl ModelServer {
    /// Starts a server that plays `script`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(script: Script, options: ModelOptions) -> std::io::Result<Self> {
        let port = options.port;
        let shared = Arc::new(Shared {
            script,
            options,
            ledger: Mutex::default(),
            gate: watch::Sender::default(),
            midway: watch::Sender::default(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/images/generations", post(media::images))
            .route("/v1/audio/transcriptions", post(media::transcriptions))
            .route("/v1/generation", get(generation::generation))
            .route("/v1/models", get(models))
            .fallback(async || unknown_path())
            // Long conversations are large requests.
            .layer(DefaultBodyLimit::max(64 << 20))
            .with_state(Arc::clone(&shared));
        Ok(Self { shared, serving: Serving::start_at(port, router).await? })
    }

    /// The API's base, `http://127.0.0.1:<port>/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/v1", self.serving.url())
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.serving.port()
    }

    /// The key that is accepted.
    #[must_use]
    pub fn api_key(&self) -> &str {
        &self.shared.options.api_key
    }

    /// The model's name for a role.
    #[must_use]
    pub fn model(role: &str) -> String {
        format!("{}{role}", play::MODEL_PREFIX)
    }

    /// Lets every call from now on wait, unanswered and unbilled, until [`release`](Self::release).
    pub fn hold(&self) {
        self.shared.gate.send_modify(|gate| gate.shut = true);
    }

    /// Ends when a call waits.
    pub async fn held(&self) {
        self.all_held(1).await;
    }

    /// Ends when so many calls wait at the same time.
    pub async fn all_held(&self, calls: usize) {
        // The sender lives as long as `self`: there is no error to meet.
        let _ = self.shared.gate.subscribe().wait_for(|gate| gate.waiting >= calls).await;
    }

    /// Answers what waits.
    pub fn release(&self) {
        self.shared.gate.send_modify(|gate| gate.shut = false);
    }

    /// Lets every answer from now on, begun and billed already, wait in its middle until it is cut off
    /// or the server goes.
    pub fn hold_midway(&self) {
        self.shared.midway.send_modify(|gate| gate.shut = true);
    }

    /// Ends when an answer waits.
    pub async fn held_midway(&self) {
        let _ = self.shared.midway.subscribe().wait_for(|gate| gate.waiting > 0).await;
    }

    /// From now on it does not tell afterwards what an answer has cost, as most providers.
    pub fn keep_costs_secret(&self) {
        self.shared.ledger().secret = true;
    }

    /// What was billed, exactly.
    #[must_use]
    pub fn billed(&self) -> Bill {
        self.shared.ledger().bill()
    }

    /// Every answer that was billed, oldest first.
    #[must_use]
    pub fn served(&self) -> Vec<Served> {
        self.shared.ledger().served.clone()
    }

    /// Every request, refused ones too, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.ledger().requests.clone()
    }

    /// Where the conversation left the script: with any entry here, a scenario has failed.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.shared.ledger().failures.clone()
    }
}

fn authorised(shared: &Shared, headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    value.and_then(|v| v.strip_prefix("Bearer ")) == Some(shared.options.api_key.as_str())
}

fn unauthorised() -> Response {
    let message = "Incorrect API key provided.";
    error(401, "invalid_request_error", Some("invalid_api_key"), None, message)
}

fn unknown_path() -> Response {
    error(404, "invalid_request_error", Some("unknown_url"), None, "Unknown request URL.")
}

async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if !authorised(&shared, &headers) {
        return unauthorised();
    }
    let models = shared.script.0.keys().map(|role| {
        json!({"id": ModelServer::model(role), "object": "model", "created": 0, "owned_by": "testbed"})
    });
    let data: Vec<Value> = models.collect();
    axum::Json(json!({"object": "list", "data": data})).into_response()
}

async fn chat(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    pass(&shared.gate).await;
    let otherwise = shared.options.otherwise.as_ref();
    let place = play::locate(&shared.script, &request)
        .or_else(|| otherwise.and_then(|_| play::nowhere(&request)));
    let role = place.as_ref().map(|p| p.role.to_owned());
    let response = if authorised(&shared, &headers) {
        answer(&shared, place, &request).await
    } else {
        unauthorised()
    };
    let status = response.status().as_u16();
    shared.ledger().requests.push(Request { role, body: request, status });
    response
}

async fn answer(shared: &Arc<Shared>, place: Option<Place<'_>>, request: &Value) -> Response {
    let kind = "invalid_request_error";
    if let Err(invalid) = validate::request(request) {
        let role = place.as_ref().map_or("?", |p| p.role);
        shared.ledger().fail(format!("{role}: invalid request: {}", invalid.message));
        return error(400, kind, None, Some(&invalid.param), &invalid.message);
    }
    let model = request["model"].as_str().unwrap_or_default();
    let Some(place) = place else {
        let message =
            format!("The model `{model}` does not exist or you do not have access to it.");
        return error(404, kind, Some("model_not_found"), None, &message);
    };
    let after_the_end = Step::say("The script ends here.");
    let (step, answer) = match play_on(&place, shared.options.otherwise.as_ref(), request) {
        Ok((step, answer)) => (step.unwrap_or(&after_the_end), answer),
        Err(failure) => {
            let failure = format!("{} step {}: {failure}", place.role, place.index + 1);
            shared.ledger().fail(failure.clone());
            return error(500, "script_failure", None, None, &failure);
        }
    };
    tokio::time::sleep(Duration::from_millis(step.delay_ms)).await;
    let about =
        About { id: format!("gen-{}", uuid::Uuid::new_v4().simple()), model, usage: &step.usage };
    let streamed = request["stream"] == true;
    if let Some(fault) = step.fault
        && shared.ledger().take_fault(place.conversation, place.index, fault.times)
    {
        return broken(fault.kind, &about, &answer, streamed).await;
    }
    let tools = answer.tools.iter().map(|t| t.name.clone()).collect();
    let billed = Generation::new(model, &step.usage, streamed);
    let mut ledger = shared.ledger();
    ledger.generations.insert(about.id.clone(), billed);
    ledger.serve(place.role, (place.conversation, place.list, place.index), tools, &step.usage);
    drop(ledger);
    let mut response = if streamed {
        generation::stream_out(shared, &about.id, about.events(&answer))
    } else {
        generation::whole(shared, &about.id, about.whole(&answer))
    };
    if let Ok(id) = about.id.parse() {
        response.headers_mut().insert("x-generation-id", id);
    }
    response
}

/// The answer to a request, and the step that it is, if it is one.
fn play_on<'a>(
    place: &Place<'a>,
    honest: Option<&Otherwise>,
    request: &Value,
) -> Result<(Option<&'a Step>, Answer), String> {
    let Some(honest) = honest else {
        let Some(step) = place.step()? else {
            return Ok((None, Answer::say("The script ends here.")));
        };
        return Ok((Some(step), place.answer(step, request)?));
    };
    let lost = |why| Ok((None, honest.admit(why)));
    if !place.is_known() {
        return lost(Lost::Unknown);
    }
    let Some(step) = place.step()? else { return lost(Lost::Over) };
    if let Some(aside) = otherwise::aside(place, request) {
        return Ok((None, aside));
    }
    match place.answer(step, request) {
        Ok(answer) => Ok((Some(step), answer)),
        Err(_) => lost(Lost::Unexpected(waits_for(step))),
    }
}

/// A fault instead of an answer. Nothing is billed for it.
async fn broken(kind: FaultKind, about: &About<'_>, answer: &Answer, streamed: bool) -> Response {
    match kind {
        FaultKind::Status { status, retry_after } => {
            let (name, message) = match status {
                429 => ("rate_limit_exceeded", "Rate limit reached."),
                _ => ("server_error", "The server had an error while processing your request."),
            };
            let mut response = error(status, name, Some(name), None, message);
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
        FaultKind::Hang { seconds } => {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            HangUp::response()
        }
        FaultKind::Cut if streamed => respond::cut(&about.events(answer).concat(), true),
        FaultKind::Cut => respond::cut(&about.whole(answer), false),
        FaultKind::BadJson if streamed => {
            respond::event_stream(vec!["data: {\"choices\": [\n\n".to_owned()])
        }
        FaultKind::BadJson => respond::json_text("{\"choices\": [{\"mess".to_owned()),
    }
}
