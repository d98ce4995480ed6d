//! Roles that a message addresses: pure, from its text alone.
//!
//! A person's message addresses every role that it mentions as `@codebutler.<role>` outside code and quotations. A
//! role hands over with a line that begins with the mention, whatever decorates it; with its last words also in the
//! middle of a line, where the sentence is said to that one role. Talking about a role wakes nobody. Text is
//! Slack's mrkdwn as Slack stores it.

mod lead;

use codebutler_slack_text::{is_typed_label, without_quotes};

/// Placeholder for a piece of code: neither space, nor start of a line, nor part of a word.
const CODE: char = '\u{1}';
const APP: &str = "@codebutler";

/// Roles that a person's message mentions, in order, each once. Unknown names are not roles.
/// `bot` is the app's own user id: `<@bot>.role` is how a completed mention arrives, and `<@bot> role`
/// what Slack makes of it.
pub(crate) fn by_person(text: &str, roles: &[String], bot: Option<&str>) -> Vec<String> {
    let text = plain_text(text, bot);
    let mut found = Vec::new();
    for mention in find_mentions(&text, roles) {
        add_role(&mut found, mention.role);
    }
    found
}

/// Roles to which a role hands over, in order, each once; never itself. `last`: the run ends with it.
pub(crate) fn by_role(text: &str, roles: &[String], sender: &str, last: bool) -> Vec<String> {
    let text = plain_text(text, None);
    let mut found = Vec::new();
    let mut others: Vec<(&str, &str, &str)> = Vec::new();
    for line in text.lines() {
        for (n, mention) in
            find_mentions(line, roles).filter(|found| found.role != sender).enumerate()
        {
            let RoleMention { role, at, end } = mention;
            let (before, after) = (&line[..at], &line[end..]);
            if n == 0 && lead::begins_line(before, after) {
                add_role(&mut found, role);
            }
            others.push((role, before, after));
        }
    }
    let one = others.first().filter(|(role, ..)| others.iter().all(|(other, ..)| other == role));
    if found.is_empty()
        && last
        && let Some((role, ..)) = one
        && others.iter().any(|(_, before, after)| lead::hands_over(before, after))
    {
        add_role(&mut found, role);
    }
    found
}

/// Mention of a role in a text, with its begin and end.
struct RoleMention<'a> {
    role: &'a str,
    at: usize,
    end: usize,
}

fn find_mentions<'a>(text: &'a str, roles: &'a [String]) -> impl Iterator<Item = RoleMention<'a>> {
    text.match_indices(APP).filter_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        let bounded = before.is_none_or(|c| !continues_word(c) || c == '_');
        let (role, length) = role_at(&text[at..], roles).filter(|_| bounded)?;
        Some(RoleMention { role, at, end: at + length })
    })
}

fn add_role(found: &mut Vec<String>, role: &str) {
    if !found.iter().any(|known| known == role) {
        found.push(role.to_owned());
    }
}

/// The known role whose mention starts `text`, if the name ends there, and the mention's length.
/// `@codebutler.role`, and with the space that Slack puts behind a mention that it completed.
fn role_at<'a>(text: &str, roles: &'a [String]) -> Option<(&'a str, usize)> {
    let rest = text.strip_prefix(APP)?;
    let name = rest.trim_start_matches([' ', '\u{a0}']);
    let name = name.strip_prefix('.').unwrap_or(name);
    if name.len() == rest.len() {
        return None;
    }
    let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    let mut after = rest.chars();
    let ends = match after.next() {
        // An underscore ends italics.
        Some('_') => after.next().is_none_or(|c| !c.is_alphanumeric()),
        Some('-' | '@' | '/') => false,
        // A full stop ends the sentence, unless it is in the middle of a host name.
        Some('.') => after.next().is_none_or(|c| !c.is_alphanumeric()),
        _ => true,
    };
    let role = roles.iter().find(|role| ends && *role == name)?;
    Some((role, text.len() - rest.len()))
}

fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@')
}

/// Lower-cased text without quotations, code, invisible characters and Slack's own link markup.
fn plain_text(text: &str, bot: Option<&str>) -> String {
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    let unlinked = without_links(&without_code(&without_quotes(&visible)), bot);
    unlinked.to_ascii_lowercase()
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Replaces code blocks and code spans by [`CODE`].
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let ticks = from.len() - from.trim_start_matches('`').len();
        let (fence, body) = from.split_at(ticks);
        let starts_line =
            out.trim_end_matches([' ', '\t']).ends_with('\n') || out.trim().is_empty();
        match find_closing(body, ticks) {
            Some(end) => {
                out.push(CODE);
                rest = &body[end..];
            }
            // A block that nobody closed goes on to the end; a lonely tick is text.
            None if ticks >= 3 && starts_line => {
                out.push(CODE);
                rest = "";
            }
            None => {
                out.extend(std::iter::repeat_n(CODE, fence.len()));
                rest = body;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Finds the end of the code behind its opening ticks: the index after its closing ticks.
fn find_closing(body: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = body[at..].find('`') {
        let start = at + next;
        if ticks < 3 && body[at..start].contains('\n') {
            return None;
        }
        let run = body[start..].len() - body[start..].trim_start_matches('`').len();
        let enough = if ticks >= 3 { run >= 3 } else { run == ticks };
        at = start + run;
        if enough {
            return Some(at);
        }
    }
    None
}

/// Restores what was typed: Slack turns what looks like a host (`codebutler.pm`) into
/// `<http://codebutler.pm|codebutler.pm>` and a completed mention of the app into `<@U…>`.
fn without_links(text: &str, bot: Option<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = from.find('>') else {
            rest = from;
            break;
        };
        let inner = &from[1..end];
        let (target, label) = inner.split_once('|').unwrap_or((inner, ""));
        if target.strip_prefix('@').is_some_and(|user| Some(user) == bot) {
            out.push_str("@codebutler");
        } else if !label.is_empty() && is_typed_label(target, label) {
            out.push_str(label);
        } else {
            out.push(CODE);
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
