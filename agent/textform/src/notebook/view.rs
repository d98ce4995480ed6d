//! The cells of an edited view.

use std::ops::Range;

use super::super::lines::LinedText;
use super::cells::{NotebookFault, header_of, is_output_mark};

/// A cell of the edited view.
#[derive(Clone, Debug)]
pub(super) struct ViewCell {
    pub(super) kind: String,
    pub(super) number: Option<usize>,
    pub(super) text: String,
}

/// The cells of a view, as far as they can be told apart.
pub(super) fn split_view(view: &LinedText) -> Result<Vec<ViewCell>, NotebookFault> {
    struct Open {
        kind: String,
        number: Option<usize>,
        body: Range<usize>,
        is_over: bool,
    }
    let mut cells: Vec<Open> = Vec::new();
    let mut at = 0;
    for line in view.text().split_inclusive('\n') {
        let end = at + line.len();
        match (header_of(line), cells.last_mut()) {
            (Some((kind, number)), _) => {
                cells.push(Open { kind: kind.to_owned(), number, body: end..end, is_over: false });
            }
            (None, Some(cell)) => {
                // The outputs that Read shows are no part of the cell.
                cell.is_over |= is_output_mark(line);
                if !cell.is_over {
                    cell.body.end = end;
                }
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => {
                return Err(NotebookFault(
                    "has text before its first cell after this edit: a cell begins with a line `# [code]` or \
                     `# [markdown]`"
                        .to_owned(),
                ));
            }
        }
        at = end;
    }
    let last = cells.len();
    let cell = |(at, cell): (usize, Open)| {
        let text = &view.text()[cell.body.clone()];
        let bare = match text.strip_suffix('\n') {
            // An empty line separates two cells.
            Some(rest) if at + 1 < last => rest.strip_suffix('\n').unwrap_or(rest),
            Some(rest) => rest,
            None => text,
        };
        let range = cell.body.start..cell.body.start + bare.len();
        ViewCell { kind: cell.kind, number: cell.number, text: view.raw_part(range) }
    };
    Ok(cells.into_iter().enumerate().map(cell).collect())
}
