//! The fate of a Thread when people delete or change what it lives on.

use std::path::Path;

use codebutler_crds::{AgentRole, Repo, Thread};
use codebutler_testbed::controllers::{ControllerManager, ControllerOptions};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Event as CoreEvent, LimitRange, Namespace, PersistentVolume, PersistentVolumeClaim, Pod,
    ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::world::{MAIL, THREAD, World, create, eventually};

impl World {
    /// Starts a controller manager that owns and empties, where the cluster has none.
    async fn manager(&self, dir: &Path) -> ControllerManager {
        let options = ControllerOptions { pv_dir: dir.to_owned(), root_ca: None };
        let served = self.place.watched(self.cluster());
        ControllerManager::start_in(self.admin.clone(), options, served).await.unwrap()
    }

    /// A Thread whose `pm` is in a run.
    async fn at_work(&self) -> Pod {
        self.create_repo().await;
        self.create_thread().await;
        self.mark("pm", json!({"inbox": MAIL[0]})).await;
        let pod = self.registered_pod("pm", None).await;
        self.pod_is(&pod, "Running").await;
        self.mark("pm", json!({"state": "Running"})).await;
        pod
    }

    /// Ends pods as the kubelet would: what is to go goes.
    pub(crate) async fn end_pods(&self) {
        let pods: Api<Pod> = self.api();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams::default().grace_period(0);
                let _ = pods.delete(&pod.name_any(), &now).await;
            }
        }
    }

    async fn no_pods(&self) {
        eventually("the pods are gone", || async {
            self.end_pods().await;
            let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
            pods.items.is_empty().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_deleted_repo_takes_its_pods_along_and_its_threads_wait_for_it() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let manager = world.manager(dir.path()).await;
    world.at_work().await;
    world.api::<Repo>().delete("shop", &DeleteParams::default()).await.unwrap();
    eventually("the Repo is gone", || async {
        world.api::<Repo>().get_opt("shop").await.unwrap().is_none().then_some(())
    })
    .await;
    world.no_pods().await;
    world.condition::<Thread>(THREAD, "Stalled", "True", "RepoNotFound").await;
    let claim = world.api::<PersistentVolumeClaim>().get(THREAD).await.unwrap();
    assert!(claim.metadata.deletion_timestamp.is_none(), "the work is kept");
    eventually("the role waits", || async {
        (!world.thread().await.status?.roles["pm"].admitted).then_some(())
    })
    .await;

    world.create_repo().await;
    let pod = world.registered_pod("pm", None).await;
    world.pod_is(&pod, "Running").await;
    // And a Thread that nobody can say farewell for goes at once too.
    world.api::<Thread>().delete(THREAD, &DeleteParams::default()).await.unwrap();
    eventually("the Thread is gone", || async {
        world.end_pods().await;
        world.api::<Thread>().get_opt(THREAD).await.unwrap().is_none().then_some(())
    })
    .await;
    manager.shutdown().await;
}

#[tokio::test]
async fn a_namespace_goes_with_everything_in_it() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let manager = world.manager(dir.path()).await;
    world.at_work().await;
    let namespaces: Api<Namespace> = Api::all(world.admin.clone());
    namespaces.delete(&world.place.team, &DeleteParams::default()).await.unwrap();
    eventually("the namespace is gone", || async {
        world.end_pods().await;
        world.release_claims().await;
        namespaces.get_opt(&world.place.team).await.unwrap().is_none().then_some(())
    })
    .await;
    manager.shutdown().await;
}

impl World {
    /// The Repo's worktrees get this class and size.
    async fn worktrees_are(&self, class: &str, size: &str) {
        let worktree = json!({"storageClassName": class, "size": size});
        let patch = Patch::Merge(json!({"spec": {"worktree": worktree}}));
        self.api::<Repo>().patch("shop", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns the size that the Thread's claim asks for.
    async fn claimed(&self) -> Option<String> {
        let claim = self.api::<PersistentVolumeClaim>().get_opt(THREAD).await.unwrap()?;
        Some(claim.spec?.resources?.requests?.get("storage")?.0.clone())
    }

    async fn is_claimed(&self, size: &str) {
        let asked = || async { self.claimed().await.filter(|now| now == size) };
        eventually(&format!("the claim asks for {size}"), asked).await;
    }

    async fn is_bound(&self) {
        eventually("the claim has its volume", || async {
            let claim = self.api::<PersistentVolumeClaim>().get_opt(THREAD).await.unwrap()?;
            claim.status?.phase.filter(|phase| phase == "Bound")
        })
        .await;
    }
}

#[tokio::test]
async fn a_worktree_grows_with_its_repo_and_what_somebody_gave_it_more_it_keeps() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let manager = world.manager(dir.path()).await;
    let class = manager.storage_class().to_owned();
    world.create_repo().await;
    world.worktrees_are(&class, "1Gi").await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    world.is_claimed("1Gi").await;
    world.is_bound().await;

    world.worktrees_are(&class, "2Gi").await;
    world.is_claimed("2Gi").await;
    world.event(THREAD, "VolumeExpanded").await;

    let more = json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}});
    let claims = world.api::<PersistentVolumeClaim>();
    claims.patch(THREAD, &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    world.registered_pod("coder", None).await;
    assert_eq!(world.claimed().await.as_deref(), Some("3Gi"));
    world.worktrees_are(&class, "4Gi").await;
    world.is_claimed("4Gi").await;
    manager.shutdown().await;
}

#[tokio::test]
async fn a_volume_that_can_t_grow_is_told_of_and_the_thread_works_on() {
    let world = World::start().await;
    let class = world.place.named("fixed");
    let fixed: StorageClass = serde_json::from_value(json!({
        "metadata": {"name": class}, "provisioner": "kubernetes.io/no-provisioner"}))
    .unwrap();
    let classes: Api<StorageClass> = Api::all(world.admin.clone());
    classes.create(&PostParams::default(), &fixed).await.unwrap();
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": {"name": class},
        "spec": {"storageClassName": class, "capacity": {"storage": "1Gi"},
                 "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/var/tmp"},
                 "claimRef": {"namespace": world.place.team, "name": THREAD}}}))
    .unwrap();
    let volumes: Api<PersistentVolume> = Api::all(world.admin.clone());
    volumes.create(&PostParams::default(), &volume).await.unwrap();
    world.create_repo().await;
    world.worktrees_are(&class, "1Gi").await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    world.is_claimed("1Gi").await;
    // As the volume controller, which a cluster may have itself.
    let (claims, params) = (world.api::<PersistentVolumeClaim>(), PatchParams::default());
    let named = json!({"spec": {"volumeName": class}});
    claims.patch(THREAD, &params, &Patch::Merge(named)).await.unwrap();
    let bound = json!({"status": {"phase": "Bound"}});
    claims.patch_status(THREAD, &params, &Patch::Merge(bound)).await.unwrap();
    world.is_bound().await;

    world.worktrees_are(&class, "2Gi").await;
    world.event(THREAD, "NotExpanded").await;
    world.condition::<Thread>(THREAD, "WorktreeReady", "True", "NotExpanded").await;
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    world.registered_pod("coder", None).await;
    assert_eq!(world.claimed().await.as_deref(), Some("1Gi"));
    let _ = volumes.delete(&class, &DeleteParams::default()).await;
    let _ = classes.delete(&class, &DeleteParams::default()).await;
}

#[tokio::test]
async fn what_somebody_changes_by_hand_is_put_in_order() {
    let world = World::start().await;
    let pod = world.at_work().await;
    let params = PatchParams::default();
    let account = json!({"automountServiceAccountToken": true});
    let accounts = world.api::<ServiceAccount>();
    accounts.patch("codebutler-shop", &params, &Patch::Merge(account)).await.unwrap();
    eventually("the account is as it was", || async {
        let account = accounts.get("codebutler-shop").await.unwrap();
        (account.automount_service_account_token == Some(false)).then_some(())
    })
    .await;
    let open = json!({"spec": {"egress": [{}], "ingress": [{}]}});
    let policies = world.api::<NetworkPolicy>();
    policies.patch("codebutler-shop", &params, &Patch::Merge(open)).await.unwrap();
    eventually("the policy is as it was", || async {
        let spec = policies.get("codebutler-shop").await.unwrap().spec?;
        let closed = spec.ingress.is_none_or(|rules| rules.is_empty());
        let gateway = spec.egress?.first()?.to.is_some();
        (closed && gateway).then_some(())
    })
    .await;
    accounts.delete("codebutler-shop", &DeleteParams::default()).await.unwrap();
    eventually("the account is back", || async {
        accounts.get_opt("codebutler-shop").await.unwrap().map(drop)
    })
    .await;

    // Another image for where its commands run: after the run, and not in the middle of it.
    let image = Patch::Strategic(json!({"spec": {"initContainers": [
        {"name": "toolbox", "image": "somebody/elses:1"}]}}));
    let pods: Api<Pod> = world.api();
    pods.patch(&pod.name_any(), &params, &image).await.unwrap();
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    world.registered_pod("coder", None).await;
    let same = pods.get(&pod.name_any()).await.unwrap();
    assert!(same.metadata.deletion_timestamp.is_none());
    world.mark("pm", json!({"done": MAIL[0], "state": "Idle"})).await;
    eventually("the changed pod is gone", || async {
        world.end_pods().await;
        pods.get_opt(&pod.name_any()).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn labels_that_somebody_takes_off_come_back() {
    let world = World::start().await;
    let pod = world.at_work().await;
    let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    let claims = world.api::<PersistentVolumeClaim>();
    claims.patch_status(THREAD, &PatchParams::default(), &bound).await.unwrap();
    world.condition::<Thread>(THREAD, "WorktreeReady", "True", "Bound").await;
    let params = PatchParams::default();
    let label = "codebutler.dev/thread";
    // Gone, it is not even watched any more; changed, it is somebody else's by its label.
    for value in [json!(null), json!("another")] {
        let bare = Patch::Merge(json!({"metadata": {"labels": {label: value}}}));
        let (pods, claims) = (world.api::<Pod>(), world.api::<PersistentVolumeClaim>());
        pods.patch(&pod.name_any(), &params, &bare).await.unwrap();
        claims.patch(THREAD, &params, &bare).await.unwrap();
        eventually("the labels are back", || async {
            let pod = pods.get(&pod.name_any()).await.unwrap();
            let claim = claims.get(THREAD).await.unwrap();
            let is_back = |labels: &std::collections::BTreeMap<String, String>| {
                labels.get(label).is_some_and(|thread| thread == THREAD)
            };
            (is_back(pod.labels()) && is_back(claim.labels())).then_some(())
        })
        .await;
    }
    world.event(THREAD, "Repaired").await;
    let same = world.api::<Pod>().get(&pod.name_any()).await.unwrap();
    assert_eq!(same.uid(), pod.uid(), "the run goes on");
    let status = world.thread().await.status.unwrap();
    assert_eq!(status.roles["pm"].pod_uid, pod.uid());
}

#[tokio::test]
async fn an_agent_role_in_use_can_be_deleted_and_its_pod_goes() {
    let world = World::start().await;
    let pod = world.at_work().await;
    let roles: Api<AgentRole> = Api::namespaced(world.admin.clone(), &world.place.system);
    roles.delete("pm", &DeleteParams::default()).await.unwrap();
    assert!(roles.get_opt("pm").await.unwrap().is_none(), "nothing holds it");
    world.condition::<Repo>("shop", "Stalled", "True", "RoleNotFound").await;
    eventually("its pod goes", || async {
        world.end_pods().await;
        let gone = world.api::<Pod>().get_opt(&pod.name_any()).await.unwrap().is_none();
        gone.then_some(())
    })
    .await;
    let message = world.condition::<Thread>(THREAD, "Stalled", "True", "RoleNotFound").await;
    assert!(message.contains("add one"), "{message}");
    world.event(THREAD, "RoleNotFound").await;
}

impl World {
    /// Writes an event in the form of cluster-autoscaler: the older one.
    async fn autoscaler_says(&self, pod: &Pod, reason: &str, message: &str) {
        let now = Timestamp::now();
        let event = json!({
            "metadata": {"generateName": "scale-up-"}, "reason": reason, "message": message, "type": "Normal",
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod.name_any(),
                               "namespace": self.place.team, "uid": pod.uid()},
            "source": {"component": "cluster-autoscaler"}, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
        });
        let event = serde_json::from_value(event).unwrap();
        self.api::<CoreEvent>().create(&PostParams::default(), &event).await.unwrap();
    }
}

#[tokio::test]
async fn what_keeps_a_pod_from_working_is_told_and_forgotten() {
    let world = World::start().await;
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pod = world.registered_pod("pm", None).await;
    let waiting = |reason: &str| {
        json!({"phase": "Pending", "conditions": null, "initContainerStatuses": [{
            "name": "toolbox", "image": "debain:12", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": reason, "message": "no"}}}]})
    };
    let since = Timestamp::now().saturating_sub(SignedDuration::from_secs(30)).unwrap();
    let unschedulable = json!({"phase": "Pending", "initContainerStatuses": null, "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since,
        "message": "0/1 nodes are available: 1 Insufficient memory."}]});
    world.autoscaler_says(&pod, "NotTriggerScaleUp", "1 max node group size reached").await;
    let is = |status: Value| {
        let (pods, name) = (world.api::<Pod>(), pod.name_any());
        async move {
            let patch = Patch::Merge(json!({"status": status}));
            pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    };
    let logs = format!("kubectl -n {} logs ", world.place.team);
    for (status, reason, says) in [
        (unschedulable, "PodUnschedulable", "(1 max node group size reached)"),
        (waiting("ImagePullBackOff"), "ImageNotPulled", "debain:12"),
        (waiting("CrashLoopBackOff"), "ContainerCrashes", &logs),
        (waiting("CreateContainerConfigError"), "ContainerNotCreated", "toolbox"),
    ] {
        is(status).await;
        let message = world.condition::<Thread>(THREAD, "Ready", "False", reason).await;
        assert!(message.contains(says), "{message}");
        world.event(THREAD, reason).await;
    }
    is(json!({"phase": "Running", "initContainerStatuses": null})).await;
    world.condition::<Thread>(THREAD, "Ready", "True", "Awake").await;
}

#[tokio::test]
async fn a_pod_outside_of_a_limit_range_is_told_with_the_setting_that_makes_it_fit() {
    let world = World::start().await;
    let item = json!({"type": "Container", "min": {"cpu": "100m"}});
    let range = json!({"metadata": {"name": "range"}, "spec": {"limits": [item]}});
    create::<LimitRange>(&world.admin, &world.place.team, range).await;
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let message = world.condition::<Thread>(THREAD, "Ready", "False", "Rejected").await;
    assert!(message.contains("is 100m, but request is 50m"), "{message}");
    assert!(message.contains("spec.pods.resources of the Repo"), "{message}");
    world.event(THREAD, "Rejected").await;
    let agent = json!({"requests": {"cpu": "100m"}});
    let fits = Patch::Merge(json!({"spec": {"pods": {"resources": {"agent": agent}}}}));
    world.api::<Repo>().patch("shop", &PatchParams::default(), &fits).await.unwrap();
    world.registered_pod("pm", None).await;
}

#[tokio::test]
async fn pods_are_let_in_where_the_restricted_standard_is_enforced() {
    let world = World::start().await;
    world.create_repo().await;
    world.repo_is_ready().await;
    let namespaces: Api<Namespace> = Api::all(world.admin.clone());
    let enforced = json!({"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest"}}});
    let params = PatchParams::default();
    namespaces.patch(&world.place.team, &params, &Patch::Merge(enforced)).await.unwrap();
    let plain: Pod = serde_json::from_value(json!({
        "metadata": {"name": "plain"},
        "spec": {"serviceAccountName": "codebutler-shop",
                 "containers": [{"name": "c", "image": "i"}]}}))
    .unwrap();
    eventually("an ordinary pod is refused", || async {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let refused = world.api::<Pod>().create(&dry, &plain).await.err()?;
        refused.to_string().contains("violates PodSecurity").then_some(())
    })
    .await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    world.registered_pod("pm", None).await;
}
