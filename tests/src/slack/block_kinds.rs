//! Block Kit's kinds of blocks beyond the plain ones, with what each can't be without (types 3.2).

use std::collections::BTreeSet;

use serde_json::Value;

use super::blocks::BlockCheck;
use super::cells::cells_length;

const LEVELS: &[&str] = &["default", "info", "warning", "error", "success"];
const WIDTHS: &[&str] = &["narrow", "standard", "wide", "full"];
const STATUSES: &[&str] = &["pending", "in_progress", "complete", "error"];
const CELLS: &[&str] = &["rich_text", "raw_text", "raw_number"];
const HEAD_CELLS: &[&str] = &["raw_text", "raw_number"];
/// Characters in the cells of a message's `table`, and of its `data_table`.
const TABLE_TEXT: usize = 10_000;
const DATA_TABLE_TEXT: usize = 20_000;
const ALIGNS: &[&str] = &["left", "center", "right"];
/// Block types that a container may hold.
const INSIDE: &[&str] = &[
    "actions",
    "context",
    "divider",
    "file",
    "header",
    "image",
    "input",
    "rich_text",
    "section",
    "table",
    "video",
];

impl BlockCheck {
    /// False: there is no such kind.
    pub(super) fn newer_block(&mut self, kind: &str, block: &Value, at: &str) -> bool {
        match kind {
            "divider" => {}
            "alert" => {
                self.text_object(&block["text"], 3000, &format!("{at}/text"), false);
                self.one_of(&block["level"], LEVELS, &format!("{at}/level"));
            }
            "card" => self.card(block, at),
            "carousel" => {
                let cards = self.need_array(block, "elements", 10, at);
                for (n, card) in cards.into_iter().flatten().enumerate() {
                    let at = format!("{at}/elements/{n}");
                    if card["type"] != "card" {
                        self.problem("must be a card", &at);
                    }
                    self.card(card, &at);
                }
            }
            "container" => self.container(block, at),
            "context_actions" => {
                let elements = self.need_array(block, "elements", 5, at);
                for (n, element) in elements.into_iter().flatten().enumerate() {
                    self.context_action(element, &format!("{at}/elements/{n}"));
                }
            }
            "table" => {
                self.rows(block, 100, at);
                self.cells_together(block, TABLE_TEXT, at);
                let columns = block["column_settings"].as_array();
                self.items(columns, 20, &format!("{at}/column_settings"));
                for column in columns.into_iter().flatten() {
                    self.one_of(&column["align"], ALIGNS, &format!("{at}/column_settings"));
                }
            }
            "data_table" => {
                self.rows(block, 201, at);
                self.data_rows(block, at);
                self.cells_together(block, DATA_TABLE_TEXT, at);
                self.required(&block["caption"], 3000, at, "caption");
                let size = &block["page_size"];
                if !size.is_null() && !size.as_u64().is_some_and(|n| (1..=100).contains(&n)) {
                    self.problem("must be between 1 and 100", &format!("{at}/page_size"));
                }
            }
            "file" => {
                self.required(&block["source"], 255, at, "source");
                self.required(&block["external_id"], 255, at, "external_id");
            }
            "input" => {
                self.text_object(&block["label"], 2000, &format!("{at}/label"), true);
                self.required_object(&block["element"], at, "element");
            }
            "plan" => {
                self.required(&block["title"], 256, at, "title");
                let tasks = block["tasks"].as_array();
                self.items(tasks, 50, &format!("{at}/tasks"));
                let mut ids = BTreeSet::new();
                for (n, task) in tasks.into_iter().flatten().enumerate() {
                    let at = format!("{at}/tasks/{n}");
                    self.task(task, &at);
                    if let Some(id) = task["task_id"].as_str()
                        && !ids.insert(id)
                    {
                        self.problem(format!("`task_id` {id} already exists"), &at);
                    }
                }
            }
            "task_card" => self.task(block, at),
            "video" => {
                for name in ["video_url", "thumbnail_url", "alt_text"] {
                    self.required(&block[name], 3000, at, name);
                }
                self.text_object(&block["title"], 199, &format!("{at}/title"), true);
            }
            _ => return false,
        }
        true
    }

    fn task(&mut self, task: &Value, at: &str) {
        self.required(&task["task_id"], 256, at, "task_id");
        self.required(&task["title"], 256, at, "title");
        if task["status"].is_null() {
            self.problem("missing required field: status", at);
        }
        self.one_of(&task["status"], STATUSES, &format!("{at}/status"));
        for name in ["details", "output"] {
            if !task[name].is_null() && task[name]["type"] != "rich_text" {
                self.problem("must be rich_text", &format!("{at}/{name}"));
            }
        }
    }

    fn card(&mut self, card: &Value, at: &str) {
        let says =
            ["hero_image", "title", "actions", "body"].iter().any(|name| !card[*name].is_null());
        if !says {
            self.problem("missing required field: title", at);
        }
        for (name, most) in [("title", 150), ("subtitle", 150), ("body", 200)] {
            if !card[name].is_null() {
                self.text_object(&card[name], most, &format!("{at}/{name}"), false);
            }
        }
        for (n, button) in card["actions"].as_array().into_iter().flatten().enumerate() {
            self.element(button, &format!("{at}/actions/{n}"));
        }
    }

    fn container(&mut self, block: &Value, at: &str) {
        if block["rich_text_title"].is_null() {
            self.text_object(&block["title"], 150, &format!("{at}/title"), true);
        }
        if !block["subtitle"].is_null() {
            self.text_object(&block["subtitle"], 150, &format!("{at}/subtitle"), false);
        }
        self.one_of(&block["width"], WIDTHS, &format!("{at}/width"));
        if block["default_collapsed"] == true && block["is_collapsible"] != true {
            self.problem("requires is_collapsible", &format!("{at}/default_collapsed"));
        }
        let inside = self.need_array(block, "child_blocks", 10, at);
        for (n, child) in inside.into_iter().flatten().enumerate() {
            let at = format!("{at}/child_blocks/{n}");
            self.one_of(&child["type"], INSIDE, &format!("{at}/type"));
            self.block(child, &at);
        }
    }

    fn context_action(&mut self, element: &Value, at: &str) {
        match element["type"].as_str() {
            Some("feedback_buttons") => {
                for name in ["positive_button", "negative_button"] {
                    let (button, at) = (&element[name], format!("{at}/{name}"));
                    self.text_object(&button["text"], 75, &format!("{at}/text"), true);
                    self.required(&button["value"], 2000, &at, "value");
                    self.length(&button["accessibility_label"], 1, 75, &at);
                }
            }
            Some("icon_button") => {
                self.required(&element["icon"], 255, at, "icon");
                self.text_object(&element["text"], 75, &format!("{at}/text"), true);
            }
            Some(_) => self.problem("must be a valid enum value", &format!("{at}/type")),
            None => self.problem("missing required field: type", at),
        }
    }

    fn rows(&mut self, block: &Value, most: usize, at: &str) {
        let rows = self.need_array(block, "rows", most, at);
        for (n, row) in rows.into_iter().flatten().enumerate() {
            let at = format!("{at}/rows/{n}");
            let Some(cells) = row.as_array() else {
                self.problem("must be an array", &at);
                continue;
            };
            self.items(Some(cells), 20, &at);
            for (m, cell) in cells.iter().enumerate() {
                self.cell(cell, &format!("{at}/{m}"));
            }
        }
    }

    /// Checks one cell. None may be empty: Slack's own are a space then.
    fn cell(&mut self, cell: &Value, at: &str) {
        self.one_of(&cell["type"], CELLS, &format!("{at}/type"));
        match cell["type"].as_str() {
            None => self.problem("missing required field: type", &format!("{at}/type")),
            Some("raw_text") => self.required(&cell["text"], usize::MAX, at, "text"),
            Some("raw_number") if !cell["value"].is_number() => {
                self.problem("missing required field: value", at);
            }
            Some("rich_text") => {
                let lines = self.need_array(cell, "elements", usize::MAX, at);
                for (n, line) in lines.into_iter().flatten().enumerate() {
                    let at = format!("{at}/elements/{n}");
                    let pieces = self.need_array(line, "elements", usize::MAX, &at);
                    for (m, piece) in pieces.into_iter().flatten().enumerate() {
                        self.piece(piece, &format!("{at}/elements/{m}"));
                    }
                }
            }
            Some(_) => {}
        }
    }

    /// Checks one piece of a line of rich text.
    fn piece(&mut self, piece: &Value, at: &str) {
        match piece["type"].as_str() {
            Some("text") => self.required(&piece["text"], usize::MAX, at, "text"),
            Some("link") => self.required(&piece["url"], 3000, at, "url"),
            Some("emoji") => self.required(&piece["name"], 255, at, "name"),
            Some("user") => self.required(&piece["user_id"], 255, at, "user_id"),
            Some(_) => {}
            None => self.problem("missing required field: type", at),
        }
    }

    /// Checks what is particular to a `data_table`: rows of one length below a head of plain cells.
    fn data_rows(&mut self, block: &Value, at: &str) {
        let rows: Vec<&Vec<Value>> =
            block["rows"].as_array().into_iter().flatten().filter_map(Value::as_array).collect();
        if rows.len() < 2 {
            self.problem("no less than 2 items allowed", &format!("{at}/rows"));
        }
        let wide = rows.first().map_or(0, |row| row.len());
        if rows.iter().any(|row| row.len() != wide) {
            self.problem("must have cells of one number", &format!("{at}/rows"));
        }
        for cell in rows.first().into_iter().copied().flatten() {
            self.one_of(&cell["type"], HEAD_CELLS, &format!("{at}/rows/0"));
        }
    }

    fn cells_together(&mut self, block: &Value, most: usize, at: &str) {
        self.tables += 1;
        let length = cells_length(block);
        if length > most {
            let told = format!("must be less than {} characters in all cells", most + 1);
            self.problem(told, &format!("{at}/rows"));
        }
    }

    fn one_of(&mut self, value: &Value, known: &[&str], at: &str) {
        if !value.is_null() && !value.as_str().is_some_and(|value| known.contains(&value)) {
            self.problem("must be a valid enum value", at);
        }
    }

    fn required_object(&mut self, value: &Value, at: &str, name: &str) {
        if !value.is_object() {
            self.problem(format!("missing required field: {name}"), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::blocks::accept_blocks;
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn code(block: Value) -> String {
        accept_blocks(&json!([block])).map_or_else(|failure| failure.code, |_| "ok".to_owned())
    }

    #[test]
    fn each_kind_is_refused_without_what_it_needs() {
        let plain = |text: &str| json!({"type": "plain_text", "text": text});
        let button = |name: &str| json!({"text": plain(name), "value": name});
        let task = json!({"task_id": "1", "title": "Read", "status": "complete"});
        let card = json!({"type": "card", "title": {"type": "mrkdwn", "text": "A"}});
        let feedback = json!({"type": "feedback_buttons", "positive_button": button("Good"),
            "negative_button": button("Bad")});
        let cell = json!({"type": "raw_text", "text": "a"});
        let good = [
            json!({"type": "alert", "text": plain("Careful"), "level": "warning"}),
            card.clone(),
            json!({"type": "carousel", "elements": [card]}),
            json!({"type": "container", "title": plain("A"), "child_blocks": [{"type": "divider"}]}),
            json!({"type": "context_actions", "elements": [feedback]}),
            json!({"type": "table", "rows": [[cell]]}),
            json!({"type": "data_table", "rows": [[cell], [cell]], "caption": "Costs", "page_size": 10}),
            json!({"type": "file", "source": "remote", "external_id": "a"}),
            json!({"type": "input", "label": plain("A"), "element": {"type": "plain_text_input"}}),
            json!({"type": "plan", "title": "A", "tasks": [task]}),
            json!({"type": "task_card", "task_id": "1", "title": "A", "status": "error"}),
            json!({"type": "video", "video_url": "https://a.b", "thumbnail_url": "https://a.b",
                "alt_text": "A", "title": plain("A")}),
        ];
        for block in good {
            assert_eq!(code(block.clone()), "ok", "{block}");
            let needed: Vec<String> = block.as_object().unwrap().keys().cloned().collect();
            let optional = ["type", "level", "page_size", "tasks"];
            for name in needed.iter().filter(|name| !optional.contains(&name.as_str())) {
                let mut without = block.clone();
                without.as_object_mut().unwrap().remove(name);
                assert_eq!(code(without), "invalid_blocks", "{block} without {name}");
            }
        }
        let done =
            json!({"type": "task_card", "task_id": "1", "title": "A", "status": "completed"});
        assert_eq!(code(done), "invalid_blocks");
        assert_eq!(
            code(json!({"type": "plan", "title": "A", "tasks": [task, task]})),
            "invalid_blocks"
        );
        assert_eq!(code(json!({"type": "table", "rows": vec![[&cell]; 101]})), "invalid_blocks");
    }

    #[test]
    fn a_message_has_one_table_of_full_cells_and_ten_thousand_characters() {
        let raw = |text: &str| json!({"type": "raw_text", "text": text});
        let table = |rows: Value| json!({"type": "table", "rows": rows});
        let rich = |piece: Value| {
            json!({"type": "rich_text",
                "elements": [{"type": "rich_text_section", "elements": [piece]}]})
        };
        let both = json!([table(json!([[raw("a")]])), table(json!([[raw("b")]]))]);
        assert_eq!(accept_blocks(&both).unwrap_err().code, "invalid_attachments");
        for cell in [
            raw(""),
            json!({"type": "raw_number", "text": "1"}),
            json!({"type": "rich_text", "elements": []}),
            rich(json!({"type": "text", "text": ""})),
            rich(json!({"type": "link", "text": "a"})),
        ] {
            assert_eq!(code(table(json!([[cell]]))), "invalid_blocks", "{cell}");
        }
        for cell in [
            raw(" "),
            json!({"type": "raw_number", "value": 1}),
            rich(json!({"type": "link", "url": "https://a.b", "text": "a"})),
        ] {
            assert_eq!(code(table(json!([[cell]]))), "ok", "{cell}");
        }
        let half = raw(&"x".repeat(5000));
        assert_eq!(code(table(json!([[half, half]]))), "ok");
        assert_eq!(code(table(json!([[half, half, raw("x")]]))), "invalid_blocks");
        assert_eq!(code(table(json!([vec![raw("a"); 21]]))), "invalid_blocks");
        // Many cells are no reason to refuse it.
        assert_eq!(code(table(json!(vec![vec![raw("a"); 20]; 100]))), "ok");
        let data = |rows: Value| json!({"type": "data_table", "caption": "A", "rows": rows});
        assert_eq!(code(data(json!([[raw("a")]]))), "invalid_blocks");
        assert_eq!(code(data(json!([[raw("a")], [raw("b"), raw("c")]]))), "invalid_blocks");
        let head = rich(json!({"type": "text", "text": "a"}));
        assert_eq!(code(data(json!([[head], [raw("b")]]))), "invalid_blocks");
        assert_eq!(code(data(json!([[raw("a")], [head]]))), "ok");
    }
}
