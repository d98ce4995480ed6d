//! The transcript of a recording: its speaker may correct it for a moment before a role acts on it.

use std::time::Duration;

use codebutler_crds::thread::{HeardRecording, SettledQuestion};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use jiff::Timestamp;

use super::{
    AnswerContext, AnswerOutcome, AnswerRight, ButtonPress, ButtonStyle, QuestionButton,
    QuestionKind,
};

/// Time that roles wait for a correction, and for one that was announced.
pub const HOLD: Duration = Duration::from_secs(15);
const CORRECTION: Duration = Duration::from_mins(10);
/// Most recordings that wait at the same time.
const MOST: usize = 8;

pub struct RecordingQuestion;

/// `kind` in the message's metadata.
pub const KIND: &str = "heard";
const USE: &str = "heard:use";
const CORRECT: &str = "heard:correct";
/// Stands in place of the buttons once the time is over.
pub const TAKEN: &str = "heard:taken";

pub static BUTTONS: [QuestionButton; 2] = [
    QuestionButton::fixed(USE, "Use it", ButtonStyle::Primary, ":white_check_mark: Used by"),
    QuestionButton::fixed(
        CORRECT,
        "I correct it",
        ButtonStyle::Plain,
        ":pencil2: The next message corrects it, said",
    ),
];

impl QuestionKind for RecordingQuestion {
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
        let open = |one: &HeardRecording| one.ts == *message && !one.corrected;
        let is_open = status.heard.iter().any(open);
        if !is_open || held_until(status, context.now).is_none() {
            return Ok(press.when_over(status));
        }
        if action_id == CORRECT {
            for one in status.heard.iter_mut().filter(|one| one.ts == *message) {
                one.corrected = true;
                // The correction is expected from the person who announced it.
                one.user.clone_from(user);
            }
        } else {
            status.heard.retain(|one| one.ts != *message);
        }
        settle(status, message, action_id, Some(user));
        Ok(AnswerOutcome::Counts)
    }

    fn needed_right(&self, _action_id: &str) -> AnswerRight {
        AnswerRight::Steer
    }

    fn stale_words(&self) -> &'static str {
        "A role has it already: write what it should be instead."
    }
}

fn settle(status: &mut ThreadStatus, ts: &SlackTs, choice: &str, user: Option<&str>) {
    let (choice, user) = (Some(choice.to_owned()), user.map(str::to_owned));
    threads::settle_question(status, SettledQuestion { ts: ts.clone(), choice, user });
}

/// Records a transcript that was just shown.
pub fn begin_hold(status: &mut ThreadStatus, ts: &SlackTs, user: &str) {
    let is_known = status.heard.iter().any(|one| one.ts == *ts)
        || status.settled.iter().any(|settled| settled.ts == *ts);
    if is_known {
        return;
    }
    if status.heard.len() >= MOST {
        let oldest = status.heard.remove(0);
        settle(status, &oldest.ts, TAKEN, None);
    }
    let (ts, user) = (ts.clone(), user.to_owned());
    status.heard.push(HeardRecording { ts, user, corrected: false });
}

/// Time until which no role is given mail, if it has to wait.
pub fn held_until(status: &ThreadStatus, now: Timestamp) -> Option<Timestamp> {
    status.heard.iter().map(hold_end).filter(|end| *end > now).max()
}

fn hold_end(one: &HeardRecording) -> Timestamp {
    let (seconds, _) = one.ts.parts();
    let wait = if one.corrected { CORRECTION } else { HOLD };
    let end = seconds.saturating_add(wait.as_secs());
    i64::try_from(end).ok().and_then(|end| Timestamp::from_second(end).ok()).unwrap_or_default()
}

/// Ends the waits that are over.
pub fn end_expired(status: &mut ThreadStatus, now: Timestamp) {
    let (over, open) = status.heard.drain(..).partition(|one| hold_end(one) <= now);
    let over: Vec<HeardRecording> = over;
    status.heard = open;
    for one in over.iter().filter(|one| !one.corrected) {
        settle(status, &one.ts, TAKEN, None);
    }
}

/// Ends the wait because the speaker has written: whatever it says, roles read it beside what was understood.
pub fn end_by_words(status: &mut ThreadStatus, user: &str, said: &SlackTs) {
    let is_over = |one: &HeardRecording| one.user == user && one.ts < *said;
    let (over, open) = status.heard.drain(..).partition(is_over);
    let over: Vec<HeardRecording> = over;
    status.heard = open;
    for one in over.iter().filter(|one| !one.corrected) {
        settle(status, &one.ts, CORRECT, Some(user));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_gateway_core::dispatch::RepoTeam;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shown() -> ThreadStatus {
        let mut status = ThreadStatus::default();
        begin_hold(&mut status, &ts("100.000000"), "U1");
        begin_hold(&mut status, &ts("100.000000"), "U1");
        assert_eq!(status.heard.len(), 1, "once");
        status
    }

    fn press(status: &mut ThreadStatus, action_id: &str, now: i64) -> AnswerOutcome {
        let (message, user) = (ts("100.000000"), "U2".to_owned());
        let press = ButtonPress { message, action_id: action_id.to_owned(), user };
        let team = RepoTeam::default();
        let context = AnswerContext { team: &team, now: at(now), today: "" };
        RecordingQuestion.take_press(status, &press, &context).unwrap()
    }

    #[test]
    fn roles_wait_for_a_moment_and_go_on_by_themselves() {
        let mut status = shown();
        assert_eq!(held_until(&status, at(101)), Some(at(115)));
        end_expired(&mut status, at(114));
        assert_eq!(status.heard.len(), 1);
        assert_eq!(held_until(&status, at(115)), None);
        end_expired(&mut status, at(115));
        assert!(status.heard.is_empty());
        assert_eq!(status.settled[0].choice.as_deref(), Some(TAKEN));
        assert_eq!(press(&mut status, USE, 116), AnswerOutcome::Stale);
        begin_hold(&mut status, &ts("100.000000"), "U1");
        assert!(status.heard.is_empty(), "recorded again after its end, it holds nothing");
    }

    #[test]
    fn a_yes_ends_the_wait_and_a_correction_makes_it_longer() {
        let mut status = shown();
        assert_eq!(press(&mut status, USE, 101), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, USE, 101), AnswerOutcome::Counts, "again");
        assert_eq!(held_until(&status, at(101)), None);

        let mut status = shown();
        assert_eq!(press(&mut status, CORRECT, 101), AnswerOutcome::Counts);
        assert_eq!(held_until(&status, at(200)), Some(at(700)));
        assert_eq!(press(&mut status, USE, 102), AnswerOutcome::Stale);
        end_by_words(&mut status, "U3", &ts("150.000000"));
        assert!(held_until(&status, at(200)).is_some(), "somebody else wrote");
        end_by_words(&mut status, "U2", &ts("90.000000"));
        assert!(held_until(&status, at(200)).is_some(), "written before");
        end_by_words(&mut status, "U2", &ts("150.000000"));
        assert_eq!(held_until(&status, at(200)), None);
    }

    #[test]
    fn words_of_the_speaker_need_no_button() {
        let mut status = shown();
        end_by_words(&mut status, "U1", &ts("105.000000"));
        assert_eq!(held_until(&status, at(106)), None);
        assert_eq!(status.settled[0].choice.as_deref(), Some(CORRECT));
    }
}
