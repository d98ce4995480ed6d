//! The question how a thread ends: its pull request is merged, or it is closed without.

use codebutler_crds::thread::{ClosingChoice, PendingItem, SettledQuestion, ThreadClosing};
use codebutler_crds::wire::{MergeChoice, PendingDecision};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};

use super::{AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind};

pub struct MergeQuestion;

const MERGE: &str = "merge:merge";
const HOLD: &str = "merge:hold";
const DISCARD: &str = "merge:discard";

pub static BUTTONS: [QuestionButton; 3] = [
    QuestionButton::fixed(
        MERGE,
        "Merge",
        ButtonStyle::Primary,
        ":white_check_mark: Merge approved by",
    ),
    QuestionButton::fixed(HOLD, "Hold", ButtonStyle::Plain, ":double_vertical_bar: Held by"),
    QuestionButton::fixed(
        DISCARD,
        "Close without merge",
        ButtonStyle::Danger,
        ":wastebasket: Closed without merge by",
    ),
];

fn read_choice(action_id: &str) -> Option<MergeChoice> {
    match action_id {
        MERGE => Some(MergeChoice::Merge),
        HOLD => Some(MergeChoice::Hold),
        DISCARD => Some(MergeChoice::Discard),
        _ => None,
    }
}

const fn action_id(choice: MergeChoice) -> &'static str {
    match choice {
        MergeChoice::Merge => MERGE,
        MergeChoice::Hold => HOLD,
        MergeChoice::Discard => DISCARD,
    }
}

const fn closing_choice(choice: MergeChoice) -> Option<ClosingChoice> {
    match choice {
        MergeChoice::Merge => Some(ClosingChoice::Merge),
        MergeChoice::Discard => Some(ClosingChoice::Discard),
        MergeChoice::Hold => None,
    }
}

impl QuestionKind for MergeQuestion {
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &BUTTONS
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        status.closing.as_ref().is_some_and(|closing| closing.ts == *message)
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        _context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let Some(choice) = read_choice(&press.action_id) else { return Ok(AnswerOutcome::Unknown) };
        let ButtonPress { message, user, .. } = press;
        let id = press.pending_id(PendingDecision::Merge(choice));
        if status.pending.iter().any(|pending| pending.id == id) {
            return Ok(AnswerOutcome::Counts);
        }
        let Some(closing) = status.closing.as_ref().filter(|closing| closing.ts >= *message) else {
            return Ok(AnswerOutcome::Unknown);
        };
        if closing.ts != *message {
            return Ok(AnswerOutcome::Stale);
        }
        if let Some(given) = closing.choice {
            let again =
                closing.decided_by.as_ref() == Some(user) && closing_choice(choice) == Some(given);
            return Ok(if again { AnswerOutcome::Counts } else { AnswerOutcome::Stale });
        }
        let role = closing.role.clone();
        record_answer(status, message, choice, (user, &role), id)?;
        Ok(AnswerOutcome::Counts)
    }

    fn thumb_buttons(&self) -> Option<(&'static str, &'static str)> {
        Some((MERGE, HOLD))
    }
}

/// Records a decision for everybody, and for the role that acts on it.
///
/// # Errors
/// When too many decisions wait already.
pub fn record_answer(
    status: &mut ThreadStatus,
    asked: &SlackTs,
    choice: MergeChoice,
    (user, role): (&str, &str),
    id: String,
) -> Result<(), ChangeRefusal> {
    let decision = PendingDecision::Merge(choice);
    threads::add_pending(status, &PendingItem::new(id, role, decision, user, asked))?;
    if let Some(ending) = closing_choice(choice) {
        threads::decide_closing(status, asked, ending, user);
    }
    let (ts, choice) = (asked.clone(), Some(action_id(choice).to_owned()));
    threads::settle_question(status, SettledQuestion { ts, choice, user: Some(user.to_owned()) });
    Ok(())
}

/// Ends the thread by a user's words, at any time: the message `asked` itself is the question then.
///
/// # Errors
/// When too many decisions wait already.
pub fn close_in_words(
    status: &mut ThreadStatus,
    asked: &SlackTs,
    user: &str,
    role: &str,
) -> Result<(), ChangeRefusal> {
    let closing = ThreadClosing {
        ts: asked.clone(),
        role: role.to_owned(),
        choice: None,
        decided_by: None,
        head: None,
        waits: None,
    };
    let before = status.closing.replace(Box::new(closing));
    let id = format!("text:{asked}");
    let recorded = record_answer(status, asked, MergeChoice::Discard, (user, role), id);
    if recorded.is_err() {
        status.closing = before;
    }
    recorded
}
