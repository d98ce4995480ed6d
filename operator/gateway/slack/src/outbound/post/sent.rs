//! Index of our messages that are in Slack, by key: read from the threads themselves once, and kept.

use std::collections::HashMap;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::identity::MessageIdentity;
use super::streamed::streamed_identity;
use super::{handing, speaks_of};
use crate::api::account::{AccessError, SlackAccount};
use crate::api::reading::WantedReading;
use crate::api::web::CallError;
use crate::questions::action;
use crate::{Inner, own_metadata};

/// Threads whose keys are remembered.
const REMEMBERED: usize = 512;

/// Keys of what is in Slack, by Thread: complete for every Thread that is in the map.
pub(crate) struct SentKeys {
    threads: Mutex<RecentMap<ThreadKey, HashMap<MessageIdentity, SentPart>>>,
    /// Time since which something is in Slack that this process may not know of.
    doubted: Mutex<RecentMap<ThreadKey, Instant>>,
}

impl Default for SentKeys {
    fn default() -> Self {
        Self {
            threads: Mutex::new(RecentMap::new(REMEMBERED)),
            doubted: Mutex::new(RecentMap::new(REMEMBERED)),
        }
    }
}

/// The thread was not read yet, or not since something went wrong in it.
struct Unread;

/// A message that is in Slack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentPart {
    pub ts: SlackTs,
    /// Number of messages that the text was split into.
    pub of: usize,
    /// Roles that it is for, where that was decided when it was posted.
    pub to: Option<Vec<String>>,
    /// Role that it addresses and that does not go on.
    pub held: Option<String>,
    /// Slack's file id, where it is a file.
    pub file: Option<String>,
}

impl SentPart {
    pub(super) fn file(ts: SlackTs, file: String) -> Self {
        Self { file: Some(file), ..Self::alone(ts) }
    }

    /// One message whose text was not split, and that is for nobody.
    pub(crate) fn alone(ts: SlackTs) -> Self {
        Self { ts, of: 1, to: None, held: None, file: None }
    }
}

impl SentKeys {
    /// Finds the message that a key stands for in a thread.
    fn find(&self, thread: &ThreadKey, id: &MessageIdentity) -> Result<Option<SentPart>, Unread> {
        self.lock().get(thread).map(|keys| keys.get(id).cloned()).ok_or(Unread)
    }

    fn loaded(&self, thread: &ThreadKey, keys: HashMap<MessageIdentity, SentPart>) {
        self.lock().insert(thread.clone(), keys);
    }

    pub(crate) fn add(&self, thread: &ThreadKey, id: MessageIdentity, part: SentPart) {
        if let Some(keys) = self.lock().get(thread) {
            keys.insert(id, part);
        }
    }

    /// Removes a message that is not there any more.
    pub(crate) fn remove(&self, thread: &ThreadKey, id: &MessageIdentity) {
        if let Some(keys) = self.lock().get(thread) {
            keys.remove(id);
        }
    }

    /// Forgets the key of a question about an action: it is answered, and not found by its key any more.
    pub(crate) fn settle(&self, thread: &ThreadKey, ts: &SlackTs) {
        if let Some(keys) = self.lock().get(thread) {
            keys.retain(|id, part| id.kind != action::KIND || part.ts != *ts);
        }
    }

    pub(crate) fn forget(&self, thread: &ThreadKey) {
        self.doubted.lock().insert(thread.clone(), Instant::now());
        self.lock().remove(thread);
    }

    fn doubted_since(&self, thread: &ThreadKey) -> Option<Instant> {
        self.doubted.lock().get(thread).copied()
    }

    fn lock(
        &self,
    ) -> parking_lot::MutexGuard<'_, RecentMap<ThreadKey, HashMap<MessageIdentity, SentPart>>> {
        self.threads.lock()
    }
}
/// Finds the message with this identity, if it is in Slack.
pub(crate) async fn lookup_sent(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    slack: &SlackThread,
    id: &MessageIdentity,
) -> Result<Option<SlackTs>, AccessError> {
    let account = inner.account(repo).await?;
    let found = find_sent(inner, &account, thread, slack, id).await?;
    Ok(found.map(|part| part.ts))
}

/// Looks a key up, in Slack itself if this process has not read the thread yet.
pub(super) async fn find_sent(
    inner: &Inner,
    account: &SlackAccount,
    thread: &Thread,
    slack: &SlackThread,
    id: &MessageIdentity,
) -> Result<Option<SentPart>, CallError> {
    let key = ThreadKey::from(thread);
    if let Ok(known) = inner.sent.find(&key, id) {
        return Ok(known);
    }
    let since = inner.sent.doubted_since(&key).max(Some(inner.kept.alone_since()));
    let wanted = WantedReading { since, ..WantedReading::default() };
    let reading = inner.read_conversation(account, (&key, slack), &wanted).await?;
    let messages = reading.after(None);
    let mut keys = HashMap::new();
    for message in messages.iter().filter(|message| account.wrote(message) || message.for_person) {
        for file in &message.files {
            let part = SentPart::file(message.ts.clone(), file.id.clone());
            keys.insert(MessageIdentity::file(&file.name), part);
        }
        let Some(payload) = own_metadata(message.metadata.as_ref()) else {
            if let Some(id) = streamed_identity(message.blocks.as_ref()) {
                keys.entry(id).or_insert_with(|| SentPart::alone(message.ts.clone()));
            }
            continue;
        };
        if speaks_of(payload, thread) {
            let of = payload["of"].as_str().and_then(|of| of.parse().ok()).unwrap_or(1);
            let (to, held) = (handing::read_addressed(payload), handing::read_held(payload));
            keys.entry(MessageIdentity::read(payload)).or_insert(SentPart {
                ts: message.ts.clone(),
                of,
                to,
                held,
                file: None,
            });
        }
    }
    let found = keys.get(id).cloned();
    inner.sent.loaded(&key, keys);
    Ok(found)
}
