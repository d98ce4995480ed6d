//! The agent container: wakes with mail, runs turns until the model is done or waits, reports, and
//! leaves when nothing more comes.
//!
//! [`mail`] decides what is new, [`crate::transcript::state`] what comes next, [`act`] carries out
//! tool calls, [`turns`] is a run, [`desk`] several of them at once, and this file is the life of the
//! process around it.

mod act;
mod compact;
mod desk;
mod guides;
mod leftover;
mod mail;
mod pictures;
mod progress;
mod seat;
mod setup;
pub mod stuck;
mod switch;
mod turns;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use codebutler_crds::SlackTs;
use codebutler_crds::thread::RoleState;
use codebutler_crds::wire::{EgressReport, ErrorCode, RunReport, Session, Terminal};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument as _;

use crate::args::RunArgs;
use crate::builds::Builds;
use crate::decisions::Log;
use crate::egress;
use crate::gateway::{Gateway, GatewayError};
use crate::policy::Policy;
use crate::relay::Relay;
use crate::step;
use crate::toolbox::client::{Toolbox, ToolboxError};
use crate::toolbox::protocol::{Author, Hello, Reply, Request};
use crate::tools::Context;
use crate::tools::proof::Tests;
use crate::transcript::{Outcome, Record, Transcript, TranscriptError};
use leftover::Left;
use mail::Mail;
use progress::Telling;
use seat::Seat;
pub use watch::STOP;

/// Exit code when the gateway could not be reached or did not know this pod.
const NO_GATEWAY: u8 = 3;
/// How long one question for mail may wait.
const LONG_POLL: Duration = Duration::from_secs(25);
/// Slack shows a message that is told as mail within this time; later it was deleted.
const LATE: Duration = Duration::from_secs(30);

/// Why the process ends early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Not an error: the thread is closed, or another pod has taken over.
    #[error("the thread is closed")]
    Closed,
    /// No way out of the pod.
    #[error("the gateway does not answer as it should")]
    Gateway(#[source] GatewayError),
    /// No worktree.
    #[error("the toolbox does not answer as it should")]
    Toolbox(#[source] ToolboxError),
    /// No memory.
    #[error("the transcript can't be used")]
    Transcript(#[from] TranscriptError),
    /// No decision log.
    #[error("the decision log can't be used")]
    Log(#[source] std::io::Error),
    /// No Git.
    #[error("the relay can't listen")]
    Relay(#[source] std::io::Error),
}

impl From<GatewayError> for RunError {
    fn from(error: GatewayError) -> Self {
        match error.code() {
            Some(ErrorCode::ThreadClosed) => Self::Closed,
            _ => Self::Gateway(error),
        }
    }
}

impl From<ToolboxError> for RunError {
    fn from(error: ToolboxError) -> Self {
        Self::Toolbox(error)
    }
}

/// Lives until there is nothing to do, or SIGTERM: the transcript has all that a successor needs.
pub async fn main(args: RunArgs) -> ExitCode {
    let span = tracing::info_span!("agent", role = args.role, thread = args.thread);
    let life = async {
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return ExitCode::FAILURE };
        tokio::select! {
            biased;
            _ = terminate.recv() => {
                tracing::info!("told to stop");
                ExitCode::SUCCESS
            }
            ended = live(args) => exit_code(ended),
        }
    };
    life.instrument(span).await
}

fn exit_code(ended: Result<(), RunError>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(RunError::Closed) => {
            tracing::info!("the thread is closed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let code = match &error {
                RunError::Gateway(_) => ExitCode::from(NO_GATEWAY),
                _ => ExitCode::FAILURE,
            };
            tracing::error!(error = format!("{:#}", anyhow::Error::new(error)), "stopped");
            code
        }
    }
}

async fn live(args: RunArgs) -> Result<(), RunError> {
    let transcript = Transcript::open(&args.state_dir, &args.role)?;
    let log = Log::open(&args.state_dir, &args.role).map_err(RunError::Log)?;
    let gateway =
        Gateway::new(&args.gateway, args.gateway_address, &args.ca_file, &args.token_file)?;
    let relay = Relay::start(args.relay, gateway.clone()).await.map_err(RunError::Relay)?;
    let forbidden = args.forbidden_host.map(|host| SocketAddr::new(host, args.forbidden_port));
    let admitted = async {
        // A platform that tells no address leaves nothing to try.
        let Some(forbidden) = forbidden else { return Ok(()) };
        let reached = egress::reached(forbidden).await;
        gateway.egress(EgressReport { reached }).await
    };
    // All to their end: the toolbox leaves with the connection, so there has to be one.
    let (toolbox, session, admitted) =
        tokio::join!(Toolbox::connect(&args.socket), gateway.session(), admitted);
    let (toolbox, session) = (toolbox?, session?);
    admitted?;
    let hello = hello(&session, &relay);
    let sandbox = match toolbox.ask(Request::Hello(hello)).await? {
        Reply::Text(level) => Some(level),
        _ => None,
    };
    let done = session.done.clone();
    let tell_after = Duration::from_secs(args.tell_after);
    let builds = Builds::new(gateway.clone(), tell_after);
    let (tests, planned) = (Tests::default(), Vec::new());
    let tools = Context { gateway, toolbox, relay, builds, tests, planned };
    let mut agent = Agent {
        tools,
        transcript,
        session,
        done,
        sandbox,
        log,
        policy: Policy::default(),
        workflows: vec![],
        tell_after,
        setup_limit: args.setup_limit,
        state_dir: args.state_dir,
        telling: None,
        left: None,
        seat: None,
    };
    agent.live().await
}

fn hello(session: &Session, relay: &Relay) -> Hello {
    let role = &session.role;
    let name = session.roles.iter().find(|card| card.role == *role).map_or(role, |card| &card.name);
    // Names end up in commits: one line, without the characters that end a name there.
    let name: String = name.chars().filter(|c| !c.is_control() && !"<>".contains(*c)).collect();
    Hello {
        relay_url: relay.url(),
        proxy: relay.proxy(),
        branch: session.branch.clone(),
        base_branch: session.base_branch.clone(),
        author: Author {
            name: format!("CodeButler {}", name.trim()),
            email: format!("{role}@codebutler.invalid"),
        },
        role: role.clone(),
    }
}

/// A role in its pod.
struct Agent {
    tools: Context,
    transcript: Transcript,
    /// As of the start of the current or last run.
    session: Session,
    /// What the gateway was last told to be done.
    done: Option<SlackTs>,
    /// What confines commands, or why there are none.
    sandbox: Option<String>,
    log: Log,
    /// As of the start of the current or last run.
    policy: Policy,
    /// Of the current run.
    telling: Option<Telling>,
    /// What a plan can follow, by name.
    workflows: Vec<String>,
    /// When people are told that something takes long.
    tell_after: Duration,
    /// Seconds that a set-up may take.
    setup_limit: u32,
    /// What the role has to know of what its run left, once that was looked at.
    left: Option<Left>,
    /// Where transcripts are.
    state_dir: PathBuf,
    /// Where it has one of several conversations.
    seat: Option<Seat>,
}

impl Agent {
    async fn live(&mut self) -> Result<(), RunError> {
        if self.transcript.state().last().is_some_and(|last| !last.reported) {
            self.report_end().await?;
        }
        let mut idle = Instant::now();
        let mut stuck = None;
        let mut just_started = false;
        loop {
            if self.transcript.state().run().is_some() {
                Box::pin(self.run(std::mem::take(&mut just_started))).await?;
                (idle, stuck) = (Instant::now(), None);
            }
            if !self.transcript.state().desk().is_settled() {
                Box::pin(self.at_desk()).await?;
                (idle, stuck) = (Instant::now(), None);
            }
            let left = Duration::from_secs(self.session.idle_timeout_seconds.into())
                .saturating_sub(idle.elapsed());
            let asked = Instant::now();
            let wait = LONG_POLL.min(left);
            let mail = self.mail(wait).await?;
            if mail.wakes {
                // One view of the thread for the whole run.
                self.session = self.tools.gateway.session().await?;
                if self.is_for_desk(&mail)? {
                    self.give(mail)?;
                } else {
                    self.start_run(mail).await?;
                    just_started = true;
                }
                continue;
            }
            self.settle(&mail).await?;
            if left.is_zero() && stuck.is_none() {
                tracing::info!("nothing more to do");
                return Ok(());
            }
            stuck = self.watch_for_ghosts(stuck, asked, wait).await?;
        }
    }

    /// Reads the conversation, from a little before what is done, or all of it the first time.
    async fn mail(&self, wait: Duration) -> Result<Mail, RunError> {
        if let Some(seat) = &self.seat {
            return self.seated_mail(seat).await;
        }
        let state = self.transcript.state();
        let done = self.done.as_ref().filter(|_| !state.is_new());
        let after = done.unwrap_or(&self.session.root).minus_secs(60);
        let inbox = self.tools.gateway.inbox(&after, wait).await?;
        if inbox.closed {
            return Err(RunError::Closed);
        }
        Ok(mail::sort(inbox, state, &self.session.role, self.session.done.as_ref()))
    }

    async fn start_run(&mut self, mail: Mail) -> Result<(), RunError> {
        let switch = switch::wanted(&mail, &self.session.role);
        self.begin(mail).await?;
        match switch {
            Some(wanted) => self.switch(wanted).await,
            None => Ok(()),
        }
    }

    async fn begin(&mut self, mail: Mail) -> Result<(), RunError> {
        let run = format!("{:016x}", rand::random::<u64>());
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        tracing::info!(run, messages = mail.messages.len(), "run started");
        self.transcript.append(&Record::RunStarted { run, at })?;
        self.take(mail).await
    }

    async fn take(&mut self, mail: Mail) -> Result<(), RunError> {
        if mail.messages.is_empty() && mail.pending.is_empty() {
            return Ok(());
        }
        let Mail { messages, pending, .. } = mail;
        let pictures = self.pictures(&messages).await?;
        Ok(self.transcript.append(&Record::Taken { messages, pending, pictures })?)
    }

    async fn run(&mut self, just_started: bool) -> Result<(), RunError> {
        let run = self.transcript.state().run();
        let (id, turns) = run.map(|run| (run.id.clone(), run.turns)).unwrap_or_default();
        self.telling = Some(Telling::start(self.tools.gateway.clone(), &id, turns));
        let ended = self.turns(just_started).await;
        self.telling = None;
        let (outcome, reason) = ended?;
        tracing::info!(?outcome, reason, "run ended");
        if outcome != Outcome::Closed {
            self.keep_leftovers().await?;
        }
        self.transcript.append(&Record::RunEnded { outcome, reason })?;
        if let Some(text) = self.left.take().and_then(|left| left.note) {
            self.transcript.append(&Record::Note { text })?;
        }
        self.report_end().await?;
        if outcome == Outcome::Closed { Err(RunError::Closed) } else { Ok(()) }
    }

    /// What the run does from now on, for people to see.
    fn does(&self, doing: &str) {
        let Some(run) = self.transcript.state().run() else { return };
        if let Some(seat) = &self.seat {
            seat.board.now(&seat.id, run.turns, doing);
        } else if let Some(telling) = &self.telling {
            telling.now(run.turns, doing);
        }
    }

    async fn report_running(&self) -> Result<(), RunError> {
        let turns = self.transcript.state().run().map_or(0, |run| run.turns);
        let state = RoleState::Running;
        self.report(RunReport {
            state,
            done: None,
            handled: vec![],
            turns,
            reason: None,
            terminal: None,
            sandbox: self.sandbox.clone(),
        })
        .await
    }

    async fn report_end(&mut self) -> Result<(), RunError> {
        let state = self.transcript.state();
        let Some(last) = state.last() else { return Ok(()) };
        let done = state.newest().cloned();
        let report = RunReport {
            state: role_state(last.outcome),
            done: done.clone(),
            handled: last.run.handled.clone(),
            turns: last.run.turns,
            reason: last.reason.clone(),
            terminal: Some(terminal(last.outcome)),
            sandbox: None,
        };
        let outcome = last.outcome;
        match self.report(report).await {
            // What closed it was this run.
            Err(RunError::Closed) if outcome == Outcome::Closed => {}
            other => other?,
        }
        self.done = self.done.take().max(done);
        self.transcript.append(&Record::Reported)?;
        if outcome == Outcome::Closed { Err(RunError::Closed) } else { Ok(()) }
    }

    async fn report(&self, report: RunReport) -> Result<(), RunError> {
        step::point("before report");
        self.tools.gateway.report(&report).await?;
        step::point("after report");
        Ok(())
    }

    /// Tells the gateway about mail that turned out to be known: a redelivery, or what a predecessor
    /// had taken.
    async fn settle(&mut self, mail: &Mail) -> Result<(), RunError> {
        let known =
            mail.addressed.as_ref().filter(|ts| self.done.as_ref().is_none_or(|done| done < *ts));
        if known.is_none() && mail.handled.is_empty() {
            return Ok(());
        }
        self.report_done(mail.newest.clone(), mail.handled.clone()).await
    }

    async fn report_done(
        &mut self,
        done: Option<SlackTs>,
        handled: Vec<String>,
    ) -> Result<(), RunError> {
        let last = self.transcript.state().last();
        let report = RunReport {
            state: last.map_or(RoleState::Idle, |last| match last.outcome {
                Outcome::Waiting => RoleState::Waiting,
                _ => RoleState::Idle,
            }),
            done: done.clone(),
            handled,
            turns: last.map_or(0, |last| last.run.turns),
            reason: None,
            terminal: None,
            sandbox: None,
        };
        self.report(report).await?;
        self.done = self.done.take().max(done);
        Ok(())
    }

    /// A question for mail that is answered at once, again and again, and shows nothing new: the
    /// message that raised the mark is gone. Slack gets some time to show it, then it is given up.
    async fn watch_for_ghosts(
        &mut self,
        since: Option<Instant>,
        asked: Instant,
        wait: Duration,
    ) -> Result<Option<Instant>, RunError> {
        if asked.elapsed() >= wait / 2 {
            return Ok(None);
        }
        let since = since.unwrap_or(asked);
        if since.elapsed() < LATE {
            tokio::time::sleep(
                (since.elapsed() / 4).clamp(Duration::from_millis(50), Duration::from_secs(5)),
            )
            .await;
            return Ok(Some(since));
        }
        tracing::warn!("there is mail that Slack does not show: it was deleted");
        let moment = SystemTime::now() - LATE;
        let secs = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.report_done(format!("{secs}.000000").parse().ok(), vec![]).await?;
        Ok(None)
    }
}

fn terminal(outcome: Outcome) -> Terminal {
    match outcome {
        Outcome::Idle | Outcome::Closed => Terminal::Completed,
        Outcome::Waiting => Terminal::NeedsInformation,
        Outcome::Failed => Terminal::Error,
    }
}

fn role_state(outcome: Outcome) -> RoleState {
    match outcome {
        Outcome::Idle | Outcome::Closed => RoleState::Idle,
        Outcome::Waiting => RoleState::Waiting,
        Outcome::Failed => RoleState::Failed,
    }
}
