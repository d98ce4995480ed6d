//! Questions to people: a plan, a merge, several, a request in parts, a roadmap, money, one action, a choice,
//! learnings, a conversation that nobody writes in. All are asked, answered and settled in one way; what tells
//! them apart is one [`QuestionKind`] each, in a file of its own, and [`KINDS`] lists them.
//!
//! Pure: an answer changes a Thread's status, and applied again it changes nothing. [`crate::outbound::asking`]
//! and [`crate::outbound::post`] put questions into a conversation, [`crate::inbound::answering`] takes answers
//! in, and [`crate::outbound::settled_messages`] puts what was answered in the place of the buttons.

pub mod action;
pub mod answered;
pub(crate) mod blocks;
pub mod budget;
pub mod choice;
pub mod harness;
pub mod inactivity;
pub mod learnings;
pub mod merge;
pub mod offer_view;
pub mod offers;
pub mod parts;
pub mod plan;
pub mod recording;
pub mod roadmap;
pub mod train;
pub mod update;

use std::borrow::Cow;

use codebutler_crds::thread::SettledQuestion;
use codebutler_crds::wire::PendingDecision;
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use jiff::Timestamp;

/// Every kind of question, in the order in which a reaction looks for what it answers.
const KINDS: [&dyn QuestionKind; 12] = [
    &action::ActionQuestion,
    &choice::ChoiceQuestion,
    &learnings::LearningsQuestion,
    &plan::PlanQuestion,
    &merge::MergeQuestion,
    &roadmap::RoadmapQuestion,
    &train::TrainQuestion,
    &parts::PartsQuestion,
    &budget::BudgetQuestion,
    &inactivity::InactivityQuestion,
    &update::UpdateQuestion,
    &recording::RecordingQuestion,
];

/// Told to people who answer a question that is answered or replaced.
pub const ANSWERED_OR_NEWER: &str =
    "This is no longer open: it was answered, or a newer message asks.";
/// Told to people who answer after the deadline.
pub const LATE: &str = "This is no longer open: nobody answered in time. It has to be asked again.";

/// Told to people who answer a question that is for one other person.
pub const NOT_YOURS: &str =
    "This question is for the person it names, and only they can answer it.";

/// Stands in the place of a choice: nobody has to answer any more.
pub const WITHDRAWN: &str = "withdrawn";

/// One kind of question: everything that tells it from the others.
pub trait QuestionKind: Sync {
    /// Buttons of this kind, in order, where they are always the same.
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &[]
    }

    /// The button of this kind that has an `action_id`.
    fn find_button(&self, action_id: &str) -> Option<QuestionButton> {
        self.fixed_buttons().iter().find(|button| button.action_id == action_id).cloned()
    }

    /// Takes a press of one of its buttons in.
    ///
    /// # Errors
    /// When too many decisions wait already.
    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal>;

    /// True if a message is a question of this kind, open or answered, that is on record and that a thumb can
    /// be about.
    fn takes_thumb(&self, _status: &ThreadStatus, _message: &SlackTs) -> bool {
        false
    }

    /// Buttons that a thumb up and a thumb down mean, where each means one.
    fn thumb_buttons(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Takes a thumb on such a message in: as a press of the button that it means.
    ///
    /// # Errors
    /// When too many decisions wait already.
    fn take_thumb(
        &self,
        status: &mut ThreadStatus,
        thumb: &ThumbAnswer<'_>,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let Some((up, down)) = self.thumb_buttons() else { return Ok(AnswerOutcome::Unknown) };
        self.take_press(status, &thumb.press(if thumb.up { up } else { down }), context)
    }

    /// Right that a person needs to press a button.
    fn needed_right(&self, _action_id: &str) -> AnswerRight {
        AnswerRight::Decide
    }

    /// Told to people who come too late.
    fn stale_words(&self) -> &'static str {
        ANSWERED_OR_NEWER
    }
}

/// A button under a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionButton {
    /// Slack's `action_id`: `plan:approve` and so on.
    pub action_id: Cow<'static, str>,
    pub label: Cow<'static, str>,
    pub style: ButtonStyle,
    /// Line in place of the buttons once it was pressed, before the name of who pressed. `{}`: the button's
    /// label.
    pub settled: &'static str,
    /// Id of the one block whose buttons it settles; `None`: all of the message.
    pub block: Option<String>,
}

/// `action_id` of the button that has a repository learned: it stands in no Thread.
pub const LEARN: &str = "learn:start";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ButtonStyle {
    /// No emphasis, Slack's default.
    Plain,
    Primary,
    Danger,
}

impl QuestionButton {
    /// Creates a button of a fixed set, which settles the whole message.
    pub const fn fixed(
        action_id: &'static str,
        label: &'static str,
        style: ButtonStyle,
        settled: &'static str,
    ) -> Self {
        let (action_id, label) = (Cow::Borrowed(action_id), Cow::Borrowed(label));
        Self { action_id, label, style, settled, block: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ButtonPress {
    /// The message with the button.
    pub message: SlackTs,
    pub action_id: String,
    pub user: String,
}

impl ButtonPress {
    /// Id of the decision, the same for each message, user and choice: an impatient second press is the same
    /// decision.
    fn pending_id(&self, decision: PendingDecision) -> String {
        let (_, word) = decision.to_words();
        format!("click:{}:{word}:{}", self.message, self.user)
    }

    /// True if this press settled its question before: it was delivered twice.
    fn has_settled(&self, status: &ThreadStatus) -> bool {
        let same = |one: &SettledQuestion| {
            one.ts == self.message && one.choice.as_ref() == Some(&self.action_id)
        };
        status.settled.iter().any(same)
    }

    /// Records that this press settles its question.
    fn settle(&self, status: &mut ThreadStatus) {
        let (choice, user) = (Some(self.action_id.clone()), Some(self.user.clone()));
        threads::settle_question(
            status,
            SettledQuestion { ts: self.message.clone(), choice, user },
        );
    }

    /// Outcome of a press on a question that is over.
    fn when_over(&self, status: &ThreadStatus) -> AnswerOutcome {
        if self.has_settled(status) { AnswerOutcome::Counts } else { AnswerOutcome::Stale }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ThumbAnswer<'a> {
    pub message: &'a SlackTs,
    /// True for thumbs up, false for thumbs down.
    pub up: bool,
    pub user: &'a str,
}

impl ThumbAnswer<'_> {
    /// Maps the thumb to a press of the button that means the same.
    fn press(&self, action_id: &str) -> ButtonPress {
        let (message, user) = (self.message.clone(), self.user.to_owned());
        ButtonPress { message, action_id: action_id.to_owned(), user }
    }
}

/// Facts that an answer is judged by.
#[derive(Clone, Copy, Debug)]
pub struct AnswerContext<'a> {
    pub team: &'a RepoTeam,
    pub now: Timestamp,
    /// Day in the Repo's time zone: what was raised for a day counts on that day.
    pub today: &'a str,
}

/// Outcome of taking an answer in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// It decided, now or when it was delivered before.
    Counts,
    /// Somebody, or something newer, was first.
    Stale,
    /// The time to answer is over.
    Late,
    /// The question is for another person alone.
    NotTheirs,
    /// Nothing is on record that it can answer.
    Unknown,
}

/// Right that an answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRight {
    /// Right to say what is wanted, or to stop.
    Steer,
    /// Right to let something happen, or not.
    Decide,
}

/// Finds the button with an `action_id`, of whatever kind of question.
pub fn find_button(action_id: &str) -> Option<QuestionButton> {
    KINDS.iter().find_map(|kind| kind.find_button(action_id))
}

/// Finds the kind of question that has a button.
pub fn find_kind(action_id: &str) -> Option<&'static dyn QuestionKind> {
    KINDS.into_iter().find(|kind| kind.find_button(action_id).is_some())
}

/// True if a message on record asks people something that a thumb can be about.
pub fn takes_thumb(status: &ThreadStatus, message: &SlackTs) -> bool {
    KINDS.iter().any(|kind| kind.takes_thumb(status, message))
}

/// Takes a press of a button in.
///
/// # Errors
/// When too many decisions wait already.
pub fn take_press(
    status: &mut ThreadStatus,
    press: &ButtonPress,
    context: &AnswerContext<'_>,
) -> Result<AnswerOutcome, ChangeRefusal> {
    let Some(kind) = find_kind(&press.action_id) else { return Ok(AnswerOutcome::Unknown) };
    let outcome = kind.take_press(status, press, context)?;
    Ok(note_answer(status, &press.user, outcome))
}

/// Takes a thumb in, for whatever its message asks.
///
/// # Errors
/// When too many decisions wait already.
pub fn take_thumb(
    status: &mut ThreadStatus,
    thumb: &ThumbAnswer<'_>,
    context: &AnswerContext<'_>,
) -> Result<AnswerOutcome, ChangeRefusal> {
    let kind = KINDS.into_iter().find(|kind| kind.takes_thumb(status, thumb.message));
    let Some(kind) = kind else { return Ok(AnswerOutcome::Unknown) };
    let outcome = kind.take_thumb(status, thumb, context)?;
    Ok(note_answer(status, thumb.user, outcome))
}

/// Counts whoever decides as taking part: later questions call them.
fn note_answer(status: &mut ThreadStatus, user: &str, outcome: AnswerOutcome) -> AnswerOutcome {
    if outcome == AnswerOutcome::Counts {
        status.took_part(user);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_belongs_to_one_kind_and_is_found_by_its_action_id() {
        for id in [
            "plan:approve",
            "plan:modify",
            "plan:reject",
            "merge:merge",
            "merge:hold",
            "merge:discard",
            "budget:raise-1",
            "budget:raise-5",
            "budget:stop",
            "approval:approve",
            "approval:thread",
            "approval:deny",
            "choice:1",
            "learning:10:approve",
            "learning:2:reject",
            "learning:0:reject",
            "roadmap:start",
            "roadmap:cancel",
            "train:start",
            "train:cancel",
            "parts:split",
            "parts:undo",
            "collect:keep",
            "collect:close",
            "update:update",
            "update:leave",
            "heard:use",
            "heard:correct",
        ] {
            let kinds = KINDS.iter().filter(|kind| kind.find_button(id).is_some()).count();
            assert_eq!(kinds, 1, "{id}");
            assert_eq!(find_button(id).unwrap().action_id, id);
        }
        for id in [
            "plan:merge",
            "plan:postpone",
            "choice:01",
            "choice:x",
            "learning:1",
            "learning:1:maybe",
            "budget:",
            "",
        ] {
            assert_eq!(find_button(id), None, "{id}");
        }
    }
}
