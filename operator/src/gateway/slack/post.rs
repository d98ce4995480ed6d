//! Posting, once per key: what is in Slack already is found by the key in its metadata before
//! anything is posted again, also by a process that did not post it.

mod handing;
mod outgoing;
mod sent;

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{PlanEstimate, SlackThread, ThreadState};
use codebutler_crds::wire::{Decision, ErrorCode, PostMessage, Posted};
use codebutler_crds::{Repo, SlackTs, Thread};
use serde::Deserialize;
use tracing::Instrument as _;

use super::account::{AccessError, Account};
use super::files::{self, Attachment};
use super::markdown::{self, Rendered, Snippet};
use super::questions::offers::OfferShown;
use super::questions::{merge, plan};
use super::split::split;
use super::web::CallError;
use super::{Inner, asking, meaning, people, pictures, usage};
use crate::gateway::context::{ApiError, Caller, ThreadKey, conversation};
use crate::gateway::masks;
use crate::gateway::threads::WriteError;

pub use handing::{Handing, addressed};
pub use outgoing::{Asks, Outgoing, metadata, speaks_of};
use sent::find_sent;
pub use sent::{MessageIdentity, Sent, SentPart, lookup};

/// Slack recommends at most 4,000 characters in a message.
pub const LIMIT: usize = 3900;
/// `kind` of a line of CodeButler itself.
pub const NOTICE: &str = "notice";
/// Times that a post with unknown outcome is looked for and repeated.
const ATTEMPTS: u32 = 4;

/// What the gateway itself knows of a role's message.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Head of the pull request that a merge is asked for.
    pub closing_head: Option<String>,
    /// A line of CodeButler's own under the message.
    pub note: Option<String>,
    /// What a plan will probably come to.
    pub estimate: Option<PlanEstimate>,
}

/// Posts a role's message and records what it means: a decision asked, roles addressed.
pub async fn of_role(
    inner: &Inner,
    caller: &Caller,
    message: &PostMessage,
    beside: Beside,
) -> Result<Posted, ApiError> {
    asking::check(message)?;
    // What people see and approve is what is recorded and hashed.
    let redactor = inner.context.redactors.of(&caller.repo);
    let mask = |text: &String| redactor.mask(text).into_owned();
    let message = &PostMessage {
        text: mask(&message.text),
        choices: message.choices.iter().map(mask).collect(),
        learnings: message.learnings.iter().map(mask).collect(),
        ..message.clone()
    };
    let key = caller.key();
    let thread = inner.thread(&key).unwrap_or_else(|| Arc::clone(&caller.thread));
    if thread.spec.state == ThreadState::Closed || thread.is_going() {
        return Err(ApiError::new(ErrorCode::ThreadClosed, "the thread is closed"));
    }
    // Until what the message means is recorded: a quick click on it waits for that.
    let _turn = inner.posting.lock(&key).await;
    let digest = meaning::digest(message, beside.closing_head.as_deref());
    let mut text = in_slack(inner, caller, &thread, message, digest.as_deref()).await?;
    if let Some(asker) = message.to.as_deref().and_then(people::mention) {
        text = format!("{asker} {text}");
    }
    if message.asks || message.decision.is_some() {
        text = format!("{text}\n{}", people::mentioned(&thread));
    }
    if message.decision == Some(Decision::Merge) {
        let status = thread.status.clone().unwrap_or_default();
        text = format!("{text}\n\n{}", usage::table(&status));
    }
    let offered = OfferShown::of(message);
    let parts = split(text.trim_end(), LIMIT);
    let (team, status) = (inner.team(&caller.repo), thread.status.clone().unwrap_or_default());
    let handing = Handing::of(&parts, &team, &status, caller.role_name(), message.last);
    let outgoing = Outgoing {
        repo: &caller.repo,
        thread: &thread,
        slack: conversation(&thread)?,
        key: &message.key,
        role: Some(&caller.role),
        kind: message.decision.map_or("message", Decision::kind),
        asks: match (message.decision, &offered) {
            (Some(Decision::Plan), _) => Asks::Buttons(&plan::BUTTONS),
            (Some(Decision::Merge), _) => Asks::Buttons(&merge::BUTTONS),
            (None, Some(offer)) => Asks::Offer(offer),
            (None, None) => Asks::Nothing,
        },
        digest,
        parts,
        note: beside.note.as_deref().map(markdown::inline),
        handing,
    };
    let sent = match once_in_parts(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    if let (Some(Decision::Plan), Some(ts)) = (message.decision, sent.last()) {
        inner.keep_plan(&key, &ts.ts, &message.text);
    }
    let meaning = meaning::of(&team, &outgoing, &sent, message, &beside);
    inner
        .threads
        .update(&key, |status| meaning.apply(status))
        .await
        .map_err(|error| not_recorded(&error))?;
    let first = sent.into_iter().next();
    first
        .map(|part| Posted { ts: part.ts, overlaps: Vec::new() })
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, asking::EMPTY))
}

/// The key of a notice that is mail for a role.
pub fn key_for(role: &str, key: &str) -> String {
    format!("to:{role}:{key}")
}

/// By which a line of CodeButler itself is found.
pub fn notice_id(key: &str) -> MessageIdentity {
    MessageIdentity::of("", NOTICE, key)
}

/// Posts a line of CodeButler itself.
pub async fn notice(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
) -> Result<SlackTs, ApiError> {
    let (thread, repo) = inner.conversation(key)?;
    let slack = conversation(&thread)?;
    post_notice(inner, &repo, &thread, slack, id, text).await
}

/// The same, where it is known already what is meant.
pub async fn post_notice(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    slack: &SlackThread,
    id: &str,
    text: &str,
) -> Result<SlackTs, ApiError> {
    let redactor = masks::as_known(&inner.context, repo).await;
    let text = redactor.mask(text);
    let outgoing = Outgoing {
        repo,
        thread,
        slack,
        key: id,
        role: None,
        kind: NOTICE,
        asks: Asks::Nothing,
        digest: None,
        parts: split(&markdown::inline(&text), LIMIT),
        note: None,
        handing: Handing::default(),
    };
    let key = &ThreadKey::from(thread);
    let _turn = inner.posting.lock(key).await;
    match once(inner, &outgoing).await {
        Ok(sent) => sent
            .into_iter()
            .next()
            .ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, asking::EMPTY)),
        Err(error) => Err(inner.failed(error, repo).await),
    }
}

/// The message in Slack's markup. Long code goes into files first, so that the text, and buttons
/// under it, come last; where Slack takes no files, it stays in the text.
async fn in_slack(
    inner: &Inner,
    caller: &Caller,
    thread: &Thread,
    message: &PostMessage,
    digest: Option<&str>,
) -> Result<String, ApiError> {
    let role = caller.role_name();
    // Files belong to the words that people say yes to, too.
    let key = &[&*message.key, digest.unwrap_or_default()].concat();
    let name = |index, snippet: &Snippet| files::name(thread, role, key, index, snippet);
    let Rendered { mut text, snippets } = markdown::render(&message.text, name);
    let pictures = pictures::shown_pictures(thread, role, key, &message.pictures)?;
    for picture in &pictures {
        text = format!("{text}\n📎 `{}`", picture.name);
    }
    let lost = pictures.len();
    let code = snippets.into_iter().enumerate().map(|(index, snippet)| Attachment {
        name: name(index, &snippet),
        content: snippet.code.into_bytes(),
    });
    match attach(inner, caller, thread, code.chain(pictures).collect()).await {
        Ok(()) => Ok(text),
        Err(AccessError::Call(CallError::Refused { code, .. })) => {
            tracing::warn!(code, "Slack takes no files: code stays in the text");
            let text = markdown::inline(&message.text);
            if lost == 0 {
                return Ok(text);
            }
            Ok(format!(
                "{text}\n_Slack takes no files of this app: {lost} of its pictures are missing._"
            ))
        }
        Err(error) => Err(inner.failed(error, &caller.repo).await),
    }
}

/// Uploads the files that are not in the thread yet. The caller holds the thread's turn to post.
pub async fn attach(
    inner: &Inner,
    caller: &Caller,
    thread: &Thread,
    files: Vec<Attachment>,
) -> Result<(), AccessError> {
    if files.is_empty() {
        return Ok(());
    }
    let Some(slack) = thread.conversation() else { return Ok(()) };
    let account = inner.account(&caller.repo).await?;
    for file in files {
        let id = MessageIdentity::file(&file.name);
        if find_sent(inner, &account, thread, slack, &id).await?.is_some() {
            continue;
        }
        if let Err(error) = files::upload(inner, &account, slack, &file).await {
            // It may be there all the same.
            inner.sent.forget(&ThreadKey::from(thread));
            return Err(error.into());
        }
        let part = SentPart::file(slack.ts.clone());
        inner.sent.add(&ThreadKey::from(thread), id, part);
    }
    Ok(())
}

pub fn not_recorded(error: &WriteError) -> ApiError {
    tracing::warn!(%error, "posted, not recorded: the same request finishes it");
    ApiError::new(ErrorCode::Unavailable, "posted, but not recorded yet: send it again")
}

/// Posts the parts that are not in Slack yet; answers the `ts` of all. The caller holds the
/// thread's turn to post.
pub async fn once(inner: &Inner, outgoing: &Outgoing<'_>) -> Result<Vec<SlackTs>, AccessError> {
    let sent = once_in_parts(inner, outgoing).await?;
    Ok(sent.into_iter().map(|part| part.ts).collect())
}

/// The same, with what was decided about each part when it was posted.
async fn once_in_parts(
    inner: &Inner,
    outgoing: &Outgoing<'_>,
) -> Result<Vec<SentPart>, AccessError> {
    let (thread, role) = (ThreadKey::from(outgoing.thread), outgoing.role_name());
    let span = tracing::info_span!("post", %thread, role, kind = outgoing.kind);
    post_parts(inner, outgoing).instrument(span).await
}

async fn post_parts(inner: &Inner, outgoing: &Outgoing<'_>) -> Result<Vec<SentPart>, AccessError> {
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
            None => send(inner, &account, outgoing, &thread, index, id).await?,
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
async fn send(
    inner: &Inner,
    account: &Account,
    outgoing: &Outgoing<'_>,
    thread: &ThreadKey,
    index: usize,
    id: MessageIdentity,
) -> Result<SentPart, CallError> {
    let body = outgoing.body(index, account.customizes());
    for attempt in 0..ATTEMPTS {
        let result = inner.web.post::<PostedAt>(&account.bot, "chat.postMessage", &body).await;
        match result {
            Ok(PostedAt { ts }) => {
                let (to, held) = outgoing.handing.part(index);
                let part = SentPart { ts, of: outgoing.parts.len(), to, held };
                inner.sent.add(thread, id, part.clone());
                inner.told(outgoing, index, &part.ts).await;
                return Ok(part);
            }
            Err(error @ CallError::Failed { .. }) => {
                inner.sent.forget(thread);
                if attempt + 1 == ATTEMPTS {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
                if let Some(part) =
                    find_sent(inner, account, outgoing.thread, outgoing.slack, &id).await?
                {
                    return Ok(part);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(CallError::Limited { method: "chat.postMessage" })
}
