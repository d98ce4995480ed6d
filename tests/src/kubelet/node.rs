//! The kubelet's side towards the API server: its Node, the pods of it, and giving pods to it.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Binding, ConfigMap, Node as NodeObject, ObjectReference, Pod, Secret,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::entry::{KubeletNode, PodEntry, PodStop, lock};
use super::worker;

const HEARTBEAT: Duration = Duration::from_secs(10);
const BIND_RETRY: Duration = Duration::from_secs(1);
const SCHEDULER: &str = "default-scheduler";

/// Registers the Node and says that it is ready, until the end.
pub(super) async fn keep_registered(node: Arc<KubeletNode>) {
    loop {
        let pause = match register_node(&node).await {
            Ok(()) => HEARTBEAT,
            Err(error) => {
                tracing::warn!(%error, "node not registered");
                Duration::from_millis(500)
            }
        };
        tokio::select! {
            () = node.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Makes the Node if it is missing and writes its status.
pub(super) async fn register_node(node: &KubeletNode) -> kube::Result<()> {
    let api: Api<NodeObject> = Api::all(node.client.clone());
    let name = &node.options.node_name;
    let (now, resources) = (Timestamp::now(), json!({"cpu": "4", "memory": "8Gi", "pods": "250"}));
    let labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"});
    if api.get_opt(name).await?.is_none() {
        let new = NodeObject {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: serde_json::from_value(labels).ok(),
                ..ObjectMeta::default()
            },
            ..NodeObject::default()
        };
        match api.create(&PostParams::default(), &new).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            other => drop(other?),
        }
    }
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": now.to_string(), "lastTransitionTime": now.to_string(),
        })
    };
    let status = json!({"status": {
        "capacity": resources, "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"},
                      {"type": "Hostname", "address": name}],
        "conditions": [condition("Ready", "True"), condition("MemoryPressure", "False"),
                       condition("DiskPressure", "False"), condition("PIDPressure", "False")],
        "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "",
            "osImage": "testbed", "containerRuntimeVersion": "codebutler://1",
            "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION")), "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": std::env::consts::ARCH,
        },
    }});
    let params = PatchParams::default();
    api.patch_status(name, &params, &Patch::Merge(status)).await.map(drop)
}

/// Follows the pods of the cluster, until the end.
pub(super) async fn follow_pods(node: Arc<KubeletNode>) {
    let mut listed = None;
    let mut events = Box::pin(watch_objects::<Pod>(&node));
    loop {
        let event = tokio::select! {
            () = node.shutdown.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Event::Init) => listed = Some(HashSet::new()),
            Some(Event::InitApply(pod)) => {
                listed.get_or_insert_default().insert(pod.uid().unwrap_or_default());
                see_pod(&node, pod);
            }
            Some(Event::InitDone) => {
                let listed = listed.take().unwrap_or_default();
                for (uid, entry) in lock(&node.pods).iter() {
                    if !listed.contains(uid) {
                        entry.stop.send_replace(Some(PodStop::AtOnce));
                    }
                }
            }
            Some(Event::Apply(pod)) => see_pod(&node, pod),
            Some(Event::Delete(pod)) => {
                if let Some(entry) = lock(&node.pods).get(&pod.uid().unwrap_or_default()) {
                    entry.stop.send_replace(Some(PodStop::AtOnce));
                }
            }
        }
    }
}

/// Tells the pods of a namespace when a `ConfigMap` or Secret of it changes.
pub(super) async fn follow_sources(node: Arc<KubeletNode>) {
    let config_maps = watch_objects::<ConfigMap>(&node).map(changed_pod);
    let secrets = watch_objects::<Secret>(&node).map(changed_pod);
    let mut namespaces = Box::pin(futures::stream::select(config_maps, secrets));
    loop {
        tokio::select! {
            () = node.shutdown.cancelled() => return,
            namespace = namespaces.next() => match namespace {
                Some(Some(namespace)) => drop(node.changes.send(namespace)),
                Some(None) => {}
                None => return,
            }
        }
    }
}

fn changed_pod<K: Resource>(event: Event<K>) -> Option<String> {
    match event {
        Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => {
            object.meta().namespace.clone()
        }
        Event::Init | Event::InitDone => None,
    }
}

fn watch_objects<K>(node: &KubeletNode) -> impl Stream<Item = Event<K>> + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(Api::<K>::all(node.client.clone()), watcher::Config::default())
        .default_backoff()
        .filter_map(|event| async {
            event.inspect_err(|error| tracing::debug!(%error, "watch")).ok()
        })
}

/// True if a pod that no kubelet runs yet may be bound to this node.
fn suits_node(node: &KubeletNode, pod: &Pod) -> bool {
    let host = |(key, value): (&String, &String)| {
        key != "kubernetes.io/hostname" || *value == node.options.node_name
    };
    let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    selector.into_iter().flatten().all(host)
}

/// Acts on a pod as it is now.
fn see_pod(node: &Arc<KubeletNode>, pod: Pod) {
    let (namespaces, spec) = (&node.options.namespaces, pod.spec.as_ref());
    let its = pod.metadata.namespace.as_deref().unwrap_or_default();
    if !namespaces.is_empty() && !namespaces.iter().any(|name| name == its) {
        return;
    }
    let deleted = pod.metadata.deletion_timestamp.is_some();
    let Some(on) = spec.and_then(|spec| spec.node_name.as_deref()) else {
        let gated =
            spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|g| !g.is_empty());
        let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref());
        if !deleted
            && !gated
            && suits_node(node, &pod)
            && scheduler.is_none_or(|name| name == SCHEDULER)
        {
            node.tasks.spawn(bind_pod(node.clone(), pod));
        }
        return;
    };
    if on != node.options.node_name {
        return;
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let over = matches!(phase, Some("Succeeded" | "Failed"));
    let uid = pod.uid().unwrap_or_default();
    let mut pods = lock(&node.pods);
    if let Some(entry) = pods.get(&uid) {
        entry.pod.send_replace(Arc::new(pod));
    } else if over && !deleted {
        return;
    } else {
        let entry = Arc::new(PodEntry::new(node.clone(), Arc::new(pod)));
        pods.insert(uid.clone(), entry.clone());
        node.tasks.spawn(worker::run_pod(entry));
    }
    if deleted && let Some(entry) = pods.get(&uid) {
        entry.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(PodStop::Deleted);
            first
        });
    }
}

/// Gives a pod without a node to this one. It is tried again after an error: no second event need tell of the pod.
async fn bind_pod(node: Arc<KubeletNode>, pod: Pod) {
    let namespace = pod.namespace().unwrap_or_default();
    let name = pod.name_any();
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            uid: pod.uid(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.options.node_name.clone()),
            ..ObjectReference::default()
        },
    };
    let api: Api<Pod> = Api::namespaced(node.client.clone(), &namespace);
    let params = PostParams::default();
    loop {
        let bound: kube::Result<serde_json::Value> =
            api.create_subresource("binding", &name, &params, &binding).await;
        match bound {
            Ok(_) => return,
            // Deleted, or bound by the answer to an earlier event.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                return;
            }
            Err(error) => tracing::warn!(pod = name, %error, "pod not bound"),
        }
        tokio::select! {
            () = node.shutdown.cancelled() => return,
            () = tokio::time::sleep(BIND_RETRY) => {}
        }
    }
}
