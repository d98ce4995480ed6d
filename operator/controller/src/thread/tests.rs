//! Tests of the decisions about a Thread, on plain values.

mod added;
mod changes;
mod ends;
mod hangs;
mod readers;
mod scale_up;
mod slots;
mod stranded;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Thread, condition};
use codebutler_runtime::apply::ApplyRefusal;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::desired::plan_thread;
use super::lineage::ThreadLineage;
use super::observe::{ObservedThread, RoleAdmission};
use super::plan::{PodBegin, ThreadPlan};
use super::{pod, security, volume};
use crate::gateway::GatewayAddress;
use crate::testing;

/// A minute before [`testing::now`].
const MAIL: &str = "1767268740.000100";
const LATER: &str = "1767268799.000100";

fn gateway() -> GatewayAddress {
    GatewayAddress {
        address: SocketAddr::from(([10, 96, 0, 7], 8443)),
        target_port: IntOrString::Int(8443),
    }
}

fn world() -> ObservedThread {
    ObservedThread {
        repo: Some(Arc::new(testing::repo())),
        roles: ["pm", "coder"].map(|name| Arc::new(testing::role(name))).into(),
        prepared: true,
        gateway: Ok(gateway()),
        serving: Ok(()),
        lineage: ThreadLineage::Sound,
        volume: None,
        source: None,
        cloning_since: None,
        pods: Vec::new(),
        seats: Vec::new(),
        admission: RoleAdmission::All,
        refusal: None,
        home: None,
        scale_ups: [].into(),
        warnings: [].into(),
        unexpanded: None,
        rewritten: Vec::new(),
    }
}

fn with_mail() -> Thread {
    testing::thread(&json!({"roles": {"pm": {"inbox": MAIL}}}))
}

/// The pod that would be made for a role now, with a UID and a status.
fn pod(thread: &Thread, role: &str, uid: &str, status: Value) -> Arc<Pod> {
    let (repo, role) = (testing::repo(), testing::role(role));
    let input = pod::PodInput {
        owner: pod::PodOwner::Thread(thread),
        repo: &repo,
        role: &role,
        gateway: &gateway(),
        args: &testing::args(),
        user: security::USER,
    };
    let mut pod = input.build();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.creation_timestamp =
        serde_json::from_value(json!("2026-01-01T11:59:30Z")).unwrap();
    pod.status = Some(serde_json::from_value(status).unwrap());
    Arc::new(pod)
}

/// Failed three seconds before [`testing::now`].
fn crash() -> Value {
    json!({"phase": "Failed", "containerStatuses": [{
        "name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T11:59:57Z"}}}]})
}

fn claim(thread: &Thread, phase: &str) -> Arc<PersistentVolumeClaim> {
    let mut claim = volume::build_claim(thread, &testing::repo(), None);
    claim.status = Some(serde_json::from_value(json!({"phase": phase})).unwrap());
    Arc::new(claim)
}

fn plan(thread: &Thread, observed: &ObservedThread) -> ThreadPlan {
    plan_at(thread, observed, testing::now())
}

fn plan_at(thread: &Thread, observed: &ObservedThread, now: Timestamp) -> ThreadPlan {
    plan_thread(thread, observed, &testing::args(), now)
}

fn ready(plan: &ThreadPlan) -> (&str, &str) {
    let ready = plan.status.conditions.iter().find(|c| c.type_ == condition::READY).unwrap();
    (&ready.reason, &ready.message)
}

fn started(plan: &ThreadPlan) -> Vec<&str> {
    plan.create_pods.keys().map(String::as_str).collect()
}

fn deleted(plan: &ThreadPlan) -> Vec<&str> {
    plan.delete_pods.iter().map(|pod| pod.uid.as_str()).collect()
}

fn pod_uid<'a>(plan: &'a ThreadPlan, role: &str) -> Option<&'a str> {
    plan.status.roles[role].pod_uid.as_deref()
}

/// The Thread as it is once a plan is carried out.
fn after(thread: &Thread, plan: &ThreadPlan) -> Thread {
    let mut status = serde_json::to_value(thread.status.clone().unwrap_or_default()).unwrap();
    let patch = plan.status.patch(&thread.status.clone().unwrap_or_default());
    json_patch::merge(&mut status, &patch.unwrap_or(json!({})));
    Thread { status: Some(serde_json::from_value(status).unwrap()), ..thread.clone() }
}

/// Only these roles have a slot.
fn only(roles: &[&str], position: Option<u32>) -> RoleAdmission {
    RoleAdmission::Only { roles: roles.iter().map(|role| (*role).to_owned()).collect(), position }
}

#[test]
fn mail_makes_a_volume_and_a_pod() {
    insta::assert_yaml_snapshot!("mail", plan(&with_mail(), &world()));
}

#[test]
fn a_pod_that_was_made_but_not_registered_is_registered() {
    let thread = with_mail();
    let mut world = world();
    world.volume = Some(claim(&thread, "Bound"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    let plan = plan(&thread, &world);
    assert_eq!((started(&plan), pod_uid(&plan, "pm")), (vec![], Some("a")));
    assert_eq!(ready(&plan).0, "Awake");
}

#[test]
fn what_is_in_order_is_left_alone() {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "done": MAIL, "podUID": "a", "state": "Idle"}}}));
    let mut world = world();
    world.volume = Some(claim(&thread, "Bound"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    let first = plan(&thread, &world);
    let second = plan(&after(&thread, &first), &world);
    assert_eq!(second.status.patch(&after(&thread, &first).status.unwrap()), None);
    assert_eq!(second.again, Some(Duration::from_hours(48)), "when it would be collected");
    assert!(second.notices.is_empty() && second.delete_pods.is_empty());
}

#[test]
fn a_burst_is_gathered_but_a_click_is_not() {
    let mut thread = testing::thread(&json!({"roles": {"pm": {"inbox": LATER}}}));
    let first = plan(&thread, &world());
    assert_eq!((started(&first), ready(&first).0), (vec![], "Gathering"));
    assert!(first.again.unwrap() < Duration::from_secs(3));
    let later = testing::now().saturating_add(SignedDuration::from_secs(3)).unwrap();
    assert_eq!(started(&plan_at(&thread, &world(), later)), ["pm"]);

    // Slack's clock far ahead of ours must not hold a role back.
    let before = testing::now().saturating_sub(SignedDuration::from_secs(3600)).unwrap();
    assert_eq!(started(&plan_at(&thread, &world(), before)), ["pm"]);

    let click = json!([{"id": "c1", "role": "pm", "kind": "plan", "choice": "approve",
                        "user": "U1", "message": MAIL}]);
    thread.status.as_mut().unwrap().pending = serde_json::from_value(click).unwrap();
    assert_eq!(started(&plan(&thread, &world())), ["pm"]);
}

#[test]
fn a_second_role_joins_on_the_same_volume() {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "podUID": "a", "state": "Running"},
        "coder": {"inbox": MAIL}}}));
    let mut world = world();
    world.volume = Some(claim(&thread, "Bound"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    let plan = plan(&thread, &world);
    assert_eq!(started(&plan), ["coder"]);
    assert!(plan.create_volume.is_none());
    assert_eq!(plan.status.active_role.as_deref(), Some("pm"));
    assert_eq!(plan.status.phase.as_deref(), Some("pm"));
}

#[test]
fn a_pod_with_nothing_left_to_do_goes_and_mail_wakes_its_role_again() {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "done": MAIL, "podUID": "a", "state": "Idle", "failures": 2}}}));
    let mut world = world();
    world.volume = Some(claim(&thread, "Bound"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Succeeded"}))];
    let asleep = plan(&thread, &world);
    assert_eq!((deleted(&asleep), pod_uid(&asleep, "pm")), (vec!["a"], None));
    assert_eq!(asleep.status.roles["pm"].failures, 0);
    assert_eq!(asleep.notices[0].reason, "Suspended");

    world.pods.clear();
    let mut woken = after(&thread, &asleep);
    woken.status.as_mut().unwrap().roles.get_mut("pm").unwrap().inbox =
        Some("1767268750.000000".parse().unwrap());
    let plan = plan(&woken, &world);
    assert_eq!(plan.create_pods["pm"].begins, PodBegin::Woken);
    assert!(plan.create_volume.is_none());
}

#[test]
fn a_pod_that_vanished_is_verified_before_it_is_forgotten() {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "done": MAIL, "podUID": "a"}}}));
    let plan = plan(&thread, &world());
    assert_eq!(plan.verify_gone["pm"].uid, "a");
    assert_eq!(pod_uid(&plan, "pm"), None);
}

#[test]
fn a_failure_is_counted_once_and_retried_later_and_later() {
    let mut thread =
        testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a", "failures": 1}}}));
    let mut world = world();
    world.pods = vec![pod(&thread, "pm", "a", crash())];
    let counted = plan(&thread, &world);
    assert_eq!(counted.status.roles["pm"].failures, 2);
    assert_eq!(pod_uid(&counted, "pm"), None);
    assert_eq!(counted.notices[0].reason, "PodFailed");
    assert!(counted.notices[0].note.contains("exit code 1"), "{:?}", counted.notices);
    // Failed 3 s ago, and 3 s is what a second failure costs.
    assert_eq!(deleted(&counted), ["a"]);

    // A crash after counting and before deleting: not counted again.
    thread = after(&thread, &counted);
    let again = plan(&thread, &world);
    assert_eq!(again.status.roles["pm"].failures, 2);
    assert_eq!((deleted(&again), again.notices.len()), (vec!["a"], 0));

    thread.status.as_mut().unwrap().roles.get_mut("pm").unwrap().failures = 3;
    let waiting = plan(&thread, &world);
    assert_eq!((deleted(&waiting), waiting.again), (vec![], Some(Duration::from_secs(6))));
    assert_eq!(ready(&waiting).0, "PodFailed");
}

#[test]
fn after_five_failures_a_person_is_asked_until_something_moves() {
    let mut thread =
        testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a", "failures": 4}}}));
    let mut world = world();
    world.pods = vec![pod(&thread, "pm", "a", crash())];
    let stalled = plan(&thread, &world);
    assert!(condition::is_true(&stalled.status.conditions, condition::STALLED));
    assert_eq!((ready(&stalled).0, deleted(&stalled)), ("PodFailing", vec![]));
    assert!(ready(&stalled).1.contains("`kubectl -n team logs "), "{}", ready(&stalled).1);
    let told: Vec<_> = stalled.notices.iter().map(|notice| notice.reason).collect();
    assert_eq!(told, ["PodFailed", "PodFailing"]);

    thread = after(&thread, &stalled);
    let still = plan(&thread, &world);
    assert_eq!((deleted(&still), still.notices.len(), still.again), (vec![], 0, None));

    let mut corrected = world.clone();
    let mut role = testing::role("pm");
    role.spec.workspace.image = Some("debian:13".to_owned());
    corrected.roles[0] = Arc::new(role);
    assert_eq!(deleted(&plan(&thread, &corrected)), ["a"]);

    thread.status.as_mut().unwrap().roles.get_mut("pm").unwrap().inbox =
        Some(LATER.parse().unwrap());
    let moved = plan(&thread, &world);
    assert_eq!((deleted(&moved), moved.status.roles["pm"].failures), (vec!["a"], 0));
}

#[test]
fn an_ended_run_forgives_earlier_failures() {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "done": MAIL, "podUID": "a", "failures": 3}}}));
    let mut world = world();
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    assert_eq!(plan(&thread, &world).status.roles["pm"].failures, 0);
}

#[test]
fn a_pod_that_cannot_start_is_told_of_and_replaced_once_its_cause_is_corrected() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let mut world = world();
    world.pods = vec![pod(
        &thread,
        "pm",
        "a",
        json!({"phase": "Pending", "initContainerStatuses": [{
        "name": "toolbox", "image": "debain:12", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
    )];
    let told = plan(&thread, &world);
    assert_eq!((ready(&told).0, deleted(&told)), ("ImageNotPulled", vec![]));
    assert!(told.notices[0].warning && told.notices[0].note.contains("workspace.image"));
    let mut role = testing::role("pm");
    role.spec.workspace.image = Some("debian:12".to_owned());
    world.roles[0] = Arc::new(role);
    assert_eq!(deleted(&plan(&thread, &world)), ["a"]);
}

#[test]
fn a_pod_that_does_not_go_is_told_of() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let mut ending = Pod::clone(&pod(&thread, "pm", "a", json!({"phase": "Running"})));
    ending.spec.as_mut().unwrap().node_name = Some("n1".to_owned());
    let mut at = |time: &str| {
        ending.metadata.deletion_timestamp = serde_json::from_value(json!(time)).unwrap();
        let pods = vec![Arc::new(ending.clone())];
        plan(&thread, &ObservedThread { pods, ..world() })
    };
    let plan = at("2026-01-01T11:59:50Z");
    assert_eq!((ready(&plan).0, plan.again), ("PodEnding", Some(Duration::from_secs(50))));
    assert_eq!((deleted(&plan), pod_uid(&plan, "pm")), (vec![], Some("a")));
    let plan = at("2026-01-01T11:58:50Z");
    assert!(ready(&plan).0 == "PodNotEnding" && ready(&plan).1.contains("--force"));
    let taint = "kubectl taint node n1 node.kubernetes.io/out-of-service";
    assert!(ready(&plan).1.contains(taint), "{}", ready(&plan).1);
}

#[test]
fn a_deleted_thread_loses_its_pods_at_once_and_waits_two_minutes_for_its_farewell() {
    let mut thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    thread.metadata.finalizers = Some(vec!["codebutler.dev/cleanup".to_owned()]);
    let mut at = |time: &str| {
        thread.metadata.deletion_timestamp = serde_json::from_value(json!(time)).unwrap();
        let pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
        plan(&thread, &ObservedThread { pods, ..world() })
    };
    let early = at("2026-01-01T11:58:30Z");
    assert_eq!((deleted(&early), early.release), (vec!["a"], false));
    assert_eq!(early.again, Some(Duration::from_secs(30)));
    assert!(at("2026-01-01T11:58:00Z").release);
    // Somebody else's finalizer is not ours to take off.
    thread.metadata.finalizers = Some(vec!["example.org/keep".to_owned()]);
    let plan = plan(&thread, &world());
    assert_eq!((plan.release, plan.again), (false, None));
}

#[test]
fn a_prompt_is_not_ready_before_its_conversation_is_opened() {
    let mut thread = testing::thread(&json!({}));
    thread.spec.slack = None;
    thread.spec.prompt = Some("do it".to_owned());
    assert_eq!(ready(&plan(&thread, &world())).0, "Opening");
    let waits = json!({"conditions": [{"type": "Opened", "status": "False", "reason": "RepoNotReady",
        "message": "no Secret", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    thread.status = serde_json::from_value(waits).unwrap();
    assert_eq!(ready(&plan(&thread, &world())), ("NotOpened", "no Secret"));
    let opened = json!({"slack": {"channel": "C0123", "ts": MAIL}});
    thread.status = serde_json::from_value(opened).unwrap();
    assert_eq!(ready(&plan(&thread, &world())).0, "Asleep");
}

#[test]
fn without_its_repo_a_thread_stalls_and_its_pods_go() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let mut world = world();
    world.repo = None;
    world.roles.clear();
    world.volume = Some(claim(&thread, "Bound"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    let plan = plan(&thread, &world);
    assert_eq!((ready(&plan).0, deleted(&plan)), ("RepoNotFound", vec!["a"]));
    assert!(!plan.delete_volume, "work is kept");
    assert_eq!(plan.notices[0].reason, "RepoNotFound");
}

#[test]
fn a_role_that_left_the_repo_loses_its_pod_and_its_mail_is_told_of() {
    let thread = testing::thread(&json!({"roles": {"artist": {"inbox": MAIL, "podUID": "a"}}}));
    let mut world = world();
    world.pods = vec![pod(&thread, "artist", "a", json!({"phase": "Running"}))];
    let plan = plan(&thread, &world);
    assert_eq!((ready(&plan).0, deleted(&plan)), ("RoleNotFound", vec!["a"]));
}

#[test]
fn a_suspended_repo_starts_nothing() {
    let mut repo = testing::repo();
    repo.spec.suspend = true;
    let world = ObservedThread { repo: Some(Arc::new(repo)), ..world() };
    let plan = plan(&with_mail(), &world);
    assert_eq!((started(&plan), ready(&plan).0), (vec![], "RepoSuspended"));
    assert!(plan.create_volume.is_none());
}

#[test]
fn nothing_starts_before_the_repos_fence_stands() {
    let plan = plan(&with_mail(), &ObservedThread { prepared: false, ..world() });
    assert_eq!((started(&plan), ready(&plan).0), (vec![], "RepoNotPrepared"));
}

#[test]
fn a_foreign_volume_is_never_adopted() {
    let (kind, name) = ("PersistentVolumeClaim".to_owned(), "shop-1".to_owned());
    let refusal = Some(ApplyRefusal::NameTaken { kind, name });
    let plan = plan(&with_mail(), &ObservedThread { refusal, ..world() });
    assert_eq!((started(&plan), plan.create_volume.is_some()), (vec![], false));
    assert_eq!(ready(&plan).0, "NameTaken");
    assert!(condition::is_true(&plan.status.conditions, condition::STALLED));
}

#[test]
fn a_limit_in_the_way_is_a_condition_that_says_what_to_do() {
    let ask = json!({"ts": "5.000000", "limit": "perThread", "roles": ["pm"], "cap": "1.00"});
    let asked = plan(&testing::thread(&json!({"budget": {"ask": ask}})), &world());
    let told = asked.status.conditions.iter().find(|c| c.type_ == condition::BUDGET_EXCEEDED);
    let told = told.unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("True", "LimitReached"));
    assert!(told.message.contains("perThread of Repo `shop`"), "{}", told.message);
    assert!(told.message.contains("answer in the Slack thread"), "{}", told.message);
    let ask = json!({"ts": "5.000000", "limit": "personPerDay", "roles": ["pm"], "of": "U1"});
    let paused = plan(&testing::thread(&json!({"budget": {"ask": ask}})), &world());
    let told = paused.status.conditions.iter().find(|c| c.type_ == condition::BUDGET_EXCEEDED);
    let told = &told.unwrap().message;
    assert!(told.contains("goes on by itself") && !told.contains("Slack"), "{told}");
    let conditions = json!({"conditions": asked.status.conditions, "budget": {"raised": "1.00"}});
    let answered = plan(&testing::thread(&conditions), &world());
    assert!(!condition::is_true(&answered.status.conditions, condition::BUDGET_EXCEEDED));
}

#[test]
fn a_role_that_asked_and_has_no_mail_waits_for_a_person() {
    let asked = json!({"pm": {"inbox": MAIL, "done": MAIL, "state": "Waiting"}});
    let awaits = |roles: &Value| {
        let plan = plan(&testing::thread(&json!({"roles": roles})), &world());
        condition::is_true(&plan.status.conditions, condition::AWAITING_USER)
    };
    assert!(awaits(&asked));
    let mut coder_has_mail = asked;
    coder_has_mail["coder"] = json!({"inbox": MAIL});
    assert!(!awaits(&coder_has_mail));
}

#[test]
fn closing_removes_pods_then_the_volume_then_says_so() {
    let mut thread = testing::thread(&json!({"phase": "lead", "roles": {
        "pm": {"inbox": LATER, "podUID": "a"}}}));
    thread.spec.state = ThreadState::Closed;
    let mut world = world();
    world.volume = Some(claim(&thread, "Bound"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    let pods = plan(&thread, &world);
    assert_eq!((deleted(&pods), pods.delete_volume), (vec!["a"], false));
    assert_eq!((started(&pods), pods.status.phase.as_deref()), (vec![], Some("closed")));
    assert_eq!(pod_uid(&pods, "pm"), Some("a"), "while it ends, it can still be told why");

    thread = after(&thread, &pods);
    world.pods.clear();
    let volume = plan(&thread, &world);
    assert_eq!((pod_uid(&volume, "pm"), volume.delete_volume), (None, true));

    thread = after(&thread, &volume);
    world.volume = None;
    let done = plan(&thread, &world);
    assert_eq!((ready(&done).0, done.notices[0].reason), ("Closed", "Closed"));
    thread = after(&thread, &done);
    let rest = plan(&thread, &world);
    assert!(rest.notices.is_empty() && rest.status.patch(&thread.status.unwrap()).is_none());
}
