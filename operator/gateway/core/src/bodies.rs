//! One budget of bytes for the bodies of all requests that are held as a whole: what is being sent, and what
//! is being answered. Neither one thread nor one Repo can take all of it. Pushes and clones are not held, and
//! have [`places`](crate::places) instead.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::places::FairShares;
use crate::repo_key::RepoKey;
use crate::thread_key::ThreadKey;

/// Bytes that one permit stands for.
const UNIT: usize = 1024;
/// A body up to this needs no room: what is small is answered whoever floods.
pub const FREE: usize = 16 * 1024;
/// Share of the process's memory that is for bodies: one of this many parts, within these bounds,
/// in MiB.
const PART: u64 = 6;
const LEAST: usize = 128;
const MOST: usize = 384;
/// Shares of a Repo and of a thread, in MiB; the longest body fits into the latter.
const OF_REPO: usize = 96;
const OF_THREAD: usize = 40;
/// Time to wait for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// Refusal of room, by the share that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    #[error("this thread sends more than {OF_THREAD} MiB at once: wait until a request has ended")]
    Thread,
    #[error("the threads of this repository send more than {OF_REPO} MiB at once: try again")]
    Repo,
    #[error("more is sent than can be taken at once: try again")]
    All,
}

/// Memory budget of request bodies. Cheap to clone; clones count together.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    all: Arc<Semaphore>,
    repos: FairShares<RepoKey>,
    threads: FairShares<ThreadKey>,
    patience: Duration,
}

impl BodyBudget {
    /// Budget of a process that may use so many bytes of memory.
    pub fn within(memory: Option<u64>) -> Self {
        let fit = memory.and_then(|memory| usize::try_from((memory / PART) >> 20).ok());
        let all = Arc::new(Semaphore::new(units_of_mib(fit.unwrap_or(MOST).clamp(LEAST, MOST))));
        Self {
            all,
            repos: FairShares::default(),
            threads: FairShares::default(),
            patience: PATIENCE,
        }
    }

    /// Makes a budget with another time to wait.
    #[cfg(test)]
    pub fn that_waits(patience: Duration, memory: Option<u64>) -> Self {
        Self { patience, ..Self::within(memory) }
    }

    /// Begins the claim of one request; it holds no room yet.
    pub fn claim(&self) -> BodyClaim {
        let budget = self.clone();
        let (owner, held) = (OnceLock::new(), Mutex::default());
        BodyClaim(Arc::new(ClaimedRoom { budget, owner, held }))
    }
}

const fn units_of_mib(mib: usize) -> usize {
    (mib << 20) / UNIT
}

/// Room of one request's body, until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct BodyClaim(Arc<ClaimedRoom>);

#[derive(Debug)]
struct ClaimedRoom {
    budget: BodyBudget,
    /// The proven caller, in whose shares the room is counted.
    owner: OnceLock<(ThreadKey, RepoKey)>,
    held: Mutex<Vec<TakenRoom>>,
}

/// Permits, and the counts that they are of.
#[derive(Debug)]
struct TakenRoom {
    _permits: Vec<OwnedSemaphorePermit>,
    _counts: Vec<Arc<Semaphore>>,
}

impl BodyClaim {
    /// Sets the thread and Repo in whose shares the room is counted.
    pub fn owned_by(&self, thread: ThreadKey, repo: RepoKey) {
        // A request has one caller.
        let _ = self.0.owner.set((thread, repo));
    }

    /// Takes room for more bytes, or waits for it a little.
    ///
    /// # Errors
    /// When there is none.
    pub async fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).map_err(|_| NoRoom::All)?;
        let BodyBudget { all, repos, threads, patience } = &self.0.budget;
        let mut counts = Vec::new();
        if let Some((thread, repo)) = self.0.owner.get() {
            counts.push((threads.count(thread, units_of_mib(OF_THREAD)), NoRoom::Thread));
            counts.push((repos.count(repo, units_of_mib(OF_REPO)), NoRoom::Repo));
        }
        counts.push((Arc::clone(all), NoRoom::All));
        let (until, mut permits) = (Instant::now() + *patience, Vec::new());
        for (count, lacks) in &counts {
            let permit = timeout_at(until, Arc::clone(count).acquire_many_owned(units)).await;
            permits.push(permit.ok().and_then(Result::ok).ok_or(*lacks)?);
        }
        let counts = counts.into_iter().map(|(count, _)| count).collect();
        self.0.held.lock().push(TakenRoom { _permits: permits, _counts: counts });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    fn thread(n: usize) -> ThreadKey {
        ThreadKey { namespace: "team".into(), name: format!("t{n}") }
    }

    fn repo(n: usize) -> RepoKey {
        RepoKey { namespace: "team".into(), name: format!("r{n}") }
    }

    async fn taken(budget: &BodyBudget, n: usize, of: usize) -> Result<BodyClaim, NoRoom> {
        let claim = budget.claim();
        claim.owned_by(thread(n), repo(of));
        claim.take(32 << 20).await.map(|()| claim)
    }

    #[tokio::test]
    async fn a_thread_and_a_repo_have_their_shares_and_others_have_room() {
        let budget = BodyBudget::that_waits(SOON, Some(2 << 30));
        let first = taken(&budget, 0, 0).await.unwrap();
        assert_eq!(taken(&budget, 0, 0).await.unwrap_err(), NoRoom::Thread);
        let own = [taken(&budget, 1, 0).await.unwrap(), taken(&budget, 2, 0).await.unwrap()];
        assert_eq!(taken(&budget, 3, 0).await.unwrap_err(), NoRoom::Repo);
        let others = taken(&budget, 4, 1).await.unwrap();
        drop(first);
        let again = taken(&budget, 3, 0).await.unwrap();
        drop((own, others, again));
        assert_eq!(budget.all.available_permits(), units_of_mib(341), "all of it is given back");
    }

    #[tokio::test]
    async fn what_all_take_together_has_a_bound() {
        let budget = BodyBudget::that_waits(SOON, Some(256 << 20));
        let mut held = Vec::new();
        for n in 0..100 {
            held.extend(taken(&budget, n, n).await.ok());
        }
        assert_eq!(held.len(), LEAST / 32);
        assert_eq!(taken(&budget, 200, 200).await.unwrap_err(), NoRoom::All);
    }
}
