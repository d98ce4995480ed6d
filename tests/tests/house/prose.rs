//! How people are spoken to: pages in short sentences, and comments that say a thing instead of hinting at it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::Regex;

use super::pages::{pages, prose, top};

/// Words of a sentence, on average over a page.
const WORDS: usize = 15;
/// Sentences below which a page has no average worth the name.
const FEW: usize = 10;
/// A list of single facts.
const LISTS: [&str; 1] = ["charts/codebutler/CHANGELOG.md"];
/// Of a hundred comments, those that begin with a headless question word, as in “Whether it works.”
const HEADLESS: usize = 2;
/// Of a hundred comments, doc comments that are too short to say more than the name.
const SHORT: usize = 4;
/// Characters of a doc comment that is too short.
const TOO_SHORT: usize = 24;
const QUESTIONS: [&str; 9] =
    ["What", "Whether", "How", "Who", "Where", "Which", "Why", "When", "Whose"];

/// Sentences of a page's prose: without headings, tables and HTML, with a word for each piece of code.
fn sentences(text: &str) -> Vec<String> {
    let item = Regex::new(r"^([-*]|\d+\.) ").unwrap();
    let mut paragraphs = vec![String::new()];
    for line in prose(text).lines().map(str::trim) {
        let is_prose = !line.is_empty() && !line.starts_with(['#', '|', '<']);
        if !is_prose || item.is_match(line) {
            paragraphs.push(String::new());
        }
        if let Some(last) = paragraphs.last_mut().filter(|_| is_prose) {
            last.push_str(&item.replace(line, ""));
            last.push(' ');
        }
    }
    let code = Regex::new(r"`[^`]*`").unwrap();
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let end = Regex::new(r#"[.!?]["”)*]*\s+"#).unwrap();
    let mut found = Vec::new();
    for paragraph in paragraphs {
        let plain = code.replace_all(&paragraph, "X");
        let plain = link.replace_all(&plain, "$1");
        found.extend(end.split(&plain).filter(|part| count_words(part) > 0).map(str::to_owned));
    }
    found
}

fn count_words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn pages_are_written_in_short_sentences() {
    let mut long = Vec::new();
    for (name, text) in pages().iter().filter(|(name, _)| !LISTS.contains(&&***name)) {
        let all = sentences(text);
        let words: usize = all.iter().map(|sentence| count_words(sentence)).sum();
        if all.len() >= FEW && words > WORDS * all.len() {
            long.push(format!("{name}: {words} words in {} sentences", all.len()));
        }
    }
    assert!(long.is_empty(), "{long:#?}");
    assert_eq!(
        sentences("# A\n\nOne. `Two.three` is\none.\n\n- Three\n- Four. |\n|x|y|\n").len(),
        4
    );
}

/// Comments of a source, each with its mark: lines with the same mark are one.
fn comments(source: &str) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut before = "";
    for line in source.lines().map(str::trim_start) {
        let mark = ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark));
        let text = mark.map(|mark| line[mark.len()..].trim());
        match (mark, text, found.last_mut()) {
            (Some(mark), Some(text), Some((_, whole))) if mark == before => {
                *whole = format!("{whole} {text}");
            }
            (Some(mark), Some(text), _) => found.push((mark, text.to_owned())),
            _ => {}
        }
        before = mark.unwrap_or_default();
    }
    found
}

fn is_headless(comment: &str) -> bool {
    let first = comment.split(' ').next().unwrap_or_default();
    QUESTIONS.contains(&first.trim_end_matches([',', ';', ':']))
}

#[test]
fn comments_say_what_things_are() {
    let mut counts = BTreeMap::new();
    let mut folders: Vec<_> =
        ["agent", "crds", "operator", "tests"].map(|name| top().join(name)).into();
    let (mut all, mut headless, mut short) = (0, 0, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let of_file = count_comments(&path);
                (all, headless, short) = (all + of_file.0, headless + of_file.1, short + of_file.2);
                counts.insert(of_file.1, path);
            }
        }
    }
    assert!(all > 20_000, "{all}");
    let worst: Vec<_> = counts.iter().rev().take(5).collect();
    assert!(headless * 100 <= HEADLESS * all, "{headless} of {all} are headless: {worst:#?}");
    assert!(short * 100 <= SHORT * all, "{short} of {all} say no more than a name");
}

/// All of a file, those without a head, and those that are too short.
fn count_comments(path: &Path) -> (usize, usize, usize) {
    let source = fs::read_to_string(path).unwrap();
    let found = comments(&source);
    let headless = found.iter().filter(|(_, text)| is_headless(text)).count();
    let is_short = |(mark, text): &&(&str, String)| {
        *mark == "///" && text.chars().count() <= TOO_SHORT && !is_headless(text)
    };
    (found.len(), headless, found.iter().filter(is_short).count())
}

#[test]
fn comments_are_found_in_a_source() {
    let source = "//! Head.\n\n/// Whether it works.\nfn a() {}\n    // Why so,\n    // on two lines.\n/// Of it.\n";
    let found = comments(source);
    assert_eq!(found.len(), 4);
    assert_eq!(found[2], ("//", "Why so, on two lines.".to_owned()));
    assert_eq!(found.iter().filter(|(_, text)| is_headless(text)).count(), 2);
}
