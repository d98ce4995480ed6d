//! A notebook's JSON with the cells of an edited view: what did not change stays to the byte.

use std::collections::HashSet;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use super::super::lines::LinedText;
use super::super::pieces::align_pieces;
use super::cells::{CellSpan, GroupSpan, NotebookFault, NotebookText, SourceSpan};
use super::literal::{EscapeStyle, LiteralChar, split_literal, with_finite_numbers};
use super::view::{ViewCell, split_view};

/// A cell of the new notebook.
enum CellSlot<'a> {
    Kept(usize, &'a ViewCell),
    New(&'a ViewCell),
}

impl NotebookText {
    /// The file with an edited view.
    pub fn with_view(&self, view: &LinedText) -> Result<String, NotebookFault> {
        if self.is_ambiguous {
            return Err(NotebookFault(
                "has cells with lines that look like the headers of cells: change it with a program in Bash \
                 that knows notebooks"
                    .to_owned(),
            ));
        }
        let json = rewrite_notebook(self, &split_view(view)?)?;
        match Self::parse(&json) {
            Some(_) => Ok(json),
            None => Err(NotebookFault("would be no notebook any more after this edit".to_owned())),
        }
    }
}

fn rewrite_notebook(book: &NotebookText, view: &[ViewCell]) -> Result<String, NotebookFault> {
    let slots = find_slots(book, view)?;
    let style = JsonStyle::of(book);
    let groups = book.groups.len();
    let mut parts: Vec<Vec<&CellSlot<'_>>> = (0..groups).map(|_| Vec::new()).collect();
    let mut group = 0;
    for slot in &slots {
        if let CellSlot::Kept(at, _) = slot {
            group = book.groups.iter().position(|group| group.cells.contains(at)).unwrap_or(group);
        }
        if let Some(part) = parts.get_mut(group) {
            part.push(slot);
        }
    }
    let mut json = String::with_capacity(book.json.len() + 256);
    let mut from = 0;
    for (group, slots) in book.groups.iter().zip(&parts) {
        json.push_str(&book.json[from..group.array.start]);
        json.push_str(&rewrite_group(book, group, slots, &style)?);
        from = group.array.end;
    }
    json.push_str(&book.json[from..]);
    Ok(json)
}

/// Matches the cells of the view with those of the notebook.
fn find_slots<'a>(
    book: &NotebookText,
    view: &'a [ViewCell],
) -> Result<Vec<CellSlot<'a>>, NotebookFault> {
    let mut taken = HashSet::new();
    let mut slots = Vec::new();
    for cell in view {
        let at = cell.number.and_then(|number| number.checked_sub(1));
        let Some(at) = at.filter(|at| *at < book.cells.len()) else {
            slots.push(CellSlot::New(cell));
            continue;
        };
        if !taken.insert(at) {
            return Err(NotebookFault(format!(
                "would have two cells {}: the header of a new cell has no number, such as `# [code]`",
                at + 1
            )));
        }
        // A cell of another kind has other fields.
        slots.push(if book.cells[at].kind == cell.kind {
            CellSlot::Kept(at, cell)
        } else {
            CellSlot::New(cell)
        });
    }
    for gone in (0..book.cells.len()).filter(|at| !taken.contains(at)) {
        // A header that was overwritten would hand its cell's text to the cell before it.
        let before = slots.iter().find_map(|slot| match slot {
            CellSlot::Kept(at, cell) if *at + 1 == gone => Some(cell.text != book.cells[*at].text),
            _ => None,
        });
        if before == Some(true) {
            return Err(NotebookFault(format!(
                "would lose the header of cell {} while its text joins the cell before it: keep the line \
                 `# [{} {}]`, or remove the whole cell in a call of its own",
                gone + 1,
                book.cells[gone].kind,
                gone + 1
            )));
        }
    }
    Ok(slots)
}

fn rewrite_group(
    book: &NotebookText,
    group: &GroupSpan,
    slots: &[&CellSlot<'_>],
    style: &JsonStyle,
) -> Result<String, NotebookFault> {
    let kept = |slot: &&CellSlot<'_>| match slot {
        CellSlot::Kept(at, _) => Some(*at),
        CellSlot::New(_) => None,
    };
    let order: Vec<Option<usize>> = slots.iter().map(kept).collect();
    let texts = slots
        .iter()
        .enumerate()
        .map(|(place, slot)| match slot {
            CellSlot::Kept(at, cell) => rewrite_cell(book, &book.cells[*at], &cell.text, style),
            CellSlot::New(cell) => Ok(style.new_cell(book, cell, place)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let spans: Vec<(usize, Range<usize>)> =
        group.cells.clone().map(|at| (at, book.cells[at].whole.clone())).collect();
    Ok(join_elements(&book.json, &group.array, &spans, &order, &texts, &style.cells))
}

/// An array with other elements. Between those that stand side by side as before, it stays as it is.
fn join_elements(
    json: &str,
    array: &Range<usize>,
    old: &[(usize, Range<usize>)],
    order: &[Option<usize>],
    texts: &[String],
    between: &Between,
) -> String {
    let (Some((_, first)), Some((_, last))) = (old.first(), old.last()) else {
        return match texts {
            [] => json[array.clone()].to_owned(),
            texts => format!("[{}{}{}]", between.open, texts.join(&between.next), between.close),
        };
    };
    if texts.is_empty() {
        return "[]".to_owned();
    }
    let mut out = json[array.start..first.start].to_owned();
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            let side_by_side = order[at - 1].zip(order[at]).and_then(|(a, b)| {
                let a = old.iter().position(|(id, _)| *id == a)?;
                let next = old.get(a + 1).filter(|(id, _)| *id == b)?;
                Some(old[a].1.end..next.1.start)
            });
            let general = || old.windows(2).next().map(|two| two[0].1.end..two[1].1.start);
            if let Some(range) = side_by_side.or_else(general) {
                out.push_str(&json[range]);
            } else {
                // The array has one element: the next one begins as it does.
                out.push(',');
                let lead = &json[array.start + 1..first.start];
                out.push_str(if lead.is_empty() { &between.gap } else { lead });
            }
        }
        out.push_str(text);
    }
    out.push_str(&json[last.end..array.end]);
    out
}

fn rewrite_cell(
    book: &NotebookText,
    cell: &CellSpan,
    text: &str,
    style: &JsonStyle,
) -> Result<String, NotebookFault> {
    if text == cell.text {
        return Ok(book.json[cell.whole.clone()].to_owned());
    }
    let source = rewrite_source(&book.json, &cell.source, text, style)
        .ok_or_else(|| NotebookFault("has a cell whose source can't be read".to_owned()))?;
    let (start, end) = (cell.source.whole.start, cell.source.whole.end);
    let (before, after) = (&book.json[cell.whole.start..start], &book.json[end..cell.whole.end]);
    Ok(format!("{before}{source}{after}"))
}

/// The literal, or the list of them, of a source that changed.
fn rewrite_source(
    json: &str,
    source: &SourceSpan,
    text: &str,
    style: &JsonStyle,
) -> Option<String> {
    let literals: Vec<&str> = source.literals.iter().map(|range| &json[range.clone()]).collect();
    let mut old: Vec<Vec<LiteralChar<'_>>> = Vec::new();
    for literal in &literals {
        let found = split_literal(literal)?;
        if source.is_list {
            old.push(found);
        } else {
            let mut line = Vec::new();
            for one in found {
                let ends = one.character == '\n';
                line.push(one);
                if ends {
                    old.push(std::mem::take(&mut line));
                }
            }
            if !line.is_empty() {
                old.push(line);
            }
        }
    }
    let (lines, from) = align_lines(&old, text);
    let inner: Vec<String> = lines
        .iter()
        .zip(&from)
        .map(|(line, from)| match from {
            Some(at) => splice_literal(&old[*at], line, style.escapes),
            None => style.escapes.escape(line),
        })
        .collect();
    if !source.is_list {
        return Some(format!("\"{}\"", inner.concat()));
    }
    let quoted: Vec<String> = inner.iter().map(|line| format!("\"{line}\"")).collect();
    let spans: Vec<_> = source.literals.iter().cloned().enumerate().collect();
    Some(join_elements(json, &source.whole, &spans, &from, &quoted, &style.lines))
}

/// The lines of a new source, and which old piece each one is or replaces. Pieces at either end that are
/// whole in it stay, also those of several lines.
fn align_lines(old: &[Vec<LiteralChar<'_>>], text: &str) -> (Vec<String>, Vec<Option<usize>>) {
    let plain: Vec<String> =
        old.iter().map(|piece| piece.iter().map(|one| one.character).collect()).collect();
    let (mut head, mut rest) = (0, text);
    while let Some(behind) = plain
        .get(head)
        .filter(|piece| piece.ends_with('\n'))
        .and_then(|piece| rest.strip_prefix(piece.as_str()))
    {
        (head, rest) = (head + 1, behind);
    }
    let mut tail = plain.len();
    while tail > head
        && let Some(before) = rest.strip_suffix(plain[tail - 1].as_str())
        && (before.is_empty() || before.ends_with('\n'))
        && !plain[tail - 1].is_empty()
    {
        (tail, rest) = (tail - 1, before);
    }
    let middle: Vec<String> = rest.split_inclusive('\n').map(str::to_owned).collect();
    let aligned = align_pieces(&plain[head..tail], &middle);
    let mut lines = plain[..head].to_vec();
    let mut from: Vec<Option<usize>> = (0..head).map(Some).collect();
    lines.extend(middle);
    from.extend(aligned.into_iter().map(|at| at.map(|at| head + at)));
    lines.extend_from_slice(&plain[tail..]);
    from.extend((tail..plain.len()).map(Some));
    (lines, from)
}

/// A line that replaces another one: what both begin and end with stays as it was written.
fn splice_literal(old: &[LiteralChar<'_>], new: &str, escapes: EscapeStyle) -> String {
    let new: Vec<char> = new.chars().collect();
    let most = old.len().min(new.len());
    let head = old.iter().zip(&new).take_while(|(a, b)| a.character == **b).count();
    let ends = old.iter().rev().zip(new.iter().rev());
    let tail = ends.take_while(|(a, b)| a.character == **b).count().min(most - head);
    let middle: String = new[head..new.len() - tail].iter().collect();
    let raw = |part: &[LiteralChar<'_>]| part.iter().map(|one| one.raw).collect::<String>();
    raw(&old[..head]) + &escapes.escape(&middle) + &raw(&old[old.len() - tail..])
}

/// Separators around the elements of an array; used where an array has none of its own to go by.
struct Between {
    open: String,
    next: String,
    close: String,
    /// Space behind a comma.
    gap: String,
}

/// Layout of a notebook's JSON.
struct JsonStyle {
    escapes: EscapeStyle,
    cells: Between,
    lines: Between,
    /// Indentation of one level, or None for a file of one line.
    indent: Option<String>,
    line_end: &'static str,
    colon: &'static str,
}

impl JsonStyle {
    fn of(book: &NotebookText) -> Self {
        let json = &book.json;
        let line_end = if json.contains("\r\n") { "\r\n" } else { "\n" };
        let second = json.trim_start().split('\n').nth(1).filter(|line| !line.trim().is_empty());
        let indent = second.map(|line| line[..line.len() - line.trim_start().len()].to_owned());
        let is_wide = json.contains("\"cells\": ") || indent.is_some();
        let between = |depth: usize| {
            if let Some(indent) = &indent {
                let (inner, outer) = (indent.repeat(depth), indent.repeat(depth - 1));
                Between {
                    open: format!("{line_end}{inner}"),
                    next: format!(",{line_end}{inner}"),
                    close: format!("{line_end}{outer}"),
                    gap: format!("{line_end}{inner}"),
                }
            } else {
                let gap = if is_wide { " " } else { "" };
                let next = format!(",{gap}");
                Between { open: String::new(), next, close: String::new(), gap: gap.to_owned() }
            }
        };
        let escapes = EscapeStyle::of(json);
        // Worksheets are two levels deeper.
        let depth = if book.is_old { 4 } else { 2 };
        let (cells, lines) = (between(depth), between(depth + 2));
        let colon = if is_wide { ": " } else { ":" };
        Self { escapes, cells, lines, indent, line_end, colon }
    }

    /// The JSON of a cell that was not there.
    fn new_cell(&self, book: &NotebookText, cell: &ViewCell, place: usize) -> String {
        let is_old = book.is_old;
        let is_code = cell.kind == "code";
        let quoted: Vec<String> = cell
            .text
            .split_inclusive('\n')
            .map(|line| format!("\"{}\"", self.escapes.escape(line)))
            .collect();
        let Between { open, next, close, .. } = &self.lines;
        let source = match quoted.as_slice() {
            [] => "[]".to_owned(),
            lines => format!("[{open}{}{close}]", lines.join(next)),
        };
        let mut fields = vec![("cell_type", format!("\"{}\"", cell.kind))];
        match (is_code, is_old) {
            (true, true) => fields.push(("collapsed", "false".to_owned())),
            (true, false) => fields.push(("execution_count", "null".to_owned())),
            (false, _) => {}
        }
        if book.cells.iter().any(|cell| cell.id.is_some()) || has_ids(&book.json) {
            fields.push(("id", format!("\"{}\"", new_id(book, cell, place))));
        }
        if is_code && is_old {
            fields.push(("input", source.clone()));
            fields.push(("language", "\"python\"".to_owned()));
        }
        fields.push(("metadata", "{}".to_owned()));
        if is_code {
            fields.push(("outputs", "[]".to_owned()));
        }
        if !(is_code && is_old) {
            fields.push(("source", source));
        }
        let fields: Vec<String> = fields
            .into_iter()
            .map(|(key, value)| format!("\"{key}\"{}{value}", self.colon))
            .collect();
        match &self.indent {
            None => format!("{{{}}}", fields.join(&self.cells.next)),
            Some(indent) => {
                let base = self.cells.open.trim_start_matches(['\r', '\n']);
                let field = format!("{}{base}{indent}", self.line_end);
                format!("{{{field}{}{}{base}}}", fields.join(&format!(",{field}")), self.line_end)
            }
        }
    }
}

/// Notebooks of format 4.5 and later name their cells.
fn has_ids(json: &str) -> bool {
    let book: serde_json::Value =
        serde_json::from_str(&with_finite_numbers(json)).unwrap_or_default();
    book["nbformat"] == 4 && book["nbformat_minor"].as_u64().is_some_and(|minor| minor >= 5)
}

/// The same for the same edit, so that an edit can be carried out again.
fn new_id(book: &NotebookText, cell: &ViewCell, place: usize) -> String {
    let taken = |id: &str| book.cells.iter().any(|cell| cell.id.as_deref() == Some(id));
    let mut seed = format!("{}\n{}\n{place}\n{}", book.json, cell.kind, cell.text);
    loop {
        let id = hex::encode(&Sha256::digest(seed.as_bytes())[..4]);
        if !taken(&id) {
            return id;
        }
        seed.push('.');
    }
}
