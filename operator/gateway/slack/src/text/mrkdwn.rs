//! Slack's mrkdwn: its entities, and how it reads as plain text. Pure.

use codebutler_slack_text::is_typed_label;

/// Restores what was typed from mrkdwn as Slack stores it: entities and link markup undone, the rest as it is.
pub(crate) fn to_text(mrkdwn: &str) -> String {
    let mut out = String::with_capacity(mrkdwn.len());
    let mut rest = mrkdwn;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let from = &rest[at..];
        let link = from.find('>').map(|end| (&from[1..end], &from[end + 1..]));
        match link {
            Some((inner, after)) if !inner.starts_with(['@', '#', '!']) => {
                let (target, label) = inner.split_once('|').unwrap_or((inner, ""));
                if label.is_empty() {
                    out.push_str(target);
                } else if is_typed_label(target, label) {
                    out.push_str(label);
                } else {
                    out.push_str(label);
                    out.push_str(" (");
                    out.push_str(target);
                    out.push(')');
                }
                rest = after;
            }
            // A time, or a group of people, with the words that stand for it.
            Some((inner, after))
                if (inner.starts_with("!date^") || inner.starts_with("!subteam^"))
                    && inner.contains('|')
                    && !inner.ends_with('|') =>
            {
                out.push_str(inner.split_once('|').map_or("", |(_, plain)| plain));
                rest = after;
            }
            Some((inner, after)) => {
                out.push('<');
                out.push_str(inner);
                out.push('>');
                rest = after;
            }
            None => {
                out.push('<');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

pub(crate) fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slack_stores_reads_as_it_was_typed() {
        for (mrkdwn, expected) in [
            ("`Vec&lt;T&gt;` &amp;amp;", "`Vec<T>` &amp;"),
            ("<https://x.org/a?b=1&amp;c=2>", "https://x.org/a?b=1&c=2"),
            ("<https://x.org/a|the file>", "the file (https://x.org/a)"),
            ("ask @<http://codebutler.pm|codebutler.pm>", "ask @codebutler.pm"),
            ("<https://x.org/|x.org/> <mailto:a@x.org|a@x.org>", "x.org/ a@x.org"),
            ("see <https://x.org/issues/42|42>", "see 42 (https://x.org/issues/42)"),
            ("the <https://x.org/docs|docs>", "the docs (https://x.org/docs)"),
            ("<@U123> <!here> <#C1|general>", "<@U123> <!here> <#C1|general>"),
            ("<!subteam^S0123ABC|@ops> look", "@ops look"),
            ("<!subteam^S0123ABC> <!subteam^S1|>", "<!subteam^S0123ABC> <!subteam^S1|>"),
            ("on <!date^1^{time}|2026-11-28 at 23:00 UTC>.", "on 2026-11-28 at 23:00 UTC."),
            ("a < b", "a < b"),
        ] {
            assert_eq!(to_text(mrkdwn), expected, "{mrkdwn}");
        }
    }
}
