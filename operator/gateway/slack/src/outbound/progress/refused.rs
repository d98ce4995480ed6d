//! Methods that Slack lets an app not use at all. Each is not asked for again for a while, and the Repo says it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::account::SlackAccount;

/// Time before a refused app is tried again.
const REFUSED: Duration = Duration::from_hours(1);

/// Apps to which Slack refuses one method, with its code or a sentence about it.
#[derive(Default)]
pub(super) struct AppRefusals(Mutex<HashMap<String, (Instant, String)>>);

impl AppRefusals {
    /// The refusal that still counts.
    pub(super) fn current(&self, account: &SlackAccount) -> Option<String> {
        let apps = self.0.lock();
        let (since, why) = apps.get(account.user.as_deref()?)?;
        (since.elapsed() < REFUSED).then(|| why.clone())
    }

    /// Remembers one; true if it is news.
    pub(super) fn note(&self, account: &SlackAccount, why: &str) -> bool {
        let Some(user) = &account.user else { return false };
        let is_news = self.current(account).is_none();
        self.0.lock().insert(user.clone(), (Instant::now(), why.to_owned()));
        is_news
    }
}
