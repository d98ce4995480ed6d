//! `POST /v1/chat/completions`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use codebutler_crds::NanoUsd;
use serde_json::Value;

use super::card::ModelCard;
use super::catalogue::PlayedCatalogue;
use super::generation::{self, BilledGeneration};
use super::ledger::ModelRequest;
use super::mischief::{
    MischiefKind, MischiefManner, ModelMischief, SeedToss, error_body, refuse_request,
    spoil_answer, too_dear,
};
use super::otherwise::{self, LostScript, OtherwiseAnswers, waits_for};
use super::play::{self, PlayError, PlayPlace};
use super::played::FilledAnswer;
use super::reply::{PlayedReply, ReplyEnding};
use super::reported_usage::UsageTelling;
use super::respond::{self, AnsweredCall, error_response, plain_error};
use super::script::{FaultKind, ScriptStep};
use super::usage::ScriptUsage;
use super::{
    SharedModels, is_authorised, media, particular, pass_gate, refuse_key, searching, shape, sign,
    strict, summary, validate,
};
use crate::serving::HangUp;

pub(super) async fn serve_chat(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    pass_gate(&shared.gate).await;
    let place = find_place(&shared, &request);
    let role = place.as_ref().map(|p| p.role.to_owned());
    let response = if is_authorised(&shared, &headers) {
        answer_chat(&shared, place, &request).await
    } else {
        refuse_key(&shared)
    };
    let status = response.status().as_u16();
    shared.ledger().requests.push(ModelRequest { role, body: request, status });
    response
}

fn find_place<'a>(shared: &'a SharedModels, request: &'a Value) -> Option<PlayPlace<'a>> {
    let card = request["model"].as_str().and_then(|model| shared.card(model));
    let place = card.and_then(|card| {
        play::locate_request(&shared.script, &card.role, request, &shared.ledger().memory)
    });
    place.or_else(|| shared.options.otherwise.as_ref().and_then(|_| play::place_nowhere(request)))
}

async fn answer_chat(
    shared: &Arc<SharedModels>,
    place: Option<PlayPlace<'_>>,
    request: &Value,
) -> Response {
    if let Some(found) = searching::answer_search(shared, request) {
        return found;
    }
    let free = shared.options.catalogue == PlayedCatalogue::OpenAi;
    let valid = validate::check_request(request, free).and_then(|()| {
        if shared.options.strict {
            strict::check_strictly(request, &shared.options.api_key)?;
            shape::check_shape(request)
        } else {
            Ok(())
        }
    });
    if let Err(invalid) = valid {
        let role = place.as_ref().map_or("?", |p| p.role);
        shared.ledger().fail(format!("{role}: invalid request: {}", invalid.message));
        return error_response(400, &invalid.message);
    }
    let (catalogue, key) = (shared.options.catalogue, &shared.options.api_key);
    if let Some(words) = particular::find_refusal(catalogue, request, key) {
        return plain_error(400, "invalid_request_error", &Value::Null, &words);
    }
    let model = request["model"].as_str().unwrap_or_default();
    if let Some(audio) = media::find_recording(request) {
        return media::answer_heard(shared, model, audio);
    }
    if let Some(card) = shared.card(model)
        && let Some(drawn) = media::answer_drawing(shared, &card, request)
    {
        return drawn;
    }
    let Some(place) = place else {
        return unknown_model(shared.options.catalogue, model);
    };
    let card = shared.card(model).unwrap_or_else(|| ModelCard::new(model));
    let call = ChatCall { shared, place: &place, request, card: &card };
    if let Some(refusal) = call.too_dear() {
        return refusal;
    }
    if summary::is_wanted(request) {
        let text = summary::write_summary(place.conversation, place.index);
        return call.give(PlayedReply::from(&FilledAnswer::say(&text)), &ScriptUsage::default());
    }
    let after_the_end = ScriptStep::say("The script ends here.");
    let (step, answer) = match play_on(&place, shared.options.otherwise.as_ref(), request) {
        Ok((step, answer)) => (step.unwrap_or(&after_the_end), answer),
        Err(failure) => {
            let failure = format!("{} step {}: {failure}", place.role, place.index + 1);
            shared.ledger().fail(failure.clone());
            return error_response(500, &failure);
        }
    };
    tokio::time::sleep(Duration::from_millis(step.delay_ms)).await;
    if let Some(fault) = step.fault
        && shared.ledger().take_fault(place.conversation, place.index, fault.times)
    {
        return call.broken(fault.kind, &PlayedReply::from(&answer), &step.usage).await;
    }
    match call.mischief(step, &answer) {
        Some(mischief) => call.misplay(&mischief, step, &answer),
        None => call.play(PlayedReply::from(&answer).freed(request), &answer, &step.usage),
    }
}

fn unknown_model(catalogue: PlayedCatalogue, model: &str) -> Response {
    let text = format!("The model `{model}` does not exist or you do not have access to it.");
    match catalogue {
        PlayedCatalogue::OpenRouter => {
            error_response(400, &format!("{model} is not a valid model ID"))
        }
        PlayedCatalogue::OpenAi => {
            plain_error(404, "invalid_request_error", &"model_not_found".into(), &text)
        }
        PlayedCatalogue::Anthropic => {
            plain_error(404, "not_found_error", &Value::Null, &format!("model: {model}"))
        }
        PlayedCatalogue::Ollama => {
            let text = format!("model \"{model}\" not found, try pulling it first");
            plain_error(404, "api_error", &Value::Null, &text)
        }
        PlayedCatalogue::Vllm => {
            let text = format!("The model `{model}` does not exist.");
            plain_error(404, "NotFoundError", &404.into(), &text)
        }
    }
}

/// The answer to a request, and the step that it is, if it is one.
fn play_on<'a>(
    place: &PlayPlace<'a>,
    honest: Option<&OtherwiseAnswers>,
    request: &Value,
) -> Result<(Option<&'a ScriptStep>, FilledAnswer), PlayError> {
    let Some(honest) = honest else {
        let Some(step) = place.step()? else {
            return Ok((None, FilledAnswer::say("The script ends here.")));
        };
        return Ok((Some(step), place.answer(step)?));
    };
    let lost = |why| Ok((None, honest.admit(why)));
    if !place.is_known() {
        return lost(LostScript::Unknown);
    }
    let Some(step) = place.step()? else { return lost(LostScript::Over) };
    if let Some(aside) = otherwise::answer_aside(place, request) {
        return Ok((None, aside));
    }
    match place.answer(step) {
        Ok(answer) => Ok((Some(step), answer)),
        Err(_) => lost(LostScript::Unexpected(waits_for(step))),
    }
}

/// One call whose place is known.
#[derive(Clone, Copy)]
struct ChatCall<'a> {
    shared: &'a Arc<SharedModels>,
    place: &'a PlayPlace<'a>,
    request: &'a Value,
    card: &'a ModelCard,
}

impl ChatCall<'_> {
    fn streamed(&self) -> bool {
        self.request["stream"] == true
    }

    fn telling(&self) -> UsageTelling {
        match (self.shared.options.catalogue, self.card.byok) {
            (PlayedCatalogue::OpenRouter, true) => UsageTelling::OwnKey,
            (PlayedCatalogue::OpenRouter, false) => UsageTelling::Cost,
            _ => UsageTelling::Tokens,
        }
    }

    fn about<'u>(&'u self, usage: &'u ScriptUsage) -> AnsweredCall<'u> {
        let id = format!("gen-{}", uuid::Uuid::new_v4().simple());
        AnsweredCall { id, model: &self.card.id, usage, telling: self.telling() }
    }

    /// A refusal, where the account could not pay for the longest answer.
    fn too_dear(&self) -> Option<Response> {
        let left = self.shared.options.credit?.less(self.shared.ledger().bill().total());
        let asked = ["max_tokens", "max_completion_tokens"].map(|name| self.request[name].as_u64());
        let longest = self.card.max_completion_tokens.unwrap_or(self.card.context_length);
        let wanted = asked.into_iter().flatten().max().unwrap_or(longest);
        let rate = self.card.pricing.of(0).completion;
        (rate.times(wanted) > left).then(|| too_dear(wanted, rate.affords(left)))
    }

    /// What is billed: as the script has it, or by the card.
    fn bill(&self, reply: &PlayedReply, scripted: &ScriptUsage) -> ScriptUsage {
        let unsaid = scripted.cost.amount == NanoUsd::ZERO && scripted.prompt == 0;
        let metered = scripted.metered || (unsaid && self.shared.options.metered);
        if !metered {
            return scripted.clone();
        }
        let at = (self.shared.options.providers, self.shared.now());
        self.shared.meter().bill(self.card, self.request, reply, at)
    }

    /// The reply with its thoughts signed, and its first call where the model's API does that.
    fn signed(&self, mut reply: PlayedReply) -> PlayedReply {
        let text = reply.reasoning.as_deref();
        let key = &self.shared.options.api_key;
        reply.details =
            text.map(|text| sign::thought_block(key, &self.card.id, text)).into_iter().collect();
        let signs = particular::signs_calls(self.shared.options.catalogue, &self.card.id);
        if let Some(call) = reply.calls.first_mut().filter(|_| signs) {
            call.signature = Some(sign::sign_call(key, &self.card.id, &call.name));
        }
        reply
    }

    /// What goes wrong this time.
    fn mischief(&self, step: &ScriptStep, answer: &FilledAnswer) -> Option<ModelMischief> {
        let mut ledger = self.shared.ledger();
        let time = ledger.ask(self.place);
        if let Some(scripted) = step.mischief.at(time) {
            return Some(scripted.clone());
        }
        let toss = SeedToss {
            role: self.place.role,
            opening: &self.place.opening,
            step: self.place.index,
            time,
        };
        self.shared.options.mischief.as_ref()?.toss(&toss, !answer.tools.is_empty())
    }

    fn misplay(
        &self,
        mischief: &ModelMischief,
        step: &ScriptStep,
        answer: &FilledAnswer,
    ) -> Response {
        let (kind, nothing) = (mischief.kind, ScriptUsage::default());
        let manner = kind.manner();
        if manner == MischiefManner::Error || kind == MischiefKind::ErrorIn200 {
            self.shared.ledger().misplay(self.place, kind, &nothing);
        }
        if manner == MischiefManner::Error {
            let tokens = u64::try_from(self.request.to_string().len() / 4).unwrap_or(u64::MAX);
            return refuse_request(mischief, &self.card.id, tokens);
        }
        let reply = spoil_answer(kind, answer);
        if kind == MischiefKind::ErrorIn200 {
            let mut body = error_body(&reply);
            mischief.confide(&mut body["error"]["message"]);
            return respond::json_text(format!("\n{body}"));
        }
        if reply == PlayedReply::from(answer) {
            // There was nothing to spoil.
            return self.play(reply, answer, &step.usage);
        }
        if reply.ending == ReplyEnding::Cut {
            self.shared.ledger().misplay(self.place, kind, &nothing);
            return self.cut(&reply, &step.usage);
        }
        self.shared.ledger().spoil(self.place, answer, manner == MischiefManner::Mention);
        if manner == MischiefManner::Answer {
            let usage = self.bill(&reply, &mischief.usage);
            self.shared.ledger().misplay(self.place, kind, &usage);
            return self.give(reply, &usage);
        }
        self.shared.ledger().misplay(self.place, kind, &nothing);
        let response = self.play(reply, answer, &step.usage);
        if manner == MischiefManner::Mention {
            // Who is not understood is asked again, and rightly so.
            self.shared.ledger().forgive(self.place);
        }
        response
    }

    /// Plays a step.
    fn play(&self, reply: PlayedReply, answer: &FilledAnswer, scripted: &ScriptUsage) -> Response {
        let usage = self.bill(&reply, scripted);
        self.served(answer, &usage);
        self.give(reply, &usage)
    }

    /// Takes note of a step that was played.
    fn served(&self, answer: &FilledAnswer, usage: &ScriptUsage) {
        let tools = answer.tools.iter().map(|t| t.name.clone()).collect();
        let PlayPlace { role, conversation, list, index, .. } = *self.place;
        let mut ledger = self.shared.ledger();
        ledger.remember(self.place, answer);
        ledger.serve(role, (conversation, list, index), tools, usage);
    }

    /// Sends an answer that is billed.
    fn give(&self, reply: PlayedReply, usage: &ScriptUsage) -> Response {
        let reply = &self.signed(reply);
        let about = self.about(usage);
        let billed = BilledGeneration::new(&self.card.id, usage, self.telling(), self.streamed());
        self.shared.ledger().generations.insert(about.id.clone(), billed);
        let mut response = if self.streamed() {
            generation::stream_out(self.shared, &about.id, about.events(reply))
        } else {
            generation::whole_answer(self.shared, &about.id, about.whole(reply))
        };
        if let (PlayedCatalogue::OpenRouter, Ok(id)) =
            (self.shared.options.catalogue, about.id.parse())
        {
            response.headers_mut().insert("x-generation-id", id);
        }
        response
    }

    /// Sends the beginning of an answer, up to the middle of what it says or calls.
    fn cut(&self, reply: &PlayedReply, usage: &ScriptUsage) -> Response {
        let about = self.about(usage);
        if self.streamed() {
            // Two pieces before the last are usage and end, the third is the finish.
            let events = about.events(reply);
            let upto = events.len().saturating_sub(4).max(2);
            return respond::broken_off(events[..upto].concat(), true);
        }
        let text = about.whole(reply);
        let middle = text.find("arguments").or_else(|| text.find("content")).unwrap_or(0) + 16;
        respond::broken_off(text.chars().take(middle).collect(), false)
    }

    /// A fault instead of an answer. Nothing is billed for it.
    async fn broken(&self, kind: FaultKind, reply: &PlayedReply, usage: &ScriptUsage) -> Response {
        let about = self.about(usage);
        match kind {
            FaultKind::Status { status, retry_after } => {
                let message = match status {
                    429 => "Rate limit exceeded.",
                    _ => "The server had an error while processing your request.",
                };
                let mut response = error_response(status, message);
                if let Some(seconds) = retry_after {
                    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
                }
                response
            }
            FaultKind::Hang { seconds } => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                HangUp::response()
            }
            FaultKind::Cut if self.streamed() => {
                respond::cut_response(&about.events(reply).concat(), true)
            }
            FaultKind::Cut => respond::cut_response(&about.whole(reply), false),
            FaultKind::BadJson if self.streamed() => {
                respond::event_stream(vec!["data: {\"choices\": [\n\n".to_owned()])
            }
            FaultKind::BadJson => respond::json_text("{\"choices\": [{\"mess".to_owned()),
        }
    }
}
