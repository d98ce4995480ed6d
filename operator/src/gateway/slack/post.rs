//! Posting, once per key: what is in Slack already is found by the key in its metadata before
//! anything is posted again, also by a process that did not post it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::wire::{Decision, ErrorCode, PostMessage, Posted};
use codebutler_crds::{AgentRole, Repo, SlackTs, Thread};
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::{AccessError, Account};
use super::files::{self, Attachment};
use super::markdown::{self, Rendered, Snippet};
use super::money::Money;
use super::split::split;
use super::web::CallError;
use super::{
    EVENT_TYPE, Inner, asking, blocks, history, meaning, mrkdwn, offer, own_metadata, people,
    pictures, usage,
};
use crate::gateway::context::{ApiError, Caller, ThreadKey, conversation};
use crate::gateway::masks;
use crate::gateway::threads::WriteError;

/// Slack recommends at most 4,000 characters in a message.
pub const LIMIT: usize = 3900;
/// Times that a post with unknown outcome is looked for and repeated.
const ATTEMPTS: u32 = 4;
/// Threads whose keys are remembered.
const REMEMBERED: usize = 512;

/// Keys of what is in Slack, by Thread: complete for every Thread that is in it.
#[derive(Default)]
pub struct Sent {
    threads: Mutex<HashMap<ThreadKey, HashMap<String, Part>>>,
}

/// A message that is in Slack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    ts: SlackTs,
    /// How many messages the text was split into.
    of: usize,
}

/// Whether a key is in a thread.
enum Found {
    Yes(Part),
    No,
}

impl Sent {
    /// None: the thread was not read yet.
    fn find(&self, thread: &ThreadKey, id: &str) -> Option<Found> {
        self.lock().get(thread).map(|keys| keys.get(id).cloned().map_or(Found::No, Found::Yes))
    }

    fn loaded(&self, thread: &ThreadKey, keys: HashMap<String, Part>) {
        let mut threads = self.lock();
        if threads.len() >= REMEMBERED {
            threads.clear();
        }
        threads.insert(thread.clone(), keys);
    }

    fn add(&self, thread: &ThreadKey, id: String, part: Part) {
        if let Some(keys) = self.lock().get_mut(thread) {
            keys.insert(id, part);
        }
    }

    /// One that is not there any more.
    pub fn remove(&self, thread: &ThreadKey, id: &str) {
        if let Some(keys) = self.lock().get_mut(thread) {
            keys.remove(id);
        }
    }

    pub fn forget(&self, thread: &ThreadKey) {
        self.lock().remove(thread);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadKey, HashMap<String, Part>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text on its way into a thread.
pub struct Outgoing<'a> {
    pub repo: &'a Repo,
    pub thread: &'a Thread,
    /// The conversation.
    pub slack: &'a SlackThread,
    pub key: &'a str,
    /// None: CodeButler itself.
    pub role: Option<&'a AgentRole>,
    /// What kind of message, if it asks for no decision.
    pub kind: &'static str,
    pub asks: Asks<'a>,
    pub parts: Vec<String>,
    /// A line of CodeButler's own under the last part, which no text can pass for.
    pub note: Option<String>,
}

/// What a text asks of people.
#[derive(Clone, Copy)]
pub enum Asks<'a> {
    /// Nothing.
    Nothing,
    /// A decision.
    Decision(Decision),
    /// Whether more money may be spent.
    Money(&'a [Money]),
    /// What a role offers: answers, or learnings.
    Offer(&'a offer::Shown),
    /// Whether a thread that nobody writes in is kept.
    Keep,
    /// What these blocks say. The text is one part.
    Blocks(&'a Value),
}

impl Outgoing<'_> {
    /// Empty: CodeButler itself.
    pub fn role_name(&self) -> &str {
        self.role.map_or("", |role| role.spec.role.as_str())
    }

    /// The key of one part; the first one has the message's own.
    fn part_key(&self, index: usize) -> String {
        match index {
            0 => self.key.to_owned(),
            _ => format!("{}.{}", self.key, index + 1),
        }
    }

    /// `customize`: whether the message may carry the role's own name and icon.
    fn body(&self, index: usize, customize: bool) -> Value {
        let (part, key) = (&self.parts[index], self.part_key(index));
        let text = &match self.role.filter(|_| !customize) {
            // On a line of its own: a mention stays at the start of a line.
            Some(role) => format!("*{}*\n{part}", mrkdwn::escape(&role.spec.display.name)),
            None => part.clone(),
        };
        let slack = self.slack;
        let kind = match self.asks {
            Asks::Decision(decision) => decision.kind(),
            _ => self.kind,
        };
        let mut body = json!({
            "channel": slack.channel,
            "thread_ts": slack.ts,
            "text": text,
            "unfurl_links": false,
            "unfurl_media": false,
            "metadata": metadata(self.thread, self.role_name(), &key, kind, self.parts.len()),
        });
        if let Some(role) = self.role.filter(|_| customize) {
            body["username"] = json!(role.spec.display.name);
            body["icon_emoji"] = json!(role.spec.display.icon);
        }
        // The buttons are under the last part.
        let is_last = index + 1 == self.parts.len();
        match self.asks {
            Asks::Decision(decision) if is_last => {
                body["blocks"] = blocks::asking(text, decision, self.key);
            }
            Asks::Money(answers) if is_last => {
                body["blocks"] = blocks::asking_money(text, answers, self.key);
            }
            Asks::Offer(offer) if is_last => {
                body["blocks"] = blocks::offering(text, offer, self.key);
                body["text"] = json!(format!("{text}\n{}", offer.listed()));
            }
            Asks::Keep if is_last => body["blocks"] = blocks::warning(text, self.key),
            Asks::Blocks(blocks) => body["blocks"] = blocks.clone(),
            _ => {}
        }
        if let Some(note) = &self.note
            && index + 1 == self.parts.len()
        {
            body["blocks"] = blocks::noted(body["blocks"].take(), text, note);
        }
        body
    }
}

/// What our own messages are known by. The UID tells a Thread from an earlier one of its name.
pub fn metadata(thread: &Thread, role: &str, key: &str, kind: &str, of: usize) -> Value {
    json!({"event_type": EVENT_TYPE, "event_payload": {
        "role": role,
        "key": key,
        "kind": kind,
        "thread": thread.name_any(),
        "uid": thread.uid(),
        "of": of.to_string(),
    }})
}

/// Whether a message's metadata speaks of exactly this Thread.
pub fn speaks_of(payload: &Value, thread: &Thread) -> bool {
    let uid = payload["uid"].as_str();
    payload["thread"] == thread.name_any()
        && uid.is_none_or(|uid| thread.uid().as_deref() == Some(uid))
}

/// Posts a role's message and records what it means: a decision asked, roles addressed.
pub async fn of_role(
    inner: &Inner,
    caller: &Caller,
    message: &PostMessage,
    closing_head: Option<String>,
    note: Option<String>,
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
    let mut text = in_slack(inner, caller, &thread, message).await?;
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
    let offered = offer::Shown::of(message);
    let outgoing = Outgoing {
        repo: &caller.repo,
        thread: &thread,
        slack: conversation(&thread)?,
        key: &message.key,
        role: Some(&caller.role),
        kind: "message",
        asks: match (message.decision, &offered) {
            (Some(decision), _) => Asks::Decision(decision),
            (None, Some(offer)) => Asks::Offer(offer),
            (None, None) => Asks::Nothing,
        },
        parts: split(text.trim_end(), LIMIT),
        note: note.map(|note| markdown::inline(&note)),
    };
    let sent = match once(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    let meaning = meaning::of(inner, &outgoing, &sent, message, closing_head);
    inner
        .threads
        .update(&key, |status| meaning.apply(status))
        .await
        .map_err(|error| not_recorded(&error))?;
    let first = sent.into_iter().next();
    first
        .map(|ts| Posted { ts, overlaps: Vec::new() })
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, asking::EMPTY))
}

/// The key of a notice that is mail for a role.
pub fn key_for(role: &str, key: &str) -> String {
    format!("to:{role}:{key}")
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
    told(inner, &repo, &thread, slack, id, text).await
}

/// The same, where it is known already what is meant.
pub async fn told(
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
        kind: "notice",
        asks: Asks::Nothing,
        parts: split(&markdown::inline(&text), LIMIT),
        note: None,
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
) -> Result<String, ApiError> {
    let name = |index, snippet: &Snippet| {
        files::name(thread, caller.role_name(), &message.key, index, snippet)
    };
    let Rendered { mut text, snippets } = markdown::render(&message.text, name);
    let role = caller.role_name();
    let pictures = pictures::shown(thread, role, &message.key, &message.pictures)?;
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
async fn attach(
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
        let id = file_id(&file.name);
        if find(inner, &account, thread, slack, &id).await?.is_some() {
            continue;
        }
        if let Err(error) = files::upload(inner, &account, slack, &file).await {
            // It may be there all the same.
            inner.sent.forget(&ThreadKey::from(thread));
            return Err(error.into());
        }
        let part = Part { ts: slack.ts.clone(), of: 1 };
        inner.sent.add(&ThreadKey::from(thread), id, part);
    }
    Ok(())
}

/// The key of a file of ours.
fn file_id(name: &str) -> String {
    format!("file:{name}")
}

pub fn not_recorded(error: &WriteError) -> ApiError {
    tracing::warn!(%error, "posted, not recorded: the same request finishes it");
    ApiError::new(ErrorCode::Unavailable, "posted, but not recorded yet: send it again")
}

/// Posts the parts that are not in Slack yet; answers the `ts` of all. The caller holds the
/// thread's turn to post.
pub async fn once(inner: &Inner, outgoing: &Outgoing<'_>) -> Result<Vec<SlackTs>, AccessError> {
    let thread = ThreadKey::from(outgoing.thread);
    let account = inner.account(outgoing.repo).await?;
    let mut sent = Vec::new();
    let mut count = outgoing.parts.len();
    let mut index = 0;
    while index < count {
        let id = format!("{}/{}", outgoing.role_name(), outgoing.part_key(index));
        let part = match find(inner, &account, outgoing.thread, outgoing.slack, &id).await? {
            Some(part) => part,
            // Posted before with a text of fewer parts: there is nothing to add.
            None if index >= outgoing.parts.len() => break,
            None => send(inner, &account, outgoing, &thread, index, &id).await?,
        };
        if index == 0 {
            count = part.of;
        }
        sent.push(part.ts);
        index += 1;
    }
    Ok(sent)
}

/// The message that has a key, `<role>/<key>`, if it is in Slack.
pub async fn lookup(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    slack: &SlackThread,
    id: &str,
) -> Result<Option<SlackTs>, AccessError> {
    let account = inner.account(repo).await?;
    let found = find(inner, &account, thread, slack, id).await?;
    Ok(found.map(|part| part.ts))
}

/// Looks a key up, in Slack itself if this process has not read the thread yet.
async fn find(
    inner: &Inner,
    account: &Account,
    thread: &Thread,
    slack: &SlackThread,
    id: &str,
) -> Result<Option<Part>, CallError> {
    let key = ThreadKey::from(thread);
    match inner.sent.find(&key, id) {
        Some(Found::Yes(part)) => return Ok(Some(part)),
        Some(Found::No) => return Ok(None),
        None => {}
    }
    let SlackThread { channel, ts: root } = slack;
    let messages = history::replies(&inner.web, &account.bot, channel, root, None).await?;
    let mut keys = HashMap::new();
    for message in messages.iter().filter(|message| account.wrote(message)) {
        for file in &message.files {
            keys.insert(file_id(&file.name), Part { ts: message.ts.clone(), of: 1 });
        }
        let Some(payload) = own_metadata(message.metadata.as_ref()) else { continue };
        let text = |name: &str| payload[name].as_str().unwrap_or_default();
        if speaks_of(payload, thread) {
            let id = format!("{}/{}", text("role"), text("key"));
            let of = text("of").parse().unwrap_or(1);
            keys.entry(id).or_insert(Part { ts: message.ts.clone(), of });
        }
    }
    let found = keys.get(id).cloned();
    inner.sent.loaded(&key, keys);
    Ok(found)
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
    id: &str,
) -> Result<Part, CallError> {
    let body = outgoing.body(index, account.customizes());
    for attempt in 0..ATTEMPTS {
        let result = inner.web.post::<PostedAt>(&account.bot, "chat.postMessage", &body).await;
        match result {
            Ok(PostedAt { ts }) => {
                let part = Part { ts, of: outgoing.parts.len() };
                inner.sent.add(thread, id.to_owned(), part.clone());
                return Ok(part);
            }
            Err(error @ CallError::Failed { .. }) => {
                inner.sent.forget(thread);
                if attempt + 1 == ATTEMPTS {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
                if let Some(part) =
                    find(inner, account, outgoing.thread, outgoing.slack, id).await?
                {
                    return Ok(part);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(CallError::Limited { method: "chat.postMessage" })
}
