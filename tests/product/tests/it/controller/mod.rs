//! The controller under its own account and rights, against an API server.

mod availability;
mod definitions;
mod lifecycle;
mod parts;
mod prompts;
mod retention;
mod seats;
mod slots;
mod stranded;
mod upgrade;
pub(crate) mod world;

use codebutler_crds::{AgentRole, Repo, Thread, names};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use world::{MAIL, THREAD, World, create, eventually};

#[tokio::test]
async fn a_repo_gets_what_its_pods_share() {
    let world = World::start().await;
    world.create_repo().await;
    world.repo_is_ready().await;
    let account = world.api::<ServiceAccount>().get("codebutler-shop").await.unwrap();
    assert_eq!(account.automount_service_account_token, Some(false));
    let policy = world.api::<NetworkPolicy>().get("codebutler-shop").await.unwrap();
    assert_eq!(policy.owner_references()[0].kind, "Repo");
    let authority = world.api::<ConfigMap>().get(names::CA_CONFIG_MAP).await.unwrap();
    assert_eq!(authority.data.unwrap()["ca.crt"], "PEM");

    // A resource that somebody takes away comes back.
    let gone = DeleteParams::default();
    world.api::<NetworkPolicy>().delete("codebutler-shop", &gone).await.unwrap();
    let back = || async { world.api::<NetworkPolicy>().get_opt("codebutler-shop").await.unwrap() };
    eventually("the policy is back", || async { back().await.filter(|b| b.uid() != policy.uid()) })
        .await;
}

#[tokio::test]
async fn a_repo_is_ready_when_all_was_asked_for_what_it_is_now() {
    let world = World::start().await;
    world.create_repo().await;
    let message = world.condition::<Repo>("shop", "Reconciling", "True", "Checking").await;
    assert!(message.contains("Slack, Git, the model API"), "{message}");
    world.condition::<Repo>("shop", "GatewayServing", "True", "Serving").await;
    world.repo_is_ready().await;

    // Conditions that were reported before the Repo changed do not count.
    let patch = Patch::Merge(json!({"spec": {"git": {"branch": "trunk"}}}));
    world.api::<Repo>().patch("shop", &PatchParams::default(), &patch).await.unwrap();
    world.condition::<Repo>("shop", "Ready", "False", "Checking").await;
    world.gateway_says("SlackReachable", "True", "").await;
    world.gateway_says("ModelReachable", "Unknown", "only a call can tell").await;
    world.gateway_says("GitReachable", "False", "there is no branch trunk").await;
    let message = world.condition::<Repo>("shop", "Ready", "False", "GitNotReachable").await;
    assert_eq!(message, "there is no branch trunk");
    world.gateway_says("GitReachable", "True", "").await;
    world.condition::<Repo>("shop", "Ready", "True", "Ready").await;

    world.gateway_says("EgressEnforced", "False", "a pod got past the gateway").await;
    let message = world.condition::<Repo>("shop", "Ready", "False", "EgressNotEnforced").await;
    assert!(message.contains("spec.egress.requireEnforcement"), "{message}");
    let patch = Patch::Merge(json!({"spec": {"egress": {"requireEnforcement": false}}}));
    world.api::<Repo>().patch("shop", &PatchParams::default(), &patch).await.unwrap();
    world.repo_is_ready().await;
}

#[tokio::test]
async fn without_a_serving_gateway_neither_repo_nor_thread_looks_well() {
    let world = World::start().await;
    world.create_repo().await;
    world.repo_is_ready().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pm = world.registered_pod("pm", None).await;
    world.pod_is(&pm, "Running").await;
    world.mark("pm", json!({"state": "Running"})).await;
    world.condition::<Thread>(THREAD, "Ready", "True", "Awake").await;

    let leases = Api::<Lease>::namespaced(world.admin.clone(), &world.place.system);
    let given_up = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
    leases.patch("codebutler-gateway", &PatchParams::default(), &given_up).await.unwrap();
    let message = world.condition::<Repo>("shop", "Ready", "False", "GatewayAway").await;
    assert!(message.contains("Deployment `codebutler-gateway`"), "{message}");
    world.condition::<Repo>("shop", "GatewayServing", "False", "GatewayAway").await;
    world.condition::<Thread>(THREAD, "Ready", "False", "GatewayAway").await;

    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "gateway-1"}}));
    leases.patch("codebutler-gateway", &PatchParams::default(), &taken).await.unwrap();
    world.condition::<Repo>("shop", "Ready", "True", "Ready").await;
    world.condition::<Thread>(THREAD, "Ready", "True", "Awake").await;
}

#[tokio::test]
async fn mail_starts_pods_on_one_volume_sleep_ends_them_and_mail_wakes_them() {
    let world = World::start().await;
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pm = world.registered_pod("pm", None).await;
    let claim = world.api::<PersistentVolumeClaim>().get(THREAD).await.unwrap();
    assert_eq!(claim.owner_references()[0].kind, "Thread");
    assert_eq!(pm.owner_references()[0].name, THREAD);
    world.event(THREAD, "VolumeCreated").await;
    world.event(THREAD, "PodStarted").await;

    world.pod_is(&pm, "Running").await;
    world.mark("pm", json!({"state": "Running"})).await;
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    let coder = world.registered_pod("coder", None).await;
    world.pod_is(&coder, "Running").await;
    let active = || async { world.thread().await.status?.active_role };
    eventually("pm is at work", || async { active().await.filter(|role| role == "pm") }).await;
    world.condition::<Thread>(THREAD, "Ready", "True", "Awake").await;

    world.mark("pm", json!({"state": "Idle", "done": MAIL[0]})).await;
    world.pod_is(&pm, "Succeeded").await;
    eventually("the pod is gone and forgotten", || async {
        let forgotten = world.thread().await.status?.roles["pm"].pod_uid.is_none();
        let gone = world.api::<Pod>().get_opt(&pm.name_any()).await.unwrap().is_none();
        (gone && forgotten).then_some(())
    })
    .await;
    world.mark("pm", json!({"inbox": MAIL[2]})).await;
    let woken = world.registered_pod("pm", Some(&pm)).await;
    assert_ne!(woken.uid(), pm.uid());
    world.event(THREAD, "Woken").await;
    assert_eq!(world.registered_pod("coder", None).await.uid(), coder.uid(), "left alone");
}

#[tokio::test]
async fn a_failed_pod_is_counted_and_replaced() {
    let world = World::start().await;
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0], "usage": {"cost": "0.25"}})).await;
    let first = world.registered_pod("pm", None).await;
    world.pod_is(&first, "Failed").await;
    let second = world.registered_pod("pm", Some(&first)).await;
    world.event(THREAD, "PodFailed").await;
    let role = world.thread().await.status.unwrap().roles["pm"].clone();
    assert_eq!(role.failures, 1);
    assert_eq!(role.usage.cost.to_string(), "0.25", "the gateway's part is as it was");

    world.pod_is(&second, "Running").await;
    world.mark("pm", json!({"done": MAIL[0], "state": "Idle"})).await;
    let forgiven =
        || async { (world.thread().await.status?.roles["pm"].failures == 0).then_some(()) };
    eventually("an ended run forgives", forgiven).await;
}

#[tokio::test]
async fn a_closed_thread_leaves_nothing() {
    let world = World::start().await;
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pod = world.registered_pod("pm", None).await;
    world.pod_is(&pod, "Running").await;
    world.close_thread().await;
    eventually("no pod and no volume is left", || async {
        world.release_claims().await;
        let all = ListParams::default();
        let pods = world.api::<Pod>().list(&all).await.unwrap();
        let claims = world.api::<PersistentVolumeClaim>().list(&all).await.unwrap();
        (pods.items.is_empty() && claims.items.is_empty()).then_some(())
    })
    .await;
    world.condition::<Thread>(THREAD, "Ready", "True", "Closed").await;
    assert_eq!(world.thread().await.status.unwrap().phase.as_deref(), Some("closed"));
    world.event(THREAD, "Closed").await;
}

#[tokio::test]
async fn somebody_elses_volume_is_not_touched() {
    let world = World::start().await;
    world.create_repo().await;
    let claim = json!({"metadata": {"name": THREAD}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    create::<PersistentVolumeClaim>(&world.admin, &world.place.team, claim).await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let message = world.condition::<Thread>(THREAD, "Stalled", "True", "NameTaken").await;
    assert!(message.contains("PersistentVolumeClaim"), "{message}");
    world.event(THREAD, "NameTaken").await;
    assert!(world.api::<Pod>().list(&ListParams::default()).await.unwrap().items.is_empty());

    world.close_thread().await;
    world.condition::<Thread>(THREAD, "Ready", "True", "Closed").await;
    assert!(world.api::<PersistentVolumeClaim>().get_opt(THREAD).await.unwrap().is_some());
}

#[tokio::test]
async fn a_thread_waits_for_its_repo() {
    let world = World::start().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let message = world.condition::<Thread>(THREAD, "Stalled", "True", "RepoNotFound").await;
    assert!(message.contains("spec.repo"), "{message}");
    world.event(THREAD, "RepoNotFound").await;
    world.create_repo().await;
    world.registered_pod("pm", None).await;
}

#[tokio::test]
async fn a_restart_goes_on_where_it_was() {
    let mut world = World::start().await;
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pm = world.registered_pod("pm", None).await;
    world.kill_controller();

    // As if it had died before it wrote down whose pod that is; meanwhile more mail came.
    world.mark("pm", json!({"podUID": null})).await;
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    world.start_controller();
    assert_eq!(world.registered_pod("pm", None).await.uid(), pm.uid(), "found, not made again");
    let coder = world.registered_pod("coder", None).await;

    // While it is away, one pod ends and the Thread closes.
    world.stop_controller().await;
    world.pod_is(&coder, "Succeeded").await;
    world.close_thread().await;
    world.start_controller();
    eventually("neither pod nor volume is left", || async {
        world.release_claims().await;
        let pods = world.api::<Pod>().list(&ListParams::default()).await.unwrap();
        let claims = world.api::<PersistentVolumeClaim>();
        let claims = claims.list(&ListParams::default()).await.unwrap();
        (pods.items.is_empty() && claims.items.is_empty()).then_some(())
    })
    .await;
    world.condition::<Thread>(THREAD, "Ready", "True", "Closed").await;
}

#[tokio::test]
async fn a_role_that_is_missing_is_told_and_found_when_it_comes() {
    let world = World::start().await;
    let roles = Api::<AgentRole>::namespaced(world.admin.clone(), &world.place.system);
    let coder = roles.get("coder").await.unwrap();
    roles.delete("coder", &DeleteParams::default()).await.unwrap();
    world.create_repo().await;
    let message = world.condition::<Repo>("shop", "Stalled", "True", "RoleNotFound").await;
    assert!(message.contains("spec.roles[1]"), "{message}");
    world.event("shop", "RoleNotFound").await;
    let again = json!({"metadata": {"name": "coder"}, "spec": coder.spec,
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole"});
    create::<AgentRole>(&world.admin, &world.place.system, again).await;
    world.repo_is_ready().await;
}

#[tokio::test]
async fn without_definitions_it_waits_for_them() {
    let mut world = World::without_definitions().await;
    world.start_controller();
    world.define().await;
    world.create_repo().await;
    world.repo_is_ready().await;
    world.stop_controller().await;
}
