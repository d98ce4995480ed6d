//! Decides the next steps of a roadmap that somebody wants carried out: from the file on the base branch, what people
//! approved, and the Threads of its items. Pure, and idempotent: a gateway that takes over after a crash between two
//! steps decides the same.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_crds::thread::{ApprovedItem, RoadmapProposal, RoadmapRun};
use codebutler_crds::{NanoUsd, SlackTs};
use codebutler_roadmap::{ItemStatus, RoadmapFile, RoadmapItem};

use super::child::ChildState;

/// Number of tries of an item, the first one included.
pub const TRIES: u32 = 3;
/// Items that are not merged and lie below one that begins: a no to the lowest costs all of them.
const MOST_BELOW: usize = 5;

/// State of an item's Thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemChild {
    /// Name of the item's Thread.
    pub thread: String,
    pub state: ChildState,
    /// The plan that people are asked about, unless a person has said anything there.
    pub plan: Option<SlackTs>,
    pub pull_request: Option<u64>,
    /// True if the Thread belongs to another conversation.
    pub elsewhere: bool,
    /// The one on whose branch it began.
    pub on: Option<ItemFooting>,
}

/// The branch on which an item began that was not to wait for a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemFooting {
    /// Name of the Thread on whose branch.
    pub thread: String,
    /// True if that Thread was closed without a merge, and nobody has decided since what becomes of this one.
    pub lost: bool,
}

/// Facts that the next steps are decided from.
pub struct RoadmapFacts<'a> {
    pub run: &'a RoadmapRun,
    /// The file, if there is one.
    pub file: Option<&'a RoadmapFile>,
    /// Threads of the items, by item.
    pub children: &'a BTreeMap<String, ItemChild>,
    /// Maximum number of Threads that may work at the same time.
    pub places: usize,
    /// Budget of the whole roadmap, and its cost by the end of the calls under way. USD.
    pub budget: Option<NanoUsd>,
    pub cost: NanoUsd,
    /// Cost of the whole roadmap so far. USD.
    pub spent: NanoUsd,
    /// True while calls are under way whose cost is not known yet.
    pub is_settling: bool,
    /// Name of another Thread that develops this Repo's roadmap.
    pub elsewhere: Option<&'a str>,
}

/// A step that is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoadmapStep {
    /// Tell people why there is nothing to ask.
    Refuse(RoadmapRefusal),
    /// Ask people about these items.
    Ask(Vec<ApprovedItem>),
    /// Create the Thread of an item.
    Start {
        item: String,
        /// The Thread on whose branch it begins; on the base branch if none.
        on: Option<String>,
    },
    /// A plan counts as approved.
    Approve { item: String, thread: String, plan: SlackTs },
    /// A role that stopped is told to go on.
    Retry { item: String, thread: String, role: String, mark: SlackTs, number: u32 },
    /// Everything that was approved is merged: end the run.
    Finish,
}

/// Reason why people are not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoadmapRefusal {
    /// The base branch has no such file.
    NoRoadmap,
    /// The file has no item that can be started; its faults say why if it has any.
    Nothing,
    /// The roadmap is developed from this other Thread.
    Elsewhere(String),
}

/// State of an item, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemStanding {
    Merged,
    Works,
    Ready,
    /// It waits for people, since this message.
    Asks(WaitingReason, Option<SlackTs>),
    /// It waits for these other items.
    Waits(Vec<String>),
    /// It waits for these other items, which are blocked.
    Held(Vec<String>),
    /// It is the next one to begin when a place is free.
    Next,
    /// The roadmap's budget is used up.
    TooDear,
}

/// Reason why an item waits for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingReason {
    /// A question in its Thread.
    Question,
    /// All its tries have failed.
    Failed,
    /// Nobody works on it any more.
    Rests,
    /// Its Thread was closed without a merge.
    Dropped,
    /// This item, on whose branch it is built, was closed without a merge.
    LostBase(String),
    /// The item says something else than what was approved.
    Changed,
    /// The item is not in the file any more.
    Gone,
    /// The file has a mistake there.
    Faulty,
    /// The file says that it is blocked, and why.
    Blocked(String),
    /// The file says that somebody works on it, and no Thread does.
    ByHand,
    /// Another conversation works on it: that Thread.
    Elsewhere(String),
}

impl RoadmapFacts<'_> {
    fn item(&self, id: &str) -> Option<&RoadmapItem> {
        self.file.and_then(|file| file.item(id))
    }

    fn child(&self, id: &str) -> Option<&ItemChild> {
        self.children.get(id)
    }

    /// True if an item is done: merged, or so in the file, which only a merge can change.
    fn is_done(&self, id: &str) -> bool {
        let merged = self.child(id).is_some_and(|child| child.state == ChildState::Merged);
        merged || self.item(id).is_some_and(|item| item.status == ItemStatus::Done)
    }

    /// State of an approved item.
    pub fn standing(&self, approved: &ApprovedItem) -> ItemStanding {
        let id = &approved.id;
        if self.is_done(id) {
            return ItemStanding::Merged;
        }
        if let Some(child) = self.child(id) {
            if child.elsewhere {
                return ItemStanding::Asks(WaitingReason::Elsewhere(child.thread.clone()), None);
            }
            if let Some(gone) = self.lost_base(child) {
                return ItemStanding::Asks(WaitingReason::LostBase(gone), None);
            }
            return match &child.state {
                ChildState::Ready(_) => ItemStanding::Ready,
                // Its plan is about to be approved without people.
                ChildState::Asks(_) if self.approves(approved, child) => ItemStanding::Works,
                ChildState::Asks(mark) => {
                    ItemStanding::Asks(WaitingReason::Question, Some(mark.clone()))
                }
                ChildState::Failed { mark, .. } if may_retry(approved, mark).is_none() => {
                    ItemStanding::Asks(WaitingReason::Failed, Some(mark.clone()))
                }
                // A merged one was caught above.
                ChildState::Works | ChildState::Merged | ChildState::Failed { .. } => {
                    ItemStanding::Works
                }
                ChildState::Rests(mark) => {
                    ItemStanding::Asks(WaitingReason::Rests, Some(mark.clone()))
                }
                ChildState::Dropped => ItemStanding::Asks(WaitingReason::Dropped, None),
            };
        }
        let Some(item) = self.item(id) else {
            return ItemStanding::Asks(WaitingReason::Gone, None);
        };
        if let Some(why) = find_trouble(item, approved) {
            return ItemStanding::Asks(why, None);
        }
        let waits = self.waits_for(item);
        if !waits.is_empty() && self.footing(&waits).is_none() {
            let is_blocked = |id: &&String| self.is_blocked(id, &mut BTreeSet::new());
            let held: Vec<String> = waits.iter().filter(is_blocked).cloned().collect();
            return if held.is_empty() {
                ItemStanding::Waits(waits)
            } else {
                ItemStanding::Held(held)
            };
        }
        let is_dear = self.budget.is_some_and(|budget| self.cost >= budget);
        if is_dear { ItemStanding::TooDear } else { ItemStanding::Next }
    }

    /// True if nothing goes on with an item until people do something about it, or about one that it waits for.
    /// `seen`: those that were looked at already.
    fn is_blocked<'b>(&'b self, id: &'b str, seen: &mut BTreeSet<&'b str>) -> bool {
        let approved = self.run.items.iter().find(|approved| approved.id == id);
        let Some(approved) = approved.filter(|_| seen.insert(id) && !self.is_done(id)) else {
            return false;
        };
        if self.child(id).is_some() {
            return matches!(self.standing(approved), ItemStanding::Asks(..));
        }
        let Some(item) = self.item(id) else { return true };
        if find_trouble(item, approved).is_some() {
            return true;
        }
        let mut waits = item.depends_on.iter().filter(|id| !self.is_done(id));
        self.footing(&self.waits_for(item)).is_none() && waits.any(|id| self.is_blocked(id, seen))
    }

    /// Items without a Thread that are blocked because `id` is, by way of others too, each with why.
    pub fn held_by(&self, id: &str) -> Vec<(String, String)> {
        let mut held: Vec<(String, String)> = Vec::new();
        loop {
            let known = |own: &String| own == id || held.iter().any(|(held, _)| held == own);
            let next = self.run.items.iter().filter(|item| !known(&item.id)).find_map(|item| {
                let ItemStanding::Held(ids) = self.standing(item) else { return None };
                ids.iter().any(known).then(|| (item.id.clone(), describe_held(&ids)))
            });
            match next {
                Some(next) => held.push(next),
                None => return held,
            }
        }
    }

    fn waits_for(&self, item: &RoadmapItem) -> Vec<String> {
        item.depends_on.iter().filter(|id| !self.is_done(id)).cloned().collect()
    }

    /// The Thread on whose branch an item can begin that waits for these: each of them waits for nothing but people,
    /// and one branch has the work of all.
    fn footing(&self, waits: &[String]) -> Option<&ItemChild> {
        let carries = |id: &String| {
            let child = self.child(id)?;
            let waits = matches!(child.state, ChildState::Ready(_) | ChildState::Asks(_));
            (waits && !child.elsewhere && child.pull_request.is_some()).then_some(child)
        };
        let all = waits.iter().map(carries).collect::<Option<Vec<_>>>()?;
        let has_all = |top: &&ItemChild| {
            let below = self.below(top);
            below.is_some_and(|below| {
                below.len() < MOST_BELOW
                    && all
                        .iter()
                        .all(|one| one.thread == top.thread || below.contains(&one.thread.as_str()))
            })
        };
        all.iter().copied().find(has_all)
    }

    /// Threads of items that are not merged and whose work a branch has, by name; nothing where one of them will not
    /// be.
    fn below<'b>(&'b self, child: &'b ItemChild) -> Option<Vec<&'b str>> {
        let mut found: Vec<&str> = Vec::new();
        let mut next = child;
        while let Some(on) = &next.on {
            if on.lost {
                return None;
            }
            let before = self.children.values().find(|one| one.thread == on.thread);
            let Some(before) = before.filter(|one| one.state != ChildState::Merged) else { break };
            // A name twice leads round.
            if found.contains(&&*before.thread) {
                return None;
            }
            found.push(&before.thread);
            next = before;
        }
        Some(found)
    }

    /// The item on whose branch one is built and that will not be merged.
    fn lost_base(&self, child: &ItemChild) -> Option<String> {
        if child.state == ChildState::Dropped {
            return None;
        }
        let on = child.on.as_ref().filter(|on| on.lost)?;
        let item = self.children.iter().find(|(_, one)| one.thread == on.thread);
        Some(item.map_or_else(|| on.thread.clone(), |(id, _)| id.clone()))
    }

    /// The newest question whether to merge that people have to be told of: once nothing goes on without them, and
    /// about all at once.
    pub fn untold_ready(&self) -> Option<SlackTs> {
        let stands = |item| self.standing(item);
        let goes_on = |item| matches!(stands(item), ItemStanding::Works | ItemStanding::Next);
        if !self.run.is_approved() || self.run.items.iter().any(goes_on) {
            return None;
        }
        let ready = self.run.items.iter().filter(|item| stands(item) == ItemStanding::Ready);
        let asked = ready.filter_map(|item| match &self.child(&item.id)?.state {
            ChildState::Ready(ts) => Some(ts.clone()),
            _ => None,
        });
        asked.max().filter(|newest| self.run.told.as_ref().is_none_or(|told| told < newest))
    }

    /// True if the plan in an item's Thread counts as approved: the item says what was approved, and no person has
    /// said anything there.
    fn approves(&self, approved: &ApprovedItem, child: &ItemChild) -> bool {
        let unchanged =
            self.item(&approved.id).is_some_and(|i| i.is_sound && i.hash() == approved.hash);
        self.run.is_approved() && !child.elsewhere && child.plan.is_some() && unchanged
    }
}

/// Reason why an item without a Thread waits for people, if it does.
fn find_trouble(item: &RoadmapItem, approved: &ApprovedItem) -> Option<WaitingReason> {
    match item.status {
        _ if !item.is_sound => Some(WaitingReason::Faulty),
        _ if item.hash() != approved.hash => Some(WaitingReason::Changed),
        _ if is_open(item) => None,
        ItemStatus::Blocked => Some(WaitingReason::Blocked(
            item.reason.clone().unwrap_or_else(|| "no reason".to_owned()),
        )),
        ItemStatus::InProgress => Some(WaitingReason::ByHand),
        ItemStatus::Pending | ItemStatus::Done => None,
    }
}

/// True if an item can be begun. One that the file calls blocked because of another item counts, too: that note is
/// obsolete once the other item goes on.
fn is_open(item: &RoadmapItem) -> bool {
    let is_held = || item.reason.as_deref().is_some_and(is_held_reason);
    item.status == ItemStatus::Pending || item.status == ItemStatus::Blocked && is_held()
}

const HELD: (&str, [&str; 2]) = ("waits for ", [", which is blocked", ", which are blocked"]);

/// Reason of an item that waits for blocked ones, as it is written into the file.
pub(super) fn describe_held(ids: &[String]) -> String {
    let (begin, ends) = HELD;
    format!("{begin}{}{}", ids.join(", "), ends[usize::from(ids.len() > 1)])
}

/// True for a reason that [`describe_held`] has written.
pub(super) fn is_held_reason(reason: &str) -> bool {
    let (begin, ends) = HELD;
    reason.starts_with(begin) && ends.iter().any(|end| reason.ends_with(end))
}

/// The number of the try that is due after a failure.
fn may_retry(approved: &ApprovedItem, mark: &SlackTs) -> Option<u32> {
    // Told already, and not heard yet.
    if approved.failed.as_ref() == Some(mark) {
        return Some(approved.tries);
    }
    let next = approved.tries + 1;
    (next < TRIES).then_some(next)
}

/// Steps that are to be done now, in this order.
pub fn decide_steps(facts: &RoadmapFacts<'_>) -> Vec<RoadmapStep> {
    let run = facts.run;
    if run.ended.is_some() {
        return Vec::new();
    }
    if let Some(other) = facts.elsewhere {
        let unanswered = run.answered.as_ref() != Some(&run.wanted);
        let refusal = RoadmapStep::Refuse(RoadmapRefusal::Elsewhere(other.to_owned()));
        return if unanswered { vec![refusal] } else { Vec::new() };
    }
    let mut steps: Vec<RoadmapStep> = find_question(facts).into_iter().collect();
    if !run.is_approved() {
        return steps;
    }
    let mut free = facts.places;
    for approved in &run.items {
        let Some(child) = facts.child(&approved.id) else { continue };
        if child.elsewhere {
            continue;
        }
        free = free.saturating_sub(usize::from(child.state.takes_place()));
        let (item, thread) = (approved.id.clone(), child.thread.clone());
        match (&child.state, &child.plan) {
            (ChildState::Asks(_), Some(plan)) if facts.approves(approved, child) => {
                steps.push(RoadmapStep::Approve { item, thread, plan: plan.clone() });
            }
            (ChildState::Failed { role, mark }, _) => {
                if let Some(number) = may_retry(approved, mark) {
                    let (role, mark) = (role.clone(), mark.clone());
                    steps.push(RoadmapStep::Retry { item, thread, role, mark, number });
                }
            }
            _ => {}
        }
    }
    let next = run.items.iter().filter(|item| facts.standing(item) == ItemStanding::Next);
    steps.extend(next.take(free).map(|approved| {
        let waits = facts.item(&approved.id).map(|item| facts.waits_for(item));
        let on = facts.footing(&waits.unwrap_or_default()).map(|child| child.thread.clone());
        RoadmapStep::Start { item: approved.id.clone(), on }
    }));
    let all = run.items.iter().all(|item| facts.standing(item) == ItemStanding::Merged);
    let settled = run.answered.as_ref() == Some(&run.wanted);
    // The total cost is told once, and with the last call in it.
    if all && settled && !facts.is_settling && !run.items.is_empty() {
        steps.push(RoadmapStep::Finish);
    }
    steps
}

/// The question to people, or the refusal in its place: everything open for whoever wants the roadmap developed, and
/// later items that say something else than what was approved.
fn find_question(facts: &RoadmapFacts<'_>) -> Option<RoadmapStep> {
    let run = facts.run;
    let wants = run.answered.as_ref() != Some(&run.wanted);
    let Some(file) = facts.file else {
        return wants.then_some(RoadmapStep::Refuse(RoadmapRefusal::NoRoadmap));
    };
    let known = |item: &RoadmapItem| run.items.iter().find(|own| own.id == item.id);
    let can_begin = |item: &RoadmapItem| match facts.child(&item.id) {
        None => true,
        // Begun before somebody said stop: a new yes is for it, too.
        Some(child) => {
            let is_over = matches!(child.state, ChildState::Merged | ChildState::Dropped);
            !run.is_approved() && !child.elsewhere && !is_over
        }
    };
    let open = file.order().into_iter().filter(|item| {
        let startable = item.is_sound && is_open(item) && can_begin(item);
        startable
            && match known(item) {
                Some(own) if run.is_approved() => own.hash != item.hash(),
                _ => wants,
            }
    });
    let open: Vec<ApprovedItem> = open
        .map(|item| ApprovedItem { id: item.id.clone(), hash: item.hash(), tries: 0, failed: None })
        .collect();
    if open.is_empty() {
        return wants.then_some(RoadmapStep::Refuse(RoadmapRefusal::Nothing));
    }
    let asked = run
        .proposal
        .as_ref()
        .is_some_and(|asked| names_first(asked, &open) && (!asked.declined || !wants));
    // Nobody is asked about changes of what they did not want in the first place.
    let concerns = wants || run.is_approved();
    (!asked && concerns).then_some(RoadmapStep::Ask(open))
}

/// True if a question is about these items, or about the first of them where it says that there are more.
fn names_first(asked: &RoadmapProposal, open: &[ApprovedItem]) -> bool {
    if asked.more {
        open.len() > asked.items.len() && open.starts_with(&asked.items)
    } else {
        asked.items == open
    }
}

#[cfg(test)]
mod tests;
