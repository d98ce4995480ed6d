use std::sync::Arc;

use codebutler_crds::{Repo, condition, names};
use codebutler_runtime::apply::ApplyRefusal;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::decide::{SeatsPlan, SeatsView, plan_seats};
use crate::gateway::GatewayAddress;
use crate::testing;

/// A Repo that wants seats, and what there is of them.
struct Lot {
    repo: Repo,
    pods: Vec<Arc<Pod>>,
    waits: bool,
    refusal: Option<ApplyRefusal>,
    activity: Option<Timestamp>,
    taken: Option<Timestamp>,
    begun: u32,
    now: Timestamp,
}

impl Lot {
    fn new(warm: Value) -> Self {
        let mut repo = testing::repo();
        repo.spec.warm = serde_json::from_value(warm).unwrap();
        let now = testing::now();
        Self {
            repo,
            pods: vec![],
            waits: false,
            refusal: None,
            activity: None,
            taken: None,
            begun: 0,
            now,
        }
    }

    fn plan(&self) -> SeatsPlan {
        let gateway = GatewayAddress {
            address: "10.96.0.7:8443".parse().unwrap(),
            target_port: IntOrString::Int(8443),
        };
        plan_seats(&SeatsView {
            repo: &self.repo,
            role: Some(&testing::role("pm")),
            gateway: Ok(&gateway),
            prepared: true,
            args: &testing::args(),
            pods: &self.pods,
            refusal: self.refusal.as_ref(),
            waits: self.waits,
            activity: self.activity,
            taken: self.taken,
            begun: self.begun,
            now: self.now,
        })
    }

    /// Carries a plan out; pods that were made run.
    fn follow(&mut self, plan: SeatsPlan) {
        self.pods.retain(|pod| !plan.delete.contains(&pod.uid().unwrap()));
        for new in plan.create {
            let mut pod = new.pod;
            pod.metadata.uid = Some(format!("uid-of-{}", new.seat));
            pod.metadata.creation_timestamp = Some(Time(self.now));
            pod.status = serde_json::from_value(json!({"phase": "Running"})).unwrap();
            self.pods.push(Arc::new(pod));
        }
        let status = self.repo.status.get_or_insert_default();
        status.conditions = plan.conditions;
        status.warm = Some(Box::new(plan.status));
    }

    fn settle(&mut self) -> SeatsPlan {
        for _ in 0..3 {
            let plan = self.plan();
            self.follow(plan);
        }
        self.plan()
    }

    fn later(&mut self, by: SignedDuration) {
        self.now += by;
    }
}

fn said(plan: &SeatsPlan) -> (&str, &str, &str) {
    let seats = plan.conditions.iter().find(|c| c.type_ == condition::SEATS_READY).unwrap();
    (&seats.status, &seats.reason, &seats.message)
}

#[test]
fn a_seat_is_a_pod_without_a_thread() {
    let mut lot = Lot::new(json!({"seats": 1, "priorityClassName": "spare"}));
    let plan = lot.plan();
    insta::assert_yaml_snapshot!("seat", plan.create[0].pod);
    lot.follow(plan);
    let plan = lot.settle();
    assert_eq!((plan.create.len(), plan.delete.len()), (0, 0));
    assert_eq!(said(&plan), ("True", "SeatsReady", "1 of 1 seats wait"));
    assert_eq!((plan.status.ready, plan.status.pods.len()), (1, 1));
}

#[test]
fn with_nothing_in_the_spec_there_is_nothing_to_do() {
    let mut lot = Lot::new(json!(null));
    let plan = lot.plan();
    assert_eq!((plan.create.len(), plan.conditions.len(), plan.again), (0, 0, None));
    // What was there before goes.
    lot.repo.spec.warm = serde_json::from_value(json!({"seats": 2})).unwrap();
    lot.settle();
    lot.repo.spec.warm = None;
    let plan = lot.plan();
    assert_eq!((plan.delete.len(), plan.create.len()), (2, 0));
    assert!(!plan.conditions.iter().any(|c| c.type_ == condition::SEATS_READY));
}

#[test]
fn who_begins_lets_more_wait_up_to_the_most() {
    let mut lot = Lot::new(json!({"seats": 1, "max": 3}));
    lot.begun = 1;
    assert_eq!(lot.plan().create.len(), 2);
    lot.begun = 9;
    assert_eq!(lot.settle().status.wanted, 3);
    lot.begun = 0;
    let plan = lot.plan();
    assert_eq!((plan.status.wanted, plan.delete.len()), (1, 2));
}

#[test]
fn seats_go_when_nobody_writes_and_come_back_with_a_message_or_by_the_clock() {
    let mut lot = Lot::new(json!({"seats": 1, "idleSeconds": 600, "schedule": "0 13 * * *"}));
    lot.settle();
    lot.later(SignedDuration::from_mins(9));
    let plan = lot.settle();
    assert_eq!((plan.status.wanted, plan.again.unwrap().as_secs()), (1, 60));
    lot.later(SignedDuration::from_mins(2));
    let plan = lot.plan();
    assert_eq!((plan.status.wanted, plan.delete.len()), (0, 1));
    assert_eq!(said(&plan).1, "SeatsAsleep");
    assert_eq!(plan.again.unwrap().as_secs(), 49 * 60, "until one o'clock");
    lot.follow(plan);
    lot.later(SignedDuration::from_mins(49));
    assert_eq!(lot.plan().create.len(), 1);
    lot.later(SignedDuration::from_mins(11));
    assert_eq!(lot.plan().status.wanted, 0);
    lot.activity = Some(lot.now);
    assert_eq!(lot.plan().status.wanted, 1);
}

#[test]
fn a_schedule_that_never_fires_keeps_none_and_says_what_to_correct() {
    for (cron, part) in [("0 8 30 2 *", "spec.warm.schedule"), ("0 8 * *", "4 fields")] {
        let lot = Lot::new(json!({"seats": 1, "idleSeconds": 600, "schedule": cron}));
        let plan = lot.plan();
        let (status, reason, message) = said(&plan);
        assert_eq!((status, reason), ("False", "SeatScheduleInvalid"));
        assert!(message.contains(part), "{message}");
        assert_eq!((plan.create.len(), plan.notices.len()), (0, 1));
    }
}

#[test]
fn work_that_waits_has_the_room_of_seats() {
    let mut lot = Lot::new(json!({"seats": 2}));
    lot.settle();
    lot.waits = true;
    let plan = lot.plan();
    assert_eq!((plan.delete.len(), said(&plan).1, plan.notices.len()), (2, "SeatsYield", 1));
    lot.follow(plan);
    let plan = lot.plan();
    assert_eq!((plan.create.len(), plan.notices.len()), (0, 0), "told once");
    assert!(plan.again.is_some());
    lot.waits = false;
    assert_eq!(lot.plan().create.len(), 2);
}

#[test]
fn what_is_refused_is_told_and_tried_again_later() {
    let mut lot = Lot::new(json!({"seats": 2}));
    lot.refusal = Some(ApplyRefusal::Rejected {
        kind: "Pod".to_owned(),
        name: "shop-seat-0-pm".to_owned(),
        message: "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1".to_owned(),
    });
    let plan = lot.plan();
    let (status, reason, message) = said(&plan);
    assert_eq!((status, reason), ("False", "SeatsRefused"));
    assert!(message.contains("exceeded quota"), "{message}");
    assert_eq!((plan.create.len(), plan.again.unwrap().as_secs()), (0, 60));
}

#[test]
fn a_seat_that_fails_is_kept_for_its_log_and_not_made_again_at_once() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.settle();
    let mut failed = (*lot.pods[0]).clone();
    let ended = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T11:59:57Z"}});
    failed.status = serde_json::from_value(json!({"phase": "Failed", "containerStatuses": [{
        "name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": ended}]}))
    .unwrap();
    lot.pods = vec![Arc::new(failed)];
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
fn a_seat_that_would_be_made_otherwise_now_is_replaced() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.settle();
    lot.repo.spec.git.branch = "trunk".to_owned();
    let plan = lot.plan();
    assert_eq!((plan.create.len(), plan.delete.len()), (1, 1));
    assert_eq!(said(&plan).1, "SeatsStarting");
}

#[test]
fn the_role_that_took_a_seat_begins_before_the_next_one_is_made() {
    let mut lot = Lot::new(json!({"seats": 1}));
    lot.taken = Some(lot.now);
    let plan = lot.plan();
    assert_eq!((plan.create.len(), plan.again.unwrap().as_secs()), (0, 3));
    lot.later(SignedDuration::from_secs(3));
    assert_eq!(lot.plan().create.len(), 1);
}

#[test]
fn a_claim_that_may_not_be_there_is_made_until_the_status_names_its_pod() {
    let mut lot = Lot::new(json!({"seats": 1}));
    let plan = lot.plan();
    lot.follow(plan);
    lot.repo.status = None;
    let plan = lot.plan();
    assert_eq!(plan.claims.len(), 1);
    lot.follow(plan);
    assert!(lot.plan().claims.is_empty());
}

#[test]
fn only_a_seats_own_name_is_read_as_one() {
    let seat = names::seat_name("shop", 0xab);
    assert_eq!(seat, "shop-seat-000000ab");
    let pod = names::pod_name(&seat, "pm");
    assert_eq!(names::seat_of_pod("shop", &pod), Some((&*seat, "pm")));
    for other in [
        "shop-seat-000000ab",
        "shop-seat-000000ab-",
        "shop-seat-000000AB-pm",
        "shop-seat-00ab-pm",
        "shop-1767268700-000100-pm",
        "shop.mcp.db",
        "shop-seat-0000é-pm",
    ] {
        assert_eq!(names::seat_of_pod("shop", other), None, "{other}");
    }
    assert_eq!(names::seat_of_pod("sho", &pod), None);
}
