//! Checks that the budgets of a person and of their teams leave room for a call, and finds those
//! that a call has brought near their caps. Pure.

use codebutler_crds::limits::BudgetSpec;
use codebutler_crds::spend::{CallLimit, WarnedCaps};
use codebutler_crds::{NanoUsd, Thread};
use codebutler_runtime::calendar::BudgetMoment;

use super::NearCap;
use super::account::SpendAccount;
use super::book::RepoBook;
use super::limits::ExceededLimit;

/// The person that calls of a Thread are charged to: who asked for it, or, where a schedule or something else
/// outside of Slack did, who spoke last.
pub fn charged_person(thread: &Thread) -> Option<&str> {
    let speaker = thread.status.as_ref().and_then(|status| status.speaker.as_deref());
    let people = [thread.spec.requested_by.as_deref(), speaker];
    people.into_iter().flatten().find(|user| codebutler_crds::budgets::is_slack_user(user))
}

/// A budget that a person's calls count for.
struct BudgetShare<'a> {
    limit: CallLimit,
    cap: NanoUsd,
    /// The person or the team that has the budget.
    of: &'a str,
    members: &'a [String],
}

/// Period of a budget.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BudgetPeriod {
    Day,
    Month,
}

impl BudgetShare<'_> {
    const fn period(&self) -> BudgetPeriod {
        match self.limit {
            CallLimit::PersonPerMonth | CallLimit::TeamPerMonth => BudgetPeriod::Month,
            _ => BudgetPeriod::Day,
        }
    }

    const fn is_of_team(&self) -> bool {
        matches!(self.limit, CallLimit::TeamPerDay | CallLimit::TeamPerMonth)
    }

    /// The people whose money it is.
    fn people(&self) -> impl Iterator<Item = &str> {
        let one = (!self.is_of_team()).then_some(self.of);
        one.into_iter().chain(self.members.iter().map(String::as_str))
    }

    fn accounts<'b>(&'b self, book: &'b RepoBook) -> impl Iterator<Item = &'b SpendAccount> {
        let people = self.people().filter_map(|user| book.people.person(user));
        people.map(|person| match self.period() {
            BudgetPeriod::Day => &person.day,
            BudgetPeriod::Month => &person.month,
        })
    }

    fn used(&self, book: &RepoBook) -> NanoUsd {
        self.accounts(book).map(SpendAccount::used).sum()
    }

    /// Used money, and estimates of calls under way, here or at a gateway that hands over.
    fn committed(&self, book: &RepoBook) -> NanoUsd {
        let here: NanoUsd = self.accounts(book).map(SpendAccount::committed).sum();
        here + self.people().map(|user| book.book.elsewhere.money_of(user)).sum()
    }
}

/// Lists all budgets that hold for a person's calls.
fn shares_of<'a>(budget: &'a BudgetSpec, user: &'a str) -> Vec<BudgetShare<'a>> {
    let own = budget.people.as_ref().map(|people| people.caps_of(user)).unwrap_or_default();
    let own = [
        (CallLimit::PersonPerDay, own.per_day, user, &[] as &[String]),
        (CallLimit::PersonPerMonth, own.per_month, user, &[]),
    ];
    let teams = budget.teams.iter().filter(|team| team.members.iter().any(|one| one == user));
    let teams = teams.flat_map(|team| {
        let (name, members) = (team.name.as_str(), team.members.as_slice());
        [
            (CallLimit::TeamPerDay, team.per_day, name, members),
            (CallLimit::TeamPerMonth, team.per_month, name, members),
        ]
    });
    own.into_iter()
        .chain(teams)
        .filter_map(|(limit, cap, of, members)| Some(BudgetShare { limit, cap: cap?, of, members }))
        .collect()
}

/// Decides about a call of a person that may cost `estimate`. What costs nothing is not stopped.
///
/// # Errors
/// The first budget in the way.
pub fn check_shares(
    budget: &BudgetSpec,
    book: &RepoBook,
    user: &str,
    estimate: NanoUsd,
    moment: &BudgetMoment,
) -> Result<(), ExceededLimit> {
    if estimate == NanoUsd::ZERO {
        return Ok(());
    }
    let shares = shares_of(budget, user);
    let full = shares.iter().find(|share| share.committed(book) + estimate > share.cap);
    let Some(share) = full else { return Ok(()) };
    let until = match share.period() {
        BudgetPeriod::Day => moment.day_ends,
        BudgetPeriod::Month => moment.month_ends,
    };
    Err(ExceededLimit {
        limit: share.limit,
        cap: Some(share.cap),
        used: share.used(book),
        flagged: share.accounts(book).map(SpendAccount::flagged).sum(),
        until: Some(until),
        of: Some(share.of.to_owned()),
    })
}

/// The budgets that a person's call has brought near, each once in its period.
pub fn near_shares(budget: &BudgetSpec, book: &mut RepoBook, person: &str) -> Vec<NearCap> {
    let mut near = Vec::new();
    let month = book.people.month().to_owned();
    for share in shares_of(budget, person) {
        let (used, cap) = (share.used(book), share.cap);
        if used < cap.times(budget.warn_at.into(), 100) || used == NanoUsd::ZERO {
            continue;
        }
        let warned: Option<&mut WarnedCaps> = if share.is_of_team() {
            Some(book.people.warned.entry(share.of.to_owned()).or_default())
        } else {
            book.people.person_mut(share.of).map(|person| &mut person.warned)
        };
        let Some(warned) = warned else { continue };
        let (warned, period) = match share.period() {
            BudgetPeriod::Day => (&mut warned.day, book.day.clone()),
            BudgetPeriod::Month => (&mut warned.month, month.clone()),
        };
        if *warned != Some(cap) {
            *warned = Some(cap);
            near.push(NearCap {
                limit: share.limit,
                cap,
                used,
                period,
                of: Some(share.of.to_owned()),
            });
        }
    }
    near
}

/// The present cap of a budget that was in the way of a person, if it still is one of theirs.
pub fn current_cap(budget: &BudgetSpec, limit: CallLimit, of: &str, user: &str) -> Option<NanoUsd> {
    let shares = shares_of(budget, user);
    shares.iter().find(|share| share.limit == limit && share.of == of).map(|share| share.cap)
}

#[cfg(test)]
mod tests;
