//! Volumes on nodes that are gone.

use codebutler_crds::Thread;
use codebutler_crds::names::pod_name;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::world::{MAIL, THREAD, World, eventually};

impl World {
    /// A node of this world alone.
    fn node(&self) -> String {
        format!("{}-worker", self.place.team)
    }

    /// Plays a provisioner of local disks: the Thread's claim gets a volume that only that node reaches.
    async fn bind_to_node(&self) {
        let name = format!("{}-disk", self.place.team);
        let here =
            json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [self.node()]});
        let volume = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "disks",
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        });
        let volumes = Api::<PersistentVolume>::all(self.admin.clone());
        volumes
            .create(&PostParams::default(), &serde_json::from_value(volume).unwrap())
            .await
            .unwrap();
        let claims: Api<PersistentVolumeClaim> = self.api();
        let params = PatchParams::default();
        let spec = Patch::Merge(json!({"spec": {"volumeName": name}}));
        claims.patch(THREAD, &params, &spec).await.unwrap();
        let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
        claims.patch_status(THREAD, &params, &bound).await.unwrap();
    }

    /// Plays a scheduler that has found no node for so long.
    async fn unscheduled_for(&self, minutes: i64) {
        let since = Timestamp::now().saturating_sub(SignedDuration::from_mins(minutes)).unwrap();
        let status = json!({"status": {"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": since,
            "message": "0/1 nodes are available: 1 node(s) had volume node affinity conflict."}]}});
        let (pods, params): (Api<Pod>, _) = (self.api(), PatchParams::default());
        pods.patch_status(&pod_name(THREAD, "pm"), &params, &Patch::Merge(status)).await.unwrap();
    }
}

/// A Thread whose pod finds no node for its volume, which is told; the node, the pod and the claim. Nothing
/// where a scheduler has its own opinion of the pod.
async fn strand(world: &World) -> Option<(Node, Pod, PersistentVolumeClaim)> {
    if !world.cluster().is_embedded() {
        return None;
    }
    let nodes = Api::<Node>::all(world.admin.clone());
    let labels = [("kubernetes.io/hostname".to_owned(), world.node())].into();
    // A node need not be called what its host is.
    let metadata = ObjectMeta {
        name: Some(format!("{}-x", world.node())),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    let node = Node { metadata, ..Node::default() };
    nodes.create(&PostParams::default(), &node).await.unwrap();
    world.create_repo().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pod = world.registered_pod("pm", None).await;
    let claim = world.api::<PersistentVolumeClaim>().get(THREAD).await.unwrap();
    world.bind_to_node().await;
    world.unscheduled_for(60).await;
    let message = world.condition::<Thread>(THREAD, "Ready", "False", "VolumeUnreachable").await;
    for part in [world.node(), format!("`kubectl -n {} delete pvc {THREAD}`", world.place.team)] {
        assert!(message.contains(&part), "{part}: {message}");
    }
    Some((node, pod, claim))
}

#[tokio::test]
async fn a_volume_is_given_up_with_the_command_that_people_are_told() {
    let world = World::start().await;
    let Some((node, pod, claim)) = strand(&world).await else { return };
    let claims = world.api::<PersistentVolumeClaim>();
    claims.delete(THREAD, &DeleteParams::default()).await.unwrap();
    eventually("another volume for the same pod", || async {
        world.release_claims().await;
        let now = claims.get_opt(THREAD).await.unwrap()?;
        (now.uid() != claim.uid()).then_some(())
    })
    .await;
    assert_eq!(world.registered_pod("pm", None).await.uid(), pod.uid());
    let nodes = Api::<Node>::all(world.admin.clone());
    nodes.delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_volume_on_a_node_that_is_gone_is_made_again_and_one_on_a_node_that_is_there_is_not() {
    let world = World::start().await;
    let Some((node, pod, claim)) = strand(&world).await else { return };
    let nodes = Api::<Node>::all(world.admin.clone());
    nodes.delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
    // A finding counts for half a minute; then the node is gone, and was away long enough.
    world.event(THREAD, "VolumeLost").await;
    eventually("another volume, and another pod", || async {
        world.release_claims().await;
        world.end_pods().await;
        let now = world.api::<PersistentVolumeClaim>().get_opt(THREAD).await.unwrap()?;
        let pods = world.api::<Pod>().get_opt(&pod.name_any()).await.unwrap()?;
        (now.uid() != claim.uid() && pods.uid() != pod.uid()).then_some(())
    })
    .await;
    world.condition::<Thread>(THREAD, "Reconciling", "True", "PodStarting").await;
}
