//! Two gateways as processes of their own: one serves agents and tells people, and the other one
//! follows it.

use std::time::{Duration, Instant};

use codebutler_crds::NanoUsd;
use codebutler_crds::spend::ThreadBudget;
use codebutler_testbed::models::ScriptStep;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::crash::Holder;
use super::{World, eventually};

pub(super) const PODS: [&str; 2] = ["codebutler-gateway-a", "codebutler-gateway-b"];
/// Seconds that the other one waits for a holder that is not heard of.
pub(super) const LEASE: u32 = 6;

impl World {
    /// Pods to which the Service of agents leads.
    async fn marked(&self) -> Vec<String> {
        let slices = self.cluster.api::<EndpointSlice>(self.cluster.system());
        let service = ListParams::default().labels("kubernetes.io/service-name=codebutler-gateway");
        let slices = slices.list(&service).await.unwrap();
        let ends = slices.iter().flat_map(|slice| &slice.endpoints);
        ends.filter_map(|end| end.target_ref.as_ref()?.name.clone()).collect()
    }

    pub(super) async fn marks_only(&self, pod: &str) {
        eventually(&format!("{pod} alone is marked"), || async { self.marked().await == [pod] })
            .await;
    }

    /// Sets the condition by which the controller says that an image can't be pulled.
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
    let world = World::start(vec![ScriptStep::say("one").costing(10, 10, "0.3")]).await;
    let mut first = Holder::spawn(&world, PODS[0], None, LEASE).await;
    assert!(first.serves().await, "{}", world.log());
    world.marks_only(PODS[0]).await;
    let mut second = Holder::spawn(&world, PODS[1], None, LEASE).await;
    // Led elsewhere by hand, agents are led back.
    let elsewhere = json!({"endpoints": [{"addresses": ["10.9.9.9"]}]});
    world
        .cluster
        .patch::<EndpointSlice>(world.cluster.system(), "codebutler-gateway", &elsewhere)
        .await;
    world.marks_only(PODS[0]).await;
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
    // Trouble that was told is not told again, and new trouble is.
    world.says_trouble("debain:13").await;
    eventually("the thread is told again", || async { world.told("debain:13") == 1 }).await;
    assert_eq!(world.told("debain:12"), 1);

    // Told to stop, it lets go, and nobody has to wait.
    let mut third = Holder::spawn(&world, PODS[0], None, 20).await;
    eventually("the third one hears Slack", || async { is_candidate(&third).await }).await;
    world.models.hold();
    let (answered, ()) = tokio::join!(second.ask(&world), async {
        world.models.held().await;
        second.tell_to_stop();
        eventually("nobody is sent to it", || async {
            !world.marked().await.iter().any(|pod| pod == PODS[1])
        })
        .await;
        world.models.release();
    });
    assert_eq!(answered, Some(200), "what is under way is cut: {}", world.log());
    assert!(second.stop().await, "{}", world.log());
    assert!(third.serves().await, "{}", world.log());
    world.marks_only(PODS[0]).await;

    assert!(third.stop().await, "{}", world.log());
}

/// OpenShift's API server lets nobody lead a Service to pods who has no right of its own for it.
#[tokio::test(flavor = "multi_thread")]
async fn agents_are_led_to_the_gateway_on_openshift() {
    let world = World::start(vec![]).await;
    if !world.cluster.is_embedded() {
        return;
    }
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let group = "security.openshift.io";
    world
        .cluster
        .apply(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("securitycontextconstraints.{group}")},
            "spec": {
                "group": group, "scope": "Cluster",
                "names": {"kind": "SecurityContextConstraints", "plural": "securitycontextconstraints",
                          "singular": "securitycontextconstraints", "listKind": "SecurityContextConstraintsList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        }))
        .await;
    let mut holder = Holder::spawn(&world, PODS[0], None, LEASE).await;
    assert!(holder.serves().await, "{}", world.log());
    world.marks_only(PODS[0]).await;
    assert!(holder.stop().await, "{}", world.log());
}

impl World {
    async fn lease_is(&self, spec: serde_json::Value) {
        let leases = self.cluster.api::<Lease>(self.cluster.system());
        let patch = Patch::Merge(json!({"spec": spec}));
        leases.patch("codebutler-gateway", &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) async fn granted(&self) -> ThreadBudget {
        *self.thread().await.status.and_then(|status| status.budget).unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_lease_writes_nothing_more_and_may_have_it_again() {
    let world = World::start(vec![ScriptStep::say("one").costing(10, 10, "0.3")]).await;
    let mut holder = Holder::spawn(&world, PODS[0], None, LEASE).await;
    assert!(holder.serves().await, "{}", world.log());
    world.models.hold();
    let (answered, ()) = tokio::join!(holder.ask(&world), async {
        world.models.held().await;
        world.lease_is(json!({"holderIdentity": "somebody", "leaseDurationSeconds": 3600})).await;
        eventually("nobody is served", || async { !holder.is_open().await }).await;
        eventually("nobody is led there", || async { world.marked().await.is_empty() }).await;
        world.models.release();
    });
    // With its connection, or just before it.
    assert!(matches!(answered, None | Some(503)), "what is under way is cut: {answered:?}");
    let left = world.granted().await;
    assert_ne!(left.granted, NanoUsd::ZERO, "the next holder judges what it was granted");
    assert!(holder.child.try_wait().unwrap().is_none(), "it has ended: {}", world.log());

    world.lease_is(json!({"holderIdentity": null})).await;
    assert!(holder.serves().await, "{}", world.log());
    world.marks_only(PODS[0]).await;
    eventually("it trusts nothing of its earlier term", || async {
        let found = world.granted().await;
        (found.granted, found.flagged) == (NanoUsd::ZERO, left.granted)
    })
    .await;
    assert_eq!(holder.ask(&world).await, Some(200), "{}", world.log());
    assert!(holder.stop().await, "{}", world.log());
}

/// True if its caches are synced: it campaigns.
pub(super) async fn is_candidate(holder: &Holder) -> bool {
    let url = format!("http://{}:8080/readyz", holder.address.ip());
    reqwest::get(url).await.is_ok_and(|answer| answer.status().is_success())
}
