//! A run: turns of model and tools, from mail to an outcome. Everything that is decided here is
//! decided from the transcript, so a run that was killed goes on as if nothing had been.

use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::wire::{ErrorCode, PostMessage};
use serde_json::Value;

use super::progress;
use super::seat::Seat;
use super::watch::{Cut, Deadline};
use super::{Agent, RunError, stuck};
use crate::decisions::Kind;
use crate::gateway::GatewayError;
use crate::model;
use crate::prompt;
use crate::step;
use crate::text::clip;
use crate::toolbox::protocol::{Reply, Request};
use crate::tools::args::TodoState;
use crate::tools::proof::{Tests, addresses};
use crate::tools::{Carried, Tools};
use crate::transcript::state::{MAX_FAULTS, Next};
use crate::transcript::{Outcome, Record};

/// Longest text of a last message, in characters; the gateway takes 64 KiB.
const MAX_LAST_WORDS: usize = 16_000;
/// Failures of the tests, in a row, by which work shows that it is harder than it looked.
const FAILING: u32 = 2;
/// Tries of making the worktree ready.
const PREPARATIONS: u32 = 3;

/// What stays the same in each call of a run.
pub struct View {
    /// The instructions.
    pub system: String,
    /// The tools that are offered.
    pub specs: Vec<Value>,
    /// Characters of conversation that fit beside them.
    pub room: usize,
}

/// How a run ended, and for failures what the thread is told.
pub type Ended = (Outcome, Option<String>);

fn failed(reason: impl Into<String>) -> Ended {
    (Outcome::Failed, Some(reason.into()))
}

/// Whether the request itself is what the provider did not take.
fn is_refused(answer: &Result<Bytes, GatewayError>) -> bool {
    let codes = [Some(ErrorCode::InvalidRequest), Some(ErrorCode::Upstream)];
    answer.as_ref().err().is_some_and(|error| codes.contains(&error.code()))
}

impl Agent {
    /// Runs until an outcome. Mail is looked for before each model call, except the first one of a
    /// run that has just taken its mail.
    pub(super) async fn turns(&mut self, just_started: bool) -> Result<Ended, RunError> {
        let limit = Duration::from_secs(self.session.timeout_seconds.into());
        let mut fresh = just_started;
        let (reported, prepared) = tokio::join!(self.begun(), self.prepare());
        reported?;
        if let Some(ended) = prepared? {
            return Ok(ended);
        }
        let set_up = match self.set_up().await? {
            Ok(fact) => fact,
            Err(ended) => return Ok(ended),
        };
        let deadline = &Deadline::after(limit, &self.tools.builds.waits);
        let last = self.transcript.state().tested().cloned();
        self.tools.tests = Tests { command: self.session.test.clone(), last };
        self.tools.planned.clone_from(&self.session.planned);
        let (guides, policy) = tokio::try_join!(self.guides(set_up), self.read_policy())?;
        self.policy = policy;
        self.workflows = prompt::sections(guides.workflows.as_deref().unwrap_or_default());
        let apart = self.seat.as_ref().map(Seat::note).unwrap_or_default();
        let system = prompt::system(&guides, &self.session) + &apart;
        if just_started {
            self.note_model();
        }
        let tools = Tools::new(&self.session.tools);
        let specs = tools.specs();
        let room = prompt::room(self.session.context_tokens, &system, &specs);
        let view = &View { system, specs, room };
        loop {
            if deadline.is_over() {
                return Ok(self.out_of_time());
            }
            let Some(run) = self.transcript.state().run() else { return Ok((Outcome::Idle, None)) };
            match run.next() {
                Next::Ask if run.turns >= self.session.max_turns => {
                    return Ok(self.out_of_turns(run.turns));
                }
                Next::Ask => {
                    if !std::mem::take(&mut fresh) {
                        let mut news = self.mail(Duration::ZERO).await?;
                        if let Some(stop) = news.stop.take() {
                            return self.cut(Cut::Stop(Box::new(stop))).await;
                        }
                        self.obey(&mut news).await?;
                        self.take(news).await?;
                        if self.transcript.state().run().is_some_and(|run| run.next() != Next::Ask)
                        {
                            continue;
                        }
                        if let Some(ended) = self.unstick().await? {
                            return Ok(ended);
                        }
                        self.escalate()?;
                    }
                    if self.transcript.state().chat().is_empty() {
                        // What woke this run is gone.
                        return Ok((Outcome::Idle, None));
                    }
                    if let Some(ended) = self.compact(view, deadline).await? {
                        return Ok(ended);
                    }
                    if let Some(ended) = self.ask(view, deadline).await? {
                        return Ok(ended);
                    }
                }
                Next::Allow(key) => self.transcript.append(&Record::Allowed { key })?,
                Next::Act => {
                    if let Some(ended) = self.act(&tools, deadline).await? {
                        return Ok(ended);
                    }
                }
                Next::Post(text) => {
                    let key = format!("{}.{}.final", run.id, run.turns);
                    if self.goes_on(&text).await? {
                        continue;
                    }
                    // Before anybody is told that it is done.
                    self.keep_leftovers().await?;
                    if self.has_said_it(&text) {
                        return Ok((Outcome::Idle, None));
                    }
                    return self.answer(key, &text).await;
                }
                Next::End(outcome) => return Ok((outcome, None)),
                Next::GiveUp => return Ok(self.given_up()),
            }
        }
    }

    /// Tells the gateway that it runs; of several conversations, the desk has.
    async fn begun(&self) -> Result<(), RunError> {
        if self.seat.is_none() { self.report_running().await } else { Ok(()) }
    }

    async fn prepare(&self) -> Result<Option<Ended>, RunError> {
        let mut tries = 0;
        loop {
            tries += 1;
            step::point("before prepare");
            let Carried { reply, said, .. } = self.tools.through_relay(&Request::Prepare).await?;
            step::point("after prepare");
            let why = match reply {
                Reply::Text(done) => {
                    tracing::info!(done, "worktree ready");
                    return Ok(None);
                }
                Reply::Refused(why) | Reply::Failed(why) => why,
                other => format!("{other:?}"),
            };
            let why = said.unwrap_or(why);
            tracing::warn!(why, tries, "the worktree is not ready");
            if tries >= PREPARATIONS {
                return Ok(Some(failed(format!(
                    "the worktree could not be made ready: {}",
                    clip(&why, 500)
                ))));
            }
            tokio::time::sleep(Duration::from_secs(u64::from(tries))).await;
        }
    }

    /// One model call, recorded.
    async fn ask(&mut self, view: &View, deadline: &Deadline) -> Result<Option<Ended>, RunError> {
        let blind = self.transcript.state().is_blind();
        let body = self.body(view, blind);
        self.does("thinking");
        step::point("before model call");
        let mut answer = match self.bounded(deadline, self.tools.gateway.chat(body)).await {
            Ok(answer) => answer,
            Err(cut) => return self.cut(cut).await.map(Some),
        };
        step::point("after model call");
        if !blind && is_refused(&answer) && prompt::has_pictures(self.transcript.state().chat()) {
            // A model without eyes refuses pictures. If it answers without them, that was it.
            let body = self.body(view, true);
            let second = match self.bounded(deadline, self.tools.gateway.chat(body)).await {
                Ok(answer) => answer,
                Err(cut) => return self.cut(cut).await.map(Some),
            };
            if second.is_ok() {
                tracing::warn!("refused with pictures: going on without");
                self.transcript.append(&Record::Blind)?;
                answer = second;
            }
        }
        let body = match answer {
            Ok(body) => body,
            // The thread was asked: the decision `budget` wakes the role, and it goes on from here.
            Err(GatewayError::Refused { code: ErrorCode::BudgetExceeded, message }) => {
                tracing::info!(message, "waiting for a limit to give way");
                return self.out_of_money().await.map(Some);
            }
            Err(GatewayError::Refused { code, message })
                if !matches!(
                    code,
                    ErrorCode::ThreadClosed | ErrorCode::NotRegistered | ErrorCode::Unauthenticated
                ) =>
            {
                return Ok(Some(failed(message)));
            }
            Err(error @ GatewayError::Unexpected { .. }) => {
                return Ok(Some(failed(error.to_string())));
            }
            Err(error) => return Err(error.into()),
        };
        let record = match model::parse(&body) {
            Ok(model::Reply { message, usage }) => {
                tracing::info!(tools = message.tool_calls.len(), "the model answered");
                Record::Answer { message, usage }
            }
            Err(error) => {
                tracing::warn!(%error, "the model's reply is not readable");
                Record::Unreadable { why: error.to_string() }
            }
        };
        self.transcript.append(&record)?;
        Ok(None)
    }

    /// What the model is sent.
    fn body(&self, view: &View, blind: bool) -> Bytes {
        let state = self.transcript.state();
        let chat = prompt::with_pictures(state.chat(), blind);
        let model = state.model().unwrap_or(&self.session.model);
        let mut body = prompt::request(model, &view.system, chat, &view.specs, view.room);
        if let Some(list) = prompt::list(state.todo()) {
            // Last, and not kept: what was sent before stays as it was, and cached.
            body.push(model::user(&list));
        }
        body.to_bytes()
    }

    /// The last words, to whoever asked where there are several.
    async fn answer(&mut self, key: String, text: &str) -> Result<Ended, RunError> {
        match self.seat.as_ref().map(|seat| seat.addressed(text)) {
            Some((text, to)) => self.last_words(key, &text, to).await,
            None => self.last_words(key, text, None).await,
        }
    }

    async fn last_words(
        &mut self,
        key: String,
        text: &str,
        to: Option<String>,
    ) -> Result<Ended, RunError> {
        let text = clip(text, MAX_LAST_WORDS);
        let published = self.transcript.state().run().is_some_and(|run| run.published);
        let done = published || addresses(&text);
        let proof = if done { self.tools.proof().await? } else { None };
        step::point("before post");
        let message = PostMessage { key, text, last: true, to, proof, ..PostMessage::default() };
        let posted = self.tools.gateway.post(&message).await;
        step::point("after post");
        match posted {
            Ok(_) => Ok((Outcome::Idle, None)),
            Err(GatewayError::Refused {
                code: ErrorCode::Forbidden | ErrorCode::InvalidRequest | ErrorCode::Upstream,
                message,
            }) => Ok(failed(format!("the answer could not be posted: {message}"))),
            Err(error) => Err(error.into()),
        }
    }

    /// A time-out or a stop, told.
    pub(super) async fn cut(&mut self, cut: Cut) -> Result<Ended, RunError> {
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        let Cut::Stop(pending) = cut else {
            self.log.note(&run, Kind::Ended, "out of time", &[], &self.last_step());
            return Ok(self.out_of_time());
        };
        // Whatever was dropped has ended by now; jobs in the background have not.
        self.tools.toolbox.ask(Request::EndJobs).await?;
        let left = self.standing();
        self.log.note(&run, Kind::Ended, "stopped", &[], &format!("user {} said so", pending.user));
        let pending = vec![*pending];
        self.transcript.append(&Record::Taken { messages: vec![], pending, pictures: vec![] })?;
        let text = format!(
            "Stopped{left}. What is not pushed stays as it is in this thread's worktree. Write to me and I \
             go on from here."
        );
        let key = format!("{run}.stopped");
        match self.last_words(key, &text, None).await? {
            (Outcome::Idle, None) => Ok((Outcome::Waiting, None)),
            failed => Ok(failed),
        }
    }

    /// Half of the turns are gone and the tests fail again and again: the stronger model goes on.
    fn escalate(&mut self) -> Result<(), RunError> {
        let state = self.transcript.state();
        let Some(run) = state.run().filter(|run| run.model.is_none()) else { return Ok(()) };
        let late = run.turns.saturating_mul(2) > self.session.max_turns;
        let current = state.model().unwrap_or(&self.session.model).to_owned();
        let stronger = self.session.stronger.clone().filter(|model| *model != current);
        let Some(model) = stronger.filter(|_| late && run.failing >= FAILING) else {
            return Ok(());
        };
        let why = format!(
            "{} of {} turns are used, and the tests failed {} times in a row",
            run.turns, self.session.max_turns, run.failing
        );
        let id = run.id.clone();
        self.log.note(&id, Kind::Model, &model, &[&current], &why);
        Ok(self.transcript.append(&Record::Escalated { model })?)
    }

    /// First a nudge, then the stronger model, then a question to the people.
    async fn unstick(&mut self) -> Result<Option<Ended>, RunError> {
        let Some(run) = self.transcript.state().run() else { return Ok(None) };
        let Some(why) = stuck::find(&run.steps, &run.words) else { return Ok(None) };
        let (id, times) = (run.id.clone(), run.stuck);
        let current = self.transcript.state().model().unwrap_or(&self.session.model).to_owned();
        let stronger = self.session.stronger.clone().filter(|model| *model != current);
        let (chosen, model) = match (times, stronger) {
            (0, _) => ("a nudge", None),
            (1, Some(model)) => ("the stronger model", Some(model)),
            _ => {
                self.log.note(
                    &id,
                    Kind::Stuck,
                    "a question",
                    &["a nudge", "the stronger model"],
                    why,
                );
                let text = format!(
                    "I am stuck: {why}{}. What should I do differently, or what am I missing?",
                    self.last_step()
                );
                let ended = self.answer(format!("{id}.stuck"), &text).await?;
                let asked = ended == (Outcome::Idle, None);
                return Ok(Some(if asked { (Outcome::Waiting, None) } else { ended }));
            }
        };
        self.log.note(&id, Kind::Stuck, chosen, &["a question"], why);
        self.transcript.append(&Record::Stuck { why: why.to_owned(), model })?;
        Ok(None)
    }

    pub(super) fn out_of_time(&self) -> Ended {
        let minutes = self.session.timeout_seconds.div_ceil(60);
        failed(format!(
            "the time for one run ({minutes} min) is over{}. Write again and I go on from here.",
            self.standing()
        ))
    }

    fn out_of_turns(&self, turns: u32) -> Ended {
        failed(format!(
            "{turns} model calls are the limit of one run{}. Write again and I go on from here.",
            self.standing()
        ))
    }

    fn given_up(&self) -> Ended {
        failed(format!(
            "{MAX_FAULTS} replies of the model `{}` in a row were of no use (no readable answer, a tool \
             that does not exist, or arguments that don't fit). Write again to make me try again.",
            self.session.model
        ))
    }

    /// The thread is asked about money by the gateway; the role says what for.
    async fn out_of_money(&self) -> Result<Ended, RunError> {
        let (run, turns) = match self.transcript.state().run() {
            Some(run) => (run.id.clone(), run.turns),
            None => return Ok((Outcome::Waiting, None)),
        };
        let standing = self.standing();
        if !standing.is_empty() {
            let key = format!("{run}.{turns}.money");
            let text = format!("I wait for money{standing}");
            let message = PostMessage { key, text, ..PostMessage::default() };
            // Whether or not this is heard, the gateway has asked.
            if let Err(error) = self.tools.gateway.post(&message).await {
                tracing::warn!(%error, "where the run stands was not told");
            }
        }
        Ok((Outcome::Waiting, None))
    }

    /// Where the run stands and what would come next, from its own record.
    fn standing(&self) -> String {
        let state = self.transcript.state();
        let open = state.todo().iter().filter(|item| item.state != TodoState::Done);
        let open: Vec<_> = open.take(5).map(|item| clip(&item.text, 80)).collect();
        let next = match (&open[..], state.last_words()) {
            ([], None) => String::new(),
            ([], Some(words)) => {
                let words: String = words.chars().filter(|c| *c != '@').collect();
                let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
                format!(". What I had in mind: {}", clip(&words, 300))
            }
            (open, _) => format!(". Next would be: {}", open.join("; ")),
        };
        format!("{}{next}", self.last_step())
    }

    fn last_step(&self) -> String {
        match self.transcript.state().last_call() {
            Some((name, arguments)) => {
                let call = progress::of_call(name, arguments).replace('`', "'");
                match call.strip_prefix(name).map(str::trim) {
                    Some(about) if !about.is_empty() => {
                        format!("; the last step was {name} `{about}`")
                    }
                    _ => format!("; the last step was {call}"),
                }
            }
            None => String::new(),
        }
    }
}
