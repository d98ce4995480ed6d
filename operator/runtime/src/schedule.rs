//! Computes when a schedule's runs are due. Pure; the controller tells why a schedule can't be
//! read, the gateway begins the runs of the rest.

mod fields;

use std::collections::VecDeque;

use codebutler_crds::Repo;
use codebutler_crds::starts::ScheduleSpec;
use cronexpr::{Crontab, MakeTimestamp};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

pub use self::fields::{CronError, CronFields};

/// Runs that are counted one by one. So many are a week of minutes: they are missed.
const COUNTED: usize = 10_000;

/// Civil times that are tried: more than there are minutes in a day that a zone leaves out.
const TRIED: usize = 1500;
/// Most times that the search goes on three years further ahead.
const LOOKS_AHEAD: usize = 14;
/// Zones that mean another one on each machine, or none.
const UNNAMED_ZONES: [&str; 4] = ["localtime", "posixrules", "Factory", "Etc/Unknown"];

/// The times of a schedule. They are looked for on the clock of its zone, and then found in time: what looks for
/// them in time itself does not come to an end where a zone's clock is set by less than an hour.
#[derive(Debug)]
pub struct ScheduleClock {
    /// Times in UTC, which stands for the clock on the wall.
    times: Crontab,
    zone: TimeZone,
    /// True if its hours are a rhythm, such as `*/2`: an hour that a clock shows twice counts
    /// twice.
    is_rhythm: bool,
}

/// Runs whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRuns {
    /// Time of the newest run.
    pub newest: Timestamp,
    /// Number of runs, the newest included.
    pub count: u32,
}

impl DueRuns {
    /// Returns true if the runs were not counted to their end.
    pub const fn is_beyond_count(&self) -> bool {
        self.count as usize >= COUNTED
    }
}

/// Builds the text that a schedule's times are read from: its five fields with their time zone.
pub fn cron_of(repo: &Repo, schedule: &ScheduleSpec) -> String {
    let zone = schedule.time_zone.as_deref().unwrap_or(&repo.spec.limits.time_zone);
    let fields: Vec<&str> = schedule.cron.split_whitespace().collect();
    format!("{} {zone}", fields.join(" "))
}

impl ScheduleClock {
    /// # Errors
    /// What can't be read, by its field, or that none of the times comes.
    pub fn read(cron: &str, now: Timestamp) -> Result<Self, CronError> {
        let (times, zone) = cron.rsplit_once(' ').unwrap_or((cron, ""));
        let fields = CronFields::read(times)?;
        let is_portable = !UNNAMED_ZONES.contains(&zone);
        let zone = TimeZone::get(zone).ok().filter(|_| is_portable);
        let zone = zone.ok_or_else(|| {
            CronError::Zone(cron.rsplit(' ').next().unwrap_or_default().to_owned())
        })?;
        let parsed = cronexpr::parse_crontab(&format!("{} UTC", fields.line()));
        let times = parsed.map_err(|error| {
            // The part before it shows the whole line with an arrow.
            let whole = error.to_string();
            let why = whole.rsplit("^ ").next().unwrap_or(&whole).split(';').next();
            let why = why.unwrap_or_default().split_whitespace().collect::<Vec<_>>();
            CronError::Other(why.join(" "))
        })?;
        let clock = Self { times, zone, is_rhythm: fields.has_rhythm() };
        clock.next(now).map(|_| clock).ok_or(CronError::Never)
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
            let shown = self.next_shown(wall)?;
            wall = shown.to_zoned(TimeZone::UTC).ok()?.timestamp();
            let ambiguous = self.zone.to_ambiguous_timestamp(shown);
            let found = match ambiguous.offset() {
                AmbiguousOffset::Unambiguous { .. } => [ambiguous.unambiguous().ok(), None],
                // The clock leaves it out.
                AmbiguousOffset::Gap { .. } if self.is_rhythm => [None, None],
                AmbiguousOffset::Gap { .. } => [self.gap_end(ambiguous.later().ok()?), None],
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

    /// Returns the next time on the wall clock. The library looks four years ahead, and a 29
    /// February that is a Sunday can be further away.
    fn next_shown(&self, wall: Timestamp) -> Option<DateTime> {
        let mut from = wall.to_zoned(TimeZone::UTC);
        for _ in 0..LOOKS_AHEAD {
            if let Ok(shown) = self.times.find_next(MakeTimestamp(from.timestamp())) {
                return Some(shown.datetime());
            }
            from = from.checked_add(3.years()).ok()?;
        }
        None
    }

    /// Returns the time at which the clock skips ahead; `later` is the skipped time by the clock
    /// before.
    fn gap_end(&self, later: Timestamp) -> Option<Timestamp> {
        let behind = later.checked_add(1.second()).ok()?;
        self.zone.preceding(behind).next().map(|set| set.timestamp())
    }

    /// The runs of a year. A year of its own, so that the answer stays the same.
    pub fn runs_of_a_year(&self) -> u32 {
        let year = |year| jiff::civil::date(year, 1, 1).to_zoned(self.zone.clone());
        let (Ok(from), Ok(to)) = (year(2026), year(2027)) else { return 0 };
        self.due(from.timestamp(), to.timestamp()).map_or(0, |due| due.count)
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
        assert_eq!(night.next(at("2026-03-28T22:00:00Z")), Some(at("2026-03-29T01:00:00Z")));
        assert_eq!(due("2026-03-28T22:00:00Z", "2026-03-29T22:00:00Z"), Some(1));
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

    /// A run each month or year that is left out would be the only one.
    #[test]
    fn a_time_that_the_clocks_leave_out_begins_right_after() {
        for (cron, after, expected) in [
            ("30 2 29 3 * Europe/Berlin", "2026-01-01T00:00:00Z", "2026-03-29T01:00:00Z"),
            ("0 2 * * 0 Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("15 2 8 3 * America/New_York", "2026-01-01T00:00:00Z", "2026-03-08T07:00:00Z"),
            // Midnight itself, and half an hour.
            ("0 0 * * 5 Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"),
            ("15 2 4 10 * Australia/Lord_Howe", "2026-01-01T00:00:00Z", "2026-10-03T15:30:00Z"),
            // A day that a zone left out.
            ("0 9 30 12 * Pacific/Apia", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z"),
        ] {
            assert_eq!(clock(cron).next(at(after)), Some(at(expected)), "{cron}");
        }
        // Several of them, and the time itself, are one run.
        let often = clock("*/10 2,3 * * * Europe/Berlin");
        let runs = often.due(at("2026-03-28T23:00:00Z"), at("2026-03-29T10:00:00Z")).unwrap();
        assert_eq!(runs.count, 6, "3:00 to 3:50");
        // A rhythm has its next time soon.
        let hourly = clock("30 */2 * * * Europe/Berlin");
        let next = hourly.next(at("2026-03-29T00:00:00Z"));
        assert_eq!(next, Some(at("2026-03-29T02:30:00Z")));
    }

    #[test]
    fn a_rare_time_is_found() {
        let sunday = clock("0 0 29 2 */7 UTC");
        assert_eq!(sunday.next(at("2026-01-01T00:00:00Z")), Some(at("2032-02-29T00:00:00Z")));
    }

    #[test]
    fn a_year_has_as_many_runs_as_both_day_fields_lead_to() {
        let runs = |cron: &str| clock(&format!("{cron} Europe/Berlin")).runs_of_a_year();
        assert_eq!(runs("0 9 * * 1"), 52);
        assert_eq!(runs("0 9 1-7 * 1"), 124);
        assert_eq!(runs("0 9 */2 * 1"), 26);
        assert!(CronFields::read("0 9 1-7 * 1").unwrap().takes_either_day());
        assert!(!CronFields::read("0 9 */1 * 1").unwrap().takes_either_day());
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let now = at("2026-11-25T00:00:00Z");
        for (cron, part) in [
            ("61 * * * * UTC", "the field minute has `61`: it has to be from 0 to 59"),
            ("0 0 30 2 * UTC", "no such time ever comes"),
            ("0 0 * * * Mars/Olympus", "Mars/Olympus"),
            ("0 0 * * UTC", "4 fields"),
            ("0 0 * * * * UTC", "6 fields"),
            ("a b c d e UTC", "the field minute"),
            ("0 6 L * * UTC", "`L`: L, W, #"),
            ("0 6 * * 1#2 UTC", "the field day of the week has `1#2`"),
            ("0 2 * * FRIL UTC", "the field day of the week has `FRIL`"),
            ("@reboot UTC", "`@reboot` is not known"),
            ("TZ=UTC 0 2 * * * UTC", "`timeZone`"),
            ("0 2 * * * localtime", "no time zone localtime"),
        ] {
            let why = ScheduleClock::read(cron, now).unwrap_err().to_string();
            assert!(why.contains(part) && !why.contains('\n'), "{cron}: {why}");
            assert!(!why.is_empty());
        }
    }
}
