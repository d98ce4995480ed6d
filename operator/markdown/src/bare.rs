//! Addresses that stand in a text as they are. Slack is told to look for none, since it takes `main.rs` and
//! `codebutler.pm` for some: those that are meant are marked here.

use std::ops::Range;

/// Characters that end an address, or a sentence behind it.
const ENDS: [char; 6] = ['<', '>', '|', '`', '"', '\u{a0}'];
const BEHIND: [char; 9] = ['.', ',', ';', ':', '!', '?', '\'', '*', '_'];

/// Ranges of addresses in an escaped text, outside of what is `kept`; none goes across an edge.
pub fn find_addresses(text: &str, kept: &[Range<usize>], edges: &[usize]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.match_indices("http") {
        let before = text[..at].chars().next_back();
        let is_inside = |range: &Range<usize>| range.contains(&at);
        if before.is_some_and(char::is_alphanumeric)
            || kept.iter().any(is_inside)
            || found.last().is_some_and(is_inside)
        {
            continue;
        }
        let next = kept.iter().map(|range| range.start).chain(edges.iter().copied());
        let limit = next.filter(|next| *next > at).min().unwrap_or(text.len());
        if let Some(length) = address_length(&text[at..limit]) {
            found.push(at..at + length);
        }
    }
    found
}

/// The length of the address that a text begins with.
fn address_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let scheme = text.len() - rest.len();
    let end = |c: char| c.is_whitespace() || ENDS.contains(&c);
    let entity = ["&lt;", "&gt;"].into_iter().filter_map(|entity| rest.find(entity)).min();
    let until = rest.find(end).unwrap_or(rest.len()).min(entity.unwrap_or(rest.len()));
    let mut rest = &rest[..until];
    loop {
        let shorter = rest.trim_end_matches(BEHIND);
        let closed = shorter.matches('(').count() < shorter.matches(')').count();
        let shorter = shorter.strip_suffix(')').filter(|_| closed).unwrap_or(shorter);
        if shorter.len() == rest.len() {
            break;
        }
        rest = shorter;
    }
    let host = rest.starts_with(char::is_alphanumeric) || rest.starts_with('[');
    host.then(|| scheme + rest.len())
}
