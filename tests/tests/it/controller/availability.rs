//! Two replicas, of which one acts.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::world::{MAIL, SYSTEM, World, eventually};

impl World {
    async fn holder(&self) -> Option<String> {
        let leases = Api::<Lease>::namespaced(self.admin.clone(), SYSTEM);
        leases.get_opt("codebutler-controller").await.unwrap()?.spec?.holder_identity
    }

    async fn held_by(&self, identity: &str) {
        let held = || async { self.holder().await.filter(|holder| holder == identity) };
        eventually(&format!("{identity} holds the lease"), held).await;
    }
}

#[tokio::test]
async fn a_killed_replica_is_followed_by_the_other_one() {
    let world = World::without_definitions().await;
    world.define().await;
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
    let world = World::without_definitions().await;
    world.define().await;
    let (_stop, running) = world.replica("a");
    world.held_by("a").await;
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    let leases = Api::<Lease>::namespaced(world.admin.clone(), SYSTEM);
    leases.patch("codebutler-controller", &PatchParams::default(), &taken).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("another replica"), "{why}");
}
