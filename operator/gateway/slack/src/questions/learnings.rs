//! The question whether to keep learnings, one by one, or to do what a retrospective would do otherwise. A
//! thumb, and the last button, are for all that nobody judged yet.

use std::borrow::Cow;

use codebutler_crds::thread::OfferAnswer;
use codebutler_crds::thread::PendingItem;
use codebutler_crds::thread::SettledQuestion;
use codebutler_crds::thread::{OfferKind, RoleOffer};
use codebutler_crds::wire::PendingDecision;
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads;
use codebutler_gateway_core::threads::ChangeRefusal;

use super::{
    AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind,
    ThumbAnswer, offers,
};
use crate::text::decision_words::MessageIntent;
use crate::text::numbered_reply::ItemVerdict;
use crate::text::person_message::PersonMessage;

pub struct LearningsQuestion;

/// Id of the block with the buttons of one learning.
pub fn block_id(item: u32) -> String {
    format!("learning:{item}")
}

/// Stands in the place of an item's number for all that nobody judged yet.
pub const ALL: u32 = 0;

/// Buttons of one learning, counted from 1; `optional`: of something to be done, if anybody wants it.
pub fn learning_buttons(item: u32, optional: bool) -> [QuestionButton; 2] {
    let mut accept = learning_button(item, true);
    if optional {
        accept.label = Cow::Borrowed("Accept");
    }
    [accept, learning_button(item, false)]
}

/// Button under several learnings that rejects the rest.
pub fn reject_all() -> QuestionButton {
    learning_button(ALL, false)
}

fn learning_button(item: u32, approved: bool) -> QuestionButton {
    let (word, label, style, settled) = if approved {
        ("approve", "Approve", ButtonStyle::Primary, ":white_check_mark: Approved by")
    } else {
        ("reject", "Reject", ButtonStyle::Plain, ":x: Rejected by")
    };
    let (label, settled) = match (item, approved) {
        (ALL, false) => ("Reject all", ":x: The rest was rejected by"),
        // Stands in the place of that button once there is no rest: nobody presses it.
        (ALL, true) => ("", ":ballot_box_with_check: All are judged, the last one by"),
        _ => (label, settled),
    };
    let action_id = Cow::Owned(format!("learning:{item}:{word}"));
    let (label, block) = (Cow::Borrowed(label), Some(block_id(item)));
    QuestionButton { action_id, label, style, settled, block }
}

fn read_answer(action_id: &str) -> Option<(u32, bool)> {
    let (item, word) = action_id.strip_prefix("learning:")?.split_once(':')?;
    let (item, approved) = (item.parse().ok()?, word == "approve");
    (learning_button(item, approved).action_id == action_id).then_some((item, approved))
}

impl QuestionKind for LearningsQuestion {
    fn find_button(&self, action_id: &str) -> Option<QuestionButton> {
        read_answer(action_id).map(|(item, approved)| learning_button(item, approved))
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        offers::find_offer(status, message, OfferKind::Learnings).is_some()
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        _context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let Some((item, yes)) = read_answer(&press.action_id) else {
            return Ok(AnswerOutcome::Unknown);
        };
        if item != ALL {
            let taken = offers::take_answer(status, press, (OfferKind::Learnings, item, yes))?;
            if taken == AnswerOutcome::Counts {
                settle_rest(status, &press.message, &press.user);
            }
            return Ok(taken);
        }
        if yes {
            return Ok(AnswerOutcome::Unknown);
        }
        let thumb = ThumbAnswer { message: &press.message, up: false, user: &press.user };
        let taken = judge_rest(status, &thumb)?;
        if taken == AnswerOutcome::Counts {
            press.settle(status);
        }
        Ok(if taken == AnswerOutcome::Stale { press.when_over(status) } else { taken })
    }

    fn take_thumb(
        &self,
        status: &mut ThreadStatus,
        thumb: &ThumbAnswer<'_>,
        _context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let taken = judge_rest(status, thumb)?;
        settle_rest(status, thumb.message, thumb.user);
        Ok(taken)
    }
}

/// Judges all learnings that nobody judged yet.
fn judge_rest(
    status: &mut ThreadStatus,
    thumb: &ThumbAnswer<'_>,
) -> Result<AnswerOutcome, ChangeRefusal> {
    let Some(offer) = find_offer(status, thumb.message) else {
        return Ok(AnswerOutcome::Unknown);
    };
    let judged: Vec<u32> = offer.answers.iter().map(|answer| answer.item).collect();
    let open: Vec<u32> = (1..=offer.of).filter(|item| !judged.contains(item)).collect();
    for item in &open {
        let press = thumb.press(&learning_button(*item, thumb.up).action_id);
        offers::take_answer(status, &press, (OfferKind::Learnings, *item, thumb.up))?;
    }
    Ok(if open.is_empty() { AnswerOutcome::Stale } else { AnswerOutcome::Counts })
}

/// Settles the last button once all are judged one by one: nothing is left that it could be for.
fn settle_rest(status: &mut ThreadStatus, asked: &SlackTs, user: &str) {
    let is_over = |offer: &RoleOffer| offer.of > 1 && !offer.has_buttons();
    let all = [learning_button(ALL, true).action_id, learning_button(ALL, false).action_id];
    let is_rest = |one: &SettledQuestion| {
        one.ts == *asked && one.choice.as_deref().is_some_and(|id| all.iter().any(|all| all == id))
    };
    let is_known = status.settled.iter().any(is_rest);
    if !is_known && find_offer(status, asked).is_some_and(is_over) {
        let choice = Some(learning_button(ALL, true).action_id.into_owned());
        let user = Some(user.to_owned());
        threads::settle_question(status, SettledQuestion { ts: asked.clone(), choice, user });
    }
}

/// Takes in what somebody says of the learnings of a message: which are kept, in whose words. A person who
/// names some to be kept does not want the others.
///
/// # Errors
/// When too many decisions wait already.
pub fn take_words(
    status: &mut ThreadStatus,
    asked: &SlackTs,
    said: &PersonMessage,
) -> Result<(), ChangeRefusal> {
    let Some(offer) = find_offer(status, asked) else { return Ok(()) };
    let judged: Vec<u32> = offer.answers.iter().map(|answer| answer.item).collect();
    let open: Vec<u32> = (1..=offer.of).filter(|item| !judged.contains(item)).collect();
    let verdict = said.verdict.clone().unwrap_or(match said.intent {
        Some(MessageIntent::Approve) => ItemVerdict::All,
        _ => ItemVerdict::None,
    });
    for item in open {
        let decision = match &verdict {
            ItemVerdict::All => PendingDecision::Learning { item, approved: true },
            ItemVerdict::None => PendingDecision::Learning { item, approved: false },
            ItemVerdict::Only(items) => {
                PendingDecision::Learning { item, approved: items.contains(&item) }
            }
            ItemVerdict::Not(items) if items.contains(&item) => {
                PendingDecision::Learning { item, approved: false }
            }
            ItemVerdict::Edit(edited) if *edited == item => {
                PendingDecision::LearningEdited { item }
            }
            ItemVerdict::Not(_) | ItemVerdict::Edit(_) => continue,
        };
        take_item(status, asked, said, (item, decision))?;
    }
    settle_rest(status, asked, &said.user);
    Ok(())
}

fn find_offer<'a>(status: &'a ThreadStatus, asked: &SlackTs) -> Option<&'a RoleOffer> {
    offers::find_offer(status, asked, OfferKind::Learnings)
}

/// Takes in words about one learning: the message shows it as if its button was pressed.
///
/// # Errors
/// When too many decisions wait already.
fn take_item(
    status: &mut ThreadStatus,
    asked: &SlackTs,
    said: &PersonMessage,
    (item, decision): (u32, PendingDecision),
) -> Result<(), ChangeRefusal> {
    let is_it = |offer: &&mut RoleOffer| offer.ts == *asked && offer.kind == OfferKind::Learnings;
    let Some(offer) = status.offers.iter_mut().find(is_it) else { return Ok(()) };
    let yes = decision != PendingDecision::Learning { item, approved: false };
    let id = format!("text:{}:{item}", said.ts);
    let pending = PendingItem::new(id, &offer.role, decision, &said.user, asked);
    offer.answers.push(OfferAnswer { item, yes, by: said.user.clone() });
    threads::add_pending(status, &pending)?;
    let [approve, reject] = learning_buttons(item, false);
    let choice = Some(if yes { approve.action_id } else { reject.action_id }.into_owned());
    let settled = SettledQuestion { ts: asked.clone(), choice, user: Some(said.user.clone()) };
    threads::settle_question(status, settled);
    Ok(())
}
