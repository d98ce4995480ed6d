//! Messages in a conversation from which a roadmap is carried out: the question whether to, one that always
//! shows how it stands, and what somebody has to look at.

use codebutler_crds::thread::ApprovedItem;
use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_markdown::visible_text;
use serde_json::{Value, json};

use super::post_own;
use super::whole::{attach_whole, digest_of};
use crate::Inner;
use crate::outbound::post::{self, EMPTY, NOTICE, not_recorded, notice_id, post_line};
use crate::outbound::uploads;
use crate::people::mentions;
use crate::questions::blocks;
use crate::questions::roadmap::{self, BUTTONS};
use crate::text::markdown;

/// A question about a roadmap's items, and what a yes to it is recorded for.
pub struct ItemsQuestion {
    /// Text that is shown to people.
    pub text: String,
    /// Items that the text names.
    pub items: Vec<ApprovedItem>,
    /// True if there are other items, which are asked about after these.
    pub more: bool,
}

/// Asks whether items are to be built; a quick press waits until the question is recorded.
pub(crate) async fn ask_items(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    whole: &str,
    draft: impl Fn(Option<&str>) -> ItemsQuestion,
) -> Result<(), ApiError> {
    let _turn = inner.posting.lock(key).await;
    let (thread, repo) = inner.conversation(key)?;
    let redactor = masks::as_known(&inner.context, &repo).await;
    let whole = visible_text(&redactor.mask(whole));
    let file_key = [id, &digest_of(&whole)].concat();
    let name = uploads::file_name("roadmap", &thread, "", &file_key, (0, "md"));
    let file = attach_whole(inner, &repo, &thread, (name, whole)).await?;
    let ItemsQuestion { text, items, more } = draft(file.as_deref());
    let digest = Some(digest_of(&items));
    let sent = post_own(inner, key, id, (&text, &[]), ("roadmap", &BUTTONS), digest).await?;
    let asked = sent.last().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))?;
    let record = |status: &mut ThreadStatus| roadmap::record_items(status, asked, &items, more);
    let recorded = inner.threads.update(key, record).await;
    recorded.map(drop).map_err(|error| not_recorded(&error))
}

/// Says something to everybody whom the conversation concerns; once per key.
pub(crate) async fn alert_people(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
) -> Result<(), ApiError> {
    let _turn = inner.posting.lock(key).await;
    let (thread, repo) = inner.conversation(key)?;
    let tags: Vec<_> = mentions::concerned_people(&thread)
        .iter()
        .filter_map(|user| mentions::mention_user(user))
        .collect();
    let redactor = masks::as_known(&inner.context, &repo).await;
    let text = format!("{}\n{}", markdown::render_inline(&redactor.mask(text)), tags.join(" "));
    let outgoing = post::OutgoingText {
        repo: &repo,
        thread: &thread,
        slack: require_conversation(&thread)?,
        key: id,
        role: None,
        by: None,
        kind: NOTICE,
        asks: post::TextAsks::Nothing,
        digest: None,
        parts: vec![text.trim_end().to_owned()],
        note: None,
        tables: Vec::new(),
        handing: post::FileHanding::default(),
    };
    match post::post_once(inner, &outgoing).await {
        Ok(_) => Ok(()),
        Err(error) => Err(inner.failed(error, &repo).await),
    }
}

/// Has a message of CodeButler's own say this: posts it, or edits it in place.
pub(crate) async fn show_message(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
) -> Result<(), ApiError> {
    let (thread, repo) = inner.conversation(key)?;
    let slack = require_conversation(&thread)?;
    let redactor = masks::as_known(&inner.context, &repo).await;
    let rendered = markdown::render_inline(&redactor.mask(text));
    // An edit takes less than a post, and what is posted in parts can't be edited as one.
    let long = blocks::long_message(&rendered);
    let known = post::lookup_sent(inner, &repo, &thread, slack, &notice_id(id)).await;
    let known: Option<SlackTs> = match known {
        Ok(known) => known,
        Err(error) => return Err(inner.failed(error, &repo).await),
    };
    let Some(ts) = known else {
        return post_shown(inner, (&thread, &repo), id, (text, long.as_ref())).await;
    };
    let metadata = post::build_metadata(&thread, "", id, NOTICE, 1);
    let mut body =
        json!({"channel": slack.channel, "ts": ts, "text": rendered, "metadata": metadata});
    if let Some((text, blocks)) = &long {
        (body["text"], body["blocks"]) = (json!(text), blocks.clone());
    }
    let account = match inner.account(&repo).await {
        Ok(account) => account,
        Err(error) => return Err(inner.failed(error, &repo).await),
    };
    match inner.web.post::<Value>(&account.bot, "chat.update", &body).await {
        // Somebody deleted the message: it is not posted a second time.
        Err(error) if error.code() == Some("message_not_found") => Ok(()),
        Err(error) if error.closes_edits() => {
            // It would say for good what is over; where it can't be deleted either, the new one stands below it.
            let old = json!({"channel": slack.channel, "ts": ts});
            let _ = inner.web.post::<Value>(&account.bot, "chat.delete", &old).await;
            inner.sent.remove(key, &notice_id(id));
            post_shown(inner, (&thread, &repo), id, (text, long.as_ref())).await
        }
        Err(error) => Err(inner.failed(error, &repo).await),
        Ok(_) => Ok(()),
    }
}

/// Posts what one message is to show. `long`: its form where it is long.
async fn post_shown(
    inner: &Inner,
    (thread, repo): (&Thread, &Repo),
    id: &str,
    (text, long): (&str, Option<&(String, Value)>),
) -> Result<(), ApiError> {
    match long {
        Some(long) => post_long(inner, (thread, repo), id, long).await,
        None => post_line(inner, &ThreadKey::from(thread), id, text, &[]).await.map(drop),
    }
}

/// Posts a long text as one message.
async fn post_long(
    inner: &Inner,
    (thread, repo): (&Thread, &Repo),
    id: &str,
    (text, blocks): &(String, Value),
) -> Result<(), ApiError> {
    let outgoing = post::OutgoingText {
        repo,
        thread,
        slack: require_conversation(thread)?,
        key: id,
        role: None,
        by: None,
        kind: NOTICE,
        asks: post::TextAsks::Blocks(blocks),
        digest: None,
        parts: vec![text.clone()],
        note: None,
        tables: Vec::new(),
        handing: post::FileHanding::default(),
    };
    let key = &ThreadKey::from(thread);
    let _turn = inner.posting.lock(key).await;
    match post::post_once(inner, &outgoing).await {
        Ok(_) => Ok(()),
        Err(error) => Err(inner.failed(error, repo).await),
    }
}
