//! How many clones and fetches are served at once: each is a process that packs. One thread can't take
//! all places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gateway::context::ThreadKey;

/// At once, in all.
const ALL: usize = 48;
/// At once, for one thread: each of its roles clones once, and commands may fetch besides.
const PER_THREAD: usize = 8;
/// How long one waits for a place among all.
const PATIENCE: Duration = Duration::from_secs(45);

/// Why there is no place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Busy {
    /// The thread has its share.
    #[error(
        "this thread has {PER_THREAD} clones or fetches under way: wait until one of them has ended"
    )]
    Thread,
    /// Others have all.
    #[error("{ALL} clones and fetches are under way, as many as are served at once: try again")]
    All,
}

/// The places. Cheap to clone; clones share them.
#[derive(Clone, Debug)]
pub struct Readers {
    all: Arc<Semaphore>,
    threads: Arc<Mutex<HashMap<ThreadKey, Weak<Semaphore>>>>,
    patience: Duration,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    /// Keeps the thread's count as long as one of its places is taken.
    _count: Arc<Semaphore>,
}

impl Default for Readers {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL)), threads: Arc::default(), patience: PATIENCE }
    }
}

impl Readers {
    /// Takes a place.
    ///
    /// # Errors
    /// At once when the thread has its share; after a while when there is none at all.
    pub async fn place(&self, thread: &ThreadKey) -> Result<Place, Busy> {
        let count = self.count(thread);
        let own = Arc::clone(&count).try_acquire_owned().map_err(|_| Busy::Thread)?;
        let all = tokio::time::timeout(self.patience, Arc::clone(&self.all).acquire_owned()).await;
        let all = all.map_err(|_| Busy::All)?.map_err(|_| Busy::All)?;
        Ok(Place { _all: all, _own: own, _count: count })
    }

    fn count(&self, thread: &ThreadKey) -> Arc<Semaphore> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = threads.get(thread).and_then(Weak::upgrade) {
            return count;
        }
        threads.retain(|_, count| count.strong_count() > 0);
        let count = Arc::new(Semaphore::new(PER_THREAD));
        threads.insert(thread.clone(), Arc::downgrade(&count));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: usize) -> ThreadKey {
        ThreadKey { namespace: "team".to_owned(), name: format!("t{name}") }
    }

    #[tokio::test]
    async fn one_thread_has_its_share_and_all_have_theirs() {
        let readers = Readers { patience: Duration::from_millis(50), ..Readers::default() };
        let mut taken = Vec::new();
        for _ in 0..PER_THREAD {
            taken.push(readers.place(&thread(0)).await.unwrap());
        }
        assert_eq!(readers.place(&thread(0)).await.unwrap_err(), Busy::Thread);
        for n in PER_THREAD..ALL {
            taken.push(readers.place(&thread(n)).await.unwrap());
        }
        assert_eq!(readers.place(&thread(ALL)).await.unwrap_err(), Busy::All);
        // Who waits gets the next one that is free.
        let last = thread(ALL);
        let patient = Readers { patience: PATIENCE, ..readers.clone() };
        let (next, ()) = tokio::join!(patient.place(&last), async { drop(taken.pop()) });
        assert!(next.is_ok());
        drop((next, taken));
        assert!(readers.place(&thread(0)).await.is_ok());
        assert_eq!(readers.threads.lock().unwrap().len(), 1);
    }
}
