//! Questions that the harness asks rather than a role: a roadmap, a merge train, a request in parts. A plain
//! yes or no in words is a press of their button, and mail for nobody. Pure.

use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::threads::ChangeRefusal;
use jiff::Timestamp;

use super::{AnswerContext, ButtonPress, parts, roadmap, take_press, train};
use crate::text::decision_words::MessageIntent;
use crate::text::person_message::PersonMessage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HarnessQuestion {
    Roadmap,
    Train,
    Parts,
}

/// Finds the questions that wait for an answer, with the messages that ask.
pub fn open_questions(
    status: &ThreadStatus,
) -> impl Iterator<Item = (&SlackTs, HarnessQuestion)> + Clone {
    let roadmap = status.roadmap.iter().filter_map(|run| Some(&run.open_question()?.ts));
    let train = status.train.iter().filter_map(|train| Some(&train.open_question()?.ts));
    let parts = status.split.iter().filter(|split| split.is_open()).map(|split| &split.asked);
    let of = |kind| move |asked| (asked, kind);
    roadmap
        .map(of(HarnessQuestion::Roadmap))
        .chain(train.map(of(HarnessQuestion::Train)))
        .chain(parts.map(of(HarnessQuestion::Parts)))
}

/// Takes a yes or a no in words.
///
/// # Errors
/// When a decision can't be kept because too many wait.
pub fn take_words(
    status: &mut ThreadStatus,
    (message, kind): (SlackTs, HarnessQuestion),
    said: &PersonMessage,
    team: &RepoTeam,
    now: Timestamp,
) -> Result<(), ChangeRefusal> {
    let buttons = match kind {
        HarnessQuestion::Roadmap => &roadmap::BUTTONS,
        HarnessQuestion::Train => &train::BUTTONS,
        HarnessQuestion::Parts => &parts::BUTTONS,
    };
    let [yes, no] = buttons;
    let pressed = if said.intent == Some(MessageIntent::Deny) { no } else { yes };
    let action_id = pressed.action_id.to_string();
    let press = ButtonPress { message, action_id, user: said.user.clone() };
    let context = AnswerContext { team, now, today: "" };
    take_press(status, &press, &context).map(drop)
}
