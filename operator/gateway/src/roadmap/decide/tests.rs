use codebutler_crds::thread::{RoadmapEnd, RoadmapProposal};

use super::*;

fn ts(text: &str) -> SlackTs {
    text.parse().unwrap()
}

/// Items by id, what they wait for, and their status.
fn file(items: &[(&str, &str, &str)]) -> RoadmapFile {
    let text: Vec<String> = items
        .iter()
        .map(|(id, depends, status)| {
            format!("## {id}. Item {id}\n- Status: {status}\n- Depends on: {depends}\n- Acceptance criteria: {id} works\n\n")
        })
        .collect();
    RoadmapFile::read(&text.concat())
}

/// The same, where a file has that name already.
fn roadmap_of(items: &[(&str, &str, &str)]) -> RoadmapFile {
    file(items)
}

fn approved(file: &RoadmapFile, id: &str) -> ApprovedItem {
    let hash = file.item(id).unwrap().hash();
    ApprovedItem { id: id.to_owned(), hash, tries: 0, failed: None }
}

fn running(file: &RoadmapFile, ids: &[&str]) -> RoadmapRun {
    let wanted = ts("1.000000");
    RoadmapRun {
        answered: Some(wanted.clone()),
        approved_by: Some("U1".to_owned()),
        items: ids.iter().map(|id| approved(file, id)).collect(),
        ..RoadmapRun::wanted(wanted, "U1", None)
    }
}

fn child(state: ChildState) -> ItemChild {
    let plan = match &state {
        ChildState::Asks(ts) => Some(ts.clone()),
        _ => None,
    };
    ItemChild {
        thread: "t".to_owned(),
        state,
        plan,
        pull_request: None,
        elsewhere: false,
        on: None,
    }
}

struct Bed {
    run: RoadmapRun,
    file: Option<RoadmapFile>,
    children: BTreeMap<String, ItemChild>,
    budget: Option<NanoUsd>,
    cost: NanoUsd,
    is_settling: bool,
    elsewhere: Option<&'static str>,
}

impl Bed {
    fn new(file: &RoadmapFile, ids: &[&str]) -> Self {
        let run = running(file, ids);
        let (file, children) = (Some(file.clone()), BTreeMap::new());
        Self {
            run,
            file,
            children,
            budget: None,
            cost: NanoUsd::ZERO,
            is_settling: false,
            elsewhere: None,
        }
    }

    fn with(mut self, id: &str, state: ChildState) -> Self {
        self.children.insert(id.to_owned(), child(state));
        self
    }

    fn facts(&self) -> RoadmapFacts<'_> {
        RoadmapFacts {
            run: &self.run,
            file: self.file.as_ref(),
            children: &self.children,
            places: 2,
            budget: self.budget,
            cost: self.cost,
            spent: self.cost,
            is_settling: self.is_settling,
            elsewhere: self.elsewhere,
        }
    }

    fn steps(&self) -> Vec<RoadmapStep> {
        decide_steps(&self.facts())
    }

    fn standing(&self, at: usize) -> ItemStanding {
        self.facts().standing(&self.run.items[at])
    }
}

fn start(id: &str) -> RoadmapStep {
    RoadmapStep::Start { item: id.to_owned(), on: None }
}

const FOUR: [(&str, &str, &str); 4] =
    [("1", "—", "pending"), ("2", "1", "pending"), ("3", "1, 2", "pending"), ("4", "—", "pending")];

#[test]
fn independent_items_begin_and_dependents_follow_a_merge() {
    let file = file(&FOUR);
    let bed = Bed::new(&file, &["1", "2", "3", "4"]);
    assert_eq!(bed.steps(), [start("1"), start("4")]);
    assert_eq!(bed.standing(2), ItemStanding::Waits(vec!["1".to_owned(), "2".to_owned()]));
    let bed = bed.with("1", ChildState::Works).with("4", ChildState::Works);
    assert_eq!(bed.steps(), [], "all places are taken");
    // Ready is not done: only what is merged is.
    let bed = bed.with("1", ChildState::Ready(ts("5.000000")));
    assert_eq!((bed.steps(), bed.standing(0)), (vec![], ItemStanding::Ready));
    let bed = bed.with("1", ChildState::Merged);
    assert_eq!(bed.steps(), [start("2")]);
    let bed = bed.with("2", ChildState::Merged).with("3", ChildState::Merged);
    assert_eq!(bed.steps(), []);
    let mut bed = bed.with("4", ChildState::Merged);
    bed.is_settling = true;
    assert_eq!(bed.steps(), [], "what the last calls cost is not known");
    bed.is_settling = false;
    assert_eq!(bed.steps(), [RoadmapStep::Finish]);
}

#[test]
fn what_the_file_says_is_done_is_done_and_what_people_do_is_theirs() {
    let file = file(&[
        ("1", "—", "done"),
        ("2", "1", "pending"),
        ("3", "—", "in_progress"),
        ("4", "—", "blocked"),
    ]);
    let bed = Bed::new(&file, &["1", "2", "3", "4"]);
    assert_eq!(bed.steps(), [start("2")]);
    assert_eq!(bed.standing(2), ItemStanding::Asks(WaitingReason::ByHand, None));
    assert_eq!(
        bed.standing(3),
        ItemStanding::Asks(WaitingReason::Blocked("no reason".to_owned()), None)
    );
}

#[test]
fn people_are_asked_once_about_everything_that_can_be_started() {
    let file = file(&[
        ("1", "—", "done"),
        ("2", "1", "pending"),
        ("3", "2", "pending"),
        ("4", "3", "blocked"),
    ]);
    let mut bed = Bed::new(&file, &[]);
    bed.run = RoadmapRun::wanted(ts("1.000000"), "U1", None);
    let both = vec![approved(&file, "2"), approved(&file, "3")];
    assert_eq!(bed.steps(), [RoadmapStep::Ask(both.clone())]);
    let asked = |declined| {
        Some(RoadmapProposal { ts: ts("2.000000"), items: both.clone(), more: false, declined })
    };
    bed.run.proposal = asked(false);
    assert_eq!(bed.steps(), [], "they are asked");
    // Somebody added one: what is asked has to be what is there.
    bed.file = Some(roadmap_of(&[("2", "—", "pending")]));
    assert!(matches!(bed.steps()[..], [RoadmapStep::Ask(_)]));
    bed.run.proposal = asked(true);
    bed.run.answered = Some(ts("1.000000"));
    bed.file = Some(file);
    assert_eq!(bed.steps(), [], "nobody wants it");
}

#[test]
fn after_a_stop_people_are_asked_anew_about_what_is_not_merged() {
    let file = file(&FOUR);
    let mut bed = Bed::new(&file, &["1", "2", "4"])
        .with("1", ChildState::Merged)
        .with("4", ChildState::Works);
    bed.run.wanted = ts("9.000000");
    bed.run.approved_by = None;
    let asks = ["4", "2", "3"].map(|id| approved(&file, id)).to_vec();
    assert_eq!(bed.steps(), [RoadmapStep::Ask(asks)]);
}

#[test]
fn where_nothing_can_be_asked_it_is_said_why() {
    let done = file(&[("1", "—", "done")]);
    let mut bed = Bed::new(&done, &[]);
    bed.run = RoadmapRun::wanted(ts("1.000000"), "U1", None);
    assert_eq!(bed.steps(), [RoadmapStep::Refuse(RoadmapRefusal::Nothing)]);
    bed.file = None;
    assert_eq!(bed.steps(), [RoadmapStep::Refuse(RoadmapRefusal::NoRoadmap)]);
    bed.elsewhere = Some("shop-1-000000");
    assert_eq!(
        bed.steps(),
        [RoadmapStep::Refuse(RoadmapRefusal::Elsewhere("shop-1-000000".to_owned()))]
    );
    bed.run.answered = Some(ts("1.000000"));
    assert_eq!(bed.steps(), []);
}

#[test]
fn a_mistake_in_the_file_keeps_its_items_and_no_others() {
    let file = file(&[
        ("1", "2", "pending"),
        ("2", "1", "pending"),
        ("3", "—", "pending"),
        ("5", "9", "pending"),
    ]);
    let mut bed = Bed::new(&file, &["1", "2", "3", "5"]);
    assert_eq!(bed.steps(), [start("3")]);
    assert_eq!(bed.standing(0), ItemStanding::Asks(WaitingReason::Faulty, None));
    assert_eq!(bed.standing(3), ItemStanding::Asks(WaitingReason::Faulty, None));
    bed.file = Some(roadmap_of(&[("1", "—", "pending")]));
    assert_eq!(bed.standing(2), ItemStanding::Asks(WaitingReason::Gone, None));
}

#[test]
fn changed_criteria_are_asked_about_and_neither_started_nor_approved() {
    let before = file(&FOUR);
    let mut bed = Bed::new(&before, &["1", "4"]).with("4", ChildState::Asks(ts("5.000000")));
    let approve =
        RoadmapStep::Approve { item: "4".to_owned(), thread: "t".to_owned(), plan: ts("5.000000") };
    assert_eq!(bed.steps(), [approve.clone(), start("1")]);
    let changed = RoadmapFile::read(
        "## 1. Item 1\n- Acceptance criteria: more\n\n## 4. Item 4\n- Acceptance criteria: more\n",
    );
    let asks = vec![approved(&changed, "1")];
    bed.file = Some(changed);
    assert_eq!(
        bed.steps(),
        [RoadmapStep::Ask(asks.clone())],
        "the plan of 4 is people's to approve"
    );
    assert_eq!(bed.standing(0), ItemStanding::Asks(WaitingReason::Changed, None));
    assert_eq!(bed.standing(1), ItemStanding::Asks(WaitingReason::Question, Some(ts("5.000000"))));
    bed.run.proposal =
        Some(RoadmapProposal { ts: ts("6.000000"), items: asks, more: false, declined: true });
    assert_eq!(bed.steps(), [], "they said no");
    // A person spoke in the thread: they steer it.
    bed.file = Some(before);
    bed.children.get_mut("4").unwrap().plan = None;
    assert_eq!(bed.steps(), [start("1")]);
}

#[test]
fn an_item_is_tried_three_times_and_then_waits_for_people() {
    let file = file(&FOUR);
    let failed = |at: &str| ChildState::Failed { role: "coder".to_owned(), mark: ts(at) };
    let mut bed = Bed::new(&file, &["1"]).with("1", failed("5.000000"));
    let retry = |at: &str, number| RoadmapStep::Retry {
        item: "1".to_owned(),
        thread: "t".to_owned(),
        role: "coder".to_owned(),
        mark: ts(at),
        number,
    };
    assert_eq!(bed.steps(), [retry("5.000000", 1)]);
    // Written down, and perhaps not told: the same again.
    (bed.run.items[0].tries, bed.run.items[0].failed) = (1, Some(ts("5.000000")));
    assert_eq!(bed.steps(), [retry("5.000000", 1)]);
    let mut bed = bed.with("1", failed("6.000000"));
    assert_eq!(bed.steps(), [retry("6.000000", 2)]);
    (bed.run.items[0].tries, bed.run.items[0].failed) = (2, Some(ts("6.000000")));
    let bed = bed.with("1", failed("7.000000"));
    assert_eq!(bed.steps(), []);
    assert_eq!(bed.standing(0), ItemStanding::Asks(WaitingReason::Failed, Some(ts("7.000000"))));
}

#[test]
fn nothing_begins_beyond_the_budget_after_a_stop_or_for_somebody_else() {
    let file = file(&FOUR);
    let mut bed = Bed::new(&file, &["1", "4"]);
    (bed.budget, bed.cost) = (Some(NanoUsd(10)), NanoUsd(10));
    assert_eq!((bed.steps(), bed.standing(0)), (vec![], ItemStanding::TooDear));
    bed.cost = NanoUsd(9);
    assert_eq!(bed.steps(), [start("1"), start("4")]);
    let mut bed = bed.with("1", ChildState::Works);
    bed.children.get_mut("1").unwrap().elsewhere = true;
    assert_eq!(bed.steps(), [start("4")]);
    assert_eq!(bed.standing(0), ItemStanding::Asks(WaitingReason::Elsewhere("t".to_owned()), None));
    bed.run.ended = Some(RoadmapEnd::Stopped);
    assert_eq!(bed.steps(), []);
}

/// A hundred items, a gateway that dies before or after any step: each item gets one Thread.
#[test]
fn whoever_dies_is_followed_by_somebody_who_decides_the_same() {
    let items: Vec<(String, String)> = (0..100_usize)
        .map(|n| (n.to_string(), if n < 5 { "—".to_owned() } else { (n / 2).to_string() }))
        .collect();
    let rows: Vec<(&str, &str, &str)> =
        items.iter().map(|(id, depends)| (id.as_str(), depends.as_str(), "pending")).collect();
    let file = file(&rows);
    let ids: Vec<&str> = items.iter().map(|(id, _)| id.as_str()).collect();
    let mut bed = Bed::new(&file, &ids);
    let mut created: BTreeMap<String, u32> = BTreeMap::new();
    let mut chance = 1_u32;
    let mut random = move |of: u32| {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (chance >> 16) % of
    };
    let mut rounds = 0;
    while bed.steps() != [RoadmapStep::Finish] {
        rounds += 1;
        assert!(rounds < 5000, "it does not come to an end: {:?}", bed.steps());
        for step in bed.steps() {
            if random(4) == 0 {
                break;
            }
            let RoadmapStep::Start { item: id, .. } = step else { panic!("{step:?}") };
            // The API server takes one Thread of a name, however often it is asked.
            bed.children.entry(id.clone()).or_insert_with(|| {
                *created.entry(id).or_default() += 1;
                child(ChildState::Works)
            });
        }
        let works: Vec<String> = bed
            .children
            .iter()
            .filter(|(_, child)| child.state == ChildState::Works)
            .map(|(id, _)| id.clone())
            .collect();
        assert!(works.len() <= 2, "more than there are places");
        for id in works {
            if random(3) == 0 {
                bed.children.get_mut(&id).unwrap().state = ChildState::Merged;
            }
        }
    }
    assert_eq!(created.len(), 100);
    assert!(created.values().all(|times| *times == 1), "{created:?}");
}

/// An item with an open pull request that waits for people, on the branch of another one where it began there.
fn ready(thread: &str, on: Option<&str>, lost: bool) -> ItemChild {
    ItemChild {
        thread: thread.to_owned(),
        pull_request: Some(1),
        on: on.map(|on| ItemFooting { thread: on.to_owned(), lost }),
        ..child(ChildState::Ready(ts("5.000000")))
    }
}

fn start_on(id: &str, on: &str) -> RoadmapStep {
    RoadmapStep::Start { item: id.to_owned(), on: Some(on.to_owned()) }
}

#[test]
fn what_only_waits_for_people_lets_its_successors_begin_on_its_branch() {
    let file = file(&FOUR);
    let mut bed = Bed::new(&file, &["1", "2", "3"]);
    bed.children.insert("1".to_owned(), ready("t1", None, false));
    assert_eq!(bed.steps(), [start_on("2", "t1")]);
    // A question of its own, once there is something to build on.
    let asks = ItemChild {
        state: ChildState::Asks(ts("6.000000")),
        plan: None,
        ..ready("t1", None, false)
    };
    bed.children.insert("1".to_owned(), asks.clone());
    assert_eq!(bed.steps(), [start_on("2", "t1")]);
    bed.children.insert("1".to_owned(), ItemChild { pull_request: None, ..asks });
    assert_eq!(bed.steps(), []);
    // One of the two items that it waits for has the work of both on its branch.
    bed.children.insert("1".to_owned(), ready("t1", None, false));
    bed.children.insert("2".to_owned(), ready("t2", Some("t1"), false));
    assert_eq!(bed.steps(), [start_on("3", "t2")]);
    // Side by side no branch has both.
    bed.children.insert("2".to_owned(), ready("t2", None, false));
    assert_eq!(bed.steps(), []);
    assert_eq!(bed.standing(2), ItemStanding::Waits(vec!["1".to_owned(), "2".to_owned()]));
    // Names that lead round carry nothing.
    bed.children.insert("1".to_owned(), ready("t1", Some("t2"), false));
    bed.children.insert("2".to_owned(), ready("t2", Some("t1"), false));
    assert_eq!(bed.steps(), []);
}

#[test]
fn what_was_built_on_a_rejected_item_waits_and_carries_nothing() {
    let file = file(&FOUR);
    let mut bed = Bed::new(&file, &["1", "2", "3"]).with("1", ChildState::Dropped);
    bed.children.get_mut("1").unwrap().thread = "t1".to_owned();
    bed.children.insert("2".to_owned(), ready("t2", Some("t1"), true));
    assert_eq!(bed.standing(1), ItemStanding::Asks(WaitingReason::LostBase("1".to_owned()), None));
    assert_eq!(bed.steps(), []);
    // People have decided since what becomes of it.
    bed.children.insert("2".to_owned(), ready("t2", Some("t1"), false));
    assert_eq!(bed.standing(1), ItemStanding::Ready);
}

#[test]
fn a_chain_does_not_grow_without_an_end() {
    let ids = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let before = ["—", "1", "2", "3", "4", "5", "6", "7"];
    let items: Vec<_> = ids.iter().zip(before).map(|(id, on)| (*id, on, "pending")).collect();
    let file = file(&items);
    let mut bed = Bed::new(&file, &ids);
    let mut begun = 0;
    for (at, id) in ids.iter().enumerate() {
        let on = (at > 0).then(|| format!("t{at}"));
        let due = match &on {
            None => start(id),
            Some(on) => start_on(id, on),
        };
        if bed.steps() != [due] {
            break;
        }
        begun += 1;
        let own = ready(&format!("t{}", at + 1), on.as_deref(), false);
        bed.children.insert((*id).to_owned(), own);
    }
    assert_eq!(begun, MOST_BELOW + 1);
}

#[test]
fn people_hear_once_of_all_that_is_ready() {
    let file = file(&FOUR);
    let mut bed = Bed::new(&file, &["1", "4"]);
    bed.children.insert("1".to_owned(), ready("t1", None, false));
    assert_eq!(bed.facts().untold_ready(), None, "another one is next");
    bed.children.insert("4".to_owned(), child(ChildState::Works));
    assert_eq!(bed.facts().untold_ready(), None);
    let later = ItemChild { state: ChildState::Ready(ts("9.000000")), ..ready("t4", None, false) };
    bed.children.insert("4".to_owned(), later);
    assert_eq!(bed.facts().untold_ready(), Some(ts("9.000000")));
    bed.run.told = Some(ts("9.000000"));
    assert_eq!(bed.facts().untold_ready(), None);
    bed.children.insert("4".to_owned(), child(ChildState::Merged));
    assert_eq!(bed.facts().untold_ready(), None, "what is left was told");
}
