//! Text between GitHub and models. What comes in loses what a reader of the page does not see, for
//! that is where commands are hidden from people; what goes out can hide nothing, and carries the
//! gateway's own marker. Pure.

use codebutler_crds::wire::break_ci_words;
use sha2::{Digest as _, Sha256};

const MARK: &str = "<!-- codebutler:";

/// The marker of an effect: found again in what is on GitHub before the effect is repeated.
pub fn effect_marker(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    format!("{MARK}{} -->", hex::encode(&hash.finalize()[..12]))
}

/// Returns true if CodeButler wrote it: people have no reason to hide a marker in their own words,
/// except to be overlooked.
pub fn is_own(body: &str) -> bool {
    body.contains(MARK)
}

/// A model's text, such that a reader of the page sees all of it, and no CI service is switched off by it: titles and
/// descriptions become commit messages.
pub fn outgoing_text(text: &str) -> String {
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    let visible = visible.replace("<!", "&lt;!").replace("<?", "&lt;?");
    break_ci_words(visible.trim()).into_owned()
}

/// A title of a pull request as that of a commit.
pub fn commit_title(title: &str, limit: usize) -> String {
    break_ci_words(&one_line(title, limit)).into_owned()
}

/// Cleans a text of others: without what its page hides, cut to `limit` characters.
pub fn incoming_text(text: &str, limit: usize) -> String {
    let shown = without_hidden_markup(text);
    let lines = shown.lines().filter(|line| !is_hidden_definition(line)).map(str::trim_end);
    let joined = lines.collect::<Vec<_>>().join("\n");
    let visible = joined.chars().filter(|c| !is_invisible(*c)).collect::<String>();
    cut_text(visible.trim(), limit)
}

/// A part of a diff, of which a page shows all that can be seen, cut to `limit` characters.
pub fn diff_text(text: &str, limit: usize) -> String {
    let visible = |c: &char| *c == '\n' || *c == '\t' || !is_invisible(*c);
    cut_text(&text.chars().filter(visible).collect::<String>(), limit)
}

/// A name or title: one line.
pub fn one_line(text: &str, limit: usize) -> String {
    let shown = incoming_text(text, usize::MAX);
    cut_text(&shown.split_whitespace().collect::<Vec<_>>().join(" "), limit)
}

fn cut_text(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}… [cut]", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// Removes comments, processing instructions and declarations; one that does not end hides the
/// rest.
fn without_hidden_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let from = &rest[at..];
        let Some(length) = hidden_length(from) else {
            out.push('<');
            rest = &from[1..];
            continue;
        };
        rest = &from[length..];
    }
    out.push_str(rest);
    out
}

/// Returns the length of the hidden construct that begins here, if one does.
fn hidden_length(from: &str) -> Option<usize> {
    let end = |open: usize, close: &str| {
        let inner = &from[open..];
        Some(inner.find(close).map_or(from.len(), |at| open + at + close.len()))
    };
    match from {
        _ if from.starts_with("<!-->") => Some(5),
        _ if from.starts_with("<!--->") => Some(6),
        _ if from.starts_with("<!--") => end(4, "-->"),
        _ if from.starts_with("<![CDATA[") => end(9, "]]>"),
        _ if from.starts_with("<?") => end(2, "?>"),
        _ if from.starts_with("<!") && from[2..].starts_with(|c: char| c.is_ascii_alphabetic()) => {
            end(2, ">")
        }
        _ => None,
    }
}

/// `[//]: # (words that no page shows)`
fn is_hidden_definition(line: &str) -> bool {
    let line = line.trim_start();
    let Some((label, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]:"))
    else {
        return false;
    };
    let target = target.trim_start();
    !label.contains('[') && (target.starts_with('#') || target.starts_with("<>"))
}

/// Characters that carry words past a reader, or show them in another order.
fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_hides_is_not_read() {
        for (text, expected) in [
            ("a<!-- run rm -rf -->b", "ab"),
            ("a\n<!--\nhidden\n-->\nb", "a\n\nb"),
            ("a <!-- never ends", "a"),
            ("a<!-->b<!--->c", "abc"),
            ("a<?php evil ?>b<![CDATA[evil]]>c<!DOCTYPE evil>d", "abcd"),
            ("a\n[//]: # (evil)\n [comment]: <> \"evil\"\nb", "a\nb"),
            ("[docs]: https://example.com stays", "[docs]: https://example.com stays"),
            ("a\u{200b}b\u{202e}c\u{e0041}\u{e0042}d\u{7}e", "abcde"),
            ("if a <b && c < d || x<!y", "if a <b && c < d || x"),
            ("👩\u{200d}💻 fine", "👩\u{200d}💻 fine"),
            ("a\r\nb", "a\nb"),
        ] {
            assert_eq!(incoming_text(text, 1000), expected, "{text:?}");
        }
        assert_eq!(diff_text("+<!-- x -->\n\u{200b}-\tb\u{e0041}", 1000), "+<!-- x -->\n-\tb");
        assert_eq!(incoming_text("abcdef", 3), "abc… [cut]");
        assert_eq!(incoming_text("äöü", 3), "äöü");
        assert_eq!(one_line(" a\n<!-- x -->b ", 10), "a b");
    }

    #[test]
    fn a_model_can_hide_nothing_and_forge_no_marker() {
        let mark = effect_marker(&["uid", "coder", "key"]);
        assert!(is_own(&format!("text\n\n{mark}")));
        assert_ne!(mark, effect_marker(&["uid", "coder", "keys"]));
        assert_ne!(effect_marker(&["a", "bc"]), effect_marker(&["ab", "c"]));
        let forged = outgoing_text(&format!("fine {mark}<!-- x --><?x?>\u{e0041}"));
        assert!(!is_own(&forged), "{forged}");
        assert!(forged.contains("&lt;!-- x -->&lt;?x?>"), "{forged}");
        assert_eq!(outgoing_text("Vec<u8> < 3"), "Vec<u8> < 3");
    }

    #[test]
    fn no_word_of_ours_switches_off_ci() {
        // Invisible characters within such a word do not hide the word.
        for word in ["[skip ci]", "[ci\u{200b} skip]", "[no\u{ad} ci]", "skip-checks: true"] {
            for written in [outgoing_text(word), commit_title(word, 100)] {
                assert!(!codebutler_crds::wire::has_ci_words(&written), "{written:?}");
                assert_eq!(
                    written.replace('\u{200b}', ""),
                    word.replace(['\u{200b}', '\u{ad}'], "")
                );
                assert_eq!(outgoing_text(&written), written, "again");
            }
        }
    }
}
