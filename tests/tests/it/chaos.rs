//! The controller in trouble: killed and started again, on an API server that refuses, loses and
//! delays, with watches that lag and end, while threads come and go and somebody deletes what it
//! made. When the trouble is over, everything has to be as it should be.
//!
//! `CODEBUTLER_SEED` plays a run's decisions again, `CODEBUTLER_CHAOS_SECONDS` makes it longer.

mod players;

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_testbed::apiserver::Faults;
use codebutler_testbed::controllers::{ControllerManager, ControllerOptions};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::controller::world::World;
use players::Team;

const CONTROLLER: &str = "system:serviceaccount:codebutler-system:codebutler-controller";
/// The part of the controller's requests that fails.
const RATE: f64 = 0.1;
/// How long everything may take to be well again.
const RECOVERY: Duration = Duration::from_secs(90);

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_in_random_trouble() {
    let seed = from_env("CODEBUTLER_SEED").unwrap_or_else(rand::random);
    let length = Duration::from_secs(from_env("CODEBUTLER_CHAOS_SECONDS").unwrap_or(10));
    println!("CODEBUTLER_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let faults = Arc::new(Faults::new(dice.random(), CONTROLLER, RATE));
    let mut world = World::troubled(faults.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let options = ControllerOptions { pv_dir: folder.path().to_owned(), root_ca: None };
    let manager = ControllerManager::start(world.admin.clone(), options).await.unwrap();
    world.create_repo().await;
    let team = Team::start(world.admin.clone(), dice.random());

    let mut deaths = 0;
    let end = Instant::now() + length;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(dice.random_range(10..120))).await;
        match dice.random_range(0..40) {
            0 => {
                world.kill_controller();
                deaths += 1;
                tokio::time::sleep(Duration::from_millis(dice.random_range(0..400))).await;
                world.start_controller();
            }
            1..4 => team.open(&mut dice).await,
            4 => team.close(&mut dice).await,
            5 => team.delete(&mut dice).await,
            6..9 => team.vandalize(&mut dice).await,
            9..25 => team.write(&mut dice).await,
            _ => {}
        }
    }
    faults.stop();
    let met = faults.met();
    println!("{} threads, {met} failures met, {deaths} deaths", team.opened());
    team.settle(RECOVERY, false).await;
    // Whatever was said goes for a controller that has seen nothing of it, too.
    world.kill_controller();
    world.start_controller();
    team.write_to_all().await;
    team.settle(RECOVERY, true).await;
    team.stop().await;
    manager.shutdown().await;
    assert!(met > 0, "no failure was met");
}
