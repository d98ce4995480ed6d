//! Slack as a place for the gateway's own lines, for services that know only [`ThreadNotices`].

use async_trait::async_trait;

use super::SlackGateway;
use crate::gateway::api_error::ApiError;
use crate::gateway::notices::ThreadNotices;
use crate::gateway::thread_key::ThreadKey;

#[async_trait]
impl ThreadNotices for SlackGateway {
    async fn post_notice(&self, thread: &ThreadKey, key: &str, text: &str) -> Result<(), ApiError> {
        self.notice(thread, key, text).await.map(drop)
    }
}
