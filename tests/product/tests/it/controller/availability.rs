//! Two replicas, of which one acts.

use std::time::{Duration, Instant};

use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::world::{MAIL, Replica, World, create, eventually};

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
    // A message that comes in while nobody acts waits for the other one.
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
async fn who_loses_the_lease_stops_and_is_a_candidate_again() {
    let world = World::idle().await;
    let (_stop, running) = world.replica("a");
    world.held_by("a").await;
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pm = world.registered_pod("pm", None).await;
    let second = world.replica("b");
    let leases = Api::<Lease>::namespaced(world.admin.clone(), &world.place.system);
    let renewed = || async {
        let spec = leases.get("codebutler-controller").await.unwrap().spec?;
        Some((spec.holder_identity?, spec.lease_transitions?))
    };
    let before = renewed().await.unwrap().1;
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "b"}}));
    leases.patch("codebutler-controller", &PatchParams::default(), &taken).await.unwrap();
    // The other one acts, and the first one lives on beside it.
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    world.registered_pod("coder", None).await;
    world.held_by("b").await;
    assert!(!running.is_finished(), "who has lost the lease has ended");
    second.0.cancel();
    second.1.await.unwrap().unwrap();
    eventually("the first one has it again", || async {
        renewed().await.filter(|(holder, times)| holder == "a" && *times > before)
    })
    .await;
    world.close_thread().await;
    eventually("it acts again", || async {
        let gone = world.api::<Pod>().get_opt(&pm.name_any()).await.unwrap().is_none();
        gone.then_some(())
    })
    .await;
    assert!(!running.is_finished());
}

impl World {
    /// A replica that has given the Repo's only slot to [`THREAD`], while the Thread `waits` waits.
    async fn one_runs_and_one_waits(&self, first: Replica) -> Replica {
        self.held_by("a").await;
        self.create_repo().await;
        let one = Patch::Merge(json!({"spec": {"limits": {"concurrentThreads": 1}}}));
        let params = PatchParams::default();
        self.api::<Repo>().patch("shop", &params, &one).await.unwrap();
        self.repo_is_ready().await;
        self.create_thread().await;
        self.mark("pm", json!({"inbox": MAIL[0]})).await;
        self.registered_pod("pm", None).await;
        let waits = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "waits"},
            "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": MAIL[1]}}});
        create::<Thread>(&self.admin, &self.place.team, waits).await;
        let threads = self.api::<Thread>();
        let mail = Patch::Merge(json!({"status": {"roles": {"pm": {"inbox": MAIL[1]}}}}));
        threads.patch_status("waits", &params, &mail).await.unwrap();
        self.condition::<Thread>("waits", "Queued", "True", "NoFreeSlot").await;
        self.condition::<Thread>("waits", "Reconciling", "True", "Queued").await;
        first
    }

    /// The controller's rights by a binding in one namespace, or none there.
    async fn may_work_in(&self, namespace: &str, may: bool) {
        if may {
            let binding = json!({
                "metadata": {"name": "there"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                            "name": self.place.named("codebutler-controller")},
                "subjects": [{"kind": "ServiceAccount", "name": "codebutler-controller",
                              "namespace": self.place.system}]});
            create::<RoleBinding>(&self.admin, namespace, binding).await;
        } else {
            let bindings = Api::<RoleBinding>::namespaced(self.admin.clone(), namespace);
            bindings.delete("there", &DeleteParams::default()).await.unwrap();
        }
        // A real API server reads bindings from a cache.
        let threads = Api::<Thread>::namespaced(self.own_client(), namespace);
        eventually("the binding is in force", || async {
            (threads.list(&ListParams::default()).await.is_ok() == may).then_some(())
        })
        .await;
    }

    async fn term_of_waiting(&self) -> u32 {
        self.api::<Thread>().get("waits").await.unwrap().status.unwrap().term
    }
}

#[tokio::test]
async fn a_grant_of_a_replica_that_is_gone_comes_too_late() {
    let world = World::idle().await;
    let first = world.one_runs_and_one_waits(world.replica("a")).await;
    // It is as the first one saw it last; what that one still has under way is for this version.
    let threads = world.api::<Thread>();
    let seen = threads.get("waits").await.unwrap();
    first.1.abort();
    let _second = world.replica("b");
    world.held_by("b").await;
    let term = seen.status.as_ref().unwrap().term;
    eventually("it is taken over", || async {
        (world.term_of_waiting().await > term).then_some(())
    })
    .await;
    let grant = Patch::Merge(json!({
        "metadata": {"resourceVersion": seen.resource_version()},
        "status": {"roles": {"pm": {"admitted": true}}}}));
    let params = PatchParams::default();
    let late = threads.patch_status("waits", &params, &grant).await.unwrap_err();
    assert!(matches!(late, kube::Error::Api(status) if status.is_conflict()));
}

#[tokio::test]
async fn a_namespace_whose_rights_come_late_is_taken_over_before_anything_starts_there() {
    let world = World::idle().await;
    let everywhere = Api::<ClusterRoleBinding>::all(world.admin.clone());
    let name = world.place.named("codebutler-controller");
    everywhere.delete(&name, &DeleteParams::default()).await.unwrap();
    world.may_work_in(&world.place.system, true).await;
    world.may_work_in(&world.place.team, true).await;
    let first = world.one_runs_and_one_waits(world.limited_replica("a")).await;

    first.1.abort();
    world.may_work_in(&world.place.team, false).await;
    let term = world.term_of_waiting().await;
    let _second = world.limited_replica("b");
    world.held_by("b").await;
    // Work in other namespaces goes on.
    let roles = Api::<AgentRole>::namespaced(world.admin.clone(), &world.place.system);
    let params = PatchParams::default();
    let renamed = Patch::Merge(json!({"spec": {"display": {"name": "Planner"}}}));
    let generation = roles.patch("pm", &params, &renamed).await.unwrap().metadata.generation;
    eventually("the role is looked at", || async {
        let status = roles.get("pm").await.unwrap().status?;
        (status.observed_generation == generation).then_some(())
    })
    .await;
    assert_eq!(world.term_of_waiting().await, term);

    world.may_work_in(&world.place.team, true).await;
    eventually("it is taken over", || async {
        (world.term_of_waiting().await > term).then_some(())
    })
    .await;
    world.close_thread().await;
    eventually("the slot is handed on", || async {
        let status = world.api::<Thread>().get("waits").await.unwrap().status?;
        status.roles.get("pm")?.admitted.then_some(())
    })
    .await;
}
