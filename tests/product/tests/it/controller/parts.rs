//! Threads that are parts of each other, and what of a Repo stays while it has Threads.

use codebutler_crds::{Repo, Thread};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::world::{MAIL, THREAD, World, create, eventually};

impl World {
    fn part(name: &str, repo: &str, parent: &str) -> Value {
        json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
            "spec": {"repo": repo, "parent": parent, "item": "3",
                     "slack": {"channel": "C0TEAM", "ts": MAIL[1]}}})
    }

    async fn pods_of(&self, thread: &str) -> usize {
        let of = ListParams::default().labels(&format!("codebutler.dev/thread={thread}"));
        self.api::<Pod>().list(&of).await.unwrap().items.len()
    }

    async fn mail_for(&self, thread: &str) {
        let mark = Patch::Merge(json!({"status": {"roles": {"pm": {"inbox": MAIL[1]}}}}));
        let params = PatchParams::default();
        self.api::<Thread>().patch_status(thread, &params, &mark).await.unwrap();
    }
}

#[tokio::test]
async fn a_part_waits_for_its_parent_and_outlives_it() {
    let world = World::start().await;
    world.create_repo().await;
    create::<Thread>(&world.admin, &world.place.team, World::part("item-3", "shop", THREAD)).await;
    world.mail_for("item-3").await;
    let message = world.condition::<Thread>("item-3", "Stalled", "True", "ParentNotFound").await;
    assert!(message.contains(&format!("spec.parent: there is no Thread `{THREAD}`")), "{message}");
    world.event("item-3", "ParentNotFound").await;
    assert_eq!(world.pods_of("item-3").await, 0);

    world.create_thread().await;
    eventually("the part starts", || async { (world.pods_of("item-3").await == 1).then_some(()) })
        .await;
    world.condition::<Thread>("item-3", "Reconciling", "True", "PodStarting").await;
    let begun = Patch::Merge(json!({"status": {"roles": {"pm": {"state": "Running"}}}}));
    let threads = world.api::<Thread>();
    threads.patch_status("item-3", &PatchParams::default(), &begun).await.unwrap();

    threads.delete(THREAD, &DeleteParams::default()).await.unwrap();
    eventually("the parent is gone", || async {
        threads.get_opt(THREAD).await.unwrap().is_none().then_some(())
    })
    .await;
    // Looked at once more, it goes on.
    let (pods, name) = (world.api::<Pod>(), codebutler_crds::names::pod_name("item-3", "pm"));
    let before = pods.get(&name).await.unwrap().metadata.uid;
    pods.delete(&name, &DeleteParams::default()).await.unwrap();
    eventually("another pod of the part", || async {
        let pod = pods.get_opt(&name).await.unwrap()?;
        (pod.metadata.uid != before && pod.metadata.deletion_timestamp.is_none()).then_some(())
    })
    .await;
    world.condition::<Thread>("item-3", "Ready", "False", "PodStarting").await;
}

#[tokio::test]
async fn a_part_belongs_to_the_repo_of_its_parent_and_never_to_itself() {
    let world = World::start().await;
    world.create_repo().await;
    world.create_thread().await;
    let threads = world.api::<Thread>();
    let own: Thread = serde_json::from_value(World::part("own", "shop", "own")).unwrap();
    let refused = threads.create(&PostParams::default(), &own).await.unwrap_err().to_string();
    assert!(refused.contains("a Thread is not a part of itself"), "{refused}");

    let elsewhere = World::part("elsewhere", "shop", "other");
    create::<Thread>(&world.admin, &world.place.team, World::part("other", "blog", THREAD)).await;
    create::<Thread>(&world.admin, &world.place.team, elsewhere).await;
    world.condition::<Thread>("elsewhere", "Stalled", "True", "ParentElsewhere").await;
    create::<Thread>(&world.admin, &world.place.team, World::part("round", "shop", "about")).await;
    create::<Thread>(&world.admin, &world.place.team, World::part("about", "shop", "round")).await;
    world.condition::<Thread>("round", "Stalled", "True", "ParentTooDeep").await;
}

#[tokio::test]
async fn a_repo_stays_where_it_is_while_threads_are_open() {
    let world = World::start().await;
    world.create_repo().await;
    world.repo_is_ready().await;
    let repos = world.api::<Repo>();
    let moves = [
        json!({"spec": {"git": {"url": "https://git.example/acme/store"}}}),
        json!({"spec": {"slack": {"channel": "C0STORE"}}}),
    ];
    world.create_thread().await;
    eventually("the Thread is counted", || async {
        let status = repos.get("shop").await.unwrap().status?;
        (status.threads.open == 1).then_some(())
    })
    .await;
    for patch in &moves {
        let answer = repos.patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await;
        let refused = answer.unwrap_err().to_string();
        assert!(refused.contains("close or delete them first"), "{refused}");
    }
    world.close_thread().await;
    eventually("no Thread is open", || async {
        let status = repos.get("shop").await.unwrap().status?;
        (status.threads.open == 0).then_some(())
    })
    .await;
    for patch in &moves {
        repos.patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}
