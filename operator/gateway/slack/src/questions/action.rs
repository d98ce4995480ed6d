//! The question whether one action may happen. Asked by the role that wants it, or by the gateway before what
//! it does itself; [`render`] renders it.

pub mod render;
pub mod thread_approval;

use codebutler_crds::thread::{ActionApproval, ApprovalAnswer, PendingItem, SettledQuestion};
use codebutler_crds::wire::{ActionChoice, ApprovalState, PendingDecision};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use jiff::Timestamp;

use super::{
    AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind,
    ThumbAnswer,
};
use crate::text::decision_words::MessageIntent;
use crate::text::person_message::PersonMessage;

pub struct ActionQuestion;

/// `kind` in the message's metadata, and block id of its buttons.
pub const KIND: &str = "approval";
/// `kind` of a message that tells of an action that was approved for the thread.
pub const STANDING: &str = "standing";
/// [`SettledQuestion::choice`] of a question that nobody answered in time.
pub const EXPIRED: &str = "approval:expired";
/// Most questions that a Thread remembers.
const KEPT: usize = 8;

const APPROVE: &str = "approval:approve";
const ALWAYS: &str = "approval:thread";
const DENY: &str = "approval:deny";

static BUTTONS: [QuestionButton; 3] = [
    QuestionButton::fixed(
        APPROVE,
        "Approve",
        ButtonStyle::Primary,
        ":white_check_mark: Approved, once, by",
    ),
    QuestionButton::fixed(
        ALWAYS,
        "Approve for this thread",
        ButtonStyle::Plain,
        ":white_check_mark: Approved for this thread, until somebody says *revoke* or *stop*, by",
    ),
    QuestionButton::fixed(DENY, "Deny", ButtonStyle::Danger, ":x: Denied by"),
];

/// Buttons of a question, in order. `for_thread`: a yes can be for the whole thread.
pub fn offered_buttons(for_thread: bool) -> Vec<QuestionButton> {
    BUTTONS.iter().filter(|button| for_thread || button.action_id != ALWAYS).cloned().collect()
}

/// Answers that a person can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActionAnswer {
    /// The action may happen, exactly this and once.
    Approve,
    /// The action may happen, and the same words again in this thread.
    Always,
    /// The action may not happen.
    Deny,
}

impl ActionAnswer {
    fn read(action_id: &str) -> Option<Self> {
        match action_id {
            APPROVE => Some(Self::Approve),
            ALWAYS => Some(Self::Always),
            DENY => Some(Self::Deny),
            _ => None,
        }
    }

    const fn recorded(self) -> ApprovalAnswer {
        match self {
            Self::Approve | Self::Always => ApprovalAnswer::Approved,
            Self::Deny => ApprovalAnswer::Denied,
        }
    }
}

impl QuestionKind for ActionQuestion {
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &BUTTONS
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        status.approvals.iter().any(|one| one.ts == *message)
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let Some(answer) = ActionAnswer::read(&press.action_id) else {
            return Ok(AnswerOutcome::Unknown);
        };
        take_answer(status, (&press.message, answer, &press.user), context.now)
    }

    fn take_thumb(
        &self,
        status: &mut ThreadStatus,
        thumb: &ThumbAnswer<'_>,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let answer = if thumb.up { ActionAnswer::Approve } else { ActionAnswer::Deny };
        take_answer(status, (thumb.message, answer, thumb.user), context.now)
    }

    fn stale_words(&self) -> &'static str {
        "This is no longer open: it was answered."
    }
}

/// True if another question can be asked.
pub fn has_room(status: &ThreadStatus) -> bool {
    status.approvals.len() < KEPT || oldest_over(status).is_some()
}

/// Index of the oldest question that nothing more comes of. One whose message still says that it is open is
/// kept: without its record, the same question would be taken for asked.
fn oldest_over(status: &ThreadStatus) -> Option<usize> {
    let settles = |one: &ActionApproval| status.settled.iter().any(|settled| settled.ts == one.ts);
    status.approvals.iter().position(|one| one.used && !settles(one))
}

/// Records a question that was posted.
///
/// # Errors
/// When too many are open.
pub fn add_question(
    status: &mut ThreadStatus,
    question: &ActionApproval,
) -> Result<(), ChangeRefusal> {
    if status.approvals.iter().any(|known| known.id == question.id) {
        return Ok(());
    }
    if status.approvals.len() >= KEPT {
        let old = oldest_over(status).ok_or(ChangeRefusal::Asked)?;
        status.approvals.remove(old);
    }
    status.approvals.push(question.clone());
    Ok(())
}

/// Takes a person's answer to the question that a message shows.
fn take_answer(
    status: &mut ThreadStatus,
    (message, answer, user): (&SlackTs, ActionAnswer, &str),
    now: Timestamp,
) -> Result<AnswerOutcome, ChangeRefusal> {
    let found = status.approvals.iter().position(|one| one.ts == *message);
    let Some(place) = found else { return Ok(AnswerOutcome::Unknown) };
    let question = &status.approvals[place];
    match question.answer {
        Some(ApprovalAnswer::Expired) => return Ok(AnswerOutcome::Late),
        Some(given) => {
            let again = question.by.as_deref() == Some(user) && given == answer.recorded();
            return Ok(if again { AnswerOutcome::Counts } else { AnswerOutcome::Stale });
        }
        None if question.expires.0 <= now => {
            record_answer(status, place, ApprovalAnswer::Expired, None, None)?;
            return Ok(AnswerOutcome::Late);
        }
        None => {}
    }
    give_answer(status, place, answer, user, None, now)?;
    Ok(AnswerOutcome::Counts)
}

/// Takes an answer in words in.
///
/// # Errors
/// When too many decisions wait already.
pub fn take_words(
    status: &mut ThreadStatus,
    id: &str,
    said: &PersonMessage,
    now: Timestamp,
) -> Result<AnswerOutcome, ChangeRefusal> {
    let found = status.approvals.iter().position(|one| one.id == id);
    let Some(place) = found else { return Ok(AnswerOutcome::Unknown) };
    let question = &status.approvals[place];
    if question.said.as_ref() == Some(&said.ts) {
        return Ok(AnswerOutcome::Counts);
    }
    if question.answer.is_some() {
        return Ok(AnswerOutcome::Stale);
    }
    if question.expires.0 <= now {
        record_answer(status, place, ApprovalAnswer::Expired, None, None)?;
        return Ok(AnswerOutcome::Late);
    }
    let answer = match said.intent {
        Some(MessageIntent::Approve) => ActionAnswer::Approve,
        Some(MessageIntent::Always) => ActionAnswer::Always,
        _ => ActionAnswer::Deny,
    };
    give_answer(status, place, answer, &said.user, Some(&said.ts), now)?;
    Ok(AnswerOutcome::Counts)
}

/// Records a person's answer. A yes for the thread counts once where the action can only be allowed once.
fn give_answer(
    status: &mut ThreadStatus,
    place: usize,
    answer: ActionAnswer,
    user: &str,
    said: Option<&SlackTs>,
    now: Timestamp,
) -> Result<(), ChangeRefusal> {
    let question = status.approvals.get(place).cloned().ok_or(ChangeRefusal::NotAsked)?;
    let always = answer == ActionAnswer::Always && question.words.is_some();
    let shown =
        if answer == ActionAnswer::Always && !always { ActionAnswer::Approve } else { answer };
    record_answer(status, place, shown.recorded(), Some(user), said)?;
    if always {
        if let Some(settled) = status.settled.iter_mut().find(|one| one.ts == question.ts) {
            settled.choice = Some(ALWAYS.to_owned());
        }
        thread_approval::grant_thread(status, &question, user, now);
    }
    Ok(())
}

/// True if a question was not answered before it expired.
pub fn is_late(question: &ActionApproval, now: Timestamp) -> bool {
    question.answer.is_none() && question.expires.0 <= now
}

/// Expires all questions whose time is over.
///
/// # Errors
/// When too many decisions wait already.
pub fn expire_questions(status: &mut ThreadStatus, now: Timestamp) -> Result<(), ChangeRefusal> {
    while let Some(place) = status.approvals.iter().position(|one| is_late(one, now)) {
        record_answer(status, place, ApprovalAnswer::Expired, None, None)?;
    }
    Ok(())
}

/// State of a role's question, for the role; an answer is the role's from now on.
///
/// # Errors
/// When there is no such question, or it is about another action.
pub fn hand_out(
    status: &mut ThreadStatus,
    id: &str,
    hash: &str,
    now: Timestamp,
) -> Result<(ApprovalState, Option<String>), ChangeRefusal> {
    expire_questions(status, now)?;
    let found = status.approvals.iter_mut().find(|one| one.id == id);
    let question = found.ok_or(ChangeRefusal::NotAsked)?;
    if question.hash != hash {
        return Err(ChangeRefusal::OtherAction);
    }
    question.used |= question.answer.is_some();
    Ok((approval_state(question.answer), question.by.clone()))
}

/// Spends an approval: its action has happened, and the yes counts no more. Returns false if it counted no more before.
pub fn spend_approval(status: &mut ThreadStatus, id: &str) -> bool {
    let found = status.approvals.iter_mut().find(|one| one.id == id);
    let found = found.filter(|one| one.answer == Some(ApprovalAnswer::Approved));
    let Some(question) = found else { return false };
    question.answer = Some(ApprovalAnswer::Expired);
    question.used = true;
    true
}

/// Makes an approval that was spent count again: its action has not happened. A question that nobody answered stays
/// over.
pub fn restore_approval(status: &mut ThreadStatus, id: &str) {
    let found = status.approvals.iter_mut().find(|one| one.id == id);
    let is_spent =
        |one: &&mut ActionApproval| one.answer == Some(ApprovalAnswer::Expired) && one.by.is_some();
    if let Some(question) = found.filter(is_spent) {
        question.answer = Some(ApprovalAnswer::Approved);
    }
}

const fn approval_state(answer: Option<ApprovalAnswer>) -> ApprovalState {
    match answer {
        None => ApprovalState::Pending,
        Some(ApprovalAnswer::Approved) => ApprovalState::Approved,
        Some(ApprovalAnswer::Denied) => ApprovalState::Denied,
        Some(ApprovalAnswer::Expired) => ApprovalState::Expired,
    }
}

/// Records an answer, wakes the role, and has the message lose its buttons.
fn record_answer(
    status: &mut ThreadStatus,
    place: usize,
    answer: ApprovalAnswer,
    user: Option<&str>,
    said: Option<&SlackTs>,
) -> Result<(), ChangeRefusal> {
    let Some(question) = status.approvals.get(place) else { return Err(ChangeRefusal::NotAsked) };
    let (choice, settled) = match answer {
        ApprovalAnswer::Approved => (ActionChoice::Approved, APPROVE),
        ApprovalAnswer::Denied => (ActionChoice::Denied, DENY),
        ApprovalAnswer::Expired => (ActionChoice::Expired, EXPIRED),
    };
    let (id, decision) = (format!("{KIND}:{}", question.id), PendingDecision::Action(choice));
    let user_id = user.unwrap_or_default();
    let pending = PendingItem::new(id, &question.role, decision, user_id, &question.ts);
    threads::add_pending(status, &pending)?;
    let question = &mut status.approvals[place];
    question.answer = Some(answer);
    question.by = user.map(str::to_owned);
    question.said = said.cloned();
    let settled = SettledQuestion {
        ts: question.ts.clone(),
        choice: Some(settled.to_owned()),
        user: question.by.clone(),
    };
    threads::settle_question(status, settled);
    Ok(())
}

#[cfg(test)]
mod tests;
