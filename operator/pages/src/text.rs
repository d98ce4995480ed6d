//! Long texts: folded, and coloured where they are changes; and amounts and durations as people read them.

use std::borrow::Cow;

use askama::Template;
use codebutler_markdown::{TextDialect, mark_hidden, render_html};
use codebutler_wire::NanoUsd;

use crate::UserNames;

/// Lines of a text that are shown on the page itself.
const SHOWN: usize = 80;
/// Characters of a line that are.
const WIDE: usize = 2000;

/// Words of the link to a thread's page under the first answer in Slack.
pub const WATCH: &str = "Watch what happens";
/// Words of the same link in the last message of a thread.
pub const HAPPENED: &str = "What happened";

/// Row of a text or patch, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRow {
    /// `add`, `del`, `hunk` or nothing.
    pub class: &'static str,
    pub text: String,
}

impl TextRow {
    fn of(class: &'static str, line: &str) -> Self {
        Self { class, text: mark_hidden(line).into_owned() }
    }
}

/// A text under a heading, which may be folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextBlock {
    pub heading: String,
    pub open: bool,
    pub rows: Vec<TextRow>,
    /// Lines that are not shown.
    pub more: usize,
}

impl TextBlock {
    /// A text, whole or as much of it as a page bears.
    pub fn new(heading: &str, text: &str, whole: bool) -> Self {
        let rows = if is_diff(text) { diff_rows(text) } else { plain_rows(text) };
        Self::of(heading, rows.collect(), whole)
    }

    /// Shows a replacement as removed and added rows.
    pub fn change(heading: &str, (old, new): (&str, &str), whole: bool) -> Self {
        let row = |class| move |line: &str| TextRow::of(class, line);
        Self::of(
            heading,
            old.lines().map(row("del")).chain(new.lines().map(row("add"))).collect(),
            whole,
        )
    }

    fn of(heading: &str, mut rows: Vec<TextRow>, whole: bool) -> Self {
        let count = rows.len();
        let mut more = 0;
        if !whole {
            more = count.saturating_sub(SHOWN);
            rows.truncate(SHOWN);
            for row in rows.iter_mut().filter(|row| row.text.len() > WIDE) {
                let end = row.text.floor_char_boundary(WIDE);
                row.text.truncate(end);
                row.text.push('…');
            }
        }
        let lines = format_count(count as u64, "line");
        Self { heading: format!("{heading}, {lines}"), open: false, rows, more }
    }
}

fn is_diff(text: &str) -> bool {
    text.lines().take(50).any(|line| line.starts_with("@@ ") || line.starts_with("diff --git "))
}

fn plain_rows(text: &str) -> Box<dyn Iterator<Item = TextRow> + '_> {
    Box::new(text.lines().map(|line| TextRow::of("", line)))
}

fn diff_rows(text: &str) -> Box<dyn Iterator<Item = TextRow> + '_> {
    Box::new(text.lines().map(|line| {
        let class = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => "hunk",
            Some(b'+') => "add",
            Some(b'-') => "del",
            Some(b'@' | b'd') => "hunk",
            _ => "",
        };
        TextRow::of(class, line)
    }))
}

/// A text in which people are called by their names, where these are known.
pub(crate) fn name_people(text: &str, names: &UserNames) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<@") {
        out.push_str(before);
        let found = after.split_once('>').and_then(|(id, after)| Some((names.get(id)?, after)));
        if let Some((name, after)) = found {
            out.push('@');
            out.push_str(name);
            rest = after;
        } else {
            out.push_str("<@");
            rest = after;
        }
    }
    out + rest
}

/// Words of a message, in which people, channels and groups are called by their names, where these are known.
pub(crate) fn name_mentions(text: &str, names: &UserNames) -> String {
    let text = name_people(text, names);
    if !text.contains("<#") && !text.contains("<!") {
        return text;
    }
    let mut parts = text.split('<');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('>').and_then(|(mark, rest)| Some((name_mark(mark)?, rest))) {
            Some((name, rest)) => out.extend([&*name, rest]),
            None => out.extend(["<", part]),
        }
    }
    out
}

/// Name of a channel, a group, or all who are there, if that is what Slack's mark means.
fn name_mark(mark: &str) -> Option<String> {
    let (mark, label) = mark.split_once('|').unwrap_or((mark, ""));
    let is_id = |id: &&str| {
        let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
        id.len() > 5 && id.bytes().all(plain)
    };
    let (sign, id) = if let Some(id) = mark.strip_prefix('#').filter(is_id) {
        ('#', id)
    } else if let Some(id) = mark.strip_prefix("!subteam^").filter(is_id) {
        ('@', id)
    } else {
        let all = ["here", "channel", "everyone"];
        ('@', mark.strip_prefix('!').filter(|name| all.contains(name))?)
    };
    let name = if label.is_empty() { id } else { label };
    Some(format!("{sign}{}", name.trim_start_matches(sign)))
}

/// A template with its values; a sentence where it can't be rendered.
pub(crate) fn render_template(template: &impl Template) -> String {
    template.render().unwrap_or_else(|_| "this page can't be shown".to_owned())
}

/// Words with their markup, as HTML in which people are called by their names.
pub(crate) fn render_prose(text: &str, dialect: TextDialect, names: &UserNames) -> String {
    let name = match dialect {
        TextDialect::Markdown => name_people,
        TextDialect::Slack => name_mentions,
    };
    render_html(&name_dates(text), dialect, &|part| name(part, names))
}

/// A message without the link to the page that shows it.
pub(crate) fn without_page_link(text: &str) -> Cow<'_, str> {
    let links = [WATCH, HAPPENED].map(|words| format!("{words} (http"));
    if !links.iter().any(|link| text.contains(link)) {
        return Cow::Borrowed(text);
    }
    let is_link =
        |part: &&str| links.iter().any(|link| part.starts_with(link)) && part.ends_with(')');
    let kept = text.lines().filter_map(|line| {
        let left: Vec<_> = line.split(" · ").filter(|part| !is_link(part)).collect();
        (!left.is_empty()).then(|| left.join(" · "))
    });
    Cow::Owned(kept.collect::<Vec<_>>().join("\n"))
}

/// Slack's marks of moments as the words that come with them.
fn name_dates(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "<!date^";
    if !text.contains(BEGIN) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(BEGIN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found =
            part.split_once('>').and_then(|(mark, rest)| Some((mark.split_once('|')?.1, rest)));
        match found {
            Some((words, rest)) => out.extend([words, rest]),
            None => out.extend([BEGIN, part]),
        }
    }
    Cow::Owned(out)
}

/// Formats a number with separators: 12,345.
pub(crate) fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: 1 thread, 2 threads.
pub(crate) fn format_count(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {what}{plural}", group_digits(n))
}

/// Formats a duration in its largest fitting units.
pub(crate) fn format_duration(millis: u64) -> String {
    let (minutes, hours) = (millis / 60_000, millis / 3_600_000);
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        60_000..3_600_000 => format!("{minutes} min {} s", millis % 60_000 / 1000),
        3_600_000..86_400_000 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// An amount in cents, as HTML that knows the exact one.
pub(crate) fn show_money(cost: NanoUsd) -> String {
    let shown = cost.in_cents().replace('<', "&#60;");
    format!("<data value=\"{cost}\" title=\"${cost}\">{shown}</data>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_called_by_their_names() {
        let names = UserNames::from([("U1".to_owned(), "Ana <b>".to_owned())]);
        for (text, expected) in [
            ("hi <@U1>, <@U2> and <@U1>", "hi @Ana <b>, <@U2> and @Ana <b>"),
            ("<@<@U1>", "<@@Ana <b>"),
            ("<@", "<@"),
            ("none", "none"),
        ] {
            assert_eq!(name_people(text, &names), expected);
        }
    }

    #[test]
    fn channels_and_groups_are_called_by_their_names() {
        let names = UserNames::from([("U1".to_owned(), "Ana".to_owned())]);
        for (text, expected) in [
            ("<@U1> asks <!subteam^S0123ABC|@ops> in <#C0123ABC|ops>", "@Ana asks @ops in #ops"),
            ("<!subteam^S0123ABC> <#C0123ABC> <#C0123ABC|>", "@S0123ABC #C0123ABC #C0123ABC"),
            ("<!here> <!channel|channel> <!everyone>", "@here @channel @everyone"),
            (
                "<!DOCTYPE html> <#fff> a <! b <#C0123ABC",
                "<!DOCTYPE html> <#fff> a <! b <#C0123ABC",
            ),
            ("Vec<u8>", "Vec<u8>"),
        ] {
            assert_eq!(name_mentions(text, &names), expected);
        }
    }

    #[test]
    fn a_page_does_not_lead_to_itself() {
        for (text, expected) in [
            ("Plan.\nsimple · Watch what happens (https://p.test/team/a-1)", "Plan.\nsimple"),
            ("Plan.\n\nWatch what happens (https://p.test/team/a-1)", "Plan.\n"),
            ("Watch what happens (and when)", "Watch what happens (and when)"),
            (
                "Merged #1\nPull request #1 (https://h/1) · What happened (https://p.test/team/a-1)\nCost $1.00.",
                "Merged #1\nPull request #1 (https://h/1)\nCost $1.00.",
            ),
        ] {
            assert_eq!(without_page_link(text), expected);
        }
    }

    #[test]
    fn moments_are_shown_in_words() {
        for (text, expected) in [
            ("on <!date^1^{time}|2026-11-28 at 23:00 UTC>.", "on 2026-11-28 at 23:00 UTC."),
            ("<!date^1", "<!date^1"),
            ("<!date^1^{time}>", "<!date^1^{time}>"),
            ("none", "none"),
        ] {
            assert_eq!(name_dates(text), expected);
        }
    }

    #[test]
    fn a_long_text_is_cut_and_a_change_has_colours() {
        let block = TextBlock::new("Output", &"x\n".repeat(500), false);
        assert_eq!((block.rows.len(), block.more), (SHOWN, 500 - SHOWN));
        assert_eq!(TextBlock::new("Output", &"x\n".repeat(500), true).rows.len(), 500);
        let block = TextBlock::new("Output", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z", false);
        let classes: Vec<_> = block.rows.iter().map(|row| row.class).collect();
        assert_eq!(classes, ["hunk", "hunk", "hunk", "del", "add", ""]);
        assert_eq!(TextBlock::new("Output", "- a list\n+ more", false).rows[0].class, "");
        for block in [
            TextBlock::new("Output", "a\u{202e}b", false),
            TextBlock::change("Edit", ("a\u{202e}b", ""), true),
        ] {
            assert_eq!(block.rows[0].text, "a⟦U+202E⟧b");
        }
        assert_eq!(
            (group_digits(1_234_567), group_digits(12)),
            ("1,234,567".to_owned(), "12".to_owned())
        );
    }

    #[test]
    fn amounts_and_durations_are_short_and_counts_have_plurals() {
        let shown = show_money(NanoUsd(727_483_960));
        assert_eq!(shown, "<data value=\"0.72748396\" title=\"$0.72748396\">$0.73</data>");
        assert!(show_money(NanoUsd(5)).ends_with(">&#60;$0.01</data>"));
        for (millis, shown) in [
            (999, "999 ms"),
            (34_700, "34.7 s"),
            (61_000, "1 min 1 s"),
            (3_700_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(format_duration(millis), shown);
        }
        assert_eq!(format_count(1, "thread"), "1 thread");
        assert_eq!(format_count(1200, "thread"), "1,200 threads");
    }
}
