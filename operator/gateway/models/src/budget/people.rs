//! Money by person, in the book of their Repo: what each one's calls of the day and of the month have cost, and
//! may cost. A team has no account of its own: it has spent what its members have. Pure.

use std::collections::BTreeMap;

use codebutler_crds::NanoUsd;
use codebutler_crds::spend::{LeavingSpend, PersonSpend, RepoSpend, WarnedCaps};

use super::account::{SpendAccount, WrittenSpend, merge_money};
use super::record::CallHolder;

/// The people of a Repo whose calls are counted.
#[derive(Debug, Default)]
pub struct PeopleBook {
    /// The month of the accounts; their day is that of the Repo's book.
    month: String,
    people: BTreeMap<String, PersonBook>,
    /// Caps of teams of which people were warned, by team.
    pub warned: BTreeMap<String, WarnedCaps>,
    written_warned: BTreeMap<String, WarnedCaps>,
}

/// Both accounts hold the same calls.
#[derive(Debug, Default)]
pub struct PersonBook {
    pub day: SpendAccount,
    pub month: SpendAccount,
    /// Another gateway's grant, as it was found.
    inherited: NanoUsd,
    /// Caps of which people were warned.
    pub warned: WarnedCaps,
    written_warned: WarnedCaps,
    /// The month's money when another gateway took the books over.
    handed: Option<WrittenSpend>,
}

/// The part of a write that is about people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeopleEntry {
    month: String,
    people: BTreeMap<String, PersonEntry>,
    warned: BTreeMap<String, WarnedCaps>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PersonEntry {
    before: [WrittenSpend; 2],
    /// Amounts billed that may be on record instead.
    tried: [Vec<NanoUsd>; 2],
    /// Money to be on record for the day, and for the month.
    money: [WrittenSpend; 2],
    inherited: NanoUsd,
    warned: WarnedCaps,
}

/// Grants of other gateways that were not expected, by person.
pub(super) type PeopleSurprise = BTreeMap<String, NanoUsd>;

/// Conditions under which an entry is applied.
#[derive(Clone, Copy, Debug)]
pub struct EntryTerms<'a> {
    /// The record is of the entry's day.
    pub is_same_day: bool,
    /// The grants on the record are another gateway's.
    pub is_foreign: bool,
    pub part: &'a CallHolder,
}

impl PersonBook {
    fn each(&mut self, change: impl Fn(&mut SpendAccount)) {
        change(&mut self.day);
        change(&mut self.month);
    }

    fn is_covered(&self) -> bool {
        self.day.is_covered() && self.month.is_covered()
    }

    fn money(&self) -> [WrittenSpend; 2] {
        [self.day.wanted(None), self.month.wanted(None)]
    }

    fn written(&self) -> [WrittenSpend; 2] {
        [self.day.written(), self.month.written()]
    }

    fn is_written(&self) -> bool {
        self.money() == self.written()
            && self.inherited == NanoUsd::ZERO
            && self.warned == self.written_warned
    }

    /// Changes since another gateway took the calls over.
    fn apart(&self) -> Option<LeavingSpend> {
        let (base, money) = (self.handed?, self.month.wanted(None));
        let spend = LeavingSpend {
            granted: money.granted + money.flagged.less(base.flagged),
            settled: money.settled.less(base.settled),
        };
        (spend != LeavingSpend::default()).then_some(spend)
    }
}

impl PeopleBook {
    /// The people as a Repo's status has them; `is_foreign`: what is granted there is another gateway's.
    pub fn found(spend: &RepoSpend, is_foreign: bool) -> Self {
        let people = spend.people.iter().map(|(user, found)| {
            let inherited = if is_foreign { found.granted } else { NanoUsd::ZERO };
            let account = |period: codebutler_crds::spend::PeriodSpend| {
                SpendAccount::found(period.settled, period.flagged, inherited)
            };
            let (day, month) = (account(found.day), account(found.month));
            let (warned, written_warned) = (found.warned, found.warned);
            let book = PersonBook { day, month, inherited, warned, written_warned, handed: None };
            (user.clone(), book)
        });
        Self {
            month: spend.month.clone(),
            people: people.collect(),
            warned: spend.teams.clone(),
            written_warned: spend.teams.clone(),
        }
    }

    /// The month of the accounts.
    pub fn month(&self) -> &str {
        &self.month
    }

    /// A person's accounts, if anything is charged to them.
    pub fn person(&self, user: &str) -> Option<&PersonBook> {
        self.people.get(user)
    }

    /// Returns the book of a person, to be changed.
    pub fn person_mut(&mut self, user: &str) -> Option<&mut PersonBook> {
        self.people.get_mut(user)
    }

    /// Begins a day: nothing is spent yet.
    pub fn begin_day(&mut self) {
        for person in self.people.values_mut() {
            person.day.begin_day();
            person.warned.day = None;
        }
        for warned in self.warned.values_mut() {
            warned.day = None;
        }
        self.warned.retain(|_, warned| !warned.is_none());
    }

    /// Begins a month if it is time. Who has no call under way is forgotten.
    pub fn begin_month(&mut self, month: &str) {
        if self.month == month {
            return;
        }
        month.clone_into(&mut self.month);
        self.people.retain(|_, person| !person.month.is_idle());
        for person in self.people.values_mut() {
            person.each(SpendAccount::begin_day);
            person.warned = WarnedCaps::default();
        }
        self.warned.clear();
    }

    /// Reserves the estimate of a call that begins.
    pub fn reserve(&mut self, user: &str, estimate: NanoUsd) {
        self.people.entry(user.to_owned()).or_default().each(|account| account.reserve(estimate));
    }

    /// Replaces the reservation of a call by its bill.
    pub fn settle(&mut self, user: &str, estimate: NanoUsd, billed: NanoUsd) {
        if let Some(person) = self.people.get_mut(user) {
            person.each(|account| account.settle(estimate, billed));
        }
    }

    /// A call ended without a bill.
    pub fn end(&mut self, user: &str, estimate: NanoUsd, sent: bool) {
        if let Some(person) = self.people.get_mut(user) {
            person.each(|a| if sent { a.flag(estimate) } else { a.release(estimate) });
        }
    }

    /// A flagged call has a bill after all.
    pub fn reconcile(&mut self, user: &str, estimate: NanoUsd, billed: NanoUsd) {
        let Some(person) = self.people.get_mut(user) else { return };
        // It may not have been counted then.
        if person.month.flagged() >= estimate {
            person.each(|account| account.reconcile(estimate, billed));
        }
    }

    /// Calls that another gateway has made.
    pub fn adopt(&mut self, spent: &BTreeMap<String, LeavingSpend>) {
        for (user, spend) in spent {
            let person = self.people.entry(user.clone()).or_default();
            person.each(|account| account.adopt(spend.settled, spend.granted));
        }
    }

    /// Takes calls of a leaving gateway out of people's books as if it had not made them.
    pub fn disown(&mut self, spent: &BTreeMap<String, LeavingSpend>) {
        for (user, spend) in spent {
            if let Some(person) = self.people.get_mut(user) {
                person.each(|account| account.disown(spend.settled, spend.granted));
            }
        }
    }

    /// True if everything that people's calls may spend now is on record.
    pub fn is_covered(&self) -> bool {
        self.people.values().all(PersonBook::is_covered)
    }

    /// True if all is on record as it is.
    pub fn is_written(&self) -> bool {
        self.warned == self.written_warned && self.people.values().all(PersonBook::is_written)
    }

    /// The entry to write; `part`: the holder of calls under way.
    pub fn entry(&self, part: &mut CallHolder) -> PeopleEntry {
        match part {
            CallHolder::Own => {}
            CallHolder::HandOver(_, own) => {
                let granted = self.people.iter().map(|(user, person)| {
                    let granted = person.month.wanted(None).granted;
                    (user.clone(), LeavingSpend { granted, ..LeavingSpend::default() })
                });
                own.people = granted.filter(|(_, spend)| spend.granted > NanoUsd::ZERO).collect();
            }
            CallHolder::Apart(own) => {
                let apart = |(user, person): (&String, &PersonBook)| {
                    person.apart().map(|spend| (user.clone(), spend))
                };
                own.people = self.people.iter().filter_map(apart).collect();
            }
        }
        let people = self.people.iter().map(|(user, person)| {
            let entry = PersonEntry {
                before: person.written(),
                tried: [person.day.tried(), person.month.tried()],
                money: person.money(),
                inherited: person.inherited,
                warned: person.warned,
            };
            (user.clone(), entry)
        });
        let people = people.collect();
        PeopleEntry { month: self.month.clone(), people, warned: self.warned.clone() }
    }

    /// Notes that a write of the entry begins.
    pub fn tries(&mut self, entry: &PeopleEntry) {
        for (user, wanted) in &entry.people {
            if let Some(person) = self.people.get_mut(user) {
                person.day.tries(wanted.money[0].settled);
                person.month.tries(wanted.money[1].settled);
            }
        }
    }

    /// Takes note of what was written, and of grants that were not expected.
    pub fn wrote(
        &mut self,
        entry: &PeopleEntry,
        surprise: &PeopleSurprise,
        is_same_day: bool,
        part: &CallHolder,
    ) {
        let is_same_month = entry.month == self.month;
        let as_of = |is_same, money| if is_same { money } else { WrittenSpend::default() };
        for (user, wrote) in &entry.people {
            let Some(person) = self.people.get_mut(user) else { continue };
            person.day.wrote(as_of(is_same_day && is_same_month, wrote.money[0]));
            person.month.wrote(as_of(is_same_month, wrote.money[1]));
            person.inherited = NanoUsd::ZERO;
            person.written_warned = wrote.warned;
            if matches!(part, CallHolder::HandOver(..)) {
                person.handed = Some(wrote.money[1]);
            }
        }
        if matches!(part, CallHolder::HandOver(..)) {
            // Calls of people that were not charged anything before are handed over as well.
            for person in self.people.values_mut().filter(|person| person.handed.is_none()) {
                person.handed = Some(WrittenSpend::default());
            }
        }
        self.written_warned.clone_from(&entry.warned);
        for (user, amount) in surprise {
            let person = self.people.entry(user.clone()).or_default();
            person.each(|account| account.flag_more(*amount));
        }
    }
}

impl PeopleEntry {
    /// Writes it into the newest state, once or again. Answers grants of another gateway that have
    /// appeared since: they are flagged.
    pub fn apply(&self, spend: &mut RepoSpend, terms: EntryTerms<'_>) -> PeopleSurprise {
        let EntryTerms { is_same_day, is_foreign, part } = terms;
        let is_same_month = spend.month == self.month;
        let mut found = std::mem::take(&mut spend.people);
        let mut surprise = PeopleSurprise::new();
        let foreign =
            |person: &PersonSpend| if is_foreign { person.granted } else { NanoUsd::ZERO };
        for (user, entry) in &self.people {
            let mut person = found.remove(user).unwrap_or_default();
            let more = foreign(&person).less(entry.inherited);
            if more > NanoUsd::ZERO {
                surprise.insert(user.clone(), more);
            }
            let periods = [
                (&mut person.day, is_same_day && is_same_month),
                (&mut person.month, is_same_month),
            ];
            for (index, (period, is_same)) in periods.into_iter().enumerate() {
                let (before, money) = (entry.before[index], entry.money[index]);
                let known = (before.settled, entry.tried[index].as_slice());
                period.settled = if is_same {
                    merge_money(period.settled, known, money.settled)
                } else {
                    money.settled
                };
                period.flagged = money.flagged + more;
            }
            let is_handed = matches!(part, CallHolder::HandOver(..));
            person.granted = if is_handed { NanoUsd::ZERO } else { entry.money[1].granted };
            person.warned = entry.warned;
            if person != PersonSpend::default() {
                spend.people.insert(user.clone(), person);
            }
        }
        if is_same_month {
            for (user, mut person) in found {
                let more = foreign(&person);
                person.granted = person.granted.less(more);
                person.day.flagged += more;
                person.month.flagged += more;
                if more > NanoUsd::ZERO {
                    surprise.insert(user.clone(), more);
                }
                spend.people.insert(user, person);
            }
        }
        spend.teams.clone_from(&self.warned);
        spend.month = if spend.people.is_empty() { String::new() } else { self.month.clone() };
        surprise
    }
}
