//! Two gateways as processes of their own: one serves agents and tells people, and the other one
//! follows it.

use std::time::{Duration, Instant};

use codebutler_crds::names;
use codebutler_testbed::models::Step;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::crash::Holder;
use super::{World, eventually};

const PODS: [&str; 2] = ["codebutler-gateway-a", "codebutler-gateway-b"];
/// Seconds that the other one waits for a holder that is not heard of.
const LEASE: u32 = 6;

impl World {
    /// Pods that the Service of agents would find.
    async fn marked(&self) -> Vec<String> {
        let marked = ListParams::default().labels(&format!("{}=true", names::LABEL_HOLDER));
        let pods = self.cluster.api::<Pod>(self.cluster.system()).list(&marked).await.unwrap();
        pods.iter().map(kube::ResourceExt::name_any).collect()
    }

    async fn marks_only(&self, pod: &str) {
        eventually(&format!("{pod} alone is marked"), || async { self.marked().await == [pod] })
            .await;
    }

    /// As the controller says it: that an image can't be pulled.
    async fn says_trouble(&self, image: &str) {
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "ImageNotPulled",
            "message": format!("image `{image}` can't be pulled"),
            "lastTransitionTime": jiff::Timestamp::now() - jiff::SignedDuration::from_secs(30),
        });
        self.patch_thread(&json!({"status": {"conditions": [condition]}})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_serves_agents_and_the_other_one_follows_within_seconds() {
    let world = World::start(vec![Step::say("one").costing(10, 10, "0.3")]).await;
    for pod in PODS {
        world.cluster.pod(world.cluster.system(), pod, "codebutler-gateway").await;
    }
    let mut first = Holder::spawn(&world, PODS[0], None, LEASE).await;
    assert!(first.serves().await, "{}", world.log());
    world.marks_only(PODS[0]).await;
    let mut second = Holder::spawn(&world, PODS[1], None, LEASE).await;
    world.says_trouble("debain:12").await;
    eventually("the thread is told", || async { world.told("debain:12") == 1 }).await;
    assert_eq!(first.ask(&world).await, Some(200));
    assert!(!second.is_open().await, "a standby serves no agent");

    // Killed, it can't say goodbye.
    first.child.kill().await.unwrap();
    let killed = Instant::now();
    assert!(second.serves().await, "{}", world.log());
    world.marks_only(PODS[1]).await;
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
    assert_eq!(second.ask(&world).await, Some(200), "{}", world.log());
    // What was said is not said again, and what is new is.
    world.says_trouble("debain:13").await;
    eventually("the thread is told again", || async { world.told("debain:13") == 1 }).await;
    assert_eq!(world.told("debain:12"), 1);

    // Told to stop, it lets go, and nobody has to wait.
    let mut third = Holder::spawn(&world, PODS[0], None, 20).await;
    eventually("the third one hears Slack", || async { third_is_ready(&third).await }).await;
    assert!(second.stop().await, "{}", world.log());
    assert!(third.serves().await, "{}", world.log());
    world.marks_only(PODS[0]).await;

    // Who loses the lease ends.
    let leases = world.cluster.api::<Lease>(world.cluster.system());
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    leases.patch("codebutler-gateway", &PatchParams::default(), &taken).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_mins(4), third.child.wait()).await;
    assert!(!ended.expect("it goes on without the lease").unwrap().success());
}

/// Whether its caches are synced: it campaigns.
async fn third_is_ready(holder: &Holder) -> bool {
    let url = format!("http://{}:8080/readyz", holder.address.ip());
    reqwest::get(url).await.is_ok_and(|answer| answer.status().is_success())
}
