//! Two replicas, of which one acts.

use std::time::{Duration, Instant};

use codebutler_crds::{Repo, Thread};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::world::{MAIL, World, create, eventually};

impl World {
    async fn holder(&self) -> Option<String> {
        let leases = Api::<Lease>::namespaced(self.admin.clone(), &self.place.system);
        leases.get_opt("codebutler-controller").await.unwrap()?.spec?.holder_identity
    }

    async fn held_by(&self, identity: &str) {
        let held = || async { self.holder().await.filter(|holder| holder == identity) };
        eventually(&format!("{identity} holds the lease"), held).await;
    }
}

#[tokio::test]
async fn a_killed_replica_is_followed_by_the_other_one() {
    let world = World::idle().await;
    let first = world.replica("a");
    world.held_by("a").await;
    let second = world.replica("b");
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pm = world.registered_pod("pm", None).await;

    first.1.abort();
    // What comes in while nobody acts waits for the other one.
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    let killed = Instant::now();
    world.registered_pod("coder", None).await;
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    assert_eq!(world.holder().await.as_deref(), Some("b"));
    assert_eq!(world.registered_pod("pm", None).await.metadata.uid, pm.metadata.uid);

    // Told to stop, it says that it is gone, and nobody has to wait.
    second.0.cancel();
    second.1.await.unwrap().unwrap();
    assert_eq!(world.holder().await, None);
}

#[tokio::test]
async fn who_loses_the_lease_ends() {
    let world = World::idle().await;
    let (_stop, running) = world.replica("a");
    world.held_by("a").await;
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    let leases = Api::<Lease>::namespaced(world.admin.clone(), &world.place.system);
    leases.patch("codebutler-controller", &PatchParams::default(), &taken).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("another replica"), "{why}");
}

#[tokio::test]
async fn a_grant_of_a_replica_that_is_gone_comes_too_late() {
    let world = World::idle().await;
    let first = world.replica("a");
    world.held_by("a").await;
    world.create_repo().await;
    let one = Patch::Merge(json!({"spec": {"limits": {"concurrentThreads": 1}}}));
    let params = PatchParams::default();
    world.api::<Repo>().patch("shop", &params, &one).await.unwrap();
    world.condition::<Repo>("shop", "Ready", "True", "Ready").await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    world.registered_pod("pm", None).await;
    let waits = json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "waits"},
        "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": MAIL[1]}}});
    create::<Thread>(&world.admin, &world.place.team, waits).await;
    let threads = world.api::<Thread>();
    let mail = Patch::Merge(json!({"status": {"roles": {"pm": {"inbox": MAIL[1]}}}}));
    threads.patch_status("waits", &params, &mail).await.unwrap();
    world.condition::<Thread>("waits", "Queued", "True", "NoFreeSlot").await;
    world.condition::<Thread>("waits", "Reconciling", "True", "Queued").await;

    // It is as the first one saw it last; what that one still has under way is for this version.
    let seen = threads.get("waits").await.unwrap();
    first.1.abort();
    let _second = world.replica("b");
    world.held_by("b").await;
    let term = seen.status.as_ref().unwrap().term;
    eventually("it is taken over", || async {
        let now = threads.get("waits").await.unwrap().status?;
        (now.term > term).then_some(())
    })
    .await;
    let grant = Patch::Merge(json!({
        "metadata": {"resourceVersion": seen.resource_version()},
        "status": {"roles": {"pm": {"admitted": true}}}}));
    let late = threads.patch_status("waits", &params, &grant).await.unwrap_err();
    assert!(matches!(late, kube::Error::Api(status) if status.is_conflict()));
}
