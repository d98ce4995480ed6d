//! Asks people whether to build a request in parts, and what becomes of a half of it.

use codebutler_crds::SlackTs;
use codebutler_crds::thread::RequestSplit;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::thread_key::ThreadKey;

use super::post_own;
use super::whole::digest_of;
use crate::SlackGateway;
use crate::outbound::post::{EMPTY, not_recorded};
use crate::questions::parts::{self, BUTTONS, HALF_BUTTONS};

impl SlackGateway {
    /// Asks the people of a thread whether it is built in these parts; once per key. Returns the message that
    /// asks.
    ///
    /// # Errors
    /// A sentence for who proposed it.
    pub async fn ask_split(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
        split: &RequestSplit,
    ) -> Result<SlackTs, ApiError> {
        let inner = &self.inner;
        let _turn = inner.posting.lock(thread).await;
        let digest = Some(digest_of(&split.parts));
        let sent = post_own(inner, thread, key, (text, &[]), ("split", &BUTTONS), digest).await?;
        let asked = sent.last().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))?;
        let split = RequestSplit { asked: asked.clone(), ..split.clone() };
        let recorded =
            inner.threads.update(thread, |status| parts::record_split(status, &split)).await;
        recorded.map_err(|error| not_recorded(&error))?;
        Ok(asked.clone())
    }

    /// Asks what becomes of a part that was merged while its other half was not; once per key.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn ask_undo(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
        part: u32,
    ) -> Result<(), ApiError> {
        let inner = &self.inner;
        let _turn = inner.posting.lock(thread).await;
        let sent = post_own(inner, thread, key, (text, &[]), ("half", &HALF_BUTTONS), None).await?;
        let asked = sent.last().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))?;
        let record = |status: &mut _| parts::record_half(status, part, asked);
        let recorded = inner.threads.update(thread, record).await;
        recorded.map(drop).map_err(|error| not_recorded(&error))
    }
}
