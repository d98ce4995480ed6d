//! Apps whose workspace does not know a kind of block yet: their messages go without it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::account::SlackAccount;
use crate::api::web::CallError;

/// For so long an app is not tried again.
const REFUSED: Duration = Duration::from_hours(6);

/// Apps for which Slack takes no feedback buttons.
#[derive(Default)]
pub(crate) struct RefusedBlocks {
    apps: Mutex<HashMap<String, Instant>>,
}

/// True if Slack refuses a message because of its blocks.
pub(crate) fn refuses_blocks(error: &CallError) -> bool {
    // The last one is what Slack says of a table that it doesn't take.
    error.code().is_some_and(|code| {
        code.starts_with("invalid_blocks")
            || matches!(code, "msg_blocks_too_long" | "invalid_attachments")
    })
}

impl RefusedBlocks {
    pub(crate) fn has(&self, account: &SlackAccount) -> bool {
        let Some(user) = &account.user else { return false };
        self.apps.lock().get(user).is_some_and(|since| since.elapsed() < REFUSED)
    }

    /// The same message was taken without them: said once.
    pub(crate) fn note(&self, account: &SlackAccount) {
        let Some(user) = &account.user else { return };
        if self.apps.lock().insert(user.clone(), Instant::now()).is_none() {
            tracing::warn!("feedback_buttons_refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_apps_matter() {
        let refused = RefusedBlocks::default();
        let (own, other) = (SlackAccount::test("U0", "B0"), SlackAccount::test("U1", "B1"));
        refused.note(&own);
        assert!(refused.has(&own) && !refused.has(&other));
        let error = |code: &str| CallError::Refused {
            method: "chat.postMessage",
            code: code.to_owned(),
            needed: None,
            said: None,
        };
        assert!(refuses_blocks(&error("invalid_blocks")) && !refuses_blocks(&error("no_text")));
    }
}
