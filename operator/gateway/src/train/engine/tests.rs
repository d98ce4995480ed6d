//! A thousand trains against a host that forgets, refuses and is interfered with.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

const RUNS: u64 = 1000;

/// A repository: what is on its base branch, and what is wrong with its pull requests.
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of the host")]
struct World {
    random: StdRng,
    /// Numbers of pull requests, and `x…` for what people pushed themselves; oldest first.
    base: Vec<String>,
    branches: BTreeSet<u64>,
    /// Pull requests that fail wherever they are; pairs that fail together; pairs that conflict.
    bad: BTreeSet<u64>,
    bad_pairs: Vec<(u64, u64)>,
    conflicts: Vec<(u64, u64)>,
    /// Pull requests that are not what was approved any more.
    moved: BTreeSet<u64>,
    red: bool,
    queue: bool,
    /// GitHub tests nothing, or nothing of what a train pushes.
    untested: bool,
    silent: bool,
    proven: BTreeSet<u64>,
    /// Percentage of steps that are not put on record, and of steps at which somebody pushes.
    crashes: u32,
    pushes: u32,
    /// Number of pushes by people.
    pushed: u32,
    passed: BTreeSet<String>,
    published: BTreeSet<String>,
    queued: Vec<u64>,
    released: BTreeMap<u64, u32>,
    hours: i64,
}

struct Fake(Mutex<World>);

#[derive(Debug)]
struct Interrupted;

fn has(list: &[String], number: u64) -> bool {
    list.contains(&number.to_string())
}

impl World {
    fn of(seed: u64, cars: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let some = |random: &mut StdRng, percent: u32| {
            (1..=cars).filter(|_| random.random_ratio(percent, 100)).collect::<BTreeSet<_>>()
        };
        let pairs = |random: &mut StdRng, most: usize| {
            let count = random.random_range(0..=most);
            let pair = |random: &mut StdRng| {
                let mut two = (1..=cars).sample(random, 2);
                two.sort_unstable();
                (two[0], *two.last().unwrap())
            };
            let all: Vec<_> = (0..count).map(|_| pair(random)).collect();
            all.into_iter().filter(|(one, other)| one != other).collect::<Vec<_>>()
        };
        Self {
            bad: some(&mut random, 15),
            bad_pairs: pairs(&mut random, 2),
            conflicts: pairs(&mut random, 2),
            moved: some(&mut random, 5),
            crashes: random.random_range(0..40),
            pushes: random.random_range(0..15),
            branches: (1..=cars).collect(),
            base: vec!["start".to_owned()],
            red: false,
            queue: false,
            untested: false,
            silent: false,
            proven: BTreeSet::new(),
            pushed: 0,
            passed: BTreeSet::new(),
            published: BTreeSet::new(),
            queued: Vec::new(),
            released: BTreeMap::new(),
            hours: 0,
            random,
        }
    }

    fn good(cars: u64) -> Self {
        Self {
            bad: BTreeSet::new(),
            bad_pairs: Vec::new(),
            conflicts: Vec::new(),
            moved: BTreeSet::new(),
            crashes: 0,
            pushes: 0,
            ..Self::of(0, cars)
        }
    }

    /// Somebody may push, and the gateway may die.
    fn meddle(&mut self) -> Result<(), Interrupted> {
        if self.random.random_ratio(self.pushes, 100) && self.pushed < 10 {
            self.pushed += 1;
            self.base.push(format!("x{}", self.pushed));
        }
        if self.random.random_ratio(self.crashes, 100) { Err(Interrupted) } else { Ok(()) }
    }

    fn conflicts_with(&self, list: &[String], number: u64) -> bool {
        let other = |pair: &(u64, u64)| match *pair {
            (one, other) if one == number => Some(other),
            (one, other) if other == number => Some(one),
            _ => None,
        };
        self.conflicts.iter().filter_map(other).any(|other| has(list, other))
    }

    fn fails(&self, tree: &str) -> bool {
        let list: Vec<String> = tree.split(' ').map(str::to_owned).collect();
        self.red
            || self.bad.iter().any(|number| has(&list, *number))
            || self.bad_pairs.iter().any(|(one, two)| has(&list, *one) && has(&list, *two))
    }
}

/// The same files, in whatever order they came.
fn tree_of(list: &[String]) -> String {
    list.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

#[async_trait]
impl TrainHost for Fake {
    type Error = Interrupted;

    async fn couple(&self, car: &TrainCar) -> Result<Option<String>, Interrupted> {
        let mut world = self.0.lock();
        world.meddle()?;
        assert!(car.is_left());
        Ok(None)
    }

    async fn has_queue(&self) -> Result<bool, Interrupted> {
        Ok(self.0.lock().queue)
    }

    async fn is_tested(&self, _: &[&TrainCar]) -> Result<bool, Interrupted> {
        let mut world = self.0.lock();
        world.meddle()?;
        Ok(!world.untested)
    }

    async fn assemble(&self, cars: &[&TrainCar]) -> Result<TrainAssembly, Interrupted> {
        let mut world = self.0.lock();
        world.meddle()?;
        let mut list = world.base.clone();
        let mut found = TrainAssembly {
            base: world.base.join(" "),
            base_tree: tree_of(&world.base),
            ..TrainAssembly::default()
        };
        for car in cars {
            if world.moved.contains(&car.number) {
                found.gone.push((car.number, "it has new commits".to_owned()));
            } else if world.conflicts_with(&list, car.number) {
                found.apart.push((car.number, vec!["a.rs".to_owned()]));
            } else {
                list.push(car.number.to_string());
                let step = TrainStep { number: car.number, tree: tree_of(&list) };
                found.steps.push(step);
            }
        }
        found.commit = tree_of(&list);
        found.branch = format!("codebutler-train/{}", found.commit);
        Ok(found)
    }

    async fn push(&self, round: &TrainRound, _: &[&TrainCar]) -> Result<PushedBranch, Interrupted> {
        let mut world = self.0.lock();
        if world.base.join(" ") != round.base {
            return Ok(PushedBranch::Stale);
        }
        world.published.insert(round.branch.clone());
        world.meddle()?;
        Ok(PushedBranch::Done)
    }

    async fn checks(&self, commit: &str) -> Result<CheckVerdict, Interrupted> {
        let mut world = self.0.lock();
        world.meddle()?;
        world.hours += 1;
        let names = BTreeSet::from(["ci".to_owned()]);
        if world.silent {
            return Ok(CheckVerdict::Silent);
        }
        if world.random.random_ratio(1, 3) {
            return Ok(CheckVerdict::Pending(names));
        }
        if world.fails(commit) {
            return Ok(CheckVerdict::Failed(names));
        }
        world.passed.insert(commit.to_owned());
        Ok(CheckVerdict::Passed)
    }

    async fn prove(&self, car: &TrainCar, tree: &str) -> Result<Option<String>, Interrupted> {
        let mut world = self.0.lock();
        world.meddle()?;
        if !world.proven.contains(&car.number) {
            return Ok(Some("nothing has tested it".to_owned()));
        }
        world.passed.insert(tree.to_owned());
        Ok(None)
    }

    async fn land(
        &self,
        car: &TrainCar,
        trees: Option<(&str, &str)>,
    ) -> Result<TrainLanding, Interrupted> {
        let mut world = self.0.lock();
        let Some((before, after)) = trees else {
            world.queued.push(car.number);
            return Ok(TrainLanding::Queued);
        };
        if !has(&world.base, car.number) {
            if tree_of(&world.base) != before {
                return Ok(TrainLanding::Moved);
            }
            // Somebody may push between the look and the merge.
            let known = world.pushed;
            let quiet = world.crashes;
            world.crashes = 0;
            let _ = world.meddle();
            world.crashes = quiet;
            if world.conflicts_with(&world.base, car.number) {
                return Ok(TrainLanding::Refused("it is not mergeable".to_owned()));
            }
            world.base.push(car.number.to_string());
            world.branches.remove(&car.number);
            if world.pushed != known {
                return Ok(TrainLanding::Otherwise(format!("c{}", car.number)));
            }
            assert_eq!(tree_of(&world.base), after);
        }
        world.meddle()?;
        Ok(TrainLanding::Done(format!("c{}", car.number)))
    }

    async fn clear(&self, branch: &str) -> Result<(), Interrupted> {
        let mut world = self.0.lock();
        world.published.remove(branch);
        world.meddle()
    }

    async fn release(&self, car: &TrainCar, _: &str) -> Result<(), Interrupted> {
        let mut world = self.0.lock();
        *world.released.entry(car.number).or_default() += 1;
        world.meddle()
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(self.0.lock().hours)
    }

    fn base(&self) -> &'static str {
        "main"
    }

    fn patience(&self) -> SignedDuration {
        SignedDuration::from_hours(100)
    }
}

/// Runs a train of so many to its end.
async fn run(world: World, cars: u64) -> (MergeTrain, World) {
    let mut train = MergeTrain::wanted("1.000000".parse().unwrap(), "U1");
    train.approved_by = Some("U1".to_owned());
    train.cars = (1..=cars).map(|n| TrainCar::ready(&format!("t{n}"), n, "head")).collect();
    let fake = Fake(Mutex::new(world));
    for _ in 0..20_000 {
        match advance_train(&train, &fake).await {
            Ok(TrainProgress::Changed(next)) => {
                // A car that was merged or left out stays so.
                for (before, after) in train.cars.iter().zip(&next.cars) {
                    assert!(before.merged.is_none() || before.merged == after.merged);
                    assert!(before.left_out.is_none() || before.left_out == after.left_out);
                }
                train = *next;
            }
            Ok(TrainProgress::Waits { .. }) | Err(Interrupted) => {}
            Ok(TrainProgress::Over) => return (train, fake.0.into_inner()),
        }
    }
    panic!("it does not end: {train:?}");
}

fn merged(train: &MergeTrain) -> Vec<u64> {
    train.cars.iter().filter(|car| car.merged.is_some()).map(|car| car.number).collect()
}

#[tokio::test]
async fn a_thousand_trains_lose_no_commit_and_land_only_what_was_tested() {
    let (mut landed, mut kept) = (0, 0);
    for seed in 0..RUNS {
        let cars = 1 + seed % 9;
        let (train, world) = run(World::of(seed, cars), cars).await;
        assert_eq!(train.ended, Some(TrainEnd::Done), "{seed}");
        for car in &train.cars {
            let count = world.base.iter().filter(|one| **one == car.number.to_string()).count();
            let is_merged = car.merged.is_some();
            assert_eq!(count, usize::from(is_merged), "{seed}: {car:?}");
            assert_ne!(is_merged, car.left_out.is_some(), "{seed}: {car:?}");
            assert_eq!(is_merged, !world.branches.contains(&car.number), "{seed}: {car:?}");
            if !is_merged {
                assert!(world.released.contains_key(&car.number), "{seed}: nobody told {car:?}");
            }
            landed += usize::from(is_merged);
            kept += usize::from(!is_merged);
            let why = car.left_out.clone().unwrap_or_default();
            let n = car.number;
            let paired = |pairs: &[(u64, u64)]| pairs.iter().any(|(a, b)| *a == n || *b == n);
            let fails = world.bad.contains(&n) || paired(&world.bad_pairs);
            let differs = paired(&world.conflicts) || world.moved.contains(&n);
            assert!(is_merged || fails || differs, "{seed}: a good one was left out: {why}");
            assert!(!is_merged || car.overtaken || !world.bad.contains(&n), "{seed}: {car:?}");
        }
        assert!(world.published.is_empty(), "{seed}: {:?}", world.published);
        let pushed: Vec<_> = world.base.iter().filter(|one| one.starts_with('x')).collect();
        assert_eq!(pushed.len(), world.pushed as usize, "{seed}: a person's commit was lost");
        if world.pushed == 0 && !merged(&train).is_empty() {
            assert!(world.passed.contains(&tree_of(&world.base)), "{seed}: never tested");
        }
    }
    assert!(landed > 2000 && kept > 500, "{landed} {kept}");
}

#[tokio::test]
async fn one_bad_one_of_four_lands_the_others_in_four_rounds() {
    for bad in 1..=4 {
        let (train, world) = run(World { bad: [bad].into(), ..World::good(4) }, 4).await;
        let others: Vec<u64> = (1..=4).filter(|number| *number != bad).collect();
        assert_eq!(merged(&train), others);
        assert!(train.rounds <= 4, "{bad}: {} rounds", train.rounds);
        assert!(world.branches.contains(&bad));
    }
    let (train, _) = run(World::good(4), 4).await;
    assert_eq!((merged(&train).len(), train.rounds), (4, 1));
    let pair = World { bad_pairs: vec![(2, 4)], ..World::good(4) };
    let (train, _) = run(pair, 4).await;
    assert_eq!(merged(&train), [1, 2, 3], "the later of two that don't work together waits");
}

#[tokio::test]
async fn many_are_divided_and_not_tried_one_by_one() {
    let (train, _) = run(World { bad: [23].into(), ..World::good(40) }, 40).await;
    assert_eq!(merged(&train).len(), 39);
    assert!(train.rounds <= 8, "{}", train.rounds);
}

#[tokio::test]
async fn a_base_branch_that_fails_by_itself_blames_nobody() {
    let (train, world) = run(World { red: true, ..World::good(3) }, 3).await;
    assert_eq!((train.ended, merged(&train).len()), (Some(TrainEnd::Failed), 0));
    assert!(train.reason.unwrap().contains("`ci` failed on `main` itself"));
    assert_eq!((world.released.len(), world.branches.len()), (3, 3));
}

#[tokio::test]
async fn a_merge_queue_gets_them_in_order() {
    let (train, world) = run(World { queue: true, ..World::good(3) }, 3).await;
    assert_eq!((world.queued, train.rounds, train.ended), (vec![1, 2, 3], 0, Some(TrainEnd::Done)));
    assert!(world.released.is_empty(), "nobody is told that it was left out");
}

#[tokio::test]
async fn where_nothing_is_tested_a_role_s_own_test_run_counts() {
    for (untested, silent) in [(true, false), (false, true)] {
        let world = World { untested, silent, proven: [1, 3].into(), ..World::good(3) };
        let (train, world) = run(world, 3).await;
        assert_eq!((merged(&train), train.rounds), (vec![1, 3], 0));
        assert!(train.cars[1].left_out.as_ref().unwrap().contains("nothing has tested it"));
        assert!(world.published.is_empty());
    }
}

#[tokio::test]
async fn conflicts_wait_for_those_before_them_and_are_named() {
    let (train, _) = run(World { conflicts: vec![(1, 2)], ..World::good(3) }, 3).await;
    assert_eq!((merged(&train), train.rounds), (vec![1, 3], 1));
    let why = train.cars[1].left_out.clone().unwrap();
    assert_eq!(why, "it conflicts with `main` in `a.rs`");
    // With the failing one out of the way, the other one lands.
    let world = World { conflicts: vec![(1, 2)], bad: [1].into(), ..World::good(2) };
    let (train, _) = run(world, 2).await;
    assert_eq!(merged(&train), [2]);
}
