//! The flow of a document: paragraphs, tables, and whatever wraps either.

use std::fmt::Write as _;

use roxmltree::Node;

use super::ParagraphStyles;
use super::numbering::Numbering;
use crate::package::Relations;
use crate::sink::{TextSink, mark_exponent, one_line, table_cell, table_row};
use crate::xml::{Element, MAX_DEPTH};

/// Most cells that one cell is as wide as.
const MAX_SPAN: usize = 64;

/// Reads one part of the document into a sink.
pub(super) struct BodyReader<'r> {
    sink: &'r mut TextSink,
    relations: &'r Relations,
    styles: &'r ParagraphStyles,
    numbering: Numbering,
    page: usize,
    changed: bool,
    hidden: bool,
}

/// A paragraph as it is put together.
#[derive(Default)]
struct ParagraphText {
    text: String,
    /// Instructions of fields are being passed over, so many levels deep: only results are text.
    fields: Vec<bool>,
    /// Text boxes that are anchored in it.
    boxes: Vec<String>,
    breaks: usize,
}

impl<'r> BodyReader<'r> {
    /// A reader of a part with these relations.
    pub(super) fn new(
        sink: &'r mut TextSink,
        relations: &'r Relations,
        styles: &'r ParagraphStyles,
        numbering: Numbering,
    ) -> Self {
        Self { sink, relations, styles, numbering, page: 1, changed: false, hidden: false }
    }

    /// Remarks on marks in the text.
    pub(super) fn describe_marks(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.changed {
            notes.push(
                "it has tracked changes: insertions are shown as text, deletions as [deleted: …]"
                    .to_owned(),
            );
        }
        if self.hidden {
            notes.push("hidden text is shown as [hidden: …]".to_owned());
        }
        notes
    }

    /// Reads all blocks below a node.
    pub(super) fn read_body(&mut self, root: Node<'_, '_>) {
        self.read_blocks(root, 0);
    }

    /// Footnotes or endnotes, each behind the mark that the body has for it.
    pub(super) fn read_notes(&mut self, root: Node<'_, '_>, end: bool) {
        for note in root.children().filter(Node::is_element) {
            // Separators are notes too, of a type of their own.
            if note.attribute_local("type").is_some_and(|kind| kind != "normal") {
                continue;
            }
            let id = note.attribute_local("id").unwrap_or_default();
            let text = self.flat_text(note, 0);
            self.sink.line(&format!("[^{}{id}] {text}", if end { "e" } else { "" }));
        }
    }

    /// Comments, with who made them.
    pub(super) fn read_comments(&mut self, root: Node<'_, '_>) {
        for comment in root.children().filter(|node| node.has_tag_name_local("comment")) {
            let id = comment.attribute_local("id").unwrap_or_default();
            let author = comment.attribute_local("author").unwrap_or("unknown");
            let date =
                comment.attribute_local("date").and_then(|date| date.get(..10)).unwrap_or_default();
            let text = self.flat_text(comment, 0);
            self.sink.line(&format!("[comment {id}] {} {date}: {text}", one_line(author)));
        }
    }

    fn read_blocks(&mut self, node: Node<'_, '_>, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for child in node.children().filter(Node::is_element) {
            if self.sink.is_full() {
                return;
            }
            match child.local() {
                "p" => self.read_paragraph(child, depth),
                "tbl" => self.read_table(child, depth),
                "AlternateContent" => self.read_blocks(chosen(child), depth + 1),
                "sectPr" | "sdtPr" | "pPr" | "tblPr" | "moveFrom" => {}
                _ => self.read_blocks(child, depth + 1),
            }
        }
    }

    fn read_paragraph(&mut self, node: Node<'_, '_>, depth: usize) {
        let mut words = ParagraphText::default();
        self.read_inline(node, &mut words, depth);
        let properties = node.child("pPr");
        let style = properties
            .and_then(|node| node.child("pStyle"))
            .and_then(|node| node.attribute_local("val"));
        let level = style.and_then(|style| self.styles.headings.get(style)).copied();
        let text = words.text.trim_end();
        let mark = self.mark_of(node, text);
        for _ in 0..words.breaks {
            self.page += 1;
            self.sink.begin(&format!("Page {} as Word last laid it out", self.page));
        }
        let heading =
            level.filter(|_| !text.trim().is_empty()).map(|level| "#".repeat(level) + " ");
        self.sink.line(&format!("{}{mark}{text}", heading.unwrap_or_default()));
        for text in words.boxes {
            self.sink.line(&format!("[text box: {text}]"));
        }
    }

    /// The mark of a paragraph of this text. Word counts an empty one, too, unless it is deleted, moved away or hidden.
    fn mark_of(&mut self, paragraph: Node<'_, '_>, text: &str) -> String {
        if !text.trim().is_empty() {
            return self.list_mark(paragraph);
        }
        let end = paragraph.child("pPr").and_then(|properties| properties.child("rPr"));
        let is_gone = |end: Node<'_, '_>| {
            ["del", "moveFrom"].iter().any(|name| end.child(name).is_some())
                || end.is_switched("vanish")
        };
        if !end.is_some_and(is_gone) {
            self.list_mark(paragraph);
        }
        String::new()
    }

    /// The mark of a paragraph in a list: by itself, or by its style.
    fn list_mark(&mut self, paragraph: Node<'_, '_>) -> String {
        let Some(properties) = paragraph.child("pPr") else { return String::new() };
        let value = |node: Node<'_, '_>, name: &str| {
            node.child(name).and_then(|child| child.attribute_local("val")).map(str::to_owned)
        };
        let of_style =
            value(properties, "pStyle").and_then(|style| self.styles.lists.get(&style).cloned());
        let own = properties.child("numPr");
        let level = own.and_then(|list| value(list, "ilvl")?.parse::<usize>().ok());
        let level = level.or(of_style.as_ref().map(|(_, level)| *level)).unwrap_or(0).min(8);
        let list = own.and_then(|list| value(list, "numId")).or(of_style.map(|(list, _)| list));
        match list.as_deref() {
            None | Some("0") => String::new(),
            Some(list) => {
                let mark = self.numbering.next_mark(list, level);
                format!("{}{mark} ", "  ".repeat(level))
            }
        }
    }

    /// A table's rows with bars. One in a cell becomes text of the cell.
    fn read_table(&mut self, table: Node<'_, '_>, depth: usize) {
        let rows = rows_of(table);
        for (number, row) in rows.iter().enumerate() {
            let mut cells = Vec::new();
            for cell in cells_of(*row) {
                let properties = cell.child("tcPr");
                let merged = properties.and_then(|node| node.child("vMerge"));
                let goes_on =
                    merged.is_some_and(|node| node.attribute_local("val") != Some("restart"));
                let text = if goes_on {
                    "^".to_owned()
                } else {
                    table_cell(&self.flat_text(cell, depth + 1))
                };
                cells.push(text);
                let span = properties
                    .and_then(|node| node.child("gridSpan"))
                    .and_then(|node| node.attribute_local("val")?.parse::<usize>().ok())
                    .unwrap_or(1);
                cells.extend((1..span.min(MAX_SPAN)).map(|_| "<".to_owned()));
            }
            self.sink.line(&table_row(cells.iter().map(String::as_str)));
            if number == 0 && rows.len() > 1 {
                self.sink.line(&table_row(cells.iter().map(|_| "---")));
            }
        }
    }

    /// Paragraphs and tables below a node, on one line.
    fn flat_text(&mut self, node: Node<'_, '_>, depth: usize) -> String {
        let mut parts = Vec::new();
        self.add_flat(node, depth, &mut parts);
        parts.join(" / ")
    }

    fn add_flat(&mut self, node: Node<'_, '_>, depth: usize, parts: &mut Vec<String>) {
        if depth > MAX_DEPTH {
            return;
        }
        for child in node.children().filter(Node::is_element) {
            match child.local() {
                "p" => {
                    let mut words = ParagraphText::default();
                    self.read_inline(child, &mut words, depth);
                    let mark = self.mark_of(child, &words.text);
                    let boxes = words.boxes.iter().map(|text| format!("[text box: {text}]"));
                    let all = std::iter::once(format!("{mark}{}", words.text)).chain(boxes);
                    parts.extend(all.map(|text| one_line(&text)).filter(|text| !text.is_empty()));
                }
                "tbl" => {
                    for row in rows_of(child) {
                        let cells: Vec<String> = cells_of(row)
                            .into_iter()
                            .map(|cell| self.flat_text(cell, depth + 1))
                            .collect();
                        parts.push(format!("[{}]", cells.join(", ")));
                    }
                }
                "AlternateContent" => self.add_flat(chosen(child), depth + 1, parts),
                "tcPr" | "pPr" | "sdtPr" | "moveFrom" => {}
                _ => self.add_flat(child, depth + 1, parts),
            }
        }
    }

    /// The content of a paragraph.
    fn read_inline(&mut self, node: Node<'_, '_>, words: &mut ParagraphText, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for child in node.children().filter(Node::is_element) {
            match child.local() {
                "r" => self.read_run(child, words, depth),
                "hyperlink" => self.read_link(child, words, depth),
                "del" => self.read_deleted(child, words),
                "ins" | "moveTo" => {
                    self.changed = true;
                    self.read_inline(child, words, depth + 1);
                }
                "oMath" => {
                    let texts = child.descendants().filter(|node| node.has_tag_name_local("t"));
                    words.text.extend(texts.filter_map(|node| node.text()));
                }
                "AlternateContent" => self.read_inline(chosen(child), words, depth + 1),
                "pPr" | "rPr" | "sdtPr" | "sdtEndPr" | "moveFrom" | "smartTagPr"
                | "customXmlPr" => {}
                _ => self.read_inline(child, words, depth + 1),
            }
        }
    }

    fn read_link(&mut self, node: Node<'_, '_>, words: &mut ParagraphText, depth: usize) {
        let start = words.text.len();
        self.read_inline(node, words, depth + 1);
        let target = node.relation_id().and_then(|id| self.relations.get(id));
        let Some(target) = target.filter(|target| target.external) else { return };
        if words
            .text
            .get(start..)
            .is_some_and(|shown| !shown.trim().is_empty() && shown.trim() != target.target)
        {
            let _ = write!(words.text, " ({})", one_line(&target.target));
        }
    }

    fn read_deleted(&mut self, node: Node<'_, '_>, words: &mut ParagraphText) {
        let texts = node.descendants().filter(|node| ["delText", "t"].contains(&node.local()));
        let text: String = texts.filter_map(|node| node.text()).collect();
        if !text.trim().is_empty() {
            self.changed = true;
            let _ = write!(words.text, "[deleted: {}]", one_line(&text));
        }
    }

    fn read_run(&mut self, run: Node<'_, '_>, words: &mut ParagraphText, depth: usize) {
        let form = run.child("rPr");
        let hidden = form.is_some_and(|node| node.is_switched("vanish"));
        let place = form.and_then(|node| node.child("vertAlign"));
        let start = words.text.len();
        for child in run.children().filter(Node::is_element) {
            self.read_piece(child, words, depth);
        }
        if place.and_then(|node| node.attribute_local("val")) == Some("superscript") {
            mark_exponent(&mut words.text, start);
        }
        if hidden && words.text.get(start..).is_some_and(|text| !text.trim().is_empty()) {
            self.hidden = true;
            words.text.insert_str(start, "[hidden: ");
            words.text.push(']');
        }
    }

    fn read_piece(&mut self, node: Node<'_, '_>, words: &mut ParagraphText, depth: usize) {
        let passed = words.fields.contains(&true);
        match node.local() {
            "fldChar" => match node.attribute_local("fldCharType") {
                Some("begin") => {
                    words.text.push_str(&form_value(node));
                    words.fields.push(true);
                }
                Some("separate") => {
                    if let Some(last) = words.fields.last_mut() {
                        *last = false;
                    }
                }
                _ => drop(words.fields.pop()),
            },
            _ if passed => {}
            "t" => words.text.push_str(node.text().unwrap_or_default()),
            "tab" | "ptab" => words.text.push('\t'),
            "lastRenderedPageBreak" => words.breaks += 1,
            "br" | "cr" => words.text.push('\n'),
            "noBreakHyphen" => words.text.push('-'),
            "sym" => {
                let code = node
                    .attribute_local("char")
                    .and_then(|code| u32::from_str_radix(code, 16).ok());
                // Symbol fonts live in the private area; what they draw is not known here.
                let shown = code
                    .and_then(char::from_u32)
                    .filter(|c| !('\u{e000}'..='\u{f8ff}').contains(c));
                words.text.push(shown.unwrap_or('\u{2022}'));
            }
            "footnoteReference" => {
                let _ = write!(words.text, "[^{}]", node.attribute_local("id").unwrap_or_default());
            }
            "endnoteReference" => {
                let _ =
                    write!(words.text, "[^e{}]", node.attribute_local("id").unwrap_or_default());
            }
            "commentReference" => {
                let _ = write!(
                    words.text,
                    "[comment {}]",
                    node.attribute_local("id").unwrap_or_default()
                );
            }
            "delText" => {
                self.changed = true;
                let _ = write!(words.text, "[deleted: {}]", node.text().unwrap_or_default());
            }
            "drawing" | "pict" | "object" => self.read_drawing(node, words, depth),
            "AlternateContent" => {
                for child in chosen(node).children().filter(Node::is_element) {
                    self.read_piece(child, words, depth + 1);
                }
            }
            "ruby" => {
                if let Some(base) = node.child("rubyBase") {
                    self.read_inline(base, words, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn read_drawing(&mut self, node: Node<'_, '_>, words: &mut ParagraphText, depth: usize) {
        let boxes: Vec<_> =
            node.descendants().filter(|node| node.has_tag_name_local("txbxContent")).collect();
        for content in boxes {
            // A choice for old readers says the same again.
            if content.ancestors().take(40).any(|node| node.has_tag_name_local("Fallback")) {
                continue;
            }
            let text = self.flat_text(content, depth + 1);
            if !text.is_empty() {
                words.boxes.push(text);
            }
        }
        for (name, mark) in [("chart", "[chart]"), ("relIds", "[diagram]")] {
            if node.descendants().any(|node| node.has_tag_name_local(name)) {
                words.text.push_str(mark);
            }
        }
        let pictures =
            node.descendants().filter(|node| ["blip", "imagedata"].contains(&node.local()));
        if pictures.filter(|node| node.relation_id().is_some()).count() > 0 {
            words.text.push_str("[picture]");
        }
    }
}

/// The value of a form's field that is no text: a box, or a choice.
fn form_value(field: Node<'_, '_>) -> String {
    let Some(form) = field.child("ffData") else { return String::new() };
    if let Some(ticked) = form.child("checkBox") {
        let decides = if ticked.child("checked").is_some() { "checked" } else { "default" };
        return if ticked.is_switched(decides) { "[x]" } else { "[ ]" }.to_owned();
    }
    let value = |node: Node<'_, '_>| node.attribute_local("val").map(str::to_owned);
    let choice = form.child("ddList").and_then(|list| {
        let index = list.child("result").or_else(|| list.child("default")).and_then(value);
        let index = index.and_then(|index| index.parse().ok()).unwrap_or(0);
        let mut entries = list.children().filter(|node| node.has_tag_name_local("listEntry"));
        entries.nth(index).and_then(value)
    });
    choice.unwrap_or_default()
}

/// The form to take where the same is written in several.
fn chosen<'a, 'input>(node: Node<'a, 'input>) -> Node<'a, 'input> {
    node.child("Choice").or_else(|| node.child("Fallback")).unwrap_or(node)
}

/// Rows of a table, also those in content controls and of tracked changes.
fn rows_of<'a, 'input>(table: Node<'a, 'input>) -> Vec<Node<'a, 'input>> {
    wrapped(table, "tr", 0)
}

fn cells_of<'a, 'input>(row: Node<'a, 'input>) -> Vec<Node<'a, 'input>> {
    wrapped(row, "tc", 0)
}

fn wrapped<'a, 'input>(node: Node<'a, 'input>, name: &str, depth: usize) -> Vec<Node<'a, 'input>> {
    let mut found = Vec::new();
    if depth > 8 {
        return found;
    }
    for child in node.children().filter(Node::is_element) {
        if child.has_tag_name_local(name) {
            found.push(child);
        } else if ["sdt", "sdtContent", "customXml", "ins", "bookmarkStart"]
            .contains(&child.local())
        {
            found.extend(wrapped(child, name, depth + 1));
        }
    }
    found
}
