//! When a schedule's runs are due. Pure; the controller says of what can't be read why, the gateway begins the
//! rest.

use codebutler_crds::Repo;
use codebutler_crds::starts::ScheduleSpec;
use cronexpr::{Crontab, MakeTimestamp};
use jiff::{Timestamp, Zoned};

/// Runs that are counted one by one; of more it is only said that they are more.
const COUNTED: usize = 10_000;

/// The times of a schedule.
#[derive(Debug)]
pub struct ScheduleClock {
    times: Crontab,
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
        let is_rhythm = cron.split_whitespace().nth(1).is_some_and(|hour| hour.starts_with('*'));
        let clock = cronexpr::parse_crontab(cron).map(|times| Self { times, is_rhythm });
        let clock = clock.map_err(|error| {
            let whole = error.to_string();
            // What comes before shows the whole line with an arrow.
            let why = whole.rsplit("^ ").next().unwrap_or(&whole).split(';').next();
            why.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        })?;
        clock.next(now).map(|_| clock).ok_or_else(|| "no such time ever comes".to_owned())
    }

    /// The first time after a moment.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut next = self.times.find_next(MakeTimestamp(after)).ok()?;
        while !self.is_rhythm && is_second(&next) {
            next = self.times.find_next(MakeTimestamp(next.timestamp())).ok()?;
        }
        Some(next.timestamp())
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

/// Whether clocks have shown this time of day before, in the night in which they are set back.
fn is_second(time: &Zoned) -> bool {
    let first = time.datetime().to_zoned(time.time_zone().clone());
    first.is_ok_and(|first| first.timestamp() < time.timestamp())
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
        ] {
            let why = ScheduleClock::read(cron, now).unwrap_err();
            assert!(why.contains(part) && !why.contains('\n'), "{cron}: {why}");
            assert!(!why.is_empty());
        }
    }
}
