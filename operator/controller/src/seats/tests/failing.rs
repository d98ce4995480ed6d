//! Seats that fail, do not start, or get no clone.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Lot, failed, running, said};
use crate::seat_memory::SeatMemory;

#[test]
fn a_seat_that_fails_is_kept_for_its_log_and_not_made_again_at_once() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.settle();
    lot.seat_is(failed(lot.now - SignedDuration::from_secs(3)));
    let plan = lot.plan();
    assert_eq!((plan.create.len(), plan.delete.len()), (0, 0));
    let (status, reason, message) = said(&plan);
    assert_eq!((status, reason), ("False", "SeatFailed"));
    assert!(message.contains("kubectl -n team logs"), "{message}");
    lot.later(SignedDuration::from_secs(60));
    let plan = lot.plan();
    assert_eq!((plan.create.len(), plan.delete.len()), (1, 1));
}

#[test]
fn seats_that_go_on_failing_are_made_ever_later_until_something_is_changed() {
    let mut lot = Lot { clones: false, ..Lot::new(json!({"seats": 1})) };
    lot.settle();
    for minutes in [1, 2, 4, 8, 16, 30, 30] {
        lot.seat_is(failed(lot.now));
        assert_eq!((lot.minutes_until_next_look(), lot.plan().create.len()), (minutes, 0));
        let plan = lot.plan();
        assert_eq!((said(&plan).1, plan.delete.len()), ("SeatFailed", 0), "its log is kept");
        lot.later(SignedDuration::from_mins(i64::try_from(minutes).unwrap()));
        lot.settle();
        assert_eq!(lot.pods.len(), 1);
    }
    lot.seat_is(failed(lot.now));
    assert_eq!(lot.plan().create.len(), 0);
    lot.repo.spec.git.branch = "trunk".to_owned();
    lot.repo.metadata.generation = Some(2);
    assert_eq!(lot.plan().create.len(), 1, "tried at once");

    // A seat that gets ready resets the backoff.
    lot.settle();
    lot.seat_is(failed(lot.now));
    lot.later(SignedDuration::from_mins(1));
    lot.clones = true;
    lot.settle();
    lot.seat_is(failed(lot.now));
    assert_eq!(lot.minutes_until_next_look(), 1);
}

#[test]
fn a_seat_has_time_to_start_from_when_it_has_a_node() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.settle();
    let pending = |scheduled: &str, at: Timestamp| {
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": scheduled,
            "reason": "Unschedulable", "lastTransitionTime": at.to_string()}]})
    };
    // An autoscaler adds a node, which then pulls large images.
    lot.seat_is(pending("False", lot.now));
    lot.later(SignedDuration::from_mins(12));
    assert_eq!(lot.plan().delete.len(), 0);
    lot.seat_is(pending("True", lot.now));
    lot.later(SignedDuration::from_mins(9));
    assert_eq!(lot.plan().delete.len(), 0);
    lot.later(SignedDuration::from_mins(1));
    let plan = lot.plan();
    assert_eq!((plan.delete.len(), plan.create.len()), (1, 0), "not made again at once");
    let (_, reason, message) = said(&plan);
    assert!(reason == "SeatFailed" && message.contains("did not start within 10 min"), "{message}");
    lot.follow(plan);
    let plan = lot.plan();
    assert!(said(&plan).2.contains("did not start"), "it is remembered");
    lot.later(SignedDuration::from_mins(1));
    assert_eq!(lot.plan().create.len(), 1);
}

#[test]
fn a_seat_without_a_clone_is_not_ready_and_is_told_after_a_while() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.settle();
    lot.seat_is(running(false, lot.now));
    let plan = lot.plan();
    assert_eq!((said(&plan).1, plan.status.ready), ("SeatsStarting", 0));
    assert_eq!(plan.again.unwrap().as_secs(), 300);
    lot.later(SignedDuration::from_mins(5));
    let plan = lot.plan();
    let (status, reason, message) = said(&plan);
    assert_eq!((status, reason, plan.notices.len()), ("False", "SeatFailed", 1));
    assert!(message.contains("clone") && message.contains("kubectl -n team logs"), "{message}");
    assert!(!message.contains("  "), "{message}");
    assert_eq!((plan.delete.len(), plan.create.len()), (0, 0), "it goes on trying");
    lot.follow(plan);
    // The seat holds room on a node for nobody.
    let since = lot.now - SignedDuration::from_mins(30);
    lot.seat_is(running(false, since));
    let plan = lot.plan();
    assert_eq!((plan.delete.len(), plan.create.len()), (1, 0), "not made again at once");
    assert!(
        said(&plan).2.contains("no clone of the base branch within 30 min"),
        "{}",
        said(&plan).2
    );
    lot.seat_is(running(true, since));
    assert_eq!(said(&lot.plan()).1, "SeatsReady");
}

#[test]
fn a_seat_that_the_kubelet_ended_without_a_clone_was_not_evicted() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.settle();
    let since = lot.now - SignedDuration::from_mins(35);
    let ended = |taken_away: bool| {
        let disruption = if taken_away { "True" } else { "False" };
        json!({"phase": "Failed",
            "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": since.to_string()},
                {"type": "DisruptionTarget", "status": disruption}],
            "containerStatuses": [{"name": "agent", "image": "i", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": {"exitCode": 143,
                    "finishedAt": lot.now.to_string()}}}]})
    };
    let (ended, evicted) = (ended(false), ended(true));
    lot.seat_is(ended);
    assert!(said(&lot.plan()).2.contains("no clone"), "{}", said(&lot.plan()).2);
    lot.memory = SeatMemory::default();
    lot.seat_is(evicted);
    assert!(!said(&lot.plan()).2.contains("no clone"), "{}", said(&lot.plan()).2);
}

#[test]
fn a_seat_that_failed_takes_no_place_from_one_that_did_not() {
    let mut lot = Lot::new(json!({"seats": 1, "max": 3}));
    lot.begun = 1;
    lot.settle();
    assert_eq!(lot.pods.len(), 2);
    lot.later(SignedDuration::from_mins(1));
    lot.seat_is(failed(lot.now));
    let (corpse, plan) = (lot.first(), lot.plan());
    assert_eq!((plan.delete.len(), plan.create.len()), (0, 0), "its log is kept");
    lot.follow(plan);
    lot.begun = 0;
    let plan = lot.plan();
    assert_eq!((&plan.delete, plan.create.len()), (&vec![corpse.clone()], 0));
    assert_eq!((said(&plan).1, plan.status.ready), ("SeatsReady", 1));

    // The failed pod is kept no longer where no seats are wanted.
    lot.begun = 1;
    lot.waits = true;
    assert!(lot.plan().delete.contains(&corpse) && lot.plan().delete.len() == 2);
    lot.waits = false;
    lot.repo.spec.suspend = true;
    assert!(lot.plan().delete.contains(&corpse));
}

#[test]
fn a_seat_that_was_taken_is_followed_by_another_one_whatever_became_of_the_others() {
    let mut lot = Lot::new(json!({"seats": 2}));
    lot.settle();
    lot.later(SignedDuration::from_mins(1));
    lot.seat_is(failed(lot.now));
    lot.settle();
    // The healthy one.
    lot.pods.remove(1);
    let plan = lot.plan();
    assert_eq!((plan.create.len(), plan.delete.len()), (1, 0), "in its place, and not in both");
}

#[test]
fn a_seat_that_the_cluster_took_away_says_nothing_against_the_next_one() {
    let mut lot = Lot { clones: false, ..Lot::new(json!({"seats": 1})) };
    lot.settle();
    for _ in 0..4 {
        lot.seat_is(json!({"phase": "Failed", "reason": "Evicted", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": lot.now.to_string()}]}));
        assert_eq!((lot.minutes_until_next_look(), lot.plan().create.len()), (1, 0));
        lot.later(SignedDuration::from_mins(1));
        lot.settle();
    }
}
