//! Slack as a place for the gateway's own lines, for services that know only [`ThreadNotices`].

use async_trait::async_trait;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::notices::ThreadNotices;
use codebutler_gateway_core::thread_key::ThreadKey;

use crate::SlackGateway;

#[async_trait]
impl ThreadNotices for SlackGateway {
    async fn post_notice(&self, thread: &ThreadKey, key: &str, text: &str) -> Result<(), ApiError> {
        self.notice(thread, key, text).await.map(drop)
    }

    async fn post_to(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
        people: &[String],
    ) -> Result<(), ApiError> {
        self.notice_to(thread, key, text, people).await.map(drop)
    }

    async fn post_in_runs(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
    ) -> Result<(), ApiError> {
        let ts = self.notice(thread, key, text).await?;
        let raised = self.inner.threads.raise_running(thread, &ts).await;
        raised.map_err(|error| ApiError::new(ErrorCode::Unavailable, error.to_string()))
    }
}
