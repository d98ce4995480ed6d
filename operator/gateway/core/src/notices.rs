//! Lines that CodeButler itself posts in a thread, for services that know nothing of Slack.

use async_trait::async_trait;
use codebutler_crds::Repo;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};

use crate::api_error::ApiError;
use crate::thread_key::ThreadKey;

/// Posts CodeButler's own lines in threads.
#[async_trait]
pub trait ThreadNotices: Send + Sync {
    /// Posts a line of CodeButler itself; the same key posts once.
    ///
    /// # Errors
    /// A sentence for the log.
    async fn post_notice(&self, thread: &ThreadKey, key: &str, text: &str) -> Result<(), ApiError>;

    /// Posts a line that also notifies those of `people` (Slack's ids) whom it mentions. Words of
    /// others in it notify nobody else.
    ///
    /// # Errors
    /// A sentence for the log.
    async fn post_to(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
        people: &[String],
    ) -> Result<(), ApiError>;

    /// The first again, and roles that are at work read it before their next step. It wakes nobody.
    ///
    /// # Errors
    /// A sentence for the log.
    async fn post_in_runs(&self, thread: &ThreadKey, key: &str, text: &str)
    -> Result<(), ApiError>;
}

/// Posts what keeps a thread from working: once for each problem and generation of the Repo.
pub async fn report_problem(
    notices: &dyn ThreadNotices,
    repo: &Repo,
    thread: &ThreadKey,
    error: &str,
) {
    let problem = hex::encode(&Sha256::digest(error)[..4]);
    let key = format!("repo-{}-{problem}", repo.metadata.generation.unwrap_or_default());
    let text = format!(
        "I can't work in this repository: {error}. I go on by myself once that is right (Repo `{}`).",
        repo.name_any()
    );
    if let Err(error) = notices.post_notice(thread, &key, &text).await {
        tracing::warn!(%error, thread = thread.name, notice = "repo_trouble", "notice_post_failed");
    }
}
