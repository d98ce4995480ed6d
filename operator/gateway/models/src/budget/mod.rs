//! The ledger: every dollar is granted before it is spent, and settled as the provider billed it.
//!
//! The books are kept in memory by the one process that serves agents. A call is let through when
//! what is settled, flagged and reserved leaves room below every cap; before it is forwarded, what it
//! may cost is covered by a grant on the Thread and on the Repo. Settlements follow at most once a
//! second per object. Who takes over flags the grants that it finds, and asks the providers what the
//! calls on record have cost.
//!
//! Pure: [`account`], [`apart`], [`book`], [`estimate`], [`leaving`], [`limits`], [`open`], [`people`], [`shares`].
//! [`repos`] and the ledger of a Thread write.

pub mod account;
mod apart;
pub mod book;
pub mod leaving;
pub mod limits;
pub mod notices;
pub mod open;
mod people;
mod pot;
pub mod purse;
mod record;
pub mod repos;
pub mod sentences;
pub mod shares;
mod writing;

use std::sync::{Arc, PoisonError};

use codebutler_crds::NanoUsd;
use codebutler_crds::spend::{CallLimit, OPEN_IN_REPO, OPEN_IN_THREAD};
use codebutler_crds::thread::TokenUsage;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{ThreadWriter, WriteError};
use codebutler_runtime::{calendar, step};
use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use self::book::CallBook;
use self::leaving::LedgerOffice;
use self::limits::{CallAccounts, CallCaps, ExceededLimit};
use self::open::OpenRecord;
use self::pot::{BookHolder, LedgerBooks};
pub use self::pot::{LoadError, LostCall};
use self::repos::RepoWriter;
use self::shares::charged_person;
use self::writing::SharedLedger;

/// The books. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<SharedLedger>,
}

/// Reason why a call is not let through.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Exceeded(#[from] ExceededLimit),
    /// Another gateway is about to keep the books.
    #[error("the gateway hands over to another one")]
    Leaving,
    /// The books could not be read, so the estimate could not be granted.
    #[error("the costs so far could not be read, so the call is not sent")]
    Load(#[from] LoadError),
    /// The grant of the estimate could not be written.
    #[error("the call's estimate could not be written, so the call is not sent")]
    Write(#[from] WriteError),
}

/// A cap that a call has brought near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearCap {
    pub limit: CallLimit,
    /// Cap in USD.
    pub cap: NanoUsd,
    /// Amount used, in USD.
    pub used: NanoUsd,
    /// The day or the month that it is for; empty for a Thread's.
    pub period: String,
    /// The person or the team whose it is.
    pub of: Option<String>,
}

impl Ledger {
    /// Empty books of a new holder.
    pub fn new(context: GatewayContext, threads: ThreadWriter, metrics: GatewayMetrics) -> Self {
        let repos = RepoWriter::new(context.client.clone());
        let holder = format!("{:012x}", rand::random::<u64>() >> 16);
        Self { inner: Arc::new(SharedLedger::new(context, threads, repos, metrics, holder)) }
    }

    /// Waits for the turn to ask people about a Thread's budget: however many roles run into a limit at
    /// once, there is one question.
    pub async fn lock_questions(&self, thread: &ThreadKey) -> OwnedMutexGuard<()> {
        self.inner.asking.lock(thread).await
    }

    /// Remembers that a Thread heard of a fallback: `model` broke at `since`. False if it has before.
    pub fn is_new_fallback(&self, thread: ThreadKey, model: &str, since: Instant) -> bool {
        self.inner.told.first_time((thread, model.to_owned(), since))
    }

    /// Lets a call through that may cost `estimate`: reserved here, granted on Thread and Repo.
    ///
    /// # Errors
    /// The limit in the way, or why nothing can be put on record now.
    pub async fn open(
        &self,
        caller: &ProvenCaller,
        estimate: NanoUsd,
    ) -> Result<BilledCall, OpenError> {
        let (thread, repo) = (caller.key(), RepoKey::from(&*caller.repo));
        let user = charged_user(caller).to_owned();
        let call = loop {
            Box::pin(self.inner.load(&thread, &repo)).await?;
            let purse = self.inner.purse(caller);
            let mut books = self.inner.books();
            if books.office != LedgerOffice::Held {
                return Err(OpenError::Leaving);
            }
            if let Some(purse) = &purse {
                books.check_purse(purse, estimate)?;
            }
            // Forgotten by another call in between: look again.
            let Some((one, all)) = books.both(&thread, &repo) else { continue };
            let limits = &caller.repo.spec.limits;
            let moment = calendar::find_moment(Timestamp::now(), &limits.time_zone);
            all.begin(&moment);
            let fresh = self.inner.freshest(caller);
            let budget = fresh.status.as_ref().and_then(|status| status.budget.as_deref());
            let caps = CallCaps::of(limits, budget, &moment.day);
            let pots = CallAccounts {
                thread: &one.book.account,
                day: &all.book.account,
                calls: &all.hour,
            };
            limits::check_limits(limits, caps, &pots, &user, estimate, &moment)?;
            let person = charged_person(&caller.thread).filter(|_| limits.budget.counts_people());
            let person = person.map(ToOwned::to_owned);
            if let Some(person) = &person {
                shares::check_shares(&limits.budget, all, person, estimate, &moment)?;
                all.people.reserve(person, estimate);
            }
            all.count(&user);
            let now = Instant::now();
            for (book, cap) in [(&mut one.book, caps.thread), (&mut all.book, caps.day)] {
                book.cap = cap;
                book.called_at = Some(now);
                book.account.reserve(estimate);
            }
            let covered = one.book.account.is_covered() && all.is_covered();
            drop(books);
            let role = caller.role_name().to_owned();
            let ledger = self.clone();
            let (stage, id, lasts) = (Stage::Open, None, false);
            break BilledCall {
                ledger,
                thread,
                repo,
                role,
                user,
                person,
                estimate,
                stage,
                covered,
                id,
                lasts,
            };
        };
        if !call.covered {
            step::point("before grant");
            Box::pin(self.inner.cover(&call.thread, &call.repo, estimate)).await?;
            step::point("after grant");
        }
        Ok(call)
    }

    /// Puts on record what is settled of a Thread.
    pub async fn flush(&self, thread: &ThreadKey) {
        let pot = BookHolder::Thread(thread.clone());
        if let Err(error) = self.inner.write(&pot).await {
            tracing::warn!(thread = thread.name, %error, "thread_cost_write_failed");
        }
    }

    /// Flags what an earlier holder was granted.
    pub async fn inherit(&self) {
        self.inner.inherit().await;
    }

    /// Puts everything on record and gives all grants back; answers whether that worked. To be called
    /// when no call is under way.
    pub async fn close(&self) -> bool {
        self.inner.close().await
    }

    /// Looks for calls of gateways that hand over, until it is dropped.
    pub async fn look_elsewhere(&self) {
        self.inner.look_elsewhere().await;
    }

    /// Puts everything on record for the next holder; answers whether that worked. Calls under way,
    /// which may take `seconds` more, are settled here, beside the books; none begins any more.
    pub async fn leave(&self, seconds: u32) -> bool {
        self.inner.leave(seconds).await
    }

    /// Notes that somebody else keeps the books from now on.
    pub fn left(&self) {
        self.inner.left();
    }

    /// Writes nothing any more: somebody else keeps the books.
    pub async fn cut(&self) {
        self.inner.cut().await;
    }

    /// Waits for calls to ask their providers for. Each is handed out once: it ends with
    /// [`Self::reconcile`] or [`Self::give_up`].
    pub async fn lost(&self) -> Vec<LostCall> {
        loop {
            let lost = self.inner.books().lost(|thread| self.inner.repo_of(thread));
            if !lost.is_empty() {
                return lost;
            }
            self.inner.lost.notified().await;
        }
    }

    /// Settles a call that was flagged, now that its bill is known. Returns the call, unless its
    /// Thread has it settled already.
    pub fn reconcile(&self, lost: &LostCall, usage: TokenUsage) -> Option<OpenRecord> {
        let person = lost.thread.as_ref().and_then(|thread| self.inner.person_of(thread));
        let mut books = self.inner.books();
        let mut settled = None;
        if let Some(book) = lost.thread.as_ref().and_then(|thread| books.thread(thread)) {
            settled = book.book.reconcile(&lost.id, usage.cost);
            if let Some(call) = &settled {
                book.add(&call.role, usage);
            }
        }
        if let Some(book) = books.repo(&lost.repo) {
            let call = book.book.reconcile(&lost.id, usage.cost);
            if let Some((call, person)) = call.zip(person) {
                book.people.reconcile(&person, call.estimate, usage.cost);
            }
        }
        drop(books);
        self.schedule_lost(lost);
        settled
    }

    /// The provider does not tell what a call cost: it counts as its estimate for good.
    pub fn give_up(&self, lost: &LostCall) {
        let mut books = self.inner.books();
        if let Some(book) = lost.thread.as_ref().and_then(|thread| books.thread(thread)) {
            book.book.open.end(&lost.id);
        }
        if let Some(book) = books.repo(&lost.repo) {
            book.book.open.end(&lost.id);
        }
        drop(books);
        self.schedule_lost(lost);
    }

    fn schedule_lost(&self, lost: &LostCall) {
        if let Some(thread) = &lost.thread {
            self.inner.schedule(BookHolder::Thread(thread.clone()));
        }
        self.inner.schedule(BookHolder::Repo(lost.repo.clone()));
    }
}

/// Returns the user who pays for a call: the one who last spoke in the Thread, or who started it.
/// Empty if nobody is known.
pub fn charged_user(caller: &ProvenCaller) -> &str {
    let status = caller.thread.status.as_ref();
    let speaker = status.and_then(|status| status.speaker.as_deref());
    speaker.or(caller.thread.spec.requested_by.as_deref()).unwrap_or_default()
}

/// A call that was let through. Dropped without a word it is taken back, or, once it was sent,
/// flagged.
pub struct BilledCall {
    ledger: Ledger,
    thread: ThreadKey,
    repo: RepoKey,
    role: String,
    user: String,
    /// The person whose budgets it counts for, where there are any.
    person: Option<String>,
    estimate: NanoUsd,
    stage: Stage,
    covered: bool,
    id: Option<String>,
    /// True if the call lasts: a gateway that takes over has to know of it.
    lasts: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Sent,
    Done,
}

impl BilledCall {
    /// Notes that the call was sent: from now on it may be billed.
    pub fn sent(&mut self) {
        self.stage = Stage::Sent;
    }

    /// The provider's name for it.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The provider has a name for it.
    pub fn known_as(&mut self, id: &str) {
        if self.id.is_some() {
            return;
        }
        self.id = Some(id.to_owned());
        let (role, estimate) = (self.role.clone(), self.estimate);
        let open = OpenRecord { role, estimate, stage: open::CallStage::Brief };
        let mut books = self.ledger.inner.books();
        if let Some(book) = books.thread(&self.thread) {
            book.book.open.begin(id, open.clone(), OPEN_IN_THREAD);
        }
        if let Some(book) = books.repo(&self.repo) {
            book.book.open.begin(id, open, OPEN_IN_REPO);
        }
        drop(books);
        if self.lasts {
            self.lasts();
        }
    }

    /// Notes that the call takes long enough to be put on record by its id.
    pub fn lasts(&mut self) {
        self.lasts = true;
        if self.id.is_some() {
            self.each(|book, id| book.open.set(id, open::CallStage::Long));
            self.ledger.inner.schedule_both(&self.thread, &self.repo);
        }
    }

    /// Both books, if the call has an id.
    fn each(&self, change: impl Fn(&mut CallBook, &str)) {
        let Some(id) = &self.id else { return };
        let mut books = self.ledger.inner.books();
        for pot in [BookHolder::Thread(self.thread.clone()), BookHolder::Repo(self.repo.clone())] {
            if let Some(book) = books.book(&pot) {
                change(book, id);
            }
        }
    }

    /// Notes that the call was not served, so it is not billed. It may be sent again.
    pub fn refused(&mut self) {
        self.stage = Stage::Open;
    }

    /// Settles the call with its bill. Returns the caps that it brought near, each once.
    pub fn settle(mut self, caller: &ProvenCaller, usage: TokenUsage) -> Vec<NearCap> {
        self.stage = Stage::Done;
        let mut near = Vec::new();
        let limits = &caller.repo.spec.limits;
        let id = self.id.as_deref();
        let mut books = self.ledger.inner.books();
        if let Some(book) = books.thread(&self.thread) {
            book.book.settle(id, self.estimate, usage.cost);
            book.add(&self.role, usage);
            near.extend(book.book.comes_near(limits, CallLimit::PerThread, ""));
        }
        if let Some(book) = books.repo(&self.repo) {
            book.book.settle(id, self.estimate, usage.cost);
            let day = book.day.clone();
            near.extend(book.book.comes_near(limits, CallLimit::PerDay, &day));
            if let Some(person) = &self.person {
                book.people.settle(person, self.estimate, usage.cost);
                near.extend(shares::near_shares(&limits.budget, book, person));
            }
        }
        drop(books);
        self.ledger.inner.schedule_both(&self.thread, &self.repo);
        near
    }

    /// Flags the call: it was sent, and nobody knows whether it was billed. The provider is asked.
    pub fn flag(mut self) {
        self.end(true);
    }

    fn end(&mut self, sent: bool) {
        self.stage = Stage::Done;
        let mut books = self.ledger.inner.books();
        let id = self.id.as_deref();
        let one = books.thread(&self.thread).map(|book| &mut book.book);
        if let Some(book) = one {
            book.end(id, self.estimate, sent);
        }
        if let Some(book) = books.repo(&self.repo) {
            book.book.end(id, self.estimate, sent);
            if let Some(person) = &self.person {
                book.people.end(person, self.estimate, sent);
            }
            if !sent {
                book.uncount(&self.user);
            }
        }
        drop(books);
        self.ledger.inner.schedule_both(&self.thread, &self.repo);
        if sent {
            self.ledger.inner.lost.notify_one();
        }
    }
}

impl Drop for BilledCall {
    fn drop(&mut self) {
        match self.stage {
            Stage::Done => {}
            stage => self.end(stage == Stage::Sent),
        }
    }
}

impl SharedLedger {
    fn books(&self) -> std::sync::MutexGuard<'_, LedgerBooks> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_costs_that_cant_be_read_from_an_estimate_that_cant_be_written() {
        let missing = || WriteError::Missing("t1".to_owned());
        let errors = [OpenError::Load(LoadError::Thread(missing())), OpenError::Write(missing())];
        let [read, written] = errors.map(|error| format!("{:#}", anyhow::Error::new(error)));
        assert!(read.contains("could not be read") && read.contains("`t1`"), "{read}");
        assert!(written.contains("could not be written") && written.contains("`t1`"), "{written}");
    }
}
