//! The text in Slack's messages, wherever Slack puts it: rich text, layout blocks and attachments, as
//! mrkdwn; and which part of a text its author only quotes. Pure, and lenient: what is not known here is
//! searched for texts, and nothing odd hides its neighbours.

mod attachments;
mod blocks;
mod links;
mod quotes;
mod rich;

pub use attachments::{AttachedKind, AttachedText, read_attachments};
pub use blocks::{is_table_block, shown_text, spoken_text};
pub use links::is_typed_label;
pub use quotes::without_quotes;

/// Levels of nesting that are followed.
const DEPTH: usize = 8;

/// Text as mrkdwn writes it.
fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A text without surrounding space, if anything is left.
fn filled(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}
