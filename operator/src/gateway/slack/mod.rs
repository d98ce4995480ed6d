//! Slack: the only part that talks to it. Messages and clicks come in over Socket Mode, become
//! marks on Threads and are acknowledged; roles read and post through the Web API.

pub mod metrics;
pub mod usage;

use std::time::Duration;

use codebutler_crds::SlackTs;
use codebutler_crds::wire::{ErrorCode, Inbox, PostMessage, Posted};
use tokio_util::sync::CancellationToken;
use url::Url;

pub use self::metrics::Metrics;
use super::context::{ApiError, Caller, Context, ThreadKey};
use super::threads::Threads;

/// Slack in and out. Cheap to clone.
#[derive(Clone)]
pub struct Slack {}

/// Why Slack can't be used at all.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No TLS client could be built.
    #[error("no TLS client for Slack")]
    Tls(#[source] std::io::Error),
}

impl Slack {
    /// `api_url` is the base of the Web API, such as `https://slack.com/api`.
    ///
    /// # Errors
    /// When no HTTP client can be built.
    pub fn new(
        _context: Context,
        _threads: Threads,
        _api_url: &Url,
        _metrics: Metrics,
    ) -> Result<Self, SetupError> {
        Ok(Self {})
    }

    /// Holds the sockets of all Repos and catches up, until told to stop.
    ///
    /// # Errors
    /// When a part of it ended that never should.
    pub async fn run(&self, shutdown: CancellationToken) -> anyhow::Result<()> {
        shutdown.cancelled().await;
        Ok(())
    }

    /// Posts a role's message under its own name; the same key posts once. `closing_head` is the
    /// pull request's head commit, for `decision: merge`.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn post(
        &self,
        _caller: &Caller,
        _message: &PostMessage,
        _closing_head: Option<String>,
    ) -> Result<Posted, ApiError> {
        Err(ApiError::new(ErrorCode::Unavailable, "not connected"))
    }

    /// What waits for a role, after at most `wait`.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn inbox(
        &self,
        _caller: &Caller,
        _after: Option<&SlackTs>,
        _wait: Duration,
    ) -> Result<Inbox, ApiError> {
        Err(ApiError::new(ErrorCode::Unavailable, "not connected"))
    }

    /// Posts a line of CodeButler itself; the same key posts once.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn notice(
        &self,
        _thread: &ThreadKey,
        _key: &str,
        _text: &str,
    ) -> Result<SlackTs, ApiError> {
        Err(ApiError::new(ErrorCode::Unavailable, "not connected"))
    }
}
