//! State that all calls to GitHub share: tokens, rate limits, who may write, renamed repositories, and the errors of a
//! request.

pub mod app;
mod error;
pub(crate) mod exchange;
pub(crate) mod rate;
pub(crate) mod under_way;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use self::app::AppTokens;
pub use self::error::GitHubError;
use self::rate::RateLimits;
pub use self::rate::RateQuota;
use self::under_way::UnsettledWrites;
use crate::remote::Remote;
use crate::thread_key::ThreadKey;
use crate::threads::keyed::KeyedLocks;

/// Lifetime of a cached answer.
const KNOWN_FOR: Duration = Duration::from_mins(30);
const MOST: usize = 4096;

/// Answers by credential, repository and account. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct MemberAnswers {
    known: Arc<Mutex<HashMap<String, (Instant, bool)>>>,
}

impl MemberAnswers {
    pub fn get(&self, key: &str) -> Option<bool> {
        let known = self.known.lock();
        known.get(key).filter(|(at, _)| at.elapsed() < KNOWN_FOR).map(|(_, may)| *may)
    }

    pub fn put(&self, key: String, may: bool) {
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (Instant::now(), may));
    }
}

/// Lifetime of a cached new name: afterwards the old one may be another repository's.
const FRESH: Duration = Duration::from_mins(15);

/// New names by the old ones. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct MovedRepositories {
    known: Arc<Mutex<HashMap<String, (Instant, Remote)>>>,
}

impl MovedRepositories {
    /// Returns the repository's new place, if a recent one is known.
    pub fn of(&self, remote: &Remote) -> Option<Remote> {
        let known = self.known.lock();
        known.get(&remote.git).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, new)| new.clone())
    }

    pub fn put(&self, old: &Remote, new: Remote) {
        let mut known = self.known.lock();
        known.retain(|_, (at, _)| at.elapsed() < FRESH);
        known.insert(old.git.clone(), (Instant::now(), new));
    }
}

/// State that calls to GitHub share: tokens, and one writer per thread. Cheap to clone.
#[derive(Clone, Default)]
pub struct GitHubAccess {
    /// Lock for one remark at a time per thread, so that a key is looked for and written in one go.
    writing: KeyedLocks<ThreadKey>,
    /// Lock for one write at a time to what is the Repo's, by its namespace and name.
    writing_for_repo: KeyedLocks<(String, String)>,
    pub tokens: AppTokens,
    /// Rate limits as GitHub last reported them.
    pub rates: RateLimits,
    pub members: MemberAnswers,
    /// Repositories that have another name by now.
    pub moved: MovedRepositories,
    /// Writes whose callers went away.
    pub(crate) unsettled: UnsettledWrites,
}

impl GitHubAccess {
    /// Waits for a thread's turn to say something on its pull request.
    pub async fn turn(&self, thread: &ThreadKey) -> OwnedMutexGuard<()> {
        self.writing.lock(thread).await
    }

    /// Waits for the turn to make something that a Repo has once, whichever thread asks for it.
    pub async fn turn_of_repo(&self, repo: (String, String)) -> OwnedMutexGuard<()> {
        self.writing_for_repo.lock(&repo).await
    }
}
