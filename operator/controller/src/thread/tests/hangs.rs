//! Agents that say nothing any more, and those whose gateway serves their Repo no more.

use super::*;

fn running(since: &str) -> Value {
    json!({"phase": "Running", "containerStatuses": [{
        "name": "agent", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {"startedAt": since}}}]})
}

/// A role in a run whose agent `silent` the gateway has not heard for ten minutes.
fn hung(silent: &str, failures: u32) -> Thread {
    testing::thread(&json!({"roles": {"pm": {
        "inbox": MAIL, "podUID": "a", "admitted": true, "state": "Running", "failures": failures,
        "silent": {"pod": silent, "since": "2026-01-01T11:59:58Z", "seconds": 600}}}}))
}

fn seen(thread: &Thread, since: &str) -> ObservedThread {
    let pods = vec![pod(thread, "pm", "a", running(since))];
    ObservedThread { pods, volume: Some(claim(thread, "Bound")), ..world() }
}

#[test]
fn a_silent_agent_loses_its_identity_and_its_pod_is_replaced() {
    let thread = hung("a", 0);
    let world = seen(&thread, "2026-01-01T11:00:00Z");
    let first = plan(&thread, &world);
    assert_eq!((deleted(&first), pod_uid(&first, "pm")), (vec!["a"], None));
    assert_eq!((ready(&first).0, first.status.roles["pm"].failures), ("AgentHung", 1));
    assert!(ready(&first).1.contains("said nothing for 10 min"), "{}", ready(&first).1);
    assert_eq!(first.notices[0].reason, "AgentHung");

    // The process ended before it deleted: counted once.
    let again = plan(&after(&thread, &first), &world);
    assert_eq!((deleted(&again), again.status.roles["pm"].failures), (vec!["a"], 1));
    assert!(again.notices.is_empty());

    // While the pod is being deleted, the reason is still told.
    let mut going = (*world.pods[0]).clone();
    going.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T12:00:20Z")).unwrap();
    let world = ObservedThread { pods: vec![Arc::new(going)], ..world };
    assert_eq!(ready(&plan(&after(&thread, &first), &world)).0, "AgentHung");
}

#[test]
fn nobody_is_blamed_for_another_pods_silence_or_for_what_was_before_it_ran() {
    let thread = hung("b", 0);
    let other = plan(&thread, &seen(&thread, "2026-01-01T11:00:00Z"));
    assert_eq!((deleted(&other), ready(&other).0), (vec![], "Awake"));
    let thread = hung("a", 0);
    let young = plan(&thread, &seen(&thread, "2026-01-01T11:59:00Z"));
    assert_eq!((deleted(&young), pod_uid(&young, "pm")), (vec![], Some("a")));
    assert_eq!(young.again, Some(Duration::from_mins(9)));
}

#[test]
fn who_hangs_again_and_again_waits_for_a_person() {
    let thread = hung("a", 2);
    let world = seen(&thread, "2026-01-01T11:00:00Z");
    let third = plan(&thread, &world);
    assert!(condition::is_true(&third.status.conditions, condition::STALLED));
    assert_eq!((ready(&third).0, deleted(&third)), ("AgentHangs", vec![]));
    assert!(third.busy.is_empty(), "its place is free for others");
    assert!(ready(&third).1.contains("`kubectl -n team logs "), "{}", ready(&third).1);

    let mut thread = after(&thread, &third);
    thread.status.as_mut().unwrap().roles.get_mut("pm").unwrap().inbox =
        Some(LATER.parse().unwrap());
    let tried = plan(&thread, &world);
    assert_eq!((deleted(&tried), tried.status.roles["pm"].failures), (vec!["a"], 0));
}

#[test]
fn a_pod_that_was_told_another_shards_address_is_replaced_whatever_it_does() {
    let mut world = world();
    let running = testing::thread(&json!({"roles": {"pm": {
        "inbox": LATER, "done": MAIL, "podUID": "a", "admitted": true, "state": "Running"}}}));
    world.volume = Some(claim(&running, "Bound"));
    world.pods = vec![pod(&running, "pm", "a", json!({"phase": "Running"}))];
    assert!(deleted(&plan(&running, &world)).is_empty());
    let mut gateway = world.gateway.clone().unwrap();
    gateway.address.set_ip([10, 96, 0, 99].into());
    world.gateway = Ok(gateway.clone());
    assert!(deleted(&plan(&running, &world)).is_empty(), "a new Service never cuts a run");
    gateway.address.set_port(gateway.address.port() + 1);
    world.gateway = Ok(gateway);
    let moved = plan(&running, &world);
    assert_eq!((deleted(&moved), moved.notices[0].reason), (vec!["a"], "Rolled"));
}
