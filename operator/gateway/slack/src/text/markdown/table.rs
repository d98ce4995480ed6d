//! Tables. Slack's markup has none, so each becomes a block. Where no block can be shown, and in notifications, it is
//! text: columns where they are narrow enough for a phone, else a list.

use std::ops::Range;

use pulldown_cmark::{Alignment, Event, Tag, TagEnd};
use serde_json::{Value, json};

use super::cell::{CellWriter, RichCell};
use super::inline::InlineLine;

/// Characters across that a phone shows without breaking lines.
const NARROW: usize = 44;
/// Limits of a `table` block: rows with the head, cells of a row, and characters of all its cells, of which Slack
/// takes 10,000.
const ROWS: usize = 100;
const COLUMNS: usize = 20;
const CELLS: usize = 9500;
/// Limit of the text of a table that stands in one message, in characters.
const WHOLE: usize = 3400;
/// Length in characters beyond which the rest of a table goes into a file.
pub(super) const HUGE: usize = 12_000;

#[derive(Clone, Default)]
pub(super) struct MarkdownTable {
    /// Rows, the first of which is the head.
    rows: Vec<Vec<TableCell>>,
    alignments: Vec<Alignment>,
}

/// One cell, in both of its forms.
#[derive(Clone, Default)]
struct TableCell {
    /// The cell in Slack's markup.
    text: String,
    rich: RichCell,
}

/// Reads the table whose start event was just taken.
pub(super) fn read_table<'a>(
    events: &mut impl Iterator<Item = (Event<'a>, Range<usize>)>,
    alignments: Vec<Alignment>,
) -> MarkdownTable {
    let mut table = MarkdownTable { alignments, rows: Vec::new() };
    let (mut line, mut cell) = (InlineLine::default(), CellWriter::default());
    for (event, _) in events {
        match event {
            Event::End(TagEnd::Table) => break,
            Event::Start(Tag::TableHead | Tag::TableRow) => table.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) | Event::End(TagEnd::TableHead | TagEnd::TableRow) => {}
            Event::End(TagEnd::TableCell) => {
                let text = line.take().replace('\n', " ");
                if let Some(row) = table.rows.last_mut() {
                    row.push(TableCell { text, rich: cell.take() });
                }
            }
            Event::Start(tag) => {
                cell.start(&tag);
                line.start(tag);
            }
            Event::End(tag) => {
                cell.stop(tag);
                line.stop(tag);
            }
            event => {
                cell.event(&event);
                line.event(event);
            }
        }
    }
    table
}

impl MarkdownTable {
    /// Renders a narrow table as columns, any other one as a list, which keeps links and bold.
    pub(super) fn render(&self) -> String {
        let widths = self.widths();
        let across = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let fits = across <= NARROW && !self.has_labels();
        let text = if fits { self.columns(&widths) } else { self.list() };
        text.trim_end().to_owned()
    }

    /// Number of rows below the head.
    pub(super) fn count(&self) -> usize {
        self.rows.len().saturating_sub(1)
    }

    /// The same rows as tables that each fit into one message, all with the head.
    pub(super) fn in_pieces(&self) -> Vec<Self> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let piece = |rows: &[Vec<TableCell>]| {
            let rows = std::iter::once(head).chain(rows).cloned().collect();
            Self { rows, alignments: self.alignments.clone() }
        };
        let mut pieces = Vec::new();
        let mut rest = rows;
        while !rest.is_empty() {
            let most = rest.len().min(ROWS - 1);
            // Halved until it fits: a row alone stays whole, whatever its length.
            let mut count = most;
            while count > 1 && !piece(&rest[..count]).fits() {
                count = count.div_ceil(2);
            }
            pieces.push(piece(&rest[..count]));
            rest = &rest[count..];
        }
        if pieces.is_empty() { vec![self.clone()] } else { pieces }
    }

    fn fits(&self) -> bool {
        self.length() <= CELLS && self.render().chars().count() <= WHOLE
    }

    /// Characters of all cells together.
    fn length(&self) -> usize {
        self.rows.iter().flatten().map(|cell| cell.rich.length()).sum()
    }

    /// The `table` block; `None` beyond Slack's limits.
    pub(super) fn block(&self) -> Option<Value> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let fits = self.rows.len() <= ROWS
            && (1..=COLUMNS).contains(&columns)
            && self.rows.iter().all(|row| row.len() == columns)
            && self.fits();
        if !fits {
            return None;
        }
        let row = |(at, row): (usize, &Vec<TableCell>)| {
            row.iter().map(|cell| cell.rich.block(at == 0)).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<Value>> = self.rows.iter().enumerate().map(row).collect();
        let settings: Vec<Value> =
            (0..columns).map(|at| json!({"align": self.align(at), "is_wrapped": true})).collect();
        Some(json!({"type": "table", "rows": rows, "column_settings": settings}))
    }

    fn align(&self, column: usize) -> &'static str {
        match self.alignments.get(column) {
            Some(Alignment::Right) => "right",
            Some(Alignment::Center) => "center",
            _ => "left",
        }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| shown_width(&cell.rich.plain())).max()
        };
        (0..columns).map(|column| width(column).unwrap_or(0)).collect()
    }

    /// True if a cell has a link behind words: code has no links.
    fn has_labels(&self) -> bool {
        self.rows.iter().flatten().any(|cell| cell.rich.has_label())
    }

    fn columns(&self, widths: &[usize]) -> String {
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(widths).enumerate();
            let line: Vec<String> =
                cells.map(|(at, (cell, width))| self.pad(at, &cell.rich.plain(), *width)).collect();
            lines.push(line.join("  ").trim_end().to_owned());
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(rule.join("  "));
            }
        }
        format!("```\n{}\n```", lines.join("\n"))
    }

    fn pad(&self, column: usize, cell: &str, width: usize) -> String {
        let free = width.saturating_sub(shown_width(cell));
        let before = match self.align(column) {
            "right" => free,
            "center" => free / 2,
            _ => 0,
        };
        format!("{}{cell}{}", " ".repeat(before), " ".repeat(free - before))
    }

    /// Renders a line per row: its first cell, then the others behind their heads.
    fn list(&self) -> String {
        let Some((head, rows)) = self.rows.split_first() else { return String::new() };
        if rows.is_empty() {
            return head.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join(" · ");
        }
        let lines = rows.iter().map(|row| {
            let named = row.iter().zip(head).skip(1).filter(|(cell, _)| !cell.text.is_empty());
            let others: Vec<String> = named
                .map(
                    |(TableCell { text, .. }, TableCell { text: name, .. })| {
                        if name.is_empty() { text.clone() } else { format!("{name}: {text}") }
                    },
                )
                .collect();
            let first = row.first().map_or("", |cell| cell.text.as_str());
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
