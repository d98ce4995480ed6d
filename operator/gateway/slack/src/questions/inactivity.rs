//! The warning that a thread will be closed because nobody writes: Keep or Close.

use codebutler_crds::ThreadStatus;
use codebutler_crds::thread::SettledQuestion;
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    AnswerContext, AnswerOutcome, AnswerRight, ButtonPress, ButtonStyle, QuestionButton,
    QuestionKind, merge,
};

pub struct InactivityQuestion;

/// Slack's `action_id`s of the buttons.
pub const KEEP: &str = "collect:keep";
const CLOSE: &str = "collect:close";

pub static BUTTONS: [QuestionButton; 2] = [
    QuestionButton::fixed(KEEP, "Keep", ButtonStyle::Plain, ":white_check_mark: Kept by"),
    QuestionButton::fixed(CLOSE, "Close", ButtonStyle::Plain, ":wastebasket: Closed by"),
];

impl QuestionKind for InactivityQuestion {
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &BUTTONS
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let ButtonPress { message, action_id, user } = press;
        if status.warned.as_ref() != Some(message) {
            return Ok(press.when_over(status));
        }
        let mut changed = status.clone();
        end_warning(&mut changed, action_id, user);
        changed.last_activity = Some(Time(context.now));
        changed.heard_from(user);
        if let (CLOSE, Some(role)) = (action_id.as_str(), context.team.first()) {
            merge::close_in_words(&mut changed, message, user, role)?;
        }
        *status = changed;
        Ok(AnswerOutcome::Counts)
    }

    fn needed_right(&self, action_id: &str) -> AnswerRight {
        if action_id == KEEP { AnswerRight::Steer } else { AnswerRight::Decide }
    }

    fn stale_words(&self) -> &'static str {
        "This is no longer open: somebody answered or wrote."
    }
}

/// Settles the warning: by words, which keep the thread, or by a button.
pub fn end_warning(status: &mut ThreadStatus, action_id: &str, user: &str) {
    if let Some(ts) = status.warned.take() {
        let (choice, user) = (Some(action_id.to_owned()), Some(user.to_owned()));
        threads::settle_question(status, SettledQuestion { ts, choice, user });
    }
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::ClosingChoice;
    use jiff::Timestamp;

    use super::*;
    use codebutler_gateway_core::dispatch::RepoTeam;

    fn press(status: &mut ThreadStatus, action_id: &str) -> AnswerOutcome {
        let (message, user) = ("5.000000".parse().unwrap(), "U1".to_owned());
        let press = ButtonPress { message, action_id: action_id.to_owned(), user };
        let team = RepoTeam { roles: vec!["pm".to_owned()], ..RepoTeam::default() };
        let context = AnswerContext { team: &team, now: Timestamp::UNIX_EPOCH, today: "" };
        InactivityQuestion.take_press(status, &press, &context).unwrap()
    }

    #[test]
    fn keep_is_activity_and_close_is_a_decision() {
        let warned = || ThreadStatus {
            warned: Some("5.000000".parse().unwrap()),
            ..ThreadStatus::default()
        };
        let mut status = warned();
        assert_eq!(press(&mut status, KEEP), AnswerOutcome::Counts);
        assert!((status.last_activity.is_some(), status.closing.is_none()) == (true, true));
        assert!(status.pending.is_empty());
        assert_eq!(press(&mut status, KEEP), AnswerOutcome::Counts, "again");
        assert_eq!(press(&mut status, CLOSE), AnswerOutcome::Stale, "too late");

        let mut status = warned();
        assert_eq!(press(&mut status, CLOSE), AnswerOutcome::Counts);
        assert_eq!(status.closing.unwrap().choice, Some(ClosingChoice::Discard));
        assert_eq!(status.pending[0].role, "pm");
        assert_eq!(status.settled[0].choice.as_deref(), Some(CLOSE));
    }
}
