//! The facts that a decision on a Repo's seats is made from, and the steps that it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::warm::WarmStatus;
use codebutler_crds::{AgentRole, Repo};
use codebutler_runtime::apply::ApplyRefusal;
use codebutler_runtime::notice::EventNotice;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use crate::args::ControllerArgs;
use crate::gateway::{GatewayAddress, GatewayNotFound};
use crate::seat_memory::FailedSeats;

/// The facts that a decision on a Repo's seats is made from.
pub(super) struct SeatsView<'a> {
    pub repo: &'a Repo,
    /// The Repo's roles, the first one first.
    pub roles: &'a [SeatRole<'a>],
    /// The gateway's address; the error says what is wrong.
    pub gateway: Result<&'a GatewayAddress, &'a GatewayNotFound>,
    /// True once the Repo's account, network policy and certificate authority are there.
    pub prepared: bool,
    /// The installation's settings.
    pub args: &'a ControllerArgs,
    /// The seats that nobody has taken.
    pub pods: &'a [Arc<Pod>],
    /// The API server's latest refusal.
    pub refusal: Option<&'a ApplyRefusal>,
    /// True while work of some Thread waits for room.
    pub waits: bool,
    /// The last time that anything happened in a Thread of the Repo.
    pub activity: Option<Timestamp>,
    /// The last time that a Thread took one.
    pub taken: Option<Timestamp>,
    /// The number of its Threads that began a short while ago.
    pub begun: u32,
    /// The moment of the decision.
    pub now: Timestamp,
}

/// A role that there may be seats of.
pub(super) struct SeatRole<'a> {
    pub role: &'a AgentRole,
    /// The failures of its seats, those of now among them.
    pub failed: Option<FailedSeats>,
}

/// The steps to be taken, in this order.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct SeatsPlan {
    /// UIDs of the pods to delete.
    pub delete: Vec<String>,
    /// Seats whose claim may not be there yet, by their pod's UID.
    pub claims: BTreeMap<String, String>,
    /// Seats to create, with their pods.
    pub create: Vec<NewSeat>,
    pub status: WarmStatus,
    /// All conditions, those of others unchanged.
    pub conditions: Vec<Condition>,
    /// Events, once the status is written.
    pub notices: Vec<EventNotice>,
    /// Look again after this long, if nothing happens before.
    pub again: Option<Duration>,
}

/// A pod that is to be made, and its seat.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct NewSeat {
    pub seat: String,
    pub pod: Pod,
}

impl SeatsPlan {
    pub(super) fn look_again_at(&mut self, moment: Timestamp, now: Timestamp) {
        let left = moment.duration_since(now).max(SignedDuration::from_millis(100));
        self.look_again_in(left.unsigned_abs());
    }

    pub(super) fn look_again_in(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}
