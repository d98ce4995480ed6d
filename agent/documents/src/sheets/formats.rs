//! Number formats of cells: a date is a number that its format makes one.

use std::fmt::Write as _;

/// The kind of value that a number format shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NumberForm {
    /// A number that is shown as it is.
    #[default]
    Plain,
    /// A date, a time of day, or both.
    Date { day: bool, time: bool },
    /// Hours that may be more than a day has.
    Duration,
    /// A fraction that is shown in percent.
    Percent,
    /// A number that is padded with zeros to this number of digits, such as a post code.
    Padded(usize),
}

impl NumberForm {
    /// Form of a built-in number format, by its id.
    pub(crate) fn builtin(id: u32) -> Self {
        match id {
            9 | 10 => Self::Percent,
            14..=17 | 27..=31 | 36 | 50..=54 | 57 | 58 => Self::Date { day: true, time: false },
            18..=21 | 32..=35 | 45 | 47 | 55 | 56 => Self::Date { day: false, time: true },
            22 => Self::Date { day: true, time: true },
            46 => Self::Duration,
            _ => Self::Plain,
        }
    }

    /// Form of a number format's code, such as `yyyy\-mm\-dd`.
    pub(crate) fn parse(code: &str) -> Self {
        let (mut day, mut time, mut month, mut percent, mut elapsed) =
            (false, false, false, false, false);
        let first = code.split(';').next().unwrap_or_default();
        let mut letters = first.chars();
        while let Some(c) = letters.next() {
            match c.to_ascii_lowercase() {
                '"' => drop(letters.by_ref().find(|c| *c == '"')),
                '\\' | '_' | '*' => drop(letters.next()),
                '[' => {
                    let inside: String = letters.by_ref().take_while(|c| *c != ']').collect();
                    let inside = inside.to_ascii_lowercase();
                    elapsed |= !inside.is_empty() && inside.chars().all(|c| "hms".contains(c));
                }
                'y' | 'd' => day = true,
                'h' | 's' => time = true,
                'm' => month = true,
                'g' if first.eq_ignore_ascii_case("general") => return Self::Plain,
                '%' => percent = true,
                _ => {}
            }
        }
        if elapsed {
            return Self::Duration;
        }
        if day || time || month {
            // `m` alone is a month; beside hours or seconds it is minutes.
            return Self::Date { day: day || !time, time };
        }
        if percent {
            return Self::Percent;
        }
        if first.len() > 1 && first.chars().all(|c| c == '0') {
            return Self::Padded(first.len().min(30));
        }
        Self::Plain
    }

    /// A number as this form shows it. `text` is how the file writes it.
    pub(crate) fn show(&self, text: &str, is_1904: bool) -> String {
        let Ok(number) = text.trim().parse::<f64>() else { return text.to_owned() };
        match self {
            Self::Date { day, time } => show_date(number, (*day, *time), is_1904)
                .unwrap_or_else(|| plain_number(text, number)),
            Self::Duration => show_duration(number),
            Self::Percent => format!("{}%", significant(number * 100.0)),
            Self::Padded(width) if number >= 0.0 && number.fract() == 0.0 && number < 1e15 => {
                format!("{number:0width$.0}", width = *width)
            }
            _ => plain_number(text, number),
        }
    }
}

/// Integers as they are written; others with the digits that Excel shows at most.
fn plain_number(text: &str, number: f64) -> String {
    let text = text.trim();
    if text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) {
        return text.to_owned();
    }
    significant(number)
}

/// Fifteen significant digits, without zeros that say nothing.
fn significant(number: f64) -> String {
    if !number.is_finite() || number == 0.0 {
        return "0".to_owned();
    }
    let rounded = format!("{number:.14e}").parse::<f64>().unwrap_or(number);
    if rounded.abs() >= 1e15 || rounded.abs() < 1e-7 {
        return format!("{rounded:e}");
    }
    format!("{rounded}")
}

/// A serial number as a day and time. None outside of what Excel has days for.
pub(crate) fn show_date(number: f64, (day, time): (bool, bool), is_1904: bool) -> Option<String> {
    const SECONDS: f64 = 86_400.0;
    if !(0.0..2_958_466.0).contains(&number) {
        return None;
    }
    let total = (number * SECONDS).round();
    let days = (total / SECONDS).floor();
    #[expect(clippy::cast_possible_truncation, reason = "both are small by the bounds above")]
    let (days, seconds) = (days as i64, (total - days * SECONDS) as i64);
    let mut out = String::new();
    let has_day = day && !(is_1904 && days == 0 && time && number < 1.0);
    if has_day {
        // The leap day of 1900 that never was is the 60th day.
        out = match (is_1904, days) {
            (true, _) => civil(days - 24_107),
            (false, 60) => "1900-02-29".to_owned(),
            (false, 0) => "1900-01-00".to_owned(),
            (false, 1..=59) => civil(days - 25_568),
            (false, _) => civil(days - 25_569),
        };
    }
    if !has_day || seconds != 0 {
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let space = if out.is_empty() { "" } else { " " };
        let _ = write!(out, "{space}{hours:02}:{minutes:02}");
        if seconds != 0 {
            let _ = write!(out, ":{seconds:02}");
        }
    }
    Some(out)
}

fn show_duration(number: f64) -> String {
    let total = (number.abs() * 86_400.0).round();
    if total > 1e12 {
        return significant(number);
    }
    #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
    let total = total as i64;
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60)
}

/// The date that is so many days after 1970-01-01, in the Gregorian calendar.
fn civil(days: i64) -> String {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart() {
        let date = |day, time| NumberForm::Date { day, time };
        for (code, form) in [
            ("General", NumberForm::Plain),
            ("0.00", NumberForm::Plain),
            ("yyyy\\-mm\\-dd", date(true, false)),
            ("m/d/yy h:mm", date(true, true)),
            ("mmm", date(true, false)),
            ("h:mm AM/PM", date(false, true)),
            ("[h]:mm:ss", NumberForm::Duration),
            ("[Red]0.0%", NumberForm::Percent),
            ("#,##0 \"days\"", NumberForm::Plain),
            ("[$-407]d. mmmm yyyy;@", date(true, false)),
            ("00000", NumberForm::Padded(5)),
            ("\"sum\" 0", NumberForm::Plain),
        ] {
            assert_eq!(NumberForm::parse(code), form, "{code}");
        }
    }

    #[test]
    fn both_systems_have_their_days() {
        let show = |number, is_1904| show_date(number, (true, true), is_1904).unwrap();
        assert_eq!(show(1.0, false), "1900-01-01");
        assert_eq!(show(59.0, false), "1900-02-28");
        assert_eq!(show(60.0, false), "1900-02-29");
        assert_eq!(show(61.0, false), "1900-03-01");
        assert_eq!(show(46_082.0, false), "2026-03-01");
        assert_eq!(show(46_082.5, false), "2026-03-01 12:00");
        assert_eq!(show(46_082.0 - 1462.0, true), "2026-03-01");
        assert_eq!(show_date(0.999_999_9, (false, true), false).unwrap(), "00:00");
        assert_eq!(show_date(-1.0, (true, false), false), None);
        let form = NumberForm::Date { day: true, time: false };
        assert_eq!(form.show("-5", false), "-5");
    }

    #[test]
    fn numbers_are_what_a_person_sees() {
        let show = |form: &NumberForm, text| form.show(text, false);
        assert_eq!(show(&NumberForm::Plain, "0.30000000000000004"), "0.3");
        assert_eq!(show(&NumberForm::Plain, "12345678901234567"), "12345678901234567");
        assert_eq!(show(&NumberForm::Percent, "0.125"), "12.5%");
        assert_eq!(show(&NumberForm::Duration, "1.5"), "36:00:00");
        assert_eq!(show(&NumberForm::Padded(5), "1234"), "01234");
        assert_eq!(show(&NumberForm::Plain, "1E3"), "1000");
    }
}
