//! The choice of people among several answers to a role's question.

use std::borrow::Cow;

use codebutler_crds::thread::OfferKind;
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::ChangeRefusal;

use super::{
    AnswerContext, AnswerOutcome, AnswerRight, ButtonPress, ButtonStyle, QuestionButton,
    QuestionKind, ThumbAnswer, offers,
};

pub struct ChoiceQuestion;

/// Button for an answer, counted from 1.
pub fn choice_button(item: u32, label: &str) -> QuestionButton {
    QuestionButton {
        action_id: Cow::Owned(format!("choice:{item}")),
        label: Cow::Owned(label.to_owned()),
        style: ButtonStyle::Plain,
        settled: ":white_check_mark: *{}*, chosen by",
        block: None,
    }
}

fn read_item(action_id: &str) -> Option<u32> {
    let item = action_id.strip_prefix("choice:")?.parse().ok()?;
    (choice_button(item, "").action_id == action_id).then_some(item)
}

impl QuestionKind for ChoiceQuestion {
    fn find_button(&self, action_id: &str) -> Option<QuestionButton> {
        read_item(action_id).map(|item| choice_button(item, ""))
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        offers::find_offer(status, message, OfferKind::Choice).is_some()
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        _context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let Some(item) = read_item(&press.action_id) else { return Ok(AnswerOutcome::Unknown) };
        offers::take_answer(status, press, (OfferKind::Choice, item, true))
    }

    /// A thumb does not say which answer is meant.
    fn take_thumb(
        &self,
        _status: &mut ThreadStatus,
        _thumb: &ThumbAnswer<'_>,
        _context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        Ok(AnswerOutcome::Stale)
    }

    fn needed_right(&self, _action_id: &str) -> AnswerRight {
        AnswerRight::Steer
    }
}
