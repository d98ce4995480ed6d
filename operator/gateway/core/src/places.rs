//! Limits on the clones and fetches, pushes, and readings of histories that are served at once:
//! each takes memory, and what all of them need has to fit in the gateway. Neither one thread nor
//! one Repo can take all places.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::repo_key::RepoKey;
use crate::thread_key::ThreadKey;

/// Places: in all, for one Repo, and for one thread.
#[derive(Clone, Copy, Debug)]
struct PlaceLimits {
    all: usize,
    repo: usize,
    thread: usize,
}

/// Clones and fetches: each of a thread's roles clones once, and commands may fetch besides.
const READING: PlaceLimits = PlaceLimits { all: 48, repo: 40, thread: 8 };
/// Pushes: a thread's next one waits for its turn.
const PUSHING: PlaceLimits = PlaceLimits { all: 3, repo: 2, thread: 1 };
/// Limits for readings of histories.
const HISTORIES: PlaceLimits = PlaceLimits { all: 4, repo: 2, thread: 2 };
/// Time to wait for a place to read a history.
const SOON: Duration = Duration::from_secs(10);
/// Memory that serving a clone or fetch may need, in bytes: Git's window, deltas and bases (see
/// `git/command.rs`), and itself.
const EACH: u64 = 64 << 20;
/// Share of the process's memory that is for clones and fetches: one of this many parts.
const PART: u64 = 4;
/// The least that are served at once, however little memory there is.
const LEAST: usize = 2;
/// Time to wait for a place.
const PATIENCE: Duration = Duration::from_secs(45);

impl PlaceLimits {
    /// Fits as many readers as the memory allows: the last place is never one Repo's.
    fn fitting(memory: u64) -> Self {
        let fit = usize::try_from(memory / PART / EACH).unwrap_or(READING.all);
        let all = fit.clamp(LEAST, READING.all);
        Self { all, repo: READING.repo.min(all - 1), thread: READING.thread.min(all - 1) }
    }
}

/// Refusal of a place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoPlace {
    /// The thread has its share.
    #[error("this thread has {0} {1} under way: wait until one of them has ended")]
    Thread(usize, &'static str),
    #[error("this repository has {0} {1} under way: try again")]
    Repo(usize, &'static str),
    #[error("{0} {1} are under way, as many as are served at once: try again")]
    All(usize, &'static str),
}

/// The places of one kind. Cheap to clone; clones share them.
#[derive(Clone, Debug)]
pub struct SharedPlaces {
    what: &'static str,
    most: PlaceLimits,
    all: Arc<Semaphore>,
    repos: FairShares<RepoKey>,
    threads: FairShares<ThreadKey>,
    /// Time to wait for one of the thread's own places, and then for one of its Repo's and of all.
    patience: (Duration, Duration),
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct SharedPlace {
    _all: OwnedSemaphorePermit,
    _repo: PlaceShare,
    _own: PlaceShare,
}

/// A permit, and what keeps the count that it is of as long as it is taken.
#[derive(Debug)]
struct PlaceShare {
    _permit: OwnedSemaphorePermit,
    _count: Arc<Semaphore>,
}

/// Semaphores of the owners' shares. Cheap to clone; clones count together.
#[derive(Clone, Debug)]
pub struct FairShares<K>(Arc<Mutex<HashMap<K, Weak<Semaphore>>>>);

impl<K> Default for FairShares<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> FairShares<K> {
    async fn take(&self, of: &K, most: usize, patience: Duration) -> Option<PlaceShare> {
        let count = self.count(of, most);
        let permit = take_place(&count, patience).await?;
        Some(PlaceShare { _permit: permit, _count: count })
    }

    /// The count of one of them, which is kept as long as it is held.
    pub fn count(&self, of: &K, most: usize) -> Arc<Semaphore> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get(of).and_then(Weak::upgrade) {
            return count;
        }
        counts.retain(|_, count| count.strong_count() > 0);
        let count = Arc::new(Semaphore::new(most));
        counts.insert(of.clone(), Arc::downgrade(&count));
        count
    }
}

impl SharedPlaces {
    /// Places for clones and fetches, in a process that may use so many bytes of memory.
    pub fn for_reading(memory: Option<u64>) -> Self {
        let most = memory.map_or(READING, PlaceLimits::fitting);
        // A thread or Repo whose share is used up is told so; where memory made the share small, it
        // waits.
        let first = if most.thread < READING.thread { PATIENCE } else { Duration::ZERO };
        Self::new("clones or fetches", most, (first, PATIENCE))
    }

    /// Places for pushes.
    pub fn for_pushing() -> Self {
        Self::new("pushes", PUSHING, (PATIENCE, PATIENCE))
    }

    /// Places for agents that look back on their conversation.
    pub fn for_histories() -> Self {
        Self::new("readings of histories", HISTORIES, (SOON, SOON))
    }

    fn new(what: &'static str, most: PlaceLimits, patience: (Duration, Duration)) -> Self {
        let all = Arc::new(Semaphore::new(most.all));
        let (repos, threads) = (FairShares::default(), FairShares::default());
        Self { what, most, all, repos, threads, patience }
    }

    /// Returns the number of places that are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.most.all - self.all.available_permits()
    }

    /// Takes a place.
    ///
    /// # Errors
    /// When the thread or its Repo has its share, or there is none at all, for longer than one waits.
    pub async fn place(&self, thread: &ThreadKey, repo: &RepoKey) -> Result<SharedPlace, NoPlace> {
        let (most, what, (first, then)) = (self.most, self.what, self.patience);
        let own = self.threads.take(thread, most.thread, first).await;
        let own = own.ok_or(NoPlace::Thread(most.thread, what))?;
        let of_repo = self.repos.take(repo, most.repo, then).await;
        let of_repo = of_repo.ok_or(NoPlace::Repo(most.repo, what))?;
        let all = take_place(&self.all, then).await.ok_or(NoPlace::All(most.all, what))?;
        Ok(SharedPlace { _all: all, _repo: of_repo, _own: own })
    }
}

async fn take_place(places: &Arc<Semaphore>, patience: Duration) -> Option<OwnedSemaphorePermit> {
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

    fn repo(name: usize) -> RepoKey {
        RepoKey { namespace: "team".to_owned(), name: format!("r{name}") }
    }

    #[test]
    fn as_many_are_served_as_the_memory_has_room_for() {
        let most = |memory| {
            let PlaceLimits { all, repo, thread } = SharedPlaces::for_reading(memory).most;
            (all, repo, thread)
        };
        assert_eq!(most(None), (48, 40, 8));
        assert_eq!(most(Some(64 << 30)), (48, 40, 8));
        assert_eq!(most(Some(2 << 30)), (8, 7, 7));
        assert_eq!(most(Some(1 << 30)), (4, 3, 3));
        assert_eq!(most(Some(100 << 20)), (2, 1, 1));
    }

    #[tokio::test]
    async fn one_thread_has_its_share_and_all_have_theirs() {
        let PlaceLimits { all, thread: share, .. } = READING;
        let short = (Duration::ZERO, Duration::from_millis(50));
        let places = SharedPlaces { patience: short, ..SharedPlaces::for_reading(None) };
        let mut taken = Vec::new();
        for _ in 0..share {
            taken.push(places.place(&thread(0), &repo(0)).await.unwrap());
        }
        let busy = places.place(&thread(0), &repo(0)).await.unwrap_err();
        assert_eq!(busy, NoPlace::Thread(share, "clones or fetches"));
        for n in share..all {
            taken.push(places.place(&thread(n), &repo(n)).await.unwrap());
        }
        let full = places.place(&thread(all), &repo(all)).await.unwrap_err();
        assert_eq!(full, NoPlace::All(all, "clones or fetches"));
        // A waiting caller gets the next place that is free.
        let last = (thread(all), repo(all));
        let patient = SharedPlaces { patience: (Duration::ZERO, PATIENCE), ..places.clone() };
        let (next, ()) = tokio::join!(patient.place(&last.0, &last.1), async { drop(taken.pop()) });
        assert!(next.is_ok());
        drop((next, taken));
        assert!(places.place(&thread(0), &repo(0)).await.is_ok());
        assert_eq!(places.threads.0.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_threads_second_push_waits_and_takes_no_place_of_others() {
        let places = SharedPlaces::for_pushing();
        let first = places.place(&thread(0), &repo(0)).await.unwrap();
        let second = tokio::spawn({
            let places = places.clone();
            async move { places.place(&thread(0), &repo(0)).await }
        });
        tokio::task::yield_now().await;
        let others =
            [places.place(&thread(1), &repo(0)).await, places.place(&thread(2), &repo(1)).await];
        assert!(others.iter().all(Result::is_ok) && !second.is_finished());
        drop(first);
        assert!(second.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn the_threads_of_one_repo_leave_a_place_to_another_one() {
        let short = (Duration::ZERO, Duration::from_millis(50));
        let places = SharedPlaces { patience: short, ..SharedPlaces::for_pushing() };
        let mut taken = Vec::new();
        for n in 0..PUSHING.repo {
            taken.push(places.place(&thread(n), &repo(0)).await.unwrap());
        }
        let busy = places.place(&thread(PUSHING.repo), &repo(0)).await.unwrap_err();
        assert_eq!(busy, NoPlace::Repo(PUSHING.repo, "pushes"));
        assert!(places.place(&thread(9), &repo(1)).await.is_ok());
    }
}
