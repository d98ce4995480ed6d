//! Address of a Thread's conversation, and the check that it still is there.

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{Repo, Thread};

use crate::SlackGateway;
use crate::api::conversation_pages;
use crate::api::web::CallError;

impl SlackGateway {
    /// True if the conversation's first message was deleted, so that nobody can say anything in it any more. False where
    /// Slack can't be asked.
    pub async fn is_deleted(&self, repo: &Repo, thread: &Thread) -> bool {
        let Some(place) = thread.conversation() else { return false };
        let Ok(account) = self.inner.account(repo).await else { return false };
        let (web, SlackThread { channel, ts }) = (&self.inner.web, place);
        let first = conversation_pages::read_message(web, &account.bot, channel, ts, ts).await;
        first.as_ref().err().and_then(CallError::code) == Some("thread_not_found")
    }

    /// True if nobody can say anything in the conversation: it was deleted, or its channel is archived, which somebody
    /// may take back. False where Slack can't be asked.
    pub async fn is_gone(&self, repo: &Repo, thread: &Thread) -> bool {
        if self.is_deleted(repo, thread).await {
            return true;
        }
        let Some(place) = thread.conversation() else { return false };
        let Ok(account) = self.inner.account(repo).await else { return false };
        // Reading does not say it.
        let is_archived =
            conversation_pages::is_archived(&self.inner.web, &account.bot, &place.channel).await;
        matches!(is_archived, Ok(true))
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
