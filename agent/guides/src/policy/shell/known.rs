//! Words and output that are known before anything runs. Pure.

use super::{PlainCommand, ShellWord};

/// Stands for a part of a word that is only known when it runs: no argument can contain it.
pub const HOLE: char = '\0';

/// The word, if all of it is known.
pub(super) fn known_word(shape: &str) -> ShellWord {
    Some(shape.to_owned()).filter(|shape| !shape.contains(HOLE))
}

/// What a command puts out, where its words tell.
pub fn printed_text(simple: &PlainCommand) -> Option<String> {
    if !simple.writes.is_empty() {
        return None;
    }
    let words: Option<Vec<&str>> = simple.words.iter().map(Option::as_deref).collect();
    match words?.as_slice() {
        ["echo", rest @ ..] => echo_words(rest),
        ["printf", "--", format, values @ ..] | ["printf", format, values @ ..] => {
            format_words(format, values)
        }
        ["cat"] | ["cat", "-"] => simple.input.clone().or_else(|| simple.fed.clone()),
        ["pwd", ..] | ["git", "rev-parse", "--show-toplevel"] => Some(".".to_owned()),
        _ => None,
    }
}

fn echo_words(words: &[&str]) -> Option<String> {
    let is_flag = |word: &&&str| {
        word.len() > 1 && word.starts_with('-') && word[1..].chars().all(|c| "neE".contains(c))
    };
    let flags = words.iter().take_while(is_flag).count();
    let text = words[flags..].join(" ");
    if words[..flags].iter().any(|flag| flag.contains('e')) {
        unescape_text(&text)
    } else {
        Some(text)
    }
}

fn format_words(format: &str, values: &[&str]) -> Option<String> {
    let mut values = values.iter();
    let mut out = String::new();
    let format = unescape_text(format)?;
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        match c {
            '%' => match rest.next()? {
                's' | 'd' | 'b' => out.push_str(values.next().unwrap_or(&"")),
                '%' => out.push('%'),
                _ => return None,
            },
            c => out.push(c),
        }
    }
    // The format is used again for what is left.
    values.next().is_none().then_some(out)
}

/// Without the escapes of `$'…'` and `echo -e`; nothing if one is not known.
pub(super) fn unescape_text(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let kind = escape.chars().next()?;
        let (skip, radix, most) = match kind {
            'x' => (1, 16, 2),
            'u' => (1, 16, 4),
            '0'..='7' => (0, 8, 3 + usize::from(kind == '0')),
            _ => {
                out.push(match kind {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '\\' | '\'' | '"' | '?' => kind,
                    _ => return None,
                });
                rest = &escape[kind.len_utf8()..];
                continue;
            }
        };
        let digits = escape[skip..].chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let end = skip + digits;
        let number = u32::from_str_radix(&escape[skip..end], radix).ok()?;
        out.push(char::from_u32(number).filter(|c| *c != HOLE)?);
        rest = &escape[end..];
    }
    out.push_str(rest);
    Some(out)
}

/// How many brackets and blocks are open at once, at most, whatever they are in.
pub(super) fn nesting_depth(script: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let cuts = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';' | '{' | '}');
    for word in script.split_inclusive(cuts) {
        match word.trim_end_matches(cuts) {
            "do" | "then" | "case" => open += 1,
            "done" | "fi" | "esac" => open = open.saturating_sub(1),
            _ => {}
        }
        match word.chars().last() {
            Some('(' | '{') => open += 1,
            Some(')' | '}') => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}
