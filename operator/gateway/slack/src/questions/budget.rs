//! The question whether more money may be spent.

use codebutler_crds::spend::{BudgetAsk, CallLimit, DayAmount};
use codebutler_crds::thread::{PendingItem, SettledQuestion};
use codebutler_crds::wire::PendingDecision;
use codebutler_crds::{NanoUsd, SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind};

pub struct BudgetQuestion;

const DOLLAR: u64 = 1_000_000_000;
const ONE: &str = "budget:raise-1";
const FIVE: &str = "budget:raise-5";
const STOP: &str = "budget:stop";

static BUTTONS: [QuestionButton; 3] = [
    QuestionButton::fixed(ONE, "+$1", ButtonStyle::Plain, ":white_check_mark: Raised by $1 by"),
    QuestionButton::fixed(FIVE, "+$5", ButtonStyle::Plain, ":white_check_mark: Raised by $5 by"),
    QuestionButton::fixed(STOP, "Stop", ButtonStyle::Plain, ":octagonal_sign: Stopped by"),
];

/// Buttons for a limit: calls per hour come back by themselves.
pub fn offered_buttons(limit: CallLimit) -> Vec<QuestionButton> {
    // Budgets of people and teams are the company's: a button in the thread would undo them.
    if limit.is_raised_in_thread() { BUTTONS.to_vec() } else { Vec::new() }
}

fn raised_amount(action_id: &str) -> Option<NanoUsd> {
    match action_id {
        ONE => Some(NanoUsd(DOLLAR)),
        FIVE => Some(NanoUsd(5 * DOLLAR)),
        _ => None,
    }
}

impl QuestionKind for BudgetQuestion {
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &BUTTONS
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let Some(budget) = status.budget.as_mut() else { return Ok(AnswerOutcome::Stale) };
        let Some(ask) = budget.ask.as_ref().filter(|ask| ask.ts == press.message) else {
            return Ok(AnswerOutcome::Stale);
        };
        let limit = ask.limit;
        let is_offered = |button: &QuestionButton| button.action_id == press.action_id;
        if !offered_buttons(limit).iter().any(is_offered) {
            return Ok(AnswerOutcome::Stale);
        }
        let mut changed = status.clone();
        changed.heard_from(&press.user);
        press.settle(&mut changed);
        let Some(amount) = raised_amount(&press.action_id) else {
            if let Some(budget) = changed.budget.as_mut() {
                budget.ask = None;
            }
            *status = changed;
            return Ok(AnswerOutcome::Counts);
        };
        if let Some(budget) = changed.budget.as_mut() {
            match limit {
                CallLimit::PerDay => {
                    let today = context.today;
                    let raised = budget.raised_today.take().filter(|raised| raised.day == today);
                    let before = raised.map_or(NanoUsd::ZERO, |raised| raised.amount);
                    let day = today.to_owned();
                    budget.raised_today = Some(DayAmount { day, amount: before + amount });
                }
                CallLimit::PerRoadmap => budget.raised_roadmap += amount,
                _ => budget.raised += amount,
            }
        }
        go_on(&mut changed, true, &press.user)?;
        *status = changed;
        Ok(AnswerOutcome::Counts)
    }
}

#[derive(Clone, Debug)]
pub struct BudgetAsked {
    pub limit: CallLimit,
    /// The cap that was in the way, in USD; `None` for a number of calls.
    pub cap: Option<NanoUsd>,
    /// Time at which the limit resets by itself, if it does.
    pub until: Option<Timestamp>,
    pub role: String,
    /// Person or team whose budget was used up.
    pub of: Option<String>,
    /// Number of this question in its thread.
    pub number: u32,
}

impl BudgetAsked {
    /// Records the question as the message `ts`. Roles that wait for an earlier question wait for this one.
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
        let (limit, cap, of) = (self.limit, self.cap, self.of.clone());
        budget.ask = Some(BudgetAsk { ts: ts.clone(), limit, roles, cap, until, of });
        if let Some(ts) = replaced {
            threads::settle_question(status, SettledQuestion { ts, choice: None, user: None });
        }
    }
}

/// Lets the roles that wait go on: the limit was raised, or its time is over.
///
/// # Errors
/// When too many decisions wait already.
pub fn go_on(status: &mut ThreadStatus, raised: bool, user: &str) -> Result<(), ChangeRefusal> {
    let Some(ask) = status.budget.as_mut().and_then(|budget| budget.ask.take()) else {
        return Ok(());
    };
    let decision = PendingDecision::Budget { raised };
    for role in ask.roles {
        let id = format!("budget:{}:{role}", ask.ts);
        threads::add_pending(status, &PendingItem::new(id, &role, decision, user, &ask.ts))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn question(limit: CallLimit, role: &str, number: u32) -> BudgetAsked {
        let cap = Some(NanoUsd(DOLLAR));
        BudgetAsked { limit, cap, until: None, role: role.into(), of: None, number }
    }

    /// Presses a button on a day; returns true if the press counts.
    fn press(status: &mut ThreadStatus, at: &str, action_id: &str, today: &str) -> bool {
        let (message, user) = (ts(at), "U1".to_owned());
        let press = ButtonPress { message, action_id: action_id.to_owned(), user };
        let team = codebutler_gateway_core::dispatch::RepoTeam::default();
        let context = AnswerContext { team: &team, now: Timestamp::UNIX_EPOCH, today };
        let outcome = BudgetQuestion.take_press(status, &press, &context).unwrap();
        outcome == AnswerOutcome::Counts
    }

    #[test]
    fn a_raise_is_counted_once_and_wakes_everybody_who_waits() {
        let mut status = ThreadStatus::default();
        question(CallLimit::PerThread, "pm", 1).record(&mut status, &ts("5.000000"));
        question(CallLimit::PerThread, "pm", 1).record(&mut status, &ts("5.000000"));
        question(CallLimit::PerThread, "coder", 2).record(&mut status, &ts("6.000000"));
        assert!(!press(&mut status, "5.000000", FIVE, "d"), "not the last");
        assert!(press(&mut status, "6.000000", FIVE, "d"));
        assert!(!press(&mut status, "6.000000", FIVE, "d"));
        let budget = status.budget.clone().unwrap();
        assert_eq!((budget.raised, budget.ask, budget.asked), (NanoUsd(5 * DOLLAR), None, 2));
        let roles: Vec<_> = status.pending.iter().map(|pending| pending.role.as_str()).collect();
        assert_eq!(roles, ["pm", "coder"]);
        assert_eq!(status.speaker.as_deref(), Some("U1"));
        question(CallLimit::PerThread, "pm", 1).record(&mut status, &ts("5.000000"));
        assert_eq!(status.budget.unwrap().ask, None, "an old question does not come back");
    }

    #[test]
    fn what_has_no_buttons_is_not_pressed() {
        for limit in [CallLimit::PersonPerMonth, CallLimit::TeamPerDay, CallLimit::CallsPerHour] {
            let mut status = ThreadStatus::default();
            question(limit, "pm", 1).record(&mut status, &ts("5.000000"));
            for action in [ONE, FIVE, STOP] {
                assert!(!press(&mut status, "5.000000", action, "d"), "{limit:?} {action}");
            }
            let budget = status.budget.unwrap();
            assert!(budget.ask.is_some() && budget.raised == NanoUsd::ZERO, "{limit:?}");
        }
    }

    #[test]
    fn a_day_is_raised_for_that_day_and_stop_wakes_nobody() {
        let mut status = ThreadStatus::default();
        for (number, day) in [(1, "2026-11-22"), (2, "2026-11-22"), (3, "2026-11-23")] {
            let at = format!("{number}.000000");
            question(CallLimit::PerDay, "pm", number).record(&mut status, &ts(&at));
            assert!(press(&mut status, &at, ONE, day));
            let raised = status.budget.as_ref().unwrap().raised_today.clone().unwrap();
            assert_eq!(
                raised.amount,
                NanoUsd(DOLLAR * u64::from(if number == 2 { 2 } else { 1_u32 }))
            );
        }
        status.pending.clear();
        question(CallLimit::PerDay, "pm", 4).record(&mut status, &ts("9.000000"));
        assert!(press(&mut status, "9.000000", STOP, "d"));
        assert!(status.pending.is_empty() && status.budget.unwrap().ask.is_none());
    }
}
