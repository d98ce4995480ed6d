//! Tests of slots: a slot is written before a run begins, and held until nothing can come of the run any more.

use super::*;

/// A Thread whose `pm` has a pod `a` and is as given.
fn thread(inbox: &str, state: &str, admitted: bool) -> Thread {
    let mut pm = json!({"inbox": inbox, "done": MAIL, "podUID": "a", "state": state});
    if admitted {
        pm["admitted"] = json!(true);
    }
    testing::thread(&json!({"roles": {"pm": pm}}))
}

fn awake(thread: &Thread, admission: RoleAdmission) -> ObservedThread {
    let pods = vec![pod(thread, "pm", "a", json!({"phase": "Running"}))];
    ObservedThread { volume: Some(claim(thread, "Bound")), pods, admission, ..world() }
}

fn admitted(plan: &ThreadPlan) -> bool {
    plan.status.roles["pm"].admitted
}

fn busy(plan: &ThreadPlan) -> Vec<&str> {
    plan.busy.iter().map(String::as_str).collect()
}

#[test]
fn a_pod_that_is_awake_waits_for_a_slot_like_any_other() {
    let mail = thread(LATER, "Idle", false);
    assert_eq!(busy(&plan(&mail, &awake(&mail, RoleAdmission::All))), ["pm"], "it asks");
    let waiting = plan(&mail, &awake(&mail, only(&[], Some(1))));
    assert_eq!((ready(&waiting).0, waiting.status.queue_position), ("Queued", Some(1)));
    assert!(!admitted(&waiting) && deleted(&waiting).is_empty());
    let turn = plan(&after(&mail, &waiting), &awake(&mail, only(&["pm"], None)));
    assert!(admitted(&turn) && turn.create_pods.is_empty());
    assert_eq!(turn.notices[0].reason, "Admitted");
}

#[test]
fn a_slot_is_given_with_the_pod_and_taken_when_all_is_done() {
    let started = plan(&with_mail(), &ObservedThread { admission: only(&["pm"], None), ..world() });
    assert!(admitted(&started));
    let running = thread(LATER, "Running", true);
    assert_eq!(busy(&plan(&running, &awake(&running, RoleAdmission::All))), ["pm"]);
    let ended = thread(MAIL, "Idle", true);
    assert!(busy(&plan(&ended, &awake(&ended, RoleAdmission::All))).is_empty());
    assert!(!admitted(&plan(&ended, &awake(&ended, only(&[], None)))));
}

#[test]
fn a_pod_on_its_way_out_keeps_its_slot_for_as_long_as_it_may_use_it() {
    let mut running = thread(LATER, "Running", true);
    let mut world = awake(&running, RoleAdmission::All);
    let mut ending = Pod::clone(&world.pods[0]);
    ending.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap();
    world.pods = vec![Arc::new(ending)];
    assert_eq!(busy(&plan(&running, &world)), ["pm"]);
    let lost = testing::now().saturating_add(SignedDuration::from_mins(3)).unwrap();
    assert!(busy(&plan_at(&running, &world, lost)).is_empty(), "its node does not answer");
    running.spec.state = ThreadState::Closed;
    assert_eq!(busy(&plan(&running, &world)), ["pm"]);
    // The pod is about to be deleted, but is not yet.
    let world = awake(&running, RoleAdmission::All);
    assert_eq!(busy(&plan(&running, &world)), ["pm"]);
}

#[test]
fn a_suspended_repo_gives_no_slots_and_takes_none_from_a_run() {
    let mut repo = testing::repo();
    repo.spec.suspend = true;
    let suspended = |thread: &Thread, admission| {
        let repo = Some(Arc::new(repo.clone()));
        plan(thread, &ObservedThread { repo, ..awake(thread, admission) })
    };
    let mail = thread(LATER, "Idle", false);
    let held = suspended(&mail, RoleAdmission::All);
    assert_eq!((busy(&held), deleted(&held)), (vec![], vec!["a"]));
    assert_eq!(ready(&held).0, "RepoSuspended");
    let running = suspended(&thread(LATER, "Running", true), only(&["pm"], None));
    assert_eq!((busy(&running), deleted(&running)), (vec!["pm"], vec![]));
}

#[test]
fn a_role_that_has_changed_is_replaced_while_it_waits_for_a_slot() {
    let mail = thread(LATER, "Idle", false);
    let mut world = awake(&mail, only(&[], Some(1)));
    let mut role = testing::role("pm");
    role.spec.prompt = Some("Be brief.".to_owned());
    world.roles[0] = Arc::new(role);
    assert_eq!(deleted(&plan(&mail, &world)), ["a"]);
}

#[test]
fn a_pod_that_can_not_start_gives_its_slot_to_others_after_a_minute() {
    let waiting = thread(LATER, "Idle", true);
    let unpulled = json!({"phase": "Pending", "initContainerStatuses": [{
        "name": "toolbox", "image": "debain:12", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    let world = ObservedThread {
        pods: vec![pod(&waiting, "pm", "a", unpulled)],
        ..awake(&waiting, RoleAdmission::All)
    };
    let soon = plan(&waiting, &world);
    assert_eq!((ready(&soon).0, busy(&soon)), ("ImageNotPulled", vec!["pm"]));
    // The pod was made half a minute before.
    assert_eq!(soon.again, Some(Duration::from_secs(30)));
    let later = testing::now().saturating_add(SignedDuration::from_secs(31)).unwrap();
    let given = plan_at(&waiting, &world, later);
    assert!(busy(&given).is_empty() && deleted(&given).is_empty());
    assert_eq!(ready(&given).0, "ImageNotPulled");
}
