//! A Repo's slots, through the API alone.

use codebutler_crds::{Repo, Thread, names};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::world::{World, create, eventually};

const TS: [&str; 3] = ["1767268700.000100", "1767268701.000100", "1767268702.000100"];

impl World {
    async fn conversation(&self, ts: &str) -> String {
        let name = names::thread_name("shop", &ts.parse().unwrap());
        let thread = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
            "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": ts}}});
        create::<Thread>(&self.admin, &self.place.team, thread).await;
        self.pm_of(&name, json!({"inbox": ts})).await;
        name
    }

    async fn pm_of(&self, thread: &str, fields: Value) {
        let patch = Patch::Merge(json!({"status": {"roles": {"pm": fields}}}));
        let params = PatchParams::default();
        self.api::<Thread>().patch_status(thread, &params, &patch).await.unwrap();
    }

    async fn admitted(&self, thread: &str, wanted: bool) {
        let api: Api<Thread> = self.api();
        eventually(&format!("{thread} is admitted: {wanted}"), || async {
            let status = api.get(thread).await.unwrap().status?;
            let pm = status.roles.get("pm")?;
            (pm.admitted == wanted && (!wanted || pm.pod_uid.is_some())).then_some(())
        })
        .await;
    }

    async fn position(&self, thread: &str, wanted: Option<u32>) {
        let api: Api<Thread> = self.api();
        eventually(&format!("{thread} is at {wanted:?}"), || async {
            let status = api.get(thread).await.unwrap().status?;
            let pod = status.roles.get("pm").is_some_and(|pm| pm.pod_uid.is_some());
            (status.queue_position == wanted && pod == wanted.is_none()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn threads_wait_their_turn_and_say_where_they_stand() {
    let world = World::start().await;
    world.create_repo().await;
    let one = Patch::Merge(json!({"spec": {"limits": {"concurrentThreads": 1}}}));
    world.api::<Repo>().patch("shop", &PatchParams::default(), &one).await.unwrap();
    world.repo_is_ready().await;
    let first = world.conversation(TS[0]).await;
    world.position(&first, None).await;
    let second = world.conversation(TS[1]).await;
    world.position(&second, Some(1)).await;
    let third = world.conversation(TS[2]).await;
    world.position(&third, Some(2)).await;
    world.condition::<Thread>(&third, "Queued", "True", "NoFreeSlot").await;
    world.condition::<Thread>(&third, "Reconciling", "True", "Queued").await;
    world.event(&second, "Queued").await;

    // The first one asks a person something: waiting holds no slot, though its pod lives on.
    let pod = world.api::<Pod>().get(&names::pod_name(&first, "pm")).await.unwrap();
    world.pod_is(&pod, "Running").await;
    world.pm_of(&first, json!({"done": TS[0], "state": "Waiting"})).await;
    world.position(&second, None).await;
    world.event(&second, "Admitted").await;
    world.position(&third, Some(1)).await;

    // The second one is deleted while it runs.
    world.api::<Thread>().delete(&second, &kube::api::DeleteParams::default()).await.unwrap();
    world.position(&third, None).await;
}

#[tokio::test]
async fn a_role_that_is_awake_asks_before_it_runs_again() {
    let world = World::start().await;
    world.create_repo().await;
    let one = Patch::Merge(json!({"spec": {"limits": {"concurrentRuns": 1}}}));
    world.api::<Repo>().patch("shop", &PatchParams::default(), &one).await.unwrap();
    world.repo_is_ready().await;
    let first = world.conversation(TS[0]).await;
    world.admitted(&first, true).await;
    let pod = world.api::<Pod>().get(&names::pod_name(&first, "pm")).await.unwrap();
    world.pod_is(&pod, "Running").await;
    world.pm_of(&first, json!({"done": TS[0], "state": "Waiting"})).await;
    world.admitted(&first, false).await;

    let second = world.conversation(TS[1]).await;
    world.admitted(&second, true).await;
    // The answer comes while the only slot is taken: its pod is there, and waits.
    world.pm_of(&first, json!({"inbox": TS[2]})).await;
    world.condition::<Thread>(&first, "Queued", "True", "NoFreeSlot").await;
    world.event(&first, "Queued").await;
    world.admitted(&first, false).await;
    world.pm_of(&second, json!({"done": TS[1], "state": "Idle"})).await;
    world.admitted(&first, true).await;
    world.admitted(&second, false).await;
    let same = world.api::<Pod>().get(&pod.name_any()).await.unwrap();
    assert_eq!(same.metadata.uid, pod.metadata.uid);
}

#[tokio::test]
async fn who_takes_over_looks_at_no_closed_thread_that_holds_nothing() {
    looks_at_what_is_open(World::idle().await).await;
}

#[tokio::test]
async fn who_takes_over_where_nothing_can_be_selected_looks_at_the_same() {
    let world = World::without_definitions().await;
    world.define().await;
    // Kubernetes 1.30 keeps nothing of this.
    let definitions = Api::<CustomResourceDefinition>::all(world.admin.clone());
    let mut threads = definitions.get("threads.codebutler.dev").await.unwrap();
    for version in &mut threads.spec.versions {
        version.selectable_fields = None;
    }
    let name = threads.name_any();
    definitions.replace(&name, &PostParams::default(), &threads).await.unwrap();
    let select = ListParams::default().fields("spec.state=Active");
    eventually("nothing can be selected", || async {
        world.api::<Thread>().list(&select).await.err()
    })
    .await;
    looks_at_what_is_open(world).await;
}

async fn looks_at_what_is_open(mut world: World) {
    world.create_repo().await;
    let [open, closed, holding] =
        TS.map(|ts| (ts, names::thread_name("shop", &ts.parse().unwrap())));
    for (ts, name) in [&open, &closed, &holding] {
        world.conversation(ts).await;
        if *name != open.1 {
            let patch = Patch::Merge(json!({"spec": {"state": "Closed"}}));
            world.api::<Thread>().patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
    }
    world.pm_of(&holding.1, json!({"admitted": true})).await;
    world.start_controller();
    for (name, term) in [(&holding.1, 1), (&open.1, 1), (&closed.1, 0)] {
        let status = eventually(&format!("{name} is looked at"), || async {
            let status = world.api::<Thread>().get(name).await.unwrap().status?;
            (!status.conditions.is_empty()).then_some(status)
        })
        .await;
        assert_eq!(status.term, term, "{name}");
    }
}
