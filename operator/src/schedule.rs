//! When a schedule's runs are due. Pure; the controller says of what can't be read why, the gateway begins the
//! rest.

use std::collections::VecDeque;

use codebutler_crds::Repo;
use codebutler_crds::starts::ScheduleSpec;
use cronexpr::{Crontab, MakeTimestamp};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

/// Runs that are counted one by one. So many are a week of minutes: they are missed.
const COUNTED: usize = 10_000;

/// Civil times that are tried: more than there are minutes in a day that a zone leaves out.
const TRIED: usize = 1500;

/// The times of a schedule. They are looked for on the clock of its zone, and then found in time: what looks for
/// them in time itself does not come to an end where a zone's clock is set by less than an hour.
#[derive(Debug)]
pub struct ScheduleClock {
    /// In UTC, which stands for the clock on the wall.
    times: Crontab,
    zone: TimeZone,
    /// Its hours are a rhythm, such as `*/2`: an hour that a clock shows twice counts twice.
    is_rhythm: bool,
}

/// Runs whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRuns {
    /// The time of the newest.
    pub newest: Timestamp,
    /// How many there are, the newest included.
    pub count: u32,
}

impl DueRuns {
    /// Whether they were not counted to their end.
    pub const fn is_beyond_count(&self) -> bool {
        self.count as usize >= COUNTED
    }
}

/// As a schedule's times are read: its five fields with their time zone.
pub fn cron_of(repo: &Repo, schedule: &ScheduleSpec) -> String {
    let zone = schedule.time_zone.as_deref().unwrap_or(&repo.spec.limits.time_zone);
    let fields: Vec<&str> = schedule.cron.split_whitespace().collect();
    format!("{} {zone}", fields.join(" "))
}

impl ScheduleClock {
    /// # Errors
    /// A sentence on what can't be read, or that none of the times comes.
    pub fn read(cron: &str, now: Timestamp) -> Result<Self, String> {
        let fields = cron.split_whitespace().count();
        if fields != 6 {
            return Err(format!("cron has {} fields instead of 5", fields.saturating_sub(1)));
        }
        let (times, zone) = cron.rsplit_once(' ').unwrap_or((cron, ""));
        let zone = TimeZone::get(zone).map_err(|_| format!("there is no time zone {zone}"))?;
        if let Some(field) = times.split(' ').find(|field| is_extension(field)) {
            return Err(format!(
                "`{field}` is not one of cron's: L, W, # and H are not known here"
            ));
        }
        let is_rhythm = times.split(' ').nth(1).is_some_and(|hour| hour.starts_with('*'));
        let parsed = cronexpr::parse_crontab(&format!("{times} UTC")).map_err(|error| {
            let whole = error.to_string();
            // What comes before shows the whole line with an arrow.
            let why = whole.rsplit("^ ").next().unwrap_or(&whole).split(';').next();
            why.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        })?;
        let clock = Self { times: parsed, zone, is_rhythm };
        clock.next(now).map(|_| clock).ok_or_else(|| "no such time ever comes".to_owned())
    }

    /// The first time after a moment.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let wall = after.to_zoned(self.zone.clone()).datetime();
        let first = self.next_on_wall(wall, after);
        // A clock that is set back shows hours again that it has passed.
        let set = self.zone.following(after).next().map(|set| set.timestamp());
        let set = set.filter(|set| self.is_rhythm && first.is_none_or(|first| *set <= first));
        let again = set.and_then(|set| {
            let wall = set.to_zoned(self.zone.clone()).datetime().checked_sub(1.second()).ok()?;
            self.next_on_wall(wall, after)
        });
        first.into_iter().chain(again).min()
    }

    /// The first time that the clock shows later than `wall`, and that is after a moment.
    fn next_on_wall(&self, wall: DateTime, after: Timestamp) -> Option<Timestamp> {
        let mut wall = wall.to_zoned(TimeZone::UTC).ok()?.timestamp();
        for _ in 0..TRIED {
            let shown = self.times.find_next(MakeTimestamp(wall)).ok()?;
            wall = shown.timestamp();
            let ambiguous = self.zone.to_ambiguous_timestamp(shown.datetime());
            let found = match ambiguous.offset() {
                AmbiguousOffset::Unambiguous { .. } => [ambiguous.unambiguous().ok(), None],
                // The clock leaves it out.
                AmbiguousOffset::Gap { .. } => [None, None],
                AmbiguousOffset::Fold { .. } => {
                    let later = ambiguous.later().ok().filter(|_| self.is_rhythm);
                    [ambiguous.earlier().ok(), later]
                }
            };
            if let Some(found) = found.into_iter().flatten().find(|found| *found > after) {
                return Some(found);
            }
        }
        None
    }

    /// The newest times after one moment and up to another one, at most so many, the newest first.
    pub fn newest(&self, after: Timestamp, now: Timestamp, most: usize) -> Vec<Timestamp> {
        let next = |last: &Timestamp| self.next(*last).filter(|next| *next <= now);
        let times = std::iter::successors(next(&after), next).take(COUNTED);
        let mut newest: VecDeque<Timestamp> = VecDeque::new();
        for time in times {
            newest.truncate(most.saturating_sub(1));
            newest.push_front(time);
        }
        newest.into()
    }

    /// The runs after one moment and up to another one.
    pub fn due(&self, after: Timestamp, now: Timestamp) -> Option<DueRuns> {
        let mut due: Option<DueRuns> = None;
        let mut last = after;
        for _ in 0..COUNTED {
            let Some(next) = self.next(last).filter(|next| *next <= now) else { return due };
            let count = due.map_or(1, |due| due.count + 1);
            due = Some(DueRuns { newest: next, count });
            last = next;
        }
        // Each minute for a week: what is older than now by that much begins nothing anyway.
        due.map(|due| DueRuns { newest: now, ..due })
    }
}

/// Whether a field has what other crons have on top: the last day, the nearest weekday, a week's number, a hash.
fn is_extension(field: &str) -> bool {
    field.split([',', '-', '/']).any(|part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        part.contains('#') || matches!(&*rest.to_ascii_uppercase(), "L" | "W" | "LW" | "H")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn clock(cron: &str) -> ScheduleClock {
        ScheduleClock::read(cron, at("2026-11-25T00:00:00Z")).unwrap()
    }

    #[test]
    fn times_are_those_of_the_zone_and_each_comes_once() {
        let night = clock("30 2 * * * Europe/Berlin");
        assert_eq!(night.next(at("2026-11-25T00:00:00Z")), Some(at("2026-11-25T01:30:00Z")));
        let due = |from: &str, to: &str| night.due(at(from), at(to)).map(|due| due.count);
        // The night in which 2:30 is not there, and that in which it is there twice.
        assert_eq!(due("2026-03-28T22:00:00Z", "2026-03-29T22:00:00Z"), None);
        assert_eq!(due("2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z"), Some(1));
        let hourly = clock("30 * * * * Europe/Berlin");
        let night = hourly.due(at("2026-10-24T22:00:00Z"), at("2026-10-25T22:00:00Z"));
        assert_eq!(night.map(|due| due.count), Some(24), "one each hour, whatever it is called");
        assert_eq!(due("2026-11-25T01:30:00Z", "2026-11-26T01:29:59Z"), None);
        assert_eq!(due("2026-11-25T01:29:59Z", "2026-11-27T01:30:00Z"), Some(3));
        let all =
            clock("* * * * * UTC").due(at("2026-01-01T00:00:00Z"), at("2026-11-25T00:00:00Z"));
        assert_eq!(all, Some(DueRuns { newest: at("2026-11-25T00:00:00Z"), count: 10_000 }));
        // As cron has it, a day of the month or of the week is enough.
        assert_eq!(
            clock("0 0 13 * 5 UTC").next(at("2026-11-25T00:00:00Z")),
            Some(at("2026-11-27T00:00:00Z"))
        );
    }

    /// There clocks are set by half an hour.
    #[test]
    fn a_clock_that_is_set_by_half_an_hour_goes_on() {
        let early = clock("0 3 4 4 * Australia/Lord_Howe");
        assert_eq!(early.next(at("2027-01-01T00:00:00Z")), Some(at("2027-04-03T16:30:00Z")));
        for cron in ["45 1 * * * Australia/Lord_Howe", "15 2 * * * Australia/Lord_Howe"] {
            let days = clock(cron).due(at("2027-03-01T00:00:00Z"), at("2028-03-01T00:00:00Z"));
            let count = days.unwrap().count;
            assert!((365..=366).contains(&count), "{cron}: {count}");
        }
        let rhythm = clock("*/30 * * * * Australia/Lord_Howe");
        let all = rhythm.due(at("2027-03-01T00:00:00Z"), at("2027-05-01T00:00:00Z")).unwrap();
        assert_eq!(all.count, 61 * 48, "one each half an hour");
        let newest = rhythm.newest(at("2027-03-01T00:00:00Z"), at("2027-05-01T00:00:00Z"), 2);
        assert_eq!(newest, [at("2027-05-01T00:00:00Z"), at("2027-04-30T23:30:00Z")]);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let now = at("2026-11-25T00:00:00Z");
        for (cron, part) in [
            ("61 * * * * UTC", "0..=59"),
            ("0 0 30 2 * UTC", "no such time ever comes"),
            ("0 0 * * * Mars/Olympus", "Mars/Olympus"),
            ("0 0 * * UTC", "4 fields"),
            ("0 0 * * * * UTC", "6 fields"),
            ("a b c d e UTC", ""),
            ("0 6 L * * UTC", "`L` is not one of cron's"),
            ("0 6 * * 1#2 UTC", "`1#2` is not"),
            ("0 6 15W * * UTC", "`15W` is not"),
        ] {
            let why = ScheduleClock::read(cron, now).unwrap_err();
            assert!(why.contains(part) && !why.contains('\n'), "{cron}: {why}");
            assert!(!why.is_empty());
        }
    }
}
