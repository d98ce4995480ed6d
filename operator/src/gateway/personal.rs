//! Lines that one person of a thread sees, for services that know nothing of Slack.

use async_trait::async_trait;

use super::api_error::ApiError;
use super::thread_key::ThreadKey;

/// Finds the person to ask in a thread, and tells them what nobody else is to see.
#[async_trait]
pub trait PersonalNotices: Send + Sync {
    /// Slack user id of the person who asked last and may decide; else of one who may.
    async fn find_decider(&self, thread: &ThreadKey) -> Option<String>;

    /// Shows a line to one person alone, in the thread.
    ///
    /// # Errors
    /// A sentence for the log.
    async fn whisper(&self, thread: &ThreadKey, user: &str, text: &str) -> Result<(), ApiError>;
}
