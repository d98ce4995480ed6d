//! Asks people whether to bring a thread's branch up to date.

use codebutler_crds::ThreadStatus;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::WriteError;

use crate::{SlackGateway, questions};

impl SlackGateway {
    /// Offers the people of a thread to bring its branch up to date; once per key.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn offer_update(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
    ) -> Result<(), ApiError> {
        super::ask_update(&self.inner, thread, key, text).await
    }

    /// Takes back an offer to update the branch that nobody needs any more.
    ///
    /// # Errors
    /// When the Thread can't be written.
    pub async fn end_update_offer(&self, thread: &ThreadKey) -> Result<(), WriteError> {
        let withdrawn = Some(questions::WITHDRAWN);
        let end = |status: &mut ThreadStatus| {
            questions::update::end_offer(status, withdrawn, None);
        };
        self.inner.threads.update(thread, end).await.map(drop)
    }
}
