//! Posting, once per key: what is in Slack already is found by the key in its metadata before
//! anything is posted again, also by a process that did not post it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codebutler_crds::thread::{Closing, Plan, SlackThread, ThreadState};
use codebutler_crds::wire::{Decision, ErrorCode, PostMessage, Posted};
use codebutler_crds::{AgentRole, Repo, SlackTs, Thread, ThreadStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::account::{AccessError, Account};
use super::money::{self, Money};
use super::split::split;
use super::web::CallError;
use super::{EVENT_TYPE, Inner, address, blocks, history, mrkdwn, own_metadata, usage};
use crate::gateway::context::{ApiError, Caller, ThreadKey, conversation};
use crate::gateway::threads::{self, WriteError};

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
    pub decision: Option<Decision>,
    /// The buttons of a question about money.
    pub money: Option<&'a [Money]>,
    pub parts: Vec<String>,
}

impl Outgoing<'_> {
    fn role_name(&self) -> &str {
        self.role.map_or("", |role| role.spec.role.as_str())
    }

    /// The key of one part; the first one has the message's own.
    fn part_key(&self, index: usize) -> String {
        match index {
            0 => self.key.to_owned(),
            _ => format!("{}.{}", self.key, index + 1),
        }
    }

    fn body(&self, index: usize) -> Value {
        let (text, key) = (&self.parts[index], self.part_key(index));
        let slack = self.slack;
        let kind = self.decision.map_or(self.kind, Decision::kind);
        let mut body = json!({
            "channel": slack.channel,
            "thread_ts": slack.ts,
            "text": text,
            "unfurl_links": false,
            "unfurl_media": false,
            "metadata": metadata(self.thread, self.role_name(), &key, kind, self.parts.len()),
        });
        if let Some(role) = self.role {
            body["username"] = json!(role.spec.display.name);
            body["icon_emoji"] = json!(role.spec.display.icon);
        }
        // The buttons are under the last part.
        if let Some(decision) = self.decision
            && index + 1 == self.parts.len()
        {
            body["blocks"] = blocks::asking(text, decision, self.key);
        }
        if let Some(answers) = self.money
            && index + 1 == self.parts.len()
        {
            body["blocks"] = blocks::asking_money(text, answers, self.key);
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
) -> Result<Posted, ApiError> {
    check(message)?;
    // What people see and approve is what is recorded and hashed.
    let text = inner.context.redactors.of(&caller.repo).mask(&message.text).into_owned();
    let message = &PostMessage { text, ..message.clone() };
    let key = caller.key();
    let thread = inner.thread(&key).unwrap_or_else(|| Arc::clone(&caller.thread));
    if thread.spec.state == ThreadState::Closed || thread.is_going() {
        return Err(ApiError::new(ErrorCode::ThreadClosed, "the thread is closed"));
    }
    let mut text = mrkdwn::from_markdown(&message.text);
    if message.decision == Some(Decision::Merge) {
        let status = thread.status.clone().unwrap_or_default();
        text = format!("{text}\n\n{}", usage::table(&status));
    }
    let outgoing = Outgoing {
        repo: &caller.repo,
        thread: &thread,
        slack: conversation(&thread)?,
        key: &message.key,
        role: Some(&caller.role),
        kind: "message",
        decision: message.decision,
        money: None,
        parts: split(&text, LIMIT),
    };
    // Until what the message means is recorded: a quick click on it waits for that.
    let _turn = inner.posting.lock(&key).await;
    let sent = match once(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    let meaning = meaning(inner, &outgoing, &sent, message, closing_head);
    inner
        .threads
        .update(&key, |status| meaning.apply(status))
        .await
        .map_err(|error| not_recorded(&error))?;
    let first = sent.into_iter().next();
    first.map(|ts| Posted { ts }).ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))
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
    let text = inner.context.redactors.of(repo).mask(text);
    let outgoing = Outgoing {
        repo,
        thread,
        slack,
        key: id,
        role: None,
        kind: "notice",
        decision: None,
        money: None,
        parts: split(&mrkdwn::from_markdown(&text), LIMIT),
    };
    let key = &ThreadKey::from(thread);
    let _turn = inner.posting.lock(key).await;
    match once(inner, &outgoing).await {
        Ok(sent) => {
            sent.into_iter().next().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))
        }
        Err(error) => Err(inner.failed(error, repo).await),
    }
}

/// Asks about money; a quick click waits until the question is recorded.
pub async fn money(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
    question: &money::Question,
) -> Result<(), ApiError> {
    let (thread, repo) = inner.conversation(key)?;
    let outgoing = Outgoing {
        repo: &repo,
        thread: &thread,
        slack: conversation(&thread)?,
        key: id,
        role: None,
        kind: "budget",
        decision: None,
        money: Some(Money::of(question.limit)),
        parts: split(&mrkdwn::from_markdown(text), LIMIT),
    };
    let _turn = inner.posting.lock(key).await;
    let sent = match once(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &repo).await),
    };
    let asked = sent.last().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))?;
    let recorded = inner.threads.update(key, |status| question.record(status, asked)).await;
    recorded.map(drop).map_err(|error| not_recorded(&error))
}

const EMPTY: &str = "the text is empty: say something";

fn check(message: &PostMessage) -> Result<(), ApiError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let invalid = |sentence: &str| Err(ApiError::new(ErrorCode::InvalidRequest, sentence));
    if message.text.trim().is_empty() {
        return invalid(EMPTY);
    }
    if message.key.is_empty() || message.key.len() > 64 || !message.key.chars().all(allowed) {
        return invalid("the key has to be 1 to 64 characters of A-Z, a-z, 0-9 and _ . : -");
    }
    Ok(())
}

fn not_recorded(error: &WriteError) -> ApiError {
    tracing::warn!(%error, "posted, not recorded: the same request finishes it");
    ApiError::new(ErrorCode::Unavailable, "posted, but not recorded yet: send it again")
}

/// What a posted message means for its Thread. Applied again, nothing changes.
struct Meaning {
    plan: Option<Plan>,
    closing: Option<Closing>,
    /// Roles addressed, by the part that does.
    addressed: Vec<(Vec<String>, SlackTs)>,
    now: Time,
}

impl Meaning {
    fn apply(&self, status: &mut ThreadStatus) {
        if let Some(plan) = &self.plan {
            threads::set_plan(status, plan);
        }
        if let Some(closing) = &self.closing {
            threads::set_closing(status, closing);
        }
        for (roles, ts) in &self.addressed {
            threads::raise_inbox(status, roles, ts, &self.now);
        }
    }
}

fn meaning(
    inner: &Inner,
    outgoing: &Outgoing<'_>,
    sent: &[SlackTs],
    message: &PostMessage,
    head: Option<String>,
) -> Meaning {
    let role = outgoing.role_name().to_owned();
    let roles = inner.role_names(outgoing.repo);
    let addressed = outgoing
        .parts
        .iter()
        .zip(sent)
        .map(|(text, ts)| (address::by_role(text, &roles, &role), ts.clone()))
        .filter(|(roles, _)| !roles.is_empty())
        .collect();
    // The message with the buttons.
    let asked = sent.last().cloned();
    let of = |decision| asked.clone().filter(|_| message.decision == Some(decision));
    Meaning {
        plan: of(Decision::Plan).map(|ts| Plan {
            ts,
            hash: hex::encode(Sha256::digest(message.text.as_bytes())),
            role: role.clone(),
            approved_by: None,
            declined_by: None,
        }),
        closing: of(Decision::Merge).map(|ts| Closing {
            ts,
            role: role.clone(),
            choice: None,
            decided_by: None,
            head,
        }),
        addressed,
        now: Time(jiff::Timestamp::now()),
    }
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
        let part = match find(inner, &account, outgoing, &thread, &id).await? {
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

/// Looks a key up, in Slack itself if this process has not read the thread yet.
async fn find(
    inner: &Inner,
    account: &Account,
    outgoing: &Outgoing<'_>,
    thread: &ThreadKey,
    id: &str,
) -> Result<Option<Part>, CallError> {
    match inner.sent.find(thread, id) {
        Some(Found::Yes(part)) => return Ok(Some(part)),
        Some(Found::No) => return Ok(None),
        None => {}
    }
    let SlackThread { channel, ts: root } = outgoing.slack;
    let messages = history::replies(&inner.web, &account.bot, channel, root, None).await?;
    let mut keys = HashMap::new();
    for message in messages.iter().filter(|message| account.wrote(message)) {
        let Some(payload) = own_metadata(message.metadata.as_ref()) else { continue };
        let text = |name: &str| payload[name].as_str().unwrap_or_default();
        if speaks_of(payload, outgoing.thread) {
            let id = format!("{}/{}", text("role"), text("key"));
            let of = text("of").parse().unwrap_or(1);
            keys.entry(id).or_insert(Part { ts: message.ts.clone(), of });
        }
    }
    let found = keys.get(id).cloned();
    inner.sent.loaded(thread, keys);
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
    let body = outgoing.body(index);
    let channel = outgoing.slack.channel.clone();
    for attempt in 0..ATTEMPTS {
        let result = {
            let _turn = inner.sending.lock(&channel).await;
            inner.web.post::<PostedAt>(&account.bot, "chat.postMessage", &body).await
        };
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
                if let Some(part) = find(inner, account, outgoing, thread, id).await? {
                    return Ok(part);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(CallError::Limited { method: "chat.postMessage" })
}
