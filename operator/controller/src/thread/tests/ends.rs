//! Ends that don't come, volumes that don't fit, and what people read of them.

use super::*;

fn condition_of<'a>(plan: &'a ThreadPlan, type_: &str) -> Option<(&'a str, &'a str)> {
    let found = plan.status.conditions.iter().find(|c| c.type_ == type_)?;
    Some((&found.status, &found.reason))
}

/// A pod or claim that should have gone two hours ago.
fn going<K: serde::de::DeserializeOwned + serde::Serialize>(object: &K) -> Arc<K> {
    let mut object = serde_json::to_value(object).unwrap();
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T10:00:00Z");
    object["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    Arc::new(serde_json::from_value(object).unwrap())
}

fn closed(status: &Value) -> Thread {
    let mut thread = testing::thread(status);
    thread.spec.state = ThreadState::Closed;
    thread
}

fn unschedulable(message: &str) -> Value {
    json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": "2026-01-01T11:00:00Z"}]})
}

#[test]
fn a_closed_thread_names_what_does_not_go() {
    let thread = closed(&json!({}));
    let pod = pod(&thread, "pm", "a", json!({"phase": "Running"}));
    let mut world = ObservedThread { pods: vec![going(&*pod)], ..world() };
    let stuck = plan(&thread, &world);
    assert_eq!(ready(&stuck).0, "PodNotEnding");
    assert!(ready(&stuck).1.contains("--force"), "{}", ready(&stuck).1);
    assert_eq!(condition_of(&stuck, "Finished"), Some(("False", "Closed")));
    world.pods.clear();
    world.volume = Some(going(&*claim(&thread, "Bound")));
    let stuck = plan(&thread, &world);
    assert_eq!(ready(&stuck).0, "VolumeNotEnding");
    assert!(ready(&stuck).1.contains("pvc-protection"), "{}", ready(&stuck).1);
}

#[test]
fn why_it_was_closed_stays_to_the_end() {
    let stalled = json!([{"type": "Stalled", "status": "True", "reason": "PodFailing",
        "message": "five pods failed", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let collected = json!([{"type": "Collecting", "status": "True", "reason": "Due", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let pull = json!({"number": 7, "url": "", "mergeCommit": "abc"});
    for (status, reason) in [
        (json!({"pullRequest": pull, "conditions": stalled}), "Merged"),
        (json!({"conditions": stalled}), "Failed"),
        (json!({"conditions": collected}), "Collected"),
        (json!({}), "Closed"),
    ] {
        let thread = closed(&status);
        let mut world = ObservedThread { volume: Some(claim(&thread, "Bound")), ..world() };
        let first = plan(&thread, &world);
        assert_eq!(condition_of(&first, "Finished"), Some(("False", reason)));
        world.volume = None;
        let thread = after(&thread, &first);
        let last = plan(&thread, &world);
        assert_eq!(condition_of(&last, "Finished"), Some(("True", reason)));
        let mut again = after(&thread, &last);
        again.spec.state = ThreadState::Active;
        assert_eq!(condition_of(&plan(&again, &world), "Finished"), None);
    }
}

#[test]
fn a_volume_outlives_its_repo_for_an_hour() {
    let thread = with_mail();
    let bound = Some(claim(&thread, "Bound"));
    let world = ObservedThread { repo: None, volume: bound, ..world() };
    let first = plan(&thread, &world);
    assert_eq!((ready(&first).0, first.delete_volume), ("RepoNotFound", false));
    assert!(ready(&first).1.contains("kept for an hour"), "{}", ready(&first).1);
    let thread = after(&thread, &first);
    let at = |minutes| testing::now() + SignedDuration::from_mins(minutes);
    assert!(!plan_at(&thread, &world, at(59)).delete_volume);
    let last = plan_at(&thread, &world, at(60));
    assert!(last.delete_volume && ready(&last).1.contains("is removed"), "{}", ready(&last).1);
}

#[test]
fn a_sibling_on_a_lost_node_is_named() {
    let thread = testing::thread(&json!({"roles": {"coder": {"inbox": MAIL, "podUID": "b"}}}));
    let lost = pod(&thread, "pm", "a", json!({"phase": "Running"}));
    let waits = unschedulable("0/5 nodes are available: 1 had untolerated taint, 4 didn't match");
    let waits = pod(&thread, "coder", "b", waits);
    let bound = Some(claim(&thread, "Bound"));
    let world = ObservedThread { pods: vec![going(&*lost), waits], volume: bound, ..world() };
    let stuck = plan(&thread, &world);
    assert_eq!(ready(&stuck).0, "PodNotEnding");
    let way_out = "kubectl -n team delete pod shop-1767268700-000100-pm";
    assert!(ready(&stuck).1.contains(way_out), "{}", ready(&stuck).1);
}

#[test]
fn a_claim_that_the_repo_does_not_want_any_more_is_made_again() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let waits = unschedulable("pod has unbound immediate PersistentVolumeClaims");
    let mut world = ObservedThread {
        pods: vec![pod(&thread, "pm", "a", waits)],
        volume: Some(claim(&thread, "Pending")),
        ..world()
    };
    let pending = plan(&thread, &world);
    assert_eq!((ready(&pending).0, pending.delete_volume), ("VolumePending", false));
    for part in ["`shop-1767268700-000100` of no StorageClass", "has no default one", "unbound"] {
        assert!(ready(&pending).1.contains(part), "{}", ready(&pending).1);
    }
    let mut repo = testing::repo();
    repo.spec.worktree.storage_class_name = Some("fast".to_owned());
    world.repo = Some(Arc::new(repo));
    let replaced = plan(&thread, &world);
    assert!(replaced.delete_volume && deleted(&replaced) == ["a"], "{replaced:?}");
    assert_eq!(ready(&replaced).0, "VolumeReplaced");
    // A bound volume may hold work, which is worth more than the new setting.
    world.volume = Some(claim(&thread, "Bound"));
    assert!(!plan(&thread, &world).delete_volume);
}

#[test]
fn a_suspended_repo_is_no_trouble_and_says_so() {
    let mut repo = testing::repo();
    repo.spec.suspend = true;
    let world = ObservedThread { repo: Some(Arc::new(repo)), ..world() };
    let held = plan(&with_mail(), &world);
    assert_eq!(condition_of(&held, "Ready"), Some(("True", "RepoSuspended")));
    assert_eq!(condition_of(&held, "Suspended"), Some(("True", "RepoSuspended")));
    let on = after(&with_mail(), &held);
    assert_eq!(condition_of(&plan(&on, &super::world()), "Suspended"), None);
}

#[test]
fn what_the_api_server_does_not_accept_is_told_in_its_words() {
    let refused =
        |refusal| plan(&with_mail(), &ObservedThread { refusal: Some(refusal), ..world() });
    let (kind, name) = ("Pod".to_owned(), "t-pm".to_owned());
    let message = "failed calling webhook \"v.kyverno.svc\": context deadline exceeded".to_owned();
    let down = refused(ApplyRefusal::NotAccepted { kind, name, message });
    assert_eq!((ready(&down).0, started(&down)), ("NotAccepted", vec![]));
    assert!(ready(&down).1.contains("v.kyverno.svc"), "{}", ready(&down).1);
    let (kind, name) = ("Pod".to_owned(), "t-pm".to_owned());
    let message = "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3".to_owned();
    let full = refused(ApplyRefusal::Rejected { kind, name, message });
    assert_eq!(condition_of(&full, "Reconciling"), Some(("True", "QuotaExceeded")));
}
