//! A run: turns of model and tools, from mail to an outcome. All decisions follow from the transcript, so a run that
//! was killed continues as if nothing had happened.

use std::time::Duration;

use super::compact::CompactionOutcome;
use super::offer::{self, OfferFacts};
use super::patience::CallPatience;
use super::review::SpokenWords;
use super::seat::ConversationSeat;
use super::servers::{ServerList, refresh};
use super::view::{RunEnding, RunView, failed_end};
use super::watch::{CutReason, RunDeadline};
use super::{Agent, RunError, setup};
use crate::model::quirk::ModelQuirk;
use crate::prompt::{self, PromptGuides};
use crate::sandbox::is_level;
use crate::step;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use crate::tools::proof::ThreadTests;
use crate::tools::{RelayedRequest, RoleTools};
use crate::transcript::state::NextStep;
use crate::transcript::{RunOutcome, TranscriptRecord};
use codebutler_guides::skills;
use codebutler_guides::text::clip_text;

/// Most attempts to make the worktree ready.
const PREPARATIONS: u32 = 3;

/// Timeout of making the worktree ready.
pub(super) const PREPARING: Duration = Duration::from_mins(15);
/// Timeout of reading the repository's guides.
pub(super) const LOOKING: Duration = Duration::from_mins(5);

/// Outcome of a run that could not begin.
fn not_ready(what: &str) -> RunEnding {
    failed_end(format!(
        "{what} could not be made ready in time: the toolbox does not answer. Delete this role's pod, and look at its \
         log if it happens again"
    ))
}

/// Common ground that the turns of a run begin with.
struct RunGround {
    /// Facts that changed since the role was last told of them.
    facts: String,
    /// Guides for the files of the plan.
    brief: Option<String>,
    deadline: RunDeadline,
    view: RunView,
    servers: Option<ServerList>,
}

impl Agent {
    /// Runs until an outcome. Mail is checked before each model call, except the first one of a run that has just
    /// taken its mail.
    pub(super) async fn turns(&mut self, just_started: bool) -> Result<RunEnding, RunError> {
        let mut fresh = just_started;
        let RunGround { facts, brief, deadline, mut view, mut servers } =
            match self.prepare_run(just_started).await? {
                Ok(ground) => *ground,
                Err(ended) => return Ok(ended),
            };
        let (view, deadline) = (&mut view, &deadline);
        let patience = &mut CallPatience::new(self.timeouts.model_patience);
        loop {
            if deadline.is_over() {
                return Ok(self.out_of_time());
            }
            let Some(run) = self.transcript.state().run() else {
                return Ok((RunOutcome::Idle, None));
            };
            match run.next() {
                NextStep::Ask if run.turns >= self.session.max_turns => {
                    return Ok(self.out_of_turns(run.turns));
                }
                NextStep::Ask => {
                    if !std::mem::take(&mut fresh) {
                        let (news, ()) = tokio::join!(self.take_news(), refresh(&mut servers));
                        if let Some(ended) = news? {
                            return Ok(ended);
                        }
                        let run = self.transcript.state().run();
                        if run.is_some_and(|run| run.next() != NextStep::Ask) {
                            continue;
                        }
                        self.end_long_look().await?;
                        if let Some(ended) = self.unstick().await? {
                            return Ok(ended);
                        }
                        Box::pin(self.escalate()).await?;
                        self.watch_look_back()?;
                    }
                    if self.transcript.state().chat().is_empty() {
                        // The message that woke this run no longer exists.
                        return Ok((RunOutcome::Idle, None));
                    }
                    self.note_facts(&facts, brief.as_deref())?;
                    self.tell_of_forgers().await?;
                    if let Some(ended) = self.find_skills().await? {
                        return Ok(ended);
                    }
                    self.offer_tools(servers.as_mut(), view)?;
                    match self.compact(view, deadline, patience).await? {
                        CompactionOutcome::Made if self.shows_part(view) => view.read_back(),
                        CompactionOutcome::Made => {}
                        CompactionOutcome::Later => continue,
                        CompactionOutcome::Ended(ended) => return Ok(ended),
                    }
                    if let Some(ended) = self.ask(view, deadline, patience).await? {
                        return Ok(ended);
                    }
                }
                NextStep::Allow(key) => {
                    self.transcript.append(&TranscriptRecord::Allowed { key })?;
                }
                NextStep::Act => {
                    if self.hand_up_calls(&view.tools).await? {
                        continue;
                    }
                    self.admit_calls(view);
                    if let Some(ended) = self.act(&view.tools, deadline).await? {
                        return Ok(ended);
                    }
                }
                NextStep::Post(text) => {
                    let key = format!("{}.{}.final", run.id, run.turns);
                    if self.hand_up_words(&text).await? {
                        continue;
                    }
                    match self.judge_verdict(&text)? {
                        SpokenWords::Fine => {}
                        SpokenWords::Again => continue,
                        SpokenWords::Over(ended) => return Ok(ended),
                    }
                    if self.goes_on(&text).await? {
                        continue;
                    }
                    // Leftover work is pushed before anybody is told that the run is done.
                    self.keep_leftovers().await?;
                    if self.has_said_it(&text) {
                        return Ok((RunOutcome::Idle, None));
                    }
                    return self.finish(key, &text).await;
                }
                NextStep::End(outcome) => return Ok((outcome, None)),
                NextStep::GiveUp => {
                    if !self.hand_up_faults().await? {
                        return Ok(self.given_up());
                    }
                }
            }
        }
    }

    /// Prepares everything that a run needs before its first call. The servers' tools are listed meanwhile.
    async fn prepare_run(
        &mut self,
        just_started: bool,
    ) -> Result<Result<Box<RunGround>, RunEnding>, RunError> {
        let limit = Duration::from_secs(self.session.timeout_seconds.into());
        let mut servers =
            ServerList::ask(&self.tools.gateway, &self.session.tools, &self.server_tools);
        if let Some(ended) = self.make_ready(limit).await? {
            return Ok(Err(ended));
        }
        let set_up = match self.set_up().await? {
            Ok(fact) => fact,
            Err(ended) => return Ok(Err(ended)),
        };
        let deadline = RunDeadline::after(limit, &self.tools.builds.waits);
        let mut guides = match self.look_around(set_up).await? {
            Ok(guides) => guides,
            Err(ended) => return Ok(Err(ended)),
        };
        refresh(&mut servers).await;
        let known = !self.transcript.state().servers().names().is_empty();
        guides.servers = known || servers.as_ref().is_some_and(ServerList::has_servers);
        let apart = self.seat.as_ref().map(ConversationSeat::note).unwrap_or_default();
        let system = prompt::system_text(&guides, &self.session).with(&apart);
        let facts = prompt::changing_facts(&guides, &self.session);
        if just_started {
            self.note_model();
            self.begin_first_pass()?;
        }
        self.begin_first_look()?;
        Box::pin(self.escalate()).await?;
        let brief = guides.for_plan(&self.session.base_branch);
        let tools = RoleTools::new(&self.session.tools).deciding(&self.session.decisions);
        let view = RunView::new(system, tools, guides.surroundings.shows_pages);
        Ok(Ok(Box::new(RunGround { facts, brief, deadline, view, servers })))
    }

    /// Reports that the run begins, and makes the worktree ready. Returns an ending if the run can't begin.
    async fn make_ready(&mut self, limit: Duration) -> Result<Option<RunEnding>, RunError> {
        let deadline = RunDeadline::after(limit.min(PREPARING), &self.tools.builds.waits);
        let preparing = self.bounded(&deadline, self.prepare());
        let (reported, prepared) = tokio::join!(self.begun(), preparing);
        reported?;
        self.needs_sandbox()?;
        match prepared {
            Ok(prepared) => prepared,
            Err(CutReason::Time) => Ok(Some(not_ready("the worktree"))),
            Err(stop) => self.cut(stop).await.map(Some),
        }
    }

    /// Takes mail that came since the last call, and acts on its decisions at once. Returns an ending if the run
    /// ends.
    async fn take_news(&mut self) -> Result<Option<RunEnding>, RunError> {
        let mut news = self.mail(self.position.seen(), Duration::ZERO).await?;
        if let Some(stop) = news.stop.take() {
            return self.cut(CutReason::Stop(Box::new(stop))).await.map(Some);
        }
        self.obey(&mut news).await?;
        let judged = !news.pending.is_empty();
        self.take(news).await?;
        if judged {
            self.land_learnings().await?;
        }
        Ok(None)
    }

    /// Gathers what the run goes by: the state of the conversation, and the repository's guides.
    async fn look_around(
        &mut self,
        set_up: Option<String>,
    ) -> Result<Result<PromptGuides, RunEnding>, RunError> {
        let last = self.transcript.state().tested().cloned();
        self.tools.tests = ThreadTests { command: self.session.test.clone(), last };
        self.tools.planned.clone_from(&self.session.planned);
        self.land_learnings().await?;
        self.look_at_thread();
        self.begin_look_back()?;
        let deadline = RunDeadline::after(LOOKING, &self.tools.builds.waits);
        let reading = Box::pin(async {
            tokio::try_join!(self.guides(set_up), self.read_policy(), self.read_skills())
        });
        let (mut guides, policy, skills) = match self.bounded(&deadline, reading).await {
            Ok(Err(RunError::Repository(why))) => {
                return Ok(Err(failed_end(clip_text(&why, 500))));
            }
            Ok(read) => read?,
            Err(CutReason::Time) => return Ok(Err(not_ready("what the repository says"))),
            Err(stop) => return self.cut(stop).await.map(Err),
        };
        guides.skills = skills::index_skills(&skills);
        self.tools.known.clone_from(&guides.known);
        (self.rules.policy, self.rules.skills) = (policy, skills);
        self.rules.workflows.clone_from(&guides.workflows);
        Ok(Ok(guides))
    }

    /// Tells the model what has changed since it was told last, once a run: in a message, so that all
    /// that stands before it stays as it was, and cached.
    fn note_facts(&mut self, facts: &str, brief: Option<&str>) -> Result<(), RunError> {
        let begins = self.transcript.state().run().is_some_and(|run| run.turns == 0);
        if begins {
            self.note_plan(brief)?;
        }
        let state = self.transcript.state();
        if begins && !facts.trim().is_empty() {
            let text = format!("[CodeButler] {}", facts.trim());
            if state.facts() != Some(text.as_str()) {
                self.transcript.append(&TranscriptRecord::Facts { text })?;
            }
        }
        Ok(())
    }

    /// Shows the approved plan, and what counts for its files, once: where its message is shown as it was
    /// approved, that is named instead.
    fn note_plan(&mut self, guides: Option<&str>) -> Result<(), RunError> {
        let (state, session) = (self.transcript.state(), &self.session);
        let text = prompt::approved_plan(session);
        let guides = guides.map(str::to_owned);
        if state.plan() == (text.as_deref(), guides.as_deref()) {
            return Ok(());
        }
        let known = state.plan().0 == text.as_deref();
        let message = session.plan.as_ref().zip(session.plan_text.as_deref());
        let message = message.filter(|(plan, text)| state.shows_message(&plan.ts, text));
        let message = message.map(|(plan, _)| plan.ts.clone());
        let record = TranscriptRecord::ApprovedPlan { text, guides, message, known };
        Ok(self.transcript.append(&record)?)
    }

    /// Offers the tools of a turn: as its model knows them, without the useless ones, with those of servers.
    fn offer_tools(
        &mut self,
        servers: Option<&mut ServerList>,
        view: &mut RunView,
    ) -> Result<(), RunError> {
        view.suit(self.edit_form(), self.useless_tools(view.shows_pages));
        view.look_first(self.looks_first());
        view.be_brief(self.transcript.state().quirks().contains(&ModelQuirk::BriefTools));
        self.offer_servers(servers, view)?;
        view.tell_specs();
        Ok(())
    }

    /// Tools that are of no use in this conversation now.
    fn useless_tools(&self, shows_pages: bool) -> Vec<&'static str> {
        let (plan, thread) = (self.session.plan.as_ref(), &self.tools.thread);
        let facts =
            OfferFacts { shows_pages, looks_back: thread.looks_back, explores: thread.explores };
        let approved = plan.is_some_and(|plan| plan.approved_by.is_some());
        offer::useless_tools(self.transcript.state(), facts, approved)
    }

    /// Reports to the gateway that it runs; with several conversations, the desk has done so.
    async fn begun(&self) -> Result<(), RunError> {
        if self.seat.is_none() { self.report_running().await } else { Ok(()) }
    }

    /// Refuses to begin for a role whose every command would be refused: the gateway has been told why.
    fn needs_sandbox(&self) -> Result<(), RunError> {
        let runs = self.session.tools.iter().any(|tool| tool == setup::TOOL);
        match &self.sandbox {
            Some(why) if runs && !is_level(why) => Err(RunError::Unconfined(why.clone())),
            _ => Ok(()),
        }
    }

    async fn prepare(&self) -> Result<Option<RunEnding>, RunError> {
        let mut tries = 0;
        loop {
            tries += 1;
            step::point("before prepare");
            // Only a branch that this session has made stands where the base branch stood.
            let on_base = tries == 1 && self.session.stacked_on.is_none();
            let made_at = self.session.base_commit.clone().filter(|_| on_base);
            let planned = self.session.planned.clone();
            let request = ToolboxRequest::Prepare { made_at, planned };
            let RelayedRequest { reply, said, .. } = self.tools.through_relay(&request).await?;
            step::point("after prepare");
            let why = match reply {
                ToolboxReply::Text(done) => {
                    tracing::info!(done, "worktree_ready");
                    return Ok(None);
                }
                ToolboxReply::Refused(why) | ToolboxReply::Failed(why) => why,
                other => format!("{other:?}"),
            };
            let why = said.unwrap_or(why);
            tracing::warn!(why, tries, "worktree_prepare_failed");
            if tries >= PREPARATIONS {
                return Ok(Some(failed_end(format!(
                    "the worktree could not be made ready: {}",
                    clip_text(&why, 500)
                ))));
            }
            tokio::time::sleep(Duration::from_secs(u64::from(tries))).await;
        }
    }
}
