//! The controller in trouble: one or both replicas killed and started again, on an API server that
//! refuses, loses and delays, with watches that lag and end, while threads come and go and somebody
//! deletes what it made. When the trouble is over, everything has to be as it should be.
//!
//! `CODEBUTLER_SEED` plays a run's decisions again, `CODEBUTLER_CHAOS_SECONDS` makes it longer.

mod players;

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_testbed::apiserver::FaultSource;
use codebutler_testbed::controllers::{ControllerManager, ControllerOptions};
use kube::api::{Patch, PatchParams};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use crate::controller::world::{Replica, World};
use players::{RUNS, THREADS, Team};

const CONTROLLER: &str = "system:serviceaccount:codebutler-system:codebutler-controller";
/// The part of the controller's requests that fails.
const RATE: f64 = 0.1;
/// Longest time until everything is well again.
const RECOVERY: Duration = Duration::from_secs(90);

/// Two replicas that are started again whenever they end, as a Deployment would.
struct Replicas<'a> {
    world: &'a World,
    running: Vec<Replica>,
}

impl<'a> Replicas<'a> {
    fn start(world: &'a World) -> Self {
        let running = (0..2).map(|index| world.replica(&format!("controller-{index}"))).collect();
        Self { world, running }
    }

    /// Ends one at once; nothing that it has begun is ended.
    fn kill(&mut self, index: usize) {
        self.running[index].1.abort();
    }

    /// Starts again what was killed or gave up, such as for a lost lease.
    fn keep(&mut self) {
        for (index, replica) in self.running.iter_mut().enumerate() {
            if replica.1.is_finished() {
                *replica = self.world.replica(&format!("controller-{index}"));
            }
        }
    }
}

impl Drop for Replicas<'_> {
    fn drop(&mut self) {
        self.running.iter().for_each(|(_, task)| task.abort());
    }
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_in_random_trouble() {
    let seed = from_env("CODEBUTLER_SEED").unwrap_or_else(rand::random);
    let length = Duration::from_secs(from_env("CODEBUTLER_CHAOS_SECONDS").unwrap_or(10));
    println!("CODEBUTLER_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let faults = Arc::new(FaultSource::new(dice.random(), CONTROLLER, RATE));
    let world = World::troubled(faults.clone()).await;
    let mut replicas = Replicas::start(&world);
    let folder = tempfile::tempdir().unwrap();
    let options = ControllerOptions { pv_dir: folder.path().to_owned(), root_ca: None };
    let manager = ControllerManager::start(world.admin.clone(), options).await.unwrap();
    world.create_repo().await;
    let limits = json!({"concurrentThreads": THREADS, "concurrentRuns": RUNS});
    let limits = Patch::Merge(json!({"spec": {"limits": limits}}));
    world.api::<Repo>().patch("shop", &PatchParams::default(), &limits).await.unwrap();
    let team = Team::start(world.admin.clone(), dice.random());

    let mut deaths = 0;
    let end = Instant::now() + length;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(dice.random_range(10..120))).await;
        match dice.random_range(0..40) {
            0 => {
                let first = dice.random_range(0..2);
                replicas.kill(first);
                if dice.random_bool(0.3) {
                    replicas.kill(1 - first);
                }
                deaths += 1;
            }
            1..4 => team.open(&mut dice).await,
            4 => team.close(&mut dice).await,
            5 => team.delete(&mut dice).await,
            6..9 => team.vandalize(&mut dice).await,
            9..25 => team.write(&mut dice).await,
            _ => replicas.keep(),
        }
    }
    faults.stop();
    let met = faults.met();
    println!("{} threads, {met} failures met, {deaths} deaths", team.opened());
    team.settle(RECOVERY, false, || replicas.keep()).await;
    // Whatever was said goes for a controller that has seen nothing of it, too.
    (0..2).for_each(|index| replicas.kill(index));
    team.write_to_all().await;
    team.settle(RECOVERY, true, || replicas.keep()).await;
    let most = team.stop().await;
    println!("{most} roles had a slot at once");
    assert!(most > 1, "nothing ran at the same time");
    manager.shutdown().await;
    assert!(met > 0, "no failure was met");
    // A right that is used in trouble alone has to be there, too.
    let asked = world.cluster().requests_of(CONTROLLER);
    let denied: Vec<_> = asked.iter().filter(|(_, allowed)| !allowed).collect();
    assert!(denied.is_empty(), "{denied:?}");
}
