//! Last words of a run, and its ending where there is nothing to say.

use codebutler_wire::{ErrorCode, PostMessage};

use super::view::{RunEnding, failed_end, spares_words};
use super::watch::CutReason;
use super::{Agent, RunError, progress};
use crate::decisions::LoggedKind;
use crate::gateway::GatewayError;
use crate::memory::name_used;
use crate::mentions::addresses_role;
use crate::model::judge::FITTING;
use crate::step;
use crate::tool_args::TodoState;
use crate::toolbox::protocol::ToolboxRequest;
use crate::transcript::state::{MAX_FAULTS, RunAsker};
use crate::transcript::{RunOutcome, TranscriptRecord};
use codebutler_guides::text::clip_text;

/// Longest text of a last message, in characters; the gateway takes 64 KiB.
const MAX_LAST_WORDS: usize = 16_000;

/// Addressee of a run's last words.
#[derive(Default)]
struct LastAnswer {
    /// Id of the user to mention.
    to: Option<String>,
    /// True if a person asked for them.
    answers: bool,
}

impl Agent {
    /// Ends the run with its last words. Those of the last permitted call may be incomplete, and readers are told so.
    pub(super) async fn finish(&mut self, key: String, text: &str) -> Result<RunEnding, RunError> {
        let (turns, most) =
            (self.transcript.state().run().map_or(0, |run| run.turns), self.session.max_turns);
        if !spares_words(most) || turns < most {
            return self.answer(key, text).await;
        }
        let text = format!(
            "{}\n\n_I stopped at the limit of {turns} steps. Write anything and I continue._",
            clip_text(text, MAX_LAST_WORDS - 200)
        );
        let ended = self.answer(key, &text).await?;
        let goes_on = ended == (RunOutcome::Idle, None) && !addresses_role(&text);
        Ok(if goes_on { (RunOutcome::Waiting, None) } else { ended })
    }

    /// Posts the last words, addressed to the requester if this is one of several
    /// conversations.
    pub(super) async fn answer(&mut self, key: String, text: &str) -> Result<RunEnding, RunError> {
        let run = self.transcript.state().run();
        let for_person = run.is_some_and(|run| run.asker == RunAsker::Person);
        match self.seat.as_ref().map(|seat| seat.addressed(text)) {
            Some((text, to)) => {
                let answers = to.is_some();
                self.last_words(key, &text, LastAnswer { to, answers }).await
            }
            None => self.last_words(key, text, LastAnswer { to: None, answers: for_person }).await,
        }
    }

    async fn last_words(
        &mut self,
        key: String,
        text: &str,
        LastAnswer { to, answers }: LastAnswer,
    ) -> Result<RunEnding, RunError> {
        let text = name_used(&clip_text(text, MAX_LAST_WORDS), &self.tools.known);
        let published = self.transcript.state().run().is_some_and(|run| run.published);
        let done = published || addresses_role(&text);
        let proof = if done { self.tools.proof().await? } else { None };
        step::point("before post");
        let last = true;
        let message = PostMessage { key, text, last, answers, to, proof, ..PostMessage::default() };
        let posted = self.tools.gateway.post(&message).await;
        step::point("after post");
        match posted {
            Ok(_) => Ok((RunOutcome::Idle, None)),
            Err(GatewayError::Refused {
                code: ErrorCode::Forbidden | ErrorCode::InvalidRequest | ErrorCode::Upstream,
                message,
            }) => Ok(failed_end(format!("the answer could not be posted: {message}"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the run after a timeout or a stop, and tells people.
    pub(super) async fn cut(&mut self, cut: CutReason) -> Result<RunEnding, RunError> {
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        let CutReason::Stop(pending) = cut else {
            self.log.note(&run, LoggedKind::Ended, "out of time", &[], &self.last_step());
            return Ok(self.out_of_time());
        };
        // Dropped requests have ended by now; background jobs have not.
        self.tools.toolbox.ask(ToolboxRequest::EndJobs).await?;
        let left = self.standing();
        self.log.note(
            &run,
            LoggedKind::Ended,
            "stopped",
            &[],
            &format!("user {} said so", pending.user),
        );
        let pending = vec![*pending];
        self.transcript.append(&TranscriptRecord::Taken {
            messages: vec![],
            pending,
            pictures: vec![],
        })?;
        let text = format!(
            "Stopped{left}. What is not pushed stays in this thread's worktree. Write to me and I continue."
        );
        let key = format!("{run}.stopped");
        match self.last_words(key, &text, LastAnswer::default()).await? {
            (RunOutcome::Idle, None) => Ok((RunOutcome::Waiting, None)),
            failed => Ok(failed),
        }
    }

    pub(super) fn out_of_time(&self) -> RunEnding {
        let minutes = self.session.timeout_seconds.div_ceil(60);
        failed_end(format!(
            "the time for one run ({minutes} min) is over{}. Write anything and I continue.",
            self.standing()
        ))
    }

    pub(super) fn out_of_turns(&self, turns: u32) -> RunEnding {
        failed_end(format!(
            "I stopped at the limit of {turns} steps{}. Write anything and I continue.",
            self.standing()
        ))
    }

    pub(super) fn given_up(&self) -> RunEnding {
        let model = self.model();
        let flaw = self.transcript.state().run().and_then(|run| run.flaw.as_ref());
        let reason = match flaw.filter(|(flaw, times)| *times >= flaw.limit()) {
            Some((flaw, _)) => flaw.reason(model),
            None => format!(
                "{MAX_FAULTS} replies of the model `{model}` in a row were unusable (no readable answer, an unknown tool, or invalid arguments): {FITTING}"
            ),
        };
        failed_end(format!("{reason}{}", self.remedy()))
    }

    /// Advice on what a person can do about a model: the end of a sentence, and another one.
    pub(super) fn remedy(&self) -> String {
        let current = self.model();
        let others = self.talkers().any(|model| model != current);
        let switch =
            format!("`@codebutler.{} model NAME` gives me another model", self.session.role);
        if others {
            format!(". Write again to make me try again; {switch}.")
        } else {
            ". Write again to make me try again.".to_owned()
        }
    }

    /// The thread is asked about money by the gateway; the role says what for.
    pub(super) async fn out_of_money(&self) -> Result<RunEnding, RunError> {
        let (run, turns) = match self.transcript.state().run() {
            Some(run) => (run.id.clone(), run.turns),
            None => return Ok((RunOutcome::Waiting, None)),
        };
        let standing = self.standing();
        if !standing.is_empty() {
            let key = format!("{run}.{turns}.money");
            let text = format!("Paused: the budget is used up{standing}");
            let message = PostMessage { key, text, ..PostMessage::default() };
            // The pause is not at risk if this fails: the gateway has asked about the budget itself.
            if let Err(error) = self.tools.gateway.post(&message).await {
                tracing::warn!(%error, notice = "budget_pause", "notice_post_failed");
            }
        }
        Ok((RunOutcome::Waiting, None))
    }

    /// Summary of the run's progress and its next steps, from its own record.
    pub(super) fn standing(&self) -> String {
        let state = self.transcript.state();
        let open = state.todo().iter().filter(|item| item.state != TodoState::Done);
        let open: Vec<_> = open.take(5).map(|item| clip_text(&item.text, 80)).collect();
        let next = match (&open[..], state.last_words()) {
            ([], None) => String::new(),
            ([], Some(words)) => {
                let words: String = words.chars().filter(|c| *c != '@').collect();
                let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
                format!(". My last thought: {}", clip_text(&words, 300))
            }
            (open, _) => format!(". Next would be: {}", open.join("; ")),
        };
        format!("{}{next}", self.last_step())
    }

    pub(super) fn last_step(&self) -> String {
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
