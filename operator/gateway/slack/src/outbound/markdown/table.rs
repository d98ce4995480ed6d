//! Tables, which Slack's markup doesn't have: columns where they are narrow enough for a phone,
//! else a list.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::inline::InlineLine;

/// Characters across that a phone shows without breaking lines.
const NARROW: usize = 44;

#[derive(Default)]
pub(super) struct MarkdownTable {
    /// Rows, the first of which is the head; cells are in Slack's markup.
    rows: Vec<Vec<String>>,
}

/// Reads the table whose start event was just taken.
pub(super) fn read_table<'a>(
    events: &mut impl Iterator<Item = (Event<'a>, Range<usize>)>,
) -> MarkdownTable {
    let mut table = MarkdownTable::default();
    let mut cell = InlineLine::default();
    for (event, _) in events {
        match event {
            Event::End(TagEnd::Table) => break,
            Event::Start(Tag::TableHead | Tag::TableRow) => table.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) | Event::End(TagEnd::TableHead | TagEnd::TableRow) => {}
            Event::End(TagEnd::TableCell) => {
                let text = cell.take().replace('\n', " ");
                if let Some(row) = table.rows.last_mut() {
                    row.push(text);
                }
            }
            Event::Start(tag) => cell.start(tag),
            Event::End(tag) => cell.stop(tag),
            event => cell.event(event),
        }
    }
    table
}

impl MarkdownTable {
    /// Renders a narrow table without markup as columns, any other one as a list.
    pub(super) fn render(&self) -> String {
        let widths = self.widths();
        let across = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if across <= NARROW && !self.has_markup() { self.columns(&widths) } else { self.list() }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| shown_width(cell)).max()
        };
        (0..columns).map(|column| width(column).unwrap_or(0)).collect()
    }

    /// True if a cell has links or bold, which don't work inside code.
    fn has_markup(&self) -> bool {
        self.rows.iter().flatten().any(|cell| cell.contains(['<', '*', '`', '~']))
    }

    fn columns(&self, widths: &[usize]) -> String {
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(widths);
            let line: Vec<String> = cells
                .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - shown_width(cell))))
                .collect();
            lines.push(line.join("  ").trim_end().to_owned());
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(rule.join("  "));
            }
        }
        format!("```\n{}\n```", lines.join("\n"))
    }

    /// Renders a line per row: its first cell, then the others behind their heads.
    fn list(&self) -> String {
        let Some((head, rows)) = self.rows.split_first() else { return String::new() };
        if rows.is_empty() {
            return head.join(" · ");
        }
        let lines = rows.iter().map(|row| {
            let named = row.iter().zip(head).skip(1).filter(|(cell, _)| !cell.is_empty());
            let others: Vec<String> = named
                .map(
                    |(cell, name)| {
                        if name.is_empty() { cell.clone() } else { format!("{name}: {cell}") }
                    },
                )
                .collect();
            let first = row.first().map_or("", String::as_str);
            match (first.is_empty(), others.is_empty()) {
                (true, _) => format!("• {}", others.join("; ")),
                (false, true) => format!("• {first}"),
                (false, false) => format!("• {first} — {}", others.join("; ")),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Width of a cell on the screen, in characters.
fn shown_width(cell: &str) -> usize {
    let entities: usize = ["&lt;", "&gt;"].iter().map(|e| 3 * cell.matches(e).count()).sum();
    cell.chars().count() - entities - 4 * cell.matches("&amp;").count()
}
