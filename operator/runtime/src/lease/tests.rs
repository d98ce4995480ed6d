//! Replicas that share a store and are killed, cut off and released, in simulated time.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;
use std::time::Instant;

use futures::executor::LocalPool;
use futures::future::{RemoteHandle, poll_fn};
use futures::task::LocalSpawnExt as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::record::LeaseRecord;
use super::store::{LeaseStore, StoreError, VersionedRecord};
use super::time::LeaseTime;
use super::*;

/// Time that passes when the test says so.
#[derive(Clone)]
struct Simulated(Arc<Mutex<(Instant, Timers, u64)>>);

/// Wakers by the time at which they are due; numbered, for there may be several.
type Timers = BTreeMap<(Instant, u64), Waker>;

impl LeaseTime for Simulated {
    fn now(&self) -> Instant {
        self.0.lock().unwrap().0
    }

    async fn sleep(&self, duration: Duration) {
        let due = self.now() + duration;
        // One timer each, however often it is asked.
        let mut key = None;
        poll_fn(|context| {
            let (now, timers, count) = &mut *self.0.lock().unwrap();
            if *now >= due {
                return Poll::Ready(());
            }
            let key = key.get_or_insert_with(|| {
                *count += 1;
                (due, *count)
            });
            timers.insert(*key, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The record as the API server would keep it.
type Shared = Arc<Mutex<(Option<LeaseRecord>, u64)>>;

const FINE: u8 = 0;
const CUT: u8 = 1;
/// Requests arrive, answers don't.
const DEAF: u8 = 2;

#[derive(Clone)]
struct Fake {
    shared: Shared,
    link: Arc<AtomicU8>,
    time: Simulated,
}

impl Fake {
    async fn cross(&self) {
        if self.link.load(Ordering::Relaxed) == CUT {
            std::future::pending::<()>().await;
        }
        self.time.sleep(Duration::from_millis(3)).await;
    }

    async fn back<T>(&self, answer: T) -> T {
        if self.link.load(Ordering::Relaxed) != FINE {
            std::future::pending::<()>().await;
        }
        answer
    }
}

impl LeaseStore for Fake {
    async fn get(&self) -> Result<Option<VersionedRecord>, StoreError> {
        self.cross().await;
        let found = {
            let (record, version) = &*self.shared.lock().unwrap();
            record.clone().map(|record| (record, version.to_string()))
        };
        self.back(Ok(found)).await
    }

    async fn put(&self, record: &LeaseRecord, version: Option<&str>) -> Result<String, StoreError> {
        self.cross().await;
        let answer = {
            let (now, at) = &mut *self.shared.lock().unwrap();
            let expected = now.is_some().then(|| at.to_string());
            if expected.as_deref() == version {
                *at += 1;
                *now = Some(record.clone());
                Ok(at.to_string())
            } else {
                Err(StoreError::Changed)
            }
        };
        self.back(answer).await
    }
}

struct Replica {
    task: RemoteHandle<()>,
    leadership: watch::Receiver<LeadershipState>,
    resign: CancellationToken,
    link: Arc<AtomicU8>,
}

impl Replica {
    fn is(&self) -> LeadershipState {
        *self.leadership.borrow()
    }

    fn link(&self, link: u8) {
        self.link.store(link, Ordering::Relaxed);
    }
}

struct Simulation {
    pool: LocalPool,
    time: Simulated,
    shared: Shared,
}

impl Simulation {
    fn new() -> Self {
        let time = Simulated(Arc::new(Mutex::new((Instant::now(), BTreeMap::new(), 0))));
        Self { pool: LocalPool::new(), time, shared: Shared::default() }
    }

    fn replica(&self, identity: &str) -> Replica {
        let link = Arc::<AtomicU8>::default();
        let store =
            Fake { shared: self.shared.clone(), link: link.clone(), time: self.time.clone() };
        let settings = LeaseSettings {
            namespace: "ns".to_owned(),
            name: "test".to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(8),
        };
        let (campaign, leadership, resign) = LeaseCampaign::new(store, self.time.clone(), settings);
        let task = self.pool.spawner().spawn_local_with_handle(campaign.run()).unwrap();
        Replica { task, leadership, resign, link }
    }

    /// Lets time pass, from one thing that happens to the next, as long as `on` is content.
    fn pass(&mut self, duration: Duration, mut on: impl FnMut() -> bool) {
        let end = self.time.now() + duration;
        loop {
            self.pool.run_until_stalled();
            if !on() {
                return;
            }
            let next = {
                let (now, timers, _) = &mut *self.time.0.lock().unwrap();
                let next = timers.first_entry().filter(|timer| timer.key().0 <= end);
                *now = next.as_ref().map_or(end, |timer| timer.key().0);
                next.map(OccupiedEntry::remove)
            };
            let Some(waker) = next else { return };
            waker.wake();
        }
    }

    fn seconds(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds), || true);
    }

    /// Seconds until a replica is as wanted; at most a minute.
    fn until(&mut self, replica: &Replica, wanted: LeadershipState) -> f64 {
        let start = self.time.now();
        self.pass(Duration::from_mins(1), || replica.is() != wanted);
        assert_eq!(replica.is(), wanted);
        (self.time.now() - start).as_secs_f64()
    }
}

use LeadershipState::{Held, Lost, Waiting};

#[test]
fn a_killed_holder_is_followed_within_its_duration() {
    let mut sim = Simulation::new();
    let first = sim.replica("a");
    sim.until(&first, Held);
    let second = sim.replica("b");
    sim.seconds(300);
    assert_eq!((first.is(), second.is()), (Held, Waiting));
    drop(first);
    assert!(sim.until(&second, Held) < 10.0);
    let record = sim.shared.lock().unwrap().0.clone().unwrap();
    assert_eq!((record.holder.as_str(), record.transitions), ("b", 2));
}

#[test]
fn a_released_lease_is_taken_at_the_next_look() {
    let mut sim = Simulation::new();
    let first = sim.replica("a");
    sim.until(&first, Held);
    let second = sim.replica("b");
    sim.seconds(20);
    first.resign.cancel();
    assert!(sim.until(&second, Held) < 1.5);
}

#[test]
fn the_same_process_started_again_goes_on_at_once() {
    let mut sim = Simulation::new();
    let first = sim.replica("pod-1");
    sim.until(&first, Held);
    drop(first);
    let again = sim.replica("pod-1");
    assert!(sim.until(&again, Held) < 0.1);
}

#[test]
fn a_holder_that_is_cut_off_knows_before_the_next_one_begins() {
    for link in [CUT, DEAF] {
        let mut sim = Simulation::new();
        let first = sim.replica("a");
        sim.until(&first, Held);
        let second = sim.replica("b");
        sim.seconds(9);
        first.link(link);
        assert!(sim.until(&first, Lost) < 7.0);
        assert_eq!(second.is(), Waiting);
        sim.until(&second, Held);
        // Once it can be reached again, it does not come back by itself.
        first.link(FINE);
        sim.seconds(60);
        assert_eq!((first.is(), second.is()), (Lost, Held));
    }
}

#[test]
fn what_people_do_to_the_lease_gives_it_to_nobody_twice() {
    let mut sim = Simulation::new();
    let first = sim.replica("a");
    sim.until(&first, Held);
    let second = sim.replica("b");
    sim.seconds(9);
    // Deleted: its holder makes it again, and the other one, who may notice first, waits for that.
    sim.shared.lock().unwrap().0 = None;
    sim.seconds(30);
    assert_eq!((first.is(), second.is()), (Held, Waiting));
    // Edited: the holder goes on; given to somebody else: the holder obeys.
    let shared = sim.shared.clone();
    let edit = |holder: &str| {
        let (record, version) = &mut *shared.lock().unwrap();
        *version += 1;
        holder.clone_into(&mut record.as_mut().unwrap().holder);
    };
    edit("a");
    sim.seconds(30);
    assert_eq!(first.is(), Held);
    edit("nobody");
    assert!(sim.until(&first, Lost) < 3.0);
    sim.until(&second, Held);
}

/// Links that fail and recover, and processes that die at random: never two who think they hold it, and
/// soon after the last accident one does.
#[test]
fn whatever_happens_there_are_never_two() {
    for seed in 0..50 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut sim = Simulation::new();
        let mut replicas: Vec<_> = ["a", "b", "c"].map(|identity| sim.replica(identity)).into();
        for step in 0..300_u32 {
            let pause = Duration::from_millis(random.random_range(50..600));
            sim.pass(pause, || {
                let held = replicas.iter().filter(|replica| replica.is() == Held);
                assert!(held.count() < 2, "seed {seed}, step {step}");
                true
            });
            let who = random.random_range(0..3);
            let next = sim.replica(&format!("{who}-{step}"));
            match random.random_range(0..40) {
                0 => replicas[who] = next,
                1 => {
                    let old = std::mem::replace(&mut replicas[who], next);
                    old.resign.cancel();
                    // It may take two seconds to say so.
                    old.task.forget();
                }
                2..=4 => replicas[who].link(random.random_range(FINE..=DEAF)),
                // A replica that exits is started again.
                _ if replicas[who].is() == Lost => replicas[who] = next,
                _ => {}
            }
        }
        let last = sim.replica("last");
        replicas.clear();
        assert!(sim.until(&last, Held) < 11.0, "seed {seed}");
    }
}
