//! The end of a run of a role that commits and pushes: what it left in the volume alone goes on the
//! thread's branch too, through the same checks as any push. Where it can't, people are told once, and
//! it stays where it is.

use std::time::Duration;

use super::watch::RunDeadline;
use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest, WorktreeLeftover};
use crate::tools::{PushResult, ToolFailure};
use codebutler_guides::text::clip_text;
use codebutler_guides::voice::join_lines;

/// Tools that a role needs to keep its work on its own.
const NEEDED: [&str; 2] = ["GitCommit", "GitPush"];
const LIMIT: Duration = Duration::from_mins(3);

/// Findings on uncommitted or unpushed work at the end of a run.
#[derive(Clone, Debug)]
pub(super) struct LeftoverNote {
    /// Text for the role, if there is something to know.
    pub note: Option<String>,
}

impl Agent {
    /// Commits and pushes leftover work, and keeps a note of it for the role.
    pub(super) async fn keep_leftovers(&mut self) -> Result<(), RunError> {
        if self.left.is_none() {
            // One remark: a later line with the system's head would be taken for somebody else's.
            let told = self.leftovers().await?;
            let note = told.map(|told| format!("[CodeButler] {}", join_lines(&told)));
            self.left = Some(LeftoverNote { note });
        }
        Ok(())
    }

    async fn leftovers(&mut self) -> Result<Option<String>, RunError> {
        let has = |tool: &&str| self.session.tools.iter().any(|own| own == tool);
        let stopped = self.transcript.state().run().is_some_and(|run| run.stopped);
        if stopped || !NEEDED.iter().all(has) {
            return Ok(None);
        }
        let message = format!("Work in progress by {}", self.session.role);
        let request = ToolboxRequest::Keep { message: message.clone() };
        let kept = match self.answered(request).await? {
            ToolboxReply::Leftover(leftover) => leftover,
            ToolboxReply::Refused(why) | ToolboxReply::Failed(why) => {
                return self.not_kept(false, &why, "").await;
            }
            other => {
                tracing::warn!(?other, request = "leftover", "toolbox_request_failed");
                return Ok(None);
            }
        };
        let WorktreeLeftover { committed, unpushed, left, notes, conflict } = kept;
        self.tell_of_left(&left).await?;
        let notes = (!notes.is_empty()).then(|| format!("{notes}."));
        if !unpushed {
            let left =
                (!left.is_empty()).then(|| format!("Your run ended with files {}", in_none(&left)));
            return Ok(join_notes(notes, left));
        }
        if !conflict.is_empty() {
            // Before the push: afterwards a successor finds nothing left that it could tell of.
            self.tell_of_conflict(&conflict).await?;
        }
        let commit = match self.answered(ToolboxRequest::Head).await? {
            ToolboxReply::Text(commit) => commit,
            _ => String::new(),
        };
        let deadline = RunDeadline::after(LIMIT, &self.tools.builds.waits);
        // A stop is handled by the successor; what is committed is not lost.
        let Ok(pushed) = self.bounded(&deadline, self.tools.push(&commit)).await else {
            return Ok(notes);
        };
        match pushed {
            Ok(PushResult::Conflict(why)) => {
                Ok(join_notes(notes, Some(not_pushed(committed, &why, &left))))
            }
            Ok(PushResult::Done(done)) => {
                let run = self.transcript.state().run().map(|run| run.id.clone());
                let what = if committed { &message } else { "commits of the run" };
                self.log.note(&run.unwrap_or_default(), LoggedKind::Visible, "GitPush", &[], what);
                for record in &done.records {
                    self.keep(record)?;
                }
                let mut told = Vec::new();
                if committed {
                    told.push(format!(
                        "Your run ended with changes that you had not committed: they were \
                         committed as `{message}` and pushed."
                    ));
                }
                told.extend(notes);
                if !conflict.is_empty() {
                    told.push(format!(
                        "What your run left holds both sides of a conflict in {conflict}: settle it first, \
                         unless these lines are meant to be there."
                    ));
                }
                if !left.is_empty() {
                    told.push(format!("Your run ended with files {}", in_none(&left)));
                }
                Ok((!told.is_empty()).then(|| told.join(" ")))
            }
            Err(ToolFailure::Respond(why) | ToolFailure::Fault(why) | ToolFailure::Stop(why)) => {
                // Takes our commit back: it must not keep what a push was refused for.
                self.tools.toolbox.ask(ToolboxRequest::TakeBack { message }).await?;
                Ok(join_notes(notes, self.not_kept(committed, &why, &left).await?))
            }
            Err(ToolFailure::Closed) => Err(RunError::Closed),
            Err(ToolFailure::Gateway(error)) => Err(RunError::Gateway(error)),
            Err(ToolFailure::Toolbox(error)) => Err(RunError::Toolbox(error)),
        }
    }

    /// Asks the toolbox; a timeout counts as a refusal.
    async fn answered(&self, request: ToolboxRequest) -> Result<ToolboxReply, RunError> {
        let asked = self.tools.toolbox.ask(request);
        match tokio::time::timeout(LIMIT, asked).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Ok(ToolboxReply::Refused("it takes too long".to_owned())),
        }
    }

    /// Tells people about files that are in no commit, once for the same files.
    async fn tell_of_left(&self, left: &str) -> Result<(), RunError> {
        if left.is_empty() {
            return Ok(());
        }
        let text = format!("Some files of this thread's worktree are {}", in_none(left));
        self.tell_once("left", &text).await
    }

    /// Tells people about a conflict that is to be pushed, once for the same file and line.
    async fn tell_of_conflict(&self, conflict: &str) -> Result<(), RunError> {
        let text = format!(
            "What my run left holds both sides of a conflict in {conflict}. It has to be settled before anything is merged, \
             unless these lines are meant to be there."
        );
        self.tell_once("conflict", &text).await
    }

    async fn not_kept(
        &self,
        committed: bool,
        why: &str,
        left: &str,
    ) -> Result<Option<String>, RunError> {
        let why = clip_text(why.trim().trim_end_matches('.'), 400);
        // A role whose own push was refused has reported that itself.
        let known = self.transcript.state().run().is_some_and(|run| run.tried_push);
        if committed || !known {
            let text = format!(
                "What I changed is not pushed: {why}. It stays in this thread's worktree, and I try again at \
                 the end of my next run."
            );
            self.tell_once("unpushed", &text).await?;
        }
        Ok(Some(not_pushed(committed, &why, left)))
    }
}

/// Puts repairs of the index before the other notes for the role: nothing repeats them later.
fn join_notes(notes: Option<String>, told: Option<String>) -> Option<String> {
    let all: Vec<String> = notes.into_iter().chain(told).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Text for the role about work that is not pushed.
fn not_pushed(committed: bool, why: &str, left: &str) -> String {
    let how = if committed { " You had not committed all of it: that is still so." } else { "" };
    let left =
        if left.is_empty() { String::new() } else { format!(" Some files are {}", in_none(left)) };
    format!("Your run ended with work that is not on the remote: {why}.{how}{left}")
}

fn in_none(left: &str) -> String {
    format!("in no commit: {left}. They lie in this thread's volume alone.")
}
