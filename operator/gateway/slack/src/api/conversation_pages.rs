//! Reading conversations back from Slack, page by page.

use codebutler_crds::SlackTs;
use serde::Deserialize;
use serde_json::Value;

use crate::api::lenient::UnreadFields;
use crate::api::stored_message::StoredMessage;
use crate::api::web::{CallError, SlackToken, SlackWeb};

/// Messages per page, and limit of pages: a guard against an endless cursor.
const PAGE: &str = "200";
const PAGES: usize = 100;

#[derive(Deserialize)]
struct HistoryPage {
    #[serde(default)]
    messages: Vec<Value>,
    #[serde(default)]
    response_metadata: Option<HistoryCursor>,
}

#[derive(Deserialize)]
struct HistoryCursor {
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Reads the messages of a conversation after `after` (all if `None`), oldest first; the first message only
/// where it is after `after`. With everybody's metadata.
pub(crate) async fn read_replies(
    web: &SlackWeb,
    token: &SlackToken,
    channel: &str,
    root: &SlackTs,
    after: Option<&SlackTs>,
) -> Result<Vec<StoredMessage>, CallError> {
    let mut params = vec![("channel", channel), ("ts", root.as_str())];
    params.extend(after.map(|after| ("oldest", after.as_str())));
    read_pages(web, token, "conversations.replies", &params, after).await
}

/// Reads the messages of a channel after `after`, oldest first, without replies.
pub(crate) async fn read_channel(
    web: &SlackWeb,
    token: &SlackToken,
    channel: &str,
    after: &SlackTs,
) -> Result<Vec<StoredMessage>, CallError> {
    let params = [("channel", channel), ("oldest", after.as_str())];
    read_pages(web, token, "conversations.history", &params, Some(after)).await
}

/// Reads one message of a channel, to find out if it can be read at all.
pub(crate) async fn probe_channel(
    web: &SlackWeb,
    token: &SlackToken,
    channel: &str,
) -> Result<(), CallError> {
    let params = [("channel", channel), ("limit", "1")];
    let _: Value = web.get(token, "conversations.history", &params).await?;
    Ok(())
}

/// Asks Slack if a channel was archived.
pub(crate) async fn is_archived(
    web: &SlackWeb,
    token: &SlackToken,
    channel: &str,
) -> Result<bool, CallError> {
    let about: Value = web.get(token, "conversations.info", &[("channel", channel)]).await?;
    Ok(about["channel"]["is_archived"] == true)
}

/// Reads one message of a conversation; `None` if it is not there.
pub(crate) async fn read_message(
    web: &SlackWeb,
    token: &SlackToken,
    channel: &str,
    root: &SlackTs,
    ts: &SlackTs,
) -> Result<Option<StoredMessage>, CallError> {
    let (from, to) = (("oldest", ts.as_str()), ("latest", ts.as_str()));
    let params = [("channel", channel), ("ts", root.as_str()), from, to, ("inclusive", "true")];
    let found = read_pages(web, token, "conversations.replies", &params, None).await?;
    Ok(found.into_iter().find(|message| message.ts == *ts))
}

async fn read_pages(
    web: &SlackWeb,
    token: &SlackToken,
    method: &'static str,
    params: &[(&str, &str)],
    after: Option<&SlackTs>,
) -> Result<Vec<StoredMessage>, CallError> {
    let mut found: Vec<StoredMessage> = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES {
        let mut params = params.to_vec();
        params.extend([("limit", PAGE), ("include_all_metadata", "true")]);
        params.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page: HistoryPage = web.get(token, method, &params).await?;
        // One message that can't be read must not hide the others.
        let mut unread = UnreadFields::default();
        let read = page.messages.iter();
        found.extend(read.filter_map(|value| StoredMessage::read(value, "message", &mut unread)));
        web.metrics().unread(unread.iter());
        cursor = page.response_metadata.and_then(|next| next.next_cursor);
        if cursor.as_deref().is_none_or(str::is_empty) {
            break;
        }
    }
    found.retain(|message| after.is_none_or(|after| message.ts > *after));
    found.sort_by(|a, b| a.ts.cmp(&b.ts));
    // The first message of a conversation is on every page.
    found.dedup_by(|a, b| a.ts == b.ts);
    Ok(found)
}
