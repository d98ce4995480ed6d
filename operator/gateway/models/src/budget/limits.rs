//! Decides whether a call may be made: every limit of a Repo in one place. Pure.

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::LimitsSpec;
use codebutler_crds::spend::{CallLimit, DayAmount, HourCalls, ThreadBudget};
use codebutler_runtime::calendar::BudgetMoment;
use jiff::Timestamp;

use super::account::SpendAccount;

/// The caps that hold for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCaps {
    pub thread: Option<NanoUsd>,
    pub day: Option<NanoUsd>,
}

impl CallCaps {
    /// Returns the caps of the limits, with what people have added.
    pub fn of(limits: &LimitsSpec, budget: Option<&ThreadBudget>, today: &str) -> Self {
        let raised = budget.map_or(NanoUsd::ZERO, |budget| budget.raised);
        let today = budget
            .and_then(|budget| budget.raised_today.as_ref())
            .filter(|raised| raised.day == today)
            .map_or(NanoUsd::ZERO, |DayAmount { amount, .. }| *amount);
        Self {
            thread: limits.budget.per_thread.map(|cap| cap + raised),
            day: limits.budget.per_day.map(|cap| cap + today),
        }
    }
}

/// A limit that a call would exceed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {} of the Repo is reached", .limit.name())]
pub struct ExceededLimit {
    pub limit: CallLimit,
    /// The cap in USD; absent for a number of calls.
    pub cap: Option<NanoUsd>,
    /// Amount settled, or the number of calls as so many nanos.
    pub used: NanoUsd,
    /// Part of `used` that only counts as spent.
    pub flagged: NanoUsd,
    /// Time at which the limit gives way by itself.
    pub until: Option<Timestamp>,
    /// The person or the team whose budget it is.
    pub of: Option<String>,
}

pub struct CallAccounts<'a> {
    pub thread: &'a SpendAccount,
    pub day: &'a SpendAccount,
    /// The Repo's calls of this hour.
    pub calls: &'a HourCalls,
}

/// Decides about a call of `user` that may cost `estimate`.
///
/// # Errors
/// The first limit in the way.
pub fn check_limits(
    limits: &LimitsSpec,
    caps: CallCaps,
    pots: &CallAccounts<'_>,
    user: &str,
    estimate: NanoUsd,
    moment: &BudgetMoment,
) -> Result<(), ExceededLimit> {
    let money = |limit, pot: &SpendAccount, cap: Option<NanoUsd>, until| {
        if pot.allows(estimate, cap) {
            return Ok(());
        }
        let (of, flagged) = (None, pot.flagged());
        Err(ExceededLimit { limit, cap, used: pot.used(), flagged, until, of })
    };
    let calls = |limit, made: u32, most: Option<u32>| {
        if most.is_none_or(|most| made < most) {
            return Ok(());
        }
        let (count, until) = (NanoUsd(made.into()), Some(moment.hour_ends));
        let (cap, flagged, of) = (None, NanoUsd::ZERO, None);
        Err(ExceededLimit { limit, cap, used: count, flagged, until, of })
    };
    money(CallLimit::PerThread, pots.thread, caps.thread, None)?;
    money(CallLimit::PerDay, pots.day, caps.day, Some(moment.day_ends))?;
    calls(CallLimit::CallsPerHour, pots.calls.calls, Some(limits.calls_per_hour))?;
    let made = pots.calls.users.get(user).copied().unwrap_or(0);
    calls(CallLimit::CallsPerUserPerHour, made, limits.calls_per_user_per_hour)
}

/// The cap that a pot has just come close to: the one at which the thread is told.
pub fn near_cap(limits: &LimitsSpec, cap: Option<NanoUsd>, pot: &SpendAccount) -> Option<NanoUsd> {
    let cap = cap?;
    (pot.used() >= cap.times(limits.budget.warn_at.into(), 100)).then_some(cap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_runtime::calendar;

    const fn usd(cents: u64) -> NanoUsd {
        NanoUsd(cents * 10_000_000)
    }

    fn checked(limits: &LimitsSpec, spent: [u64; 2], calls: u32, user: &str) -> Option<CallLimit> {
        let moment = calendar::find_moment("2026-11-22T10:00:00Z".parse().unwrap(), "UTC");
        let [thread, day] =
            spent.map(|cents| SpendAccount::found(usd(cents), NanoUsd::ZERO, NanoUsd::ZERO));
        let users = [("U1".to_owned(), calls)].into();
        let calls = HourCalls { hour: moment.hour.clone(), calls, users };
        let pots = CallAccounts { thread: &thread, day: &day, calls: &calls };
        let caps = CallCaps::of(limits, None, &moment.day);
        check_limits(limits, caps, &pots, user, usd(10), &moment)
            .err()
            .map(|exceeded| exceeded.limit)
    }

    #[test]
    fn each_limit_is_in_the_way_of_the_first_call_beyond_it() {
        let mut limits = LimitsSpec::default();
        assert_eq!(checked(&limits, [9_999, 9_999], 999, "U1"), None);
        assert_eq!(checked(&limits, [0, 0], 1000, "U1"), Some(CallLimit::CallsPerHour));
        limits.calls_per_user_per_hour = Some(5);
        assert_eq!(checked(&limits, [0, 0], 5, "U1"), Some(CallLimit::CallsPerUserPerHour));
        assert_eq!(checked(&limits, [0, 0], 5, "U2"), None);
        limits.budget.per_thread = Some(usd(100));
        limits.budget.per_day = Some(usd(500));
        assert_eq!(checked(&limits, [90, 90], 0, "U1"), None);
        assert_eq!(checked(&limits, [91, 91], 0, "U1"), Some(CallLimit::PerThread));
        assert_eq!(checked(&limits, [0, 491], 0, "U1"), Some(CallLimit::PerDay));
    }

    #[test]
    fn what_people_added_counts_and_todays_only_today() {
        let mut limits = LimitsSpec::default();
        limits.budget.per_thread = Some(usd(100));
        limits.budget.per_day = Some(usd(500));
        let budget = ThreadBudget {
            raised: usd(100),
            raised_today: Some(DayAmount { day: "2026-11-22".into(), amount: usd(500) }),
            ..ThreadBudget::default()
        };
        let caps = |day| CallCaps::of(&limits, Some(&budget), day);
        assert_eq!(caps("2026-11-22"), CallCaps { thread: Some(usd(200)), day: Some(usd(1000)) });
        assert_eq!(caps("2026-11-23").day, Some(usd(500)));
    }

    #[test]
    fn near_is_a_share_of_the_cap() {
        let limits = LimitsSpec::default();
        let pot = |cents| SpendAccount::found(usd(cents), NanoUsd::ZERO, NanoUsd::ZERO);
        assert_eq!(near_cap(&limits, Some(usd(100)), &pot(79)), None);
        assert_eq!(near_cap(&limits, Some(usd(100)), &pot(80)), Some(usd(100)));
        assert_eq!(near_cap(&limits, None, &pot(80)), None);
    }
}
