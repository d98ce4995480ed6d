//! Values that people type: their rules in words, and what of an answer follows them. Pure.

use std::fmt;

use serde_json::{Value, json};
use url::Url;

/// Longest answer, in characters, where a form names no bound.
const LONGEST: usize = 2_000;

/// The rule of a field that is answered with words.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WordsRule {
    /// A text, with its bounds in characters.
    Text {
        /// Fewest characters.
        least: Option<usize>,
        /// Most characters.
        most: Option<usize>,
        /// Format that the text has to have.
        format: Option<TextFormat>,
    },
    /// A number, with its bounds.
    Number {
        /// True if the number has to be whole.
        whole: bool,
        /// Smallest value allowed.
        least: Option<f64>,
        /// Largest value allowed.
        most: Option<f64>,
    },
    /// One or more options of a list.
    Pick(PickRule),
}

/// A choice by number or name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PickRule {
    /// Values, each with its words.
    pub options: Vec<(Value, String)>,
    /// More than one may be chosen.
    pub many: bool,
    /// Smallest number of choices.
    pub least: Option<usize>,
    /// Largest number of choices.
    pub most: Option<usize>,
}

/// Forms of text that the protocol knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFormat {
    Email,
    Uri,
    /// A calendar date.
    Date,
    /// Date and time of day.
    DateTime,
}

impl TextFormat {
    /// The one of that name; others count as no format.
    pub(super) fn named(name: Option<&str>) -> Option<Self> {
        match name? {
            "email" => Some(Self::Email),
            "uri" => Some(Self::Uri),
            "date" => Some(Self::Date),
            "date-time" => Some(Self::DateTime),
            _ => None,
        }
    }

    fn fits(self, text: &str) -> bool {
        match self {
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty() && host.contains('.') && !text.contains(char::is_whitespace)
            }),
            Self::Uri => Url::parse(text).is_ok(),
            Self::Date => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
            Self::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
        }
    }
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Email => "an e-mail address",
            Self::Uri => "an address such as https://example.com/page",
            Self::Date => "a date such as 2026-11-28",
            Self::DateTime => "a time such as 2026-11-28T09:30:00Z",
        })
    }
}

impl WordsRule {
    /// The value that an answer says. None: it does not follow the rule.
    pub(super) fn read(&self, answer: &str) -> Option<Value> {
        let answer = unwrap_marks(answer);
        match self {
            Self::Text { least, most, format } => {
                let count = answer.chars().count();
                let (least, most) = (least.unwrap_or(1).max(1), most.unwrap_or(LONGEST));
                let fits = (least..=most).contains(&count);
                let fits = fits && format.is_none_or(|format| format.fits(answer));
                fits.then(|| json!(answer))
            }
            Self::Number { whole, least, most } => {
                let number: f64 = answer.parse().ok().filter(|number: &f64| number.is_finite())?;
                let fits = least.is_none_or(|least| number >= least)
                    && most.is_none_or(|most| number <= most);
                if *whole {
                    let number: i64 = answer.parse().ok()?;
                    return fits.then(|| json!(number));
                }
                fits.then(|| json!(number))
            }
            Self::Pick(rule) => rule.read(answer),
        }
    }
}

impl PickRule {
    fn read(&self, answer: &str) -> Option<Value> {
        // A name may have a comma in it.
        if let Some(value) = self.find(answer) {
            return self.collect(vec![value]);
        }
        let parts = answer.split([',', ';', '\n']).filter(|part| !part.trim().is_empty());
        self.collect(parts.map(|part| self.find(part)).collect::<Option<Vec<_>>>()?)
    }

    fn collect(&self, mut picked: Vec<Value>) -> Option<Value> {
        let mut seen = Vec::new();
        picked.retain(|value| {
            let is_new = !seen.contains(value);
            seen.push(value.clone());
            is_new
        });
        let count = picked.len();
        if !self.many {
            return picked.pop().filter(|_| count == 1);
        }
        let fits = count >= self.least.unwrap_or(1) && self.most.is_none_or(|most| count <= most);
        fits.then(|| json!(picked))
    }

    fn find(&self, part: &str) -> Option<Value> {
        let part = unwrap_marks(part);
        let named = |(value, words): &&(Value, String)| {
            words.to_lowercase() == part.to_lowercase() || value.as_str() == Some(part)
        };
        let numbered = || self.options.get(part.parse::<usize>().ok()?.checked_sub(1)?);
        // People see the numbers, so a number chooses by position; but an option whose own name is a number comes
        // first.
        let (value, _) = self.options.iter().find(named).or_else(numbered)?;
        Some(value.clone())
    }
}

/// Removes quotes and marks that people put around a value.
fn unwrap_marks(answer: &str) -> &str {
    let answer = answer.trim();
    for mark in ['`', '"'] {
        let inner = answer.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
        if let Some(inner) = inner.filter(|inner| !inner.contains(mark)) {
            return inner.trim();
        }
    }
    // Slack shows an address in angle brackets.
    let inner = answer.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    inner.map_or(answer, |inner| inner.strip_prefix("mailto:").unwrap_or(inner))
}

impl fmt::Display for WordsRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { least, most, format } => {
                match format {
                    Some(format) => write!(f, "{format}")?,
                    None => f.write_str("a text")?,
                }
                match (least.filter(|least| *least > 1), most) {
                    (Some(least), Some(most)) => write!(f, " of {least} to {most} characters"),
                    (Some(least), None) => write!(f, " of at least {least} characters"),
                    (None, Some(most)) => write!(f, " of at most {most} characters"),
                    (None, None) => Ok(()),
                }
            }
            Self::Number { whole, least, most } => {
                f.write_str(if *whole { "a whole number" } else { "a number" })?;
                match (least, most) {
                    (Some(least), Some(most)) => write!(f, " from {least} to {most}"),
                    (Some(least), None) => write!(f, " of at least {least}"),
                    (None, Some(most)) => write!(f, " of at most {most}"),
                    (None, None) => Ok(()),
                }
            }
            Self::Pick(rule) => {
                let least = rule.least.filter(|least| *least > 1);
                let count = match (rule.many, least, rule.most) {
                    (false, ..) => "one".to_owned(),
                    (true, Some(least), Some(most)) => format!("{least} to {most}"),
                    (true, Some(least), None) => format!("at least {least}"),
                    (true, None, Some(most)) => format!("at most {most}"),
                    (true, None, None) => "any".to_owned(),
                };
                let commas = if rule.many { ", separated by commas" } else { "" };
                write!(f, "{count} of these, by number or name{commas}:")?;
                for (at, (_, words)) in rule.options.iter().enumerate() {
                    write!(f, "{} {} {words}", if at == 0 { "" } else { "," }, at + 1)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_within_its_bounds_and_whole_where_it_has_to_be() {
        let rule = |whole| WordsRule::Number { whole, least: Some(1.0), most: Some(100.0) };
        assert_eq!(rule(true).read(" 42 "), Some(json!(42)));
        assert_eq!(rule(false).read("`4.5`"), Some(json!(4.5)));
        for wrong in ["4.5", "0", "101", "NaN", "inf", "forty", ""] {
            assert_eq!(rule(true).read(wrong), None, "{wrong}");
        }
        assert_eq!(rule(false).read("NaN"), None);
        let free = WordsRule::Number { whole: true, least: None, most: None };
        assert_eq!(free.read("9007199254740993"), Some(json!(9_007_199_254_740_993_i64)));
    }

    #[test]
    fn a_text_has_its_length_and_format() {
        let text = |format| WordsRule::Text { least: None, most: Some(40), format };
        assert_eq!(text(None).read("\"Berlin, Mitte\""), Some(json!("Berlin, Mitte")));
        assert_eq!(text(None).read(""), None);
        assert_eq!(text(None).read(&"x".repeat(41)), None);
        let read = |format, answer| text(Some(format)).read(answer);
        assert_eq!(
            read(TextFormat::Email, "<mailto:ana@example.com>"),
            Some(json!("ana@example.com"))
        );
        assert_eq!(read(TextFormat::Email, "ana at example.com"), None);
        assert_eq!(
            read(TextFormat::Uri, "<https://example.com/a>"),
            Some(json!("https://example.com/a"))
        );
        assert_eq!(read(TextFormat::Uri, "example"), None);
        assert_eq!(read(TextFormat::Date, "2026-02-28"), Some(json!("2026-02-28")));
        assert_eq!(read(TextFormat::Date, "2026-02-30"), None);
        assert_eq!(
            read(TextFormat::DateTime, "2026-11-28T09:30:00Z"),
            Some(json!("2026-11-28T09:30:00Z"))
        );
        assert_eq!(read(TextFormat::DateTime, "tomorrow"), None);
    }

    #[test]
    fn choices_are_named_or_numbered() {
        let option = |name: &str| (json!(name.to_lowercase()), name.to_owned());
        let options: Vec<_> = ["Tuna", "Salmon", "Cod, smoked"].map(option).to_vec();
        let one = PickRule { options, many: false, least: None, most: None };
        assert_eq!(one.read("2"), Some(json!("salmon")));
        assert_eq!(one.read("TUNA"), Some(json!("tuna")));
        assert_eq!(one.read("cod, smoked"), Some(json!("cod, smoked")));
        assert_eq!((one.read("4"), one.read("1, 2"), one.read("0")), (None, None, None));
        let many = PickRule { many: true, most: Some(2), ..one };
        assert_eq!(many.read("1, salmon"), Some(json!(["tuna", "salmon"])));
        assert_eq!(many.read("1, tuna"), Some(json!(["tuna"])), "once each");
        assert_eq!((many.read("1, 2, 3"), many.read("")), (None, None));
    }
}
