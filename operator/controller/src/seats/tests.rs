use std::sync::Arc;

use codebutler_crds::{AgentRole, Repo, condition, names};
use codebutler_runtime::apply::ApplyRefusal;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::decide::plan_seats;
use super::failures::{find_failure, newest_ready};
use super::making::SeatMaker;
use super::own_pods;
use super::plan::{SeatRole, SeatsPlan, SeatsView};
use crate::gateway::GatewayAddress;
use crate::index::ObjectKey;
use crate::seat_memory::SeatMemory;
use crate::testing;

mod failing;
mod queues;
mod roles;

/// A Repo that wants seats, and what there is of them.
struct Lot {
    repo: Repo,
    roles: [AgentRole; 2],
    pods: Vec<Arc<Pod>>,
    waits: bool,
    refusal: Option<ApplyRefusal>,
    memory: SeatMemory,
    activity: Option<Timestamp>,
    taken: Option<Timestamp>,
    begun: u32,
    /// Seats that are made have their clone at once, or never.
    clones: bool,
    now: Timestamp,
}

impl Lot {
    fn new(warm: Value) -> Self {
        let mut repo = testing::repo();
        repo.spec.warm = serde_json::from_value(warm).unwrap();
        let now = testing::now();
        Self {
            repo,
            roles: ["pm", "coder"].map(testing::role),
            pods: vec![],
            waits: false,
            refusal: None,
            memory: SeatMemory::default(),
            activity: None,
            taken: None,
            begun: 0,
            clones: true,
            now,
        }
    }

    fn plan(&self) -> SeatsPlan {
        let gateway = GatewayAddress {
            address: "10.96.0.7:8443".parse().unwrap(),
            target_port: IntOrString::Int(8443),
        };
        let (key, args) = (ObjectKey::of(&self.repo), testing::args());
        let roles = self.roles.each_ref().map(|role| {
            let (own, name) = (own_pods(&self.repo, &role.spec.role, &self.pods), &role.spec.role);
            let maker = SeatMaker { repo: &self.repo, role, gateway: &gateway, args: &args };
            let failed = self.memory.count_failures(
                (&key, name.as_str()),
                maker.describe(),
                own.iter().filter_map(|pod| find_failure(pod, self.now)).collect(),
                newest_ready(own.iter().copied()),
            );
            SeatRole { role, failed }
        });
        plan_seats(&SeatsView {
            repo: &self.repo,
            roles: &roles,
            gateway: Ok(&gateway),
            prepared: true,
            args: &args,
            pods: &self.pods,
            refusal: self.refusal.as_ref(),
            waits: self.waits,
            activity: self.activity,
            taken: self.taken,
            begun: self.begun,
            now: self.now,
        })
    }

    /// Applies a plan to the pods.
    fn follow(&mut self, plan: SeatsPlan) {
        self.pods.retain(|pod| !plan.delete.contains(&pod.uid().unwrap()));
        for new in plan.create {
            let mut pod = new.pod;
            pod.metadata.uid = Some(format!("uid-of-{}", new.seat));
            pod.metadata.creation_timestamp = Some(Time(self.now));
            pod.status = serde_json::from_value(running(self.clones, self.now)).unwrap();
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

    /// The first seat is like this now.
    fn seat_is(&mut self, status: Value) {
        let mut pod = (*self.pods[0]).clone();
        pod.status = serde_json::from_value(status).unwrap();
        self.pods[0] = Arc::new(pod);
    }

    /// The first seat, by its UID.
    fn first(&self) -> String {
        self.pods[0].uid().unwrap()
    }

    fn minutes_until_next_look(&self) -> u64 {
        self.plan().again.unwrap().as_secs() / 60
    }
}

/// The status of a pod that runs since then, among others with a container that is never ready.
fn running(ready: bool, since: Timestamp) -> Value {
    let container = |name: &str, ready: bool| {
        json!({"name": name, "image": "i", "imageID": "", "ready": ready, "restartCount": 0,
               "state": {"running": {"startedAt": since.to_string()}}})
    };
    json!({"phase": "Running", "containerStatuses": [container("mesh", false), container("agent", ready)],
           "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": since.to_string()}]})
}

/// Status of a seat's pod that has failed.
fn failed(at: Timestamp) -> Value {
    json!({"phase": "Failed", "containerStatuses": [{
        "name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1, "finishedAt": at.to_string()}}}]})
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
    // Seats from before the setting was removed are deleted.
    lot.repo.spec.warm = serde_json::from_value(json!({"seats": 2})).unwrap();
    lot.settle();
    lot.repo.spec.warm = None;
    let plan = lot.plan();
    assert_eq!((plan.delete.len(), plan.create.len()), (2, 0));
    assert!(!plan.conditions.iter().any(|c| c.type_ == condition::SEATS_READY));
}

#[test]
fn a_set_up_that_failed_is_said_no_longer_than_there_are_seats_that_are_set_up() {
    let failed = json!([{
        "type": condition::SEATS_SET_UP, "status": "False", "reason": "SetUpFailed", "message": "it failed",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let mut lot = Lot::new(json!({"seats": 1}));
    let says = |lot: &Lot| lot.plan().conditions.iter().any(|c| c.type_ == condition::SEATS_SET_UP);
    lot.repo.status.get_or_insert_default().conditions = serde_json::from_value(failed).unwrap();
    assert!(says(&lot));
    lot.repo.spec.suspend = true;
    assert!(says(&lot), "the seats come back, and it fails again");
    lot.repo.spec.warm = serde_json::from_value(json!({"seats": 0})).unwrap();
    assert!(!says(&lot), "seats are turned off");
    lot.repo.spec.warm = serde_json::from_value(json!({"seats": 1})).unwrap();
    for role in &mut lot.roles {
        role.spec.tools.deny.push("Bash".to_owned());
    }
    assert!(!says(&lot), "nothing is set up where no command runs");
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
