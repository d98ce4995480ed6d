//! The question whether a branch is brought up to date with the base branch, where the two merge without a
//! conflict.

use codebutler_crds::ThreadStatus;
use codebutler_crds::thread::{PendingItem, SettledQuestion};
use codebutler_crds::wire::PendingDecision;
use codebutler_gateway_core::threads::{self, ChangeRefusal};

use super::{
    AnswerContext, AnswerOutcome, AnswerRight, ButtonPress, ButtonStyle, QuestionButton,
    QuestionKind,
};

pub struct UpdateQuestion;

const UPDATE: &str = "update:update";
const LEAVE: &str = "update:leave";

pub static BUTTONS: [QuestionButton; 2] = [
    QuestionButton::fixed(
        UPDATE,
        "Update the branch",
        ButtonStyle::Primary,
        ":white_check_mark: Update wanted by",
    ),
    QuestionButton::fixed(
        LEAVE,
        "Leave it",
        ButtonStyle::Plain,
        ":double_vertical_bar: Left as it is by",
    ),
];

impl QuestionKind for UpdateQuestion {
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
        if status.update_offer.as_ref() != Some(message) {
            return Ok(press.when_over(status));
        }
        if let (UPDATE, Some(role)) = (action_id.as_str(), &context.team.implements) {
            let id = press.pending_id(PendingDecision::Update);
            let pending = PendingItem::new(id, role, PendingDecision::Update, user, message);
            threads::add_pending(status, &pending)?;
        }
        end_offer(status, Some(action_id), Some(user));
        Ok(AnswerOutcome::Counts)
    }

    fn needed_right(&self, _action_id: &str) -> AnswerRight {
        AnswerRight::Steer
    }
}

/// Ends the offer: it is answered, or the branch needs it no more.
pub fn end_offer(status: &mut ThreadStatus, choice: Option<&str>, user: Option<&str>) {
    if let Some(ts) = status.update_offer.take() {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        threads::settle_question(
            status,
            SettledQuestion { ts, choice: owned(choice), user: owned(user) },
        );
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::WITHDRAWN;
    use super::*;
    use codebutler_gateway_core::dispatch::RepoTeam;

    fn press(status: &mut ThreadStatus, action_id: &str) -> AnswerOutcome {
        let (message, user) = ("5.000000".parse().unwrap(), "U1".to_owned());
        let press = ButtonPress { message, action_id: action_id.to_owned(), user };
        let team = RepoTeam { implements: Some("coder".to_owned()), ..RepoTeam::default() };
        let context = AnswerContext { team: &team, now: Timestamp::UNIX_EPOCH, today: "" };
        UpdateQuestion.take_press(status, &press, &context).unwrap()
    }

    #[test]
    fn who_pushes_hears_a_yes_once() {
        let offered = || ThreadStatus {
            update_offer: Some("5.000000".parse().unwrap()),
            ..ThreadStatus::default()
        };
        let mut status = offered();
        assert_eq!(press(&mut status, UPDATE), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, UPDATE), AnswerOutcome::Counts, "again");
        assert_eq!(press(&mut status, LEAVE), AnswerOutcome::Stale);
        assert_eq!(status.pending.len(), 1);
        assert_eq!(status.pending[0].role, "coder");
        assert_eq!(status.pending[0].decision(), Some(PendingDecision::Update));
        let mut status = offered();
        assert_eq!(press(&mut status, LEAVE), AnswerOutcome::Counts);
        assert_eq!((status.pending.len(), status.settled.len()), (0, 1));
        let mut status = offered();
        end_offer(&mut status, Some(WITHDRAWN), None);
        assert_eq!(press(&mut status, UPDATE), AnswerOutcome::Stale, "it needs it no more");
    }
}
