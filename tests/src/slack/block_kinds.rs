//! Block Kit's kinds of blocks beyond the plain ones, with what each can't be without (types 3.2).

use std::collections::BTreeSet;

use serde_json::Value;

use super::blocks::BlockCheck;

const LEVELS: &[&str] = &["default", "info", "warning", "error", "success"];
const WIDTHS: &[&str] = &["narrow", "standard", "wide", "full"];
const STATUSES: &[&str] = &["pending", "in_progress", "complete", "error"];
const CELLS: &[&str] = &["rich_text", "raw_text", "raw_number"];
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
                self.rows(block, (100, 20), at);
                let columns = block["column_settings"].as_array();
                self.items(columns, 20, &format!("{at}/column_settings"));
                for column in columns.into_iter().flatten() {
                    self.one_of(&column["align"], ALIGNS, &format!("{at}/column_settings"));
                }
            }
            "data_table" => {
                self.rows(block, (usize::MAX, usize::MAX), at);
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

    fn rows(&mut self, block: &Value, (most, wide): (usize, usize), at: &str) {
        let rows = self.need_array(block, "rows", most, at);
        for (n, row) in rows.into_iter().flatten().enumerate() {
            let at = format!("{at}/rows/{n}");
            let Some(cells) = row.as_array() else {
                self.problem("must be an array", &at);
                continue;
            };
            self.items(Some(cells), wide, &at);
            for (m, cell) in cells.iter().enumerate() {
                let at = format!("{at}/{m}/type");
                if cell["type"].is_null() {
                    self.problem("missing required field: type", &at);
                }
                self.one_of(&cell["type"], CELLS, &at);
            }
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
            json!({"type": "data_table", "rows": [[cell]], "caption": "Costs", "page_size": 10}),
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
}
