//! Whom a message addresses: pure, from its text alone.
//!
//! A person's message addresses every role that it mentions as `@codebutler.<role>` outside code; a
//! role's message only those mentioned at the start of a line, so that a role can talk about
//! another one without waking it. Text is Slack's mrkdwn as Slack stores it.

/// Stands for a piece of code: neither space, nor start of a line, nor part of a word.
const CODE: char = '\u{1}';
const PREFIX: &str = "@codebutler.";

/// Roles that a person's message mentions, in order, each once. Unknown names are not roles.
/// `bot` is the app's own user id: `<@bot>.role` is how a completed mention arrives.
pub fn by_person(text: &str, roles: &[String], bot: Option<&str>) -> Vec<String> {
    let text = plain(text, bot);
    let mut found = Vec::new();
    for (at, _) in text.match_indices(PREFIX) {
        let bounded = text[..at].chars().next_back().is_none_or(|c| !continues_word(c));
        if bounded && let Some(role) = role_at(&text[at..], roles) {
            add(&mut found, role);
        }
    }
    found
}

/// Roles to which a role hands over, in order, each once; never itself.
pub fn by_role(text: &str, roles: &[String], sender: &str) -> Vec<String> {
    let text = plain(text, None);
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(role) = role_at(line.trim_start(), roles).filter(|role| *role != sender) {
            add(&mut found, role);
        }
    }
    found
}

fn add(found: &mut Vec<String>, role: &str) {
    if !found.iter().any(|known| known == role) {
        found.push(role.to_owned());
    }
}

/// The known role whose mention starts `text`, if the name ends there.
fn role_at<'a>(text: &str, roles: &'a [String]) -> Option<&'a str> {
    let rest = text.strip_prefix(PREFIX)?;
    let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let mut rest = rest.chars();
    let ends = match rest.next() {
        Some('-' | '_' | '@' | '/') => false,
        // The end of a sentence, not the middle of a host name.
        Some('.') => rest.next().is_none_or(|c| !c.is_alphanumeric()),
        _ => true,
    };
    roles.iter().find(|role| ends && *role == name).map(String::as_str)
}

fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@')
}

/// Lower-cased text without code, invisible characters and Slack's own link markup.
fn plain(text: &str, bot: Option<&str>) -> String {
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    let unlinked = without_links(&without_code(&visible), bot);
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
        match closing(body, ticks) {
            Some(end) => {
                out.push(CODE);
                rest = &body[end..];
            }
            // A block that nobody closed goes on to the end; a lonely tick is a tick.
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

/// Where, behind the opening ticks, the code ends (after its closing ticks).
fn closing(body: &str, ticks: usize) -> Option<usize> {
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

/// Slack turns what looks like a host (`codebutler.pm`) into `<http://codebutler.pm|codebutler.pm>`
/// and a completed mention of the app into `<@U…>`: back to what was typed.
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
        } else if !label.is_empty() && target.trim_end_matches('/').ends_with(label) {
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
mod tests {
    use super::*;

    fn roles() -> Vec<String> {
        ["pm", "coder", "reviewer"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_person_addresses_roles_anywhere_outside_code() {
        for (text, expected) in [
            ("@codebutler.pm hello", vec!["pm"]),
            ("hello @codebutler.coder, and (@codebutler.reviewer)!", vec!["coder", "reviewer"]),
            ("@codebutler.coder @codebutler.coder", vec!["coder"]),
            ("please, @CodeButler.PM.", vec!["pm"]),
            ("&gt; @codebutler.pm said", vec!["pm"]),
            ("look @codebutler.\u{200b}pm", vec!["pm"]),
            ("ask @<http://codebutler.pm|codebutler.pm> please", vec!["pm"]),
            ("<@U0BOT>.coder go on", vec!["coder"]),
            ("`x` @codebutler.pm", vec!["pm"]),
            ("a ` lonely tick @codebutler.pm", vec!["pm"]),
            ("<@U0BOT> go on", vec![]),
            ("<@U0OTHER>.coder", vec![]),
            ("nobody", vec![]),
            ("@codebutler.pmx @codebutler.artist @codebutler. @codebutler", vec![]),
            ("@codebutler.pm-2 @codebutler.pm_2 @codebutler.pm.example.org", vec![]),
            ("mail me@codebutler.pm or x/@codebutler.pm", vec![]),
            ("`@codebutler.pm` and ``a ` @codebutler.pm``", vec![]),
            ("```\n@codebutler.pm\n```", vec![]),
            ("inline ```@codebutler.pm``` block", vec![]),
            ("```\n@codebutler.pm never closed", vec![]),
            ("<https://example.org/@codebutler.pm|see>", vec![]),
        ] {
            assert_eq!(by_person(text, &roles(), Some("U0BOT")), expected, "{text}");
        }
    }

    #[test]
    fn a_role_hands_over_at_the_start_of_a_line_only() {
        for (text, expected) in [
            ("@codebutler.coder implement it", vec!["coder"]),
            ("Done.\n  @codebutler.reviewer please look", vec!["reviewer"]),
            (
                "@codebutler.coder a\n@codebutler.reviewer b\n@codebutler.coder c",
                vec!["coder", "reviewer"],
            ),
            ("I will ask @codebutler.coder", vec![]),
            ("@codebutler.pm that is me", vec![]),
            ("- @codebutler.coder", vec![]),
            ("&gt; @codebutler.coder", vec![]),
            ("`x` @codebutler.coder", vec![]),
            ("```\n@codebutler.coder\n```", vec![]),
            ("*@codebutler.coder*", vec![]),
        ] {
            assert_eq!(by_role(text, &roles(), "pm"), expected, "{text}");
        }
    }
}
