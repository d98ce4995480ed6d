//! Seats of several roles.

use codebutler_crds::{condition, names};
use jiff::SignedDuration;
use kube::ResourceExt as _;
use serde_json::json;

use super::{Lot, failed, said};

impl Lot {
    /// Number of seats of a role.
    fn seats_of(&self, role: &str) -> usize {
        let is_of = |pod: &str| names::seat_of_pod("shop", pod).is_some_and(|(_, own)| own == role);
        self.pods.iter().filter(|pod| is_of(&pod.name_any())).count()
    }
}

#[test]
fn each_role_has_the_seats_that_are_said_of_it_and_none_has_two_of_one_name() {
    let mut lot = Lot::new(json!({"seats": 1, "max": 2, "roles": [{"role": "coder", "seats": 2}]}));
    let plan = lot.settle();
    assert_eq!((lot.seats_of("pm"), lot.seats_of("coder")), (1, 2));
    assert_eq!(said(&plan), ("True", "SeatsReady", "3 of 3 seats wait"));
    let claims: std::collections::BTreeSet<_> = lot
        .pods
        .iter()
        .map(|pod| names::seat_of_pod("shop", &pod.name_any()).unwrap().0.to_owned())
        .collect();
    assert_eq!(claims.len(), 3, "each has a claim of its own");
    lot.begun = 9;
    lot.settle();
    assert_eq!((lot.seats_of("pm"), lot.seats_of("coder")), (2, 2), "max is the first role's");

    lot.repo.spec.warm.as_mut().unwrap().roles.clear();
    lot.begun = 0;
    lot.settle();
    assert_eq!((lot.seats_of("pm"), lot.seats_of("coder")), (1, 0));
}

#[test]
fn there_are_no_more_than_there_may_be_and_those_of_the_first_role_go_before() {
    let all = json!({"seats": 12, "roles": [{"role": "coder", "seats": 16}]});
    let mut lot = Lot::new(all);
    assert_eq!(lot.settle().status.wanted, 16);
    assert_eq!((lot.seats_of("pm"), lot.seats_of("coder")), (12, 4));
    let mut least = Lot::new(json!({"seats": 0, "roles": [{"role": "pm", "seats": 2}]}));
    least.settle();
    assert_eq!(least.seats_of("pm"), 2);
}

#[test]
fn a_role_whose_seats_fail_keeps_none_of_another_back() {
    let mut lot = Lot::new(json!({"seats": 1, "roles": [{"role": "coder", "seats": 1}]}));
    lot.settle();
    lot.pods.sort_by_key(|pod| !pod.name_any().ends_with("-coder"));
    lot.seat_is(failed(lot.now));
    lot.pods.truncate(1);
    let plan = lot.plan();
    let made: Vec<_> = plan.create.iter().map(|new| new.pod.name_any()).collect();
    assert!(made.len() == 1 && made[0].ends_with("-pm"), "{made:?}");
    assert_eq!(said(&plan).1, "SeatFailed");
    lot.later(SignedDuration::from_mins(1));
    assert_eq!(lot.plan().create.len(), 2);
}

#[test]
fn a_role_that_the_repo_does_not_have_is_told_and_the_others_wait() {
    let mut lot = Lot::new(json!({"seats": 1, "roles": [{"role": "codr", "seats": 1}]}));
    let notices = lot.plan().notices.len();
    let plan = lot.settle();
    let (status, reason, message) = said(&plan);
    assert_eq!((status, reason, plan.status.ready, notices), ("False", "SeatRoleUnknown", 1, 1));
    assert!(message.contains("`codr`"), "{message}");
}

#[test]
fn a_set_up_that_failed_is_said_as_long_as_a_seat_has_the_image_that_needs_it() {
    let mut lot = Lot::new(json!({"seats": 1}));
    let failed = json!([{
        "type": condition::SEATS_SET_UP, "status": "False", "reason": "SetUpFailed", "message": "it failed",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    lot.repo.status.get_or_insert_default().conditions = serde_json::from_value(failed).unwrap();
    let says = |lot: &Lot| lot.plan().conditions.iter().any(|c| c.type_ == condition::SEATS_SET_UP);
    lot.roles[0].spec.tools.deny.push("Bash".to_owned());
    assert!(says(&lot), "the coder's commands run in the pm's seat");
    lot.roles[1].spec.workspace.image = Some("node:24".to_owned());
    assert!(!says(&lot), "another image sets up its own worktree");
    let both = json!({"seats": 1, "roles": [{"role": "coder", "seats": 1}]});
    lot.repo.spec.warm = serde_json::from_value(both).unwrap();
    assert!(says(&lot));
}
