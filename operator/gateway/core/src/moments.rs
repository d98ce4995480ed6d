//! Moments in sentences for people: a mark that whoever shows the sentence turns into the reader's own time. Pure.

use jiff::Timestamp;

/// The mark, as it stands in a sentence.
#[must_use]
pub fn mark_moment(at: Timestamp) -> String {
    format!("<t:{}>", at.as_second())
}

/// The moment of a mark, by what stands between `<t:` and `>`.
#[must_use]
pub fn read_mark(digits: &str) -> Option<Timestamp> {
    let is_number = (1..=11).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    Timestamp::from_second(digits.parse().ok().filter(|_| is_number)?).ok()
}

/// Spells marks out in a sentence that goes to a role: no model knows what they are.
#[must_use]
pub fn spell_marks(text: &str) -> String {
    const BEGIN: &str = "<t:";
    let mut parts = text.split(BEGIN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found = part.split_once('>');
        match found.and_then(|(digits, rest)| Some((read_mark(digits)?, rest))) {
            Some((at, rest)) => out.extend([&*format_plain(at), rest]),
            None => out.extend([BEGIN, part]),
        }
    }
    out
}

/// A moment where nobody knows the reader's zone.
#[must_use]
pub fn format_plain(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d at %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_a_moment_in_words() {
        let at: Timestamp = "2026-11-28T23:00:00Z".parse().unwrap();
        let text = format!("It is renewed {}, and <t:x> `a<b`.", mark_moment(at));
        assert_eq!(spell_marks(&text), "It is renewed 2026-11-28 at 23:00 UTC, and <t:x> `a<b`.");
    }
}
