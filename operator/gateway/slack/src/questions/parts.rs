//! The questions whether to build a request in parts, and what becomes of a half that was merged alone.

use codebutler_crds::thread::{LandedHalf, PendingItem, RequestSplit, SettledQuestion, SplitEnd};
use codebutler_crds::wire::PendingDecision;
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind, WITHDRAWN,
};

pub struct PartsQuestion;

const SPLIT: &str = "parts:split";
const WHOLE: &str = "parts:whole";
const UNDO: &str = "parts:undo";
const LEAVE: &str = "parts:leave";

/// Buttons of the question whether to split.
pub static BUTTONS: [QuestionButton; 2] = [
    QuestionButton::fixed(
        SPLIT,
        "Build the parts",
        ButtonStyle::Primary,
        ":white_check_mark: Parts wanted by",
    ),
    QuestionButton::fixed(
        WHOLE,
        "Keep it whole",
        ButtonStyle::Plain,
        ":heavy_minus_sign: Kept whole by",
    ),
];
/// Buttons of the question what becomes of a half.
pub static HALF_BUTTONS: [QuestionButton; 2] = [
    QuestionButton::fixed(
        UNDO,
        "Take it back",
        ButtonStyle::Danger,
        ":leftwards_arrow_with_hook: Taken back for",
    ),
    QuestionButton::fixed(
        LEAVE,
        "Leave it",
        ButtonStyle::Plain,
        ":double_vertical_bar: Left as it is by",
    ),
];
static ALL: [&[QuestionButton]; 2] = [&BUTTONS, &HALF_BUTTONS];

impl QuestionKind for PartsQuestion {
    fn find_button(&self, action_id: &str) -> Option<QuestionButton> {
        ALL.into_iter().flatten().find(|button| button.action_id == action_id).cloned()
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        status.split.as_ref().is_some_and(|split| split.asked == *message)
    }

    fn take_press(
        &self,
        status: &mut ThreadStatus,
        press: &ButtonPress,
        context: &AnswerContext<'_>,
    ) -> Result<AnswerOutcome, ChangeRefusal> {
        let ButtonPress { message, action_id, user } = press;
        if press.has_settled(status) {
            return Ok(AnswerOutcome::Counts);
        }
        let Some(split) = status.split.as_mut() else { return Ok(AnswerOutcome::Unknown) };
        if [UNDO, LEAVE].contains(&action_id.as_str()) {
            let half = split.halves.iter_mut().find(|half| half.asked == *message);
            let Some(half) = half else { return Ok(AnswerOutcome::Unknown) };
            if half.undo.is_some() {
                return Ok(AnswerOutcome::Stale);
            }
            (half.undo, half.by) = (Some(action_id == UNDO), Some(user.clone()));
        } else {
            if split.asked < *message {
                return Ok(AnswerOutcome::Unknown);
            }
            if split.asked != *message || !split.is_open() {
                return Ok(AnswerOutcome::Stale);
            }
            if action_id == SPLIT {
                split.approved_by = Some(user.clone());
            } else {
                let id = press.pending_id(PendingDecision::KeepWhole);
                let role = split.role.clone();
                let pending =
                    PendingItem::new(id, &role, PendingDecision::KeepWhole, user, message);
                split.declined = true;
                threads::add_pending(status, &pending)?;
            }
        }
        status.last_activity = Some(Time(context.now));
        press.settle(status);
        Ok(AnswerOutcome::Counts)
    }

    fn thumb_buttons(&self) -> Option<(&'static str, &'static str)> {
        Some((SPLIT, WHOLE))
    }
}

/// Records that people are asked about these parts, in the place of what they were asked before.
pub fn record_split(status: &mut ThreadStatus, split: &RequestSplit) {
    let known = status.split.as_ref();
    if known.is_some_and(|known| known.asked >= split.asked || known.is_under_way()) {
        return;
    }
    let replaced = known.filter(|known| known.is_open()).map(|known| known.asked.clone());
    status.split = Some(Box::new(split.clone()));
    threads::raise_asked(status, &split.asked);
    if let Some(ts) = replaced {
        threads::settle_question(status, SettledQuestion { ts, choice: None, user: None });
    }
}

/// Records that people are asked what becomes of a part that was merged alone.
pub fn record_half(status: &mut ThreadStatus, part: u32, asked: &SlackTs) {
    let Some(split) = &mut status.split else { return };
    if split.halves.iter().all(|half| half.part != part) {
        split.halves.push(LandedHalf { part, asked: asked.clone(), undo: None, by: None });
        threads::raise_asked(status, asked);
    }
}

/// Stops the split, because somebody said stop: nothing more is started.
pub fn stop_split(status: &mut ThreadStatus) {
    let Some(split) = &mut status.split else { return };
    if split.is_under_way() {
        split.ended = Some(SplitEnd::Stopped);
    } else if split.is_open() {
        split.declined = true;
        let ts = split.asked.clone();
        threads::settle_question(
            status,
            SettledQuestion { ts, choice: Some(WITHDRAWN.to_owned()), user: None },
        );
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use codebutler_gateway_core::dispatch::RepoTeam;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn press(status: &mut ThreadStatus, at: &str, action_id: &str) -> AnswerOutcome {
        let (message, user) = (ts(at), "U1".to_owned());
        let press = ButtonPress { message, action_id: action_id.to_owned(), user };
        let team = RepoTeam::default();
        let context = AnswerContext { team: &team, now: Timestamp::UNIX_EPOCH, today: "" };
        PartsQuestion.take_press(status, &press, &context).unwrap()
    }

    fn asked(at: &str) -> RequestSplit {
        RequestSplit {
            asked: ts(at),
            role: "pm".into(),
            parts: Vec::new(),
            declined: false,
            approved_by: None,
            halves: Vec::new(),
            ended: None,
        }
    }

    #[test]
    fn one_yes_counts_and_a_no_is_mail_for_who_proposed() {
        let mut status = ThreadStatus::default();
        record_split(&mut status, &asked("5.000000"));
        assert_eq!(press(&mut status, "6.000000", SPLIT), AnswerOutcome::Unknown);
        assert_eq!(press(&mut status, "5.000000", WHOLE), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "5.000000", WHOLE), AnswerOutcome::Counts, "again");
        assert_eq!(press(&mut status, "5.000000", SPLIT), AnswerOutcome::Stale);
        assert_eq!(status.pending.len(), 1);
        assert_eq!(status.pending[0].decision(), Some(PendingDecision::KeepWhole));
        // Proposed otherwise.
        record_split(&mut status, &asked("7.000000"));
        assert_eq!(press(&mut status, "7.000000", SPLIT), AnswerOutcome::Counts);
        record_split(&mut status, &asked("8.000000"));
        assert_eq!(status.split.as_ref().unwrap().asked, ts("7.000000"), "it is under way");
        record_half(&mut status, 1, &ts("9.000000"));
        record_half(&mut status, 1, &ts("9.500000"));
        assert_eq!(threads::open_questions(&status), [ts("9.000000")]);
        assert_eq!(press(&mut status, "9.000000", UNDO), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "9.000000", LEAVE), AnswerOutcome::Stale);
        assert_eq!(status.split.as_ref().unwrap().halves[0].undo, Some(true));
        stop_split(&mut status);
        assert_eq!(status.split.unwrap().ended, Some(SplitEnd::Stopped));
    }
}
