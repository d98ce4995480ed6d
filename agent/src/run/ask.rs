//! One model call: what is sent, and what its answer is. Judged first, then recorded, then acted upon.

use std::time::{Duration, Instant};

use bytes::Bytes;
use codebutler_wire::{EditForm, ErrorCode, PostMessage};
use serde_json::Value;

use super::patience::{CallPatience, CallTrouble};
use super::view::{RunEnding, RunView, failed_end, spares_words};
use super::watch::RunDeadline;
use super::{Agent, RunError, notice};
use crate::gateway::{ChatAnswer, ChatError, GatewayError};
use crate::model::judge::{self, ReplyCircumstances, ReplyFlaw};
use crate::model::media::{
    LeftOutMedia, MediaKinds, count_pictures, is_about_bytes, is_about_media, plan_tries,
    refuse_pictures,
};
use crate::model::quirk;
use crate::model::{self, AnswerSource, UnreadableReply, ids, window};
use crate::prompt::{self, WindowLook};
use crate::step;
use crate::tools::RoleTools;
use crate::tools::hand_up::HAND_UP;
use crate::transcript::TranscriptRecord;
use crate::transcript::state::OpenRun;
use codebutler_guides::text::clip_text;
use codebutler_guides::voice::join_lines;

/// Most times in a row that a conversation is shortened before the run gives up.
const OVERFLOWS: u32 = 3;
/// Longest quote of what a provider said.
const MAX_SAID: usize = 400;
/// Longest reason that is shown in the place of a refused picture.
const MAX_REASON: usize = 240;
/// Longest sentence of the gateway with such a quote in it.
const MAX_TOLD: usize = 1_000;

impl Agent {
    /// The model that answers now.
    pub(super) fn model(&self) -> &str {
        self.transcript.state().model().unwrap_or(&self.session.model)
    }

    /// The form of tools that it knows, or that one knows which answered last in its place: it goes on answering for
    /// as long as the other is not served.
    pub(super) fn edit_form(&self) -> EditForm {
        let (state, asked) = (self.transcript.state(), self.model());
        let answers = state.stand_in(asked).unwrap_or(asked);
        prompt::edit_form(&self.session, answers, state.quirks())
    }

    /// Form in which that model is shown the conversation.
    pub(super) fn look<'a>(&'a self, view: &RunView) -> WindowLook<'a> {
        let (state, model) = (self.transcript.state(), self.model());
        let facts = self.session.facts.get(model);
        let (sees, hears) =
            (facts.and_then(|facts| facts.sees), facts.is_some_and(|facts| facts.hears));
        let limits = self.limits();
        let mut room =
            prompt::conversation_room(limits, view.told, state.scale(), state.too_long());
        let overflows = state.run().map_or(0, |run| run.overflows);
        if let Some(tokens) = state.too_long().filter(|_| overflows > 0) {
            room = room.min(prompt::conversation_room((tokens / 2, 0), view.told, 1.0, None));
        }
        WindowLook {
            model,
            blind: state.is_blind() || sees == Some(false),
            deaf: state.is_deaf() || !hears,
            thinker: state.thinker(),
            quirks: state.quirks(),
            marked: prompt::is_marked(&self.session, model),
            form: view.tools.form(),
            shared: view.shared,
            room,
        }
    }

    /// Tokens that the model can be shown, and the longest answer of it: as its list says, or less where its
    /// server says so itself.
    pub(super) fn limits(&self) -> (u32, u32) {
        let (window, answer) = prompt::model_limits(&self.session, self.model());
        let told = self.transcript.state().window().unwrap_or(u32::MAX);
        (window.min(told), answer.min(told / 4))
    }

    /// True if the model is shown only a part of its conversation.
    pub(super) fn shows_part(&self, view: &RunView) -> bool {
        let state = self.transcript.state();
        state.words().is_folded() || prompt::has_giant(state.chat(), &self.look(view))
    }

    /// Asks, and takes down the answer or what was wrong with it. What may pass is waited for here; then
    /// nothing is taken down, and it is asked again.
    pub(super) async fn ask(
        &mut self,
        view: &RunView,
        deadline: &RunDeadline,
        patience: &mut CallPatience,
    ) -> Result<Option<RunEnding>, RunError> {
        let look = self.look(view);
        let (body, shown) = self.body(view, deadline, &look);
        let held = MediaKinds::held(self.transcript.state().chat());
        let sent = MediaKinds {
            pictures: held.pictures && !look.blind,
            sounds: held.sounds && !look.deaf,
        };
        self.does("thinking");
        step::point("before model call");
        let mut answer = match self.bounded(deadline, self.tools.gateway.chat(body)).await {
            Ok(answer) => answer,
            Err(cut) => return self.cut(cut).await.map(Some),
        };
        step::point("after model call");
        let said = answer.as_ref().err().and_then(media_words).map(ToOwned::to_owned);
        let said = said.unwrap_or_default();
        let pictures = count_pictures(self.transcript.state().chat());
        for left_out in plan_tries(&said, sent, pictures) {
            // A model without eyes refuses pictures, and one that sees refuses some. If it answers without, that was it.
            let body = self.body_without(view, deadline, (&left_out, &said));
            let second = match self.bounded(deadline, self.tools.gateway.chat(body)).await {
                Ok(answer) => answer,
                Err(cut) => return self.cut(cut).await.map(Some),
            };
            let words = second.as_ref().err().map(|error| media_words(error).unwrap_or_default());
            match words {
                None => {
                    self.leave_out(left_out, &said)?;
                    answer = second;
                    break;
                }
                Some(words) if !is_about_media(words) => break,
                Some(_) => {}
            }
        }
        match answer {
            Ok(answer) => self.take_answer((&answer, shown), &view.tools, deadline, patience).await,
            Err(error) => self.unanswered(error, shown, deadline, patience).await,
        }
    }

    /// Sends this model no more of what it has refused, or no more of some pictures.
    fn leave_out(&mut self, left_out: LeftOutMedia, said: &str) -> Result<(), RunError> {
        let refused = match left_out {
            LeftOutMedia::Kinds(refused) => refused,
            LeftOutMedia::Pictures(newest) => {
                tracing::warn!(pictures = newest.len(), detail = said, "pictures_refused");
                let why = shown_reason(said);
                self.transcript.append(&TranscriptRecord::Blind { newest, why })?;
                return Ok(());
            }
        };
        if refused.pictures {
            tracing::warn!("model_pictures_refused");
            let all = TranscriptRecord::Blind { newest: Vec::new(), why: String::new() };
            self.transcript.append(&all)?;
        }
        if refused.sounds {
            tracing::warn!("model_sounds_refused");
            self.transcript.append(&TranscriptRecord::Deaf)?;
        }
        Ok(())
    }

    /// Builds the request without what was refused in these words.
    fn body_without(
        &self,
        view: &RunView,
        deadline: &RunDeadline,
        (left_out, said): (&LeftOutMedia, &str),
    ) -> Bytes {
        let look = self.look(view);
        let known = self.transcript.state().chat();
        match left_out {
            LeftOutMedia::Kinds(kinds) => {
                let (blind, deaf) = (look.blind || kinds.pictures, look.deaf || kinds.sounds);
                self.body_of(known, view, deadline, &WindowLook { blind, deaf, ..look }).0
            }
            LeftOutMedia::Pictures(newest) => {
                let mut chat = known.to_vec();
                refuse_pictures(&mut chat, newest, &shown_reason(said));
                self.body_of(&chat, view, deadline, &look).0
            }
        }
    }

    /// Builds the request, and estimates its tokens.
    fn body(&self, view: &RunView, deadline: &RunDeadline, look: &WindowLook<'_>) -> (Bytes, u32) {
        self.body_of(self.transcript.state().chat(), view, deadline, look)
    }

    /// Builds the request with this conversation.
    fn body_of(
        &self,
        chat: &[Value],
        view: &RunView,
        deadline: &RunDeadline,
        look: &WindowLook<'_>,
    ) -> (Bytes, u32) {
        let state = self.transcript.state();
        let mut body = prompt::build_request(look, &view.system, chat, &view.specs);
        let shown = body.tokens();
        let turns = state.run().map_or(0, |run| run.turns);
        let notice =
            notice::limit_notice(turns, self.session.max_turns, deadline.total(), deadline.left());
        let passing: Vec<_> = prompt::todo_list(state.todo()).into_iter().chain(notice).collect();
        if !passing.is_empty() {
            // Last, and not kept: what was sent before stays as it was, and cached. In a message of its
            // own: behind the words of the last result it would end what is cached one message earlier.
            body.push(model::user_message(&passing.join("\n\n")));
        }
        if self.is_last_call() {
            body = body.without_calls();
        }
        (body.to_bytes(), shown)
    }

    /// True if the next call is the run's last, which is for words.
    fn is_last_call(&self) -> bool {
        let (turns, most) =
            (self.transcript.state().run().map_or(0, |run| run.turns), self.session.max_turns);
        spares_words(most) && turns + 1 >= most
    }

    async fn take_answer(
        &mut self,
        (answer, shown): (&ChatAnswer, u32),
        tools: &RoleTools,
        deadline: &RunDeadline,
        patience: &mut CallPatience,
    ) -> Result<Option<RunEnding>, RunError> {
        let reply = match model::parse_reply(&answer.body) {
            Ok(reply) => reply,
            Err(UnreadableReply::Lost(why)) => {
                let why = format!("the answer of the model `{}` is none: {why}", self.model());
                return self.wait(CallTrouble::Lost, &why, deadline, patience).await;
            }
            Err(UnreadableReply::Formless(why)) => {
                tracing::warn!(why, "model_reply_unreadable");
                self.transcript.append(&TranscriptRecord::Unreadable { why })?;
                return Ok(None);
            }
        };
        let flaw = judge::find_flaw(&reply, &self.circumstances(tools));
        if let Some(ReplyFlaw::Broken { said }) = flaw {
            let why = format!("the answer of the model `{}` broke off: {said}", self.model());
            return self.wait(CallTrouble::Lost, &why, deadline, patience).await;
        }
        patience.reset();
        let model::ModelReply { mut message, usage, model: by, .. } = reply;
        let record = match flaw {
            None => {
                tracing::info!(tools = message.tool_calls.len(), "model_reply_received");
                let state = self.transcript.state();
                let turn = state.run().map_or(0, |run| run.turns);
                ids::clean_answer(&mut message, state.chat(), turn);
                for call in &mut message.tool_calls {
                    if call.arguments.is_empty() {
                        "{}".clone_into(&mut call.arguments);
                    }
                }
                // What is recorded is what is judged, shown, carried out and sent back.
                let message = tools.canonical_answer(message);
                let model = self.model().to_owned();
                let source =
                    AnswerSource { model, by, shown: Some(shown), instead: answer.instead.clone() };
                TranscriptRecord::Answer { message, usage, source: Some(source) }
            }
            Some(flaw) => {
                tracing::warn!(?flaw, "model_reply_invalid");
                message.tool_calls.clear();
                TranscriptRecord::Flawed { flaw, message, usage }
            }
        };
        self.transcript.append(&record)?;
        Ok(None)
    }

    fn circumstances(&self, tools: &RoleTools) -> ReplyCircumstances {
        let (_, cap) = self.limits();
        let run = self.transcript.state().run();
        let last = self.is_last_call();
        let mut names = if last { Vec::new() } else { tools.names() };
        names.extend((self.looks_first() && !last).then(|| HAND_UP.to_owned()));
        ReplyCircumstances {
            cap: cap.into(),
            tools: names,
            spoke: run.is_some_and(OpenRun::spoke),
            can_nudge: !last && run.is_some_and(|run| run.nudges == 0),
        }
    }

    /// Handles a call without an answer.
    pub(super) async fn unanswered(
        &mut self,
        ChatError { error, retry_after }: ChatError,
        shown: u32,
        deadline: &RunDeadline,
        patience: &mut CallPatience,
    ) -> Result<Option<RunEnding>, RunError> {
        let (code, message) = match error {
            GatewayError::Refused { code, message } => (code, message),
            error @ GatewayError::Unexpected { .. } => {
                return Ok(Some(failed_end(error.to_string())));
            }
            error => return Err(error.into()),
        };
        if self.hand_up_refused(code).await? {
            return Ok(None);
        }
        match code {
            ErrorCode::ThreadClosed | ErrorCode::NotRegistered | ErrorCode::Unauthenticated => {
                Err(GatewayError::Refused { code, message }.into())
            }
            // The thread was asked: the decision `budget` wakes the role, and it goes on from here.
            ErrorCode::BudgetExceeded => {
                tracing::info!(detail = message, "budget_exceeded");
                self.out_of_money().await.map(Some)
            }
            ErrorCode::Unavailable => {
                self.wait(CallTrouble::Away(retry_after), &message, deadline, patience).await
            }
            ErrorCode::Unanswered => {
                self.wait(CallTrouble::Lost, &message, deadline, patience).await
            }
            ErrorCode::ContextOverflow => self.overflowed(shown, &message),
            ErrorCode::ContentRefused => {
                let flaw = ReplyFlaw::Refused { said: clip_text(&message, MAX_SAID) };
                tracing::warn!(detail = message, "content_refused");
                let message = model::AssistantMessage::default();
                self.transcript.append(&TranscriptRecord::Flawed { flaw, message, usage: None })?;
                Ok(None)
            }
            _ => {
                let Some(quirk) = quirk::learn_quirk(&message, self.transcript.state().quirks())
                else {
                    if code == ErrorCode::InvalidRequest {
                        return self.wait(CallTrouble::Refused, &message, deadline, patience).await;
                    }
                    let said = clip_text(message.trim().trim_end_matches('.'), MAX_TOLD);
                    return Ok(Some(failed_end(format!("{said}{}", self.remedy()))));
                };
                tracing::warn!(?quirk, detail = message, "provider_quirk_learned");
                self.transcript.append(&TranscriptRecord::Learned { quirk })?;
                Ok(None)
            }
        }
    }

    /// True if a refusal says how the same conversation has to be sent.
    pub(super) fn learns_from(&self, error: &ChatError) -> bool {
        let quirks = self.transcript.state().quirks();
        refusal_words(error).is_some_and(|words| quirk::learn_quirk(words, quirks).is_some())
    }

    /// Less is shown from now on, or it is given up.
    fn overflowed(&mut self, shown: u32, said: &str) -> Result<Option<RunEnding>, RunError> {
        let found = window::find_window(said);
        if self.transcript.state().run().is_some_and(|run| run.overflows >= OVERFLOWS) {
            let (known, _) = self.limits();
            let reason = format!(
                "the conversation does not fit into the model `{}`, not even made shorter ({}). {}{}",
                self.model(),
                clip_text(said.trim().trim_end_matches('.'), MAX_SAID),
                window::advise_window(said, found.unwrap_or(known), shown),
                self.remedy()
            );
            return Ok(Some(failed_end(reason)));
        }
        tracing::warn!(shown, ?found, said, "context_overflowed");
        self.transcript.append(&TranscriptRecord::Overflowed { shown, window: found })?;
        Ok(None)
    }

    /// Waits before it is asked again, which is no time of the run, or gives up.
    async fn wait(
        &mut self,
        trouble: CallTrouble,
        why: &str,
        deadline: &RunDeadline,
        patience: &mut CallPatience,
    ) -> Result<Option<RunEnding>, RunError> {
        let why = clip_text(why.trim().trim_end_matches('.'), MAX_SAID);
        let now = Instant::now();
        let Some(pause) = patience.pause(trouble, now, rand::random_range(0.5..1.5)) else {
            tracing::warn!(why, "model_wait_expired");
            let times = patience.tell_end(trouble);
            return Ok(Some(failed_end(format!("{why}. {times}{}", self.remedy()))));
        };
        tracing::warn!(why, ?pause, "model_call_delayed");
        if patience.is_long(pause, now, self.timeouts.tell_after) {
            self.tell_waiting(&why, patience.minutes()).await;
        }
        self.does("waiting for the model");
        let waits = self.tools.builds.waits.clone();
        let _waiting = waits.begin();
        match self.bounded(deadline, tokio::time::sleep(pause)).await {
            Ok(()) => Ok(None),
            Err(cut) => self.cut(cut).await.map(Some),
        }
    }

    async fn tell_waiting(&self, why: &str, minutes: u64) {
        let Some(run) = self.transcript.state().run() else { return };
        let key = format!("{}.{}.away", run.id, run.turns);
        let text = format!(
            "I wait for the model `{}`, for up to {minutes} min, and go on by myself: {why}.",
            self.model()
        );
        let message = PostMessage { key, text, ..PostMessage::default() };
        let told = self.tools.gateway.post(&message);
        if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(10), told).await {
            tracing::warn!(%error, notice = "model_wait", "notice_post_failed");
        }
    }
}

/// A refusal as it stands in the place of a picture.
fn shown_reason(said: &str) -> String {
    clip_text(join_lines(said).trim(), MAX_REASON)
}

/// The words of a refusal that can be about a picture or a sound. Some servers take no request of so many bytes.
fn media_words(error: &ChatError) -> Option<&str> {
    match &error.error {
        GatewayError::Refused { code: ErrorCode::ContextOverflow, message } => {
            Some(message.as_str()).filter(|words| is_about_bytes(words))
        }
        _ => refusal_words(error),
    }
}

/// The words in which a provider has refused a request, if it is one that can be about what was sent.
fn refusal_words(error: &ChatError) -> Option<&str> {
    match &error.error {
        GatewayError::Refused {
            code: ErrorCode::InvalidRequest | ErrorCode::Upstream,
            message,
        } => Some(message),
        _ => None,
    }
}
