//! From the books to the API server: grants before they are needed, settlements at most once a
//! second per object, one write at a time for each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use codebutler_crds::{NanoUsd, Thread};
use futures::StreamExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::book::{RepoBook, ThreadBook};
use super::pot::{Books, LoadError, Pot};
use super::repos::{RepoKey, Repos};
use crate::gateway::context::{Caller, Context, ThreadKey};
use crate::gateway::metrics::Metrics;
use crate::gateway::slack::Recent;
use crate::gateway::threads::keyed::Keyed;
use crate::gateway::threads::{Threads, WriteError};
use crate::step;
use crate::tasks::Tasks;

/// Least time between two writes of settlements of one object.
const EVERY: Duration = Duration::from_secs(1);
/// A pot that had to wait for a grant again within this time is busy.
const BUSY: Duration = Duration::from_secs(2);
/// A pot in which no call began for this long is calm.
const CALM: Duration = Duration::from_secs(3);
/// Pots that are written at once in the end.
const AT_ONCE: usize = 16;
/// Longest pause after writes that failed.
const LONGEST: Duration = Duration::from_mins(1);

/// What the clones of a ledger share.
pub struct Inner {
    pub books: Mutex<Books>,
    context: Context,
    threads: Threads,
    repos: Repos,
    metrics: Metrics,
    /// Who we are in grants.
    holder: String,
    /// One write, or first reading, at a time.
    turns: Keyed<Pot>,
    work: Tasks,
    /// One question about money at a time for each Thread.
    pub asking: Keyed<ThreadKey>,
    /// There are calls to ask their providers for.
    pub lost: Notify,
    /// Fallbacks that were told: Thread, model, when it broke.
    pub told: Recent<(ThreadKey, String, Instant)>,
}

impl Inner {
    /// Nothing is known yet.
    pub fn new(
        context: Context,
        threads: Threads,
        repos: Repos,
        metrics: Metrics,
        holder: String,
    ) -> Self {
        let (books, turns, work) = (Mutex::default(), Keyed::default(), Tasks::default());
        let (asking, told, lost) = (Keyed::default(), Recent::default(), Notify::new());
        Self { books, context, threads, repos, metrics, holder, turns, work, asking, lost, told }
    }

    /// The caller's Thread as it is known now: a person may have raised its cap since.
    pub fn freshest(&self, caller: &Caller) -> Arc<Thread> {
        let key = caller.key();
        let found = self.threads.freshest(&key, self.context.thread(&key));
        found.unwrap_or_else(|| Arc::clone(&caller.thread))
    }

    pub fn repo_of(&self, thread: &ThreadKey) -> Option<RepoKey> {
        let found = self.context.thread(thread)?;
        Some(RepoKey { namespace: thread.namespace.clone(), name: found.spec.repo.clone() })
    }

    /// Opens the books of a call.
    pub async fn load(&self, thread: &ThreadKey, repo: &RepoKey) -> Result<(), LoadError> {
        let (has_thread, has_repo) = {
            let mut books = self.books();
            (books.thread(thread).is_some(), books.repo(repo).is_some())
        };
        if !has_thread {
            let _turn = self.turns.lock(&Pot::Thread(thread.clone())).await;
            let found = self.threads.read(thread).await?;
            let book = ThreadBook::found(found.status.as_ref(), &self.holder);
            self.books().open_thread(thread, book);
        }
        if !has_repo {
            let _turn = self.turns.lock(&Pot::Repo(repo.clone())).await;
            let found = self.repos.read(repo).await?;
            let book = RepoBook::found(found.status.as_ref(), &self.holder);
            self.books().open_repo(repo, book);
        }
        if !(has_thread && has_repo) {
            self.lost.notify_one();
        }
        Ok(())
    }

    /// Returns when a call's reservation is covered by grants.
    pub async fn cover(
        &self,
        thread: &ThreadKey,
        repo: &RepoKey,
        estimate: NanoUsd,
    ) -> Result<(), WriteError> {
        let (one, all) = (Pot::Thread(thread.clone()), Pot::Repo(repo.clone()));
        tokio::try_join!(self.cover_one(&one, estimate), self.cover_one(&all, estimate)).map(drop)
    }

    async fn cover_one(&self, pot: &Pot, estimate: NanoUsd) -> Result<(), WriteError> {
        let _turn = self.turns.lock(pot).await;
        {
            let mut books = self.books();
            let Some(book) = books.book(pot) else { return Ok(()) };
            if book.account.is_covered() {
                return Ok(());
            }
            if book.granted_at.is_some_and(|at| at.elapsed() < BUSY) {
                book.account.grow(estimate);
            }
            book.granted_at = Some(Instant::now());
        }
        self.put(pot).await
    }

    /// Puts a pot on record if there is anything to say.
    pub async fn write(&self, pot: &Pot) -> Result<(), WriteError> {
        let _turn = self.turns.lock(pot).await;
        self.put(pot).await
    }

    /// The caller holds the pot's turn.
    async fn put(&self, pot: &Pot) -> Result<(), WriteError> {
        match pot {
            Pot::Thread(key) => {
                let entry = self.books().thread(key).and_then(|book| book.entry(&self.holder));
                let Some(entry) = entry else { return Ok(()) };
                let written = self.threads.try_update(key, |status| Ok(entry.apply(status))).await;
                let surprise = match written {
                    Ok((_, surprise)) => surprise,
                    Err(error @ WriteError::Missing(_)) => {
                        self.books().forget(pot);
                        return Err(error);
                    }
                    Err(error) => return Err(error),
                };
                if let Some(book) = self.books().thread(key) {
                    book.wrote(entry, surprise, Instant::now());
                }
            }
            Pot::Repo(key) => {
                let entry = self.books().repo(key).and_then(|book| book.entry(&self.holder));
                let Some(entry) = entry else { return Ok(()) };
                let surprise = match self.repos.update(key, |spend| entry.apply(spend)).await {
                    Ok(surprise) => surprise,
                    Err(kube::Error::Api(status)) if status.is_not_found() => {
                        self.books().forget(pot);
                        return Err(WriteError::Missing(key.name.clone()));
                    }
                    Err(error) => return Err(WriteError::Api(Box::new(error))),
                };
                if let Some(book) = self.books().repo(key) {
                    book.wrote(&entry, surprise, Instant::now());
                }
            }
        }
        Ok(())
    }

    /// Lets both pots of a call be written soon.
    pub fn schedule_both(self: &Arc<Self>, thread: &ThreadKey, repo: &RepoKey) {
        self.schedule(Pot::Thread(thread.clone()));
        self.schedule(Pot::Repo(repo.clone()));
    }

    /// Lets a pot be written soon.
    pub fn schedule(self: &Arc<Self>, pot: Pot) {
        {
            let mut books = self.books();
            let Some(book) = books.book(&pot) else { return };
            if std::mem::replace(&mut book.scheduled, true) {
                return;
            }
        }
        let inner = Arc::clone(self);
        self.work.spawn(async move { inner.keep_written(&pot).await });
    }

    /// Writes a pot until there is nothing to say and it has given its grant back.
    async fn keep_written(&self, pot: &Pot) {
        let mut failures = 0_u32;
        let mut next: Option<Instant> = None;
        loop {
            let due = {
                let mut books = self.books();
                let Some(book) = books.book(pot) else { return };
                book.wrote_at.map(|at| at + EVERY)
            };
            if let Some(at) = due.max(next) {
                tokio::time::sleep_until(at).await;
            }
            step::point("before flush");
            let written = self.write(pot).await;
            let failed = matches!(&written, Err(error) if !matches!(error, WriteError::Missing(_)));
            if failed != (failures > 0) {
                self.metrics.unwritten(failed);
            }
            match written {
                Ok(()) => failures = 0,
                Err(WriteError::Missing(_)) => return,
                Err(error) => {
                    tracing::warn!(?pot, %error, "costs are not on record yet");
                    failures = failures.saturating_add(1).min(6);
                    next = Some(Instant::now() + (EVERY * 2_u32.pow(failures)).min(LONGEST));
                    continue;
                }
            }
            step::point("after flush");
            next = Some(Instant::now() + EVERY);
            let mut books = self.books();
            let Some(book) = books.book(pot) else { return };
            let calm = book.called_at.is_none_or(|at| at.elapsed() >= CALM);
            if calm {
                book.account.calm();
            }
            let wanted = book.account.wanted(book.cap);
            if book.is_written() && (calm || wanted.granted == NanoUsd::ZERO) {
                // Calls that settle from now on ask for another round.
                book.scheduled = false;
                return;
            }
        }
    }

    /// Flags what an earlier holder was granted, before anything else is let through.
    pub async fn inherit(self: &Arc<Self>) {
        let stale = |holder: &Option<String>| holder.as_ref().is_some_and(|h| *h != self.holder);
        for thread in self.context.threads.state() {
            let budget = thread.status.as_ref().and_then(|status| status.budget.as_ref());
            if !budget.is_some_and(|budget| stale(&budget.holder) || !budget.open.is_empty()) {
                continue;
            }
            let key = ThreadKey::from(&*thread);
            tracing::warn!(thread = key.name, "calls of an earlier gateway are unaccounted for");
            match self.threads.read(&key).await {
                Ok(found) => {
                    let book = ThreadBook::found(found.status.as_ref(), &self.holder);
                    self.books().open_thread(&key, book);
                }
                // Its first call finds the grant.
                Err(error) => tracing::warn!(thread = key.name, %error, "a grant stays unflagged"),
            }
            self.flag_now(Pot::Thread(key)).await;
        }
        for repo in self.context.repos.state() {
            let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref());
            if !spend.is_some_and(|spend| stale(&spend.holder) || !spend.open.is_empty()) {
                continue;
            }
            let key = RepoKey::from(&*repo);
            match self.repos.read(&key).await {
                Ok(found) => {
                    let book = RepoBook::found(found.status.as_ref(), &self.holder);
                    self.books().open_repo(&key, book);
                }
                Err(error) => tracing::warn!(repo = key.name, %error, "a grant stays unflagged"),
            }
            self.flag_now(Pot::Repo(key)).await;
        }
        self.lost.notify_one();
    }

    async fn flag_now(self: &Arc<Self>, pot: Pot) {
        if let Err(error) = self.write(&pot).await {
            tracing::warn!(?pot, %error, "a grant is flagged later");
            self.schedule(pot);
        }
    }

    /// Puts everything on record and gives all grants back.
    pub async fn close(&self) {
        let pots = self.books().pots();
        let writes = futures::stream::iter(pots).map(|pot| async move {
            if let Some(book) = self.books().book(&pot) {
                book.account.calm();
            }
            if let Err(error) = self.write(&pot).await {
                tracing::error!(?pot, %error, "costs were not put on record");
            }
        });
        writes.buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    /// Writes nothing any more.
    pub async fn cut(&self) {
        self.work.cut().await;
    }
}
