//! The question whether several pull requests are merged, one behind the other: once for all that the message
//! shows.

use codebutler_crds::thread::{MergeTrain, SettledQuestion, TrainCar, TrainEnd, TrainProposal};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind, WITHDRAWN,
};

pub struct TrainQuestion;

const START: &str = "train:start";
const CANCEL: &str = "train:cancel";

pub static BUTTONS: [QuestionButton; 2] = [
    QuestionButton::fixed(
        START,
        "Merge all",
        ButtonStyle::Primary,
        ":white_check_mark: Merge of all approved by",
    ),
    QuestionButton::fixed(CANCEL, "Cancel", ButtonStyle::Plain, ":x: Cancelled by"),
];

impl QuestionKind for TrainQuestion {
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &BUTTONS
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        let asked = status.train.as_ref().and_then(|train| train.proposal.as_ref());
        asked.is_some_and(|asked| asked.ts == *message)
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
        let Some(train) = status.train.as_mut() else { return Ok(AnswerOutcome::Unknown) };
        match train.open_question() {
            Some(open) if open.ts == *message => {}
            Some(open) if open.ts < *message => return Ok(AnswerOutcome::Unknown),
            _ => return Ok(AnswerOutcome::Stale),
        }
        train.answered = Some(train.wanted.clone());
        if action_id == START {
            train.approved_by = Some(user.clone());
            train.cars = train.proposal.iter().flat_map(|asked| asked.cars.clone()).collect();
        } else if let Some(asked) = &mut train.proposal {
            asked.declined = true;
        }
        status.last_activity = Some(Time(context.now));
        press.settle(status);
        Ok(AnswerOutcome::Counts)
    }

    fn thumb_buttons(&self) -> Option<(&'static str, &'static str)> {
        Some((START, CANCEL))
    }
}

/// Records that somebody wants everything merged that is ready. A train that is under way goes on.
pub fn want_train(status: &mut ThreadStatus, ts: &SlackTs, by: &str) {
    match &mut status.train {
        Some(train) if train.wanted >= *ts => {}
        Some(train) if train.is_under_way() => {
            train.wanted = ts.clone();
            by.clone_into(&mut train.by);
        }
        known => {
            let before = known.replace(Box::new(MergeTrain::wanted(ts.clone(), by)));
            let open = before.and_then(|train| Some(train.open_question()?.ts.clone()));
            if let Some(ts) = open {
                threads::settle_question(status, SettledQuestion { ts, choice: None, user: None });
            }
        }
    }
}

/// Stops the train, because somebody said stop: nothing more is merged.
pub fn stop_train(status: &mut ThreadStatus) {
    let Some(train) = &mut status.train else { return };
    if train.is_under_way() {
        train.ended = Some(TrainEnd::Stopped);
        return;
    }
    let open = train.open_question().map(|asked| asked.ts.clone());
    train.answered = Some(train.wanted.clone());
    if let Some(asked) = &mut train.proposal {
        asked.declined = true;
    }
    if let Some(ts) = open {
        threads::settle_question(
            status,
            SettledQuestion { ts, choice: Some(WITHDRAWN.to_owned()), user: None },
        );
    }
}

/// Records that people are asked about these. The message that asked before loses its buttons.
pub fn record_cars(status: &mut ThreadStatus, ts: &SlackTs, cars: &[TrainCar]) {
    let Some(train) = &mut status.train else { return };
    let is_known = train.proposal.as_ref().is_some_and(|known| known.ts >= *ts);
    if is_known || train.approved_by.is_some() {
        return;
    }
    let replaced = train.open_question().map(|asked| asked.ts.clone());
    let (ts, cars) = (ts.clone(), cars.to_vec());
    train.proposal = Some(TrainProposal { ts: ts.clone(), cars, declined: false });
    threads::raise_asked(status, &ts);
    if let Some(ts) = replaced {
        threads::settle_question(status, SettledQuestion { ts, choice: None, user: None });
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
        TrainQuestion.take_press(status, &press, &context).unwrap()
    }

    fn asked() -> ThreadStatus {
        let mut status = ThreadStatus::default();
        want_train(&mut status, &ts("4.000000"), "U1");
        record_cars(&mut status, &ts("5.000000"), &[TrainCar::ready("a", 1, "h1")]);
        status
    }

    #[test]
    fn a_yes_is_for_what_was_shown_and_counts_once() {
        let mut status = asked();
        assert_eq!(press(&mut status, "6.000000", START), AnswerOutcome::Unknown);
        assert_eq!(press(&mut status, "5.000000", START), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "5.000000", START), AnswerOutcome::Counts, "again");
        assert_eq!(press(&mut status, "5.000000", CANCEL), AnswerOutcome::Stale);
        let train = status.train.clone().unwrap();
        assert!(train.is_under_way() && train.holds("a") && !train.holds("b"));
        // A question does not add to what was approved.
        record_cars(&mut status, &ts("7.000000"), &[TrainCar::ready("b", 2, "h2")]);
        want_train(&mut status, &ts("8.000000"), "U2");
        let train = status.train.unwrap();
        assert_eq!((train.cars.len(), train.approved_by.as_deref()), (1, Some("U1")));
    }

    #[test]
    fn a_no_and_a_stop_merge_nothing() {
        let mut status = asked();
        assert_eq!(press(&mut status, "5.000000", CANCEL), AnswerOutcome::Counts);
        assert!(!status.train.as_ref().unwrap().is_under_way());
        want_train(&mut status, &ts("3.000000"), "U2");
        assert_eq!(status.train.as_ref().unwrap().by, "U1", "an older one");
        want_train(&mut status, &ts("9.000000"), "U2");
        assert!(status.train.as_ref().unwrap().answered.is_none());
        let mut status = asked();
        stop_train(&mut status);
        assert_eq!(press(&mut status, "5.000000", START), AnswerOutcome::Stale);
        let mut status = asked();
        press(&mut status, "5.000000", START);
        stop_train(&mut status);
        let train = status.train.clone().unwrap();
        assert_eq!(train.ended, Some(TrainEnd::Stopped));
        assert!(train.holds("a"), "until it was let go");
        want_train(&mut status, &ts("9.000000"), "U2");
        assert!(status.train.unwrap().cars.is_empty());
    }
}
