//! Tells of schedules that begin nothing, or more than their writer may expect. Pure.

use codebutler_crds::Repo;
use codebutler_crds::condition::{self, SCHEDULES_VALID};
use codebutler_crds::starts::ScheduleSpec;
use codebutler_runtime::notice::EventNotice;
use codebutler_runtime::schedule::{CronFields, ScheduleClock, cron_of};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Writes into `conditions` what can't be read, and answers the event that this is worth, once.
pub(crate) fn tell_invalid(
    repo: &Repo,
    conditions: &mut Vec<Condition>,
    now: Timestamp,
) -> Option<EventNotice> {
    let why = repo.spec.schedules.iter().filter_map(|schedule| {
        let read = ScheduleClock::read(&cron_of(repo, schedule), now);
        read.err().map(|why| format!("`{}`: {why}", schedule.name))
    });
    let why: Vec<String> = why.collect();
    if !why.is_empty() {
        let message =
            format!("spec.schedules {}: it begins nothing until it is corrected", why.join("; "));
        return set_valid(repo, conditions, (false, "ScheduleInvalid", message), now);
    }
    let wide: Vec<String> =
        repo.spec.schedules.iter().filter_map(|own| describe_either(repo, own, now)).collect();
    if !wide.is_empty() {
        let message = format!("spec.schedules {}", wide.join("; "));
        return set_valid(repo, conditions, (true, "EitherDay", message), now);
    }
    condition::clear_condition(conditions, SCHEDULES_VALID);
    None
}

fn set_valid(
    repo: &Repo,
    conditions: &mut Vec<Condition>,
    (holds, reason, message): (bool, &'static str, String),
    now: Timestamp,
) -> Option<EventNotice> {
    let known = conditions.iter().any(|c| c.type_ == SCHEDULES_VALID && c.message == message);
    let generation = repo.metadata.generation;
    condition::set_condition(
        conditions,
        SCHEDULES_VALID,
        holds,
        reason,
        &*message,
        generation,
        &Time(now),
    );
    (!known).then_some(EventNotice { warning: true, reason, note: message })
}

/// A schedule that names days of the month and of the week, and begins on either: each run costs money.
fn describe_either(repo: &Repo, schedule: &ScheduleSpec, now: Timestamp) -> Option<String> {
    let fields = CronFields::read(&schedule.cron).ok().filter(CronFields::takes_either_day)?;
    let runs = ScheduleClock::read(&cron_of(repo, schedule), now).ok()?.runs_of_a_year();
    Some(format!(
        "`{}`: `{}` names days of the month and days of the week, and either is enough: about {runs} runs a year. \
         Where both have to fit, name the days of one field alone, and let the prompt say on which of them there is \
         nothing to do",
        schedule.name,
        fields.line()
    ))
}
