//! Questions about money: their buttons, and what an answer changes in a Thread. Pure: applied
//! again, nothing changes. [`Inner::money`] takes a click in.

use codebutler_crds::spend::{BudgetAsk, DayAmount, Limit};
use codebutler_crds::thread::{Pending, Settled};
use codebutler_crds::{NanoUsd, SlackTs, ThreadStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Inner;
use super::effects::Effect;
use super::ingest::{Act, Deciding, TakeError};
use super::route::Channel;
use super::verdict::{self, ANSWERED_OR_NEWER, Verdict};
use crate::gateway::budget::calendar;
use crate::gateway::threads::{self, Refusal};

/// `kind` of the pending item that wakes a role.
const KIND: &str = "budget";
const DOLLAR: u64 = 1_000_000_000;

/// A button under a question about money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Money {
    /// A dollar more.
    One,
    /// Five dollars more.
    Five,
    /// No more.
    Stop,
}

impl Money {
    /// The buttons for a limit: calls per hour come back by themselves.
    pub const fn of(limit: Limit) -> &'static [Self] {
        match limit {
            Limit::PerThread | Limit::PerDay => &[Self::One, Self::Five, Self::Stop],
            Limit::CallsPerHour | Limit::CallsPerUserPerHour => &[],
        }
    }

    /// Slack's `action_id`.
    pub const fn action_id(self) -> &'static str {
        match self {
            Self::One => "budget:raise-1",
            Self::Five => "budget:raise-5",
            Self::Stop => "budget:stop",
        }
    }

    /// On the button.
    pub const fn label(self) -> &'static str {
        match self {
            Self::One => "+$1",
            Self::Five => "+$5",
            Self::Stop => "Stop",
        }
    }

    /// In place of the buttons, once chosen.
    pub const fn told(self) -> &'static str {
        match self {
            Self::One => ":white_check_mark: Raised by $1 by",
            Self::Five => ":white_check_mark: Raised by $5 by",
            Self::Stop => ":octagonal_sign: Stopped by",
        }
    }

    const fn amount(self) -> Option<NanoUsd> {
        match self {
            Self::One => Some(NanoUsd(DOLLAR)),
            Self::Five => Some(NanoUsd(5 * DOLLAR)),
            Self::Stop => None,
        }
    }

    /// The button that has an `action_id`.
    pub fn by_action_id(id: &str) -> Option<Self> {
        [Self::One, Self::Five, Self::Stop].into_iter().find(|money| money.action_id() == id)
    }
}

/// A click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clicked {
    /// The message with the button.
    pub message: SlackTs,
    /// What it says.
    pub answer: Money,
    /// Slack user id.
    pub user: String,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// What was reached.
    pub limit: Limit,
    /// USD.
    pub cap: Option<NanoUsd>,
    /// When it gives way by itself.
    pub until: Option<Timestamp>,
    /// Who waits.
    pub role: String,
    /// Which question of the thread this is.
    pub number: u32,
}

impl Question {
    /// Records the question as the message `ts`. Roles that wait for an earlier one wait for this.
    pub fn record(&self, status: &mut ThreadStatus, ts: &SlackTs) {
        let budget = status.budget.get_or_insert_default();
        if budget.asked > self.number {
            return;
        }
        budget.asked = self.number;
        let before = budget.ask.take();
        let replaced = before.as_ref().map(|ask| ask.ts.clone()).filter(|before| before != ts);
        let mut roles = before.map(|ask| ask.roles).unwrap_or_default();
        if !roles.contains(&self.role) {
            roles.push(self.role.clone());
        }
        let until = self.until.map(Time);
        let (limit, cap) = (self.limit, self.cap);
        budget.ask = Some(BudgetAsk { ts: ts.clone(), limit, roles, cap, until });
        if let Some(ts) = replaced {
            threads::settle(status, Settled { ts, choice: None, user: None });
        }
    }
}

/// Lets the roles that wait go on.
///
/// # Errors
/// When too many decisions wait already.
pub fn go_on(status: &mut ThreadStatus, choice: &str, user: &str) -> Result<(), Refusal> {
    let Some(ask) = status.budget.as_mut().and_then(|budget| budget.ask.take()) else {
        return Ok(());
    };
    for role in ask.roles {
        let pending = Pending {
            id: format!("{KIND}:{}:{role}", ask.ts),
            role,
            kind: KIND.to_owned(),
            choice: choice.to_owned(),
            user: user.to_owned(),
            message: ask.ts.clone(),
        };
        threads::add_pending(status, &pending)?;
    }
    Ok(())
}

/// Takes a click in on the day `today`; answers whether it counts.
///
/// # Errors
/// When too many decisions wait already.
pub fn take(status: &mut ThreadStatus, clicked: &Clicked, today: &str) -> Result<bool, Refusal> {
    let Some(budget) = status.budget.as_mut() else { return Ok(false) };
    let Some(ask) = budget.ask.as_ref().filter(|ask| ask.ts == clicked.message) else {
        return Ok(false);
    };
    let limit = ask.limit;
    let mut changed = status.clone();
    changed.speaker = Some(clicked.user.clone());
    let choice = Some(clicked.answer.action_id().to_owned());
    let user = Some(clicked.user.clone());
    threads::settle(&mut changed, Settled { ts: clicked.message.clone(), choice, user });
    let Some(amount) = clicked.answer.amount() else {
        if let Some(budget) = changed.budget.as_mut() {
            budget.ask = None;
        }
        *status = changed;
        return Ok(true);
    };
    if let Some(budget) = changed.budget.as_mut() {
        match limit {
            Limit::PerDay => {
                let raised = budget.raised_today.take().filter(|raised| raised.day == today);
                let before = raised.map_or(NanoUsd::ZERO, |raised| raised.amount);
                let day = today.to_owned();
                budget.raised_today = Some(DayAmount { day, amount: before + amount });
            }
            _ => budget.raised += amount,
        }
    }
    go_on(&mut changed, "raise", &clicked.user)?;
    *status = changed;
    Ok(true)
}

impl Inner {
    /// Takes a click in.
    pub(super) async fn money(
        &self,
        channel: &Channel,
        root: &SlackTs,
        clicked: &Clicked,
    ) -> Result<Vec<Effect>, TakeError> {
        let (key, _turn) = match self.deciding(channel, root, &clicked.user, Act::Decide).await? {
            Deciding::In(key, turn) => (key, turn),
            Deciding::Not(effects) => return Ok(effects),
        };
        let Ok((_, repo)) = self.conversation(&key) else { return Ok(Vec::new()) };
        let today = calendar::moment(Timestamp::now(), &repo.spec.limits.time_zone).day;
        let taken = self.threads.try_update(&key, |status| take(status, clicked, &today)).await;
        verdict::answer(key, &clicked.user, taken, |_, counts| {
            if counts { Verdict::Counts } else { Verdict::Vain(ANSWERED_OR_NEWER) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn question(limit: Limit, role: &str, number: u32) -> Question {
        let cap = Some(NanoUsd(DOLLAR));
        Question { limit, cap, until: None, role: role.into(), number }
    }

    fn click(at: &str, answer: Money) -> Clicked {
        Clicked { message: ts(at), answer, user: "U1".into() }
    }

    #[test]
    fn a_raise_is_counted_once_and_wakes_everybody_who_waits() {
        let mut status = ThreadStatus::default();
        question(Limit::PerThread, "pm", 1).record(&mut status, &ts("5.000000"));
        question(Limit::PerThread, "pm", 1).record(&mut status, &ts("5.000000"));
        question(Limit::PerThread, "coder", 2).record(&mut status, &ts("6.000000"));
        assert!(!take(&mut status, &click("5.000000", Money::Five), "d").unwrap(), "not the last");
        assert!(take(&mut status, &click("6.000000", Money::Five), "d").unwrap());
        assert!(!take(&mut status, &click("6.000000", Money::Five), "d").unwrap());
        let budget = status.budget.clone().unwrap();
        assert_eq!((budget.raised, budget.ask, budget.asked), (NanoUsd(5 * DOLLAR), None, 2));
        let roles: Vec<_> = status.pending.iter().map(|pending| pending.role.as_str()).collect();
        assert_eq!(roles, ["pm", "coder"]);
        assert_eq!(status.speaker.as_deref(), Some("U1"));
        question(Limit::PerThread, "pm", 1).record(&mut status, &ts("5.000000"));
        assert_eq!(status.budget.unwrap().ask, None, "an old question does not come back");
    }

    #[test]
    fn a_day_is_raised_for_that_day_and_stop_wakes_nobody() {
        let mut status = ThreadStatus::default();
        for (number, day) in [(1, "2026-11-22"), (2, "2026-11-22"), (3, "2026-11-23")] {
            let at = format!("{number}.000000");
            question(Limit::PerDay, "pm", number).record(&mut status, &ts(&at));
            assert!(take(&mut status, &click(&at, Money::One), day).unwrap());
            let raised = status.budget.as_ref().unwrap().raised_today.clone().unwrap();
            assert_eq!(
                raised.amount,
                NanoUsd(DOLLAR * u64::from(if number == 2 { 2 } else { 1_u32 }))
            );
        }
        status.pending.clear();
        question(Limit::PerDay, "pm", 4).record(&mut status, &ts("9.000000"));
        assert!(take(&mut status, &click("9.000000", Money::Stop), "d").unwrap());
        assert!(status.pending.is_empty() && status.budget.unwrap().ask.is_none());
    }
}
