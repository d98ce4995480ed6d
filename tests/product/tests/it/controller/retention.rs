//! Retention: the remains of Threads that were closed long ago.

use codebutler_crds::{Repo, Thread};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::world::{World, create, eventually};

async fn closed(world: &World, name: &str, at: &str) {
    let thread = json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
        "spec": {"repo": "shop", "prompt": "p", "requestedBy": "U0ANA", "state": "Closed"}});
    create::<Thread>(&world.admin, &world.place.team, thread).await;
    let condition = json!({"type": "Ready", "status": "True", "reason": "Closed",
        "message": "closed; pods and volume are removed", "lastTransitionTime": at});
    let absent = json!({"type": "WorktreeReady", "status": "False", "reason": "Absent",
        "message": "there is no volume", "lastTransitionTime": at});
    let status = json!({"status": {
        "cost": "1.25", "phase": "closed", "conditions": [condition, absent],
        "plan": {"ts": "1767268700.000100", "role": "pm", "hash": "aa", "approvedBy": "U0BEN"},
        "pullRequest": {"number": 7, "url": "https://git.example/acme/shop/pull/7", "mergeCommit": "abc"},
    }});
    let threads: Api<Thread> = world.api();
    threads.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test]
async fn an_old_closed_thread_leaves_one_line() {
    let mut world = World::idle().await;
    world.create_repo().await;
    closed(&world, "long-ago", "2020-01-01T00:00:00Z").await;
    closed(&world, "today", &jiff::Timestamp::now().to_string()).await;
    world.start_controller();
    let (threads, repos): (Api<Thread>, Api<Repo>) = (world.api(), world.api());
    eventually("the old one to go", || async {
        threads.get_opt("long-ago").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(threads.get("today").await.unwrap().name_any(), "today");
    let history = repos.get("shop").await.unwrap().status.unwrap().history;
    let [line] = &history[..] else { panic!("{history:?}") };
    assert_eq!((line.name.as_str(), line.requested_by.as_deref()), ("long-ago", Some("U0ANA")));
    assert_eq!(line.plan_approved_by.as_deref(), Some("U0BEN"));
    assert_eq!(line.pull_request.as_deref(), Some("https://git.example/acme/shop/pull/7"));
    assert_eq!(
        (line.merge_commit.as_deref(), line.cost),
        (Some("abc"), Some("1.25".parse().unwrap()))
    );
    world.stop_controller().await;
}

#[tokio::test]
async fn an_old_closed_thread_whose_repo_is_gone_goes_too() {
    let mut world = World::idle().await;
    closed(&world, "long-ago", "2020-01-01T00:00:00Z").await;
    closed(&world, "today", &jiff::Timestamp::now().to_string()).await;
    world.start_controller();
    let threads: Api<Thread> = world.api();
    eventually("the old one to go", || async {
        threads.get_opt("long-ago").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(threads.get("today").await.unwrap().name_any(), "today");
    world.stop_controller().await;
}
