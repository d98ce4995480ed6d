//! The agent container: wakes with mail, runs turns until the model is done or waits, reports, and
//! leaves when nothing more comes.
//!
//! [`mail`] decides what is new, [`crate::transcript::state`] what comes next, [`act`] carries out
//! tool calls, [`ask`] is one model call, [`turns`] is a run, [`desk`] several of them at once, and this file is the
//! life of the process around it.

mod act;
mod ask;
mod compact;
mod desk;
mod ending;
mod first_look;
mod guides;
mod keepsake;
mod ladder;
mod learn;
mod leftover;
mod look_back;
mod mail;
mod mail_position;
mod notice;
mod offer;
mod patience;
mod pictures;
mod progress;
mod report;
mod review;
mod seat;
mod servers;
mod setup;
mod skill;
pub mod stuck;
mod switch;
mod turns;
mod unclaimed;
mod unread;
mod view;
mod wall;
mod watch;
mod words;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use codebutler_wire::{ErrorCode, RoleInbox, RoleSession, VersionedInbox, exit_code};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument as _;

use crate::args::RunArgs;
use crate::builds::PodBuilds;
use crate::decisions::DecisionLog;
use crate::gateway::{GatewayClient, GatewayError};
use crate::relay::GitRelay;
use crate::sandbox::describe_level;
use crate::sending::HistorySender;
use crate::toolbox::client::{ToolboxClient, ToolboxError};
use crate::toolbox::protocol::{CommitAuthor, ToolboxHello, ToolboxReply, ToolboxRequest};
use crate::tools::proof::ThreadTests;
use crate::tools::{ThreadFacts, ToolContext};
use crate::transcript::state::RunKind;
use crate::transcript::{
    OpenTranscript, RunOutcome, TranscriptError, TranscriptGrowth, TranscriptRecord,
};
use codebutler_guides::policy::CommandPolicy;
use codebutler_guides::skills::SkillGuide;
use leftover::LeftoverNote;
use mail::RoleMail;
use mail_position::MailPosition;
use progress::ProgressTelling;
use seat::ConversationSeat;
use servers::KeptServerTools;
use wall::EgressWall;

/// Long-poll timeout of one inbox request.
const LONG_POLL: Duration = Duration::from_secs(25);
/// Timestamp that sorts before every message.
const BEGINNING: &str = "1.000000";
/// Lifetime of the first snapshot of the inbox.
const FRESH: Duration = Duration::from_secs(2);

/// Reasons for which the process ends early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Not an error: the thread is closed, or another pod has taken over.
    #[error("the thread is closed")]
    Closed,
    #[error("the gateway does not answer as it should")]
    Gateway(#[source] GatewayError),
    #[error("the toolbox does not answer as it should")]
    Toolbox(#[source] ToolboxError),
    /// Sandbox missing, for a role that may run commands.
    #[error("commands can't be confined on this node: {0}")]
    Unconfined(String),
    /// A volume that others are to be made from.
    #[error("the volume can't be prepared: {0}")]
    Unprepared(String),
    /// The base branch can't be read: a run without it would lack the guides that people wrote.
    #[error("{0}")]
    Repository(String),
    #[error("the transcript can't be used")]
    Transcript(#[from] TranscriptError),
    #[error("the decision log can't be used")]
    Log(#[source] std::io::Error),
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

/// Runs until there is nothing to do, or SIGTERM: the transcript has all that a successor needs.
pub async fn run_agent(args: RunArgs) -> ExitCode {
    let span = tracing::info_span!("agent", role = args.role, thread = args.thread);
    let life = async {
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return ExitCode::FAILURE };
        tokio::select! {
            biased;
            _ = terminate.recv() => {
                tracing::info!("shutdown_started");
                // A pod may be taken away at any time: this is not the end of its work.
                ExitCode::from(exit_code::TOLD_TO_STOP)
            }
            ended = run_until_idle(args) => code_of(ended),
        }
    };
    Box::pin(life.instrument(span)).await
}

fn code_of(ended: Result<(), RunError>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(RunError::Closed) => {
            tracing::info!("thread_closed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let code = match &error {
                RunError::Gateway(error) if error.code().is_some() && !error.may_pass() => {
                    ExitCode::from(exit_code::GATEWAY_REFUSED)
                }
                RunError::Gateway(_) => ExitCode::from(exit_code::GATEWAY_AWAY),
                RunError::Unconfined(_) => ExitCode::from(exit_code::NOT_CONFINED),
                RunError::Transcript(TranscriptError::Io { source, .. })
                | RunError::Log(source)
                    if source.kind() == std::io::ErrorKind::PermissionDenied =>
                {
                    ExitCode::from(exit_code::VOLUME_NOT_WRITABLE)
                }
                _ => ExitCode::FAILURE,
            };
            tracing::error!(error = format!("{:#}", anyhow::Error::new(error)), "process_failed");
            code
        }
    }
}

async fn run_until_idle(args: RunArgs) -> Result<(), RunError> {
    if args.prepare {
        return Box::pin(unclaimed::prepare_volume(&args)).await;
    }
    let mut transcript = OpenTranscript::open(&args.state_dir, &args.role)?;
    let log = DecisionLog::open(&args.state_dir, &args.role).map_err(RunError::Log)?;
    let gateway =
        GatewayClient::new(&args.gateway, args.gateway_address, &args.ca_file, &args.token_file)?
            .in_arm(&args.experiment);
    let sending = HistorySender::start(gateway.clone());
    transcript.tell(sending.growth.clone());
    let relay = GitRelay::start(args.relay, gateway.clone()).await.map_err(RunError::Relay)?;
    let wall = EgressWall::new(gateway.clone(), &args);
    let connected = if args.seat {
        Some(tokio::select! {
            toolbox = unclaimed::await_thread(&args, &gateway, &relay, &wall) => toolbox?,
            never = wall.look_ahead() => match never {},
        })
    } else {
        None
    };
    let connect = async {
        match connected {
            Some(toolbox) => Ok(toolbox),
            None => ToolboxClient::connect(&args.socket).await,
        }
    };
    let began = Instant::now();
    // All futures run to completion: the toolbox ends with its connection, so the connection must exist.
    let (toolbox, session, admitted, inbox) =
        tokio::join!(connect, wall.session(), wall.stands(), read_early(&gateway, &transcript));
    let (toolbox, session) = (toolbox?, session?);
    admitted?;
    // An older snapshot of the inbox is fetched again.
    let inbox = inbox.filter(|_| began.elapsed() < FRESH);
    let hello = build_hello(&session, &relay);
    let sandbox = match toolbox.ask(ToolboxRequest::Hello(hello)).await? {
        ToolboxReply::Text(level) => Some(describe_level(&level)),
        _ => None,
    };
    let position = MailPosition::new(session.done.clone(), inbox);
    let timeouts = AgentTimeouts {
        tell_after: Duration::from_secs(args.tell_after),
        model_patience: Duration::from_secs(args.model_patience),
        setup_limit: args.setup_limit,
    };
    let builds = PodBuilds::new(gateway.clone(), timeouts.tell_after);
    let (tests, planned) = (ThreadTests::default(), Vec::new());
    let thread = ThreadFacts { state_dir: args.state_dir.clone(), ..ThreadFacts::default() };
    let known = Vec::new();
    let tools = ToolContext { gateway, toolbox, relay, builds, tests, planned, thread, known };
    let mut agent = Agent {
        tools,
        transcript,
        session,
        position,
        sandbox,
        log,
        rules: BranchRules::default(),
        forgers_told: BTreeSet::new(),
        server_tools: KeptServerTools::default(),
        timeouts,
        wall,
        state_dir: args.state_dir,
        telling: None,
        left: None,
        seat: None,
        growth: sending.growth.clone(),
    };
    let ended = agent.live().await;
    sending.finish().await;
    ended
}

/// Reads the inbox early, where nothing is left to finish first: together with the session, which spares the first
/// answer two round trips.
async fn read_early(gateway: &GatewayClient, transcript: &OpenTranscript) -> Option<RoleInbox> {
    let state = transcript.state();
    let settled = state.run().is_none() && state.desk().is_settled();
    if !settled || state.last().is_some_and(|last| !last.reported) {
        return None;
    }
    let after = match state.newest() {
        Some(newest) if !state.is_new() => newest.minus_secs(60),
        _ => BEGINNING.parse().ok()?,
    };
    let inbox = gateway.inbox(&after, None, Duration::ZERO).await;
    let inbox = inbox.inspect_err(|error| tracing::debug!(%error, "inbox_read_failed"));
    inbox.ok().map(|found| found.inbox)
}

fn build_hello(session: &RoleSession, relay: &GitRelay) -> ToolboxHello {
    let role = &session.role;
    let name = session.roles.iter().find(|card| card.role == *role).map_or(role, |card| &card.name);
    // Names end up in commits: one line, without the characters that end a name there.
    let name: String = name.chars().filter(|c| !c.is_control() && !"<>".contains(*c)).collect();
    ToolboxHello {
        relay_url: relay.url(),
        proxy: relay.proxy(),
        branch: session.branch.clone(),
        base_branch: session.base_branch.clone(),
        sparse: session.sparse.clone(),
        author: CommitAuthor {
            name: format!("CodeButler {}", name.trim()),
            email: format!("{role}@codebutler.invalid"),
        },
        role: role.clone(),
    }
}

/// Rules of the base branch, as of the start of the current or last run.
#[derive(Default)]
struct BranchRules {
    /// Policy on commands.
    policy: CommandPolicy,
    /// Names of the workflows that a plan can follow.
    workflows: Vec<String>,
    /// Skills that people can ask for.
    skills: Vec<SkillGuide>,
}

/// Waiting times of the process.
#[derive(Clone, Copy)]
struct AgentTimeouts {
    /// Time after which people are told that something takes long.
    tell_after: Duration,
    /// Retry budget for a model's provider that does not answer.
    model_patience: Duration,
    /// Timeout of a set-up, in seconds.
    setup_limit: u32,
}

/// A role's agent process in its pod: a list of what owns its state.
struct Agent {
    tools: ToolContext,
    transcript: OpenTranscript,
    /// Session as of the start of the current or last run.
    session: RoleSession,
    position: MailPosition,
    /// Name of the sandbox that confines commands, or the reason why there is none.
    sandbox: Option<String>,
    log: DecisionLog,
    rules: BranchRules,
    telling: Option<ProgressTelling>,
    /// Tools about which people were already told that their results imitated the system.
    forgers_told: BTreeSet<String>,
    /// Tools of servers as the last run had them.
    server_tools: KeptServerTools,
    timeouts: AgentTimeouts,
    /// Note for the role about work that its run left behind, once that was checked.
    left: Option<LeftoverNote>,
    /// Check that the pod can reach the gateway alone.
    wall: EgressWall,
    state_dir: PathBuf,
    /// Seat of this conversation, if the role has several at a time.
    seat: Option<ConversationSeat>,
    /// Signal by which transcripts report that they have grown.
    growth: TranscriptGrowth,
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
            if let Some(run) = self.transcript.state().run() {
                if run.kind == RunKind::Brief {
                    self.end_brief_run().await?;
                } else {
                    // Log collectors read the innermost span only, so it repeats these fields.
                    let RoleSession { role, thread, .. } = &self.session;
                    let span = tracing::info_span!("run", role, thread, id = run.id);
                    let running = Box::pin(self.run(std::mem::take(&mut just_started)));
                    running.instrument(span).await?;
                }
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
            let first = self.position.take_early().map(|inbox| self.sorted(inbox));
            let first = first.filter(|mail| mail.wakes);
            let is_first = first.is_some();
            let mut mail = match first {
                Some(mail) => mail,
                None => self.mail(None, wait).await?,
            };
            if mail.wakes {
                // One view of the thread for the whole run.
                if !is_first {
                    self.session = self.wall.session().await?;
                }
                let brief = self.obey(&mut mail).await? || self.awaits_verdicts(&mail);
                if self.is_for_desk(&mail)? {
                    self.give(mail)?;
                } else {
                    self.begin(mail, brief).await?;
                    just_started = true;
                }
                continue;
            }
            self.settle(&mail).await?;
            if left.is_zero() && stuck.is_none() {
                tracing::info!("agent_finished");
                return Ok(());
            }
            stuck = self.watch_for_ghosts(stuck, asked, wait).await?;
        }
    }

    /// Reads the conversation from a little before the last finished message on, or all of it the first time. `seen`:
    /// version of the inbox that was read before; an unchanged inbox is no mail.
    async fn mail(&self, seen: Option<&str>, wait: Duration) -> Result<RoleMail, RunError> {
        if let Some(seat) = &self.seat {
            return self.seated_mail(seat, seen).await;
        }
        let state = self.transcript.state();
        let done = self.position.done().filter(|_| !state.is_new());
        let after = done.unwrap_or(&self.session.root).minus_secs(60);
        let VersionedInbox { inbox, version } =
            self.tools.gateway.inbox(&after, seen, wait).await?;
        if inbox.closed {
            return Err(RunError::Closed);
        }
        Ok(RoleMail { version, ..self.sorted(inbox) })
    }

    fn sorted(&self, inbox: RoleInbox) -> RoleMail {
        let (role, done) = (&self.session.role, self.session.done.as_ref());
        mail::sort_inbox(inbox, self.transcript.state(), role, done)
    }

    async fn begin(&mut self, mail: RoleMail, brief: bool) -> Result<(), RunError> {
        let run = format!("{:016x}", rand::random::<u64>());
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        tracing::info!(run, messages = mail.messages.len(), "run_started");
        self.transcript.append(&TranscriptRecord::RunStarted { run, at, brief })?;
        self.take(mail).await
    }

    /// Ends a brief run, which leaves nothing to do.
    async fn end_brief_run(&mut self) -> Result<(), RunError> {
        self.transcript
            .append(&TranscriptRecord::RunEnded { outcome: RunOutcome::Idle, reason: None })?;
        self.report_end().await
    }

    async fn take(&mut self, mail: RoleMail) -> Result<(), RunError> {
        let RoleMail { mut messages, pending, version, .. } = mail;
        if !messages.is_empty() || !pending.is_empty() {
            let pictures = self.pictures(&mut messages).await?;
            self.transcript.append(&TranscriptRecord::Taken { messages, pending, pictures })?;
        }
        // Only once it is in the transcript: until then it has to be delivered again.
        self.position.note_taken(version);
        Ok(())
    }

    async fn run(&mut self, just_started: bool) -> Result<(), RunError> {
        let run = self.transcript.state().run();
        let (id, turns) = run.map(|run| (run.id.clone(), run.turns)).unwrap_or_default();
        let limit = progress::part_limit(&self.session);
        self.telling = Some(ProgressTelling::start(self.tools.gateway.clone(), &id, turns, limit));
        let ended = self.turns(just_started).await;
        self.telling = None;
        let (outcome, reason) = ended?;
        tracing::info!(?outcome, reason, "run_ended");
        if outcome != RunOutcome::Closed {
            self.keep_leftovers().await?;
        }
        self.transcript.append(&TranscriptRecord::RunEnded { outcome, reason })?;
        if let Some(text) = self.left.take().and_then(|left| left.note) {
            self.transcript.append(&TranscriptRecord::Note { text })?;
        }
        self.report_end().await?;
        if outcome == RunOutcome::Closed { Err(RunError::Closed) } else { Ok(()) }
    }

    /// Reports the run's current activity, for people to see.
    fn does(&self, doing: &str) {
        let Some(run) = self.transcript.state().run() else { return };
        if let Some(seat) = &self.seat {
            seat.board.now(&seat.id, run.turns, doing);
        } else if let Some(telling) = &self.telling {
            telling.now(run.turns, doing);
        }
    }
}
