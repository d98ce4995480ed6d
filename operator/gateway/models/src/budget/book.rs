//! Books of a Thread and of a Repo as the holder knows them, and the entries that it writes of
//! them. Pure.

use std::collections::BTreeMap;

use codebutler_crds::repo::RepoStatus;
use codebutler_crds::spend::{
    HourCalls, OPEN_IN_REPO, OPEN_IN_THREAD, OpenCall, RepoSpend, ThreadBudget,
};
use codebutler_crds::thread::TokenUsage;
use codebutler_crds::{NanoUsd, ThreadStatus};
use codebutler_runtime::calendar::BudgetMoment;
use tokio::time::Instant;

use super::account::{SpendAccount, WrittenSpend, merge_money, note_tried};
use super::leaving::{
    self, BookHandover, LeavingEntries, LedgerOffice, SpentElsewhere, WriteClash,
};
use super::open::{CallStage, OpenCalls, OpenRecord};
use super::people::{EntryTerms, PeopleBook, PeopleEntry, PeopleSurprise};
use super::record::{CallHolder, CallRecords};

/// Fields that books of both kinds have.
#[derive(Debug, Default)]
pub struct CallBook {
    pub account: SpendAccount,
    /// The cap that its calls are held to.
    pub cap: Option<NanoUsd>,
    /// The cap at which people were told that it is near.
    pub warned: Option<NanoUsd>,
    /// Another holder's grant, as it was found: part of what is flagged, and still written as its.
    pub inherited: NanoUsd,
    /// Calls whose cost is not known.
    pub open: OpenCalls,
    /// Calls of other gateways, which leave.
    pub elsewhere: SpentElsewhere,
    /// State of the book's handover to another gateway.
    pub handed: BookHandover,
    /// Time of the last write.
    pub wrote_at: Option<Instant>,
    /// Time at which a call last had to wait for a grant.
    pub granted_at: Option<Instant>,
    /// Time at which a call last began.
    pub called_at: Option<Instant>,
    /// True if a write is scheduled.
    pub scheduled: bool,
}

#[derive(Debug, Default)]
pub struct ThreadBook {
    pub book: CallBook,
    /// Usage by role as it is written.
    pub base: BTreeMap<String, TokenUsage>,
    pub usage: BTreeMap<String, TokenUsage>,
    /// Usage of writes whose outcome is not known: one of them may be on record.
    tried: Vec<BTreeMap<String, TokenUsage>>,
}

#[derive(Debug, Default)]
pub struct RepoBook {
    /// Money spent on `day`.
    pub book: CallBook,
    pub day: String,
    pub hour: HourCalls,
    pub people: PeopleBook,
}

/// Grants of another holder that were not expected: of the Repo, and of people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepoSurprise {
    all: NanoUsd,
    people: PeopleSurprise,
}

/// Entry to write to a Thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEntry {
    holder: String,
    inherited: NanoUsd,
    pub calls: CallRecords,
    /// The money to be on record.
    pub money: WrittenSpend,
    base: BTreeMap<String, TokenUsage>,
    tried: Vec<BTreeMap<String, TokenUsage>>,
    /// Usage by role to be on record.
    pub usage: BTreeMap<String, TokenUsage>,
}

/// Entry to write to a Repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoEntry {
    holder: String,
    inherited: NanoUsd,
    pub calls: CallRecords,
    before: WrittenSpend,
    /// Amounts billed that may be on record instead.
    tried: Vec<NanoUsd>,
    /// The money to be on record.
    pub money: WrittenSpend,
    day: String,
    hour: HourCalls,
    people: PeopleEntry,
}

impl ThreadBook {
    /// A Thread as it was found by `holder`.
    pub fn found(status: Option<&ThreadStatus>, holder: &str) -> Self {
        let Some(status) = status else { return Self::default() };
        let usage: BTreeMap<_, _> =
            status.roles.iter().map(|(role, own)| (role.clone(), own.usage)).collect();
        let budget = status.budget.clone().unwrap_or_default();
        let inherited = foreign_grant(budget.holder.as_deref(), budget.granted, holder);
        let account =
            SpendAccount::found(status.cost.unwrap_or_default(), budget.flagged, inherited);
        let lost = budget.open.into_iter().map(|(id, call)| {
            let OpenCall { role, estimate } = call;
            (id, OpenRecord { role, estimate, stage: CallStage::Lost })
        });
        let mut book =
            CallBook { account, inherited, open: OpenCalls::found(lost), ..CallBook::default() };
        book.look_elsewhere(&budget.leaving);
        Self { book, base: usage.clone(), usage, tried: Vec::new() }
    }

    pub fn add(&mut self, role: &str, delta: TokenUsage) {
        let usage = self.usage.entry(role.to_owned()).or_default();
        *usage = sum_usage(*usage, delta);
    }

    /// Takes into the books what gateways that left have spent, as the record has it this moment;
    /// answers whether there was any.
    pub fn adopt(&mut self, record: &LeavingEntries) -> bool {
        let due = self.book.adopt(record, OPEN_IN_THREAD);
        for (role, usage) in due.iter().flat_map(|entry| &entry.usage) {
            self.add(role, *usage);
        }
        !due.is_empty()
    }

    /// The entry can't be written.
    pub fn clash(&mut self, clash: WriteClash) {
        let Some(taken) = self.book.clash(clash) else { return };
        for (role, usage) in taken.usage {
            let own = self.usage.entry(role).or_default();
            *own = leaving::usage_difference(*own, usage);
        }
    }

    /// Builds the entry to write, if there is anything to write.
    pub fn entry(&self, holder: &str, office: LedgerOffice) -> Option<ThreadEntry> {
        let money = self.book.account.wanted(self.book.cap);
        let clean = self.base == self.usage && self.book.is_written();
        Some(ThreadEntry {
            holder: holder.to_owned(),
            inherited: self.book.inherited,
            calls: self.book.calls(office, &self.usage, clean)?,
            money,
            base: self.base.clone(),
            tried: self.tried.clone(),
            usage: self.usage.clone(),
        })
    }

    /// Notes that a write of the entry begins: whoever waits for it may go away, and its answer may be lost.
    pub fn tries(&mut self, entry: &ThreadEntry) {
        if entry.usage != self.base {
            note_tried(&mut self.tried, entry.usage.clone());
        }
    }

    /// Takes note of what was written, and of a grant that nobody expected.
    pub fn wrote(&mut self, entry: ThreadEntry, surprise: NanoUsd, now: Instant) {
        self.book.wrote(entry.money, &entry.calls, surprise, now);
        if let BookHandover::As(base) = &mut self.book.handed
            && matches!(entry.calls.part, CallHolder::HandOver(..))
        {
            base.usage.clone_from(&entry.usage);
        }
        self.base = entry.usage;
        self.tried.clear();
    }
}

impl RepoBook {
    /// A Repo as it was found by `holder`.
    pub fn found(status: Option<&RepoStatus>, holder: &str) -> Self {
        let Some(spend) = status.and_then(|status| status.spend.clone()) else {
            return Self::default();
        };
        let inherited = foreign_grant(spend.holder.as_deref(), spend.granted, holder);
        let account = SpendAccount::found(spend.settled, spend.flagged, inherited);
        let lost = spend.open.clone().into_iter().map(|(id, estimate)| {
            (id, OpenRecord { role: String::new(), estimate, stage: CallStage::Lost })
        });
        let mut book =
            CallBook { account, inherited, open: OpenCalls::found(lost), ..CallBook::default() };
        book.look_elsewhere(&spend.leaving);
        let people = PeopleBook::found(&spend, spend.holder.as_deref() != Some(holder));
        Self { book, day: spend.day, hour: spend.hour.unwrap_or_default(), people }
    }

    /// Begins a day, a month and an hour if it is time.
    pub fn begin(&mut self, moment: &BudgetMoment) {
        if self.day != moment.day {
            self.day.clone_from(&moment.day);
            self.book.account.begin_day();
            self.book.open.forget_lost();
            self.book.warned = None;
            self.people.begin_day();
        }
        self.people.begin_month(&moment.month);
        if self.hour.hour != moment.hour {
            self.hour = HourCalls { hour: moment.hour.clone(), ..HourCalls::default() };
        }
    }

    /// Counts a call of the hour.
    pub fn count(&mut self, user: &str) {
        self.hour.calls = self.hour.calls.saturating_add(1);
        if !user.is_empty() {
            let calls = self.hour.users.entry(user.to_owned()).or_default();
            *calls = calls.saturating_add(1);
        }
    }

    /// Takes a call back that was not made.
    pub fn uncount(&mut self, user: &str) {
        self.hour.calls = self.hour.calls.saturating_sub(1);
        if let Some(calls) = self.hour.users.get_mut(user) {
            *calls = calls.saturating_sub(1);
        }
    }

    /// Adopts entries as [`ThreadBook::adopt`] does.
    pub fn adopt(&mut self, record: &LeavingEntries) -> bool {
        let due = self.book.adopt(record, OPEN_IN_REPO);
        for entry in &due {
            self.people.adopt(&entry.people);
        }
        !due.is_empty()
    }

    /// The entry can't be written.
    pub fn clash(&mut self, clash: WriteClash) {
        if let Some(taken) = self.book.clash(clash) {
            self.people.disown(&taken.people);
        }
    }

    /// True if all that may be spent now is on record.
    pub fn is_covered(&self) -> bool {
        self.book.account.is_covered() && self.people.is_covered()
    }

    /// True if all is on record as it is.
    pub fn is_written(&self) -> bool {
        self.book.is_written() && self.people.is_written()
    }

    /// Builds the entry to write, if there is anything to write.
    pub fn entry(&self, holder: &str, office: LedgerOffice) -> Option<RepoEntry> {
        let before = self.book.account.written();
        let money = self.book.account.wanted(self.book.cap);
        let mut calls = self.book.calls(office, &BTreeMap::new(), self.is_written())?;
        let people = self.people.entry(&mut calls.part);
        Some(RepoEntry {
            people,
            holder: holder.to_owned(),
            inherited: self.book.inherited,
            calls,
            before,
            tried: self.book.account.tried(),
            money,
            day: self.day.clone(),
            hour: self.hour.clone(),
        })
    }

    /// Notes that a write of the entry begins.
    pub fn tries(&mut self, entry: &RepoEntry) {
        self.book.account.tries(entry.money.settled);
        self.people.tries(&entry.people);
    }

    /// Takes note of what was written, and of a grant that nobody expected.
    pub fn wrote(&mut self, entry: &RepoEntry, surprise: &RepoSurprise, now: Instant) {
        let is_same_day = entry.day == self.day;
        self.people.wrote(&entry.people, &surprise.people, is_same_day, &entry.calls.part);
        // Written on the last day: today nothing is.
        let money = if is_same_day { entry.money } else { WrittenSpend::default() };
        self.book.wrote(money, &entry.calls, surprise.all, now);
    }
}

impl CallBook {
    /// Returns true if the money and the open calls are on record as they are.
    pub fn is_written(&self) -> bool {
        self.account.wanted(self.cap) == self.account.written()
            && self.inherited == NanoUsd::ZERO
            && self.open.is_written()
            && self.elsewhere.is_written()
    }

    fn wrote(&mut self, money: WrittenSpend, calls: &CallRecords, surprise: NanoUsd, now: Instant) {
        self.inherited = NanoUsd::ZERO;
        self.open.wrote(&calls.all);
        self.elsewhere.wrote(&calls.taken);
        self.account.wrote(money);
        if surprise != NanoUsd::ZERO {
            self.account.flag_more(surprise);
        }
        self.handed_over(money.settled, money.flagged + surprise, &calls.part);
        self.wrote_at = Some(now);
    }
}

impl ThreadEntry {
    /// Writes it into the newest status, once or again. Answers a grant of another holder that has
    /// appeared since: it is flagged.
    ///
    /// # Errors
    /// When others have written what it was not made for; then it writes nothing.
    pub fn apply(&self, status: &mut ThreadStatus) -> Result<NanoUsd, WriteClash> {
        let mut budget = *status.budget.clone().unwrap_or_default();
        let CallRecords { all, taken, part } = &self.calls;
        if let CallHolder::Apart(own) = part {
            leaving::put_entry(&mut budget.leaving, &self.holder, own)?;
            status.budget = (budget != ThreadBudget::default()).then(|| Box::new(budget));
            return Ok(NanoUsd::ZERO);
        }
        leaving::take_out(&mut budget.leaving, taken)?;
        for (role, new) in &self.usage {
            let now = status.roles.get(role).map(|role| role.usage).unwrap_or_default();
            let base = self.base_of(role, now);
            if *new == base {
                continue;
            }
            let own = &mut status.roles.entry(role.clone()).or_default().usage;
            let merged = merge_usage(*own, base, *new);
            let total = status.cost.unwrap_or_default();
            status.cost = Some(total + merged.cost.less(own.cost));
            *own = merged;
        }
        let found = foreign_grant(budget.holder.as_deref(), budget.granted, &self.holder);
        let surprise = found.less(self.inherited);
        budget.flagged = self.money.flagged + surprise;
        let (granted, open) = part.hand_over(self.money, all, &self.holder, &mut budget.leaving);
        budget.granted = granted;
        budget.holder = grant_holder(granted, &self.holder);
        open.apply(&mut budget.open, OpenRecord::on_record);
        status.budget = (budget != ThreadBudget::default()).then(|| Box::new(budget));
        Ok(surprise)
    }

    /// The usage of a role that the record had when this was added to: as it was known, or that of an earlier write.
    fn base_of(&self, role: &str, now: TokenUsage) -> TokenUsage {
        let mut tried = self.tried.iter().filter_map(|usage| usage.get(role));
        let known = || self.base.get(role).copied().unwrap_or_default();
        tried.find(|tried| **tried == now).copied().unwrap_or_else(known)
    }
}

impl RepoEntry {
    /// Writes it into the newest state, once or again. Answers as [`ThreadEntry::apply`] does.
    ///
    /// # Errors
    /// As that does.
    pub fn apply(&self, spend: &mut RepoSpend) -> Result<RepoSurprise, WriteClash> {
        let CallRecords { all, taken, part } = &self.calls;
        if let CallHolder::Apart(own) = part {
            return leaving::put_entry(&mut spend.leaving, &self.holder, own)
                .map(|()| RepoSurprise::default());
        }
        leaving::take_out(&mut spend.leaving, taken)?;
        let found = foreign_grant(spend.holder.as_deref(), spend.granted, &self.holder);
        let surprise = found.less(self.inherited);
        let is_same_day = spend.day == self.day;
        let is_foreign = spend.holder.as_deref() != Some(self.holder.as_str());
        let people = self.people.apply(spend, EntryTerms { is_same_day, is_foreign, part });
        if is_same_day {
            let known = (self.before.settled, self.tried.as_slice());
            spend.settled = merge_money(spend.settled, known, self.money.settled);
        } else {
            spend.settled = self.money.settled;
        }
        spend.day.clone_from(&self.day);
        spend.flagged = self.money.flagged + surprise;
        let (granted, open) = part.hand_over(self.money, all, &self.holder, &mut spend.leaving);
        spend.granted = granted;
        spend.holder = grant_holder(granted, &self.holder);
        open.apply(&mut spend.open, |open| open.estimate);
        spend.hour = (self.hour.calls > 0).then(|| self.hour.clone());
        Ok(RepoSurprise { all: surprise, people })
    }
}

fn grant_holder(granted: NanoUsd, me: &str) -> Option<String> {
    (granted != NanoUsd::ZERO).then(|| me.to_owned())
}

/// A grant that is not ours.
fn foreign_grant(of: Option<&str>, granted: NanoUsd, me: &str) -> NanoUsd {
    if of == Some(me) { NanoUsd::ZERO } else { granted }
}

/// `now` with what leads from `base` to `new` in it. If `now` is `new`, an earlier attempt got
/// through and only its answer was lost.
fn merge_usage(now: TokenUsage, base: TokenUsage, new: TokenUsage) -> TokenUsage {
    if now == base || now == new {
        return new;
    }
    sum_usage(now, leaving::usage_difference(new, base))
}

fn sum_usage(usage: TokenUsage, delta: TokenUsage) -> TokenUsage {
    TokenUsage {
        cost: usage.cost + delta.cost,
        prompt_tokens: usage.prompt_tokens.saturating_add(delta.prompt_tokens),
        completion_tokens: usage.completion_tokens.saturating_add(delta.completion_tokens),
        cached_tokens: usage.cached_tokens.saturating_add(delta.cached_tokens),
        written_tokens: usage.written_tokens.saturating_add(delta.written_tokens),
        reasoning_tokens: usage.reasoning_tokens.saturating_add(delta.reasoning_tokens),
        calls: usage.calls.saturating_add(delta.calls),
    }
}

#[cfg(test)]
mod tests;
