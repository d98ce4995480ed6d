//! The question whether the roadmap is carried out: once for all items that the message shows.

use codebutler_crds::thread::{
    ApprovedItem, RoadmapEnd, RoadmapProposal, RoadmapRun, SettledQuestion,
};
use codebutler_crds::{NanoUsd, SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    AnswerContext, AnswerOutcome, ButtonPress, ButtonStyle, QuestionButton, QuestionKind, WITHDRAWN,
};

pub struct RoadmapQuestion;

const START: &str = "roadmap:start";
const CANCEL: &str = "roadmap:cancel";

pub static BUTTONS: [QuestionButton; 2] = [
    QuestionButton::fixed(START, "Start", ButtonStyle::Primary, ":white_check_mark: Started by"),
    QuestionButton::fixed(CANCEL, "Cancel", ButtonStyle::Plain, ":x: Cancelled by"),
];

impl QuestionKind for RoadmapQuestion {
    fn fixed_buttons(&self) -> &'static [QuestionButton] {
        &BUTTONS
    }

    fn takes_thumb(&self, status: &ThreadStatus, message: &SlackTs) -> bool {
        open_proposal(status).is_some_and(|asked| asked.ts == *message)
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
        let Some(run) = status.roadmap.as_mut() else { return Ok(AnswerOutcome::Unknown) };
        match run.open_question() {
            Some(open) if open.ts == *message => {}
            Some(open) if open.ts < *message => return Ok(AnswerOutcome::Unknown),
            _ => return Ok(AnswerOutcome::Stale),
        }
        let more = run.proposal.as_ref().is_some_and(|asked| asked.more);
        if action_id != START || !more {
            run.answered = Some(run.wanted.clone());
        }
        if action_id == START {
            approve_items(run, user, &Time(context.now));
        } else if let Some(asked) = &mut run.proposal {
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

fn open_proposal(status: &ThreadStatus) -> Option<&RoadmapProposal> {
    status.roadmap.as_ref().and_then(|run| run.proposal.as_ref())
}

/// Approves the items that were shown, in the place of what was approved of them before.
fn approve_items(run: &mut RoadmapRun, user: &str, now: &Time) {
    run.approved_by = Some(user.to_owned());
    run.approved_at.get_or_insert_with(|| now.clone());
    let shown = run.proposal.iter().flat_map(|asked| asked.items.clone());
    for item in shown.collect::<Vec<ApprovedItem>>() {
        match run.items.iter_mut().find(|own| own.id == item.id) {
            Some(own) => own.hash = item.hash,
            None => run.items.push(item),
        }
    }
}

/// Records that somebody wants the roadmap carried out. A run that is under way goes on.
pub fn want_roadmap(status: &mut ThreadStatus, ts: &SlackTs, by: &str, budget: Option<NanoUsd>) {
    let fresh = || Box::new(RoadmapRun::wanted(ts.clone(), by, budget));
    match &mut status.roadmap {
        Some(run) if run.wanted >= *ts => {}
        Some(run) if run.is_approved() => {
            run.wanted = ts.clone();
            by.clone_into(&mut run.by);
            run.budget = budget.or(run.budget);
        }
        known => {
            let before = known.replace(fresh());
            let open = before.as_ref().and_then(|run| Some(run.open_question()?.ts.clone()));
            // Items that were begun go on where they are, and their tries count.
            if let (Some(run), Some(before)) = (known, before) {
                run.items = before.items;
            }
            if let Some(ts) = open {
                threads::settle_question(status, SettledQuestion { ts, choice: None, user: None });
            }
        }
    }
}

/// Stops the roadmap, because somebody said stop: nothing more is started.
pub fn stop_roadmap(status: &mut ThreadStatus) {
    let Some(run) = &mut status.roadmap else { return };
    let open = run.open_question().map(|asked| asked.ts.clone());
    run.ended.get_or_insert(RoadmapEnd::Stopped);
    if let Some(ts) = open {
        threads::settle_question(
            status,
            SettledQuestion { ts, choice: Some(WITHDRAWN.to_owned()), user: None },
        );
    }
}

/// Records that people are asked about these items, and about others after them if there are `more`. The
/// message that asked before loses its buttons.
pub fn record_items(status: &mut ThreadStatus, ts: &SlackTs, items: &[ApprovedItem], more: bool) {
    let Some(run) = &mut status.roadmap else { return };
    if run.proposal.as_ref().is_some_and(|known| known.ts >= *ts) {
        return;
    }
    let replaced = run.open_question().map(|asked| asked.ts.clone());
    let (ts, items) = (ts.clone(), items.to_vec());
    run.proposal = Some(RoadmapProposal { ts: ts.clone(), items, more, declined: false });
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

    fn item(id: &str, hash: &str) -> ApprovedItem {
        ApprovedItem { id: id.to_owned(), hash: hash.to_owned(), tries: 0, failed: None }
    }

    fn press(status: &mut ThreadStatus, at: &str, action_id: &str) -> AnswerOutcome {
        let (message, user) = (ts(at), "U1".to_owned());
        let press = ButtonPress { message, action_id: action_id.to_owned(), user };
        let team = RepoTeam::default();
        let context = AnswerContext { team: &team, now: Timestamp::UNIX_EPOCH, today: "" };
        RoadmapQuestion.take_press(status, &press, &context).unwrap()
    }

    fn asked(at: &str, items: &[ApprovedItem]) -> ThreadStatus {
        let mut status = ThreadStatus::default();
        want_roadmap(&mut status, &ts("4.000000"), "U1", None);
        record_items(&mut status, &ts(at), items, false);
        status
    }

    #[test]
    fn a_yes_is_for_what_was_shown_and_counts_once() {
        let mut status = asked("5.000000", &[item("1", "aa"), item("2", "bb")]);
        assert_eq!(press(&mut status, "6.000000", START), AnswerOutcome::Unknown);
        assert_eq!(press(&mut status, "5.000000", START), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "5.000000", START), AnswerOutcome::Counts, "again");
        assert_eq!(press(&mut status, "5.000000", CANCEL), AnswerOutcome::Stale);
        let run = status.roadmap.clone().unwrap();
        assert!(run.is_approved() && run.answered == Some(ts("4.000000")));
        assert_eq!(run.items, [item("1", "aa"), item("2", "bb")]);
        // The criteria of one changed: asked anew, its tries stay.
        status.roadmap.as_mut().unwrap().items[1].tries = 2;
        record_items(&mut status, &ts("7.000000"), &[item("2", "cc")], false);
        assert_eq!(press(&mut status, "5.000000", CANCEL), AnswerOutcome::Stale);
        assert_eq!(press(&mut status, "7.000000", START), AnswerOutcome::Counts);
        let run = status.roadmap.unwrap();
        assert_eq!(run.items, [item("1", "aa"), ApprovedItem { tries: 2, ..item("2", "cc") }]);
    }

    #[test]
    fn a_yes_to_some_leaves_the_others_to_be_asked_about() {
        let mut status = ThreadStatus::default();
        want_roadmap(&mut status, &ts("4.000000"), "U1", None);
        record_items(&mut status, &ts("5.000000"), &[item("1", "aa")], true);
        assert_eq!(press(&mut status, "5.000000", START), AnswerOutcome::Counts);
        let run = status.roadmap.as_ref().unwrap();
        assert!(run.is_approved() && run.answered.is_none(), "the others are still wanted");
        record_items(&mut status, &ts("6.000000"), &[item("2", "bb")], false);
        assert_eq!(press(&mut status, "6.000000", START), AnswerOutcome::Counts);
        let run = status.roadmap.unwrap();
        assert_eq!(run.answered, Some(ts("4.000000")));
        assert_eq!(run.items, [item("1", "aa"), item("2", "bb")]);
    }

    #[test]
    fn a_no_starts_nothing_and_a_new_wish_asks_again() {
        let mut status = asked("5.000000", &[item("1", "aa")]);
        assert_eq!(press(&mut status, "5.000000", CANCEL), AnswerOutcome::Counts);
        assert!(!status.roadmap.as_ref().unwrap().is_approved());
        want_roadmap(&mut status, &ts("3.000000"), "U1", None);
        assert_eq!(status.roadmap.as_ref().unwrap().wanted, ts("4.000000"), "an older one");
        want_roadmap(&mut status, &ts("8.000000"), "U2", Some(NanoUsd(1)));
        let run = status.roadmap.as_ref().unwrap();
        assert_eq!((&*run.by, run.answered.is_none(), run.budget), ("U2", true, Some(NanoUsd(1))));
    }

    #[test]
    fn stop_ends_it_and_a_running_one_is_extended() {
        let mut status = asked("5.000000", &[item("1", "aa")]);
        press(&mut status, "5.000000", START);
        want_roadmap(&mut status, &ts("8.000000"), "U1", None);
        let run = status.roadmap.as_ref().unwrap();
        assert!(run.is_approved() && run.answered != Some(run.wanted.clone()));
        stop_roadmap(&mut status);
        assert_eq!(status.roadmap.as_ref().unwrap().ended, Some(RoadmapEnd::Stopped));
        want_roadmap(&mut status, &ts("9.000000"), "U1", None);
        let run = status.roadmap.as_ref().unwrap();
        assert!(!run.is_approved() && run.ended.is_none() && run.items.len() == 1);
        // The same items, asked about again, take a yes again.
        record_items(&mut status, &ts("10.000000"), &[item("1", "aa")], false);
        assert_eq!(press(&mut status, "10.000000", START), AnswerOutcome::Counts);
        assert!(status.roadmap.as_ref().unwrap().is_approved());
    }
}
