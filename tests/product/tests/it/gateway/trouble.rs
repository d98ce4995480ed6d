//! Trouble that keeps pods from working, from the pod's status to the message in the thread: the controller and the
//! gateway together, and somebody who plays the kubelet.

use codebutler_controller::args::ControllerArgs;
use codebutler_crds::{Thread, names};
use codebutler_gateway::condition_notices;
use codebutler_runtime::args::LeaseArgs;
use codebutler_testbed::models::ModelScript;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::cluster::ACCOUNT;
use super::{World, eventually};
use crate::support::needs_process_kubelet;

/// A running controller, and the gateway's part that tells people.
pub(super) struct Running {
    _stop: DropGuard,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl World {
    /// Starts the controller, and what tells threads about its conditions.
    pub(super) async fn run(&self) -> Running {
        // The controller makes its own.
        let accounts = self.cluster.api::<ServiceAccount>(self.cluster.team());
        accounts.delete(ACCOUNT, &DeleteParams::default()).await.unwrap();
        let authority = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": names::CA_CONFIG_MAP, "namespace": self.cluster.system()},
            "data": {names::CA_KEY: "PEM"}});
        self.cluster.apply(&authority).await;
        let args = ControllerArgs {
            namespaces: self.cluster.watched(),
            namespace: self.cluster.system().to_owned(),
            gateway_service: "codebutler-gateway".to_owned(),
            gateway_port: 8443,
            gateway_shards: 1,
            agent_image: "codebutler-agent:test".to_owned(),
            workspace_image: "debian:12".to_owned(),
            agent_pull_secrets: Vec::new(),
            cluster_dns: Vec::new(),
            agent_pull_policy: None,
            agent_pods: Box::default(),
            lease: LeaseArgs { identity: Some("controller-0".to_owned()), lease_seconds: 15 },
            metrics_address: ([127, 0, 0, 1], 0).into(),
        };
        let stop = CancellationToken::new();
        let (client, stopped) = (self.cluster.admin(), stop.clone());
        let controller = tokio::spawn(async move {
            codebutler_controller::serve_controller(args, client, stopped).await.unwrap();
        });
        let work = std::sync::Arc::clone(&self.gateway.work);
        let telling = tokio::spawn(async move { condition_notices::run_notices(&work).await });
        let tasks = [controller, telling].map(AbortOnDropHandle::new);
        Running { _stop: stop.drop_guard(), _tasks: tasks }
    }

    /// A conversation of its own with mail for `pm`, as the gateway's Slack part makes it: the first
    /// message's `ts` and the Thread.
    async fn conversation(&self, text: &str) -> (String, String) {
        let root = self.slack.post_as(&self.ana(), &self.channel, None, text).unwrap();
        let name = names::thread_name("shop", &root.parse().unwrap());
        let thread = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"namespace": self.cluster.team(), "name": name},
            "spec": {"repo": "shop", "slack": {"channel": self.channel, "ts": root}}});
        self.cluster.apply(&thread).await;
        let mail = json!({"status": {"roles": {"pm": {"inbox": root}}}});
        self.cluster.patch::<Thread>(self.cluster.team(), &name, &mail).await;
        (root, name)
    }

    /// User who began the first conversation.
    pub(super) fn ana(&self) -> String {
        self.slack.message(&self.channel, &self.root).unwrap().sender.id
    }

    fn said(&self, root: &str, what: &str) -> usize {
        let messages = self.slack.messages(&self.channel, Some(root));
        messages.iter().filter(|message| message.text.contains(what)).count()
    }
}

fn container(state: &Value) -> Value {
    json!([{"name": "toolbox", "image": "debain:12", "imageID": "", "ready": false,
            "restartCount": 3, "state": state}])
}

fn waiting(reason: &str) -> Value {
    let state = json!({"waiting": {"reason": reason, "message": "back-off"}});
    json!({"phase": "Pending", "initContainerStatuses": container(&state)})
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_keeps_a_pod_from_working_is_told_in_its_thread_with_what_to_do() {
    if needs_process_kubelet("it writes what becomes of pods") {
        return;
    }
    let limits = json!({"limits": {"concurrentThreads": 10, "concurrentRuns": 20},
                        "slack": {"debounceSeconds": 0}});
    let world = World::play(ModelScript::of("coder", vec![]), &limits, &json!({})).await;
    let _running = world.run().await;
    let killed = json!({"terminated": {
        "exitCode": 137, "reason": "OOMKilled", "finishedAt": jiff::Timestamp::now()}});
    let logs = format!("kubectl -n {} logs ", world.cluster.team());
    let cases = [
        (
            "Unschedulable",
            "PodUnschedulable",
            "add room to the cluster",
            json!({
            "phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient memory."}]}),
        ),
        ("Unpulled", "ImageNotPulled", "workspace.image", waiting("ImagePullBackOff")),
        ("Crashing", "ContainerCrashes", &logs, waiting("CrashLoopBackOff")),
        (
            "Killed",
            "OutOfMemory",
            "give it more memory: workspace.resources",
            json!({
            "phase": "Failed", "containerStatuses": container(&killed)}),
        ),
        (
            "Evicted",
            "PodEvicted",
            "another one follows by itself",
            json!({
            "phase": "Failed", "reason": "Evicted",
            "message": "The node was low on resource: memory."}),
        ),
    ];
    let cases = cases.map(|(name, reason, advice, status)| {
        let world = &world;
        async move {
            let (root, thread) = world.conversation(name).await;
            let pods = world.cluster.api::<Pod>(world.cluster.team());
            let pod = names::pod_name(&thread, "pm");
            let threads = world.cluster.api::<Thread>(world.cluster.team());
            eventually("its pod is registered", || async {
                let status = threads.get(&thread).await.unwrap().status.unwrap_or_default();
                status.roles.get("pm").is_some_and(|pm| pm.pod_uid.is_some())
            })
            .await;
            let first = pods.get(&pod).await.unwrap().uid();
            world
                .cluster
                .patch::<Pod>(world.cluster.team(), &pod, &json!({"status": status}))
                .await;
            eventually("the condition says it", || async {
                let status = threads.get(&thread).await.unwrap().status.unwrap();
                status
                    .conditions
                    .iter()
                    .any(|c| c.type_ == "Ready" && c.reason == reason && c.message.contains(advice))
            })
            .await;
            eventually("the thread is told", || async { world.said(&root, advice) == 1 }).await;
            if status_is_failed(reason) {
                eventually("another pod follows", || async {
                    let now = pods.get_opt(&pod).await.unwrap();
                    now.is_some_and(|now| now.uid() != first)
                })
                .await;
                let status = threads.get(&thread).await.unwrap().status.unwrap();
                let failures = u32::from(reason == "OutOfMemory");
                assert_eq!(status.roles["pm"].failures, failures, "{reason}");
            }
            assert_eq!(world.said(&root, advice), 1, "once");
        }
    });
    futures::future::join_all(cases).await;
}

fn status_is_failed(reason: &str) -> bool {
    ["OutOfMemory", "PodEvicted"].contains(&reason)
}
