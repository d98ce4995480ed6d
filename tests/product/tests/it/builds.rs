//! Builds of a team's threads, which take turns. Tests begin in the order of their names: these, which wait for each other's
//! commands, are early.

use std::path::PathBuf;

use codebutler_crds::names::pod_name;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use kube::ResourceExt as _;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Setup, Team, needs_process_kubelet};

/// Two threads whose coders run the same command, and one build slot.
async fn builders(command: &str, times: usize) -> (Team, [String; 2]) {
    builders_within(command, times, 3600).await
}

/// The same, with so many seconds for a run.
async fn builders_within(command: &str, times: usize, limit: u32) -> (Team, [String; 2]) {
    let mut coder = vec![ScriptStep::tool("Bash", json!({"command": command})); times];
    coder.push(ScriptStep::say("Built."));
    let command = command.to_owned();
    let setup = Setup::new(ModelScript::of("coder", coder)).repo(move |repo| {
        repo.worktree.test = Some(command.clone());
        repo.worktree.max_concurrent_builds = 1;
    });
    let setup = setup.role(move |role| role.limits.timeout_seconds = limit);
    let team = setup.start().await;
    let roots = ["one", "two"]
        .map(|what| team.says("ana", None, &format!("@codebutler.coder build {what}")));
    (team, roots)
}

/// Returns the times at which the commands themselves say that they ran, and true if a model was told that one
/// waited.
fn times(team: &Team) -> (Vec<(u128, u128)>, bool) {
    let requests = team.stack.models.requests();
    let messages = requests.iter().filter_map(|r| r.body["messages"].as_array().cloned());
    let shown: Vec<String> = messages
        .flatten()
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| Some(message["content"].as_str()?.to_owned()))
        .collect();
    let mut times: Vec<_> = shown
        .iter()
        .filter_map(|text| {
            let after =
                |word: &str| text.lines().find_map(|line| line.strip_prefix(word)?.parse().ok());
            Some((after("begin ")?, after("end ")?))
        })
        .collect();
    times.sort_unstable();
    times.dedup();
    (times, shown.iter().any(|text| text.contains(" s for a build slot (1 of 1 in use)]")))
}

fn never_at_once(times: &[(u128, u128)]) -> bool {
    times.windows(2).all(|two| two[0].1 <= two[1].0)
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_of_two_threads_take_turns() {
    let command = "echo begin $(date +%s%N); sleep 2; echo end $(date +%s%N)";
    let (team, roots) = builders(command, 2).await;
    for root in &roots {
        team.message(root, "Built.").await;
    }
    let (times, waited) = times(&team);
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(never_at_once(&times), "{times:?}");
    assert!(waited, "who waited is told so");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_build_slot_is_no_part_of_a_runs_time() {
    // One build alone fits into a run, and with the wait for the other one it would not.
    let command = "echo begin $(date +%s%N); sleep 25; echo end $(date +%s%N)";
    let (team, roots) = builders_within(command, 1, 40).await;
    for root in &roots {
        team.message(root, "Built.").await;
    }
    let (times, waited) = times(&team);
    assert!(waited && times.len() == 2 && never_at_once(&times), "{waited} {times:?}");
    team.stop().await;
}

/// True if a thread's command has begun its first run.
async fn begun(team: &Team, root: &str) -> bool {
    let claim = team.thread(root).await.name_any();
    let folder = team.kubelet().volume_path(&team.stack.place.team, &claim).await;
    folder.is_ok_and(|folder: PathBuf| folder.join("work/tree/begun").exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_builder_loses_its_slot_and_not_its_work() {
    if needs_process_kubelet("it kills a container") {
        return;
    }
    let command = "if [ ! -e begun ]; then touch begun; sleep 100; fi; \
                   echo begin $(date +%s%N); sleep 1; echo end $(date +%s%N)";
    let (team, roots) = builders(command, 2).await;
    let mut killed: Vec<&String> = Vec::new();
    for _ in 0..2 {
        let holder = team
            .until("somebody to build", || async {
                for root in roots.iter().filter(|root| !killed.contains(root)) {
                    if begun(&team, root).await {
                        return Some(root);
                    }
                }
                None
            })
            .await;
        let mut begun_now = 0;
        for root in &roots {
            begun_now += usize::from(begun(&team, root).await);
        }
        assert_eq!(begun_now, killed.len() + 1, "one at a time");
        let pod = pod_name(&team.thread(holder).await.name_any(), "coder");
        team.kubelet().kill(&team.stack.place.team, &pod, "agent", Signal::SIGKILL).unwrap();
        killed.push(holder);
    }
    for root in &roots {
        team.message(root, "Built.").await;
    }
    let (times, _) = times(&team);
    assert_eq!(times.len(), 2, "{times:?}");
    assert!(never_at_once(&times), "{times:?}");
    team.stop().await;
}
