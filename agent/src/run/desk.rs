//! A desk: a role that answers several requests at once, each in a conversation of its own, as many in parallel as
//! the role has places for. The inbox mark moves only past finished requests.
//!
//! The role's own transcript says which requests there are and which are answered; what happens in a
//! conversation is in the transcript of that conversation. Both are written before anything is done
//! about it, so a killed pod goes on with what is open and repeats nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_wire::{PendingItem, RoleSession, RoleState, RunReport, SlackTs};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tracing::Instrument as _;

use super::mail::{self, RoleMail};
use super::mail_position::MailPosition;
use super::progress::{self, RunBoard};
use super::report::{role_state, terminal_state};
use super::seat::ConversationSeat;
use super::{Agent, BranchRules, LONG_POLL, RunError};
use crate::transcript::desk::{AnsweredRequest, GivenRequest};
use crate::transcript::{OpenTranscript, RunOutcome, TranscriptRecord};

/// Pause between inbox requests, which are answered at once while something is open.
const PAUSE: Duration = Duration::from_millis(300);

/// An ended conversation: the request's id, and its agent and answer, or the error.
type EndedRequest = (SlackTs, Result<(Agent, AnsweredRequest), RunError>);

struct OpenConversations {
    trays: BTreeMap<SlackTs, Arc<Mutex<GivenRequest>>>,
    working: JoinSet<EndedRequest>,
    stop: watch::Sender<Option<PendingItem>>,
    board: Arc<RunBoard>,
}

impl Agent {
    /// True if this mail belongs to separate conversations: the role is parallel, and the mail holds requests or an
    /// item that a conversation waits for.
    pub(super) fn is_for_desk(&self, mail: &RoleMail) -> Result<bool, RunError> {
        if self.session.parallelism < 2 {
            return Ok(false);
        }
        if !mail.requests.is_empty() {
            return Ok(true);
        }
        for item in &mail.pending {
            if !self.owners(item)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes mail in and assigns it to conversations. Decisions that no conversation waits for stay pending.
    pub(super) fn give(&mut self, mail: RoleMail) -> Result<(), RunError> {
        let RoleMail { messages, pending, requests, .. } = mail;
        let (asked, said): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| requests.contains(&message.ts));
        if !said.is_empty() {
            let (pending, pictures) = (vec![], vec![]);
            self.transcript.append(&TranscriptRecord::Taken {
                messages: said,
                pending,
                pictures,
            })?;
        }
        for message in asked {
            let request = self.transcript.state().desk().place(&message);
            let (messages, pending) = (vec![message], vec![]);
            self.transcript.append(&TranscriptRecord::Request { request, messages, pending })?;
        }
        for item in pending {
            for request in self.owners(&item)? {
                let (messages, pending) = (vec![], vec![item.clone()]);
                self.transcript.append(&TranscriptRecord::Request {
                    request,
                    messages,
                    pending,
                })?;
            }
        }
        Ok(())
    }

    /// Finds the conversations that wait for a decision.
    fn owners(&self, item: &PendingItem) -> Result<Vec<SlackTs>, RunError> {
        let mut owners = Vec::new();
        for id in self.transcript.state().desk().waiting() {
            if self.open_transcript(id)?.state().awaits(item) {
                owners.push(id.clone());
            }
        }
        Ok(owners)
    }

    fn open_transcript(&self, id: &SlackTs) -> Result<OpenTranscript, RunError> {
        Ok(OpenTranscript::open(&self.state_dir, &format!("{}/{id}", self.session.role))?)
    }

    /// Answers all open requests, and those that come meanwhile.
    pub(super) async fn at_desk(&mut self) -> Result<(), RunError> {
        // One thread suffices: conversations wait for models and the toolbox.
        LocalSet::new().run_until(Box::pin(self.answer_all())).await
    }

    async fn answer_all(&mut self) -> Result<(), RunError> {
        self.report_running().await?;
        let run = format!("{:016x}", rand::random::<u64>());
        let mut places = OpenConversations {
            trays: BTreeMap::new(),
            working: JoinSet::new(),
            stop: watch::Sender::new(None),
            board: Arc::new(RunBoard::start(
                self.tools.gateway.clone(),
                &run,
                progress::part_limit(&self.session),
            )),
        };
        loop {
            self.seat(&mut places)?;
            if places.working.is_empty() {
                break;
            }
            tokio::select! {
                Some(ended) = places.working.join_next() => {
                    let (id, ended) = ended.unwrap_or_else(|error| match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(error) => std::panic::resume_unwind(Box::new(error)),
                    });
                    let (conversation, answered) = ended?;
                    places.board.gone(&id);
                    places.trays.remove(&id);
                    self.conclude_request(&id, &conversation, answered).await?;
                }
                mail = self.listen() => {
                    let mut mail = mail?;
                    if let Some(stop) = mail.stop.take() {
                        places.stop.send_replace(Some(stop));
                    }
                    if mail.wakes {
                        self.obey(&mut mail).await?;
                        self.give(mail)?;
                    }
                }
            }
        }
        self.report_answers().await
    }

    /// Reads mail while conversations are under way.
    async fn listen(&self) -> Result<RoleMail, RunError> {
        tokio::time::sleep(PAUSE).await;
        let state = self.transcript.state();
        let after = state.newest().unwrap_or(&self.session.root);
        let inbox = self.tools.gateway.inbox(after, None, LONG_POLL).await?.inbox;
        if inbox.closed {
            return Err(RunError::Closed);
        }
        Ok(mail::sort_inbox(inbox, state, &self.session.role, self.session.done.as_ref()))
    }

    /// Starts as many conversations as there are free places, and passes on mail to those under way.
    fn seat(&mut self, places: &mut OpenConversations) -> Result<(), RunError> {
        let open: Vec<_> = self.transcript.state().desk().open().cloned().collect();
        for id in open {
            let given = self.transcript.state().desk().given(&id);
            if let Some(tray) = places.trays.get(&id) {
                *tray.lock() = given;
                continue;
            }
            let most = usize::try_from(self.session.parallelism).unwrap_or(1).max(1);
            if places.trays.len() >= most {
                continue;
            }
            let tray = Arc::new(Mutex::new(given));
            let seat = ConversationSeat {
                id: id.clone(),
                asker: self.transcript.state().desk().asker(&id).cloned(),
                tray: Arc::clone(&tray),
                stop: places.stop.subscribe(),
                board: Arc::clone(&places.board),
            };
            let conversation = self.conversation(seat.clone())?;
            let RoleSession { role, thread, .. } = &self.session;
            let span = tracing::info_span!("request", role, thread, %id);
            places.trays.insert(id.clone(), tray);
            let work = async move { (id, Box::pin(conversation.converse(&seat)).await) };
            places.working.spawn_local(work.instrument(span));
        }
        Ok(())
    }

    /// Creates an agent of the same role for a conversation of its own.
    fn conversation(&self, seat: ConversationSeat) -> Result<Self, RunError> {
        let mut transcript = self.open_transcript(&seat.id)?;
        transcript.tell(self.growth.clone());
        let chosen = self.transcript.state().model().filter(|_| transcript.state().is_new());
        if let Some(model) = chosen.map(ToOwned::to_owned) {
            transcript.append(&TranscriptRecord::Model { model })?;
        }
        Ok(Self {
            tools: self.tools.clone(),
            transcript,
            session: self.session.clone(),
            position: MailPosition::default(),
            sandbox: self.sandbox.clone(),
            log: self.log.shared().map_err(RunError::Log)?,
            rules: BranchRules { policy: self.rules.policy.clone(), ..BranchRules::default() },
            forgers_told: self.forgers_told.clone(),
            server_tools: self.server_tools.clone(),
            timeouts: self.timeouts,
            wall: self.wall.clone(),
            state_dir: self.state_dir.clone(),
            telling: None,
            left: None,
            seat: Some(seat),
            growth: self.growth.clone(),
        })
    }

    /// Closes a request, unless it was given mail that its conversation did not see any more: then the conversation
    /// continues.
    async fn conclude_request(
        &mut self,
        id: &SlackTs,
        conversation: &Self,
        answered: AnsweredRequest,
    ) -> Result<(), RunError> {
        let GivenRequest { messages, pending } = self.transcript.state().desk().given(id);
        let seen = conversation.transcript.state();
        let left = messages.iter().any(|message| !seen.has_seen(&message.ts))
            || pending.iter().any(|item| !seen.has_decided(&item.id));
        if left {
            return Ok(());
        }
        self.transcript.append(&TranscriptRecord::Answered { request: id.clone(), answered })?;
        let desk = self.transcript.state().desk();
        let done = desk.done();
        let is_known = done.as_ref().is_none_or(|done| self.position.is_done(done));
        if desk.open().next().is_none() || is_known {
            return Ok(());
        }
        let turns = desk.unreported().map(|(_, answered)| answered.turns).sum();
        let report = RunReport {
            state: RoleState::Running,
            done: done.clone(),
            handled: vec![],
            turns,
            reason: None,
            terminal: None,
            sandbox: None,
        };
        self.report(report).await?;
        self.position.advance(done);
        Ok(())
    }

    /// Reports all answers that the gateway does not know of, as one run.
    async fn report_answers(&mut self) -> Result<(), RunError> {
        let desk = self.transcript.state().desk();
        let answers: Vec<_> = desk.unreported().collect();
        let is =
            |outcome: RunOutcome| answers.iter().any(|(_, answered)| answered.outcome == outcome);
        let outcome = [RunOutcome::Closed, RunOutcome::Failed, RunOutcome::Waiting];
        let outcome = outcome.into_iter().find(|one| is(*one)).unwrap_or(RunOutcome::Idle);
        let reasons = answers.iter().filter_map(|(_, answered)| answered.reason.as_deref());
        let reasons = reasons.collect::<Vec<_>>().join("\n");
        let report = RunReport {
            state: role_state(outcome),
            done: desk.done(),
            handled: answers.iter().flat_map(|(_, answered)| answered.handled.clone()).collect(),
            turns: answers.iter().map(|(_, answered)| answered.turns).sum(),
            reason: Some(reasons).filter(|reasons| !reasons.is_empty()),
            terminal: Some(terminal_state(outcome)),
            sandbox: None,
        };
        self.tell_end(report, outcome).await
    }
}
