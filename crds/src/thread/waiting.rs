//! What a Thread waits for, as its status says.

use super::{OfferKind, ThreadStatus};

impl ThreadStatus {
    /// Whether a question to people is open.
    #[must_use]
    pub fn waits_for_people(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.approved_by.is_none() && plan.declined_by.is_none())
            || self.closing.as_ref().is_some_and(|closing| closing.choice.is_none())
            || self.approvals.iter().any(|question| question.answer.is_none())
            || self.offers.iter().any(|offer| offer.kind == OfferKind::Choice && offer.is_open())
    }

    /// Whether people were asked to raise a limit.
    #[must_use]
    pub fn asks_for_money(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.ask.is_some())
    }
}
