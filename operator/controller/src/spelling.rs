//! Tells whoever writes a field as the first previews had it. Pure.

use codebutler_crds::condition::{self, OLD_SPELLING};
use codebutler_crds::spelling::OutdatedSpelling;
use codebutler_runtime::notice::EventNotice;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Writes what is outdated into `conditions`, and answers the event that this is worth, once.
pub(crate) fn tell_outdated(
    outdated: &[OutdatedSpelling],
    conditions: &mut Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<EventNotice> {
    if outdated.is_empty() {
        condition::clear_condition(conditions, OLD_SPELLING);
        return None;
    }
    let each = outdated.iter().map(|OutdatedSpelling { field, old, new }| {
        format!("{field}: write `{new}` instead of `{old}`")
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let message = format!("{each}: it is read until v1beta1");
    let known = conditions.iter().any(|c| c.type_ == OLD_SPELLING && c.message == message);
    condition::set_condition(
        conditions,
        OLD_SPELLING,
        true,
        "Renamed",
        &*message,
        generation,
        &Time(now),
    );
    (!known).then_some(EventNotice { warning: true, reason: "Renamed", note: message })
}
