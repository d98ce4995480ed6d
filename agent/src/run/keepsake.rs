//! The snapshot before a call that could throw work away, and what the model is told of it.

use std::time::Duration;

use super::{Agent, RunError};
use crate::toolbox::client::ToolboxError;
use crate::toolbox::protocol::{KeptSnapshot, ToolboxReply, ToolboxRequest};
use crate::tools::ToolFailure;
use codebutler_guides::policy::RiskVerdict;

/// Timeout; another role may hold the repository.
const PATIENCE: Duration = Duration::from_mins(2);

impl Agent {
    /// Keeps the worktree if the call could lose any of it.
    pub(super) async fn keep_work(
        &self,
        verdict: &RiskVerdict,
    ) -> Result<KeepOutcome, ToolFailure> {
        if !verdict.loses && !verdict.overwrites {
            return Ok(KeepOutcome::Unneeded);
        }
        let asked = self.tools.toolbox.ask(ToolboxRequest::Snapshot);
        let kept = tokio::time::timeout(PATIENCE, asked).await;
        if !verdict.loses {
            // Commands that write a file are common, and most of these files are new: nobody is asked about them, and
            // no result begins with a note.
            return Ok(KeepOutcome::Unneeded);
        }
        Ok(match kept {
            Ok(Ok(ToolboxReply::Kept(kept))) => {
                self.tell_of_unkept(&kept).await?;
                KeepOutcome::Kept(kept_note(&kept))
            }
            Ok(Ok(ToolboxReply::Refused(why) | ToolboxReply::Failed(why))) => {
                KeepOutcome::Impossible(why)
            }
            Ok(Ok(other)) => KeepOutcome::Impossible(format!("a strange answer: {other:?}")),
            Ok(Err(ToolboxError::TooLarge)) => {
                KeepOutcome::Impossible("it is too large".to_owned())
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => KeepOutcome::Impossible("it takes too long".to_owned()),
        })
    }

    /// People hear of files that could get lost, once for the same ones.
    async fn tell_of_unkept(&self, kept: &KeptSnapshot) -> Result<(), ToolFailure> {
        if kept.at_risk.is_empty() {
            return Ok(());
        }
        let text = format!(
            "I run a command that may remove files, and the snapshot that I keep before such commands lacks some: {}.",
            kept.at_risk.join("; ")
        );
        self.tell_once("unkept", &text).await.map_err(|error| match error {
            RunError::Closed => ToolFailure::Closed,
            RunError::Gateway(error) => ToolFailure::Gateway(error),
            other => ToolFailure::Fault(other.to_string()),
        })
    }
}

/// Outcome of keeping the worktree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeepOutcome {
    /// Nothing can be lost.
    Unneeded,
    /// It is kept; what the model is told.
    Kept(String),
    /// It can't be: people are asked.
    Impossible(String),
}

impl KeepOutcome {
    pub(super) fn note(self) -> Option<String> {
        match self {
            Self::Kept(note) => Some(note),
            Self::Unneeded | Self::Impossible(_) => None,
        }
    }
}

/// After a crash: which one it was is not known here, but it is the newest.
pub(super) fn note_after_crash(verdict: &RiskVerdict) -> Option<String> {
    let text = "Before this, the worktree was kept: the newest of `git for-each-ref --sort=-v:refname \
                refs/codebutler/snap` has it.";
    verdict.loses.then(|| text.to_owned())
}

fn kept_note(KeptSnapshot { name, left_out, .. }: &KeptSnapshot) -> String {
    let mut out = format!(
        "Before this, all files but ignored folders were kept in {name}. `git restore --source={name} -- PATH` brings back a \
         path (`.`: all), `git diff {name}` shows what differs."
    );
    if !left_out.is_empty() {
        out.push_str(" Not kept: ");
        out.push_str(&left_out.join("; "));
        out.push('.');
    }
    out
}
