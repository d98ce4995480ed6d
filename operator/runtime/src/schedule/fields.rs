//! The five fields of cron as people write them, checked one by one, so that a mistake is told by its field.

use std::fmt::Write as _;

/// Reason why a schedule's times can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error(
        "cron has {0} fields instead of 5: minute, hour, day of the month, month, day of the week"
    )]
    Count(usize),
    #[error("the field {field} has `{part}`: {why}")]
    Field { field: &'static str, part: String, why: String },
    #[error(
        "`{0}` is not known: there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually"
    )]
    Nickname(String),
    #[error("a time zone is written into `timeZone` and not into `cron`")]
    ZoneInside,
    #[error("there is no time zone {0}")]
    Zone(String),
    #[error("no such time ever comes")]
    Never,
    #[error("cron can't be read: {0}")]
    Other(String),
}

/// Nicknames of common schedules.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Range and names of a field.
struct CronField {
    name: &'static str,
    low: u32,
    high: u32,
    /// Names of the values from the lowest on.
    names: &'static [&'static str],
}

const FIELDS: [CronField; 5] = [
    CronField { name: "minute", low: 0, high: 59, names: &[] },
    CronField { name: "hour", low: 0, high: 23, names: &[] },
    CronField { name: "day of the month", low: 1, high: 31, names: &[] },
    CronField {
        name: "month",
        low: 1,
        high: 12,
        names: &[
            "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
        ],
    },
    CronField {
        name: "day of the week",
        low: 0,
        high: 7,
        names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    },
];

/// The fields of a schedule, in numbers alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronFields([String; 5]);

impl CronFields {
    /// # Errors
    /// By the field that can't be read.
    pub fn read(cron: &str) -> Result<Self, CronError> {
        let cron = cron.trim();
        let named = if cron.starts_with('@') {
            let known = NICKNAMES.iter().find(|(name, _)| cron.eq_ignore_ascii_case(name));
            known.map(|(_, times)| *times).ok_or_else(|| CronError::Nickname(cron.to_owned()))?
        } else {
            cron
        };
        let words: Vec<&str> = named.split_whitespace().collect();
        if words.first().is_some_and(|word| word.contains("TZ=")) {
            return Err(CronError::ZoneInside);
        }
        let [minute, hour, day, month, weekday] = words[..] else {
            return Err(CronError::Count(words.len()));
        };
        let [of_minute, of_hour, of_day, of_month, of_weekday] = &FIELDS;
        Ok(Self([
            of_minute.expand(minute)?,
            of_hour.expand(hour)?,
            of_day.expand(day)?,
            of_month.expand(month)?,
            of_weekday.expand(weekday)?,
        ]))
    }

    /// Joins the fields into one line.
    pub fn line(&self) -> String {
        self.0.join(" ")
    }

    /// Returns true if its hours are a rhythm, such as `*/2`, and no times of day.
    pub fn has_rhythm(&self) -> bool {
        self.0[1]
            .split(',')
            .any(|part| part.starts_with('*') || part.split('/').next() == Some("0-23"))
    }

    /// A day that fits either day field is enough: both are limited.
    pub fn takes_either_day(&self) -> bool {
        !self.0[2].starts_with('*') && !self.0[4].starts_with('*')
    }
}

impl CronField {
    fn expand(&self, word: &str) -> Result<String, CronError> {
        let parts = word.split(',').map(|part| self.expand_part(part));
        Ok(parts.collect::<Result<Vec<_>, _>>()?.join(","))
    }

    fn fault(&self, part: &str, why: &str) -> CronError {
        CronError::Field { field: self.name, part: part.to_owned(), why: why.to_owned() }
    }

    fn expand_part(&self, part: &str) -> Result<String, CronError> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(part, step)?)),
            None => (part, None),
        };
        let with_step = |range: String| match step {
            Some(step) => format!("{range}/{step}"),
            None => range,
        };
        match range {
            "*" => return Ok(with_step("*".to_owned())),
            "?" if self.name.starts_with("day") && step.is_none() => return Ok("*".to_owned()),
            "?" => return Err(self.fault(part, "`?` stands alone in a field of days: write `*`")),
            _ => {}
        }
        let Some((from, to)) = range.split_once('-') else {
            return Ok(with_step(self.value(part, range)?.to_string()));
        };
        let (mut from, to) = (self.value(part, from)?, self.value(part, to)?);
        if from > to && self.high == 7 {
            from %= 7;
        }
        if from <= to {
            return Ok(with_step(format!("{from}-{to}")));
        }
        Ok(self.wrap(from, to, step.unwrap_or(1)))
    }

    /// The values of a range that goes on behind the last one, as in `22-2`.
    fn wrap(&self, from: u32, to: u32, step: u32) -> String {
        let high = if self.high == 7 { 6 } else { self.high };
        let count = high - self.low + 1;
        let mut values = String::new();
        let mut at = from;
        while at <= to + count {
            let comma = if values.is_empty() { "" } else { "," };
            let _ = write!(values, "{comma}{}", self.low + (at - self.low) % count);
            at += step;
        }
        values
    }

    fn step(&self, part: &str, step: &str) -> Result<u32, CronError> {
        let most = self.high;
        let parsed = step.parse().ok().filter(|step| (1..=most).contains(step));
        parsed.filter(|_| is_number(step)).ok_or_else(|| {
            self.fault(part, &format!("its step has to be a number from 1 to {most}"))
        })
    }

    fn value(&self, part: &str, text: &str) -> Result<u32, CronError> {
        let Self { low, high, names, .. } = self;
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(value) = named.and_then(|at| u32::try_from(at).ok()) {
            return Ok(low + value);
        }
        if is_number(text) {
            let value = text.parse().ok().filter(|value| (*low..=*high).contains(value));
            return value
                .ok_or_else(|| self.fault(part, &format!("it has to be from {low} to {high}")));
        }
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_named = names.iter().any(|name| {
            text.len() > 3 && text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name))
        });
        let rest = if is_named { &text[3..] } else { rest };
        let is_extension = text.contains(['#', '~'])
            || matches!(&*rest.to_ascii_uppercase(), "L" | "W" | "LW" | "H");
        let why = match () {
            () if is_extension => "L, W, #, H and ~ are not known here".to_owned(),
            () if is_named => "names have three letters, such as `MON` or `JAN`".to_owned(),
            () if names.is_empty() => format!("it has to be numbers from {low} to {high}"),
            () => format!("it has to be names of three letters or numbers from {low} to {high}"),
        };
        Err(self.fault(part, &why))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cron: &str) -> String {
        CronFields::read(cron).map_or_else(|error| error.to_string(), |fields| fields.line())
    }

    #[test]
    fn what_other_crons_take_is_taken() {
        for (cron, expected) in [
            ("@daily", "0 0 * * *"),
            ("@Hourly", "0 * * * *"),
            (" 0\t2  * * 1 ", "0 2 * * 1"),
            ("0 2 ? * 1", "0 2 * * 1"),
            ("0 2 1 * ?", "0 2 1 * *"),
            ("0 2 * * SAT-SUN", "0 2 * * 6,0"),
            ("0 2 * * fri-Mon", "0 2 * * 5,6,0,1"),
            ("0 2 * * 7-2", "0 2 * * 0-2"),
            ("0 2 * * 5-7", "0 2 * * 5-7"),
            ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
            ("50-10/10 * * * *", "50,0,10 * * * *"),
            ("0 0 28-3 NOV-FEB *", "0 0 28,29,30,31,1,2,3 11,12,1,2 *"),
            ("5/15 */2 1,15 * MON-FRI", "5/15 */2 1,15 * 1-5"),
            ("0 0 * JAN,jul *", "0 0 * 1,7 *"),
        ] {
            assert_eq!(line(cron), expected, "{cron}");
        }
    }

    #[test]
    fn what_is_not_taken_is_told_by_its_field() {
        let all = [
            "61 * * * *",
            "*/90 * * * *",
            "*/0 * * * *",
            "0 24 * * *",
            "0 2 0 * *",
            "0 2 * 13 *",
            "0 2 * * 8",
            "? 2 * * *",
            "0 2 * * ?/2",
            "0 2 * * Monday",
            "0 2 * January *",
            "0 2 * * FRIL",
            "0 2 * * 5L",
            "0 2 L * *",
            "0 2 15W * *",
            "0 2 * * 1#2",
            "H 2 * * *",
            "0~30 2 * * *",
            "1,,2 * * * *",
            "-5 * * * *",
            "+5 * * * *",
            "1-2-3 * * * *",
            "1/2/3 * * * *",
            "é * * * *",
            "@reboot",
            "@every 5m",
            "TZ=UTC 0 2 * * *",
            "CRON_TZ=UTC 0 2 * *",
            "0 0 * *",
            "0 0 * * * *",
            "",
        ];
        let told: Vec<_> = all.iter().map(|cron| format!("{cron}: {}", line(cron))).collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn hours_are_a_rhythm_where_all_of_them_are_meant() {
        let rhythm = |cron: &str| CronFields::read(cron).unwrap().has_rhythm();
        assert!(rhythm("0 * * * *") && rhythm("0 */2 * * *") && rhythm("30 0-23 * * *"));
        assert!(rhythm("30 0-23/2 * * *") && rhythm("@hourly"));
        assert!(!rhythm("30 2 * * *") && !rhythm("0 0-22 * * *") && !rhythm("*/10 2 * * *"));
    }
}
