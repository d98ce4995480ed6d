//! Address of a Thread's conversation, and the check that it still is there.

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{Repo, Thread};

use crate::SlackGateway;
use crate::api::conversation_pages;
use crate::api::web::CallError;

impl SlackGateway {
    /// True if nobody can say anything in the conversation any more: its first message was deleted, or its
    /// channel archived. False where Slack can't be asked.
    pub async fn is_gone(&self, repo: &Repo, thread: &Thread) -> bool {
        let Some(place) = thread.conversation() else { return false };
        let Ok(account) = self.inner.account(repo).await else { return false };
        let (web, token) = (&self.inner.web, &account.bot);
        let first =
            conversation_pages::read_message(web, token, &place.channel, &place.ts, &place.ts)
                .await;
        if first.as_ref().err().and_then(CallError::code) == Some("thread_not_found") {
            return true;
        }
        // An archived channel may be read on, or the app is taken out of it: reading does not say.
        matches!(conversation_pages::is_archived(web, token, &place.channel).await, Ok(true))
    }

    /// Permalink of the conversation; `None` if Slack does not give one.
    pub async fn permalink(&self, repo: &Repo, thread: &Thread) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Place {
            permalink: String,
        }
        let SlackThread { channel, ts } = thread.conversation()?;
        let account = self.inner.account(repo).await.ok()?;
        let params = [("channel", channel.as_str()), ("message_ts", ts.as_str())];
        let place = self.inner.web.get::<Place>(&account.bot, "chat.getPermalink", &params).await;
        place.ok().map(|place| place.permalink)
    }
}
