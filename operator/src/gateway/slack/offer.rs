//! Questions of a role's own making: which of several answers, and learnings that are judged one by
//! one. Their buttons, and what a click or a thumb changes in a Thread. Pure: applied again, nothing
//! changes. [`Inner::offered`] takes clicks in.

use codebutler_crds::thread::{Offer, OfferAnswer, OfferKind, Pending, Settled};
use codebutler_crds::wire::PostMessage;
use codebutler_crds::{SlackTs, ThreadStatus};
use serde_json::{Value, json};

use super::Inner;
use super::effects::Effect;
use super::ingest::{Act, Deciding, TakeError};
use super::route::Channel;
use super::verdict::{self, Verdict};
use super::{blocks, markdown};
use crate::gateway::threads::{self, Refusal};

/// Offers that a Thread remembers.
const KEPT: usize = 4;

/// What a button of an offer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Of which kind of offer.
    pub kind: OfferKind,
    /// Which one, from 1.
    pub item: u32,
    /// False only for a learning that is rejected.
    pub yes: bool,
}

impl Pick {
    /// Slack's `action_id`.
    pub fn action_id(self) -> String {
        match (self.kind, self.yes) {
            (OfferKind::Choice, _) => format!("choice:{}", self.item),
            (OfferKind::Learnings, true) => format!("learning:{}:approve", self.item),
            (OfferKind::Learnings, false) => format!("learning:{}:reject", self.item),
        }
    }

    /// The button that has an `action_id`.
    pub fn by_action_id(id: &str) -> Option<Self> {
        let mut parts = id.split(':');
        let (name, item, answer) = (parts.next()?, parts.next()?.parse().ok()?, parts.next());
        let kind = match (name, answer) {
            ("choice", None) => OfferKind::Choice,
            ("learning", Some(_)) => OfferKind::Learnings,
            _ => return None,
        };
        let pick = Self { kind, item, yes: answer != Some("reject") };
        (pick.action_id() == id).then_some(pick)
    }

    /// The block whose buttons it settles; all of the message if none.
    pub fn block(self) -> Option<String> {
        match self.kind {
            OfferKind::Choice => None,
            OfferKind::Learnings => Some(block_id(self.item)),
        }
    }

    /// In place of the buttons. `label` is that of the button.
    pub fn told(self, label: &str) -> String {
        match (self.kind, self.yes) {
            (OfferKind::Choice, _) => format!(":white_check_mark: *{label}*, chosen by"),
            (OfferKind::Learnings, true) => ":white_check_mark: Approved by".to_owned(),
            (OfferKind::Learnings, false) => ":x: Rejected by".to_owned(),
        }
    }

    fn pending(self, offer: &Offer, user: &str) -> Pending {
        let (kind, choice) = match (self.kind, self.yes) {
            (OfferKind::Choice, _) => ("choice", self.item.to_string()),
            (OfferKind::Learnings, true) => ("learning", format!("approve {}", self.item)),
            (OfferKind::Learnings, false) => ("learning", format!("reject {}", self.item)),
        };
        Pending {
            id: format!("offer:{}:{}", offer.ts, self.item),
            role: offer.role.clone(),
            kind: kind.to_owned(),
            choice,
            user: user.to_owned(),
            message: offer.ts.clone(),
        }
    }
}

fn block_id(item: u32) -> String {
    format!("learning:{item}")
}

/// A click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The message with the button.
    pub message: SlackTs,
    /// What it says.
    pub pick: Pick,
    /// Slack user id.
    pub user: String,
}

/// What a role offers, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What is asked.
    pub kind: OfferKind,
    /// One line each, in Slack's markup for learnings and plain for answers.
    items: Vec<String>,
}

impl Shown {
    /// What a message offers. Its texts are masked already.
    pub fn of(message: &PostMessage) -> Option<Self> {
        if !message.choices.is_empty() {
            return Some(Self { kind: OfferKind::Choice, items: message.choices.clone() });
        }
        let items: Vec<String> =
            message.learnings.iter().map(|text| markdown::inline(text)).collect();
        (!items.is_empty()).then_some(Self { kind: OfferKind::Learnings, items })
    }

    /// How many.
    pub fn count(&self) -> u32 {
        u32::try_from(self.items.len()).unwrap_or(u32::MAX)
    }

    /// For notifications, other roles, and where blocks can't be shown.
    pub fn listed(&self) -> String {
        let lines = self.items.iter().zip(1..).map(|(item, n)| {
            let item = match self.kind {
                OfferKind::Choice => super::mrkdwn::escape(item),
                OfferKind::Learnings => item.clone(),
            };
            format!("{n}. {item}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// What stands under the text.
    pub fn blocks(&self, key: &str) -> Vec<Value> {
        let button = |pick: Pick, label: &str, style: Option<&str>| {
            let mut button = json!({
                "type": "button", "action_id": pick.action_id(), "value": key,
                "text": {"type": "plain_text", "text": label},
            });
            if let Some(style) = style {
                button["style"] = json!(style);
            }
            button
        };
        let numbered = || self.items.iter().zip(1..);
        if self.kind == OfferKind::Choice {
            let pick = |item| Pick { kind: OfferKind::Choice, item, yes: true };
            let elements: Vec<Value> =
                numbered().map(|(label, item)| button(pick(item), label, None)).collect();
            return vec![json!({"type": "actions", "block_id": "choice", "elements": elements})];
        }
        let of_item = |(text, item): (&String, u32)| {
            let pick = |yes| Pick { kind: OfferKind::Learnings, item, yes };
            let elements = [
                button(pick(true), "Approve", Some("primary")),
                button(pick(false), "Reject", None),
            ];
            let mut blocks = blocks::sections(&format!("{item}. {text}"));
            let id = block_id(item);
            blocks.push(json!({"type": "actions", "block_id": id, "elements": elements}));
            blocks
        };
        numbered().flat_map(of_item).collect()
    }
}

/// Records an offer that was posted. What it pushes out loses its buttons, and so does an earlier
/// question of the same role that nobody answered.
pub fn add(status: &mut ThreadStatus, offer: &Offer) {
    if status.offers.iter().any(|known| known.ts >= offer.ts) {
        return;
    }
    let replaced = |known: &Offer| {
        let choice = known.kind == OfferKind::Choice && offer.kind == OfferKind::Choice;
        choice && known.role == offer.role
    };
    let surplus = (status.offers.len() + 1).saturating_sub(KEPT);
    let mut kept = Vec::new();
    for (place, known) in std::mem::take(&mut status.offers).into_iter().enumerate() {
        if place >= surplus && !replaced(&known) {
            kept.push(known);
        } else if known.is_open() {
            threads::settle(status, Settled { ts: known.ts, choice: None, user: None });
        }
    }
    kept.push(offer.clone());
    status.offers = kept;
}

/// What became of a click.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It decided, now or when it was delivered before.
    Counts,
    /// Somebody decided before.
    Stale,
    /// No such offer is on record.
    Unknown,
}

/// Takes a click in.
///
/// # Errors
/// When too many decisions wait already.
pub fn take(status: &mut ThreadStatus, picked: &Picked) -> Result<Outcome, Refusal> {
    let Picked { message, pick, user } = picked;
    let is_it = |offer: &&mut Offer| {
        offer.ts == *message && offer.kind == pick.kind && (1..=offer.of).contains(&pick.item)
    };
    let Some(offer) = status.offers.iter_mut().find(is_it) else { return Ok(Outcome::Unknown) };
    let about = |answer: &&OfferAnswer| match pick.kind {
        OfferKind::Choice => true,
        OfferKind::Learnings => answer.item == pick.item,
    };
    if let Some(given) = offer.answers.iter().find(about) {
        let same = given.item == pick.item && given.yes == pick.yes && given.by == *user;
        return Ok(if same { Outcome::Counts } else { Outcome::Stale });
    }
    let pending = pick.pending(offer, user);
    offer.answers.push(OfferAnswer { item: pick.item, yes: pick.yes, by: user.clone() });
    threads::add_pending(status, &pending)?;
    let choice = Some(pick.action_id());
    threads::settle(status, Settled { ts: message.clone(), choice, user: Some(user.clone()) });
    Ok(Outcome::Counts)
}

/// A thumb on a message with learnings is for all that nobody judged yet; answers whether there are.
///
/// # Errors
/// When too many decisions wait already.
pub fn take_all(
    status: &mut ThreadStatus,
    message: &SlackTs,
    yes: bool,
    user: &str,
) -> Result<bool, Refusal> {
    let is_it = |offer: &&Offer| offer.ts == *message && offer.kind == OfferKind::Learnings;
    let Some(offer) = status.offers.iter().find(is_it) else { return Ok(false) };
    let judged: Vec<u32> = offer.answers.iter().map(|answer| answer.item).collect();
    let open: Vec<u32> = (1..=offer.of).filter(|item| !judged.contains(item)).collect();
    for item in &open {
        let pick = Pick { kind: OfferKind::Learnings, item: *item, yes };
        take(status, &Picked { message: message.clone(), pick, user: user.to_owned() })?;
    }
    Ok(!open.is_empty())
}

impl Inner {
    /// Takes a click in.
    pub(super) async fn offered(
        &self,
        channel: &Channel,
        root: &SlackTs,
        picked: &Picked,
    ) -> Result<Vec<Effect>, TakeError> {
        let act = match picked.pick.kind {
            OfferKind::Choice => Act::Steer,
            OfferKind::Learnings => Act::Decide,
        };
        let (key, _turn) = match self.deciding(channel, root, &picked.user, act).await? {
            Deciding::In(key, turn) => (key, turn),
            Deciding::Not(effects) => return Ok(effects),
        };
        let taken = self.threads.try_update(&key, |status| take(status, picked)).await;
        verdict::answer(key, &picked.user, taken, |_, outcome| match outcome {
            Outcome::Counts => Verdict::Counts,
            Outcome::Stale => Verdict::Vain("This is no longer open: it was answered."),
            Outcome::Unknown => {
                Verdict::Vain("This is not open: a newer message asks, or it is not recorded yet.")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> SlackTs {
        text.parse().unwrap()
    }

    fn offer(at: &str, kind: OfferKind, of: u32) -> Offer {
        Offer { ts: ts(at), role: "pm".to_owned(), kind, of, answers: Vec::new() }
    }

    fn picked(at: &str, id: &str, user: &str) -> Picked {
        let pick = Pick::by_action_id(id).unwrap();
        Picked { message: ts(at), pick, user: user.to_owned() }
    }

    #[test]
    fn action_ids_are_read_back_and_no_others() {
        for id in ["choice:1", "learning:10:approve", "learning:2:reject"] {
            assert_eq!(Pick::by_action_id(id).unwrap().action_id(), id);
        }
        for id in ["choice:01", "choice:x", "learning:1", "learning:1:maybe", "plan:approve", ""] {
            assert_eq!(Pick::by_action_id(id), None, "{id}");
        }
    }

    #[test]
    fn one_answer_is_chosen_once() {
        let mut status = ThreadStatus::default();
        add(&mut status, &offer("5.000000", OfferKind::Choice, 3));
        let mut take =
            |id: &str, user: &str| take(&mut status, &picked("5.000000", id, user)).unwrap();
        assert_eq!(take("choice:4", "U1"), Outcome::Unknown);
        assert_eq!(take("choice:2", "U1"), Outcome::Counts);
        assert_eq!(take("choice:2", "U1"), Outcome::Counts);
        assert_eq!(take("choice:2", "U2"), Outcome::Stale);
        assert_eq!(take("choice:1", "U1"), Outcome::Stale);
        assert_eq!(status.pending.len(), 1);
        assert_eq!((&*status.pending[0].kind, &*status.pending[0].choice), ("choice", "2"));
    }

    #[test]
    fn learnings_are_judged_one_by_one_or_by_a_thumb() {
        let mut status = ThreadStatus::default();
        add(&mut status, &offer("5.000000", OfferKind::Learnings, 3));
        let first = picked("5.000000", "learning:2:reject", "U1");
        assert_eq!(take(&mut status, &first).unwrap(), Outcome::Counts);
        assert!(take_all(&mut status, &ts("5.000000"), true, "U2").unwrap());
        assert!(!take_all(&mut status, &ts("5.000000"), false, "U2").unwrap());
        let choices: Vec<_> = status.pending.iter().map(|p| p.choice.as_str()).collect();
        assert_eq!(choices, ["reject 2", "approve 1", "approve 3"]);
        assert_eq!(status.settled.len(), 3);
        assert!(!status.offers[0].is_open());
    }

    #[test]
    fn a_newer_question_takes_the_buttons_of_the_older_one() {
        let mut status = ThreadStatus::default();
        add(&mut status, &offer("5.000000", OfferKind::Choice, 2));
        add(&mut status, &offer("6.000000", OfferKind::Learnings, 1));
        add(&mut status, &offer("7.000000", OfferKind::Choice, 2));
        add(&mut status, &offer("7.000000", OfferKind::Choice, 2));
        assert_eq!(status.offers.len(), 2);
        assert_eq!(status.settled.len(), 1);
        assert_eq!(status.settled[0].ts, ts("5.000000"));
    }
}
