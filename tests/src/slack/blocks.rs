//! Block Kit: what Slack accepts in a message, and the buttons in it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cells::cells_length;
use super::failure::MethodFailure;
use super::text;

/// Most blocks in one message.
pub(super) const MAX_BLOCKS: usize = 50;
/// Characters of all blocks together, as JSON, of which a table counts with the text of its cells. Not documented;
/// measured by several libraries' users.
pub(super) const MAX_TOTAL: usize = 13_200;
/// Characters of Markdown in all `markdown` blocks together, and in `markdown_text`.
pub(super) const MAX_MARKDOWN: usize = 12_000;

/// A button that a person can click.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockButton {
    pub action_id: String,
    pub block_id: String,
    pub text: String,
    pub value: Option<String>,
    pub style: Option<String>,
    pub url: Option<String>,
}

/// Checks a `blocks` argument and gives every block and action the id that Slack would make up.
pub(super) fn accept_blocks(blocks: &Value) -> Result<Vec<Value>, MethodFailure> {
    let Some(blocks) = blocks.as_array() else {
        return Err(MethodFailure::new("invalid_blocks_format"));
    };
    let mut check = BlockCheck::default();
    if blocks.len() > MAX_BLOCKS {
        check.problem(format!("no more than {MAX_BLOCKS} items allowed"), "/blocks");
    }
    let mut ids = BTreeSet::new();
    for (at, block) in blocks.iter().enumerate() {
        let pointer = format!("/blocks/{at}");
        check.block(block, &pointer);
        check.length(&block["block_id"], 1, 255, &format!("{pointer}/block_id"));
        if let Some(id) = block["block_id"].as_str()
            && !ids.insert(id.to_owned())
        {
            check
                .problem(format!("`block_id` {id} already exists"), &format!("{pointer}/block_id"));
        }
    }
    if !check.problems.is_empty() {
        let mut failure = MethodFailure::explained("invalid_blocks", &check.problems);
        failure.extra.insert("errors".to_owned(), json!(check.problems));
        return Err(failure);
    }
    if check.tables > 1 {
        let told = "only_one_table_allowed [json-pointer:/blocks]".to_owned();
        return Err(MethodFailure::explained("invalid_attachments", &[told]));
    }
    let total: usize = blocks.iter().map(block_size).sum();
    if total > MAX_TOTAL || check.markdown > MAX_MARKDOWN {
        return Err(MethodFailure::new("msg_blocks_too_long"));
    }
    let mut blocks = blocks.clone();
    for (at, block) in blocks.iter_mut().enumerate() {
        fill_ids(block, at, &mut ids);
        link_texts(block);
    }
    Ok(blocks)
}

fn block_size(block: &Value) -> usize {
    let mut block = block.clone();
    let cells = cells_length(&block);
    if let Some(fields) = block.as_object_mut() {
        fields.remove("rows");
    }
    cells + 1 + block.to_string().chars().count()
}

/// Finds links in texts that don't say that they are to be taken literally.
fn link_texts(value: &mut Value) {
    if value["type"] == "mrkdwn"
        && value["verbatim"] != true
        && let Some(text) = value["text"].as_str()
    {
        value["text"] = json!(text::posted_text(text, false));
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(link_texts),
        Value::Array(items) => items.iter_mut().for_each(link_texts),
        _ => {}
    }
}

fn fill_ids(block: &mut Value, at: usize, taken: &mut BTreeSet<String>) {
    if block["block_id"].as_str().is_none() {
        let names = (0..=taken.len()).map(|n| format!("b{at}{n}"));
        let id = names.into_iter().find(|id| !taken.contains(id)).unwrap_or_default();
        taken.insert(id.clone());
        block["block_id"] = json!(id);
    }
    for (n, element) in elements_mut(block).into_iter().enumerate() {
        if element["action_id"].as_str().is_none() && element["type"] == "button" {
            element["action_id"] = json!(format!("a{at}{n}"));
        }
    }
}

fn elements_mut(block: &mut Value) -> Vec<&mut Value> {
    let Some(block) = block.as_object_mut() else { return Vec::new() };
    let mut found = Vec::new();
    for (name, value) in block {
        match (name.as_str(), value) {
            ("elements", Value::Array(elements)) => found.extend(elements),
            ("accessory", value) => found.push(value),
            _ => {}
        }
    }
    found
}

/// All buttons of a message, in reading order.
pub(super) fn find_buttons(blocks: &[Value]) -> Vec<BlockButton> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    blocks
        .iter()
        .flat_map(|block| {
            let accessory = block.get("accessory");
            let elements = block["elements"].as_array().into_iter().flatten();
            elements.chain(accessory).map(move |element| (block, element))
        })
        .filter(|(_, element)| element["type"] == "button")
        .map(|(block, element)| BlockButton {
            action_id: text(&element["action_id"]).unwrap_or_default(),
            block_id: text(&block["block_id"]).unwrap_or_default(),
            text: text(&element["text"]["text"]).unwrap_or_default(),
            value: text(&element["value"]),
            style: text(&element["style"]),
            url: text(&element["url"]),
        })
        .collect()
}

/// The text in blocks, one line a block, in wire form.
pub(super) fn show_blocks(blocks: &[Value]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for block in blocks {
        let mut texts = Vec::new();
        match block["type"].as_str() {
            Some("actions") => continue,
            Some("markdown") => texts.extend(block["text"].as_str().map(str::to_owned)),
            Some("rich_text") => rich_texts(block, &mut texts),
            Some("plan") => {
                texts.extend(block["title"].as_str().map(str::to_owned));
                let tasks = block["tasks"].as_array().into_iter().flatten();
                texts.extend(tasks.filter_map(show_task));
            }
            Some("task_card") => texts.extend(show_task(block)),
            Some("table" | "data_table") => texts.push(show_rows(&block["rows"])),
            _ => {
                texts.extend(block["text"]["text"].as_str().map(str::to_owned));
                let items = [&block["fields"], &block["elements"]];
                for item in items.iter().filter_map(|list| list.as_array()).flatten() {
                    texts.extend(item["text"].as_str().map(str::to_owned));
                }
            }
        }
        if !texts.is_empty() {
            lines.push(texts.join(if block["type"] == "rich_text" { "" } else { " " }));
        }
    }
    lines.join("\n")
}

/// One line for each row, with its cells side by side.
fn show_rows(rows: &Value) -> String {
    let cell = |cell: &Value| {
        let mut texts = Vec::new();
        match cell["type"].as_str() {
            Some("rich_text") => rich_texts(cell, &mut texts),
            _ => texts.extend(cell["text"].as_str().map(escape_cell)),
        }
        texts.concat()
    };
    let row = |row: &Value| {
        let cells = row.as_array().into_iter().flatten();
        cells.map(cell).collect::<Vec<_>>().join(" | ")
    };
    rows.as_array().into_iter().flatten().map(row).collect::<Vec<_>>().join("\n")
}

/// Nothing in a cell is markup.
fn escape_cell(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A task, with a mark for how it stands.
fn show_task(task: &Value) -> Option<String> {
    let mark = match task["status"].as_str() {
        Some("complete") => "✓",
        Some("error") => "✗",
        _ => "…",
    };
    Some(format!("{mark} {}", task["title"].as_str()?))
}

fn rich_texts(value: &Value, found: &mut Vec<String>) {
    for element in value["elements"].as_array().into_iter().flatten() {
        match element["type"].as_str() {
            Some("text") => found.extend(element["text"].as_str().map(str::to_owned)),
            Some("user") => found.push(format!("<@{}>", element["user_id"].as_str().unwrap_or(""))),
            Some("link") => {
                let shown = element["text"].as_str().or(element["url"].as_str());
                found.extend(shown.map(str::to_owned));
            }
            _ => rich_texts(element, found),
        }
    }
}

/// Collects every problem, as Slack reports them all.
#[derive(Default)]
pub(super) struct BlockCheck {
    problems: Vec<String>,
    markdown: usize,
    pub(super) tables: usize,
}

impl BlockCheck {
    pub(super) fn problem(&mut self, what: impl std::fmt::Display, pointer: &str) {
        self.problems.push(format!("{what} [json-pointer:{pointer}]"));
    }

    pub(super) fn block(&mut self, block: &Value, at: &str) {
        match block["type"].as_str() {
            Some("section") => {
                let fields = block["fields"].as_array();
                if block.get("text").is_none() && fields.is_none() {
                    self.problem("missing required field: text", at);
                }
                if let Some(text) = block.get("text") {
                    self.text_object(text, 3000, &format!("{at}/text"), false);
                }
                self.items(fields, 10, &format!("{at}/fields"));
                for (n, field) in fields.into_iter().flatten().enumerate() {
                    self.text_object(field, 2000, &format!("{at}/fields/{n}"), false);
                }
                if let Some(accessory) = block.get("accessory") {
                    self.element(accessory, &format!("{at}/accessory"));
                }
            }
            Some("header") => {
                self.text_object(&block["text"], 150, &format!("{at}/text"), true);
            }
            Some("markdown") => {
                self.required(&block["text"], MAX_MARKDOWN, at, "text");
                self.markdown += block["text"].as_str().map_or(0, |text| text.chars().count());
            }
            Some("context") => {
                let elements = self.need_array(block, "elements", 10, at);
                for (n, element) in elements.into_iter().flatten().enumerate() {
                    let at = format!("{at}/elements/{n}");
                    if element["type"] == "image" {
                        self.required(&element["alt_text"], 2000, &at, "alt_text");
                    } else {
                        self.text_object(element, 3000, &at, false);
                    }
                }
            }
            Some("actions") => {
                let elements = self.need_array(block, "elements", 25, at);
                let mut ids = BTreeSet::new();
                for (n, element) in elements.into_iter().flatten().enumerate() {
                    let at = format!("{at}/elements/{n}");
                    self.element(element, &at);
                    if let Some(id) = element["action_id"].as_str()
                        && !ids.insert(id)
                    {
                        self.problem(
                            format!("`action_id` {id} already exists"),
                            &format!("{at}/action_id"),
                        );
                    }
                }
            }
            Some("image") => {
                self.required(&block["alt_text"], 2000, at, "alt_text");
                if block.get("slack_file").is_none() {
                    self.required(&block["image_url"], 3000, at, "image_url");
                }
            }
            Some("rich_text") => {
                self.need_array(block, "elements", usize::MAX, at);
            }
            Some(other) if self.newer_block(other, block, at) => {}
            Some(other) => self.problem(format!("unsupported type: {other}"), at),
            None => self.problem("missing required field: type", at),
        }
    }

    pub(super) fn element(&mut self, element: &Value, at: &str) {
        self.length(&element["action_id"], 1, 255, &format!("{at}/action_id"));
        match element["type"].as_str() {
            Some("button") => {
                self.text_object(&element["text"], 75, &format!("{at}/text"), true);
                self.length(&element["value"], 0, 2000, &format!("{at}/value"));
                self.length(&element["url"], 1, 3000, &format!("{at}/url"));
                let style = element.get("style").map(|style| style.as_str().unwrap_or_default());
                if style.is_some_and(|style| style != "primary" && style != "danger") {
                    self.problem("must be a valid enum value", &format!("{at}/style"));
                }
            }
            Some(_) => {}
            None => self.problem("missing required field: type", at),
        }
    }

    pub(super) fn text_object(&mut self, object: &Value, most: usize, at: &str, plain_only: bool) {
        match object["type"].as_str() {
            Some("plain_text") => {}
            Some("mrkdwn") if !plain_only => {}
            Some(_) => self.problem("must be a valid enum value", &format!("{at}/type")),
            None => return self.problem("missing required field: type", at),
        }
        self.required(&object["text"], most, at, "text");
    }

    pub(super) fn required(&mut self, value: &Value, most: usize, at: &str, name: &str) {
        if value.is_null() {
            self.problem(format!("missing required field: {name}"), at);
        } else {
            self.length(value, 1, most, &format!("{at}/{name}"));
        }
    }

    pub(super) fn length(&mut self, value: &Value, least: usize, most: usize, at: &str) {
        match value {
            Value::String(text) if text.chars().count() < least => {
                self.problem(format!("must be more than {} characters", least - 1), at);
            }
            Value::String(text) if text.chars().count() > most => {
                self.problem(format!("must be less than {} characters", most + 1), at);
            }
            Value::String(_) | Value::Null => {}
            _ => self.problem("must be a string", at),
        }
    }

    pub(super) fn need_array<'a>(
        &mut self,
        block: &'a Value,
        name: &str,
        most: usize,
        at: &str,
    ) -> Option<&'a Vec<Value>> {
        let items = block[name].as_array();
        if items.is_none_or(Vec::is_empty) {
            self.problem(format!("missing required field: {name}"), at);
        }
        self.items(items, most, &format!("{at}/{name}"));
        items
    }

    pub(super) fn items(&mut self, items: Option<&Vec<Value>>, most: usize, at: &str) {
        if items.is_some_and(|items| items.len() > most) {
            self.problem(format!("no more than {most} items allowed"), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(length: usize) -> Value {
        json!({ "type": "section", "text": { "type": "mrkdwn", "text": "x".repeat(length) } })
    }

    fn button(action_id: &str, text: &str) -> Value {
        let text = json!({ "type": "plain_text", "text": text });
        json!({ "type": "button", "action_id": action_id, "text": text, "value": "v" })
    }

    fn code(blocks: &Value) -> String {
        accept_blocks(blocks).map_or_else(|failure| failure.code, |_| "ok".to_owned())
    }

    #[test]
    fn limits_are_slacks() {
        assert_eq!(code(&json!([section(3000)])), "ok");
        assert_eq!(code(&json!([section(3001)])), "invalid_blocks");
        assert_eq!(code(&json!([section(0)])), "invalid_blocks");
        assert_eq!(code(&json!(vec![section(1); 51])), "invalid_blocks");
        assert_eq!(code(&json!(vec![section(1); 50])), "ok");
        assert_eq!(code(&json!(vec![section(3000); 5])), "msg_blocks_too_long");
        assert_eq!(code(&json!([{ "type": "nope" }])), "invalid_blocks");
        assert_eq!(code(&json!({ "type": "section" })), "invalid_blocks_format");
        let markdown = |n: usize| json!({ "type": "markdown", "text": "x".repeat(n) });
        assert_eq!(code(&json!([markdown(12_000)])), "ok");
        assert_eq!(code(&json!([markdown(12_001)])), "invalid_blocks");
        assert_eq!(code(&json!([markdown(6_000), markdown(6_001)])), "msg_blocks_too_long");
    }

    #[test]
    fn buttons_are_checked_and_found() {
        let row = |elements: Value| json!([{ "type": "actions", "elements": elements }]);
        assert_eq!(code(&row(json!([button("a", "Go"), button("a", "No")]))), "invalid_blocks");
        assert_eq!(code(&row(json!([button("a", &"x".repeat(76))]))), "invalid_blocks");
        let blocks = accept_blocks(&row(json!([button("a", "Go"), button("b", "No")]))).unwrap();
        let found = find_buttons(&blocks);
        assert_eq!(found[1].action_id, "b");
        assert_eq!(found[1].block_id, "b00");
        assert_eq!(found[1].value.as_deref(), Some("v"));
    }

    #[test]
    fn problems_point_at_their_place() {
        let failure = accept_blocks(&json!([section(1), section(3001)])).unwrap_err();
        assert_eq!(
            failure.extra["response_metadata"]["messages"][0],
            "[ERROR] must be less than 3001 characters [json-pointer:/blocks/1/text/text]"
        );
    }
}
