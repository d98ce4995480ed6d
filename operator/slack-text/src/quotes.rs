//! Quotations in mrkdwn: `> …` at the beginning of a line or of a list's item, and all that is behind
//! `>>>`.

const FENCE: &str = "```";
const BULLETS: [char; 9] = ['•', '◦', '▪', '▫', '‣', '–', '-', '*', '+'];

/// A text without what it quotes. Code blocks stay: what begins a line in them is code.
#[must_use]
pub fn without_quotes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_code = false;
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        if !in_code && let Some(quote) = quoted_part(line) {
            if quote.starts_with(">>>") || quote.starts_with("&gt;&gt;&gt;") {
                break;
            }
            // The lines before and after a quotation stay apart.
            kept.push('\n');
            continue;
        }
        kept.push_str(line);
        if line.matches(FENCE).count() % 2 == 1 {
            // An unclosed block is no block.
            in_code = !in_code && rest.contains(FENCE);
        }
    }
    kept
}

/// A line from its quotation mark on, if it is a quotation.
fn quoted_part(line: &str) -> Option<&str> {
    let mut line = line.trim_start();
    while let Some(item) = list_item(line) {
        line = item.trim_start();
    }
    (line.starts_with('>') || line.starts_with("&gt;")).then_some(line)
}

/// The text behind a list marker.
fn list_item(line: &str) -> Option<&str> {
    if let Some(item) = line.strip_prefix(BULLETS) {
        // A bullet may carry a sign that says how it is drawn.
        let item = item.strip_prefix('\u{fe0e}').unwrap_or(item);
        return item.starts_with(char::is_whitespace).then_some(item);
    }
    let label =
        line.find(|c: char| !c.is_ascii_alphanumeric()).filter(|end| (1..=4).contains(end))?;
    let item = line[label..].strip_prefix(['.', ')'])?;
    item.starts_with(char::is_whitespace).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_quotation_is_left_out() {
        for (text, expected) in [
            ("&gt; a\nb", "\nb"),
            ("&gt;a\n  &gt; b\nc", "\n\nc"),
            ("> a\nb", "\nb"),
            ("x\n&gt;&gt;&gt; a\nb\n\nc", "x\n"),
            ("&gt; &gt; a", "\n"),
            ("• &gt; a\n◦ &gt; b\n- &gt; c\n1. &gt; d\n  a) &gt; e\nf", "\n\n\n\n\nf"),
            ("• - &gt; a", "\n"),
            ("▪︎ &gt; a", "\n"),
            ("a &gt; b\n-&gt; c\n2 &gt; 1", "a &gt; b\n-&gt; c\n2 &gt; 1"),
            ("", ""),
        ] {
            assert_eq!(without_quotes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_prompt_in_code_is_no_quotation() {
        let code = "```\n&gt;&gt;&gt; import x\n&gt; y\n```\nfix it";
        assert_eq!(without_quotes(code), code);
        // A quotation that opens code ends with its lines.
        assert_eq!(without_quotes("&gt; ```\n&gt; a\nb ```c``` d"), "\n\nb ```c``` d");
        assert_eq!(without_quotes("``` open\n&gt; a\nb"), "``` open\n\nb");
    }
}
