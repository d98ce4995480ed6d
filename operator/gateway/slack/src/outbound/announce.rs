//! Announcements in a channel, at top level and outside of any conversation. Slack has no key for such a post:
//! who may have said it before looks in the channel first.

use codebutler_crds::Repo;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::masks;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::api::account::AccessError;
use crate::api::clock;
use crate::api::conversation_pages;
use crate::questions::QuestionButton;
use crate::questions::blocks;
use crate::text::markdown;
use crate::{EVENT_TYPE, Inner, SlackGateway, own_metadata};

/// `kind` in the metadata of announcements.
const KIND: &str = "announcement";
/// Slack's clock and the cluster's may differ by this many seconds.
const SKEW: i64 = 60;

impl SlackGateway {
    /// Posts an announcement in a Repo's channel, at top level, once per key. `before`: since when it may have
    /// been posted already, if so.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn announce(
        &self,
        repo: &Repo,
        key: &str,
        text: &str,
        before: Option<Timestamp>,
    ) -> Result<(), ApiError> {
        self.announce_with(repo, key, (text, &[]), before).await
    }

    /// Posts an announcement with buttons under it, once per key.
    pub(crate) async fn announce_with(
        &self,
        repo: &Repo,
        key: &str,
        said: (&str, &[QuestionButton]),
        before: Option<Timestamp>,
    ) -> Result<(), ApiError> {
        match announce_text(&self.inner, repo, key, said, before).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.inner.failed(error, repo).await),
        }
    }
}

async fn announce_text(
    inner: &Inner,
    repo: &Repo,
    key: &str,
    (text, buttons): (&str, &[QuestionButton]),
    before: Option<Timestamp>,
) -> Result<(), AccessError> {
    let Some(channel) = repo.channel() else { return Ok(()) };
    let account = inner.account(repo).await?;
    if let Some(before) = before {
        let after = clock::make_timestamp(before.as_second() - SKEW, 0);
        let messages =
            conversation_pages::read_channel(&inner.web, &account.bot, channel, &after).await?;
        let is_it = |payload: &Value| {
            payload["kind"] == KIND && payload["key"] == key && payload["uid"] == json!(repo.uid())
        };
        let own = messages.iter().filter(|message| account.wrote(message));
        let said = own.filter_map(|message| own_metadata(message.metadata.as_ref())).any(is_it);
        if said {
            return Ok(());
        }
    }
    let redactor = masks::as_known(&inner.context, repo).await;
    let text = markdown::render_inline(&redactor.mask(text));
    let mut body = json!({
        "channel": channel,
        "text": text,
        "unfurl_links": false,
        "unfurl_media": false,
        "metadata": {"event_type": EVENT_TYPE, "event_payload": {
            "kind": KIND, "key": key, "repo": repo.name_any(), "uid": repo.uid(),
        }},
    });
    if !buttons.is_empty() {
        body["blocks"] = blocks::question_blocks(&text, KIND, buttons, key);
    }
    inner.web.post::<Value>(&account.bot, "chat.postMessage", &body).await?;
    Ok(())
}
