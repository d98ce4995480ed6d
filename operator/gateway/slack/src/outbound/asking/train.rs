//! Asks people whether to merge several pull requests, one behind the other.

use codebutler_crds::thread::TrainCar;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::thread_key::ThreadKey;

use super::post_own;
use super::whole::digest_of;
use crate::SlackGateway;
use crate::outbound::post::{EMPTY, not_recorded};
use crate::questions::train::{self, BUTTONS};

impl SlackGateway {
    /// Asks the people of a thread whether these are merged; once per key. A quick press waits until the
    /// question is recorded.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn ask_train(
        &self,
        thread: &ThreadKey,
        key: &str,
        text: &str,
        cars: &[TrainCar],
    ) -> Result<(), ApiError> {
        let inner = &self.inner;
        let _turn = inner.posting.lock(thread).await;
        let digest = Some(digest_of(cars));
        let sent = post_own(inner, thread, key, (text, &[]), ("train", &BUTTONS), digest).await?;
        let asked = sent.last().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))?;
        let recorded =
            inner.threads.update(thread, |status| train::record_cars(status, asked, cars)).await;
        recorded.map(drop).map_err(|error| not_recorded(&error))
    }
}
