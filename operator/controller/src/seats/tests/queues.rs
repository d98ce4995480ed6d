//! Seats that a queue of the cluster's holds back.

use jiff::SignedDuration;
use serde_json::json;

use super::Lot;

#[test]
fn a_seat_that_a_queue_holds_back_keeps_its_place_in_it() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.settle();
    let gated = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                       "lastTransitionTime": lot.now.to_string()});
    lot.seat_is(json!({"phase": "Pending", "conditions": [gated]}));
    lot.later(SignedDuration::from_hours(3));
    let plan = lot.plan();
    assert_eq!((plan.delete.len(), plan.create.len()), (0, 0));
    assert!(plan.again.is_some_and(|again| again.as_secs() > 0), "in no loop");
}
