//! Text as it was written, inside of Markdown that is rendered: what people approve is all of it. Pure.

use std::iter::repeat_n;

use crate::visible_text;

/// A block in which each character is shown and none means anything.
pub fn show_literally(text: &str) -> String {
    let text = visible_text(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence: String = repeat_n('`', (longest + 1).max(3)).collect();
    format!("{fence}\n{text}\n{fence}")
}

/// The same for a few words in a line.
pub fn show_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible_text(text).chars() {
        if c.is_whitespace() {
            out.push(' ');
            continue;
        }
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
