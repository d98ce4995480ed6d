//! Words of a Markdown text that its readers would not see: people approve what they read, and all of it counts.
//! Pure.
//!
//! Of links a reader sees neither definitions that nothing refers to (`[//]: # (words)`) nor titles, of a code block
//! nothing but the first word behind its fence, and of a row no cell behind the last column of its table. HTML is
//! shown as it stands already, comments among it.

use std::collections::HashSet;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::{literal, parse_events, parse_options};

/// Maximum number of searches for definitions: one that is shown may let another one count that it had covered.
const ROUNDS: usize = 8;

/// The same text in which each definition is shown that is no link's target alone.
pub(crate) fn show_definitions(markdown: String) -> String {
    let mut text = markdown;
    for _ in 0..ROUNDS {
        let hidden = find_hidden(&text);
        if hidden.is_empty() {
            return text;
        }
        for at in hidden {
            text.insert(at, '\\');
        }
    }
    if find_hidden(&text).is_empty() { text } else { literal::show_literally(&text) }
}

/// Offsets of hidden definitions, the last one first.
fn find_hidden(text: &str) -> Vec<usize> {
    let mut parser = Parser::new_ext(text, parse_options());
    if parser.reference_definitions().iter().next().is_none() {
        return Vec::new();
    }
    let mut used = HashSet::new();
    for event in parser.by_ref() {
        if let Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) = event {
            used.insert(id.to_lowercase());
        }
    }
    let definitions = parser.reference_definitions().iter();
    let hidden = definitions
        .filter(|(label, definition)| {
            definition.title.is_some() || !used.contains(&label.to_lowercase())
        })
        .map(|(_, definition)| definition.span.start);
    let mut hidden: Vec<usize> = hidden.collect();
    hidden.sort_unstable_by(|one, other| other.cmp(one));
    hidden
}

/// The same text in which cells that their table has no column for are words of the cell before them. So is code with a
/// bar in it, as in a command with a pipe, which ends a cell unless it is escaped.
pub(crate) fn show_cells(markdown: String) -> String {
    let bars = find_surplus_bars(&markdown);
    if bars.is_empty() {
        return markdown;
    }
    let mut shown = String::with_capacity(markdown.len() + bars.len());
    let mut done = 0;
    for at in bars {
        shown.push_str(&markdown[done..at]);
        shown.push('\\');
        done = at;
    }
    shown.push_str(&markdown[done..]);
    shown
}

/// Offsets of the bars that begin cells behind the last column, the first one first.
fn find_surplus_bars(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    if !text.contains('|') {
        return found;
    }
    let mut end = 0;
    for (event, range) in parse_events(text) {
        match event {
            Event::End(TagEnd::TableCell) => end = range.end,
            Event::End(TagEnd::TableRow) => {
                let rest = text.get(end..range.end).unwrap_or_default().trim_end();
                // The bar at the end of a row begins no cell.
                let rest = rest.strip_suffix('|').unwrap_or(rest);
                if rest.chars().any(|c| c != '|' && !c.is_whitespace()) {
                    let bars = rest.match_indices('|').map(|(at, _)| at);
                    let bars = bars.filter(|at| !rest[..*at].ends_with('\\'));
                    found.extend(bars.map(|at| end + at));
                }
            }
            _ => {}
        }
    }
    found
}

/// Words behind a fence besides the language.
pub fn fence_words<'a>(kind: &'a CodeBlockKind<'_>) -> Option<&'a str> {
    let CodeBlockKind::Fenced(info) = kind else { return None };
    let rest = info.trim().split_once(char::is_whitespace)?.1.trim();
    (!rest.is_empty()).then_some(rest)
}
