//! Words of a Markdown text that its readers would not see: people approve what they read, and all of it counts.
//! Pure.
//!
//! Of links a reader sees neither definitions that nothing refers to (`[//]: # (words)`) nor titles, and of a code
//! block nothing but the first word behind its fence. HTML, comments among it, is shown as it stands already.

use std::collections::HashSet;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use crate::{literal, parse_options};

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

/// Words behind a fence besides the language.
pub fn fence_words<'a>(kind: &'a CodeBlockKind<'_>) -> Option<&'a str> {
    let CodeBlockKind::Fenced(info) = kind else { return None };
    let rest = info.trim().split_once(char::is_whitespace)?.1.trim();
    (!rest.is_empty()).then_some(rest)
}
