//! The one writer of this process: a thread that gathers what is told, and writes it down.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use codebutler_crds::wire::history::{GATEWAY, HistoryBatch, HistoryEvent, HistoryLine, VERSION};
use codebutler_history::{HistoryLog, HistoryStore, RefusedBatch, ThreadPlace};
use tokio::sync::{oneshot, watch};

use super::{lock, millis_now};
use crate::gateway::metrics::GatewayMetrics;

/// What may wait to be taken by the thread.
const ORDERS: usize = 1024;
/// What may wait for a store that is away.
const HELD: usize = 8192;
/// Written in one go.
const ROUND: usize = 256;
/// Histories whose state is kept at hand.
const OPEN: usize = 256;
/// A history that has grown so long grows no more: no conversation is that long.
const LONGEST: u64 = 512 * 1024 * 1024;
const CHUNK: u64 = 8 * 1024 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The store is away: what was told has to be told again.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the history can't be written now")]
pub struct StoreUnavailable;

/// What the gateway tells.
pub struct EventNote {
    pub place: ThreadPlace,
    pub key: String,
    pub at: u64,
    pub role: Option<String>,
    pub run: Option<String>,
    pub event: HistoryEvent,
}

/// What an agent tells, or wants to know.
pub struct EventBatch {
    pub place: ThreadPlace,
    pub role: String,
    /// Nothing is told if absent.
    pub told: Option<HistoryBatch>,
    pub reply: oneshot::Sender<Kept>,
}

type Kept = Result<Option<BTreeMap<String, u64>>, StoreUnavailable>;

pub enum WriteOrder {
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
}

/// Who waits for histories to grow. Cheap to clone.
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

/// Where orders are given. Cheap to clone; the thread ends with the last one.
#[derive(Clone)]
pub struct HistoryWriter {
    orders: SyncSender<WriteOrder>,
    pub news: HistoryNews,
    lost: Arc<AtomicU64>,
}

impl HistoryWriter {
    pub fn start(store: impl HistoryStore, metrics: GatewayMetrics) -> io::Result<Self> {
        let (orders, taken) = sync_channel(ORDERS);
        let (news, lost) = (HistoryNews::default(), Arc::new(AtomicU64::new(0)));
        let desk = Desk {
            store,
            logs: HashMap::new(),
            held: VecDeque::new(),
            again: None,
            pause: FIRST_PAUSE,
            news: news.clone(),
            lost: Arc::clone(&lost),
            metrics,
        };
        std::thread::Builder::new().name("history".to_owned()).spawn(move || desk.run(&taken))?;
        Ok(Self { orders, news, lost })
    }

    pub fn order(&self, order: WriteOrder) -> Result<(), StoreUnavailable> {
        self.orders.try_send(order).map_err(|_| StoreUnavailable)
    }

    /// Never waits: what there is no room for is counted.
    pub fn note(&self, note: EventNote) {
        if let Err(TrySendError::Full(_)) = self.orders.try_send(WriteOrder::Note(Box::new(note))) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Desk<S> {
    store: S,
    logs: HashMap<ThreadPlace, HistoryLog>,
    /// Oldest first, while the store is away.
    held: VecDeque<WriteOrder>,
    /// When the store is tried again.
    again: Option<Instant>,
    pause: Duration,
    news: HistoryNews,
    lost: Arc<AtomicU64>,
    metrics: GatewayMetrics,
}

impl<S: HistoryStore> Desk<S> {
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
            tracing::info!("the history is written again");
        }
    }

    /// Agents have what they tell at hand; what the gateway tells waits.
    fn hold(&mut self, orders: Vec<WriteOrder>) {
        for order in orders {
            match order {
                WriteOrder::Batch(batch) => drop(batch.reply.send(Err(StoreUnavailable))),
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
            } else if let Err(error) = self.write(&place, &orders) {
                self.logs.remove(&place);
                tracing::warn!(thread = %place, %error, "the history can't be written: it waits");
                self.again = Some(Instant::now() + self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.hold(orders);
            } else {
                self.answer(&place, orders);
            }
        }
        if self.again.is_none() {
            self.metrics.history(0, self.lost.load(Ordering::Relaxed));
        }
        if self.logs.len() > OPEN {
            self.logs.clear();
        }
    }

    /// Writes what of the orders is new.
    fn write(&mut self, place: &ThreadPlace, orders: &[WriteOrder]) -> io::Result<()> {
        loop {
            let mut log = match self.logs.remove(place) {
                Some(log) => log,
                None => self.read(place, HistoryLog::default())?,
            };
            let (before, mut text) = (log.length(), Vec::new());
            let lost = self.lost.load(Ordering::Relaxed);
            if before < LONGEST {
                for order in orders {
                    add_order(&mut log, order, &mut text);
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
                return Ok(());
            }
            if self.store.append(place, before, &text)? {
                self.lost.fetch_sub(lost, Ordering::Relaxed);
                self.news.grew(place, log.lines());
                self.logs.insert(place.clone(), log);
                return Ok(());
            }
            // Another gateway has added something: what it was has to be known first.
        }
    }

    fn read(&self, place: &ThreadPlace, mut log: HistoryLog) -> io::Result<HistoryLog> {
        loop {
            let text = self.store.read(place, log.length(), CHUNK)?;
            if log.read(&text) == 0 {
                return Ok(log);
            }
        }
    }

    fn answer(&self, place: &ThreadPlace, orders: Vec<WriteOrder>) {
        let Some(log) = self.logs.get(place) else { return };
        for order in orders {
            if let WriteOrder::Batch(EventBatch { role, reply, .. }) = order {
                let full = log.length() >= LONGEST;
                let kept = (!full).then(|| log.next_of(&source_prefix(&role)));
                drop(reply.send(Ok(kept)));
            }
        }
    }
}

fn source_prefix(role: &str) -> String {
    format!("agent/{role}/")
}

fn add_order(log: &mut HistoryLog, order: &WriteOrder, text: &mut Vec<u8>) {
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
                Err(RefusedBatch::Gap) => tracing::debug!(source, "a journal goes back"),
                Err(RefusedBatch::Order) => tracing::warn!(source, "a journal is out of order"),
            }
        }
        WriteOrder::Batch(_) => {}
    }
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
mod tests {
    use super::*;
    use codebutler_history::HistoryVolume;
    use prometheus_client::registry::Registry;
    use std::sync::atomic::AtomicBool;

    /// A volume that is away at times.
    struct Flaky(HistoryVolume, Arc<AtomicBool>);

    impl HistoryStore for Flaky {
        fn length(&self, place: &ThreadPlace) -> io::Result<u64> {
            self.0.length(place)
        }
        fn read(&self, place: &ThreadPlace, from: u64, most: u64) -> io::Result<Vec<u8>> {
            self.0.read(place, from, most)
        }
        fn append(&mut self, place: &ThreadPlace, length: u64, lines: &[u8]) -> io::Result<bool> {
            if self.1.load(Ordering::SeqCst) {
                // As a full disk does it: something is there.
                self.0.append(place, length, &lines[..lines.len() / 2])?;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.append(place, length, lines)
        }
        fn replace(&mut self, place: &ThreadPlace, at: u64, text: &[u8]) -> io::Result<()> {
            self.0.replace(place, at, text)
        }
        fn list(&self) -> io::Result<Vec<codebutler_history::StoredHistory>> {
            self.0.list()
        }
        fn remove(&mut self, place: &ThreadPlace) -> io::Result<()> {
            self.0.remove(place)
        }
    }

    fn note(place: &ThreadPlace, n: u32) -> EventNote {
        let event = HistoryEvent::Note { text: n.to_string() };
        let (key, place) = (n.to_string(), place.clone());
        EventNote { place, key, at: 1, role: None, run: None, event }
    }

    fn lines(volume: &HistoryVolume, place: &ThreadPlace) -> Vec<HistoryLine> {
        let text = volume.read(place, 0, u64::MAX).unwrap();
        let whole = text.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n"));
        whole.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    #[test]
    fn what_is_told_while_the_store_is_away_is_written_once_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, away) = (HistoryVolume::new(dir.path()), Arc::new(AtomicBool::new(true)));
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let metrics = GatewayMetrics::register(&mut Registry::default());
        let store = Flaky(volume.clone(), Arc::clone(&away));
        let writer = HistoryWriter::start(store, metrics).unwrap();
        for n in 0..50 {
            writer.note(note(&place, n));
        }
        let (reply, kept) = oneshot::channel();
        let batch = EventBatch { place: place.clone(), role: "pm".into(), told: None, reply };
        writer.order(WriteOrder::Batch(batch)).unwrap();
        assert_eq!(
            kept.blocking_recv().unwrap(),
            Err(StoreUnavailable),
            "an agent is told to come again"
        );
        away.store(false, Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(20);
        while lines(&volume, &place).len() < 50 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
        }
        let texts: Vec<_> =
            lines(&volume, &place).into_iter().filter_map(|line| line.key).collect();
        assert_eq!(texts, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn two_gateways_that_overlap_tell_everything_once() {
        let dir = tempfile::tempdir().unwrap();
        let volume = HistoryVolume::new(dir.path());
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let writer = || {
            HistoryWriter::start(volume.clone(), GatewayMetrics::register(&mut Registry::default()))
                .unwrap()
        };
        let (one, other) = (writer(), writer());
        for n in 0..200 {
            one.note(note(&place, n));
            other.note(note(&place, n));
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while lines(&volume, &place).len() < 200 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
        }
        for writer in [one, other] {
            let (reply, kept) = oneshot::channel();
            let batch = EventBatch { place: place.clone(), role: "pm".into(), told: None, reply };
            writer.order(WriteOrder::Batch(batch)).unwrap();
            kept.blocking_recv().unwrap().unwrap();
        }
        let mut keys: Vec<u32> = lines(&volume, &place)
            .iter()
            .map(|line| line.key.as_ref().unwrap().parse().unwrap())
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..200).collect::<Vec<_>>());
    }
}
