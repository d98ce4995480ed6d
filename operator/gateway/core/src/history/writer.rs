//! The one writer of this process: a thread that gathers what is told, and writes it down.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use codebutler_crds::wire::history::{
    GATEWAY, HistoryBatch, HistoryEvent, HistoryLine, MAX_JOURNALS, VERSION,
};
use codebutler_history::{HistoryLog, HistoryStore, KeptLine, LineWalk, RefusedBatch, ThreadPlace};
use tokio::sync::{Notify, oneshot, watch};

use super::space::HistorySpace;
use super::{lock, millis_now};
use crate::bodies::BodyClaim;
use crate::metrics::GatewayMetrics;

/// Orders that may wait for the thread.
const ORDERS: usize = 1024;
/// Orders that may wait while the store is away.
const HELD: usize = 8192;
/// Most orders written in one batch.
const ROUND: usize = 256;
/// Histories whose state is kept at hand.
const OPEN: usize = 256;
/// A history that has grown so long grows no more: no conversation is that long.
const LONGEST: u64 = 512 * 1024 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Reason why something is not kept.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TellError {
    /// The store is away: what was told has to be told again.
    #[error("the history can't be written now")]
    Away,
    /// The role has begun too many journals.
    #[error("a role can have {MAX_JOURNALS} journals in a conversation: go on with one of them")]
    Journals,
    /// Another Thread of the same name has followed.
    #[error("there is another Thread of this name now")]
    Replaced,
}

/// A Thread object: its UID, and when it was made, in milliseconds since 1970.
pub(super) type ThreadBirth = (String, u64);

/// An event that the gateway tells.
pub(super) struct EventNote {
    pub place: ThreadPlace,
    /// The Thread it is about, if it still exists.
    pub birth: Option<ThreadBirth>,
    pub key: String,
    pub at: u64,
    pub role: Option<String>,
    pub run: Option<String>,
    pub event: HistoryEvent,
}

/// Events that an agent tells, or a question about what is kept.
pub(super) struct EventBatch {
    pub place: ThreadPlace,
    pub birth: Option<ThreadBirth>,
    pub role: String,
    /// Events that the agent tells; nothing is told if absent.
    pub told: Option<HistoryBatch>,
    /// Room in the budget of all bodies, until it is written, even if the caller hangs up.
    pub _room: Option<BodyClaim>,
    pub reply: oneshot::Sender<Kept>,
}

type Kept = Result<Option<BTreeMap<String, u64>>, TellError>;

pub(super) enum WriteOrder {
    Note(Box<EventNote>),
    Batch(EventBatch),
}

impl WriteOrder {
    const fn place(&self) -> &ThreadPlace {
        match self {
            Self::Note(note) => &note.place,
            Self::Batch(batch) => &batch.place,
        }
    }

    const fn birth(&self) -> Option<&ThreadBirth> {
        match self {
            Self::Note(note) => note.birth.as_ref(),
            Self::Batch(batch) => batch.birth.as_ref(),
        }
    }
}

/// Subscriptions to the growth of histories. Cheap to clone.
#[derive(Clone, Default)]
pub struct HistoryNews(Arc<Mutex<HashMap<ThreadPlace, watch::Sender<u64>>>>);

impl HistoryNews {
    /// Changes whenever this history has grown.
    pub fn of(&self, place: &ThreadPlace) -> watch::Receiver<u64> {
        let mut all = lock(&self.0);
        all.retain(|_, sender| sender.receiver_count() > 0);
        all.entry(place.clone()).or_default().subscribe()
    }

    fn grew(&self, place: &ThreadPlace, lines: u64) {
        if let Some(sender) = lock(&self.0).get(place) {
            sender.send_replace(lines);
        }
    }
}

/// Sender of orders to the writing thread. Cheap to clone; the thread ends with the last one.
#[derive(Clone)]
pub(super) struct HistoryWriter {
    orders: SyncSender<WriteOrder>,
    pub news: HistoryNews,
    /// Notifies when there is no space left, so that old histories are removed.
    pub full: Arc<Notify>,
    lost: Arc<AtomicU64>,
}

impl HistoryWriter {
    /// Starts the writing thread, with so many bytes for all histories, if that has a bound.
    pub(super) fn start(
        store: impl HistoryStore,
        metrics: GatewayMetrics,
        size: Option<u64>,
    ) -> io::Result<Self> {
        let full = Arc::<Notify>::default();
        let (orders, taken) = sync_channel(ORDERS);
        let (news, lost) = (HistoryNews::default(), Arc::new(AtomicU64::new(0)));
        let store = JournalStore {
            store,
            logs: HashMap::new(),
            held: VecDeque::new(),
            again: None,
            pause: FIRST_PAUSE,
            news: news.clone(),
            lost: Arc::clone(&lost),
            metrics,
            space: HistorySpace::of(size, Arc::clone(&full)),
        };
        std::thread::Builder::new().name("history".to_owned()).spawn(move || store.run(&taken))?;
        Ok(Self { orders, news, full, lost })
    }

    pub(super) fn order(&self, order: WriteOrder) -> Result<(), TellError> {
        self.orders.try_send(order).map_err(|_| TellError::Away)
    }

    /// Queues an event. Never waits: events that there is no room for are counted.
    pub(super) fn note(&self, note: EventNote) {
        if self.orders.try_send(WriteOrder::Note(Box::new(note))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct JournalStore<S> {
    store: S,
    logs: HashMap<ThreadPlace, HistoryLog>,
    /// Oldest first, while the store is away.
    held: VecDeque<WriteOrder>,
    /// Time at which the store is tried again.
    again: Option<Instant>,
    pause: Duration,
    news: HistoryNews,
    lost: Arc<AtomicU64>,
    metrics: GatewayMetrics,
    space: HistorySpace,
}

impl<S: HistoryStore> JournalStore<S> {
    fn run(mut self, taken: &Receiver<WriteOrder>) {
        loop {
            let first = match self.again {
                None => taken.recv().ok(),
                Some(again) => {
                    match taken.recv_timeout(again.saturating_duration_since(Instant::now())) {
                        Ok(order) => Some(order),
                        Err(RecvTimeoutError::Timeout) => {
                            self.try_again();
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => None,
                    }
                }
            };
            let Some(first) = first else { return };
            let rest = std::iter::from_fn(|| taken.try_recv().ok()).take(ROUND);
            let orders: Vec<_> = std::iter::once(first).chain(rest).collect();
            if self.again.is_some() {
                self.hold(orders);
            } else {
                self.round(orders);
            }
        }
    }

    fn try_again(&mut self) {
        self.again = None;
        let held: Vec<_> = self.held.drain(..).collect();
        self.round(held);
        if self.again.is_none() {
            self.pause = FIRST_PAUSE;
            tracing::info!("history_write_recovered");
        }
    }

    /// Agents have what they tell at hand; what the gateway tells waits.
    fn hold(&mut self, orders: Vec<WriteOrder>) {
        for order in orders {
            match order {
                WriteOrder::Batch(batch) => drop(batch.reply.send(Err(TellError::Away))),
                WriteOrder::Note(_) if self.held.len() >= HELD => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                WriteOrder::Note(note) => self.held.push_back(WriteOrder::Note(note)),
            }
        }
        self.metrics.history(self.held.len(), self.lost.load(Ordering::Relaxed));
    }

    fn round(&mut self, orders: Vec<WriteOrder>) {
        let mut by_place: BTreeMap<ThreadPlace, Vec<WriteOrder>> = BTreeMap::new();
        for order in orders {
            by_place.entry(order.place().clone()).or_default().push(order);
        }
        for (place, orders) in by_place {
            if self.again.is_some() {
                self.hold(orders);
                continue;
            }
            match self.write(&place, &orders) {
                Ok(refused) => self.answer(&place, orders, &refused),
                Err(error) => {
                    self.logs.remove(&place);
                    if error.kind() == io::ErrorKind::InvalidData {
                        // This one alone: all others can be written.
                        tracing::error!(thread = %place, %error, "history_damaged");
                        self.drop_orders(orders);
                        continue;
                    }
                    tracing::warn!(thread = %place, %error, "history_write_failed");
                    self.again = Some(Instant::now() + self.pause);
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    self.hold(orders);
                }
            }
        }
        if self.again.is_none() {
            self.metrics.history(0, self.lost.load(Ordering::Relaxed));
        }
        if self.logs.len() > OPEN {
            self.logs.clear();
        }
    }

    /// Drops orders that can't be kept, and counts them.
    fn drop_orders(&self, orders: Vec<WriteOrder>) {
        for order in orders {
            match order {
                WriteOrder::Batch(batch) => drop(batch.reply.send(Err(TellError::Away))),
                WriteOrder::Note(_) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Writes what of the orders is new; why each order is not taken, where it is not.
    fn write(
        &mut self,
        place: &ThreadPlace,
        orders: &[WriteOrder],
    ) -> io::Result<Vec<Option<TellError>>> {
        let mut known = None;
        loop {
            let mut log = match self.logs.remove(place) {
                Some(log) => log,
                None => self.read(place, HistoryLog::default())?,
            };
            let (before, mut text) = (log.length(), Vec::new());
            if known == Some(before) {
                let message = "something is behind its end that can't be read";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            known = Some(before);
            let lost = self.lost.load(Ordering::Relaxed);
            let mut refused = vec![None; orders.len()];
            if before < LONGEST {
                for (order, refused) in orders.iter().zip(&mut refused) {
                    *refused = add_order(&mut log, order, &mut text).err();
                }
                if lost > 0 {
                    let key = format!("lost:{}", millis_now());
                    log.tell(
                        &history_line(
                            key,
                            millis_now(),
                            (None, None),
                            HistoryEvent::Lost { events: lost },
                        ),
                        &mut text,
                    );
                }
            }
            if text.is_empty() {
                self.logs.insert(place.clone(), log);
                return Ok(refused);
            }
            self.space.take(&self.store, text.len() as u64)?;
            if self.store.append(place, before, &text)? {
                self.lost.fetch_sub(lost, Ordering::Relaxed);
                self.news.grew(place, log.lines());
                self.logs.insert(place.clone(), log);
                return Ok(refused);
            }
            // Another gateway has added something: what it was has to be known first.
        }
    }

    fn read(&self, place: &ThreadPlace, mut log: HistoryLog) -> io::Result<HistoryLog> {
        let mut walk = LineWalk::new(&self.store, place, log.length());
        while let Some(line) = walk.next_line()? {
            match line {
                KeptLine::Whole(_, text) => {
                    log.read(&text);
                }
                KeptLine::Long(at, bytes, head) => {
                    tracing::warn!(thread = %place, at, bytes, "history_line_skipped");
                    log.pass(bytes, &head);
                }
            }
        }
        Ok(log)
    }

    fn answer(&self, place: &ThreadPlace, orders: Vec<WriteOrder>, refused: &[Option<TellError>]) {
        let Some(log) = self.logs.get(place) else { return };
        for (order, refused) in orders.into_iter().zip(refused) {
            if let WriteOrder::Batch(EventBatch { role, reply, .. }) = order {
                let full = log.length() >= LONGEST;
                let kept = || (!full).then(|| log.next_of(&source_prefix(&role)));
                drop(reply.send(refused.map_or_else(|| Ok(kept()), Err)));
            }
        }
    }
}

fn source_prefix(role: &str) -> String {
    format!("agent/{role}/")
}

fn add_order(
    log: &mut HistoryLog,
    order: &WriteOrder,
    text: &mut Vec<u8>,
) -> Result<(), TellError> {
    if let Some((uid, made)) = order.birth()
        && !log.begin((uid, *made), millis_now(), text)
    {
        return Err(TellError::Replaced);
    }
    match order {
        WriteOrder::Note(note) => {
            let EventNote { key, at, role, run, event, .. } = &**note;
            let of = (role.clone(), run.clone());
            log.tell(&history_line(key.clone(), *at, of, event.clone()), text);
        }
        WriteOrder::Batch(EventBatch { role, told: Some(batch), .. }) => {
            let source = source_prefix(role) + &batch.journal;
            match log.take((&source, role), batch.from, &batch.events, text) {
                Ok(()) => {}
                Err(RefusedBatch::Gap) => tracing::debug!(source, "journal_gap_detected"),
                Err(RefusedBatch::Order) => tracing::warn!(source, "journal_order_invalid"),
                Err(RefusedBatch::Journals) => {
                    tracing::warn!(source, "journal_limit_reached");
                    return Err(TellError::Journals);
                }
            }
        }
        WriteOrder::Batch(_) => {}
    }
    Ok(())
}

fn history_line(
    key: String,
    at: u64,
    (role, run): (Option<String>, Option<String>),
    event: HistoryEvent,
) -> HistoryLine {
    let source = GATEWAY.to_owned();
    HistoryLine { v: VERSION, at, source, seq: None, key: Some(key), role, run, event }
}

#[cfg(test)]
mod tests;
