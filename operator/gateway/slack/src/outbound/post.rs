//! Posting, once per key: what is in Slack already is found by the key in its metadata before
//! anything is posted again, also by a process that did not post it.

mod handing;
mod identity;
mod outgoing;
mod sent;
mod streamed;

use std::collections::BTreeMap;
use std::time::Duration;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::WriteError;
use codebutler_runtime::metrics::repo_label;
use sent::find_sent;
use serde::Deserialize;
use tracing::Instrument as _;

use crate::api::account::{AccessError, SlackAccount};
use crate::api::attribution::FEEDBACK_KIND;
use crate::api::stored_message::StoredMessage;
use crate::api::web::CallError;
use crate::outbound::refused_blocks::refuses_blocks;
use crate::outbound::uploads;
use crate::outbound::uploads::FileAttachment;
use crate::people::mentions;
use crate::text::markdown::{self};
use crate::text::split_text::split_text;
use crate::{Inner, own_metadata};
pub(crate) use handing::{FileHanding, read_addressed};
pub(crate) use identity::{MessageIdentity, speaks_of};
pub(crate) use outgoing::{OutgoingText, TextAsks, build_metadata};
pub(crate) use sent::{SentKeys, SentPart, lookup_sent};
pub(crate) use streamed::{run_key, shows_run, task_id};

/// Slack recommends at most 4,000 characters in a message.
pub(crate) const LIMIT: usize = 3900;
/// Told to a role that says nothing.
pub(crate) const EMPTY: &str = "the text is empty: say something";
/// `kind` of a message that shows a run: no role reads it.
pub(crate) const PROGRESS: &str = "progress";
/// `kind` of a line of CodeButler itself.
pub(crate) const NOTICE: &str = "notice";
const POST: &str = "chat.postMessage";
/// Times that a post with unknown outcome is looked for and repeated.
const ATTEMPTS: u32 = 4;

/// The key of a notice that is mail for a role.
pub(crate) fn key_for(role: &str, key: &str) -> String {
    format!("to:{role}:{key}")
}

/// By which a line of CodeButler itself is found.
pub(crate) fn notice_id(key: &str) -> MessageIdentity {
    MessageIdentity::of("", NOTICE, key)
}

/// Kind of a message of our own, from its metadata.
fn own_kind(stored: &StoredMessage) -> Option<&str> {
    own_metadata(stored.metadata.as_ref())?["kind"].as_str()
}

/// Posts a line of CodeButler itself. It calls `people` where it mentions them, and nobody else.
pub(crate) async fn post_line(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
    people: &[String],
) -> Result<SlackTs, ApiError> {
    let (thread, repo) = inner.conversation(key)?;
    let slack = require_conversation(&thread)?;
    post_notice(inner, &repo, (&thread, slack), id, (text, people)).await
}

/// The same, where it is known already what is meant.
pub(crate) async fn post_notice(
    inner: &Inner,
    repo: &Repo,
    (thread, slack): (&Thread, &SlackThread),
    id: &str,
    (text, people): (&str, &[String]),
) -> Result<SlackTs, ApiError> {
    let redactor = masks::as_known(&inner.context, repo).await;
    let rendered = markdown::render_inline(&redactor.mask(text));
    let outgoing = OutgoingText {
        repo,
        thread,
        slack,
        key: id,
        role: None,
        by: None,
        kind: NOTICE,
        asks: TextAsks::Nothing,
        digest: None,
        parts: split_text(&mentions::restore_mentions(&rendered, people), LIMIT),
        note: None,
        tables: Vec::new(),
        handing: FileHanding::default(),
    };
    let key = &ThreadKey::from(thread);
    let _turn = inner.posting.lock(key).await;
    match post_once(inner, &outgoing).await {
        Ok(sent) => {
            sent.into_iter().next().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))
        }
        Err(error) => Err(inner.failed(error, repo).await),
    }
}

/// Uploads the files that are not in the thread yet; Slack's ids of all, in their order. The caller holds the thread's turn to post.
pub(crate) async fn attach_files(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    files: Vec<FileAttachment>,
) -> Result<Vec<String>, AccessError> {
    let Some(slack) = thread.conversation().filter(|_| !files.is_empty()) else {
        return Ok(Vec::new());
    };
    let (account, key) = (inner.account(repo).await?, ThreadKey::from(thread));
    let mut ids = Vec::new();
    for file in files {
        let id = MessageIdentity::file(&file.name);
        if let Some(sent) = find_sent(inner, &account, thread, slack, &id).await? {
            ids.push(sent.file.unwrap_or_default());
            continue;
        }
        let under_way = inner.sent.begin(&key);
        let uploaded = match uploads::upload_file(inner, &account, slack, &file).await {
            Ok(uploaded) => uploaded,
            Err(error) => {
                under_way.fail_on_the_way(&error);
                return Err(error.into());
            }
        };
        inner.sent.add(&key, id, SentPart::file(slack.ts.clone(), uploaded.clone()));
        under_way.end();
        ids.push(uploaded);
    }
    Ok(ids)
}

/// The same for files of one message, which says something.
pub(crate) async fn attach_together(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    (files, words): (Vec<FileAttachment>, &str),
) -> Result<Vec<String>, AccessError> {
    let Some(slack) = thread.conversation() else { return Ok(Vec::new()) };
    let (account, key) = (inner.account(repo).await?, ThreadKey::from(thread));
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for file in &files {
        let id = MessageIdentity::file(&file.name);
        if let Some(sent) = find_sent(inner, &account, thread, slack, &id).await? {
            ids.insert(file.name.clone(), sent.file.unwrap_or_default());
        }
    }
    let order: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    let missing: Vec<_> = files.into_iter().filter(|file| !ids.contains_key(&file.name)).collect();
    if !missing.is_empty() {
        let under_way = inner.sent.begin(&key);
        let sent = uploads::upload_together(inner, &account, slack, (&missing, Some(words))).await;
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => {
                under_way.fail_on_the_way(&error);
                return Err(error.into());
            }
        };
        for (file, id) in missing.iter().zip(sent) {
            let part = SentPart::file(slack.ts.clone(), id.clone());
            inner.sent.add(&key, MessageIdentity::file(&file.name), part);
            ids.insert(file.name.clone(), id);
        }
        under_way.end();
    }
    Ok(order.iter().filter_map(|name| ids.remove(name)).collect())
}

/// Slack's id of a file of ours, if it is in the thread.
pub(crate) async fn find_file(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    name: &str,
) -> Result<Option<String>, AccessError> {
    let Some(slack) = thread.conversation() else { return Ok(None) };
    let account = inner.account(repo).await?;
    let sent = find_sent(inner, &account, thread, slack, &MessageIdentity::file(name)).await?;
    Ok(sent.and_then(|sent| sent.file).filter(|id| !id.is_empty()))
}

pub(crate) fn not_recorded(error: &WriteError) -> ApiError {
    tracing::warn!(%error, "post_record_failed");
    ApiError::new(ErrorCode::Unavailable, "posted, but not recorded yet: send it again")
}

/// Posts the parts that are not in Slack yet; answers the `ts` of all. The caller holds the
/// thread's turn to post.
pub(crate) async fn post_once(
    inner: &Inner,
    outgoing: &OutgoingText<'_>,
) -> Result<Vec<SlackTs>, AccessError> {
    let sent = once_in_parts(inner, outgoing).await?;
    Ok(sent.into_iter().map(|part| part.ts).collect())
}

/// The same, with what was decided about each part when it was posted.
pub(crate) async fn once_in_parts(
    inner: &Inner,
    outgoing: &OutgoingText<'_>,
) -> Result<Vec<SentPart>, AccessError> {
    let (thread, role) = (ThreadKey::from(outgoing.thread), outgoing.role_name());
    let span = tracing::info_span!("post", %thread, role, kind = outgoing.kind);
    post_parts(inner, outgoing).instrument(span).await
}

async fn post_parts(
    inner: &Inner,
    outgoing: &OutgoingText<'_>,
) -> Result<Vec<SentPart>, AccessError> {
    let thread = ThreadKey::from(outgoing.thread);
    let account = inner.account(outgoing.repo).await?;
    let mut sent = Vec::new();
    let mut count = outgoing.parts.len();
    let mut index = 0;
    while index < count {
        let id = outgoing.identity(index);
        let part = match find_sent(inner, &account, outgoing.thread, outgoing.slack, &id).await? {
            Some(part) => part,
            // Posted before with a text of fewer parts: there is nothing to add.
            None if index >= outgoing.parts.len() => break,
            None => send_part(inner, &account, outgoing, &thread, index, id).await?,
        };
        if index == 0 {
            count = part.of;
        }
        sent.push(part);
        index += 1;
    }
    Ok(sent)
}

#[derive(Deserialize)]
struct PostedAt {
    ts: SlackTs,
}

/// Posts one part. When the outcome is not known, Slack is asked before it is posted again.
async fn send_part(
    inner: &Inner,
    account: &SlackAccount,
    outgoing: &OutgoingText<'_>,
    thread: &ThreadKey,
    index: usize,
    id: MessageIdentity,
) -> Result<SentPart, CallError> {
    let rates = !inner.refused_blocks.has(account);
    let mut forms = outgoing.forms(index, account.customizes(), rates).into_iter();
    let Some(first) = forms.next() else { return Err(CallError::Limited { method: POST }) };
    let whole = (first.has_table, first.is_rated);
    let mut form = first;
    let shows = outgoing.kind == PROGRESS;
    let web = if shows { inner.web.upkeep() } else { inner.web.clone() };
    let (mut attempt, mut refusal) = (0, None::<CallError>);
    loop {
        let under_way = inner.sent.begin(thread);
        let result = web.post::<PostedAt>(&account.bot, POST, &form.body).await;
        match &result {
            // Nothing waits between here and the record of it.
            Ok(_) => under_way.end(),
            Err(error) => under_way.fail(error),
        }
        match result {
            Ok(PostedAt { ts }) => {
                if whole.1 && !form.is_rated && form.has_table == whole.0 {
                    inner.refused_blocks.note(account);
                }
                if let Some(error) =
                    refusal.filter(|_| whole.0 && !form.has_table && !form.is_plain)
                {
                    tracing::warn!(%error, "table_refused");
                }
                if form.is_rated {
                    inner.metrics.rated(&repo_label(outgoing.repo), outgoing.role_name());
                }
                let (to, held) = outgoing.handing.part(index);
                let part = SentPart { ts, of: outgoing.parts.len(), to, held, file: None };
                inner.sent.add(thread, id, part.clone());
                if !shows {
                    inner.kept.post(thread, &part.ts);
                }
                if outgoing.kind == NOTICE || outgoing.kind == FEEDBACK_KIND {
                    // No mark speaks of it, and all roles are to read it.
                    inner.kept.hear(thread, &part.ts);
                }
                inner.told(outgoing, index, &part.ts).await;
                return Ok(part);
            }
            Err(error) if refuses_blocks(&error) => match forms.next() {
                Some(next) => {
                    if next.is_plain {
                        tracing::warn!(%error, "blocks_refused");
                    }
                    (form, refusal) = (next, Some(error));
                }
                None => return Err(error),
            },
            Err(error @ CallError::Failed { .. }) => {
                inner.sent.forget(thread);
                if attempt + 1 == ATTEMPTS {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
                attempt += 1;
                if let Some(part) =
                    find_sent(inner, account, outgoing.thread, outgoing.slack, &id).await?
                {
                    return Ok(part);
                }
            }
            Err(error) => return Err(error),
        }
    }
}
