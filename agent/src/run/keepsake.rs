//! The snapshot before a call that could throw work away, and what the model is told of it.

use std::time::Duration;

use super::Agent;
use crate::toolbox::client::ToolboxError;
use crate::toolbox::protocol::{Kept, Reply, Request};
use crate::tools::{Done, Failure};
use codebutler_guides::policy::Verdict;

/// How long it may take; another role may hold the repository.
const PATIENCE: Duration = Duration::from_mins(2);

impl Agent {
    /// Keeps the worktree if the call could lose any of it.
    pub(super) async fn keep_work(&self, verdict: &Verdict) -> Result<Keeping, Failure> {
        if !verdict.loses {
            return Ok(Keeping::Unneeded);
        }
        let asked = self.tools.toolbox.ask(Request::Snapshot);
        Ok(match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(Reply::Kept(kept))) => Keeping::Kept(kept_note(&kept)),
            Ok(Ok(Reply::Refused(why) | Reply::Failed(why))) => Keeping::Impossible(why),
            Ok(Ok(other)) => Keeping::Impossible(format!("a strange answer: {other:?}")),
            Ok(Err(ToolboxError::TooLarge)) => Keeping::Impossible("it is too large".to_owned()),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => Keeping::Impossible("it takes too long".to_owned()),
        })
    }
}

/// What came of keeping the worktree.
#[derive(Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing can be lost.
    Unneeded,
    /// It is kept; what the model is told.
    Kept(String),
    /// It can't be: people are asked.
    Impossible(String),
}

impl Keeping {
    pub fn note(self) -> Option<String> {
        match self {
            Self::Kept(note) => Some(note),
            Self::Unneeded | Self::Impossible(_) => None,
        }
    }
}

/// After a crash: which one it was is not known here, but it is the newest.
pub fn note_after_crash(verdict: &Verdict) -> Option<String> {
    let text = "[CodeButler] Before this, the worktree was kept: the newest of `git for-each-ref --sort=-v:refname \
                refs/codebutler/snap` has it.";
    verdict.loses.then(|| text.to_owned())
}

/// A result with the note in front.
pub fn with_note(note: Option<&str>, done: Done) -> Done {
    match note {
        Some(note) => Done { text: format!("{note}\n{}", done.text), ..done },
        None => done,
    }
}

fn kept_note(Kept { name, left_out }: &Kept) -> String {
    let mut out = format!(
        "[CodeButler] Before this, all files but ignored folders were kept in {name}. `git restore --source={name} -- PATH` brings back a \
         path (`.`: all), `git diff {name}` shows what differs."
    );
    if !left_out.is_empty() {
        out.push_str(" Too large for it, so not kept: ");
        out.push_str(&left_out.join(", "));
        out.push('.');
    }
    out
}
