use std::sync::atomic::AtomicBool;

use codebutler_crds::wire::history::ToldEntry;
use codebutler_history::HistoryVolume;
use prometheus_client::registry::Registry;

use super::*;
use crate::bodies::BodyBudget;
use crate::repo_key::RepoKey;
use crate::thread_key::ThreadKey;

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
    EventNote { place, birth: None, key, at: 1, role: None, run: None, event }
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
    let writer = HistoryWriter::start(store, metrics, None).unwrap();
    for n in 0..50 {
        writer.note(note(&place, n));
    }
    let (reply, kept) = oneshot::channel();
    let batch = EventBatch {
        place: place.clone(),
        birth: None,
        role: "pm".into(),
        told: None,
        _room: None,
        reply,
    };
    writer.order(WriteOrder::Batch(batch)).unwrap();
    assert_eq!(
        kept.blocking_recv().unwrap(),
        Err(TellError::Away),
        "an agent is told to come again"
    );
    away.store(false, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(20);
    while lines(&volume, &place).len() < 50 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    let texts: Vec<_> = lines(&volume, &place).into_iter().filter_map(|line| line.key).collect();
    assert_eq!(texts, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn two_gateways_that_overlap_tell_everything_once() {
    let dir = tempfile::tempdir().unwrap();
    let volume = HistoryVolume::new(dir.path());
    let place = ThreadPlace::new("team", "shop-1").unwrap();
    let writer = || {
        HistoryWriter::start(
            volume.clone(),
            GatewayMetrics::register(&mut Registry::default()),
            None,
        )
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
        let batch = EventBatch {
            place: place.clone(),
            birth: None,
            role: "pm".into(),
            told: None,
            _room: None,
            reply,
        };
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

fn started(volume: &HistoryVolume) -> HistoryWriter {
    let metrics = GatewayMetrics::register(&mut Registry::default());
    HistoryWriter::start(volume.clone(), metrics, None).unwrap()
}

fn told(
    writer: &HistoryWriter,
    place: &ThreadPlace,
    journal: &str,
    birth: Option<ThreadBirth>,
) -> Kept {
    let event = HistoryEvent::Note { text: journal.to_owned() };
    let events = vec![ToldEntry { seq: 1, at: 1, run: None, event }];
    let batch = HistoryBatch { journal: journal.to_owned(), from: 1, events };
    let (reply, kept) = oneshot::channel();
    let (place, role) = (place.clone(), "pm".to_owned());
    let batch = EventBatch { place, birth, role, told: Some(batch), _room: None, reply };
    writer.order(WriteOrder::Batch(batch)).unwrap();
    kept.blocking_recv().unwrap()
}

/// A store that takes its time.
struct Slow(HistoryVolume, Arc<AtomicBool>);

impl HistoryStore for Slow {
    fn length(&self, place: &ThreadPlace) -> io::Result<u64> {
        self.0.length(place)
    }
    fn read(&self, place: &ThreadPlace, from: u64, most: u64) -> io::Result<Vec<u8>> {
        while self.1.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.0.read(place, from, most)
    }
    fn append(&mut self, place: &ThreadPlace, length: u64, lines: &[u8]) -> io::Result<bool> {
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

#[tokio::test]
async fn what_waits_for_a_slow_store_is_counted_though_its_sender_hung_up() {
    let dir = tempfile::tempdir().unwrap();
    let (volume, slow) = (HistoryVolume::new(dir.path()), Arc::new(AtomicBool::new(true)));
    let metrics = GatewayMetrics::register(&mut Registry::default());
    let writer = HistoryWriter::start(Slow(volume, Arc::clone(&slow)), metrics, None).unwrap();
    let budget = BodyBudget::that_waits(Duration::from_millis(50), None);
    let claim = || {
        let claim = budget.claim();
        let thread = ThreadKey { namespace: "team".into(), name: "shop-1".into() };
        claim.owned_by(thread, RepoKey { namespace: "team".into(), name: "shop".into() });
        claim
    };
    let place = ThreadPlace::new("team", "shop-1").unwrap();
    for journal in ["a", "b"] {
        let room = claim();
        room.take(20 << 20).await.unwrap();
        let (reply, _) = oneshot::channel();
        let event = HistoryEvent::Note { text: journal.to_owned() };
        let events = vec![ToldEntry { seq: 1, at: 1, run: None, event }];
        let told = Some(HistoryBatch { journal: journal.to_owned(), from: 1, events });
        let birth = None;
        let (place, role) = (place.clone(), journal.to_owned());
        let batch = EventBatch { place, birth, role, told, _room: Some(room), reply };
        writer.order(WriteOrder::Batch(batch)).unwrap();
    }
    claim().take(1 << 20).await.unwrap_err();
    slow.store(false, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(20);
    while claim().take(20 << 20).await.is_err() {
        assert!(Instant::now() < deadline, "what was written takes room for ever");
    }
}

#[test]
fn a_line_that_is_too_long_is_passed_over_and_what_comes_next_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut volume = HistoryVolume::new(dir.path());
    let [place, other] = ["shop-1", "shop-2"].map(|name| ThreadPlace::new("team", name).unwrap());
    let event = HistoryEvent::Note { text: "x".repeat(9 << 20) };
    let (source, seq, role) = ("agent/pm/j".to_owned(), Some(7), Some("pm".to_owned()));
    let long = HistoryLine { v: VERSION, at: 1, source, seq, key: None, role, run: None, event };
    let long = serde_json::to_string(&long).unwrap() + "\n";
    assert!(volume.append(&place, 0, long.as_bytes()).unwrap());
    let writer = started(&volume);
    writer.note(note(&place, 1));
    writer.note(note(&other, 1));
    let kept = told(&writer, &place, "k", None).unwrap().unwrap();
    assert_eq!(kept, BTreeMap::from([("j".to_owned(), 8), ("k".to_owned(), 2)]));
    let keys = |place: &ThreadPlace| {
        lines(&volume, place).into_iter().filter_map(|line| line.key).collect::<Vec<_>>()
    };
    assert_eq!((keys(&place), keys(&other)), (vec!["1".to_owned()], vec!["1".to_owned()]));
}

/// A store in which something is behind the end that nobody can read.
struct Blind(HistoryVolume, ThreadPlace);

impl HistoryStore for Blind {
    fn length(&self, place: &ThreadPlace) -> io::Result<u64> {
        self.0.length(place)
    }
    fn read(&self, place: &ThreadPlace, from: u64, most: u64) -> io::Result<Vec<u8>> {
        if *place == self.1 { Ok(Vec::new()) } else { self.0.read(place, from, most) }
    }
    fn append(&mut self, place: &ThreadPlace, length: u64, lines: &[u8]) -> io::Result<bool> {
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

#[test]
fn a_history_that_can_not_be_gone_on_with_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut volume = HistoryVolume::new(dir.path());
    let [place, other] = ["shop-1", "shop-2"].map(|name| ThreadPlace::new("team", name).unwrap());
    assert!(volume.append(&place, 0, b"{}\n").unwrap());
    let metrics = GatewayMetrics::register(&mut Registry::default());
    let writer = HistoryWriter::start(Blind(volume.clone(), place.clone()), metrics, None).unwrap();
    assert_eq!(told(&writer, &place, "j", None), Err(TellError::Away));
    told(&writer, &other, "j", None).unwrap();
}

#[test]
fn a_role_has_so_many_journals_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let volume = HistoryVolume::new(dir.path());
    let place = ThreadPlace::new("team", "shop-1").unwrap();
    let writer = started(&volume);
    for n in 0..MAX_JOURNALS {
        told(&writer, &place, &format!("j{n}"), None).unwrap();
    }
    assert_eq!(told(&writer, &place, "j64", None), Err(TellError::Journals));
    let kept = told(&writer, &place, "j0", None).unwrap().unwrap();
    assert_eq!(kept.len(), MAX_JOURNALS);
}

#[test]
fn a_thread_of_the_same_name_begins_anew_and_the_one_before_adds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let volume = HistoryVolume::new(dir.path());
    let place = ThreadPlace::new("team", "shop-1").unwrap();
    let writer = started(&volume);
    let birth = |uid: &str| Some((uid.to_owned(), 5));
    told(&writer, &place, "j", birth("one")).unwrap();
    let kept = told(&writer, &place, "k", birth("other")).unwrap().unwrap();
    assert_eq!(kept, BTreeMap::from([("k".to_owned(), 2)]), "nothing of the one before");
    assert_eq!(told(&writer, &place, "l", birth("one")), Err(TellError::Replaced));
    // Another gateway reads it the same way.
    let writer = started(&volume);
    assert_eq!(told(&writer, &place, "l", birth("one")), Err(TellError::Replaced));
    told(&writer, &place, "k", birth("other")).unwrap();
    let begun = lines(&volume, &place).into_iter().filter_map(|line| match line.event {
        HistoryEvent::Begun { uid, whole } => Some((uid, whole)),
        _ => None,
    });
    let begun: Vec<_> = begun.collect();
    assert_eq!(begun, [("one".to_owned(), true), ("other".to_owned(), false)]);
}

#[test]
fn no_history_grows_beyond_the_space_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let volume = HistoryVolume::new(dir.path());
    let [place, other] = ["shop-1", "shop-2"].map(|name| ThreadPlace::new("team", name).unwrap());
    let metrics = GatewayMetrics::register(&mut Registry::default());
    let writer = HistoryWriter::start(volume.clone(), metrics, Some(4000)).unwrap();
    let mut kept = 0;
    while told(&writer, &place, &format!("j{kept}"), None).is_ok() {
        kept += 1;
        assert!(kept < 60, "it grows on");
    }
    let bytes = |place: &ThreadPlace| volume.length(place).unwrap();
    assert!((1000..=4000).contains(&bytes(&place)), "{}", bytes(&place));
    assert_eq!(told(&writer, &other, "j", None), Err(TellError::Away));
    // Removing a history makes room.
    volume.clone().remove(&place).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while told(&writer, &other, "j", None).is_err() {
        assert!(Instant::now() < deadline, "there is room, and nothing is written");
        std::thread::sleep(Duration::from_millis(50));
    }
}
