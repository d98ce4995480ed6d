//! What of ours is in Slack, by key: read from the threads themselves once, and kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{Repo, SlackTs, Thread};

use super::super::account::{AccessError, Account};
use super::super::web::CallError;
use super::super::{Inner, history, own_metadata};
use super::{handing, speaks_of};
use crate::gateway::context::ThreadKey;

/// Threads whose keys are remembered.
const REMEMBERED: usize = 512;

/// Keys of what is in Slack, by Thread: complete for every Thread that is in it.
#[derive(Default)]
pub struct Sent {
    threads: Mutex<HashMap<ThreadKey, HashMap<String, Part>>>,
}

/// The thread was not read yet, or not since something went wrong in it.
struct Unread;

/// A message that is in Slack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub ts: SlackTs,
    /// How many messages the text was split into.
    pub of: usize,
    /// Roles that it is for, where that was decided when it was posted.
    pub to: Option<Vec<String>>,
    /// The role that it addresses and that does not go on.
    pub held: Option<String>,
}

impl Part {
    pub(super) fn file(ts: SlackTs) -> Self {
        Self { ts, of: 1, to: None, held: None }
    }
}

impl Sent {
    /// What a key stands for in a thread.
    fn find(&self, thread: &ThreadKey, id: &str) -> Result<Option<Part>, Unread> {
        self.lock().get(thread).map(|keys| keys.get(id).cloned()).ok_or(Unread)
    }

    fn loaded(&self, thread: &ThreadKey, keys: HashMap<String, Part>) {
        let mut threads = self.lock();
        if threads.len() >= REMEMBERED {
            threads.clear();
        }
        threads.insert(thread.clone(), keys);
    }

    pub(super) fn add(&self, thread: &ThreadKey, id: String, part: Part) {
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
/// The key of a file of ours.
pub(super) fn file_id(name: &str) -> String {
    format!("file:{name}")
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
pub(super) async fn find(
    inner: &Inner,
    account: &Account,
    thread: &Thread,
    slack: &SlackThread,
    id: &str,
) -> Result<Option<Part>, CallError> {
    let key = ThreadKey::from(thread);
    if let Ok(known) = inner.sent.find(&key, id) {
        return Ok(known);
    }
    let SlackThread { channel, ts: root } = slack;
    let messages = history::replies(&inner.web, &account.bot, channel, root, None).await?;
    let mut keys = HashMap::new();
    for message in messages.iter().filter(|message| account.wrote(message)) {
        for file in &message.files {
            keys.insert(file_id(&file.name), Part::file(message.ts.clone()));
        }
        let Some(payload) = own_metadata(message.metadata.as_ref()) else { continue };
        let text = |name: &str| payload[name].as_str().unwrap_or_default();
        if speaks_of(payload, thread) {
            let id = format!("{}/{}", text("role"), text("key"));
            let of = text("of").parse().unwrap_or(1);
            let (to, held) = (handing::addressed(payload), handing::held(payload));
            keys.entry(id).or_insert(Part { ts: message.ts.clone(), of, to, held });
        }
    }
    let found = keys.get(id).cloned();
    inner.sent.loaded(&key, keys);
    Ok(found)
}
