//! A role's message as the parts in which it is posted: Slack takes one table in a message, and a part that shows
//! one holds the words around it, too. Pure.

use serde_json::Value;

use crate::questions::blocks;
use crate::text::markdown::RenderedTable;
use crate::text::split_text::split_text;

/// Placeholder for a table where only a message's mentions are read: those in cells do not count.
const TABLE: &str = "(table)";
/// Mark of a row of a table that is shown as a list.
const ITEM: &str = "• ";

/// One message of those in which a text is posted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessagePart {
    /// The whole, for notifications and for roles.
    pub text: String,
    /// The table in it that is shown as a block.
    pub table: Option<RenderedTable>,
}

impl MessagePart {
    fn has_room(&self, more: &str, limit: usize) -> bool {
        self.text.chars().count() + more.chars().count() <= limit
    }
}

/// Splits into parts of at most `limit` characters with at most one table each, which is not cut.
pub(crate) fn split_message(
    text: &str,
    tables: &[RenderedTable],
    limit: usize,
) -> Vec<MessagePart> {
    let mut parts = Vec::new();
    let mut current = MessagePart::default();
    let mut rest = text;
    for table in tables.iter().filter(|table| table.block.is_some()) {
        let Some((before, after)) = around(rest, table) else { continue };
        if table.text.chars().count() > limit {
            continue;
        }
        add_words(&mut parts, &mut current, before, limit);
        if current.table.is_some() {
            finish(&mut parts, &mut current, limit);
        } else if !current.has_room(&table.text, limit) {
            finish(&mut parts, &mut current, limit);
            // Words that lead to the table stay above it, if they are few.
            if parts.last().is_some_and(|last| last.table.is_none() && has_lead(last, table, limit))
            {
                current = parts.pop().unwrap_or_default();
                current.text.push('\n');
            }
        }
        current.text.push_str(&table.text);
        current.table = Some(table.clone());
        rest = after;
    }
    add_words(&mut parts, &mut current, rest, limit);
    finish(&mut parts, &mut current, limit);
    parts
}

fn has_lead(last: &MessagePart, table: &RenderedTable, limit: usize) -> bool {
    last.text.chars().count() + table.text.chars().count() < limit
}

fn add_words(parts: &mut Vec<MessagePart>, current: &mut MessagePart, words: &str, limit: usize) {
    if current.table.is_some() && !current.has_room(words, limit) {
        finish(parts, current, limit);
    }
    current.text.push_str(words);
}

fn finish(parts: &mut Vec<MessagePart>, current: &mut MessagePart, limit: usize) {
    let MessagePart { text, table } = std::mem::take(current);
    let text = text.trim_start_matches('\n').trim_end();
    if table.is_some() {
        parts.push(MessagePart { text: text.to_owned(), table });
    } else {
        let split = split_text(text, limit).into_iter();
        parts.extend(split.map(|text| MessagePart { text, table: None }));
    }
}

/// The text before and behind a table, which begins a line or follows the mention that begins the text.
fn around<'a>(text: &'a str, table: &RenderedTable) -> Option<(&'a str, &'a str)> {
    let split = |(at, _)| {
        let (before, found) = text.split_at(at);
        Some((before, found.strip_prefix(&*table.text)?))
    };
    text.match_indices(&*table.text).filter_map(split).find(|(before, after)| {
        let is_first = !before.contains('\n') && before.ends_with("> ");
        (before.is_empty() || before.ends_with('\n') || is_first)
            && (after.is_empty() || after.starts_with('\n'))
    })
}

/// The words of a part that may call roles.
pub(crate) fn calling_words(part: &str, tables: &[RenderedTable]) -> String {
    let mut words = part.to_owned();
    for table in tables.iter().filter(|table| !table.text.is_empty()) {
        let text = &table.text;
        if words.contains(text) {
            words = words.replacen(text, TABLE, 1);
        } else if text.starts_with(ITEM) {
            // It was cut: its rows are in several parts.
            let is_row =
                |line: &&str| line.starts_with(ITEM) && text.lines().any(|row| row == *line);
            let kept = words.lines().filter(|line| !is_row(line));
            words = kept.collect::<Vec<_>>().join("\n");
        }
    }
    words
}

/// Blocks of a text, all of it, with its table in place.
pub(crate) fn part_blocks(text: &str, table: &RenderedTable) -> Vec<Value> {
    let (Some(block), Some((before, after))) = (&table.block, around(text, table)) else {
        return blocks::text_sections(text);
    };
    let words = |text: &str| blocks::text_sections(text.trim_matches('\n'));
    words(before.trim_end()).into_iter().chain([block.clone()]).chain(words(after)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::markdown::render_whole;

    fn of(markdown: &str, limit: usize) -> Vec<MessagePart> {
        let rendered = render_whole(markdown);
        split_message(&rendered.text, &rendered.tables, limit)
    }

    const TABLE: &str = "| file | cost |\n|---|---:|\n| a.rs | 1 |\n";

    #[test]
    fn the_words_around_a_table_stay_around_it() {
        let parts = of(&format!("Before\n\n{TABLE}\nAfter"), 3900);
        let table = parts[0].table.clone().unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].text, format!("Before\n\n{}\n\nAfter", table.text));
        let blocks = part_blocks(&parts[0].text, &table);
        let kinds: Vec<&Value> = blocks.iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["section", "table", "section"]);
        assert_eq!(blocks[0]["text"]["text"], "Before");
        assert_eq!(blocks[2]["text"]["text"], "After");
        let alone = of(TABLE, 3900);
        assert_eq!(part_blocks(&alone[0].text, &table), [table.block.unwrap()]);
    }

    #[test]
    fn a_second_table_is_another_message_and_nothing_is_lost() {
        let other = TABLE.replace("a.rs", "b.rs");
        let parts = of(&format!("One\n\n{TABLE}\nTwo\n\n{other}\nEnd"), 3900);
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(parts.iter().all(|part| part.table.is_some()));
        assert!(parts[0].text.starts_with("One") && parts[0].text.ends_with("Two"));
        assert!(parts[1].text.ends_with("End"));
        // The same table twice, and with words that fill a message.
        for words in ["", "x ", &"word ".repeat(40), &"word ".repeat(300)] {
            let parts = of(&format!("{words}\n\n{TABLE}\n{words}\n\n{TABLE}\n{words}"), 200);
            assert_eq!(parts.iter().filter(|part| part.table.is_some()).count(), 2, "{parts:?}");
            assert!(parts.iter().all(|part| part.text.chars().count() <= 200), "{parts:?}");
            let all: String = parts.iter().map(|part| part.text.as_str()).collect();
            assert_eq!(all.matches("word").count(), 3 * words.matches("word").count());
        }
        assert_eq!(of("", 200), []);
        // Words that are like a table's text are none.
        let listed =
            "- [c](https://a.b) — b: d, and more\n\n| a | b |\n|---|---|\n| [c](https://a.b) | d |";
        let parts = of(listed, 3900);
        let blocks = part_blocks(&parts[0].text, parts[0].table.as_ref().unwrap());
        assert_eq!(blocks[0]["text"]["text"], "• <https://a.b|c> — b: d, and more");
        let called = part_blocks(
            &format!("<@U1> {}", parts[0].table.as_ref().unwrap().text),
            parts[0].table.as_ref().unwrap(),
        );
        assert_eq!(
            (&blocks[1]["type"], &called[0]["text"]["text"]),
            (&json!("table"), &json!("<@U1>"))
        );
    }

    #[test]
    fn cells_call_nobody() {
        let markdown = "Over to the table\n\n| who | what |\n|---|---|\n| @codebutler.coder | fixes it, \
                        which is a long sentence |\n\n@codebutler.reviewer look";
        let rendered = render_whole(markdown);
        let words = calling_words(&rendered.text, &rendered.tables);
        assert!(rendered.text.contains("@codebutler.coder"));
        assert!(!words.contains("coder") && words.ends_with("\n\n@codebutler.reviewer look"));
        // Nor where it was cut.
        let cut = rendered.text.replace("Over to the table\n\n", "• other\n");
        let tables =
            [RenderedTable { text: format!("{}\n• end", rendered.tables[0].text), block: None }];
        let words = calling_words(&cut, &tables);
        assert!(!words.contains("coder") && words.contains("• other"), "{words}");
        let block = json!({"type": "table"});
        let gone = RenderedTable { text: "not there".to_owned(), block: Some(block) };
        assert_eq!(part_blocks("words", &gone), blocks::text_sections("words"));
    }
}
