//! Conversations, read from Slack when there is something to read. What was read is kept, bounded, for all
//! roles of a Thread; its marks say whether a message has come since, and edits whether one has changed.
//!
//! Nothing is taken from events: they may come late, twice or to another replica. They say that
//! something is there, and the reading itself always comes from Slack.

mod shelf;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use codebutler_crds::SlackTs;
use codebutler_crds::thread::SlackThread;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) use self::shelf::{ConversationReading, WantedReading};
use self::shelf::{ConversationShelf, ReadOrder, ShelfAnswer};
use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::attribution;
use crate::api::conversation_pages;
use crate::api::stored_message::StoredMessage;
use crate::api::web::CallError;

/// Limits of the cache: bytes of all that is kept, and number of conversations.
const TOGETHER: usize = 64 << 20;
const CONVERSATIONS: usize = 4096;
/// Time for which a replica that was replaced may still post.
const HANDING_OVER: Duration = Duration::from_secs(5);

/// Cache of conversations as they were last read.
pub(crate) struct KeptConversations {
    shelves: Mutex<HashMap<ThreadKey, UsedShelf>>,
    /// One read of a conversation at a time; callers that wait share its result.
    reading: KeyedLocks<ThreadKey>,
    /// Number of times when edits may have been missed.
    epoch: AtomicU64,
    /// Time from which this process alone posts.
    alone: Mutex<Instant>,
}

#[derive(Default)]
struct UsedShelf {
    shelf: ConversationShelf,
    used: Option<Instant>,
}

impl Default for KeptConversations {
    fn default() -> Self {
        Self {
            shelves: Mutex::default(),
            reading: KeyedLocks::default(),
            epoch: AtomicU64::new(0),
            alone: Mutex::new(Instant::now() + HANDING_OVER),
        }
    }
}

impl KeptConversations {
    /// Notes that a message was heard of. Where nothing is kept, nothing lacks it.
    pub(crate) fn hear(&self, thread: &ThreadKey, ts: &SlackTs) {
        if let Some(used) = self.shelves.lock().get_mut(thread) {
            used.shelf.hear(ts);
        }
    }

    /// Notes a message of CodeButler itself, for readers that need all of those.
    pub(crate) fn post(&self, thread: &ThreadKey, ts: &SlackTs) {
        if let Some(used) = self.shelves.lock().get_mut(thread) {
            used.shelf.post(ts);
        }
    }

    /// Invalidates all that was read before, because edits may have been missed.
    pub(crate) fn outdate(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that this process takes over from another one.
    pub(crate) fn take_over(&self) {
        *self.alone.lock() = Instant::now() + HANDING_OVER;
    }

    /// Time before which a reading may lack what another process posted.
    pub(crate) fn alone_since(&self) -> Instant {
        // Until then, not even one from a moment ago will do.
        (*self.alone.lock()).min(Instant::now())
    }

    /// Time from which a reading has what other processes posted. While a replaced one may still post, one that
    /// began since the takeover has to do.
    pub(crate) fn own_posts_from(&self) -> Instant {
        let alone = *self.alone.lock();
        if Instant::now() < alone { alone - HANDING_OVER } else { alone }
    }

    fn look(
        &self,
        (key, place): (&ThreadKey, &SlackThread),
        wanted: &WantedReading,
    ) -> ShelfAnswer {
        let now = Instant::now();
        let mut shelves = self.shelves.lock();
        let used = shelves.entry(key.clone()).or_default();
        used.used = Some(now);
        used.shelf.look(place, wanted, (self.epoch.load(Ordering::Acquire), now))
    }

    fn put(
        &self,
        (key, place): (&ThreadKey, &SlackThread),
        wanted: &WantedReading,
        (order, read): (ReadOrder, Vec<StoredMessage>),
    ) -> Arc<ConversationReading> {
        let mut shelves = self.shelves.lock();
        let used = shelves.entry(key.clone()).or_default();
        let reading = used.shelf.put(place, wanted, order, read);
        make_room(&mut shelves);
        reading
    }

    fn clear(&self, key: &ThreadKey) {
        if let Some(used) = self.shelves.lock().get_mut(key) {
            used.shelf.clear();
        }
    }
}

/// Evicts the conversations that were not asked for longest.
fn make_room(shelves: &mut HashMap<ThreadKey, UsedShelf>) {
    let mut size: usize = shelves.values().map(|used| used.shelf.size()).sum();
    while size > TOGETHER || shelves.len() > CONVERSATIONS {
        let Some(oldest) = shelves.iter().min_by_key(|(_, one)| one.used) else { return };
        let oldest = oldest.0.clone();
        size -= shelves.remove(&oldest).map_or(0, |one| one.shelf.size());
    }
}

impl Inner {
    /// Reads a conversation, from Slack only if the kept reading may lack something.
    ///
    /// # Errors
    /// When Slack can't be read; `thread_not_found` where the first message was deleted.
    pub(crate) async fn read_conversation(
        &self,
        account: &SlackAccount,
        (key, place): (&ThreadKey, &SlackThread),
        wanted: &WantedReading,
    ) -> Result<Arc<ConversationReading>, CallError> {
        if let ShelfAnswer::Kept(kept) = self.kept.look((key, place), wanted) {
            return Ok(kept);
        }
        let _turn = self.kept.reading.lock(key).await;
        let order = match self.kept.look((key, place), wanted) {
            ShelfAnswer::Read(order) => order,
            ShelfAnswer::Kept(kept) => return Ok(kept),
        };
        let (channel, root, after) = (&place.channel, &place.ts, order.after.as_ref());
        match conversation_pages::read_replies(&self.web, &account.bot, channel, root, after).await
        {
            Ok(mut read) => {
                for message in &mut read {
                    attribution::attribute_words(message, account);
                }
                Ok(self.kept.put((key, place), wanted, (order, read)))
            }
            Err(error) => {
                if error.code().is_some() {
                    self.kept.clear(key);
                }
                Err(error)
            }
        }
    }
}
