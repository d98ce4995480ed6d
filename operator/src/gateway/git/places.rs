//! How many clones and fetches, and how many pushes, are served at once: each is a process that packs or
//! unpacks, and what all of them need has to fit in the gateway. One thread can't take all places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::gateway::context::ThreadKey;

/// Clones and fetches at once, in all, and for one thread: each of its roles clones once, and commands
/// may fetch besides.
const READING: (usize, usize) = (48, 8);
/// Pushes at once, in all, and for one thread, whose next one waits for its turn.
const PUSHING: (usize, usize) = (3, 1);
/// How long one waits for a place.
const PATIENCE: Duration = Duration::from_secs(45);

/// Why there is no place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Busy {
    /// The thread has its share.
    #[error("this thread has {0} {1} under way: wait until one of them has ended")]
    Thread(usize, &'static str),
    /// Others have all.
    #[error("{0} {1} are under way, as many as are served at once: try again")]
    All(usize, &'static str),
}

/// The places of one kind. Cheap to clone; clones share them.
#[derive(Clone, Debug)]
pub struct Places {
    what: &'static str,
    /// In all, and for one thread.
    most: (usize, usize),
    all: Arc<Semaphore>,
    threads: Arc<Mutex<HashMap<ThreadKey, Weak<Semaphore>>>>,
    /// For one of the thread's own places, and then for one of all.
    patience: (Duration, Duration),
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    /// Keeps the thread's count as long as one of its places is taken.
    _count: Arc<Semaphore>,
}

impl Places {
    /// For clones and fetches.
    pub fn for_reading() -> Self {
        Self::new("clones or fetches", READING, (Duration::ZERO, PATIENCE))
    }

    /// For pushes.
    pub fn for_pushing() -> Self {
        Self::new("pushes", PUSHING, (PATIENCE, PATIENCE))
    }

    fn new(what: &'static str, most: (usize, usize), patience: (Duration, Duration)) -> Self {
        Self {
            what,
            most,
            all: Arc::new(Semaphore::new(most.0)),
            threads: Arc::default(),
            patience,
        }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// When the thread has its share, or there is none at all, for longer than one waits.
    pub async fn place(&self, thread: &ThreadKey) -> Result<Place, Busy> {
        let (busy, full) =
            (Busy::Thread(self.most.1, self.what), Busy::All(self.most.0, self.what));
        let count = self.count(thread);
        let own = take(&count, self.patience.0).await.ok_or(busy)?;
        let all = take(&self.all, self.patience.1).await.ok_or(full)?;
        Ok(Place { _all: all, _own: own, _count: count })
    }

    fn count(&self, thread: &ThreadKey) -> Arc<Semaphore> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = threads.get(thread).and_then(Weak::upgrade) {
            return count;
        }
        threads.retain(|_, count| count.strong_count() > 0);
        let count = Arc::new(Semaphore::new(self.most.1));
        threads.insert(thread.clone(), Arc::downgrade(&count));
        count
    }
}

async fn take(places: &Arc<Semaphore>, patience: Duration) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = Arc::clone(places).try_acquire_owned() {
        return Some(place);
    }
    let place = timeout_at(Instant::now() + patience, Arc::clone(places).acquire_owned());
    place.await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: usize) -> ThreadKey {
        ThreadKey { namespace: "team".to_owned(), name: format!("t{name}") }
    }

    #[tokio::test]
    async fn one_thread_has_its_share_and_all_have_theirs() {
        let (all, share) = READING;
        let short = (Duration::ZERO, Duration::from_millis(50));
        let places = Places { patience: short, ..Places::for_reading() };
        let mut taken = Vec::new();
        for _ in 0..share {
            taken.push(places.place(&thread(0)).await.unwrap());
        }
        let busy = places.place(&thread(0)).await.unwrap_err();
        assert_eq!(busy, Busy::Thread(share, "clones or fetches"));
        for n in share..all {
            taken.push(places.place(&thread(n)).await.unwrap());
        }
        let full = places.place(&thread(all)).await.unwrap_err();
        assert_eq!(full, Busy::All(all, "clones or fetches"));
        // Who waits gets the next one that is free.
        let last = thread(all);
        let patient = Places { patience: (Duration::ZERO, PATIENCE), ..places.clone() };
        let (next, ()) = tokio::join!(patient.place(&last), async { drop(taken.pop()) });
        assert!(next.is_ok());
        drop((next, taken));
        assert!(places.place(&thread(0)).await.is_ok());
        assert_eq!(places.threads.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_threads_second_push_waits_and_takes_no_place_of_others() {
        let places = Places::for_pushing();
        let first = places.place(&thread(0)).await.unwrap();
        let second = tokio::spawn({
            let places = places.clone();
            async move { places.place(&thread(0)).await }
        });
        tokio::task::yield_now().await;
        let others = [places.place(&thread(1)).await, places.place(&thread(2)).await];
        assert!(others.iter().all(Result::is_ok) && !second.is_finished());
        drop(first);
        assert!(second.await.unwrap().is_ok());
    }
}
