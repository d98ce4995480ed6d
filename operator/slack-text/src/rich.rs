//! Rich text: what people write in Slack's own editor.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{DEPTH, escape_text};

/// Selection of the parts of a rich text that are rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RichView {
    /// Everything, as Slack shows it.
    Shown,
    /// Only the author's own words: no quotations, no code.
    Spoken,
}

/// A `rich_text` block as mrkdwn.
pub(crate) fn rich_text(block: &Value, view: RichView) -> String {
    let mut lines = Vec::new();
    for element in items(&block["elements"]) {
        add_element(element, view, &mut lines);
    }
    lines.join("\n")
}

fn add_element(element: &Value, view: RichView, lines: &mut Vec<String>) {
    let shown = view == RichView::Shown;
    match element["type"].as_str() {
        Some("rich_text_quote") if shown => lines.push(quote_lines(&inline(element, view, 0))),
        Some("rich_text_preformatted") if shown => {
            lines.push(format!("```\n{}\n```", inline(element, view, 0)));
        }
        // The texts before and after what is left out stay apart.
        Some("rich_text_quote" | "rich_text_preformatted") => lines.push(String::new()),
        Some("rich_text_list") => add_list(element, view, lines),
        _ => lines.push(inline(element, view, 0)),
    }
}

/// A list; one with a border is a quotation.
fn add_list(list: &Value, view: RichView, lines: &mut Vec<String>) {
    let bordered = list["border"].as_u64().is_some_and(|border| border > 0);
    if bordered && view == RichView::Spoken {
        lines.push(String::new());
        return;
    }
    let indent = usize::try_from(list["indent"].as_u64().unwrap_or(0)).unwrap_or(0).min(DEPTH);
    let offset = list["offset"].as_u64().unwrap_or(0);
    for (n, item) in (1_u64..).zip(items(&list["elements"])) {
        let number = offset.saturating_add(n);
        let mark = match list["style"].as_str() {
            Some("ordered") => format!("{number}."),
            _ => "•".to_owned(),
        };
        // An item may hold what a message holds.
        let mut own = Vec::new();
        match item["type"].as_str() {
            Some("rich_text_section") | None => own.push(inline(item, view, 0)),
            Some(_) => add_element(item, view, &mut own),
        }
        let line = format!("{}{mark} {}", "    ".repeat(indent), own.join("\n"));
        lines.push(if bordered { quote_lines(&line) } else { line });
    }
}

fn quote_lines(text: &str) -> String {
    text.lines().map(|line| format!("&gt; {line}")).collect::<Vec<_>>().join("\n")
}

/// The elements of a line, one behind the other.
fn inline(holder: &Value, view: RichView, depth: usize) -> String {
    let mut text = String::new();
    if depth > DEPTH {
        return text;
    }
    for element in items(&holder["elements"]) {
        add_inline(element, view, depth, &mut text);
    }
    text
}

fn add_inline(element: &Value, view: RichView, depth: usize, text: &mut String) {
    let of = |name: &str| element[name].as_str().unwrap_or_default();
    if element["style"]["code"] == true {
        // A mention in code addresses no role.
        let code = if view == RichView::Shown { of("text") } else { "…" };
        let _ = write!(text, "`{}`", escape_text(code));
        return;
    }
    let _ = match of("type") {
        "text" => write!(text, "{}", escape_text(of("text"))),
        "link" if of("text").is_empty() => write!(text, "<{}>", escape_text(of("url"))),
        "link" => write!(text, "<{}|{}>", escape_text(of("url")), escape_text(of("text"))),
        "user" => write!(text, "<@{}>", escape_text(of("user_id"))),
        "channel" => write!(text, "<#{}>", escape_text(of("channel_id"))),
        "usergroup" => write!(text, "<!subteam^{}>", escape_text(of("usergroup_id"))),
        "broadcast" => write!(text, "<!{}>", escape_text(of("range"))),
        "emoji" => write!(text, ":{}:", escape_text(of("name"))),
        "color" => write!(text, "{}", escape_text(of("value"))),
        "date" => write!(text, "{}", escape_text(of("fallback"))),
        kind if kind.starts_with("rich_text_") && kind != "rich_text_section" => {
            let mut lines = Vec::new();
            add_element(element, view, &mut lines);
            write!(text, "\n{}\n", lines.join("\n"))
        }
        _ => {
            let own = element["text"].as_str().or(element["fallback"].as_str()).unwrap_or_default();
            let inner = inline(element, view, depth + 1);
            write!(text, "{}{inner}", escape_text(own))
        }
    };
}

pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
