//! Books of calls, by Thread and by Repo.

use std::collections::HashMap;

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::LimitsSpec;
use codebutler_crds::spend::CallLimit;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::WriteError;

use super::NearCap;
use super::book::{CallBook, RepoBook, ThreadBook};
use super::leaving::{LeavingEntries, LedgerOffice, WriteClash};
use super::limits::{self, ExceededLimit};
use super::open::{CallStage, OpenRecord};
use super::purse::RoadmapBudget;

/// Books that are kept; more are forgotten when nothing happens in them.
const KEPT: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum BookHolder {
    Thread(ThreadKey),
    Repo(RepoKey),
}

/// Reason why a book can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Thread(#[from] WriteError),
    /// A Repo can't be read or written.
    #[error("the Repo can't be read or written")]
    Repo(#[from] kube::Error),
}

/// A call whose end nobody here has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCall {
    /// Thread that made the call; None if only the Repo's record speaks of it.
    pub thread: Option<ThreadKey>,
    /// Repo whose credentials the call used.
    pub repo: RepoKey,
    pub id: String,
}

#[derive(Debug, Default)]
pub(super) struct LedgerBooks {
    /// Role of this gateway in keeping the books.
    pub office: LedgerOffice,
    threads: HashMap<ThreadKey, ThreadBook>,
    repos: HashMap<RepoKey, RepoBook>,
}

impl LedgerBooks {
    pub(super) fn thread(&mut self, key: &ThreadKey) -> Option<&mut ThreadBook> {
        self.threads.get_mut(key)
    }

    pub(super) fn repo(&mut self, key: &RepoKey) -> Option<&mut RepoBook> {
        self.repos.get_mut(key)
    }

    pub(super) fn both(
        &mut self,
        thread: &ThreadKey,
        repo: &RepoKey,
    ) -> Option<(&mut ThreadBook, &mut RepoBook)> {
        self.threads.get_mut(thread).zip(self.repos.get_mut(repo))
    }

    /// Checks that a call fits in the budget that Threads share.
    ///
    /// # Errors
    /// When together they have used it up.
    pub(super) fn check_purse(
        &self,
        purse: &RoadmapBudget,
        estimate: NanoUsd,
    ) -> Result<(), ExceededLimit> {
        // As for every other budget: what costs nothing is not stopped.
        if estimate == NanoUsd::ZERO {
            return Ok(());
        }
        let committed = purse.members.iter().map(|(key, recorded)| {
            // For a Thread with a book, the book counts: calls under way stand in it alone.
            self.threads.get(key).map_or(*recorded, |book| book.book.account.committed())
        });
        let used = committed.fold(NanoUsd::ZERO, |all, one| all + one);
        if used < purse.cap && used + estimate <= purse.cap {
            return Ok(());
        }
        let (limit, cap, flagged) = (CallLimit::PerRoadmap, Some(purse.cap), NanoUsd::ZERO);
        Err(ExceededLimit { limit, cap, used, flagged, until: None, of: None })
    }

    /// The open book of a Thread or Repo.
    pub(super) fn book(&mut self, pot: &BookHolder) -> Option<&mut CallBook> {
        match pot {
            BookHolder::Thread(key) => self.threads.get_mut(key).map(|book| &mut book.book),
            BookHolder::Repo(key) => self.repos.get_mut(key).map(|book| &mut book.book),
        }
    }

    /// True if all that a pot's calls may spend now is on record.
    pub(super) fn is_covered(&mut self, pot: &BookHolder) -> bool {
        match pot {
            BookHolder::Thread(_) => self.book(pot).is_none_or(|book| book.account.is_covered()),
            BookHolder::Repo(key) => self.repos.get(key).is_none_or(RepoBook::is_covered),
        }
    }

    /// True if a pot's money and calls are on record as they are.
    pub(super) fn is_written(&mut self, pot: &BookHolder) -> bool {
        match pot {
            BookHolder::Thread(_) => self.book(pot).is_none_or(|book| book.is_written()),
            BookHolder::Repo(key) => self.repos.get(key).is_none_or(RepoBook::is_written),
        }
    }

    /// Takes into a book what gateways that left have spent, as the record has it this moment; answers
    /// whether there was any.
    pub(super) fn adopt(&mut self, pot: &BookHolder, record: &LeavingEntries) -> bool {
        match pot {
            BookHolder::Thread(key) => self.thread(key).is_some_and(|book| book.adopt(record)),
            BookHolder::Repo(key) => self.repo(key).is_some_and(|book| book.adopt(record)),
        }
    }

    /// Updates a book after a write that clashed with others'.
    pub(super) fn clash(&mut self, pot: &BookHolder, clash: WriteClash) {
        match pot {
            BookHolder::Thread(key) => {
                if let Some(book) = self.thread(key) {
                    book.clash(clash);
                }
            }
            BookHolder::Repo(key) => {
                if let Some(book) = self.repo(key) {
                    book.clash(clash);
                }
            }
        }
    }

    /// Drops the spare grants of all books, after a while without calls.
    pub(super) fn calm(&mut self) {
        let threads = self.threads.values_mut().map(|book| &mut book.book);
        for book in threads.chain(self.repos.values_mut().map(|book| &mut book.book)) {
            book.account.calm();
        }
    }

    /// Opens a Thread's book unless it is open.
    pub(super) fn open_thread(&mut self, key: &ThreadKey, book: ThreadBook) {
        if self.threads.len() >= KEPT {
            self.threads.retain(|_, book| book.book.is_in_use());
        }
        self.threads.entry(key.clone()).or_insert(book);
    }

    /// Opens a Repo's book unless it is open.
    pub(super) fn open_repo(&mut self, key: &RepoKey, book: RepoBook) {
        self.repos.entry(key.clone()).or_insert(book);
    }

    /// Forgets the book of a Thread or Repo that is gone.
    pub(super) fn forget(&mut self, pot: &BookHolder) {
        match pot {
            BookHolder::Thread(key) => drop(self.threads.remove(key)),
            BookHolder::Repo(key) => drop(self.repos.remove(key)),
        }
    }

    /// Calls to ask their providers for, each once: what is said of it settles it everywhere.
    pub(super) fn lost(
        &mut self,
        repo_of: impl Fn(&ThreadKey) -> Option<RepoKey>,
    ) -> Vec<LostCall> {
        let mut lost = Vec::new();
        for (thread, book) in &mut self.threads {
            let Some(repo) = repo_of(thread) else { continue };
            let ids = book.book.open.ask().into_iter();
            lost.extend(ids.map(|id| LostCall {
                thread: Some(thread.clone()),
                repo: repo.clone(),
                id,
            }));
        }
        for (repo, book) in &mut self.repos {
            for id in book.book.open.ask() {
                if !lost.iter().any(|known| known.id == id && known.repo == *repo) {
                    lost.push(LostCall { thread: None, repo: repo.clone(), id });
                }
            }
        }
        lost
    }

    pub(super) fn pots(&self) -> Vec<BookHolder> {
        let threads = self.threads.keys().cloned().map(BookHolder::Thread);
        threads.chain(self.repos.keys().cloned().map(BookHolder::Repo)).collect()
    }
}

impl CallBook {
    pub fn settle(&mut self, id: Option<&str>, estimate: NanoUsd, billed: NanoUsd) {
        self.account.settle(estimate, billed);
        if let Some(id) = id {
            self.open.end(id);
        }
    }

    /// Ends a call without a bill.
    pub fn end(&mut self, id: Option<&str>, estimate: NanoUsd, sent: bool) {
        if sent {
            self.account.flag(estimate);
        } else {
            self.account.release(estimate);
        }
        match id {
            Some(id) if sent => self.open.set(id, CallStage::Lost),
            Some(id) => drop(self.open.end(id)),
            None => {}
        }
    }

    /// A lost call has a bill after all.
    pub fn reconcile(&mut self, id: &str, billed: NanoUsd) -> Option<OpenRecord> {
        let call = self.open.end(id)?;
        self.account.reconcile(call.estimate, billed);
        Some(call)
    }

    /// The cap that was brought near, the first time.
    pub fn comes_near(
        &mut self,
        limits: &LimitsSpec,
        limit: CallLimit,
        day: &str,
    ) -> Option<NearCap> {
        let cap = limits::near_cap(limits, self.cap, &self.account)?;
        if self.warned == Some(cap) {
            return None;
        }
        self.warned = Some(cap);
        let (used, period) = (self.account.used(), day.to_owned());
        Some(NearCap { limit, cap, used, period, of: None })
    }

    fn is_in_use(&self) -> bool {
        self.scheduled
            || !self.account.is_idle()
            || !self.open.is_empty()
            || !self.elsewhere.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roadmap_that_has_used_its_budget_up_stops_what_costs_something_and_nothing_else() {
        let member = ThreadKey { namespace: "team".to_owned(), name: "item".to_owned() };
        let purse = RoadmapBudget { cap: NanoUsd(100), members: vec![(member, NanoUsd(100))] };
        let books = LedgerBooks::default();
        assert_eq!(books.check_purse(&purse, NanoUsd::ZERO), Ok(()), "a model of the team's own");
        let stopped = books.check_purse(&purse, NanoUsd(1)).unwrap_err();
        assert_eq!((stopped.limit, stopped.used), (CallLimit::PerRoadmap, NanoUsd(100)));
        let wider = RoadmapBudget { cap: NanoUsd(101), ..purse };
        assert_eq!(books.check_purse(&wider, NanoUsd(1)), Ok(()));
        assert!(books.check_purse(&wider, NanoUsd(2)).is_err());
    }
}
