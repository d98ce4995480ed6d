//! From the books to the API server: grants before they are needed, settlements at most once a
//! second per object, one write at a time for each.

mod inherit;

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codebutler_crds::spend::RepoSpend;
use codebutler_crds::{NanoUsd, Repo, Thread, ThreadStatus};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use codebutler_gateway_core::threads::{ThreadWriter, WriteError};
use codebutler_runtime::recent::RecentKeys;
use codebutler_runtime::step;
use codebutler_runtime::tasks::TaskGroup;
use futures::StreamExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::book::{CallBook, RepoBook, ThreadBook};
use super::leaving::{BookHandover, LeavingEntries, LedgerOffice, WriteClash};
use super::pot::{BookHolder, LedgerBooks, LoadError};
use super::purse::RoadmapBudget;
use super::record::CallHolder;
use super::repos::RepoWriter;
use super::shares::charged_person;

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

/// Attempts at a write that clashes with what others have written.
const CLASHES: usize = 4;

/// State that the clones of a ledger share.
pub(super) struct SharedLedger {
    pub books: Mutex<LedgerBooks>,
    context: GatewayContext,
    threads: ThreadWriter,
    repos: RepoWriter,
    metrics: GatewayMetrics,
    /// Our name in grants.
    holder: String,
    /// Lock for one write, or first reading, at a time.
    turns: KeyedLocks<BookHolder>,
    work: TaskGroup,
    /// Lock for one question about money at a time for each Thread.
    pub asking: KeyedLocks<ThreadKey>,
    /// Notifies that there are calls to ask their providers for.
    pub lost: Notify,
    /// Fallbacks that were told: Thread, model, when it broke.
    pub told: RecentKeys<(ThreadKey, String, Instant)>,
}

impl SharedLedger {
    /// Makes a ledger with empty books.
    pub(super) fn new(
        context: GatewayContext,
        threads: ThreadWriter,
        repos: RepoWriter,
        metrics: GatewayMetrics,
        holder: String,
    ) -> Self {
        let (books, turns, work) = (Mutex::default(), KeyedLocks::default(), TaskGroup::default());
        let (asking, told, lost) = (KeyedLocks::default(), RecentKeys::default(), Notify::new());
        Self { books, context, threads, repos, metrics, holder, turns, work, asking, lost, told }
    }

    /// The caller's Thread as it is known now: a person may have raised its cap since.
    pub(super) fn freshest(&self, caller: &ProvenCaller) -> Arc<Thread> {
        let key = caller.key();
        let found = self.threads.freshest(&key, self.context.thread(&key));
        found.unwrap_or_else(|| Arc::clone(&caller.thread))
    }

    /// Returns the budget that the caller's Thread shares with others of its roadmap.
    pub(super) fn purse(&self, caller: &ProvenCaller) -> Option<RoadmapBudget> {
        RoadmapBudget::of(&self.context, &caller.thread, &caller.repo)
    }

    pub(super) fn repo_of(&self, thread: &ThreadKey) -> Option<RepoKey> {
        let found = self.context.thread(thread)?;
        Some(RepoKey { namespace: thread.namespace.clone(), name: found.spec.repo.clone() })
    }

    /// The person whom calls of a Thread are charged to.
    pub(super) fn person_of(&self, thread: &ThreadKey) -> Option<String> {
        let found = self.context.thread(thread)?;
        charged_person(&found).map(ToOwned::to_owned)
    }

    /// Opens the books of a call.
    pub(super) async fn load(
        self: &Arc<Self>,
        thread: &ThreadKey,
        repo: &RepoKey,
    ) -> Result<(), LoadError> {
        let (has_thread, has_repo) = {
            let mut books = self.books();
            (books.thread(thread).is_some(), books.repo(repo).is_some())
        };
        if !has_thread {
            let _turn = self.turns.lock(&BookHolder::Thread(thread.clone())).await;
            let found = self.threads.read(thread).await?;
            let book = ThreadBook::found(found.status.as_ref(), &self.holder);
            self.books().open_thread(thread, book);
        }
        if !has_repo {
            let _turn = self.turns.lock(&BookHolder::Repo(repo.clone())).await;
            let found = self.repos.read(repo).await?;
            let book = RepoBook::found(found.status.as_ref(), &self.holder);
            self.books().open_repo(repo, book);
        }
        if !(has_thread && has_repo) {
            self.lost.notify_one();
            self.follow(BookHolder::Thread(thread.clone()));
            self.follow(BookHolder::Repo(repo.clone()));
        }
        Ok(())
    }

    /// Returns when a call's reservation is covered by grants.
    pub(super) async fn cover(
        &self,
        thread: &ThreadKey,
        repo: &RepoKey,
        estimate: NanoUsd,
    ) -> Result<(), WriteError> {
        let (one, all) = (BookHolder::Thread(thread.clone()), BookHolder::Repo(repo.clone()));
        tokio::try_join!(self.cover_one(&one, estimate), self.cover_one(&all, estimate)).map(drop)
    }

    async fn cover_one(&self, pot: &BookHolder, estimate: NanoUsd) -> Result<(), WriteError> {
        let _turn = self.turns.lock(pot).await;
        {
            let mut books = self.books();
            let office = books.office;
            if books.is_covered(pot) {
                return Ok(());
            }
            let Some(book) = books.book(pot) else { return Ok(()) };
            if office != LedgerOffice::Held {
                return Err(WriteError::Contended(format!("{pot:?}")));
            }
            if book.granted_at.is_some_and(|at| at.elapsed() < BUSY) {
                book.account.grow(estimate);
            }
            book.granted_at = Some(Instant::now());
        }
        self.put(pot).await?;
        let mut books = self.books();
        let left = matches!(books.office, LedgerOffice::Left(_));
        let apart = |book: &mut CallBook| !matches!(book.handed, BookHandover::No);
        if left && !books.book(pot).is_some_and(apart) {
            return Err(WriteError::Contended(format!("{pot:?}")));
        }
        Ok(())
    }

    /// Puts a pot on record if there is anything to say.
    pub(super) async fn write(&self, pot: &BookHolder) -> Result<(), WriteError> {
        let _turn = self.turns.lock(pot).await;
        self.put(pot).await
    }

    /// The caller holds the pot's turn.
    async fn put(&self, pot: &BookHolder) -> Result<(), WriteError> {
        for attempt in 0..CLASHES {
            let written = match self.adopt(pot).await {
                Ok(()) => match pot {
                    BookHolder::Thread(key) => self.put_thread(key).await,
                    BookHolder::Repo(key) => self.put_repo(key).await,
                },
                Err(error) => Err(error),
            };
            match written {
                Ok(None) => return Ok(()),
                Ok(Some(WriteClash::Late)) => break,
                Ok(Some(clash)) => {
                    self.forget_record(pot);
                    // The first time it may be what was remembered that is behind.
                    if attempt > 0 {
                        self.books().clash(pot, clash);
                    }
                }
                Err(error) => {
                    if matches!(error, WriteError::Missing(_)) {
                        self.books().forget(pot);
                    }
                    return Err(error);
                }
            }
        }
        Err(WriteError::Contended(format!("{pot:?}")))
    }

    /// Takes into a book what gateways that left have spent. A copy of the record can show what has
    /// been taken long since, so it only says when to read the record itself.
    async fn adopt(&self, pot: &BookHolder) -> Result<(), WriteError> {
        let copy = match pot {
            BookHolder::Thread(key) => self.context.thread(key).map(|thread| of_thread(&thread)),
            BookHolder::Repo(key) => {
                self.context.repo(&key.namespace, &key.name).map(|repo| of_repo(&repo))
            }
        };
        {
            let mut books = self.books();
            let office = books.office;
            let Some(book) = books.book(pot) else { return Ok(()) };
            if let Some(copy) = copy {
                book.look_elsewhere(&copy);
            }
            if office != LedgerOffice::Held || !book.elsewhere.is_due(Instant::now()) {
                return Ok(());
            }
        }
        let record = match pot {
            BookHolder::Thread(key) => {
                let found = self.threads.read(key).await?;
                of_thread(&found)
            }
            BookHolder::Repo(key) => {
                let found = self.repos.read(key).await;
                of_repo(&found.map_err(|error| explain_unwritten(key, error))?)
            }
        };
        self.forget_record(pot);
        step::point("before taking in");
        if self.books().adopt(pot, &record) {
            self.lost.notify_one();
        }
        Ok(())
    }

    /// Has the next write of a pot begin with what the API server knows.
    fn forget_record(&self, pot: &BookHolder) {
        match pot {
            BookHolder::Thread(key) => self.threads.forget(key),
            BookHolder::Repo(key) => self.repos.forget(key),
        }
    }

    /// Writes the entry of a Thread. Returns why it was not written, if others are the reason.
    async fn put_thread(&self, key: &ThreadKey) -> Result<Option<WriteClash>, WriteError> {
        let entry = {
            let mut books = self.books();
            let office = books.office;
            books.thread(key).and_then(|book| {
                let entry = book.entry(&self.holder, office)?;
                book.tries(&entry);
                Some(entry)
            })
        };
        let Some(entry) = entry else { return Ok(None) };
        let change = |status: &mut ThreadStatus| {
            Ok(self.may_write(&entry.calls.part).and_then(|()| entry.apply(status)))
        };
        let (_, written) = self.threads.try_update(key, change).await?;
        let surprise = match written {
            Ok(surprise) => surprise,
            Err(clash) => return Ok(Some(clash)),
        };
        if let Some(book) = self.books().thread(key) {
            book.wrote(entry, surprise, Instant::now());
        }
        Ok(None)
    }

    /// Writes the entry of a Repo.
    async fn put_repo(&self, key: &RepoKey) -> Result<Option<WriteClash>, WriteError> {
        let entry = {
            let mut books = self.books();
            let office = books.office;
            books.repo(key).and_then(|book| {
                let entry = book.entry(&self.holder, office)?;
                book.tries(&entry);
                Some(entry)
            })
        };
        let Some(entry) = entry else { return Ok(None) };
        let change = |spend: &mut RepoSpend| {
            self.may_write(&entry.calls.part).and_then(|()| entry.apply(spend))
        };
        let written = self.repos.update(key, change).await;
        let surprise = match written.map_err(|error| explain_unwritten(key, error))? {
            Ok(surprise) => surprise,
            Err(clash) => return Ok(Some(clash)),
        };
        if let Some(book) = self.books().repo(key) {
            book.wrote(&entry, &surprise, Instant::now());
        }
        Ok(None)
    }

    /// Returns an error if the entry is no longer this gateway's to write; checked on each attempt.
    fn may_write(&self, part: &CallHolder) -> Result<(), WriteClash> {
        let left = matches!(self.books().office, LedgerOffice::Left(_));
        if left && !matches!(part, CallHolder::Apart(_)) { Err(WriteClash::Late) } else { Ok(()) }
    }

    /// Lets both pots of a call be written soon.
    pub(super) fn schedule_both(self: &Arc<Self>, thread: &ThreadKey, repo: &RepoKey) {
        self.schedule(BookHolder::Thread(thread.clone()));
        self.schedule(BookHolder::Repo(repo.clone()));
    }

    /// Lets a pot be written soon.
    pub(super) fn schedule(self: &Arc<Self>, pot: BookHolder) {
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
    async fn keep_written(&self, pot: &BookHolder) {
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
                    tracing::warn!(?pot, %error, "cost_write_failed");
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
            // A grant that is given back has to be written, too.
            let is_written = books.is_written(pot);
            let Some(book) = books.book(pot) else { return };
            let wanted = book.account.wanted(book.cap);
            let rests = is_written && book.elsewhere.is_empty();
            if rests && (calm || wanted.granted == NanoUsd::ZERO) {
                // Calls that settle from now on ask for another round.
                book.scheduled = false;
                return;
            }
        }
    }

    /// Puts everything on record, and takes what is under way out of the books. No call begins any
    /// more. What is not on record when [`Self::left`] is said is the next holder's to judge; answers
    /// whether all is.
    pub(super) async fn leave(&self, seconds: u32) -> bool {
        {
            let mut books = self.books();
            books.office = LedgerOffice::Leaving(seconds);
            books.calm();
        }
        self.close().await
    }

    /// Notes that somebody else keeps the books from now on.
    pub(super) fn left(&self) {
        let mut books = self.books();
        if let LedgerOffice::Leaving(seconds) = books.office {
            books.office = LedgerOffice::Left(seconds);
        }
    }

    /// Puts everything on record and gives all grants back; answers whether that worked.
    pub(super) async fn close(&self) -> bool {
        let pots = {
            let mut books = self.books();
            books.calm();
            books.pots()
        };
        let writes = futures::stream::iter(pots).map(|pot| async move {
            let written = self.write(&pot).await;
            if let Err(error) = &written {
                tracing::error!(?pot, %error, "cost_write_abandoned");
            }
            matches!(written, Ok(()) | Err(WriteError::Missing(_)))
        });
        writes.buffer_unordered(AT_ONCE).fold(true, |all, one| ready(all && one)).await
    }

    /// Stops all writes.
    pub(super) async fn cut(&self) {
        self.work.cut().await;
    }
}

/// Returns the entries of leaving gateways on a Thread.
fn of_thread(thread: &Thread) -> LeavingEntries {
    let budget = thread.status.as_ref().and_then(|status| status.budget.as_ref());
    budget.map(|budget| budget.leaving.clone()).unwrap_or_default()
}

/// Returns the entries of leaving gateways on a Repo.
fn of_repo(repo: &Repo) -> LeavingEntries {
    let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref());
    spend.map(|spend| spend.leaving.clone()).unwrap_or_default()
}

fn explain_unwritten(repo: &RepoKey, error: kube::Error) -> WriteError {
    match error {
        kube::Error::Api(status) if status.is_not_found() => WriteError::Missing(repo.name.clone()),
        error => WriteError::Api(Box::new(error)),
    }
}
