//! The conflict radar: which open branches of a Repo get in each other's way, found out while both are
//! worked on. After every push, and now and then, all of a Repo's open branches are compared by file and
//! definition; those that touch are merged as a trial. Both conversations are told once, and the Threads'
//! statuses say how it stands.
//!
//! Where the base branch has moved past a branch, that is merged as a trial too: see [`current`].
//!
//! What was told stands in the status and, by key, in Slack. What commits are is kept in memory only, and
//! found out again.

mod contact;
mod current;
mod decide;
mod messages;
mod round;
mod side;

use std::collections::HashMap;
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::time::MissedTickBehavior;

pub use self::contact::{BranchContact, compare_branches};
use crate::work::WorkServices;

/// Namespace and name of a Repo.
type RepoName = (String, String);

/// Debounce of pushes. People are told within five seconds.
const GATHER: Duration = Duration::from_millis(1500);
/// Interval of looks at all branches, whatever was pushed: people push past the gateway.
const EVERY: Duration = Duration::from_mins(1);
/// Compares branches until the gateway stops.
pub async fn run_radar(gateway: &WorkServices) {
    let mut memory: HashMap<RepoName, round::RadarMemory> = HashMap::new();
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let woken = async {
            tokio::select! {
                _ = due.tick() => true,
                () = gateway.branches.woken() => false,
            }
        };
        let Some(all) = gateway.shutdown.run_until_cancelled(woken).await else { return };
        let work = async {
            tokio::time::sleep(GATHER).await;
            let touched = gateway.branches.take_touched();
            let repos = gateway.context.own_repos();
            let is_there = |key: &RepoName| gateway.context.repo(&key.0, &key.1).is_some();
            memory.retain(|key, _| is_there(key));
            for repo in repos {
                let key = (repo.namespace().unwrap_or_default(), repo.name_any());
                if all || touched.contains(&key) {
                    let memory = memory.entry(key).or_default();
                    Box::pin(round::look_around(gateway, &repo, memory)).await;
                }
            }
        };
        if gateway.shutdown.run_until_cancelled(work).await.is_none() {
            return;
        }
    }
}
