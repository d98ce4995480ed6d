//! Reports to the gateway about runs, and about mail that needs no run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use codebutler_wire::{RoleState, RunReport, RunTerminal, SlackTs};

use super::mail::RoleMail;
use super::{Agent, RunError};
use crate::step;
use crate::transcript::{RunOutcome, TranscriptRecord};

/// Delay within which Slack shows a message that was announced as mail; after it, the message counts as deleted.
const LATE: Duration = Duration::from_secs(30);

impl Agent {
    pub(super) async fn report_running(&self) -> Result<(), RunError> {
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

    pub(super) async fn report_end(&mut self) -> Result<(), RunError> {
        let state = self.transcript.state();
        let Some(last) = state.last() else { return Ok(()) };
        let outcome = last.outcome;
        let report = RunReport {
            state: role_state(outcome),
            done: state.newest().cloned(),
            handled: last.run.handled.clone(),
            turns: last.run.turns,
            reason: last.reason.clone(),
            terminal: Some(terminal_state(outcome)),
            sandbox: None,
        };
        self.tell_end(report, outcome).await
    }

    /// Reports a run's end to the gateway, and records that it was reported.
    pub(super) async fn tell_end(
        &mut self,
        report: RunReport,
        outcome: RunOutcome,
    ) -> Result<(), RunError> {
        let done = report.done.clone();
        match self.report(report).await {
            // This run itself closed the thread.
            Err(RunError::Closed) if outcome == RunOutcome::Closed => {}
            other => other?,
        }
        self.position.advance(done);
        self.transcript.append(&TranscriptRecord::Reported)?;
        if outcome == RunOutcome::Closed { Err(RunError::Closed) } else { Ok(()) }
    }

    pub(super) async fn report(&self, report: RunReport) -> Result<(), RunError> {
        step::point("before report");
        self.tools.gateway.report(&report).await?;
        step::point("after report");
        Ok(())
    }

    /// Reports mail that turned out to be known: a redelivery, or what a predecessor had taken.
    pub(super) async fn settle(&mut self, mail: &RoleMail) -> Result<(), RunError> {
        let known = mail.addressed.as_ref().filter(|ts| !self.position.is_done(ts));
        if known.is_none() && mail.handled.is_empty() {
            return Ok(());
        }
        self.report_done(mail.newest.clone(), mail.handled.clone()).await
    }

    pub(super) async fn report_done(
        &mut self,
        done: Option<SlackTs>,
        handled: Vec<String>,
    ) -> Result<(), RunError> {
        let last = self.transcript.state().last();
        let report = RunReport {
            // The outcome of the last run stands: mail that was known already does not change it.
            state: last.map_or(RoleState::Idle, |last| role_state(last.outcome)),
            done: done.clone(),
            handled,
            turns: last.map_or(0, |last| last.run.turns),
            reason: None,
            terminal: None,
            sandbox: None,
        };
        self.report(report).await?;
        self.position.advance(done);
        Ok(())
    }

    /// A question for mail that is answered at once, again and again, and shows nothing new: the
    /// message that raised the mark is gone. Slack gets some time to show it, then it is given up.
    pub(super) async fn watch_for_ghosts(
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
        tracing::warn!("message_missing");
        let moment = SystemTime::now() - LATE;
        let secs = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.report_done(format!("{secs}.000000").parse().ok(), vec![]).await?;
        Ok(None)
    }
}

pub(super) fn terminal_state(outcome: RunOutcome) -> RunTerminal {
    match outcome {
        RunOutcome::Idle | RunOutcome::Closed => RunTerminal::Completed,
        RunOutcome::Waiting => RunTerminal::NeedsInformation,
        RunOutcome::Failed => RunTerminal::Error,
    }
}

pub(super) fn role_state(outcome: RunOutcome) -> RoleState {
    match outcome {
        RunOutcome::Idle | RunOutcome::Closed => RoleState::Idle,
        RunOutcome::Waiting => RoleState::Waiting,
        RunOutcome::Failed => RoleState::Failed,
    }
}
