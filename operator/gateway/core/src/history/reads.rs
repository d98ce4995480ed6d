//! Histories read for agents: a few at once, and where the lines are is kept from one look to the next.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use codebutler_crds::wire::history::{GATEWAY, HistoryEvent, HistoryLine, VERSION};
use codebutler_crds::wire::{HistoryLines, PastConversation};
use codebutler_history::{AnyStore, LineIndex, ThreadPlace};
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;

use super::requests::{self, RequestMemory};
use crate::low_priority::run_low_priority;
use crate::places::{NoPlace, SharedPlaces};
use crate::repo_key::RepoKey;
use crate::thread_key::ThreadKey;

/// Lines, and their bytes, of one answer.
const LINES: (u64, u64) = (5_000, 2 * 1024 * 1024);
/// Histories in which it is known where the lines are.
const KNOWN: usize = 128;

/// Failure to read lines of a history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryReadError {
    /// As many histories are read as can be at once.
    #[error(transparent)]
    Busy(#[from] NoPlace),
    #[error("the history can't be read right now: try again")]
    Store(#[from] io::Error),
}

type SharedIndex = Arc<Mutex<LineIndex>>;

/// Readings of histories, limited in number. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct HistoryReads {
    places: SharedPlaces,
    indexes: Arc<Mutex<RecentMap<ThreadPlace, SharedIndex>>>,
    requests: RequestMemory,
}

impl Default for HistoryReads {
    fn default() -> Self {
        let indexes = Arc::new(Mutex::new(RecentMap::new(KNOWN)));
        let requests = RequestMemory::default();
        Self { places: SharedPlaces::for_histories(), indexes, requests }
    }
}

/// A reader of a history, and the Thread that it belongs to.
pub struct HistoryReader<'r> {
    pub thread: &'r ThreadKey,
    pub repo: RepoKey,
    /// UID of the Thread: lines of another one of its name are not its own.
    pub uid: &'r str,
}

impl HistoryReads {
    /// Lines of a Thread behind this one: [`HistoryLines`] as JSON. Writing megabytes of it on a
    /// worker of the runtime would keep others' messages waiting.
    ///
    /// # Errors
    /// When they can't be read, or not now.
    pub async fn page(
        &self,
        store: &AnyStore,
        reader: HistoryReader<'_>,
        behind: u64,
    ) -> Result<Bytes, HistoryReadError> {
        let ThreadKey { namespace, name } = reader.thread;
        let Some(history) = ThreadPlace::new(namespace, name) else {
            return Ok(write_lines(&HistoryLines::default())?);
        };
        let place = self.places.place(reader.thread, &reader.repo).await?;
        let (store, uid, index) = (store.clone(), reader.uid.to_owned(), self.index(&history));
        let reading = move || {
            let read = read_page(&store, &mut index.lock(), (&history, &uid), behind)
                .and_then(|lines| write_lines(&lines));
            // For as long as it lasts, even if the caller has gone.
            drop(place);
            read
        };
        Ok(run_low_priority(reading).await??)
    }

    /// First requests of other conversations of the Repo.
    ///
    /// # Errors
    /// When they can't be read, or not now.
    pub async fn requests(
        &self,
        store: &AnyStore,
        reader: HistoryReader<'_>,
    ) -> Result<Vec<PastConversation>, HistoryReadError> {
        let place = self.places.place(reader.thread, &reader.repo).await?;
        let (store, memory) = (store.clone(), self.requests.clone());
        let (own, repo) = (reader.thread.clone(), reader.repo.name.clone());
        let reading = move || {
            let read = requests::list_requests(&store, &memory, &own, &repo);
            drop(place);
            read
        };
        Ok(run_low_priority(reading).await??)
    }

    fn index(&self, history: &ThreadPlace) -> SharedIndex {
        let mut known = self.indexes.lock();
        if let Some(index) = known.get(history) {
            return Arc::clone(index);
        }
        let index = SharedIndex::default();
        known.insert(history.clone(), Arc::clone(&index));
        index
    }
}

/// Writes lines as JSON for an answer.
///
/// # Errors
/// When they can't be written as JSON.
pub fn write_lines(lines: &HistoryLines) -> io::Result<Bytes> {
    Ok(serde_json::to_vec(lines)?.into())
}

fn read_page(
    store: &AnyStore,
    index: &mut LineIndex,
    (place, uid): (&ThreadPlace, &str),
    behind: u64,
) -> io::Result<HistoryLines> {
    let of = index.refresh(store, place)?;
    let first = match index.begun() {
        Some(begun) if begun.uid == uid => begun.line,
        Some(_) => return Ok(HistoryLines::default()),
        None => 1,
    };
    let first = behind.saturating_add(1).max(first);
    let page = index.page(store, place, first, LINES)?;
    let last = first.saturating_add(page.lines.len() as u64) - 1;
    let lines = page.lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| gap()));
    let more = !page.lines.is_empty() && last < of;
    Ok(HistoryLines { lines: lines.collect(), behind: more.then_some(last) })
}

/// Stands for a line that can't be read.
fn gap() -> HistoryLine {
    let text = "A line of the history is too long or damaged: it is left out here.".to_owned();
    let (source, event) = (GATEWAY.to_owned(), HistoryEvent::Note { text });
    HistoryLine { v: VERSION, at: 0, source, seq: None, key: None, role: None, run: None, event }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_history::{HistoryStore as _, HistoryVolume};
    use serde_json::{Value, json};

    fn line(event: &Value) -> String {
        let mut line = json!({"v": 1, "at": 1, "source": GATEWAY});
        line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        line.to_string() + "\n"
    }

    fn kept(lines: &[String]) -> (tempfile::TempDir, AnyStore) {
        let dir = tempfile::tempdir().unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        assert!(volume.append(&place, 0, lines.concat().as_bytes()).unwrap());
        (dir, AnyStore::Volume(volume))
    }

    fn reader<'r>(thread: &'r ThreadKey, uid: &'r str) -> HistoryReader<'r> {
        let repo = RepoKey { namespace: "team".into(), name: "shop".into() };
        HistoryReader { thread, repo, uid }
    }

    fn read_lines(page: &[u8]) -> HistoryLines {
        serde_json::from_slice(page).unwrap()
    }

    fn shop() -> ThreadKey {
        ThreadKey { namespace: "team".into(), name: "shop-1".into() }
    }

    #[tokio::test]
    async fn a_thread_reads_nothing_of_another_one_of_its_name() {
        let begun = |uid: &str| line(&json!({"event": "begun", "uid": uid}));
        let note = |text: &str| line(&json!({"event": "note", "text": text}));
        let lines = [begun("one"), note("private"), begun("other"), "{]\n".into(), note("own")];
        let ((_dir, store), reads, thread) = (kept(&lines), HistoryReads::default(), shop());
        let read = read_lines(&reads.page(&store, reader(&thread, "other"), 0).await.unwrap());
        let shown = serde_json::to_string(&read).unwrap();
        assert!(shown.contains("own") && !shown.contains("private"), "{shown}");
        assert!(shown.contains("left out here"), "a gap is named: {shown}");
        assert_eq!(read.lines.len(), 3);
        let read = read_lines(&reads.page(&store, reader(&thread, "one"), 0).await.unwrap());
        assert!(read.lines.is_empty() && read.behind.is_none(), "it is gone");
    }

    #[tokio::test]
    async fn a_flood_of_readings_takes_a_few_places_and_what_is_known_is_kept() {
        let lines: Vec<_> =
            (0..500).map(|n| line(&json!({"event": "note", "text": n.to_string()}))).collect();
        let ((_dir, store), reads, thread) = (kept(&lines), HistoryReads::default(), shop());
        let index = reads.index(&ThreadPlace::new("team", "shop-1").unwrap());
        // Held up, as by a slow store.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (slow, (holds, held)) = (Arc::clone(&index), std::sync::mpsc::channel());
        let holding = std::thread::spawn(move || {
            let _held = slow.lock();
            holds.send(()).unwrap();
            released.recv().unwrap_err();
        });
        held.recv().unwrap();
        let flood: Vec<_> = (0..100)
            .map(|_| {
                let (reads, store, thread) = (reads.clone(), store.clone(), thread.clone());
                tokio::spawn(async move { reads.page(&store, reader(&thread, "one"), 0).await })
            })
            .collect();
        while reads.places.taken() < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(reads.places.taken(), 2);
        drop(release);
        holding.join().unwrap();
        for read in flood {
            assert_eq!(read_lines(&read.await.unwrap().unwrap()).lines.len(), 500);
        }
        assert_eq!(index.lock().lines(), 500);
    }
}
