//! Errors of storing an event or a click of Slack.

use std::time::Duration;

use codebutler_gateway_core::threads::WriteError;

use crate::api::account::AccessError;

/// Longest wait of a decision for a post that is under way: Slack wants its answer within three seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Something was not taken in. It comes again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Slack failed when it had to be asked which Thread is meant.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A Repo that keeps what is unclear could not be written.
    #[error("the Repo can't be written")]
    Repo(#[from] kube::Error),
    #[error("Slack takes too long")]
    Slow,
    /// The Thread is being deleted, and its conversation is not told yet: what is said now begins it anew
    /// afterwards.
    #[error("the Thread `{0}` is being deleted")]
    Going(String),
    /// Somebody gave another Thread the name that belongs to this conversation.
    #[error("the Thread `{0}` is about another conversation")]
    NameTaken(String),
}
