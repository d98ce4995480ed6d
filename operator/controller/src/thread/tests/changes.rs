//! Slots, changes of what a pod is made from, and what clusters, people and time do to a Thread.

use super::volume::SourceClaim;
use codebutler_crds::Repo;
use codebutler_crds::prepared::{PreparedStatus, PreparedVolumes};
use codebutler_crds::wire::exit_code;

use super::*;

#[test]
fn without_a_slot_a_role_waits_and_its_place_is_told() {
    let mut world = ObservedThread { admission: only(&[], Some(2)), ..world() };
    let waiting = plan(&with_mail(), &world);
    assert_eq!((started(&waiting), ready(&waiting).0), (vec![], "Queued"));
    assert!(waiting.create_volume.is_none());
    assert_eq!(waiting.status.queue_position, Some(2));
    assert_eq!(waiting.status.waits.as_deref(), Some("slot"));
    assert!(condition::is_true(&waiting.status.conditions, condition::QUEUED));
    assert_eq!(waiting.notices[0].reason, "Queued");

    let thread = after(&with_mail(), &waiting);
    world.admission = only(&[], Some(1));
    let closer = plan(&thread, &world);
    assert_eq!((closer.notices.len(), closer.status.queue_position), (0, Some(1)));

    world.admission = only(&["pm"], None);
    let admitted = plan(&after(&thread, &closer), &world);
    assert_eq!((started(&admitted), admitted.status.queue_position), (vec!["pm"], None));
    assert!(!condition::is_true(&admitted.status.conditions, condition::QUEUED));
    assert_eq!(admitted.notices[0].reason, "Admitted");
}

#[test]
fn who_looks_at_threads_sees_for_whom_one_waits() {
    let waits = |status: Value| {
        let plan = plan(&testing::thread(&status), &world());
        (ready(&plan).0.to_owned(), plan.status.waits.clone())
    };
    let person = ("Asked".to_owned(), Some("person".to_owned()));
    let open = json!({"ts": MAIL, "hash": "aa", "role": "pm"});
    assert_eq!(waits(json!({"plan": open})), person);
    assert_eq!(waits(json!({"closing": {"ts": MAIL, "role": "lead"}})), person);
    let train = json!({"wanted": MAIL, "by": "U1", "proposal": {"ts": MAIL, "cars": []}});
    assert_eq!(waits(json!({"train": train})), person);
    let idle = ("Asleep".to_owned(), None);
    let approved = json!({"ts": MAIL, "hash": "aa", "role": "pm", "approvedBy": "U1"});
    assert_eq!(waits(json!({"plan": approved})), idle);
    assert_eq!(waits(json!({})), idle);
    let limit = json!({"ask": {"ts": MAIL, "limit": "perThread", "roles": ["pm"]}});
    assert_eq!(waits(json!({"budget": limit})).1.as_deref(), Some("budget"));
}

#[test]
fn a_question_of_codebutler_itself_is_named_where_people_look() {
    let item = json!({"id": "1", "hash": "h"});
    let roadmap = json!({"wanted": MAIL, "by": "U1", "proposal": {"ts": MAIL, "items": [item]}});
    let train = json!({"wanted": MAIL, "by": "U1", "proposal": {"ts": MAIL, "cars": []}});
    let half = json!({"part": 1, "asked": MAIL});
    let parts = json!({"asked": MAIL, "role": "pm", "approvedBy": "U1",
        "parts": [{"title": "a", "request": "b"}], "halves": [half]});
    for (status, reason, deed) in [
        (json!({"roadmap": roadmap}), "RoadmapAsked", "to start the roadmap"),
        (json!({"train": train}), "TrainAsked", "to start the merge train"),
        (json!({"split": parts}), "TakeBackAsked", "what becomes of a merged part"),
    ] {
        let plan = plan(&testing::thread(&status), &world());
        let mut told = plan.status.conditions.iter();
        let told = told.find(|c| c.type_ == condition::AWAITING_USER).unwrap();
        assert_eq!((told.status.as_str(), told.reason.as_str()), ("True", reason));
        assert!(told.message.contains(deed), "{}", told.message);
        assert!(ready(&plan).1.contains(deed), "{}", ready(&plan).1);
        assert_eq!(plan.status.waits.as_deref(), Some("person"));
    }
    let held = json!({"closing": {"ts": MAIL, "role": "lead"},
        "roles": {"lead": {"inbox": MAIL, "done": MAIL, "state": "Idle"}}});
    let plan = plan(&testing::thread(&held), &world());
    assert!(!condition::is_true(&plan.status.conditions, condition::AWAITING_USER));
    // A role that asked names what it asked.
    let asked = json!({"closing": {"ts": MAIL, "role": "lead"},
        "roles": {"lead": {"inbox": MAIL, "done": MAIL, "state": "Waiting"}}});
    let plan = self::plan(&testing::thread(&asked), &world());
    let told = plan.status.conditions.iter().find(|c| c.type_ == condition::AWAITING_USER).unwrap();
    assert_eq!(told.reason, "MergeAsked");
    assert!(told.message.starts_with("`lead` waits for people to decide"), "{}", told.message);
}

#[test]
fn a_roadmap_that_is_done_says_so() {
    let run = json!({"wanted": MAIL, "by": "U1", "approvedBy": "U1", "ended": "done",
        "items": [{"id": "1", "hash": "h"}]});
    let done = plan(&testing::thread(&json!({"roadmap": run})), &world());
    assert_eq!(ready(&done).0, "RoadmapDone");
}

#[test]
fn a_pod_that_takes_the_place_of_one_that_is_lost_is_told_as_that() {
    let begins = |roles: Value| {
        let plan = plan(&testing::thread(&json!({"roles": {"pm": roles}})), &world());
        plan.create_pods["pm"].begins
    };
    assert_eq!(begins(json!({"inbox": MAIL})), PodBegin::First);
    assert_eq!(begins(json!({"inbox": LATER, "done": MAIL, "state": "Idle"})), PodBegin::Woken);
    assert_eq!(begins(json!({"inbox": MAIL, "state": "Running"})), PodBegin::Replaced);
    assert_eq!(begins(json!({"inbox": MAIL, "failures": 1})), PodBegin::Replaced);
    assert_eq!(begins(json!({"inbox": MAIL, "podUID": "gone"})), PodBegin::Replaced);
}

#[test]
fn a_change_of_its_role_replaces_an_idle_pod_and_never_cuts_a_run() {
    let mut world = world();
    let at = |state: &str, done: &str| {
        testing::thread(&json!({"roles": {"pm": {
            "inbox": LATER, "done": done, "podUID": "a", "admitted": true, "state": state}}}))
    };
    world.volume = Some(claim(&at("Idle", LATER), "Bound"));
    world.pods = vec![pod(&at("Idle", LATER), "pm", "a", json!({"phase": "Running"}))];
    let mut role = testing::role("pm");
    role.spec.prompt = Some("Be brief.".to_owned());
    role.metadata.generation = Some(2);
    world.roles[0] = Arc::new(role);
    assert!(deleted(&plan(&at("Running", MAIL), &world)).is_empty(), "in a run");
    assert!(deleted(&plan(&at("Idle", MAIL), &world)).is_empty(), "about to run");
    let idle = plan(&at("Idle", LATER), &world);
    assert_eq!((deleted(&idle), idle.notices[0].reason), (vec!["a"], "Rolled"));

    // A change of settings that no pod is made from replaces none.
    let mut world = ObservedThread { roles: super::world().roles, ..world };
    let mut repo = testing::repo();
    repo.spec.limits.concurrent_runs = 2;
    repo.metadata.generation = Some(7);
    world.repo = Some(Arc::new(repo));
    assert!(deleted(&plan(&at("Idle", LATER), &world)).is_empty());
}

#[test]
fn suspending_a_repo_lets_a_run_end_and_then_takes_its_pod() {
    let mut repo = testing::repo();
    repo.spec.suspend = true;
    let mut world = ObservedThread { repo: Some(Arc::new(repo)), ..world() };
    let at = |state: &str| {
        testing::thread(&json!({"roles": {
            "pm": {"inbox": MAIL, "done": MAIL, "podUID": "a", "state": state}}}))
    };
    world.pods = vec![pod(&at("Idle"), "pm", "a", json!({"phase": "Running"}))];
    assert!(deleted(&plan(&at("Running"), &world)).is_empty());
    assert_eq!(deleted(&plan(&at("Idle"), &world)), ["a"]);
}

/// An agent that ended three seconds before [`testing::now`].
fn ended(code: u8) -> Value {
    json!({"phase": "Failed", "containerStatuses": [{
        "name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T11:59:57Z"}}}]})
}

#[test]
fn a_gateway_that_is_away_or_refuses_costs_no_attempt() {
    for (code, reason, named) in [
        (exit_code::GATEWAY_AWAY, "GatewayAway", "codebutler-gateway"),
        (exit_code::GATEWAY_REFUSED, "GatewayRefuses", "kubectl -n team logs"),
    ] {
        let thread = testing::thread(
            &json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a", "failures": 4}}}),
        );
        let mut world = world();
        world.pods = vec![pod(&thread, "pm", "a", ended(code))];
        let waiting = plan(&thread, &world);
        assert_eq!((ready(&waiting).0, deleted(&waiting)), (reason, vec![]));
        assert!(ready(&waiting).1.contains(named), "{}", ready(&waiting).1);
        assert_eq!(waiting.status.roles["pm"].failures, 4);
        let later = testing::now().saturating_add(SignedDuration::from_secs(20)).unwrap();
        assert_eq!(deleted(&plan_at(&thread, &world, later)), ["a"], "{reason}");
    }
}

#[test]
fn a_volume_that_can_not_be_written_is_told_at_once_and_tried_again_with_the_next_message() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let mut world = world();
    world.pods = vec![pod(&thread, "pm", "a", ended(exit_code::VOLUME_NOT_WRITABLE))];
    let stalled = plan(&thread, &world);
    assert!(condition::is_true(&stalled.status.conditions, condition::STALLED));
    assert_eq!((ready(&stalled).0, deleted(&stalled)), ("VolumeNotWritable", vec![]));
    assert!(ready(&stalled).1.contains("storageClassName"), "{}", ready(&stalled).1);
    let mut thread = after(&thread, &stalled);
    thread.status.as_mut().unwrap().roles.get_mut("pm").unwrap().inbox =
        Some(LATER.parse().unwrap());
    assert_eq!(deleted(&plan(&thread, &world)), ["a"]);
}

#[test]
fn a_node_that_can_not_confine_commands_is_told_with_its_kernel_and_not_tried_again() {
    let said = "its kernel 5.15.0-azure has no Landlock of version 2 or later: use another node";
    let thread =
        testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a", "sandbox": said}}}));
    let mut ended = (*pod(&thread, "pm", "a", ended(exit_code::NOT_CONFINED))).clone();
    ended.spec.as_mut().unwrap().node_name = Some("old-1".to_owned());
    let world = ObservedThread { pods: vec![Arc::new(ended)], ..world() };
    let stalled = plan(&thread, &world);
    assert!(condition::is_true(&stalled.status.conditions, condition::STALLED));
    assert_eq!((ready(&stalled).0, deleted(&stalled)), ("SandboxUnavailable", vec![]));
    assert!(ready(&stalled).1.contains("node `old-1`: its kernel 5.15.0-azure"));
    assert_eq!(stalled.again, None, "in no loop");
    let mut thread = after(&thread, &stalled);
    thread.status.as_mut().unwrap().roles.get_mut("pm").unwrap().inbox =
        Some(LATER.parse().unwrap());
    assert_eq!(deleted(&plan(&thread, &world)), ["a"]);
}

#[test]
fn an_eviction_is_no_failure() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let mut world = world();
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "containerStatuses": [{
        "name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 137, "finishedAt": "2026-01-01T11:59:57Z"}}}]});
    world.pods = vec![pod(&thread, "pm", "a", evicted)];
    let told = plan(&thread, &world);
    assert_eq!((pod_uid(&told, "pm"), told.status.roles["pm"].failures), (None, 0));
    assert_eq!((ready(&told).0, told.notices[0].reason), ("PodEvicted", "Evicted"));
    assert_eq!((deleted(&told), told.again), (vec![], Some(Duration::from_secs(2))));
    let later = testing::now().saturating_add(SignedDuration::from_secs(3)).unwrap();
    assert_eq!(deleted(&plan_at(&after(&thread, &told), &world, later)), ["a"]);
}

#[test]
fn nobody_is_asked_for_more_room_because_a_node_is_gone() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let evicted = |reason: &str, message: &str| {
        let status = json!({"phase": "Failed", "conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T11:59:57Z"}]});
        let pods = vec![pod(&thread, "pm", "a", status)];
        ready(&plan(&thread, &ObservedThread { pods, ..world() })).1.to_owned()
    };
    let gone = evicted("DeletionByPodGC", "PodGC: node no longer exists");
    assert!(gone.contains("(PodGC: node no longer exists); another one follows"), "{gone}");
    assert!(!gone.contains("workspace.resources"), "{gone}");
    let preempted = evicted("PreemptionByScheduler", "default-scheduler: preempting");
    assert!(preempted.contains("raise workspace.resources or priorityClassName"), "{preempted}");
}

#[test]
fn a_pod_without_a_node_gets_its_claim_again_when_somebody_deletes_that() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let seen = |phase: &str, volume: Option<&str>| {
        let pods = vec![pod(&thread, "pm", "a", json!({"phase": phase}))];
        let volume = volume.map(|phase| claim(&thread, phase));
        plan(&thread, &ObservedThread { volume, pods, ..world() }).create_volume.is_some()
    };
    assert!(seen("Pending", None));
    assert!(!seen("Pending", Some("Bound")));
    assert!(!seen("Running", None), "it has the volume that was there when it started");
}

#[test]
fn running_out_of_memory_is_told_with_what_to_do() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let mut status = crash();
    status["containerStatuses"][0]["state"]["terminated"]["reason"] = json!("OOMKilled");
    let pods = vec![pod(&thread, "pm", "a", status)];
    let told = plan(&thread, &ObservedThread { pods, ..world() });
    assert_eq!(ready(&told).0, "OutOfMemory");
    assert!(ready(&told).1.contains("workspace.resources"), "{}", ready(&told).1);
}

#[test]
fn a_lost_volume_is_made_again() {
    let thread = testing::thread(&json!({"roles": {"pm": {"inbox": MAIL, "podUID": "a"}}}));
    let mut world = world();
    world.volume = Some(claim(&thread, "Lost"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    let pods = plan(&thread, &world);
    assert_eq!((deleted(&pods), pods.delete_volume), (vec!["a"], false));
    assert_eq!((ready(&pods).0, pods.notices[0].reason), ("VolumeLost", "VolumeLost"));
    world.pods.clear();
    let volume = plan(&after(&thread, &pods), &world);
    assert_eq!((started(&volume), volume.delete_volume), (vec![], true));
    world.volume = None;
    let again = plan(&after(&thread, &volume), &world);
    assert_eq!((started(&again), again.create_volume.is_some()), (vec!["pm"], true));
}

#[test]
fn on_a_full_node_siblings_that_sleep_go_first() {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "done": MAIL, "podUID": "a", "state": "Waiting"},
        "coder": {"inbox": MAIL, "podUID": "b"}}}));
    let mut world = world();
    world.volume = Some(claim(&thread, "Bound"));
    let full = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 1 Insufficient memory, 2 didn't match affinity."}]});
    world.pods = vec![
        pod(&thread, "pm", "a", json!({"phase": "Running"})),
        pod(&thread, "coder", "b", full),
    ];
    assert_eq!(deleted(&plan(&thread, &world)), ["a"]);
    let mut busy = thread;
    busy.status.as_mut().unwrap().roles.get_mut("pm").unwrap().inbox = Some(LATER.parse().unwrap());
    assert!(deleted(&plan(&busy, &world)).is_empty(), "one that has something to do stays");
}

#[test]
fn a_volume_grows_with_its_repo_and_never_shrinks() {
    let thread = with_mail();
    let sized = |size: &str| {
        let mut repo = testing::repo();
        size.clone_into(&mut repo.spec.worktree.size);
        let volume = Some(claim(&thread, "Bound"));
        plan(&thread, &ObservedThread { repo: Some(Arc::new(repo)), volume, ..world() })
            .expand_volume
    };
    assert_eq!(sized("3Gi").as_deref(), Some("3Gi"));
    assert_eq!(
        (sized("2Gi"), sized("2048Mi"), sized("1T"), sized("1G")),
        (None, None, Some("1T".to_owned()), None)
    );
    let unexpanded = Some("the volume keeps its size: no".to_owned());
    let told = plan(
        &thread,
        &ObservedThread { unexpanded, volume: Some(claim(&thread, "Bound")), ..world() },
    );
    let worktree = told.status.conditions.iter().find(|c| c.type_ == condition::WORKTREE_READY);
    let worktree = worktree.unwrap();
    assert_eq!((worktree.status.as_str(), worktree.reason.as_str()), ("True", "NotExpanded"));
}

#[test]
fn a_volume_is_a_clone_only_of_one_that_is_asked_for_alike_and_can_be_cloned() {
    let mut repo = testing::repo();
    repo.spec.worktree.prepared = PreparedVolumes::Clone;
    assert_eq!(volume::find_source(&repo), None);
    let claim = Some("shop-prep-1".to_owned());
    let asked = Some(volume::describe_source(&repo));
    let prepared = PreparedStatus { claim: claim.clone(), asked, ..PreparedStatus::default() };
    repo.status.get_or_insert_default().prepared = Some(Box::new(prepared));
    assert_eq!(volume::find_source(&repo), claim.as_deref());
    let changed = |change: &dyn Fn(&mut Repo)| {
        let mut repo = repo.clone();
        change(&mut repo);
        volume::find_source(&repo).map(str::to_owned)
    };
    assert_eq!(changed(&|repo| repo.spec.worktree.size = "20Gi".to_owned()), None);
    assert_eq!(changed(&|repo| repo.spec.worktree.prepared = PreparedVolumes::None), None);
    let elsewhere = "https://git.example.com/other.git";
    assert_eq!(changed(&|repo| elsewhere.clone_into(&mut repo.spec.git.url)), None);
    let fails = |repo: &mut Repo| {
        let prepared = repo.status.as_mut().unwrap().prepared.as_mut().unwrap();
        prepared.failed.clone_from(&prepared.claim);
    };
    assert_eq!(changed(&fails), None);

    // From a snapshot, once that can be used, and never as a clone of what was made for one.
    let snapshot = |repo: &mut Repo| repo.spec.worktree.prepared = PreparedVolumes::Snapshot;
    let is_taken = |repo: &mut Repo| {
        let prepared = repo.status.as_mut().unwrap().prepared.as_mut().unwrap();
        prepared.snapshot.clone_from(&prepared.claim);
    };
    assert_eq!(changed(&snapshot), None);
    assert_eq!(changed(&is_taken), None);
    let both = |repo: &mut Repo| {
        snapshot(repo);
        is_taken(repo);
    };
    assert_eq!(changed(&both), claim);
}

#[test]
fn a_volume_is_restored_from_a_snapshot_by_its_api() {
    let source = SourceClaim { claim: "shop-prep-1".to_owned(), is_snapshot: true, size: None };
    let claim = volume::build_claim(&with_mail(), &testing::repo(), Some(&source));
    let source = claim.spec.unwrap().data_source.unwrap();
    assert_eq!(source.api_group.as_deref(), Some("snapshot.storage.k8s.io"));
    assert_eq!((source.kind.as_str(), source.name.as_str()), ("VolumeSnapshot", "shop-prep-1"));
}

#[test]
fn a_clone_is_no_smaller_than_the_volume_that_the_driver_made_for_its_source() {
    let sized = |size: Option<&str>| {
        let claim = "shop-prep-1".to_owned();
        let source = SourceClaim { claim, is_snapshot: false, size: size.map(str::to_owned) };
        let claim = volume::build_claim(&with_mail(), &testing::repo(), Some(&source));
        let requests = claim.spec.unwrap().resources.unwrap().requests.unwrap();
        requests["storage"].0.clone()
    };
    let asked = testing::repo().spec.worktree.size;
    assert_eq!(sized(Some("900Gi")), "900Gi");
    assert_eq!((sized(None), sized(Some("1Mi"))), (asked.clone(), asked));
}

#[test]
fn a_driver_is_asked_for_a_clone_once_its_pod_has_a_node() {
    let source = SourceClaim { claim: "shop-prep-1".to_owned(), is_snapshot: false, size: None };
    let claim = volume::build_claim(&with_mail(), &testing::repo(), Some(&source));
    let asked = |names: &[&str], lacks| {
        let mut claim = claim.clone();
        let added = names.iter().map(|name| ((*name).to_owned(), "x".to_owned()));
        claim.metadata.annotations.get_or_insert_default().extend(added);
        volume::is_being_cloned(&claim, lacks)
    };
    let (node, driver) =
        ("volume.kubernetes.io/selected-node", "volume.kubernetes.io/storage-provisioner");
    assert!(!asked(&[], false), "its pod has no node, or was refused");
    assert!(asked(&[driver], false) && asked(&[driver, node], true));
    assert!(!asked(&[driver], true), "the driver had no room on the node");
    let plain = volume::build_claim(&with_mail(), &testing::repo(), None);
    assert!(!volume::is_being_cloned(&plain, false));
}

#[test]
fn a_clone_that_is_not_made_in_time_is_followed_by_an_empty_volume() {
    let thread = with_mail();
    let source =
        Some(SourceClaim { claim: "shop-prep-1".to_owned(), is_snapshot: false, size: None });
    let first = plan(&thread, &ObservedThread { source: source.clone(), ..world() });
    let mut claim = first.create_volume.unwrap();
    let named = claim.spec.as_ref().unwrap().data_source.as_ref().unwrap();
    assert_eq!(
        (named.kind.as_str(), named.name.as_str()),
        ("PersistentVolumeClaim", "shop-prep-1")
    );
    claim.status = serde_json::from_value(json!({"phase": "Pending"})).unwrap();
    claim.metadata.creation_timestamp =
        serde_json::from_value(json!("2026-01-01T11:00:00Z")).unwrap();
    let seen = |cloning: Option<i64>| {
        let pods = vec![pod(&thread, "pm", "a", json!({"phase": "Pending"}))];
        let (volume, source) = (Some(Arc::new(claim.clone())), source.clone());
        let cloning_since = cloning.map(|ago| testing::now() - SignedDuration::from_secs(ago));
        plan(&thread, &ObservedThread { volume, source, cloning_since, pods, ..world() })
    };
    let early = seen(Some(30));
    let soon = early.again.is_some_and(|again| again <= Duration::from_secs(30));
    assert!(soon && !early.delete_volume);
    let late = seen(Some(60));
    assert_eq!((late.delete_volume, late.clone_failed.as_deref()), (true, Some("shop-prep-1")));
    let mut slow = testing::repo();
    slow.spec.worktree.clone_seconds = 300;
    let volume = Some(Arc::new(claim.clone()));
    let cloning_since = Some(testing::now() - SignedDuration::from_secs(200));
    let pods = vec![pod(&thread, "pm", "a", json!({"phase": "Pending"}))];
    let repo = Some(Arc::new(slow));
    let given = ObservedThread { repo, volume, cloning_since, pods, ..world() };
    let given = plan(&thread, &given);
    assert_eq!((given.delete_volume, given.clone_failed), (false, None), "it has more time");
    // However old the claim is: nobody was asked for the clone yet.
    let waits = seen(None);
    assert_eq!((waits.delete_volume, waits.clone_failed), (false, None));
}

#[test]
fn a_claim_that_is_being_deleted_is_let_go_by_pods_that_sleep() {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "done": MAIL, "podUID": "a", "state": "Idle"},
        "coder": {"inbox": MAIL}}}));
    let mut ending = PersistentVolumeClaim::clone(&claim(&thread, "Bound"));
    ending.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T11:59:50Z")).unwrap();
    let mut world = ObservedThread { volume: Some(Arc::new(ending)), ..world() };
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    let plan = plan(&thread, &world);
    assert_eq!((started(&plan), deleted(&plan)), (vec![], vec!["a"]));
}

#[test]
fn a_thread_that_nobody_needs_is_warned_of_and_then_due() {
    let mut thread = testing::thread(&json!({"lastActivity": "2025-12-30T11:00:00Z", "roles": {
        "pm": {"inbox": MAIL, "done": MAIL, "state": "Waiting"}}}));
    let collecting = |plan: &ThreadPlan| {
        let found = plan.status.conditions.iter().find(|c| c.type_ == condition::COLLECTING);
        found.map(|c| c.reason.clone())
    };
    let warned = plan(&thread, &world());
    assert_eq!(collecting(&warned).as_deref(), Some("Warned"));
    assert_eq!(warned.again, Some(Duration::from_hours(24)));
    assert_eq!(warned.notices[0].reason, "Collecting");
    let later = |hours| testing::now().saturating_add(SignedDuration::from_hours(hours)).unwrap();
    let warned_thread = after(&thread, &warned);
    let soon = plan_at(&warned_thread, &world(), later(23));
    assert_eq!((collecting(&soon).as_deref(), soon.notices.len()), (Some("Warned"), 0));
    let due = plan_at(&warned_thread, &world(), later(24));
    assert_eq!(collecting(&due).as_deref(), Some("Due"));

    // A new message ends the warning.
    let mut kept = warned_thread;
    kept.status.as_mut().unwrap().last_activity =
        serde_json::from_value(json!("2026-01-01T11:59:00Z")).unwrap();
    assert_eq!(collecting(&plan(&kept, &world())), None);
    // Neither is a Thread collected with an open pull request, or while the role that writes code is at work.
    let status = thread.status.as_mut().unwrap();
    status.pull_request =
        serde_json::from_value(json!({"number": 1, "url": "https://git.example/1"})).unwrap();
    assert_eq!(collecting(&plan(&thread, &world())), None);
    let status = thread.status.as_mut().unwrap();
    status.pull_request = None;
    status.active_role = Some("coder".to_owned());
    let mut world = world();
    let mut coder = testing::role("coder");
    coder.spec.push = Some(serde_json::from_value(json!({})).unwrap());
    world.roles[1] = Arc::new(coder);
    assert_eq!(collecting(&plan(&thread, &world)), None);
}
