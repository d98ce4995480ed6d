//! Histories of conversations, kept for later: what agents tell of their runs, and what the gateway
//! sees and does itself. Nothing waits for it but the agents' own telling; while the store is away,
//! work goes on, and what the gateway tells waits in a buffer that is bounded.
//!
//! Pure: [`facts`], [`mask`]. [`writer`] writes, on a thread of its own, and [`crate::history_follow`] looks at
//! Threads.

pub(crate) mod facts;
pub mod mask;
pub mod reads;
mod requests;
mod space;
mod spans;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use codebutler_crds::wire::history::{HistoryBatch, HistoryEvent, ModelCall};
use codebutler_crds::wire::{MessageAuthor, SharedPicture, ThreadMessage};
use codebutler_crds::{SlackTs, Thread};
use codebutler_history::{AnyStore, HistoryBucket, HistoryVolume, ThreadPlace};
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use url::Url;

pub use self::facts::decision_fact;
use self::reads::HistoryReads;
use self::spans::{RunBeginnings, SpanOwner};
use self::writer::{EventBatch, EventNote, HistoryWriter, ThreadBirth, WriteOrder};
pub use self::writer::{HistoryNews, TellError};
use crate::bodies::BodyClaim;
use crate::caller::ProvenCaller;
use crate::dial::{DialReach, OutsideDialer};
use crate::redact::SecretRedactor;
use crate::thread_key::ThreadKey;

/// Histories, written. Cheap to clone; of the default one nothing is kept.
#[derive(Clone, Default)]
pub struct HistoryKeeper {
    writer: Option<HistoryWriter>,
    store: Option<AnyStore>,
    runs: RunBeginnings,
    /// Watch cache that tells which object has a name now.
    threads: Option<Store<Thread>>,
    reads: HistoryReads,
}

impl HistoryKeeper {
    /// Writes below a folder, or, with an address, to an object store: then the folder holds what was read
    /// of it. All together have so many bytes, if that has a bound.
    ///
    /// # Errors
    /// When no thread can be had for it, the folder can't be written, or the address is wrong.
    pub fn at(
        root: &Path,
        url: Option<&Url>,
        dialer: &OutsideDialer,
        (metrics, size): (crate::metrics::GatewayMetrics, Option<u64>),
    ) -> anyhow::Result<Self> {
        let store = open_store(root, url, dialer, Handle::current())?;
        if let AnyStore::Volume(volume) = &store {
            volume.unmark_cache().context("the folder of --history can't be written")?;
        }
        let writer = HistoryWriter::start(store.clone(), metrics, size)?;
        Ok(Self { writer: Some(writer), store: Some(store), ..Self::default() })
    }

    /// Sets the watch cache of Threads: a history belongs to one of them, not to its name.
    #[must_use]
    pub fn knowing(self, threads: &Store<Thread>) -> Self {
        Self { threads: Some(threads.clone()), ..self }
    }

    fn birth(&self, thread: &ThreadKey) -> Option<ThreadBirth> {
        let object = ObjectRef::new(&thread.name).within(&thread.namespace);
        birth_of(&*self.threads.as_ref()?.get(&object)?)
    }

    /// Returns the store from which histories can be read.
    pub fn store(&self) -> Option<&AnyStore> {
        self.store.as_ref()
    }

    /// Ends when there is no space left for them.
    pub async fn full(&self) {
        match &self.writer {
            Some(writer) => writer.full.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the readings of histories for agents.
    pub const fn reads(&self) -> &HistoryReads {
        &self.reads
    }

    /// Says when a history has grown.
    pub fn news(&self) -> HistoryNews {
        self.writer.as_ref().map(|writer| writer.news.clone()).unwrap_or_default()
    }

    /// Tells an event, once for each key. Masks it here.
    pub fn tell(&self, thread: &ThreadKey, redactor: &SecretRedactor, told: ToldEvent) {
        let (Some(writer), Some(place)) = (&self.writer, history_place(thread)) else { return };
        let ToldEvent { key, at, role, run, event } = told;
        let event = mask::mask_event(&event, redactor);
        let at = at.unwrap_or_else(millis_now);
        let birth = self.birth(thread);
        writer.note(EventNote { place, birth, key, at, role, run, event });
    }

    /// Messages of a conversation.
    pub fn messages<'m>(
        &self,
        thread: &ThreadKey,
        redactor: &SecretRedactor,
        messages: impl Iterator<Item = &'m ThreadMessage>,
    ) {
        for ThreadMessage { ts, author, text, pictures, .. } in messages {
            self.message(thread, redactor, ts, author.clone(), text);
            for picture in pictures {
                self.picture(thread, redactor, Some(ts), author.clone(), picture);
            }
        }
    }

    /// A picture of a conversation, and the message that it came with where that is known.
    pub fn picture(
        &self,
        thread: &ThreadKey,
        redactor: &SecretRedactor,
        ts: Option<&SlackTs>,
        author: MessageAuthor,
        SharedPicture { id, name }: &SharedPicture,
    ) {
        let (key, at, role) = (format!("picture:{id}"), ts.map(message_millis), role_of(&author));
        let event = HistoryEvent::Picture { id: id.clone(), name: name.clone(), author };
        self.tell(thread, redactor, ToldEvent { key, at, role, run: None, event });
    }

    /// A message of a conversation.
    pub fn message(
        &self,
        thread: &ThreadKey,
        redactor: &SecretRedactor,
        ts: &SlackTs,
        author: MessageAuthor,
        text: &str,
    ) {
        if self.writer.is_none() {
            return;
        }
        let role = role_of(&author);
        let event = HistoryEvent::Message { ts: ts.clone(), author, text: text.to_owned() };
        let (key, at) = (format!("message:{ts}"), Some(message_millis(ts)));
        self.tell(thread, redactor, ToldEvent { key, at, role, run: None, event });
    }

    /// An answer that was paid for. `id` is the call's own.
    pub fn call(&self, thread: &ThreadKey, role: &str, id: &str, call: ModelCall) {
        let (key, role) = (format!("call:{id}"), Some(role.to_owned()));
        let told =
            ToldEvent { key, at: None, role, run: None, event: HistoryEvent::ModelCall(call) };
        self.tell(thread, &SecretRedactor::default(), told);
    }

    /// Waits until all that was told so far is written, for so long at most.
    pub async fn flush(&self, patience: Duration) {
        let (Some(writer), Some(place)) = (&self.writer, ThreadPlace::new("none", "none")) else {
            return;
        };
        let (reply, written) = oneshot::channel();
        let last =
            EventBatch { place, birth: None, role: String::new(), told: None, _room: None, reply };
        let written = timeout(patience, written);
        if writer.order(WriteOrder::Batch(last)).is_err() || !matches!(written.await, Ok(Ok(Ok(_))))
        {
            tracing::warn!("history_flush_failed");
        }
    }

    /// Keeps what a role's journal says next; the numbers that are wanted next of the role's
    /// journals. A batch keeps its room until it is written.
    ///
    /// # Errors
    /// When it can't be kept, or not now.
    pub async fn take(
        &self,
        caller: &ProvenCaller,
        batch: Option<(HistoryBatch, Option<BodyClaim>)>,
    ) -> Result<Option<BTreeMap<String, u64>>, TellError> {
        let (Some(writer), Some(place)) = (&self.writer, history_place(&caller.key())) else {
            return Ok(None);
        };
        let (reply, kept) = oneshot::channel();
        let role = caller.role_name().to_owned();
        let (batch, room) = batch.unzip();
        let room = room.flatten();
        let (thread, conversation) = (caller.key().to_string(), &*caller.thread.name_any());
        let owner = SpanOwner { thread, conversation, role: caller.role_name() };
        let spans = batch.as_ref().map(|told| self.runs.spans_of(&owner, told));
        let birth = birth_of(&caller.thread);
        writer.order(WriteOrder::Batch(EventBatch {
            place,
            birth,
            role,
            told: batch,
            _room: room,
            reply,
        }))?;
        let kept = kept.await.unwrap_or(Err(TellError::Away))?;
        // Once it is kept: what could not be is told again.
        RunBeginnings::send(&owner, spans.unwrap_or_default());
        Ok(kept)
    }
}

/// Returns the UID of a Thread and its creation time.
fn birth_of(thread: &Thread) -> Option<ThreadBirth> {
    let made = thread.metadata.creation_timestamp.as_ref()?.0.as_millisecond();
    Some((thread.uid()?, u64::try_from(made).ok()?))
}

/// Opens the store of histories.
///
/// # Errors
/// When the address is wrong.
pub fn open_store(
    root: &Path,
    url: Option<&Url>,
    dialer: &OutsideDialer,
    handle: Handle,
) -> anyhow::Result<AnyStore> {
    let volume = HistoryVolume::new(root);
    let Some(url) = url else { return Ok(AnyStore::Volume(volume)) };
    let http = dialer.http(DialReach::Anywhere).clone();
    let bucket = HistoryBucket::open(url, volume, http, handle);
    let bucket = bucket.with_context(|| format!("--history-url={url}"))?;
    Ok(AnyStore::Bucket(Box::new(bucket)))
}

/// An event that the gateway tells.
pub struct ToldEvent {
    /// Key under which the event is told once.
    pub key: String,
    /// Milliseconds since 1970; now if absent.
    pub at: Option<u64>,
    pub role: Option<String>,
    pub run: Option<String>,
    pub event: HistoryEvent,
}

fn role_of(author: &MessageAuthor) -> Option<String> {
    match author {
        MessageAuthor::Role { role } => Some(role.clone()),
        _ => None,
    }
}

fn history_place(thread: &ThreadKey) -> Option<ThreadPlace> {
    ThreadPlace::new(&thread.namespace, &thread.name)
}

pub fn millis_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time of a message in milliseconds: a Slack `ts` is seconds with a fraction.
fn message_millis(ts: &SlackTs) -> u64 {
    let (seconds, fraction) = ts.as_str().split_once('.').unwrap_or((ts.as_str(), "0"));
    let seconds: u64 = seconds.parse().unwrap_or(0);
    let millis: u64 = fraction.get(..3).and_then(|text| text.parse().ok()).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(millis)
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
