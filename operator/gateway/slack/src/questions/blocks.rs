//! Block Kit of messages that ask for a decision. Pure.

use codebutler_crds::thread::OfferKind;
use codebutler_slack_text::shown_text;
use serde_json::{Value, json};

use crate::questions::offer_view::OfferShown;
use crate::questions::{ButtonStyle, QuestionButton, choice, learnings};
use crate::text::split_text::split_text;

/// Limit of a section's text, in characters: Slack takes 3,000.
const SECTION: usize = 2900;
/// Limit of all blocks of a message, counted as JSON: Slack takes 13,200 characters, and some are for a note
/// under them.
const MESSAGE: usize = 12_600;
/// Share of these for a role's name, where the app may not show it as the sender.
const NAME: usize = 400;
/// Size in bytes below which a word that is cut off is left out; text without blanks is cut anywhere.
const WORD: usize = 40;
/// Limit of an offer's item whose whole text stands elsewhere, in characters.
const ITEM: usize = 1000;
/// Limit of the text of an edit: Slack takes 4,000 characters; fewer, as it may count what is escaped.
const EDIT: usize = 3900;

/// Blocks of a text with the buttons under it, if there are any. `key` is the message's own.
pub(crate) fn question_blocks(
    text: &str,
    block_id: &str,
    buttons: &[QuestionButton],
    key: &str,
) -> Value {
    add_buttons(text_sections(text), block_id, buttons, key)
}

/// Puts buttons under what is shown, if there are any.
pub(crate) fn add_buttons(
    mut shown: Vec<Value>,
    block_id: &str,
    buttons: &[QuestionButton],
    key: &str,
) -> Value {
    if !buttons.is_empty() {
        shown.push(action_block(block_id, buttons, key));
    }
    Value::Array(shown)
}

/// Blocks under the text of an offer, with at most `most` characters of each item.
fn of_offer(offer: &OfferShown, most: usize, key: &str) -> Vec<Value> {
    let numbered = || offer.items.iter().zip(1..);
    if offer.kind == OfferKind::Choice {
        let buttons: Vec<QuestionButton> =
            numbered().map(|(label, item)| choice::choice_button(item, label)).collect();
        return vec![action_block("choice", &buttons, key)];
    }
    let of_item = |(text, item): (&String, u32)| {
        let mut blocks = text_sections(&format!("{item}. {}", shorten_item(text, most)));
        let id = learnings::block_id(item);
        let buttons = learnings::learning_buttons(item, offer.optional);
        blocks.push(action_block(&id, &buttons, key));
        blocks
    };
    let mut blocks: Vec<Value> = numbered().flat_map(of_item).collect();
    if offer.items.len() > 1 {
        let id = learnings::block_id(learnings::ALL);
        blocks.push(action_block(&id, &[learnings::reject_all()], key));
    }
    blocks
}

pub(crate) fn action_block(block_id: &str, buttons: &[QuestionButton], key: &str) -> Value {
    let elements: Vec<Value> = buttons.iter().map(|one| button_element(one, key)).collect();
    json!({"type": "actions", "block_id": block_id, "elements": elements})
}

fn button_element(button: &QuestionButton, key: &str) -> Value {
    let mut element = json!({
        "type": "button", "action_id": button.action_id, "value": key,
        "text": {"type": "plain_text", "text": button.label},
    });
    match button.style {
        ButtonStyle::Plain => {}
        ButtonStyle::Primary => element["style"] = json!("primary"),
        ButtonStyle::Danger => element["style"] = json!("danger"),
    }
    element
}

/// Adds a line under the blocks, or else under the text.
pub(crate) fn add_note(blocks: Value, text: &str, note: &str) -> Value {
    let mut blocks = match blocks {
        Value::Array(blocks) => blocks,
        _ => text_sections(text),
    };
    let buttons = blocks.iter().position(|block| block["type"] == "actions");
    let note = json!({"type": "context", "elements": [{"type": "mrkdwn", "text": note}]});
    blocks.insert(buttons.unwrap_or(blocks.len()), note);
    Value::Array(blocks)
}

/// Sections of a text that is shown above buttons: all of it, since people approve what they see.
pub(crate) fn text_sections(text: &str) -> Vec<Value> {
    let section =
        |part| json!({"type": "section", "expand": true, "text": {"type": "mrkdwn", "text": part}});
    split_text(text, SECTION).into_iter().map(section).collect()
}

/// The text beside a message's blocks as an edit may carry it. It was posted in full, and Slack
/// takes less in an edit: the end is left out, which the blocks say.
pub(crate) fn fallback_text(text: &str) -> String {
    if text.chars().count() <= EDIT {
        return text.to_owned();
    }
    let end = text.char_indices().nth(EDIT - 1).map_or(text.len(), |(at, _)| at);
    let head = &text[..end];
    // A mention or a link that is cut in two would be shown as it is written.
    let cut = head.rfind(char::is_whitespace).unwrap_or(end);
    format!("{}…", &head[..cut])
}

/// A text that is too long for an edit, as blocks with the text beside them: as many of its lines as a message takes.
pub(crate) fn long_message(text: &str) -> Option<(String, Value)> {
    if text.chars().count() <= EDIT {
        return None;
    }
    let lines: Vec<&str> = text.lines().collect();
    let ends = lines.iter().scan(0_usize, |end, line| {
        *end += line.chars().count() + 1;
        Some(*end)
    });
    // No more can fit than have so many characters.
    let mut kept = ends.take_while(|end| *end <= MESSAGE).count().max(1);
    loop {
        let rest = match lines.len() - kept {
            0 => String::new(),
            1 => "\n… and 1 more line".to_owned(),
            left => format!("\n… and {left} more lines"),
        };
        let shown = format!("{}{rest}", lines[..kept].join("\n"));
        let blocks = Value::Array(text_sections(&shown));
        if kept <= 1 || size_in_json(&blocks) <= MESSAGE {
            return Some((fallback_text(text), blocks));
        }
        kept -= 1;
    }
}

/// Puts a line in place of the buttons; `None` if there are no buttons.
pub(crate) fn settle_blocks(blocks: &Value, told: &str) -> Option<Value> {
    let is_actions = |block: &&Value| block["type"] == "actions";
    let blocks = blocks.as_array()?;
    blocks.iter().find(is_actions)?;
    let mut kept: Vec<Value> = blocks.iter().filter(|b| !is_actions(b)).cloned().collect();
    kept.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": told}]}));
    Some(Value::Array(kept))
}

/// The same blocks with text in the place of tables, for a workspace that refuses them; `None` if there are none.
pub(crate) fn without_tables(blocks: &Value) -> Option<Value> {
    let is_table = |block: &&Value| block["type"] == "table";
    let blocks = blocks.as_array()?;
    blocks.iter().find(is_table)?;
    let plain = |block: &Value| {
        if !is_table(&block) {
            return vec![block.clone()];
        }
        text_sections(&shown_text(&Value::Array(vec![block.clone()])))
    };
    Some(Value::Array(blocks.iter().flat_map(plain).collect()))
}

/// Puts a line in place of one block with buttons; `None` if it is not there.
pub(crate) fn settled_part(blocks: &Value, block_id: &str, told: &str) -> Option<Value> {
    let mut blocks = blocks.as_array()?.clone();
    let is_it = |block: &&mut Value| block["type"] == "actions" && block["block_id"] == block_id;
    let block = blocks.iter_mut().find(is_it)?;
    *block = json!({"type": "context", "elements": [{"type": "mrkdwn", "text": told}]});
    Some(Value::Array(blocks))
}

/// Label of the button with an `action_id` in these blocks.
pub(crate) fn button_label<'a>(blocks: &'a Value, action_id: &str) -> Option<&'a str> {
    let elements = blocks.as_array()?.iter().filter_map(|block| block["elements"].as_array());
    let mut buttons = elements.flatten();
    buttons.find(|button| button["action_id"] == action_id)?["text"]["text"].as_str()
}

/// Blocks of a text with an offer's buttons under it. Items of a long offer are shortened: see
/// [`is_long_offer`].
pub(crate) fn offer_blocks(text: &str, offer: &OfferShown, key: &str) -> Value {
    let shown = |most| {
        let blocks = text_sections(text).into_iter().chain(of_offer(offer, most, key));
        Value::Array(blocks.collect())
    };
    let whole = shown(usize::MAX);
    if size_in_json(&whole) <= MESSAGE {
        return whole;
    }
    let mut most = ITEM;
    loop {
        let blocks = shown(most);
        if most < 20 || size_in_json(&blocks) <= MESSAGE {
            return blocks;
        }
        most /= 2;
    }
}

/// True if items would have to be shortened under this text: the whole text of all of them belongs into the message
/// then.
pub(crate) fn is_long_offer(text: &str, offer: &OfferShown, key: &str) -> bool {
    let blocks = text_sections(text).into_iter().chain(of_offer(offer, usize::MAX, key));
    size_in_json(&Value::Array(blocks.collect())) > MESSAGE - NAME
}

fn size_in_json(blocks: &Value) -> usize {
    blocks.to_string().chars().count()
}

fn shorten_item(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else { return text.to_owned() };
    let head = &text[..end];
    // A link that is cut in two would be shown as it is written, and so would half of an escaped character.
    let open = |begin, close| head.rfind(begin).filter(|at| !head[*at..].contains(close));
    let cut = open('<', '>').or_else(|| open('&', ';')).unwrap_or(end);
    let blank = head[..cut].rfind(char::is_whitespace).filter(|at| cut - at < WORD);
    format!("{} … (whole above)", head[..blank.unwrap_or(cut)].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::{merge, plan};

    #[test]
    fn a_text_of_many_lines_fits_into_one_message_that_can_be_edited() {
        assert_eq!(long_message(&"x".repeat(EDIT)), None);
        for count in [120, 400, 40_000] {
            let lines: Vec<String> =
                (1..=count).map(|n| format!("{n}. \"quoted\" {}", "word ".repeat(6))).collect();
            let (text, blocks) = long_message(&lines.join("\n")).unwrap();
            assert!(text.chars().count() <= EDIT && text.ends_with('…'), "{text}");
            assert!(size_in_json(&blocks) <= MESSAGE, "{count}");
            let shown = shown_text(&blocks);
            assert_eq!(shown.contains("more lines"), count > 120, "{shown}");
            assert!(shown.contains(lines[110].trim_end()), "{shown}");
        }
    }

    #[test]
    fn an_offer_of_long_items_fits_into_a_message_and_says_where_the_rest_is() {
        let offer = |length: usize| OfferShown {
            kind: OfferKind::Learnings,
            items: vec!["word ".repeat(length / 5); 10],
            optional: false,
        };
        let text = "x".repeat(3900);
        assert!(!is_long_offer(&text, &offer(100), "key"));
        assert!(is_long_offer(&text, &offer(1400), "key"));
        // Whatever is shortened was found to be long, with quotes and whoever's name above, too.
        for length in (100..1400).step_by(5) {
            for text in ["Which?", &text, &"\"quoted\"\n".repeat(390)] {
                let named = format!("*{}*\n{text}", "n".repeat(80));
                let cut = offer_blocks(&named, &offer(length), "run-12345.1.2").to_string();
                let is_long = is_long_offer(text, &offer(length), "run-12345.1.2");
                assert!(is_long || !cut.contains("whole above"), "{length} {}", text.len());
            }
        }
        let without_blanks = shorten_item(&"語".repeat(500), 100);
        assert_eq!(without_blanks, format!("{} … (whole above)", "語".repeat(100)));
        let linked = format!("see {}<https://example.org|the page> there", "a ".repeat(40));
        assert!(!shorten_item(&linked, 100).contains('<'), "{}", shorten_item(&linked, 100));
        let blocks = offer_blocks(&"x".repeat(3900), &offer(1400), "key");
        assert!(blocks.to_string().chars().count() <= 13_200);
        let items: Vec<&Value> = blocks.as_array().unwrap().iter().collect();
        let texts = items.iter().filter_map(|block| block["text"]["text"].as_str());
        assert_eq!(texts.filter(|text| text.ends_with("… (whole above)")).count(), 10);
        let buttons = items.iter().filter(|block| block["type"] == "actions").count();
        assert_eq!(buttons, 11, "each can be decided on, and all");
        let short = offer_blocks("Text", &offer(100), "key").to_string();
        assert!(!short.contains("whole above"));
    }

    #[test]
    fn a_plan_has_three_buttons_and_an_answer_in_their_place() {
        let asking = question_blocks("*Plan*", "plan", &plan::BUTTONS, "run-1");
        let ids: Vec<_> = asking[1]["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| (b["action_id"].as_str().unwrap(), b["value"].as_str().unwrap()))
            .collect();
        assert_eq!(
            ids,
            [("plan:approve", "run-1"), ("plan:modify", "run-1"), ("plan:reject", "run-1")]
        );
        let after = settle_blocks(&asking, "Approved by <@U1>").unwrap();
        assert_eq!(after[1]["elements"][0]["text"], "Approved by <@U1>");
        assert_eq!(settle_blocks(&after, "Approved by <@U2>"), None);
    }

    #[test]
    fn a_note_stands_between_text_and_buttons() {
        let types = |blocks: &Value| -> Vec<String> {
            let blocks = blocks.as_array().unwrap().iter();
            blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect()
        };
        let plain = add_note(Value::Null, "Done", "checked");
        assert_eq!(types(&plain), ["section", "context"]);
        assert_eq!(plain[1]["elements"][0]["text"], "checked");
        let asking =
            add_note(question_blocks("Done", "merge", &merge::BUTTONS, "k"), "Done", "checked");
        assert_eq!(types(&asking), ["section", "context", "actions"]);
    }

    #[test]
    fn a_table_that_is_refused_becomes_text_above_its_buttons() {
        let cell = |text: &str| json!({"type": "raw_text", "text": text});
        let table =
            json!({"type": "table", "rows": [[cell("a"), cell("b")], [cell("<1"), cell("2")]]});
        let asking = add_buttons(vec![table], "merge", &merge::BUTTONS, "k");
        let plain = without_tables(&asking).unwrap();
        assert_eq!(plain[0]["text"]["text"], "a | b\n&lt;1 | 2");
        assert_eq!(plain[1], asking[1]);
        assert_eq!(without_tables(&plain), None);
    }

    #[test]
    fn a_long_text_is_several_sections() {
        let asking = question_blocks(&"word ".repeat(700), "merge", &merge::BUTTONS, "k");
        assert_eq!(asking.as_array().unwrap().len(), 3);
    }
}
