//! One line of a work log: `DATE START-END PROJECT [NOTE]`.

use std::fmt;

use crate::clock::Clock;

/// Work on one project, from one time of day to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The day on which it began, as written.
    pub date: String,
    /// When it began.
    pub start: Clock,
    /// When it ended.
    pub end: Clock,
    /// What it was for.
    pub project: String,
}

impl Entry {
    /// How long it took.
    pub fn minutes(&self) -> u32 {
        self.start.minutes_until(self.end)
    }
}

/// A line that can't be read.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: usize,
    /// What was expected.
    pub expected: &'static str,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.number, self.expected)
    }
}

/// Reads a whole log. Empty lines and lines that begin with `#` are skipped.
pub fn parse(log: &str) -> Result<Vec<Entry>, BadLine> {
    let lines = log
        .lines()
        .enumerate()
        .map(|(n, line)| (n + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| parse_line(line).map_err(|expected| BadLine { number, expected }))
        .collect()
}

fn parse_line(line: &str) -> Result<Entry, &'static str> {
    let mut words = line.split_whitespace();
    let date = words
        .next()
        .filter(|w| is_date(w))
        .ok_or("a date such as 2025-03-07")?;
    let span = words.next().and_then(|w| w.split_once('-'));
    let (start, end) = span
        .and_then(|(start, end)| Some((Clock::parse(start)?, Clock::parse(end)?)))
        .ok_or("times such as 09:00-12:30")?;
    let project = words.next().ok_or("a project")?;
    Ok(Entry {
        date: date.to_owned(),
        start,
        end,
        project: project.to_owned(),
    })
}

fn is_date(word: &str) -> bool {
    let digits = |range| {
        word.get(range)
            .is_some_and(|s: &str| s.bytes().all(|b| b.is_ascii_digit()))
    };
    word.len() == 10
        && digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && word.as_bytes()[4] == b'-'
        && word.as_bytes()[7] == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_line_by_line() {
        let log = "# March\n\n2025-03-03 09:00-12:30 website  landing page\n";
        let entries = parse(log).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].project, "website");
        assert_eq!(entries[0].minutes(), 210);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (line, expected) in [
            ("monday 09:00-10:00 x", "a date such as 2025-03-07"),
            ("2025-03-03 9-10 x", "times such as 09:00-12:30"),
            ("2025-03-03 09:00-10:00", "a project"),
        ] {
            let log = format!("# first\n{line}\n");
            assert_eq!(
                parse(&log),
                Err(BadLine {
                    number: 2,
                    expected
                }),
                "{line}"
            );
        }
    }
}
