//! Between Markdown, which models write and read, and Slack's mrkdwn. Pure.
//!
//! Everything outside code and links is escaped, so that a model can't ping (`<!channel>`, `<@U…>`)
//! or forge Slack's markup.

/// Markdown → mrkdwn.
pub fn from_markdown(text: &str) -> String {
    let mut out = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.trim_end().lines() {
        let marker = fence_marker(line.trim_start());
        match (fence, marker) {
            // Slack knows no language names behind the ticks.
            (None, Some(open)) => {
                fence = Some(open);
                out.push("```".to_owned());
            }
            (Some(open), Some(close)) if close.starts_with(open) && is_bare(line, close) => {
                fence = None;
                out.push("```".to_owned());
            }
            (Some(_), _) => out.push(escape(line).replace("```", "`\u{200b}``")),
            (None, None) => out.push(block(line)),
        }
    }
    if fence.is_some() {
        out.push("```".to_owned());
    }
    out.join("\n")
}

/// mrkdwn, as Slack stores it → what was typed: entities and link markup undone, the rest as it is.
pub fn to_text(mrkdwn: &str) -> String {
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
                } else if target.trim_end_matches('/').ends_with(label) {
                    out.push_str(label);
                } else {
                    out.push_str(label);
                    out.push_str(" (");
                    out.push_str(target);
                    out.push(')');
                }
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

/// Slack's three entities.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The ticks or tildes that open or close a code block, if the line starts with them.
fn fence_marker(line: &str) -> Option<&str> {
    let first = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let marker = &line[..line.len() - line.trim_start_matches(first).len()];
    let info = &line[marker.len()..];
    (marker.len() >= 3 && !(first == '`' && info.contains('`'))).then_some(marker)
}

fn is_bare(line: &str, marker: &str) -> bool {
    line.trim() == marker
}

/// One line outside code blocks.
fn block(line: &str) -> String {
    let body = line.trim_start();
    let indent = &line[..line.len() - body.len()];
    let hashes = body.len() - body.trim_start_matches('#').len();
    if (1..=6).contains(&hashes) && body[hashes..].starts_with(' ') {
        let title = body[hashes..].trim().trim_end_matches('#').trim_end();
        let title = inline(&title.replace("**", "").replace("__", ""));
        return if title.is_empty() { String::new() } else { format!("*{title}*") };
    }
    if let Some(quoted) = body.strip_prefix('>') {
        return format!("{indent}>{}", block(quoted));
    }
    for bullet in ["- ", "* ", "+ "] {
        if let Some(item) = body.strip_prefix(bullet) {
            return format!("{indent}• {}", inline(item));
        }
    }
    format!("{indent}{}", inline(body))
}

/// Spans within a line: code, links, bold, italic, strike.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((code, after)) = code_span(rest) {
            out.push_str(&escape(code));
            rest = after;
        } else if let Some((link, after)) = link(rest) {
            out.push_str(&link);
            rest = after;
        } else if let Some((span, after)) = emphasis(rest, out.chars().next_back()) {
            out.push_str(&span);
            rest = after;
        } else if let Some(after) = escaped(rest) {
            out.push_str(&escape(&rest[1..rest.len() - after.len()]));
            rest = after;
        } else {
            out.push_str(&escape(c.encode_utf8(&mut [0; 4])));
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// A backslash before punctuation makes it literal.
fn escaped(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('\\')?;
    rest.starts_with(['*', '_', '`', '~', '[', ']', '#', '\\', '<', '>']).then(|| &rest[1..])
}

/// Code with its ticks, and what follows.
fn code_span(text: &str) -> Option<(&str, &str)> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    if ticks == 0 {
        return None;
    }
    let mut at = ticks;
    while let Some(next) = text[at..].find('`') {
        let start = at + next;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        at = start + run;
        if run == ticks {
            return Some(text.split_at(at));
        }
    }
    None
}

/// `[text](url)`, `![text](url)` or `<url>`, and what follows.
fn link(text: &str) -> Option<(String, &str)> {
    if let Some(auto) = text.strip_prefix('<') {
        let (url, after) = auto.split_once('>')?;
        return is_url(url).then(|| (format!("<{}>", target(url)), after));
    }
    let body = text.strip_prefix("![").or_else(|| text.strip_prefix('['))?;
    let (label, rest) = body.split_once("](")?;
    let (inside, after) = rest.split_once(')')?;
    // A title behind the address is dropped.
    let url = inside.split_whitespace().next().unwrap_or("");
    if label.contains('[') || label.contains('\n') {
        return None;
    }
    if !is_url(url) {
        return Some((format!("{} ({})", inline(label), escape(url)), after));
    }
    let label = escape(&label.replace(['*', '`', '|'], ""));
    let shown = if label.is_empty() { String::new() } else { format!("|{label}") };
    Some((format!("<{}{shown}>", target(url)), after))
}

fn is_url(url: &str) -> bool {
    ["https://", "http://", "mailto:"].iter().any(|scheme| url.starts_with(scheme))
        && !url.contains(char::is_whitespace)
}

/// A URL as link target: nothing in it can end the link.
fn target(url: &str) -> String {
    escape(url).replace('|', "%7C")
}

/// `**bold**`, `__bold__`, `~~strike~~`, `*italic*`: Slack's markers around the inner spans.
fn emphasis(text: &str, before: Option<char>) -> Option<(String, &str)> {
    for (marker, slack) in [("**", "*"), ("__", "*"), ("~~", "~"), ("*", "_")] {
        let Some(body) = text.strip_prefix(marker) else { continue };
        let word_before = before.is_some_and(char::is_alphanumeric);
        if body.starts_with(char::is_whitespace) || (marker == "__" && word_before) {
            return None;
        }
        let end = closing(body, marker)?;
        let (inner, after) = (&body[..end], &body[end + marker.len()..]);
        return Some((format!("{slack}{}{slack}", inline(inner)), after));
    }
    None
}

/// Where the closing marker is: not behind a space, not inside code.
fn closing(body: &str, marker: &str) -> Option<usize> {
    let mut at = 0;
    while at < body.len() {
        let rest = &body[at..];
        if let Some((code, _)) = code_span(rest) {
            at += code.len();
        } else if rest.starts_with(marker) && at > 0 && !body[..at].ends_with(char::is_whitespace) {
            return Some(at);
        } else if marker == "*" && rest.starts_with("**") {
            at += 2;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_mrkdwn() {
        for (markdown, expected) in [
            ("**bold** and *it* and ~~no~~", "*bold* and _it_ and ~no~"),
            ("__bold__ snake__case__name", "*bold* snake__case__name"),
            ("**a `x**y` b**", "*a `x**y` b*"),
            ("## A **title** ##", "*A title*"),
            ("#hashtag", "#hashtag"),
            ("- one\n  * two\n+ three", "• one\n  • two\n• three"),
            (
                "see [the file](https://x.org/a?b=1&c=2)",
                "see <https://x.org/a?b=1&amp;c=2|the file>",
            ),
            ("[bad](javascript:alert)", "bad (javascript:alert)"),
            ("![img](https://x.org/i.png)", "<https://x.org/i.png|img>"),
            ("<https://x.org>", "<https://x.org>"),
            ("[a|b>c](https://x.org/|>)", "<https://x.org/%7C&gt;|ab&gt;c>"),
            ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
            ("<!channel> <@U123> <!here>", "&lt;!channel&gt; &lt;@U123&gt; &lt;!here&gt;"),
            ("`Vec<T>` **", "`Vec&lt;T&gt;` **"),
            ("2 * 3 * 4", "2 * 3 * 4"),
            (r"\*not bold\*", "*not bold*"),
            ("> quoted **x**", "> quoted *x*"),
            (
                "```rust\nlet x = a < b; **x**\n```\nafter",
                "```\nlet x = a &lt; b; **x**\n```\nafter",
            ),
            ("~~~\ncode\n~~~", "```\ncode\n```"),
            ("```\nnever closed", "```\nnever closed\n```"),
            ("@codebutler.coder go", "@codebutler.coder go"),
            ("ñandú **é**", "ñandú *é*"),
        ] {
            assert_eq!(from_markdown(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn what_slack_stores_reads_as_it_was_typed() {
        for (mrkdwn, expected) in [
            ("`Vec&lt;T&gt;` &amp;amp;", "`Vec<T>` &amp;"),
            ("<https://x.org/a?b=1&amp;c=2>", "https://x.org/a?b=1&c=2"),
            ("<https://x.org/a|the file>", "the file (https://x.org/a)"),
            ("ask @<http://codebutler.pm|codebutler.pm>", "ask @codebutler.pm"),
            ("<@U123> <!here> <#C1|general>", "<@U123> <!here> <#C1|general>"),
            ("a < b", "a < b"),
        ] {
            assert_eq!(to_text(mrkdwn), expected, "{mrkdwn}");
        }
    }
}
