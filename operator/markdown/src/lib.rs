//! Markdown that others wrote. It is parsed in one place; Slack's markup, the HTML of pages and plain lines
//! are written from the same events. Pure.
//!
//! Every word is untrusted: HTML is text, links lead to the web or nowhere, images are links, and what a
//! reader of the rendered text would not see is made visible.

mod bare;
mod hidden;
mod html;
mod links;
mod literal;
mod plain;
mod visible;

pub use bare::find_addresses;
pub use hidden::fence_words;
pub use html::{TextDialect, render_html};
pub use links::{is_url, looks_elsewhere};
pub use literal::{show_line, show_literally};
pub use plain::plain_line;
pub use visible::{mark_hidden, visible_text};

use pulldown_cmark::{OffsetIter, Options, Parser};

/// A text as [`parse_events`] takes it: nothing in it stays unseen.
#[must_use]
pub fn prepare_source(markdown: &str) -> String {
    let shown = visible::mark_deceptive(markdown.trim_end());
    hidden::show_cells(hidden::show_definitions(without_lazy_quotes(&shown)))
}

/// The events of a prepared text, with their places in it.
#[must_use]
pub fn parse_events(source: &str) -> OffsetIter<'_> {
    Parser::new_ext(source, parse_options()).into_offset_iter()
}

fn parse_options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// CommonMark lets a quote go on without its mark; here a line without one ends it, so that a
/// mention under a quote stays a mention.
fn without_lazy_quotes(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len() + 8);
    let mut in_quote = false;
    for line in markdown.lines() {
        let marked = line.trim_start().starts_with('>');
        if in_quote && !marked && !line.trim().is_empty() {
            out.push('\n');
        }
        in_quote = marked;
        out.push_str(line);
        out.push('\n');
    }
    out
}
