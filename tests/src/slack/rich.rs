//! Rich text as Slack's own editor makes it of typed text: quotations, lists, code and plain lines become
//! elements of their own, and the text beside them stays as it was.

use serde_json::{Value, json};

use super::text::inline_elements;

/// A `rich_text` block for a text in wire form.
pub(super) fn rich_text(wire: &str, block_id: &str) -> Value {
    let mut elements: Vec<Value> = Vec::new();
    let mut rest = wire;
    while !rest.is_empty() {
        let (kind, body, after) = next_part(rest);
        rest = after;
        match (kind, elements.last_mut()) {
            (LineKind::Item, Some(last)) if last["type"] == "rich_text_list" => {
                if let Some(items) = last["elements"].as_array_mut() {
                    items.push(section(&body));
                }
            }
            (LineKind::Item, _) => elements.push(json!({
                "type": "rich_text_list", "style": "bullet", "indent": 0, "border": 0,
                "elements": [section(&body)],
            })),
            (LineKind::Quote, _) => elements
                .push(json!({ "type": "rich_text_quote", "elements": inline_elements(&body) })),
            (LineKind::Code, _) => elements.push(json!({
                "type": "rich_text_preformatted", "border": 0,
                "elements": [{ "type": "text", "text": super::text::unescape_text(&body) }],
            })),
            (LineKind::Plain, _) => elements.push(section(&body)),
        }
    }
    json!({ "type": "rich_text", "block_id": block_id, "elements": elements })
}

fn section(body: &str) -> Value {
    json!({ "type": "rich_text_section", "elements": inline_elements(body) })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Plain,
    Quote,
    Item,
    Code,
}

/// The next lines of one kind, without what marks them, and what is behind them.
fn next_part(text: &str) -> (LineKind, String, &str) {
    if let Some(body) = text.strip_prefix("```")
        && let Some(end) = body.find("```")
    {
        let code = body[..end].trim_matches('\n').to_owned();
        return (LineKind::Code, code, body[end + 3..].trim_start_matches('\n'));
    }
    if let Some(all) = text.strip_prefix("&gt;&gt;&gt;") {
        return (LineKind::Quote, all.trim_start().to_owned(), "");
    }
    let kind = kind_of(text);
    let mut lines: Vec<&str> = Vec::new();
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        lines.push(line_body(kind, line));
        rest = after;
        let more = !rest.is_empty() && kind_of(rest) == kind && kind != LineKind::Item;
        if !more || rest.starts_with("```") || rest.starts_with("&gt;&gt;&gt;") {
            break;
        }
    }
    (kind, lines.join("\n"), rest)
}

fn kind_of(text: &str) -> LineKind {
    if text.starts_with("&gt;") {
        LineKind::Quote
    } else if text.starts_with("• ") {
        LineKind::Item
    } else {
        LineKind::Plain
    }
}

fn line_body(kind: LineKind, line: &str) -> &str {
    match kind {
        LineKind::Quote => line.trim_start_matches("&gt;").trim_start(),
        LineKind::Item => line.trim_start_matches("• "),
        LineKind::Plain | LineKind::Code => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_becomes_elements() {
        let block =
            rich_text("hi `x`\nyou\n&gt; a\n&gt; b\n• one\n• two\n```\nlet x;\n```\nend", "b");
        let kinds: Vec<&str> = block["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "rich_text_section",
                "rich_text_quote",
                "rich_text_list",
                "rich_text_preformatted",
                "rich_text_section"
            ]
        );
        assert_eq!(block["elements"][0]["elements"][1]["style"]["code"], true);
        assert_eq!(block["elements"][1]["elements"][0]["text"], "a\nb");
        assert_eq!(block["elements"][2]["elements"].as_array().unwrap().len(), 2);
        let all = rich_text("x\n&gt;&gt;&gt; a\nb", "b");
        assert_eq!(all["elements"][1]["elements"][0]["text"], "a\nb");
    }
}
