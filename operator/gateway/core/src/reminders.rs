//! Computes when people are reminded of a question: after some hours of work, and then weekly.
//! Pure.

use codebutler_crds::repo::RemindersSpec;
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

/// Days that are counted through for the first reminder: a question is older than that only where work begins never.
const MOST_DAYS: usize = 120;
/// Weekly reminders of one question.
const WEEKS: i64 = 52;

/// The hours in which a team works.
pub struct WorkingHours {
    zone: TimeZone,
    from: Time,
    to: Time,
    weekends: bool,
    patience: SignedDuration,
}

impl WorkingHours {
    /// Reads a Repo's settings. A time zone that does not exist counts as UTC, as everywhere in the
    /// Repo.
    pub fn of(spec: &RemindersSpec, zone: &str) -> Self {
        let time = |text: &str| text.parse::<Time>().ok();
        let (from, to) = (time(&spec.from), time(&spec.to));
        Self {
            zone: TimeZone::get(zone).unwrap_or(TimeZone::UTC),
            from: from.unwrap_or(Time::midnight()),
            to: to.unwrap_or(Time::MAX),
            weekends: spec.weekends,
            patience: SignedDuration::from_hours(spec.hours.into()),
        }
    }

    /// The number of the reminder that is due, from 0: none outside of the hours of work, or too early for the first.
    pub fn count_reminders(&self, asked: Timestamp, now: Timestamp) -> Option<i64> {
        if !self.is_work(&now.to_zoned(self.zone.clone())) {
            return None;
        }
        let first = self.first_reminder(asked)?;
        let since = now.duration_since(first);
        if since.is_negative() { None } else { Some((since.as_hours() / (7 * 24)).min(WEEKS)) }
    }

    fn first_reminder(&self, asked: Timestamp) -> Option<Timestamp> {
        let mut left = self.patience;
        let mut day = asked.to_zoned(self.zone.clone()).date();
        for _ in 0..MOST_DAYS {
            let at = |time: Time| day.to_datetime(time).to_zoned(self.zone.clone()).ok();
            if self.is_working_day(day.weekday())
                && let (Some(begins), Some(ends)) = (at(self.from), at(self.to))
            {
                let begins = begins.timestamp().max(asked);
                let length = ends.timestamp().duration_since(begins);
                if !length.is_negative() {
                    if left <= length {
                        return begins.checked_add(left).ok();
                    }
                    left -= length;
                }
            }
            day = day.checked_add(1.day()).ok()?;
        }
        None
    }

    fn is_work(&self, local: &Zoned) -> bool {
        self.is_working_day(local.weekday()) && (self.from..self.to).contains(&local.time())
    }

    const fn is_working_day(&self, day: Weekday) -> bool {
        self.weekends || !matches!(day, Weekday::Saturday | Weekday::Sunday)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(hours: u32, weekends: bool) -> WorkingHours {
        let spec = RemindersSpec { hours, weekends, ..RemindersSpec::default() };
        WorkingHours::of(&spec, "Europe/Berlin")
    }

    fn due(hours: &WorkingHours, asked: &str, now: &str) -> Option<i64> {
        hours.count_reminders(asked.parse().unwrap(), now.parse().unwrap())
    }

    #[test]
    fn hours_of_work_are_counted_and_nights_and_weekends_are_quiet() {
        let team = hours(4, false);
        // Friday, 16:00 in Berlin: two hours on Friday, two on Monday.
        let asked = "2026-11-27T15:00:00Z";
        assert_eq!(due(&team, asked, "2026-11-27T16:59:00Z"), None, "too early");
        assert_eq!(due(&team, asked, "2026-11-28T12:00:00Z"), None, "a Saturday");
        assert_eq!(due(&team, asked, "2026-11-30T09:59:00Z"), None, "Monday, 10:59");
        assert_eq!(due(&team, asked, "2026-11-30T10:00:00Z"), Some(0), "Monday, 11:00");
        assert_eq!(due(&team, asked, "2026-11-30T20:00:00Z"), None, "a night");
        assert_eq!(due(&team, asked, "2026-12-04T10:00:00Z"), Some(0), "the same one");
        assert_eq!(due(&team, asked, "2026-12-07T10:00:00Z"), Some(1), "a week later");
        assert_eq!(due(&team, asked, "2026-12-15T10:00:00Z"), Some(2));
        let always = hours(4, true);
        assert_eq!(due(&always, asked, "2026-11-28T10:00:00Z"), Some(0), "Saturday, 11:00");
    }

    #[test]
    fn a_night_shift_without_hours_is_never_reminded_and_a_change_of_clocks_counts() {
        let spec =
            RemindersSpec { from: "18:00".into(), to: "09:00".into(), ..RemindersSpec::default() };
        let never = WorkingHours::of(&spec, "UTC");
        assert_eq!(due(&never, "2026-11-27T15:00:00Z", "2026-12-27T15:00:00Z"), None);
        let team = hours(1, true);
        // The clocks go forward at 02:00 on that Sunday.
        assert_eq!(due(&team, "2026-03-28T22:00:00Z", "2026-03-29T07:59:00Z"), None);
        assert_eq!(due(&team, "2026-03-28T22:00:00Z", "2026-03-29T08:00:00Z"), Some(0));
    }
}
