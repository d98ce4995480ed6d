//! The text of a message's blocks.

use serde_json::Value;

use crate::rich::{RichView, items, rich_text};
use crate::{DEPTH, escape_text, filled};

/// Interactive parts, such as buttons and menus: their labels are no words of the message.
const SILENT: [&str; 9] = [
    "actions",
    "button",
    "workflow_button",
    "overflow",
    "context_actions",
    "feedback_buttons",
    "icon_button",
    "confirm",
    "input",
];

/// Fields that stand above others.
const FIRST: [&str; 5] = ["title", "header", "text", "subtitle", "body"];
/// Fields that may be plain words.
const WORDS: [&str; 5] = ["title", "text", "subtitle", "details", "output"];

/// All blocks as mrkdwn, as they are shown.
#[must_use]
pub fn shown_text(blocks: &Value) -> String {
    let texts = items(blocks).map(|block| block_text(block, 0));
    let texts: Vec<String> = texts.filter(|text| filled(text).is_some()).collect();
    texts.join("\n")
}

/// The author's own words in rich text, without quotations and code. None: there is no rich text,
/// and the message's own text says it.
#[must_use]
pub fn spoken_text(blocks: &Value) -> Option<String> {
    let rich = items(blocks).filter(|block| block["type"] == "rich_text");
    let texts: Vec<String> = rich.map(|block| rich_text(block, RichView::Spoken)).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// True for a block that is a table.
#[must_use]
pub fn is_table_block(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("table" | "data_table"))
}

fn block_text(block: &Value, depth: usize) -> String {
    if depth > DEPTH {
        return String::new();
    }
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("rich_text") => rich_text(block, RichView::Shown),
        Some("plain_text" | "mrkdwn" | "markdown") => text_of(&block["text"]),
        // No markup, whatever it looks like.
        Some("raw_text") => escape_text(&text_of(&block["text"])),
        Some("raw_number") => match &block["value"] {
            Value::Null => text_of(&block["text"]),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        Some("table" | "data_table") => table_text(&block["rows"], depth),
        Some("image") => image_text(block),
        Some(kind) if SILENT.contains(&kind) => String::new(),
        _ => inner_texts(block, depth).join("\n"),
    }
}

fn table_text(rows: &Value, depth: usize) -> String {
    let row = |row: &Value| {
        let cells = if row.is_array() { row } else { &row["cells"] };
        let cells = items(cells).map(|cell| block_text(cell, depth + 1).replace('\n', " "));
        cells.collect::<Vec<_>>().join(" | ")
    };
    items(rows).map(row).collect::<Vec<_>>().join("\n")
}

fn image_text(image: &Value) -> String {
    let title = image["title"]["text"].as_str().or(image["title"].as_str());
    let about = title.or(image["alt_text"].as_str()).and_then(filled);
    about.map(|about| format!("[image: {about}]")).unwrap_or_default()
}

/// The texts in whatever it is, from top to bottom.
fn inner_texts(value: &Value, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    let Some(fields) = value.as_object() else { return found };
    let place = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    let mut fields: Vec<_> = fields.iter().collect();
    // Sort by name where nothing else says the order: the same words whatever order they come in.
    fields.sort_by(|(one, _), (other, _)| (place(one), one).cmp(&(place(other), other)));
    for (name, inner) in fields {
        if SILENT.contains(&name.as_str()) || name == "options" {
            continue;
        }
        match inner {
            Value::Object(_) => found.push(block_text(inner, depth + 1)),
            Value::Array(items) => {
                found.extend(items.iter().map(|item| block_text(item, depth + 1)));
            }
            // Some blocks carry plain words.
            Value::String(text) if WORDS.contains(&name.as_str()) => found.push(text.clone()),
            _ => {}
        }
    }
    found.retain(|text| filled(text).is_some());
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn line(elements: Value) -> Value {
        json!({"type": "rich_text_section", "elements": elements})
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn rich_text_reads_as_it_is_shown_and_speaks_without_quotations() {
        let blocks = json!([{"type": "rich_text", "elements": [
            line(json!([
                {"type": "user", "user_id": "U1"}, text(" a < b "),
                {"type": "text", "text": "@x.coder", "style": {"code": true}},
                {"type": "link", "url": "http://codebutler.pm", "text": "codebutler.pm"},
                {"type": "emoji", "name": "tada"},
            ])),
            {"type": "rich_text_quote", "elements": [text("@x.coder\nsecond")]},
            {"type": "rich_text_preformatted", "elements": [text("@x.coder")], "border": 0},
            {"type": "rich_text_list", "style": "ordered", "indent": 1, "elements": [
                line(json!([text("one")])), line(json!([text("two")])),
            ]},
            {"type": "rich_text_list", "style": "bullet", "border": 1, "elements": [
                line(json!([text("@x.coder")])),
            ]},
            {"type": "rich_text_list", "style": "bullet", "elements": [
                {"type": "rich_text_quote", "elements": [text("@x.coder")]},
            ]},
        ]}]);
        assert_eq!(
            shown_text(&blocks),
            "<@U1> a &lt; b `@x.coder`<http://codebutler.pm|codebutler.pm>:tada:\n\
             &gt; @x.coder\n&gt; second\n```\n@x.coder\n```\n    1. one\n    2. two\n\
             &gt; • @x.coder\n• &gt; @x.coder"
        );
        let spoken = spoken_text(&blocks).unwrap();
        assert!(!spoken.contains("@x.coder"), "{spoken}");
        assert!(spoken.contains("one") && spoken.contains("codebutler.pm"), "{spoken}");
        assert_eq!(spoken_text(&json!([{"type": "section"}])), None);
    }

    #[test]
    fn layout_reads_from_top_to_bottom_and_nothing_odd_hides_the_rest() {
        let plain = |text: &str| json!({"type": "plain_text", "text": text});
        let blocks = json!([
            {"type": "header", "text": plain("Disk full")},
            null,
            7,
            {"type": "section", "text": {"type": "mrkdwn", "text": "*sev1*"}, "fields": [
                {"type": "mrkdwn", "text": "host: a"}, {"type": "mrkdwn", "text": "at: 95 %"},
            ], "accessory": {"type": "button", "text": plain("Silence")}},
            {"type": "actions", "elements": [{"type": "button", "text": plain("Ack")}]},
            {"type": "context", "elements": [plain("by Prometheus"),
                {"type": "image", "image_url": "https://x/y.png", "alt_text": "logo"}]},
            {"type": "table", "rows": [
                [{"type": "raw_text", "text": "pod <!here>"}, {"type": "raw_text", "text": "restarts"}],
                [{"type": "rich_text", "elements": [line(json!([text("web-1")]))]},
                    {"type": "raw_number", "value": 7}],
            ]},
            {"type": "divider"},
            {"type": "of the future", "body": {"deep": [plain("found")]}, "title": "Named"},
        ]);
        assert_eq!(
            shown_text(&blocks),
            "Disk full\n*sev1*\nhost: a\nat: 95 %\nby Prometheus\n[image: logo]\n\
             pod &lt;!here&gt; | restarts\nweb-1 | 7\nNamed\nfound"
        );
        let mut deep = plain("end");
        for _ in 0..200 {
            deep = json!({"type": "box", "inner": deep});
        }
        assert_eq!(shown_text(&json!([deep])), "");
        for odd in [json!(null), json!("x"), json!({"type": "section"}), json!([[[]]])] {
            assert_eq!(shown_text(&odd), "");
        }
    }
}
