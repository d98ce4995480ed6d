//! Pods that find no node, and what an autoscaler says of it.

use super::*;
use crate::scale_up::ScaleUp;

const SAID: &str = "0/2 nodes are available: 2 Insufficient memory.";

/// A role whose pod has found no node since then.
fn stuck(since: &str) -> (Thread, ObservedThread) {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "podUID": "a", "admitted": true}}}));
    let status = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": since, "message": SAID}]});
    let pods = vec![pod(&thread, "pm", "a", status)];
    let world = ObservedThread { pods, volume: Some(claim(&thread, "Bound")), ..world() };
    (thread, world)
}

fn said(at: &str) -> ScaleUp {
    let said = "pod triggered scale-up: [{workers 1->2 (max: 4)}]".to_owned();
    ScaleUp::Announced { at: at.parse().unwrap(), said }
}

#[test]
fn nobody_is_asked_to_add_room_while_a_node_is_on_its_way() {
    let (thread, world) = stuck("2026-01-01T11:59:55Z");
    assert!(plan(&thread, &world).ask_events.is_empty(), "a scheduler gets its seconds first");

    let (thread, mut world) = stuck("2026-01-01T11:50:00Z");
    assert_eq!(plan(&thread, &world).ask_events, ["a".to_owned()].into());
    // Announced eight minutes ago: past the time that a cluster without an autoscaler gets.
    world.scale_ups = [("a".to_owned(), said("2026-01-01T11:52:00Z"))].into();
    let waits = plan(&thread, &world);
    assert_eq!(ready(&waits).0, "PodStarting");
    assert!(ready(&waits).1.contains("workers 1->2"), "{}", ready(&waits).1);
    assert!(waits.ask_events.is_empty() && waits.again.is_some());

    world.scale_ups = [("a".to_owned(), said("2026-01-01T11:49:00Z"))].into();
    let late = plan(&thread, &world);
    assert_eq!(ready(&late).0, "PodUnschedulable");
    assert!(ready(&late).1.contains("none has come"), "{}", ready(&late).1);
}

#[test]
fn an_autoscaler_that_adds_no_node_is_quoted_at_once() {
    let (thread, mut world) = stuck("2026-01-01T11:59:30Z");
    let why = "pod didn't trigger scale-up: 1 max node group size reached".to_owned();
    world.scale_ups = [("a".to_owned(), ScaleUp::Declined { said: why })].into();
    let told = plan(&thread, &world);
    assert_eq!(ready(&told).0, "PodUnschedulable");
    for part in
        ["max node group size reached", "Insufficient memory", "raise the autoscaler's limits"]
    {
        assert!(ready(&told).1.contains(part), "{part}: {}", ready(&told).1);
    }
    // Without an answer of an autoscaler it stays as before: three minutes.
    world.scale_ups = [("a".to_owned(), ScaleUp::Unknown)].into();
    assert_eq!(ready(&plan(&thread, &world)).0, "PodStarting");
}

/// As Kueue does with a pod whose `spec.pods.labels` name a queue.
#[test]
fn a_pod_that_a_queue_of_the_cluster_holds_back_is_no_trouble_and_keeps_no_slot() {
    let (thread, mut world) = stuck("2026-01-01T11:59:30Z");
    let mut held = (*world.pods[0]).clone();
    held.spec.as_mut().unwrap().scheduling_gates =
        serde_json::from_value(json!([{"name": "kueue.x-k8s.io/admission"}])).unwrap();
    let status = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "lastTransitionTime": "2026-01-01T11:59:30Z",
        "message": "Scheduling is blocked due to non-empty scheduling gates"}]});
    held.status = serde_json::from_value(status).unwrap();
    world.pods = vec![Arc::new(held)];
    let soon = plan(&thread, &world);
    assert!(soon.busy.contains("pm"), "it may be let go at once");
    let later = plan_at(&thread, &world, "2026-01-01T15:00:00Z".parse().unwrap());
    for (plan, reason) in [(&soon, "PodStarting"), (&later, "PodHeldBack")] {
        assert_eq!(ready(plan).0, reason, "told after some minutes");
        assert!(ready(plan).1.contains("`kueue.x-k8s.io/admission`"), "{}", ready(plan).1);
        assert!(deleted(plan).is_empty() && plan.ask_events.is_empty());
        assert!(condition::is_true(&plan.status.conditions, condition::RECONCILING));
    }
    assert!(later.busy.is_empty(), "others need not wait for it");
}

#[test]
fn a_pod_that_its_node_can_not_set_up_is_told_in_the_words_of_its_events() {
    let (thread, mut world) = stuck("2026-01-01T11:55:00Z");
    let status = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T11:55:00Z"}]});
    let mut placed = (*pod(&thread, "pm", "a", status)).clone();
    placed.metadata.creation_timestamp =
        serde_json::from_value(json!("2026-01-01T11:55:00Z")).unwrap();
    world.pods = vec![Arc::new(placed)];
    assert_eq!(plan(&thread, &world).ask_events, ["a".to_owned()].into());
    let told = |world: &mut ObservedThread, warning: Option<&str>| {
        world.warnings = [("a".to_owned(), warning.map(str::to_owned))].into();
        let plan = plan(&thread, world);
        assert!(plan.ask_events.is_empty() && plan.again.is_some());
        assert_eq!(ready(&plan).0, "PodNotStarted");
        ready(&plan).1.to_owned()
    };
    let plain = told(&mut world, None);
    assert!(plain.contains("for 120 s: see `kubectl"), "{plain}");
    let attached = "FailedAttachVolume: Multi-Attach error for volume \"pvc-1\"";
    let attached = told(&mut world, Some(attached));
    assert!(attached.contains("(FailedAttachVolume: Multi-Attach error"), "{attached}");
    let users = "FailedCreatePodSandBox: can't set `spec.hostUsers: false`, runtime does not support user namespaces";
    let users = told(&mut world, Some(users));
    assert!(users.contains("set hostUsers: true in agents.pods of the chart"), "{users}");
}

/// As where a device plugin of the only fitting node is broken.
#[test]
fn a_pod_that_its_node_turns_down_again_and_again_is_made_ever_more_seldom() {
    let rest = |since: &str| {
        let thread = testing::thread(&json!({
            "roles": {"pm": {"inbox": MAIL, "podUID": "a"}},
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodStarting", "message": "starts",
                            "lastTransitionTime": since}]}));
        let status = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError",
                            "message": "Allocate failed"});
        let mut refused = Pod::clone(&pod(&thread, "pm", "a", status));
        refused.metadata.creation_timestamp =
            serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap();
        let world = ObservedThread { pods: vec![Arc::new(refused)], ..world() };
        let plan = plan(&thread, &world);
        assert_eq!((ready(&plan).0, deleted(&plan)), ("PodEvicted", vec![]));
        plan.again.unwrap().as_secs()
    };
    assert_eq!(rest("2026-01-01T12:00:00Z"), 5);
    assert_eq!(rest("2026-01-01T11:56:00Z"), 30);
    assert_eq!(rest("2026-01-01T09:00:00Z"), 60);
}
