//! Reasons why a conversation can't be opened yet, or not be told yet that its Thread is deleted.

use codebutler_gateway_core::threads::WriteError;

use crate::api::account::AccessError;
use crate::api::web::CallError;

/// A conversation can't be opened, or a Thread's deletion not be told, yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaterError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the Repo can't be written")]
    Repo(#[from] kube::Error),
    /// It waits for something outside, as the Thread's condition says.
    #[error("it waits: {0}")]
    Waits(&'static str),
    /// Another replica is doing it.
    #[error("another replica is at it")]
    Claimed,
    #[error("Slack takes too long")]
    Slow,
}

impl From<CallError> for LaterError {
    fn from(error: CallError) -> Self {
        Self::Access(error.into())
    }
}
