//! Moments in sentences for people: a mark that whoever shows the sentence turns into the reader's own time. Pure.

use jiff::Timestamp;

/// The mark, as it stands in a sentence.
#[must_use]
pub fn mark_moment(at: Timestamp) -> String {
    format!("<t:{}>", at.as_second())
}

/// A moment where nobody knows the reader's zone.
#[must_use]
pub fn format_plain(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d at %H:%M UTC").to_string()
}
