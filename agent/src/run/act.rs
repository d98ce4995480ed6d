//! Carries out the tool calls of an answer: those that only read side by side, the others one after
//! the other, each recorded before and after.

use codebutler_wire::{ApprovalRequest, ApprovalState, ErrorCode, RiskTier};
use futures::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};

use super::keepsake::{KeepOutcome, note_after_crash};
use super::unread::WROTE_MEANWHILE;
use super::view::RunEnding;
use super::watch::{CutReason, RunDeadline};
use super::{Agent, RunError, progress, setup};
use crate::decisions::LoggedKind;
use crate::gateway::GatewayError;
use crate::gateway::mcp::is_over;
use crate::memory::LearningChange;
use crate::model::ToolCall;
use crate::step;
use crate::tools::{
    CallRisk, RoleTool, RoleTools, StartedCall, ToolContext, ToolFailure, ToolOutcome,
    approved_form,
};
use crate::transcript::{ActionConsent, ResultKind, RunOutcome, TranscriptRecord};
use codebutler_guides::policy::CommandPolicy;
use codebutler_guides::text::{clip_text, head_and_tail};

/// Calls that read at the same time.
const SIDE_BY_SIDE: usize = 8;
/// Longest result, in characters.
const MAX_RESULT: usize = 64_000;
/// Longest error, in characters.
const MAX_ERROR: usize = 2_000;

/// The tool that families of models know in different forms.
const EDIT: &str = "Edit";

/// For a call behind one that waits.
const NOT_YET: &str = "Not carried out: an earlier call of the same answer waits for people. Make it again \
    once they have answered, if it is still right.";

/// A call without a result.
#[derive(Clone, Debug)]
pub(super) struct Open {
    place: usize,
    pub(super) call: ToolCall,
    /// The key of an effect that may have happened before a crash.
    pub(super) intent: Option<String>,
}

impl Agent {
    /// Carries out what is open of the last answer. Returns an outcome if the run has to end.
    pub(super) async fn act(
        &mut self,
        tools: &RoleTools,
        deadline: &RunDeadline,
    ) -> Result<Option<RunEnding>, RunError> {
        loop {
            let open = self.open_calls(tools);
            let Some(first) = open.first() else { return Ok(None) };
            if self.waits() {
                for open in &open {
                    self.result(open, NOT_YET.to_owned(), ResultKind::Plain)?;
                }
                return Ok(None);
            }
            let harmless = |open: &&Open| is_harmless(tools, &self.rules.policy, open);
            let reads = open.iter().take_while(harmless).count();
            self.does(&progress::of_call(&first.call.name, &first.call.arguments));
            let ended = match reads {
                // One with an intent may have been posted before a crash.
                0 if first.intent.is_none() && self.plans_unread(&first.call).await? => {
                    self.result(first, WROTE_MEANWHILE.to_owned(), ResultKind::Plain)?;
                    None
                }
                0 => self.effect(tools, first, deadline).await?,
                reads => self.read(tools, &open[..reads], deadline).await?,
            };
            if ended.is_some() {
                return Ok(ended);
            }
        }
    }

    /// True if a call of the last answer has to wait for people. What was asked for behind it may build on
    /// it.
    fn waits(&self) -> bool {
        let answer = self.transcript.state().run().and_then(|run| run.answer.as_ref());
        answer.is_some_and(|answer| answer.any(ResultKind::Waits))
    }

    pub(super) fn open_calls(&self, tools: &RoleTools) -> Vec<Open> {
        let answer = self.transcript.state().run().and_then(|run| run.answer.as_ref());
        let open = answer.map(|answer| {
            answer
                .open_calls()
                .map(|(place, call)| Open {
                    place,
                    // Recorded in its one form already, unless an older version recorded it.
                    call: tools.canonical(call).unwrap_or_else(|_| call.clone()),
                    intent: answer.intents.get(&place).cloned(),
                })
                .collect()
        });
        open.unwrap_or_default()
    }

    async fn read(
        &mut self,
        tools: &RoleTools,
        calls: &[Open],
        deadline: &RunDeadline,
    ) -> Result<Option<RunEnding>, RunError> {
        let cx = self.tools.clone();
        // The same ones after a crash: what a server was asked is found again by its key.
        let keyed = calls.iter().map(|open| (open, self.proposed_key(open))).collect::<Vec<_>>();
        for (open, key) in &keyed {
            let is_paid = tools.find(&open.call.name).is_ok_and(RoleTool::is_paid);
            if is_paid && open.intent.is_none() {
                let intent =
                    TranscriptRecord::Intent { call: open.place, key: key.clone(), consent: None };
                self.transcript.append(&intent)?;
            }
        }
        let work = stream::iter(&keyed)
            .map(|(open, key)| carry_out(tools, &cx, &open.call, key, open.intent.is_some()))
            .buffered(SIDE_BY_SIDE)
            .collect::<Vec<_>>();
        let results = match self.bounded(deadline, work).await {
            Ok(results) => results,
            Err(cut) => return self.cut(cut).await.map(Some),
        };
        for (open, result) in calls.iter().zip(results) {
            if let Some(ended) = self.conclude(open, result.map_err(lose_reading))? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    async fn effect(
        &mut self,
        tools: &RoleTools,
        open: &Open,
        deadline: &RunDeadline,
    ) -> Result<Option<RunEnding>, RunError> {
        let cx = self.tools.clone();
        let (consent, note) = if open.intent.is_some() {
            let tool = tools.find(&open.call.name).ok();
            let verdict = tool.map(|tool| tool.verdict(&self.rules.policy, &open.call.arguments));
            (None, verdict.as_ref().and_then(note_after_crash))
        } else {
            match self.permit(tools, open).await {
                Ok(CallPermit::Go(yes, kept)) => (yes, kept),
                Ok(CallPermit::Wait(text)) => {
                    self.result(open, text, ResultKind::Waits)?;
                    return Ok(None);
                }
                Err(failure) => return self.conclude(open, Err(failure)),
            }
        };
        let (key, again) = match &open.intent {
            Some(key) => (key.clone(), true),
            None => match self.key(tools, &cx, open).await {
                Ok(key) => {
                    let intent =
                        TranscriptRecord::Intent { call: open.place, key: key.clone(), consent };
                    self.transcript.append(&intent)?;
                    (key, false)
                }
                Err(failure) => return self.conclude(open, Err(failure)),
            },
        };
        step::point("before effect");
        let work = carry_out(tools, &cx, &open.call, &key, again);
        let result = match self.bounded(deadline, work).await {
            Ok(result) => result,
            Err(cut) => {
                let why = match cut {
                    CutReason::Time => "the time for the run was over",
                    CutReason::Stop(_) => "a user stopped the run",
                };
                let said = format!("Interrupted: {why}. Whether it was carried out is not known.");
                let notes = note.into_iter().chain([said]).collect();
                self.noted_result(open, String::new(), notes, ResultKind::Plain)?;
                return self.cut(cut).await.map(Some);
            }
        };
        step::point("after effect");
        self.conclude(open, result.map(|done| done.noting(note)))
    }

    /// Lets a call go on, or asks the people first.
    async fn permit(&mut self, tools: &RoleTools, open: &Open) -> Result<CallPermit, ToolFailure> {
        let ToolCall { name, arguments, .. } = &open.call;
        let mut verdict = tools.find(name)?.verdict(&self.rules.policy, arguments);
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        let shown = clip_text(arguments, 300);
        if verdict.tier != RiskTier::Destructive {
            let kept = self.keep_work(&verdict).await?;
            if let KeepOutcome::Impossible(why) = &kept {
                let why = clip_text(why, 100);
                verdict.why =
                    format!("{}, and no snapshot can be kept before ({why})", verdict.why);
            } else {
                if verdict.tier == RiskTier::WriteVisible {
                    self.log.note(&run, LoggedKind::Visible, name, &[], &shown);
                }
                return Ok(CallPermit::Go(None, kept.note()));
            }
        }
        let hash = hex::encode(Sha256::digest(format!("{name}\n{}", approved_form(arguments))));
        // Each use needs a yes of its own; a question that is open is not asked again.
        let key = self.question(&hash, &open.call)?;
        let request = ApprovalRequest {
            key,
            tool: name.clone(),
            summary: clip_text(&verdict.why, 200),
            hash: hash.clone(),
            detail: Some(exact_words(name, arguments)),
        };
        let reply = match self.tools.gateway.approval(&request).await {
            // Nobody was asked: too much is open, or the gateway has no such question.
            Err(GatewayError::Refused { code: ErrorCode::InvalidRequest, message }) => {
                self.record(&TranscriptRecord::NotAllowed(ActionConsent { hash, pending: None }))?;
                return Err(ToolFailure::Respond(format!(
                    "not done: {}, and {message}",
                    verdict.why
                )));
            }
            reply => reply?,
        };
        let chosen = if reply.standing {
            format!("{:?}, for this thread", reply.state)
        } else {
            format!("{:?}", reply.state)
        };
        self.log.note(&run, LoggedKind::Approval, &chosen, &["not asked"], &shown);
        let consent = ActionConsent { hash, pending: Some(format!("approval:{}", reply.id)) };
        if matches!(reply.state, ApprovalState::Denied | ApprovalState::Expired) {
            self.record(&TranscriptRecord::NotAllowed(consent.clone()))?;
        }
        let no = |text: String| Err(ToolFailure::Respond(text));
        match reply.state {
            // People have said yes, snapshot or no snapshot.
            ApprovalState::Approved => {
                Ok(CallPermit::Go(Some(consent), self.keep_work(&verdict).await?.note()))
            }
            ApprovalState::Pending => Ok(CallPermit::Wait(format!(
                "Not carried out yet: {}, so people are asked first. Your run ends here. Once they have said \
                 yes, exactly this call is carried out, and you go on from its result.",
                verdict.why
            ))),
            ApprovalState::Denied => no(format!(
                "denied by {}. Find a way without it, or ask what they want instead.",
                reply.by.map_or_else(|| "a user".to_owned(), |user| format!("user {user}"))
            )),
            ApprovalState::Expired => no(
                "nobody answered in time whether this may be done, which is neither a yes nor a no: it \
                 was not done. Ask again in words."
                    .to_owned(),
            ),
        }
    }

    /// The key of the question about an action: that of the open one, or a new one.
    fn question(&mut self, hash: &str, call: &ToolCall) -> Result<String, ToolFailure> {
        if let Some(open) = self.transcript.state().asked(hash) {
            return Ok(open.to_owned());
        }
        let key = format!("ok.{:016x}", rand::random::<u64>());
        let call = Some(call.clone());
        self.record(&TranscriptRecord::Asked { hash: hash.to_owned(), key: key.clone(), call })?;
        Ok(key)
    }

    fn record(&mut self, record: &TranscriptRecord) -> Result<(), ToolFailure> {
        self.transcript.append(record).map_err(|error| ToolFailure::Stop(error.to_string()))
    }

    async fn key(
        &self,
        tools: &RoleTools,
        cx: &ToolContext,
        open: &Open,
    ) -> Result<String, ToolFailure> {
        let proposed = self.proposed_key(open);
        let key = tools.find(&open.call.name)?.key(cx, &open.call.arguments, &proposed).await;
        key.map_err(|failure| tools.explain(&open.call.name, failure))
    }

    /// Unique to a call, and the same whenever it is carried out.
    fn proposed_key(&self, open: &Open) -> String {
        let run = self.transcript.state().run();
        let (id, turns) = run.map_or(("", 0), |run| (run.id.as_str(), run.turns));
        let allowed = run.and_then(|run| run.answer.as_ref()?.allowed.clone());
        allowed.unwrap_or_else(|| format!("{id}.{turns}.{}", open.place))
    }

    fn conclude(
        &mut self,
        open: &Open,
        result: Result<ToolOutcome, ToolFailure>,
    ) -> Result<Option<RunEnding>, RunError> {
        match result {
            Ok(ToolOutcome { text, notes, kind, records }) => {
                for record in &records {
                    self.keep(record)?;
                }
                self.noted_result(open, head_and_tail(&text, MAX_RESULT), notes, kind)?;
            }
            Err(ToolFailure::Respond(why)) => {
                self.result(
                    open,
                    format!("Error: {}", clip_text(&why, MAX_ERROR)),
                    ResultKind::Plain,
                )?;
            }
            Err(ToolFailure::Fault(why)) => {
                tracing::warn!(why, "tool_call_invalid");
                self.result(
                    open,
                    format!("Error: {}", clip_text(&why, MAX_ERROR)),
                    ResultKind::Fault,
                )?;
            }
            Err(ToolFailure::Stop(why)) => {
                self.result(
                    open,
                    format!("Error: {}", clip_text(&why, MAX_ERROR)),
                    ResultKind::Plain,
                )?;
                return Ok(Some((RunOutcome::Failed, Some(clip_text(&why, MAX_ERROR)))));
            }
            Err(ToolFailure::Closed) => return Err(RunError::Closed),
            Err(ToolFailure::Gateway(error)) => return Err(RunError::Gateway(error)),
            Err(ToolFailure::Toolbox(error)) => return Err(RunError::Toolbox(error)),
        }
        Ok(None)
    }

    /// Takes down what a call brought beside its text.
    pub(super) fn keep(&mut self, record: &TranscriptRecord) -> Result<(), RunError> {
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        match record {
            TranscriptRecord::Tested { test } => {
                let ended = test.exit_code;
                let ended =
                    ended.map_or("not ended".to_owned(), |code| format!("exit code {code}"));
                self.log.note(
                    &run,
                    LoggedKind::Receipt,
                    &ended,
                    &[],
                    &clip_text(&test.command, 200),
                );
                self.tools.tests.last = Some(test.clone());
            }
            TranscriptRecord::Planned { workflow, files } => {
                let others = self.rules.workflows.iter().filter(|other| *other != workflow);
                let others: Vec<_> = others.map(String::as_str).collect();
                let evidence = format!("the plan that was posted; files: {}", files.join(", "));
                self.log.note(&run, LoggedKind::Workflow, workflow, &others, &evidence);
            }
            TranscriptRecord::Proposed { changes, .. } => {
                let claims: Vec<_> =
                    changes.iter().map(|one| one.learning.claim.as_str()).collect();
                let chosen = format!("{} proposed", changes.len());
                self.log.note(
                    &run,
                    LoggedKind::Learning,
                    &chosen,
                    &[],
                    &clip_text(&claims.join("; "), 500),
                );
                self.tools.thread.looks_back &= changes.iter().any(LearningChange::is_whole);
            }
            TranscriptRecord::ReviewPlanned { missing_tests } => {
                let missing = clip_text(&missing_tests.join("; "), 500);
                self.log.note(&run, LoggedKind::Review, "what it goes by is posted", &[], &missing);
                self.tools.thread.review.is_planned = true;
            }
            TranscriptRecord::Deviated { files }
                if self.transcript.state().deviated() == &files[..] =>
            {
                return Ok(());
            }
            TranscriptRecord::Deviated { files } if !files.is_empty() => {
                let evidence = format!("the plan names {}", self.session.planned.join(", "));
                let chosen = clip_text(&files.join(", "), 500);
                self.log.note(
                    &run,
                    LoggedKind::Deviation,
                    &chosen,
                    &["keep to the plan"],
                    &evidence,
                );
            }
            _ => {}
        }
        Ok(self.transcript.append(record)?)
    }

    fn result(&mut self, open: &Open, text: String, kind: ResultKind) -> Result<(), RunError> {
        self.noted_result(open, text, Vec::new(), kind)
    }

    fn noted_result(
        &mut self,
        open: &Open,
        text: String,
        notes: Vec<String>,
        kind: ResultKind,
    ) -> Result<(), RunError> {
        let record = TranscriptRecord::Result { call: open.place, text, notes, kind };
        Ok(self.transcript.append(&record)?)
    }
}

enum CallPermit {
    /// Go on, with this yes, and with this to be told beside what comes of it.
    Go(Option<ActionConsent>, Option<String>),
    /// The run ends until people have answered; what the model is told.
    Wait(String),
}

/// What people are asked about: the command itself, and where it runs unless that is the root; or all
/// arguments.
fn exact_words(tool: &str, arguments: &str) -> String {
    // Of another tool, an argument of that name is not all of them.
    let commands = tool == setup::TOOL;
    let value: Option<serde_json::Value> =
        commands.then(|| serde_json::from_str(arguments).ok()).flatten();
    let text = |name: &str| value.as_ref().and_then(|value| value.get(name)?.as_str());
    match (text("command"), text("workdir").filter(|folder| !matches!(*folder, "" | "." | "./"))) {
        (Some(command), None) => command.to_owned(),
        (Some(command), Some(folder)) => format!("# in {}\n{command}", folder.replace('\n', " ")),
        (None, _) => arguments.to_owned(),
    }
}

/// Calls that read, unless the Repo is stricter with their tool, and calls of tools that don't exist.
pub(super) fn is_harmless(tools: &RoleTools, policy: &CommandPolicy, open: &Open) -> bool {
    let ToolCall { name, arguments, .. } = &open.call;
    tools.find(name).map_or(true, |tool| {
        tool.risk() == CallRisk::Reads && tool.verdict(policy, arguments).tier == RiskTier::Read
    })
}

/// What only reads has changed nothing: a run goes on without it where its answer does not come.
fn lose_reading(failure: ToolFailure) -> ToolFailure {
    match failure {
        ToolFailure::Gateway(error) if is_over(&error) => ToolFailure::Respond(
            "no answer came in time: try it once more, or go on without it".to_owned(),
        ),
        failure => failure,
    }
}

async fn carry_out(
    tools: &RoleTools,
    cx: &ToolContext,
    call: &ToolCall,
    key: &str,
    again: bool,
) -> Result<ToolOutcome, ToolFailure> {
    let explain = |failure| tools.explain(&call.name, failure);
    // A call that can't be understood gets the reason, by whatever name it was called.
    let call = &tools.canonical(call).map_err(explain)?;
    let done = tools.find(&call.name)?.call(cx, &call.arguments, StartedCall { key, again }).await;
    let mut done = done.map_err(explain)?;
    if call.name == EDIT {
        done.text = tools.told_of(EDIT, &done.text);
    }
    Ok(done)
}
