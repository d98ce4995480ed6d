use std::collections::BTreeMap;
use std::sync::Arc;

use codebutler_crds::mcp::{McpPod, McpServerSpec};
use codebutler_crds::{Repo, Thread};
use codebutler_runtime::server_spec::fingerprint_server;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::decide::{MOST_PODS, ServersPlan, ServersView, plan_servers};
use super::pod::ServerOwner;
use crate::gateway::GatewayAddress;
use crate::testing;

const UID: &str = "server-pod-1";

/// A world with one server, which was wanted a minute ago.
struct World {
    repo: Repo,
    thread: Thread,
    known: BTreeMap<String, McpPod>,
    pods: Vec<Arc<Pod>>,
    open: bool,
    prepared: bool,
    shared: bool,
    now: Timestamp,
}

impl World {
    fn new(server: Value) -> Self {
        let server: McpServerSpec = serde_json::from_value(server).unwrap();
        let mut world = Self {
            repo: testing::repo(),
            thread: testing::thread(&json!({})),
            known: BTreeMap::new(),
            pods: Vec::new(),
            open: true,
            prepared: true,
            shared: false,
            now: testing::now(),
        };
        world.want(&server);
        world.repo.spec.mcp_servers.push(server);
        world
    }

    fn want(&mut self, server: &McpServerSpec) {
        let wanted = Some(Time(self.now - SignedDuration::from_mins(1)));
        let spec = fingerprint_server(server);
        let pod = McpPod { wanted, spec, ..McpPod::default() };
        self.known.insert(server.name.clone(), pod);
    }

    fn plan(&self) -> ServersPlan {
        let gateway = GatewayAddress {
            address: "10.96.0.7:8443".parse().unwrap(),
            target_port: IntOrString::Int(8443),
        };
        let owner = if self.shared {
            ServerOwner::Repo(&self.repo)
        } else {
            ServerOwner::Thread(&self.thread)
        };
        plan_servers(&ServersView {
            owner,
            repo: Some(&self.repo),
            open: self.open,
            known: &self.known,
            pods: &self.pods,
            gateway: Ok(&gateway),
            prepared: self.prepared,
            args: &testing::args(),
            user: 10_001,
            now: self.now,
        })
    }

    /// Applies a plan that makes one pod.
    fn start(&mut self) {
        let mut plan = self.plan();
        let (_, mut pod) = plan.create.pop_first().unwrap();
        pod.metadata.uid = Some(UID.to_owned());
        self.pods = vec![Arc::new(pod)];
    }

    /// Makes the pod look like one of an older controller.
    fn start_without_mark(&mut self) {
        let pod = Arc::make_mut(&mut self.pods[0]);
        pod.metadata.annotations.as_mut().unwrap().remove("codebutler.dev/secrets");
    }

    fn says(&mut self, status: Value) {
        let pod = Arc::make_mut(&mut self.pods[0]);
        pod.status = Some(serde_json::from_value(status).unwrap());
    }

    /// UIDs that the plan deletes. It makes nothing anew meanwhile.
    fn deleted(&self) -> Vec<String> {
        let plan = self.plan();
        assert_eq!(plan.create, BTreeMap::new());
        plan.delete
    }
}

fn server() -> Value {
    json!({
        "name": "db",
        "image": "registry.acme.dev/db-tools:3",
        "command": ["node", "dist/index.js", "--dsn", "$(NOT_EXPANDED)"],
        "env": [
            {"name": "MODE", "value": "read only"},
            {"name": "TZ", "value": "Europe/Berlin"},
            {"name": "TOKEN", "secret": {"name": "tracker", "key": "token"}},
            {"name": "AUTH", "secret": {"name": "tracker", "key": "token", "prefix": "Bearer "}},
        ],
        "egress": ["api.acme.dev"],
    })
}

#[test]
fn a_wanted_server_gets_a_pod_without_a_token_where_its_program_runs() {
    let plan = World::new(server()).plan();
    insta::assert_yaml_snapshot!(plan);
}

#[test]
fn the_worktree_is_there_to_read_only_for_a_server_that_is_to_have_it() {
    let mut with = server();
    with["worktree"] = json!("ReadOnly");
    let mut world = World::new(with);
    let before = world.plan();
    assert!(before.create.is_empty(), "no role has cloned it yet: it would stay empty");
    assert!(before.again.is_some() && before.own["db"].trouble.is_empty(), "{before:?}");
    assert!(before.own["db"].waits.contains("no role has cloned"), "{before:?}");
    let status = json!({"roles": {"coder": {"turns": 1}}});
    world.thread = testing::thread(&status);
    let plan = world.plan();
    let spec = plan.create["db"].spec.clone().unwrap();
    let mounts = spec.containers[0].volume_mounts.clone().unwrap();
    let tree = mounts.iter().find(|mount| mount.mount_path == "/workspace").unwrap();
    assert_eq!((tree.read_only, tree.sub_path.as_deref()), (Some(true), Some("work/tree")));
    assert!(spec.affinity.is_some(), "its volume is on one node");
    let bridge = spec.containers[1].volume_mounts.clone().unwrap();
    assert!(bridge.iter().all(|mount| mount.name != "thread"), "{bridge:?}");
    let without = World::new(server()).plan();
    let volumes = without.create["db"].spec.clone().unwrap().volumes.unwrap();
    assert!(volumes.iter().all(|volume| volume.persistent_volume_claim.is_none()));
}

#[test]
fn a_repo_can_make_all_containers_of_a_servers_pod_fit_a_limit_range() {
    let cpu = |world: &World| -> Vec<String> {
        let spec = world.plan().create["db"].spec.clone().unwrap();
        let all = spec.init_containers.into_iter().flatten().chain(spec.containers);
        all.map(|container| container.resources.unwrap().requests.unwrap()["cpu"].0.clone())
            .collect()
    };
    let mut world = World::new(server());
    assert!(cpu(&world).contains(&"10m".to_owned()), "little, where nobody says otherwise");
    let settings = json!({"resources": {"agent": {"requests": {"cpu": "100m"}}}});
    world.repo.spec.pods = Some(serde_json::from_value(settings).unwrap());
    let own = json!({"requests": {"cpu": "200m"}});
    world.repo.spec.mcp_servers[0].resources = Some(serde_json::from_value(own).unwrap());
    let server = world.repo.spec.mcp_servers[0].clone();
    world.want(&server);
    assert_eq!(cpu(&world), ["100m", "200m", "100m"]);
}

#[test]
fn a_pod_goes_when_it_is_idle_closed_changed_or_named_no_more() {
    let mut world = World::new(server());
    world.start();
    assert_eq!(world.deleted(), Vec::<String>::new());
    assert_eq!(world.plan().own["db"].pod_uid.as_deref(), Some(UID));

    world.now += SignedDuration::from_secs(300 - 60 + 1);
    assert_eq!(world.deleted(), [UID], "idle");
    assert_eq!(world.plan().own["db"].pod_uid, None, "its token opens nothing from now on");
    world.now = testing::now();

    world.open = false;
    assert_eq!(world.deleted(), [UID], "closed");
    world.open = true;

    let labels = Arc::make_mut(&mut world.pods[0]).metadata.labels.as_mut().unwrap();
    let repo = labels.remove("codebutler.dev/repo").unwrap();
    assert_eq!(world.deleted(), [UID], "the network policy does not find it");
    let labels = Arc::make_mut(&mut world.pods[0]).metadata.labels.as_mut().unwrap();
    labels.insert("codebutler.dev/repo".to_owned(), repo);

    world.says(json!({"phase": "Failed", "reason": "Evicted"}));
    assert_eq!(world.deleted(), [UID], "evicted");
    world.says(json!({"phase": "Running"}));
    assert_eq!(world.deleted(), Vec::<String>::new());

    let servers = std::mem::take(&mut world.repo.spec.mcp_servers);
    assert_eq!(world.deleted(), [UID], "named no more");
    world.repo.spec.mcp_servers = servers;
    world.repo.spec.mcp_servers[0].egress = vec!["evil.example".to_owned()];
    assert_eq!(world.deleted(), [UID], "its Secrets were not checked for this host");
}

#[test]
fn a_pod_that_its_node_turns_down_is_not_made_again_at_once() {
    let mut world = World::new(server());
    world.start();
    let made = Some(Time(world.now));
    Arc::make_mut(&mut world.pods[0]).metadata.creation_timestamp = made;
    let full = "Pod was rejected: Node didn't have enough resource: pods";
    world.says(json!({"phase": "Failed", "reason": "OutOfpods", "message": full}));
    assert_eq!(world.deleted(), Vec::<String>::new());
    let plan = world.plan();
    assert_eq!(plan.again.unwrap().as_secs(), 5);
    let own = &plan.own["db"];
    assert_eq!(own.pod_uid, None, "nothing of it runs");
    assert!(own.waits.contains(full) && own.trouble.is_empty(), "{own:?}");
    world.now += SignedDuration::from_secs(5);
    assert_eq!(world.deleted(), [UID]);
}

#[test]
fn a_server_whose_secrets_were_checked_for_something_else_is_not_started() {
    let mut world = World::new(server());
    world.repo.spec.mcp_servers[0].image = Some("evil/image".to_owned());
    assert_eq!(world.plan().create, BTreeMap::new());
    let server = world.repo.spec.mcp_servers[0].clone();
    world.want(&server);
    assert_eq!(world.plan().create.len(), 1);
    world.prepared = false;
    assert_eq!(world.plan().create, BTreeMap::new(), "no network policy yet");
}

#[test]
fn a_shared_server_has_one_pod_at_its_repo_and_none_at_threads() {
    let mut spec = server();
    spec["scope"] = json!("Repo");
    let mut world = World::new(spec);
    assert_eq!(world.plan().create, BTreeMap::new());
    world.shared = true;
    let plan = world.plan();
    let made = &plan.create["db"].metadata;
    assert_eq!(made.name.as_deref(), Some("shop.mcp.db"));
    assert_eq!(made.owner_references.as_ref().unwrap()[0].kind, "Repo");
    let labels = made.labels.as_ref().unwrap();
    assert!(!labels.contains_key("codebutler.dev/thread"), "{labels:?}");
}

#[test]
fn what_keeps_a_pod_from_working_is_a_sentence_that_says_what_to_do() {
    let mut world = World::new(server());
    world.start();
    let waiting = |reason: &str, message: &str| {
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "server", "image": "registry.acme.dev/db-tools:3", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}},
        }]})
    };
    world.says(waiting("ErrImagePull", "try again"));
    assert_eq!(world.plan().own["db"].trouble, "", "the kubelet tries again");
    let known = world.known.clone();
    let patch = |world: &World| world.plan().patch(&known, |own| json!({"pod": own}));
    world.says(waiting("ImagePullBackOff", "no such manifest"));
    insta::assert_yaml_snapshot!(patch(&world));
    world.says(waiting("CreateContainerConfigError", "secret \"tracker\" not found"));
    let trouble = world.plan().own["db"].trouble.clone();
    assert!(trouble.contains("`env` of server `db`"), "{trouble}");
    world.says(json!({"phase": "Running"}));
    assert_eq!(patch(&world), Some(json!({"db": {"pod": {"podUID": UID}}})), "it works");
}

#[test]
fn a_pod_that_starts_slowly_says_what_it_waits_for_and_that_is_no_trouble() {
    let mut world = World::new(server());
    world.start();
    let made = world.now - SignedDuration::from_secs(8);
    Arc::make_mut(&mut world.pods[0]).metadata.creation_timestamp = Some(Time(made));
    let condition = |type_: &str, value: &str| json!({"type": type_, "status": value, "lastTransitionTime": made.to_string()});
    let container = |name: &str, state: Value| {
        json!({"name": name, "image": format!("acme/{name}:3"), "imageID": "", "ready": false,
            "restartCount": 0, "state": state})
    };
    let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "words"}});
    let started = json!({"terminated": {"exitCode": 0}});
    let scheduled = [condition("PodScheduled", "True"), condition("Ready", "False")];
    let status = |install: &Value, server: Value, more: Option<Value>| {
        let conditions: Vec<Value> = scheduled.iter().cloned().chain(more).collect();
        json!({
            "phase": "Pending", "conditions": conditions,
            "initContainerStatuses": [container("install", install.clone())],
            // In the kubelet's order.
            "containerStatuses": [
                container("bridge", waiting("PodInitializing")), container("server", server),
            ],
        })
    };
    let unscheduled = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are there",
        "lastTransitionTime": made.to_string(),
    });
    let sandbox = condition("PodReadyToStartContainers", "False");
    let pulling = waiting("PodInitializing");
    for (said, words) in [
        (json!({"phase": "Pending"}), "its pod waits for a node"),
        (
            json!({"phase": "Pending", "conditions": [unscheduled]}),
            "its pod waits for a node (0/3 nodes are there)",
        ),
        (status(&pulling, pulling.clone(), Some(sandbox)), "its node sets up volumes and network"),
        (status(&pulling, pulling.clone(), None), "its node pulls image `acme/install:3`"),
        (status(&started, pulling.clone(), None), "its node pulls image `acme/server:3`"),
        (
            status(&started, waiting("ErrImagePull"), None),
            "image `acme/server:3` could not be pulled, which its node tries again",
        ),
        (
            status(&started, waiting("RegistryUnavailable"), None),
            "image `acme/server:3` could not be pulled, which its node tries again",
        ),
    ] {
        world.says(said);
        let own = world.plan().own["db"].clone();
        assert_eq!((&*own.waits, &*own.trouble), (words, ""));
        assert_eq!(own.pod_uid.as_deref(), Some(UID));
    }
    // A real trouble is said instead, and one that starts at once says nothing.
    world.says(status(&started, waiting("ImagePullBackOff"), None));
    let own = world.plan().own["db"].clone();
    assert!(own.waits.is_empty() && own.trouble.contains("can't be pulled"), "{own:?}");
    // The kubelet has backed off once: its next failure is the same trouble.
    world.now = made + SignedDuration::from_secs(12);
    world.says(status(&started, waiting("ErrImagePull"), None));
    assert_eq!(world.plan().own["db"].trouble, own.trouble);
    assert_eq!(world.plan().own["db"].waits, "");
    world.says(json!({"phase": "Running", "conditions": [condition("Ready", "True")]}));
    assert_eq!(world.plan().own["db"].waits, "");
    world.says(json!({"phase": "Pending"}));
    world.now = made + SignedDuration::from_secs(2);
    assert_eq!(world.plan().own["db"].waits, "");
    // Unschedulable for long is a trouble.
    world.now = made + SignedDuration::from_mins(4);
    let server = world.repo.spec.mcp_servers[0].clone();
    world.want(&server);
    let unscheduled = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node",
        "lastTransitionTime": made.to_string(),
    });
    world.says(json!({"phase": "Pending", "conditions": [unscheduled]}));
    let own = world.plan().own["db"].clone();
    assert!(own.waits.is_empty() && own.trouble.contains("can't be scheduled"), "{own:?}");
}

#[test]
fn a_pod_that_was_started_with_other_secrets_is_replaced() {
    let mut world = World::new(server());
    let mark = |world: &mut World, mark: &str| {
        world.known.get_mut("db").unwrap().secrets = mark.to_owned();
    };
    mark(&mut world, "mark-1");
    world.start();
    let made = world.pods[0].metadata.annotations.clone().unwrap();
    assert_eq!(made["codebutler.dev/secrets"], "mark-1");
    assert_eq!(world.deleted(), Vec::<String>::new());
    mark(&mut world, "mark-2");
    assert_eq!(world.deleted(), [UID]);
    assert_eq!(world.plan().own["db"].pod_uid, None, "it does not speak for the server any more");
    // A gateway that says nothing of them replaces nothing, and one that has learnt to does.
    mark(&mut world, "");
    assert_eq!(world.deleted(), Vec::<String>::new());
    world.start_without_mark();
    mark(&mut world, "mark-2");
    assert_eq!(world.deleted(), [UID]);
}

#[test]
fn only_so_many_servers_have_pods() {
    let mut world = World::new(server());
    for n in 1..=MOST_PODS {
        let mut more = server();
        more["name"] = json!(format!("db{n}"));
        let more: McpServerSpec = serde_json::from_value(more).unwrap();
        world.want(&more);
        world.repo.spec.mcp_servers.push(more);
    }
    let plan = world.plan();
    assert_eq!(plan.create.len(), MOST_PODS);
    let last = &plan.own[&format!("db{MOST_PODS}")];
    assert!(last.trouble.contains("8 servers have pods here already"), "{}", last.trouble);
}
