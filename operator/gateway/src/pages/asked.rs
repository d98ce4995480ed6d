//! Open questions as pages show them: read from Slack once in a few seconds, however many people look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use codebutler_runtime::recent::RecentMap;
use codebutler_slack::SlackGateway;
use codebutler_slack::page_reply::ShownQuestion;
use parking_lot::Mutex;

const FRESH: Duration = Duration::from_secs(10);
/// Threads whose questions are known.
const KNOWN: usize = 256;

type KnownQuestions = (Instant, Vec<codebutler_crds::SlackTs>, Arc<Vec<ShownQuestion>>);

/// Questions by thread. Cheap to clone.
#[derive(Clone)]
pub(super) struct AskedQuestions {
    known: Arc<Mutex<RecentMap<ThreadKey, KnownQuestions>>>,
    reading: Arc<KeyedLocks<ThreadKey>>,
}

impl Default for AskedQuestions {
    fn default() -> Self {
        Self { known: Arc::new(Mutex::new(RecentMap::new(KNOWN))), reading: Arc::default() }
    }
}

impl AskedQuestions {
    /// The open questions of a thread.
    ///
    /// # Errors
    /// When Slack can't be read.
    pub(super) async fn read(
        &self,
        slack: &SlackGateway,
        key: &ThreadKey,
    ) -> Result<Arc<Vec<ShownQuestion>>, ApiError> {
        let asked = slack.asked_messages(key);
        if asked.is_empty() {
            return Ok(Arc::default());
        }
        let _turn = self.reading.lock(key).await;
        let known = self.known.lock().get(key).cloned();
        if let Some((_, _, shown)) =
            known.filter(|(at, of, _)| at.elapsed() < FRESH && *of == asked)
        {
            return Ok(shown);
        }
        let shown = Arc::new(slack.open_questions(key, &asked).await?);
        self.known.lock().insert(key.clone(), (Instant::now(), asked, Arc::clone(&shown)));
        Ok(shown)
    }

    /// An answer was given: what is shown may be over.
    pub(super) fn forget(&self, key: &ThreadKey) {
        self.known.lock().remove(key);
    }
}
