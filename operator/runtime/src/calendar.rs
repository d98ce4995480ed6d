//! Days and hours by name. Pure.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Unit};

/// A moment as a Repo's limits see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetMoment {
    /// Such as `2026-11-22`, in the Repo's time zone.
    pub day: String,
    pub day_ends: Timestamp,
    /// Such as `2026-11`, in the Repo's time zone.
    pub month: String,
    pub month_ends: Timestamp,
    /// Such as `2026-11-22T14`, UTC.
    pub hour: String,
    pub hour_ends: Timestamp,
}

/// Names a moment. A time zone that nobody knows is taken for UTC.
pub fn find_moment(now: Timestamp, zone: &str) -> BudgetMoment {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let local = now.to_zoned(zone);
    let tomorrow =
        local.date().tomorrow().and_then(|date| date.to_zoned(local.time_zone().clone()));
    let next_month = local.date().last_of_month().tomorrow();
    let next_month = next_month.and_then(|date| date.to_zoned(local.time_zone().clone()));
    let utc = now.to_zoned(TimeZone::UTC);
    let hour_ends = utc.round((Unit::Hour, 1)).ok().and_then(|round| {
        if round.timestamp() > now {
            Some(round.timestamp())
        } else {
            round.timestamp().checked_add(1.hour()).ok()
        }
    });
    BudgetMoment {
        day: local.date().to_string(),
        day_ends: tomorrow.map_or(now, |zoned| zoned.timestamp()),
        month: local.strftime("%Y-%m").to_string(),
        month_ends: next_month.map_or(now, |zoned| zoned.timestamp()),
        hour: utc.strftime("%Y-%m-%dT%H").to_string(),
        hour_ends: hour_ends.unwrap_or(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: &str, zone: &str) -> [String; 4] {
        let m = find_moment(now.parse().unwrap(), zone);
        [m.day, m.day_ends.to_string(), m.hour, m.hour_ends.to_string()]
    }

    #[test]
    fn a_day_ends_at_midnight_of_the_repos_zone() {
        assert_eq!(
            at("2026-11-22T23:30:00Z", "UTC"),
            ["2026-11-22", "2026-11-23T00:00:00Z", "2026-11-22T23", "2026-11-23T00:00:00Z"]
        );
        assert_eq!(
            at("2026-11-22T23:10:00Z", "Europe/Berlin"),
            ["2026-11-23", "2026-11-23T23:00:00Z", "2026-11-22T23", "2026-11-23T00:00:00Z"]
        );
        // 23 hours long.
        assert_eq!(at("2026-03-29T00:00:00Z", "Europe/Berlin")[1], "2026-03-29T22:00:00Z");
        assert_eq!(at("2026-11-22T10:00:00Z", "Mars/Olympus")[0], "2026-11-22");
        assert_eq!(at("2026-11-22T10:00:00Z", "UTC")[3], "2026-11-22T11:00:00Z");
    }

    #[test]
    fn a_month_ends_at_midnight_of_the_repos_zone() {
        let month = |now: &str, zone| {
            let moment = find_moment(now.parse().unwrap(), zone);
            [moment.month, moment.month_ends.to_string()]
        };
        assert_eq!(month("2026-11-30T23:30:00Z", "UTC"), ["2026-11", "2026-12-01T00:00:00Z"]);
        assert_eq!(
            month("2026-11-30T23:30:00Z", "Europe/Berlin"),
            ["2026-12", "2026-12-31T23:00:00Z"]
        );
        assert_eq!(month("2028-02-29T12:00:00Z", "UTC"), ["2028-02", "2028-03-01T00:00:00Z"]);
    }
}
