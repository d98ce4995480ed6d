//! The rights in `operator/deploy`: each is used, and none is missing. What both processes ask the
//! API server for in a thread's whole life is recorded; then every single right is taken away in
//! turn, and something that was asked for must be refused.

use std::collections::BTreeSet;
use std::time::Duration;

use codebutler_crds::names;
use codebutler_testbed::apiserver::AuditRecord;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::place::{InstallPlace, TEAM};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::controller::world::{MAIL, World, eventually};
use crate::support::Setup;

const CONTROLLER: &str = include_str!("../../../../operator/deploy/controller.yaml");
const GATEWAY: &str = include_str!("../../../../operator/deploy/gateway.yaml");

/// Rights that a thread's ordinary life does not use, and what does.
const RARELY: &[(&str, &str)] = &[
    ("controller: create /configmaps ", APPLIED),
    ("controller: create /serviceaccounts ", APPLIED),
    ("controller: create networking.k8s.io/networkpolicies ", APPLIED),
    ("controller: get /persistentvolumeclaims ", "a volume whose cache entry is in doubt"),
    ("controller: get /pods ", "a pod whose cache entry is in doubt"),
    ("controller: get /services ", WATCHED),
    ("controller: get /serviceaccounts ", "an account whose cache entry is in doubt"),
    (
        "controller: get networking.k8s.io/networkpolicies ",
        "a policy whose cache entry is in doubt",
    ),
    ("controller: get /configmaps ", "a bundle whose cache entry is in doubt"),
    (
        "controller: delete /configmaps ",
        "a second Repo of a namespace on OpenShift, which asks for it",
    ),
    ("controller: get /persistentvolumes ", STRANDED),
    ("controller: list /nodes ", STRANDED),
    ("controller: patch /pods ", "somebody who takes labels off a pod"),
    ("controller: patch /persistentvolumeclaims ", "a Repo whose size grows"),
    ("controller: patch codebutler.dev/threads ", "a Thread deleted while there is no gateway"),
    ("controller: delete codebutler.dev/threads ", "a Thread that was closed long ago"),
    ("controller: list events.k8s.io/events ", "a pod that finds no node"),
    ("controller: patch events.k8s.io/events ", "an event that comes again"),
    ("controller: get snapshot.storage.k8s.io/volumesnapshots ", SNAPSHOTS),
    ("controller: create snapshot.storage.k8s.io/volumesnapshots ", SNAPSHOTS),
    ("controller: get coordination.k8s.io/leases ", LEASE),
    ("controller: update coordination.k8s.io/leases ", LEASE),
    ("gateway: get codebutler.dev/", WATCHED),
    ("gateway: create events.k8s.io/events ", "a Repo whose Slack or Git is out of reach"),
    ("gateway: patch events.k8s.io/events ", "such an event that comes again"),
    (
        "gateway: create discovery.k8s.io/endpointslices/restricted ",
        "an EndpointSlice of OpenShift, whose server asks for it itself",
    ),
    ("gateway: get discovery.k8s.io/endpointslices ", LEASE),
    ("gateway: patch discovery.k8s.io/endpointslices ", LEASE),
    ("gateway: patch /secrets team/codebutler-mcp-tokens", "a person who signs in to a server"),
    ("gateway: get coordination.k8s.io/leases ", LEASE),
    ("gateway: update coordination.k8s.io/leases ", LEASE),
];
const APPLIED: &str = "part of an apply where nothing is there: the server asks for it itself";
const SNAPSHOTS: &str = "a Repo with `spec.worktree.prepared: Snapshot`";
const STRANDED: &str = "a volume that no node reaches";
const WATCHED: &str = "read by list and watch alone; a candidate to be taken away";
const LEASE: &str = "two replicas, and the lease between them";

/// One right: the namespace it is limited to, group, resource, verb and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    namespace: String,
    group: String,
    resource: String,
    verb: String,
    name: String,
}

impl Right {
    fn covers(&self, asked: &AuditRecord) -> bool {
        (self.namespace.is_empty() || self.namespace == asked.namespace)
            && self.group == asked.group
            && self.resource == asked.resource
            && self.verb == asked.verb
            && (self.name.is_empty() || self.name == asked.name)
    }

    fn show(&self) -> String {
        let Self { namespace, group, resource, verb, name } = self;
        format!("{verb} {group}/{resource} {namespace}/{name}")
    }
}

fn texts<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    value[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Every single right of a manifest.
fn rights(manifest: &str) -> BTreeSet<Right> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
    let mut rights = BTreeSet::new();
    for document in documents.iter().filter(|d| d.get("rules").is_some()) {
        let bound = document["metadata"]["name"] == names::SECRETS_ROLE;
        let own = document["metadata"]["namespace"].as_str().unwrap_or_default();
        // The only one that is bound in a namespace.
        let namespace = if bound { TEAM } else { own };
        for rule in document["rules"].as_array().unwrap() {
            let names = match texts(rule, "resourceNames") {
                names if names.is_empty() => vec![""],
                names => names,
            };
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    for verb in texts(rule, "verbs") {
                        rights.extend(names.iter().map(|name| Right {
                            namespace: namespace.to_owned(),
                            group: group.to_owned(),
                            resource: resource.to_owned(),
                            verb: verb.to_owned(),
                            name: (*name).to_owned(),
                        }));
                    }
                }
            }
        }
    }
    rights
}

fn user(place: &InstallPlace, process: &str) -> String {
    format!("system:serviceaccount:{}:codebutler-{process}", place.system)
}

/// Lists mistakes in a process' rights, in view of what it asked for.
fn judge(process: &str, manifest: &str, asked: &[(AuditRecord, bool)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (record, _) in asked.iter().filter(|(_, allowed)| !allowed) {
        wrong.push(format!("{process} lacks a right: {record:?}"));
    }
    let rights = rights(manifest);
    for right in &rights {
        let without = |record: &AuditRecord| {
            !rights.iter().filter(|other| *other != right).any(|other| other.covers(record))
        };
        let needed = asked.iter().any(|(r, _)| right.covers(r) && without(r));
        let shown = format!("{process}: {}", right.show());
        let rare = RARELY.iter().any(|(rare, _)| shown.starts_with(rare));
        if !needed && !rare {
            wrong.push(format!("never used: {shown}"));
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_is_used_and_none_is_missing() {
    let end = ScriptStep::tool("CloseThread", json!({"summary": "Nothing to do."}));
    let script =
        ModelScript::of("pm", vec![ScriptStep::say("Hello."), ScriptStep::say("Again."), end]);
    let team = Setup::new(script).usual().idle(1).start().await;
    if !team.stack.cluster.is_embedded() {
        // Only the embedded server tells what it was asked for.
        team.stop().await;
        return;
    }
    let client = team.stack.cluster.client();
    let root = team.says("ana", None, "hello");
    team.message(&root, "Hello.").await;
    team.settled(&root, "pm").await;
    // Asleep: its pod goes; the next message wakes it.
    let pods: Api<Pod> = Api::namespaced(client.clone(), &team.stack.place.team);
    team.until("sleep", || async {
        pods.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())
    })
    .await;
    team.says("ana", Some(&root), "again");
    team.message(&root, "Again.").await;
    team.settled(&root, "pm").await;
    // Resources that are taken away or changed by hand are fixed.
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), &team.stack.place.team);
    let policy = policies.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    let edit = Patch::Merge(json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}));
    policies.patch(&policy, &PatchParams::default(), &edit).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &team.stack.place.team);
    accounts.delete("codebutler-shop", &DeleteParams::default()).await.unwrap();
    team.until("a new account", || async { accounts.get_opt("codebutler-shop").await.unwrap() })
        .await;
    team.says("ana", Some(&root), "close");
    team.until("nothing to be left", || async { team.leftovers().await.is_empty().then_some(()) })
        .await;

    let asked = |process: &str| team.stack.cluster.requests_of(&user(&team.stack.place, process));
    let mut wrong = judge("controller", CONTROLLER, &asked("controller"));
    wrong.extend(judge("gateway", GATEWAY, &asked("gateway")));
    team.stop().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The controller's rights without one verb on one resource.
fn without(group: &str, resource: &str, verb: &str) -> String {
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(CONTROLLER).unwrap();
    for document in &mut documents {
        for rule in document.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            if !texts(rule, "apiGroups").contains(&group)
                || !texts(rule, "resources").contains(&resource)
            {
                continue;
            }
            // The others of the rule keep the verb.
            let (mut one, mut others) = (rule.clone(), rule.clone());
            one["resources"] = json!([resource]);
            one["verbs"].as_array_mut().unwrap().retain(|v| v != verb);
            others["resources"].as_array_mut().unwrap().retain(|r| r != resource);
            *rule = json!([one, others]);
        }
        if let Some(rules) = document.get_mut("rules").and_then(Value::as_array_mut) {
            let flat = rules.drain(..).flat_map(|rule| match rule {
                Value::Array(both) => both,
                one => vec![one],
            });
            let kept =
                flat.filter(|r| !texts(r, "resources").is_empty() && !texts(r, "verbs").is_empty());
            *rules = kept.collect();
        }
    }
    let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
    documents.join("\n---\n")
}

#[tokio::test]
async fn a_controller_without_a_right_asks_for_it_in_vain() {
    for (group, resource, verb) in [
        ("", "pods", "create"),
        ("codebutler.dev", "threads/status", "patch"),
        ("", "persistentvolumeclaims", "list"),
    ] {
        let mut world = World::without_definitions().await;
        if !world.cluster().is_embedded() {
            return;
        }
        let less = world.place.adapted(&without(group, resource, verb)).unwrap();
        world.cluster().apply_yaml(&less).await.unwrap();
        world.define().await;
        world.start_controller();
        world.create_repo().await;
        world.create_thread().await;
        world.mark("pm", json!({"inbox": MAIL[0]})).await;
        let what = format!("a refusal of {verb} {group}/{resource}");
        eventually(&what, || async {
            let asked = world.cluster().requests_of(&user(&world.place, "controller"));
            let refused = asked.iter().any(|(r, allowed)| {
                !allowed && r.verb == verb && r.group == group && r.resource == resource
            });
            refused.then_some(())
        })
        .await;
        tokio::time::timeout(Duration::from_secs(10), world.stop_controller()).await.unwrap();
    }
}
