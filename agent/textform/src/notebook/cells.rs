//! The cells of a notebook, with their places in its JSON, and the text in which they are edited.

use std::ops::Range;
use std::path::Path;

use jsonc_parser::ast::{Array, Object, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::super::lines::LinedText;
use super::literal::{read_literal, with_finite_numbers};
use super::outputs::{CellOutput, read_outputs};

/// An edit of a notebook can't be carried out, or a text is no notebook; says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotebookFault(pub(crate) String);

/// A notebook's JSON, with its cells and the view in which they are edited.
#[derive(Clone, Debug)]
pub struct NotebookText {
    pub(super) json: String,
    pub(super) cells: Vec<CellSpan>,
    pub(super) groups: Vec<GroupSpan>,
    view: String,
    /// True if the cells are in worksheets, as before version 4 of the format.
    pub(super) is_old: bool,
    /// Lines of sources look like headers.
    pub(super) is_ambiguous: bool,
}

/// A cell, with its place in the JSON.
#[derive(Clone, Debug)]
pub(super) struct CellSpan {
    pub(super) whole: Range<usize>,
    pub(super) kind: String,
    pub(super) id: Option<String>,
    pub(super) source: SourceSpan,
    pub(super) text: String,
}

#[derive(Clone, Debug)]
pub(super) struct SourceSpan {
    pub(super) whole: Range<usize>,
    pub(super) is_list: bool,
    /// Ranges of the string literals, with their quotes.
    pub(super) literals: Vec<Range<usize>>,
}

/// An array of cells: one, but for worksheets of old notebooks.
#[derive(Clone, Debug)]
pub(super) struct GroupSpan {
    pub(super) array: Range<usize>,
    pub(super) cells: Range<usize>,
}

/// Returns true if a file is a notebook by its name.
pub fn is_notebook_path(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

impl NotebookText {
    /// The notebook that a JSON text is, if it is one.
    pub fn parse(json: &str) -> Option<Self> {
        // Offsets in `finite` are the same in `json`.
        let finite = with_finite_numbers(json);
        let parsed = parse_to_ast(&finite, &CollectOptions::default(), &strict_options()).ok()?;
        let Some(Value::Object(root)) = parsed.value else { return None };
        let mut book = Self {
            json: json.to_owned(),
            cells: Vec::new(),
            groups: Vec::new(),
            view: String::new(),
            is_old: root.get_array("cells").is_none(),
            is_ambiguous: false,
        };
        if let Some(cells) = root.get_array("cells") {
            book.add_group(cells)?;
        } else {
            for sheet in &root.get_array("worksheets")?.elements {
                book.add_group(sheet.as_object()?.get_array("cells")?)?;
            }
        }
        let shown: Vec<String> =
            book.cells.iter().enumerate().map(|(at, cell)| cell.shown(at + 1)).collect();
        book.view = shown.join("\n");
        let headers =
            LinedText::split(&book.view).text().lines().filter(|line| is_mark(line)).count();
        book.is_ambiguous = headers != book.cells.len();
        Some(book)
    }

    fn add_group(&mut self, array: &Array<'_>) -> Option<()> {
        let first = self.cells.len();
        for cell in &array.elements {
            let found = CellSpan::read(cell.as_object()?, &self.json)?;
            self.cells.push(found);
        }
        let range = array.range;
        self.groups
            .push(GroupSpan { array: range.start..range.end, cells: first..self.cells.len() });
        Some(())
    }

    /// Headers and sources, as they are edited.
    pub fn view(&self) -> &str {
        &self.view
    }

    /// Outputs of the cells, each with the line of the view behind which it belongs.
    pub fn outputs(&self) -> Vec<CellOutput> {
        let mut line = 0;
        let last_lines = self.cells.iter().enumerate().map(|(at, cell)| {
            line += LinedText::split(&cell.shown(at + 1)).text().matches('\n').count();
            let last = line;
            // The empty line between two cells.
            line += 1;
            last
        });
        read_outputs(&self.json, last_lines.collect())
    }

    /// Returns true if a text is written as the view is, not as JSON.
    pub fn is_view(text: &str) -> bool {
        text.trim_start().lines().next().is_some_and(|line| header_of(line).is_some())
    }
}

fn strict_options() -> ParseOptions {
    ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

impl CellSpan {
    fn read(cell: &Object<'_>, json: &str) -> Option<Self> {
        let kind = cell.get_string("cell_type")?.value.to_string();
        // Code of notebooks before the fourth format.
        let key = if cell.get("source").is_none() { "input" } else { "source" };
        let value = &cell.get(key)?.value;
        let mut literals = Vec::new();
        let is_list = match value {
            Value::StringLit(text) => {
                literals.push(text.range.start..text.range.end);
                false
            }
            Value::Array(lines) => {
                for line in &lines.elements {
                    let line = line.as_string_lit()?;
                    literals.push(line.range.start..line.range.end);
                }
                true
            }
            _ => return None,
        };
        let text = literals.iter().map(|range| read_literal(&json[range.clone()]));
        let text = text.collect::<Option<String>>()?;
        let whole = value.range();
        let source = SourceSpan { whole: whole.start..whole.end, is_list, literals };
        let id = cell.get_string("id").map(|id| id.value.to_string());
        Some(Self { whole: cell.range.start..cell.range.end, kind, id, source, text })
    }

    fn shown(&self, number: usize) -> String {
        format!("# [{} {number}]\n{}\n", self.kind, self.text)
    }
}

/// The kind of cell and its number, if a line is a header.
pub(super) fn header_of(line: &str) -> Option<(&str, Option<usize>)> {
    let inner = line.trim_end().strip_prefix("# [")?.strip_suffix(']')?;
    let (kind, number) = match inner.split_once(' ') {
        Some((kind, number)) => (kind, Some(number.parse().ok()?)),
        None => (inner, None),
    };
    ["code", "markdown", "raw", "heading", "html"].contains(&kind).then_some((kind, number))
}

/// A header, or the mark behind which Read shows outputs.
pub(super) fn is_mark(line: &str) -> bool {
    header_of(line).is_some() || is_output_mark(line)
}

pub(super) fn is_output_mark(line: &str) -> bool {
    line.trim_end() == "# [output]"
}
