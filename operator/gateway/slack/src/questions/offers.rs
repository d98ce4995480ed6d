//! Questions of a role's own making, as they are shown and kept: [choices](super::choice), and
//! [learnings](super::learnings) that are judged one by one.

use codebutler_crds::thread::{OfferAnswer, OfferKind, PendingItem, RoleOffer, SettledQuestion};
use codebutler_crds::wire::PendingDecision;
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::threads::{self, ChangeRefusal};

use super::{AnswerOutcome, ButtonPress};

/// Most offers that a Thread remembers.
const KEPT: usize = 4;

/// Records an offer that was posted. An older offer that it pushes out loses its buttons, and so does an
/// earlier question of the same role that nobody answered.
pub fn add_offer(status: &mut ThreadStatus, offer: &RoleOffer) {
    if status.offers.iter().any(|known| known.ts >= offer.ts) {
        return;
    }
    let replaced = |known: &RoleOffer| {
        let choice = known.kind == OfferKind::Choice && offer.kind == OfferKind::Choice;
        choice && known.role == offer.role
    };
    let surplus = (status.offers.len() + 1).saturating_sub(KEPT);
    let mut kept = Vec::new();
    for (place, known) in std::mem::take(&mut status.offers).into_iter().enumerate() {
        if place >= surplus && !replaced(&known) {
            kept.push(known);
        } else if known.has_buttons() {
            threads::settle_question(
                status,
                SettledQuestion { ts: known.ts, choice: None, user: None },
            );
        }
    }
    kept.push(offer.clone());
    status.offers = kept;
}

/// Finds the offer that a message shows, if it is on record.
pub(super) fn find_offer<'a>(
    status: &'a ThreadStatus,
    message: &SlackTs,
    kind: OfferKind,
) -> Option<&'a RoleOffer> {
    status.offers.iter().find(|offer| offer.ts == *message && offer.kind == kind)
}

/// Takes in what was pressed: `item` of an offer, with the answer `yes`.
///
/// # Errors
/// When too many decisions wait already.
pub(super) fn take_answer(
    status: &mut ThreadStatus,
    press: &ButtonPress,
    (kind, item, yes): (OfferKind, u32, bool),
) -> Result<AnswerOutcome, ChangeRefusal> {
    let ButtonPress { message, user, .. } = press;
    let is_it = |offer: &&mut RoleOffer| {
        offer.ts == *message && offer.kind == kind && (1..=offer.of).contains(&item)
    };
    let Some(offer) = status.offers.iter_mut().find(is_it) else {
        return Ok(AnswerOutcome::Unknown);
    };
    if offer.only.as_ref().is_some_and(|only| only != user) {
        return Ok(AnswerOutcome::NotTheirs);
    }
    let about = |answer: &&OfferAnswer| match kind {
        OfferKind::Choice => true,
        OfferKind::Learnings => answer.item == item,
    };
    if let Some(given) = offer.answers.iter().find(about) {
        let same = given.item == item && given.yes == yes && given.by == *user;
        return Ok(if same { AnswerOutcome::Counts } else { AnswerOutcome::Stale });
    }
    let decision = match kind {
        OfferKind::Choice => PendingDecision::Choice(item),
        OfferKind::Learnings => PendingDecision::Learning { item, approved: yes },
    };
    let id = format!("offer:{}:{item}", offer.ts);
    let pending = PendingItem::new(id, &offer.role, decision, user, message);
    let optional = offer.optional;
    offer.answers.push(OfferAnswer { item, yes, by: user.clone() });
    // A refusal of something that nobody waits for need not be told to anybody.
    if yes || !optional {
        threads::add_pending(status, &pending)?;
    }
    press.settle(status);
    Ok(AnswerOutcome::Counts)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::{AnswerContext, ThumbAnswer, take_press, take_thumb};
    use super::*;
    use codebutler_gateway_core::dispatch::RepoTeam;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn offer(at: &str, kind: OfferKind, of: u32) -> RoleOffer {
        let (ts, role, answers) = (ts(at), "pm".to_owned(), Vec::new());
        RoleOffer { ts, role, kind, of, only: None, optional: false, answers }
    }

    fn press(status: &mut ThreadStatus, id: &str, user: &str) -> AnswerOutcome {
        let (message, action_id) = (ts("5.000000"), id.to_owned());
        let press = ButtonPress { message, action_id, user: user.to_owned() };
        let team = RepoTeam::default();
        let context = AnswerContext { team: &team, now: Timestamp::UNIX_EPOCH, today: "" };
        take_press(status, &press, &context).unwrap()
    }

    fn thumb(status: &mut ThreadStatus, up: bool) -> AnswerOutcome {
        let (message, team) = (ts("5.000000"), RepoTeam::default());
        let context = AnswerContext { team: &team, now: Timestamp::UNIX_EPOCH, today: "" };
        take_thumb(status, &ThumbAnswer { message: &message, up, user: "U2" }, &context).unwrap()
    }

    #[test]
    fn one_answer_is_chosen_once() {
        let mut status = ThreadStatus::default();
        add_offer(&mut status, &offer("5.000000", OfferKind::Choice, 3));
        assert_eq!(press(&mut status, "choice:4", "U1"), AnswerOutcome::Unknown);
        assert_eq!(press(&mut status, "choice:2", "U1"), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "choice:2", "U1"), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "choice:2", "U2"), AnswerOutcome::Stale);
        assert_eq!(press(&mut status, "choice:1", "U1"), AnswerOutcome::Stale);
        assert_eq!(thumb(&mut status, true), AnswerOutcome::Stale, "it does not say which");
        assert_eq!(status.pending.len(), 1);
        assert_eq!(status.pending[0].decision(), Some(PendingDecision::Choice(2)));
    }

    #[test]
    fn a_question_for_one_person_is_answered_by_nobody_else() {
        let mut status = ThreadStatus::default();
        let only = Some("U1".to_owned());
        add_offer(&mut status, &RoleOffer { only, ..offer("5.000000", OfferKind::Choice, 2) });
        assert_eq!(press(&mut status, "choice:1", "U2"), AnswerOutcome::NotTheirs);
        assert!(status.pending.is_empty() && status.offers[0].is_open());
        assert_eq!(press(&mut status, "choice:1", "U1"), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "choice:1", "U2"), AnswerOutcome::NotTheirs);
    }

    #[test]
    fn learnings_are_judged_one_by_one_or_by_a_thumb() {
        let mut status = ThreadStatus::default();
        add_offer(&mut status, &offer("5.000000", OfferKind::Learnings, 3));
        assert_eq!(press(&mut status, "learning:2:reject", "U1"), AnswerOutcome::Counts);
        assert_eq!(thumb(&mut status, true), AnswerOutcome::Counts);
        assert_eq!(thumb(&mut status, false), AnswerOutcome::Stale);
        let choices: Vec<_> = status.pending.iter().map(|p| p.choice.as_str()).collect();
        assert_eq!(choices, ["reject 2", "approve 1", "approve 3"]);
        // The button for the rest is settled, too.
        assert_eq!(status.settled.len(), 4);
        assert!(!status.offers[0].is_open());
    }

    #[test]
    fn the_rest_is_rejected_at_once_and_what_nobody_waits_for_wakes_nobody_by_a_no() {
        let mut status = ThreadStatus::default();
        let improvements =
            RoleOffer { optional: true, ..offer("5.000000", OfferKind::Learnings, 3) };
        add_offer(&mut status, &improvements);
        assert!(!status.offers[0].is_open() && status.offers[0].has_buttons());
        assert_eq!(press(&mut status, "learning:2:approve", "U1"), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "learning:0:approve", "U1"), AnswerOutcome::Unknown);
        assert_eq!(press(&mut status, "learning:0:reject", "U1"), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "learning:0:reject", "U1"), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "learning:0:reject", "U2"), AnswerOutcome::Counts);
        assert_eq!(press(&mut status, "learning:1:approve", "U2"), AnswerOutcome::Stale);
        let choices: Vec<_> = status.pending.iter().map(|p| p.choice.as_str()).collect();
        assert_eq!(choices, ["approve 2"]);
        assert_eq!(status.settled.len(), 4);
        assert!(!status.offers[0].has_buttons());
    }

    #[test]
    fn a_newer_question_takes_the_buttons_of_the_older_one() {
        let mut status = ThreadStatus::default();
        add_offer(&mut status, &offer("5.000000", OfferKind::Choice, 2));
        add_offer(&mut status, &offer("6.000000", OfferKind::Learnings, 1));
        add_offer(&mut status, &offer("7.000000", OfferKind::Choice, 2));
        add_offer(&mut status, &offer("7.000000", OfferKind::Choice, 2));
        assert_eq!(status.offers.len(), 2);
        assert_eq!(status.settled.len(), 1);
        assert_eq!(status.settled[0].ts, ts("5.000000"));
    }
}
