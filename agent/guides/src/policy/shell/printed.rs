//! Derives the output of commands, as far as it is known before anything runs. Pure.

use super::known::unescape_text;
use super::plain::PlainCommand;

/// Returns the output of a command, where its words tell.
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
