//! Tells of schedules that begin nothing. Pure.

use codebutler_crds::Repo;
use codebutler_crds::condition::{self, SCHEDULES_VALID};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::notice::EventNotice;
use crate::schedule::{ScheduleClock, cron_of};

/// Writes into `conditions` what can't be read, and answers the event that this is worth, once.
pub fn tell_invalid(
    repo: &Repo,
    conditions: &mut Vec<Condition>,
    now: Timestamp,
) -> Option<EventNotice> {
    let why = repo.spec.schedules.iter().filter_map(|schedule| {
        let read = ScheduleClock::read(&cron_of(repo, schedule), now);
        read.err().map(|why| format!("`{}`: {why}", schedule.name))
    });
    let why: Vec<String> = why.collect();
    if why.is_empty() {
        condition::clear_condition(conditions, SCHEDULES_VALID);
        return None;
    }
    let message =
        format!("spec.schedules {}: it begins nothing until it is corrected", why.join("; "));
    let known = conditions.iter().any(|c| c.type_ == SCHEDULES_VALID && c.message == message);
    let (reason, generation) = ("ScheduleInvalid", repo.metadata.generation);
    condition::set_condition(
        conditions,
        SCHEDULES_VALID,
        false,
        reason,
        &*message,
        generation,
        &Time(now),
    );
    (!known).then_some(EventNotice { warning: true, reason, note: message })
}
