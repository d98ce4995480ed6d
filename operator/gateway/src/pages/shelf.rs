//! Finds lines of histories, and what each adds up to. Files are read on threads that may wait.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use codebutler_crds::wire::history::HistoryLine;
use codebutler_gateway_core::history::{HistoryKeeper, HistoryNews};
use codebutler_gateway_core::low_priority::run_low_priority;
use codebutler_history::{AnyStore, HistoryStore as _, LineIndex, ThreadPlace};
use codebutler_pages::{ListedThread, ThreadSummary, UserNames, is_on_page};
use tokio::sync::{Semaphore, watch};

/// Limit in bytes on the lines of one page.
const BYTES: u64 = 4 * 1024 * 1024;
/// Number of concurrent reads.
const PLACES: usize = 8;
/// Lines that are added up at once.
const STRIDE: u64 = 1024;

/// A line with its number; none if it can't be read.
pub(super) type NumberedLine = (u64, Option<HistoryLine>);

/// Cached index and summary of one history.
#[derive(Default)]
struct CachedView {
    index: LineIndex,
    summary: ThreadSummary,
}

/// Reads, indexes and caches histories for pages. Cheap to clone.
#[derive(Clone)]
pub(super) struct HistoryShelf {
    store: AnyStore,
    news: HistoryNews,
    views: Arc<Mutex<HashMap<ThreadPlace, Arc<Mutex<CachedView>>>>>,
    /// Time of the last known removal of words from histories: older cached views are stale.
    replaced: Arc<Mutex<Option<SystemTime>>>,
    places: Arc<Semaphore>,
}

impl HistoryShelf {
    pub(super) fn of(history: &HistoryKeeper) -> Option<Self> {
        let store = history.store()?.clone();
        let (views, replaced) = (Arc::default(), Arc::default());
        let places = Arc::new(Semaphore::new(PLACES));
        Some(Self { store, news: history.news(), views, replaced, places })
    }

    pub(super) const fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Changes when this history has grown.
    pub(super) fn news(&self, place: &ThreadPlace) -> watch::Receiver<u64> {
        self.news.of(place)
    }

    pub(super) async fn all(&self) -> io::Result<Vec<ListedThread>> {
        let own = self.clone();
        self.run(move || {
            let kept = own.store.list()?;
            // Views of histories that no longer exist are dropped.
            lock(&own.views).retain(|place, _| kept.iter().any(|kept| kept.place == *place));
            let listed = kept.into_iter().map(|kept| {
                let summary = own.with(&kept.place, |view| Ok(view.summary.clone()))?;
                let name = kept.place.to_string();
                Ok(ListedThread { name, summary, zone: String::new() })
            });
            listed.collect()
        })
        .await
    }

    pub(super) async fn summary(&self, place: &ThreadPlace) -> io::Result<ThreadSummary> {
        let (own, place) = (self.clone(), place.clone());
        self.run(move || own.with(&place, |view| Ok(view.summary.clone()))).await
    }

    pub(super) async fn lines(
        &self,
        place: &ThreadPlace,
        first: u64,
        most: u64,
    ) -> io::Result<Vec<NumberedLine>> {
        let (own, place) = (self.clone(), place.clone());
        self.run(move || {
            own.with(&place, |view| {
                let first = first.max(view.summary.foreign + 1);
                read_page(&view.index, &own.store, &place, first, most)
            })
        })
        .await
    }

    /// Number of bytes of the Thread's own lines.
    pub(super) async fn bytes(&self, place: &ThreadPlace) -> io::Result<u64> {
        let (own, place) = (self.clone(), place.clone());
        self.run(move || {
            let begins = |view: &CachedView| view.index.begun().map_or(0, |begun| begun.byte);
            let begins = own.with(&place, |view| Ok(begins(view)))?;
            Ok(own.store.length(&place)?.saturating_sub(begins))
        })
        .await
    }

    /// Offset at which the Thread's own lines begin.
    pub(super) async fn begins(&self, place: &ThreadPlace) -> io::Result<u64> {
        let (own, place) = (self.clone(), place.clone());
        self.run(move || {
            own.with(&place, |view| Ok(view.index.begun().map_or(0, |begun| begun.byte)))
        })
        .await
    }

    /// Lines in which a text occurs, in either case, the newest `most`. Lines that people of such a name wrote, or that
    /// mention them, are among these: that is how pages call them.
    pub(super) async fn find(
        &self,
        place: &ThreadPlace,
        (text, names): (&str, &UserNames),
        most: usize,
    ) -> io::Result<Vec<NumberedLine>> {
        let (own, place, texts) = (self.clone(), place.clone(), list_texts(text, names));
        self.run(move || {
            let (index, foreign) =
                own.with(&place, |view| Ok((view.index.clone(), view.summary.foreign)))?;
            let (mut found, mut first) = (Vec::new(), foreign + 1);
            while first <= index.lines() {
                let lines = read_page(&index, &own.store, &place, first, STRIDE)?;
                first += lines.len().max(1) as u64;
                found
                    .extend(lines.into_iter().filter(|(_, line)| line_says(line.as_ref(), &texts)));
                let over = found.len().saturating_sub(most);
                found.drain(..over);
            }
            Ok(found)
        })
        .await
    }

    /// Runs a read on a low-priority thread; few at once, since each holds a part of a history in memory.
    async fn run<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let reading = move || {
            let read = what();
            // The permit is held until the read ends, even if its requester has gone.
            drop(place);
            read
        };
        run_low_priority(reading).await?
    }

    /// Runs `what` on a view that includes all lines added since the last look.
    fn with<T>(
        &self,
        place: &ThreadPlace,
        what: impl FnOnce(&CachedView) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.store.length(place)? == 0 {
            return what(&CachedView::default());
        }
        let replaced = self.store.replaced();
        if std::mem::replace(&mut *lock(&self.replaced), replaced) != replaced {
            lock(&self.views).clear();
        }
        let view = Arc::clone(lock(&self.views).entry(place.clone()).or_default());
        let mut view = lock(&view);
        let lines = view.index.refresh(&self.store, place)?;
        if lines < view.summary.lines {
            view.summary = ThreadSummary::default();
        }
        while view.summary.lines < lines {
            let next = view.summary.lines + 1;
            let added = read_page(&view.index, &self.store, place, next, STRIDE)?;
            if added.is_empty() {
                break;
            }
            for (_, line) in &added {
                view.summary.add(line.as_ref());
            }
        }
        what(&view)
    }
}

fn read_page(
    index: &LineIndex,
    store: &AnyStore,
    place: &ThreadPlace,
    first: u64,
    most: u64,
) -> io::Result<Vec<NumberedLine>> {
    let page = index.page(store, place, first, (most, BYTES))?;
    let lines = page.lines.iter().map(|line| serde_json::from_str(line).ok());
    Ok((page.first..).zip(lines).collect())
}

/// A searched text, and the ids of the people whose names hold it, in small letters.
fn list_texts(text: &str, names: &UserNames) -> Vec<String> {
    let text = text.to_lowercase();
    let name = text.trim_start_matches('@');
    let called =
        names.iter().filter(|(_, own)| !name.is_empty() && own.to_lowercase().contains(name));
    let mut texts: Vec<String> = called.map(|(user, _)| user.to_lowercase()).collect();
    texts.push(text);
    texts
}

/// True if the line's text, as its page shows it, holds one of `texts`.
fn line_says(line: Option<&HistoryLine>, texts: &[String]) -> bool {
    let line = line.filter(|line| is_on_page(line));
    let event = line.and_then(|line| serde_json::to_value(&line.event).ok());
    event.is_some_and(|event| value_holds(&event, texts))
}

fn value_holds(value: &serde_json::Value, texts: &[String]) -> bool {
    match value {
        serde_json::Value::String(own) => {
            let own = own.to_lowercase();
            texts.iter().any(|text| own.contains(text))
        }
        serde_json::Value::Array(values) => values.iter().any(|value| value_holds(value, texts)),
        serde_json::Value::Object(fields) => fields.iter().any(|(name, value)| {
            // Kinds of events and authors are words of the format, and on no page.
            let is_kind = name == "event" || (name == "kind" && !fields.contains_key("event"));
            !is_kind && value_holds(value, texts)
        }),
        _ => false,
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use codebutler_crds::wire::MessageAuthor;
    use codebutler_crds::wire::history::HistoryEvent;

    use super::*;

    #[test]
    fn a_search_finds_what_people_read() {
        let (ts, author) =
            ("1.000000".parse().unwrap(), MessageAuthor::User { id: "U0ANA".to_owned() });
        let event = HistoryEvent::Message { ts, author, text: "The total of <@U0BEN>".to_owned() };
        let source = "gateway".to_owned();
        let line =
            HistoryLine { v: 1, at: 1, source, seq: None, key: None, role: None, run: None, event };
        let names = [("U0ANA", "Ana M."), ("U0BEN", "Ben"), ("U0CIA", "Cia")];
        let names: UserNames = names.map(|(user, name)| (user.to_owned(), name.to_owned())).into();
        let found = |text: &str| line_says(Some(&line), &list_texts(text, &names));
        for text in ["TOTAL", "ana m", "@Ana", "ben"] {
            assert!(found(text), "{text}");
        }
        for text in ["message", "user", "Cia"] {
            assert!(!found(text), "{text}");
        }
    }
}
