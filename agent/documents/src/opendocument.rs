//! ODT and ODP: headings, lists, tables, notes and comments of `content.xml`, slides with their notes.

use std::fmt::Write as _;

use roxmltree::Node;

use super::kind::DocumentKind;
use super::package::Package;
use super::sink::{TextSink, one_line, table_cell, table_row};
use super::word::{hand_out_picture, name_pictures};
use super::xml::{self, Element, MAX_DEPTH};
use super::{DocumentContent, DocumentError};

/// Most cells that repeat one.
const MAX_REPEATED: usize = 64;

/// Reads it, or a picture of it.
pub(crate) fn read_open_document(
    kind: DocumentKind,
    bytes: Vec<u8>,
    part: Option<&str>,
) -> Result<DocumentContent, DocumentError> {
    let mut package = Package::open(bytes)?;
    // A locked one says so beside the parts that it has made unreadable.
    if package
        .text("META-INF/manifest.xml")?
        .is_some_and(|manifest| manifest.contains("encryption-data"))
    {
        return Err(DocumentError::Locked);
    }
    let text = package.text("content.xml")?;
    let text = text.ok_or_else(|| DocumentError::Damaged("its content is missing".to_owned()))?;
    let document = xml::parse(&text)?;
    let pictures = list_pictures(document.root_element());
    if let Some(part) = part {
        let targets = pictures.into_iter().map(|(target, _)| target).collect();
        return hand_out_picture(&mut package, targets, part);
    }
    let mut sink = TextSink::default();
    let mut reader =
        FlowReader { sink: &mut sink, slides: 0, numbered: kind == DocumentKind::OpenSlides };
    if let Some(body) = document.root_element().child("body") {
        reader.read_blocks(body, 0, 0);
    }
    if let Some(text) = package.text("styles.xml")? {
        let document = xml::parse(&text)?;
        for (name, title) in [("header", "Headers"), ("footer", "Footers")] {
            let found =
                document.root_element().descendants().filter(|node| node.has_tag_name_local(name));
            let mut texts: Vec<String> = found.map(|node| flat_text(node, 0)).collect();
            texts.retain(|text| !text.is_empty());
            texts.dedup();
            if !texts.is_empty() {
                sink.begin(title);
                sink.line(&texts.join("\n"));
            }
        }
    }
    let mut notes = Vec::new();
    if sink.is_blank() {
        if pictures.is_empty() {
            return Err(DocumentError::NoText("it is empty".to_owned()));
        }
        notes.push("no text was found: it holds pictures only; Read them one by one".to_owned());
    }
    Ok(sink.finish(notes, name_pictures(&pictures)))
}

fn list_pictures(root: Node<'_, '_>) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for node in root.descendants().filter(|node| node.has_tag_name_local("image")) {
        let Some(target) = node.attribute_local("href").map(|href| href.trim_start_matches("./"))
        else {
            continue;
        };
        if !target.contains("://") && !found.iter().any(|(known, _)| known == target) {
            let about = node
                .parent()
                .and_then(|frame| frame.child("desc").or_else(|| frame.child("title")));
            let about = about.and_then(|node| node.text()).unwrap_or_default();
            found.push((target.to_owned(), about.to_owned()));
        }
    }
    found
}

struct FlowReader<'r> {
    sink: &'r mut TextSink,
    slides: usize,
    numbered: bool,
}

impl FlowReader<'_> {
    fn read_blocks(&mut self, node: Node<'_, '_>, level: usize, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for child in node.children().filter(Node::is_element) {
            if self.sink.is_full() {
                return;
            }
            match child.local() {
                "h" => {
                    let outline = child
                        .attribute_local("outline-level")
                        .and_then(|level| level.parse::<usize>().ok());
                    let mark = "#".repeat(outline.unwrap_or(1).clamp(1, 9));
                    self.sink.line(&format!("{mark} {}", inline_text(child, 0)));
                }
                "p" => {
                    let text = inline_text(child, 0);
                    let mark = if level > 0 && !text.trim().is_empty() {
                        "  ".repeat(level - 1) + "- "
                    } else {
                        String::new()
                    };
                    self.sink.line(&format!("{mark}{text}"));
                    self.read_frames(child, depth);
                }
                "list" => self.read_blocks(child, (level + 1).min(9), depth + 1),
                "table" => self.read_table(child),
                "page" if self.numbered => {
                    self.slides += 1;
                    let name = child.attribute_local("name").unwrap_or_default();
                    self.sink.begin(&format!("Slide {} {name}", self.slides));
                    self.read_blocks(child, 0, depth + 1);
                }
                "notes" => {
                    let text = flat_text(child, 0);
                    if !text.is_empty() {
                        self.sink.line(&format!("Notes: {text}"));
                    }
                }
                "tracked-changes" | "forms" | "sequence-decls" => {}
                _ => self.read_blocks(child, level, depth + 1),
            }
        }
    }

    /// Text boxes that are anchored in a paragraph.
    fn read_frames(&mut self, paragraph: Node<'_, '_>, depth: usize) {
        for node in paragraph.descendants().filter(|node| node.has_tag_name_local("text-box")) {
            if depth < MAX_DEPTH {
                self.sink.line(&format!("[text box: {}]", flat_text(node, 0)));
            }
        }
    }

    fn read_table(&mut self, table: Node<'_, '_>) {
        let rows: Vec<_> =
            table.descendants().filter(|node| node.has_tag_name_local("table-row")).collect();
        for (number, row) in rows.iter().enumerate() {
            let mut cells = Vec::new();
            for cell in row.children().filter(Node::is_element) {
                let text = match cell.local() {
                    "table-cell" => table_cell(&flat_text(cell, 0)),
                    "covered-table-cell" => "<".to_owned(),
                    _ => continue,
                };
                let times = cell
                    .attribute_local("number-columns-repeated")
                    .and_then(|n| n.parse::<usize>().ok());
                cells.extend(std::iter::repeat_n(text, times.unwrap_or(1).min(MAX_REPEATED)));
            }
            self.sink.line(&table_row(cells.iter().map(String::as_str)));
            if number == 0 && rows.len() > 1 {
                self.sink.line(&table_row(cells.iter().map(|_| "---")));
            }
        }
    }
}

/// Paragraphs below a node, on one line.
fn flat_text(node: Node<'_, '_>, depth: usize) -> String {
    let paragraphs = node.descendants().filter(|child| ["p", "h"].contains(&child.local()));
    let texts = paragraphs.map(|child| one_line(&inline_text(child, depth)));
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" / ")
}

/// The text of a paragraph, with notes and comments in brackets.
fn inline_text(node: Node<'_, '_>, depth: usize) -> String {
    let mut text = String::new();
    add_inline(node, &mut text, depth);
    text
}

fn add_inline(node: Node<'_, '_>, text: &mut String, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    for child in node.children() {
        if let Some(words) = child.text().filter(|_| child.is_text()) {
            // Runs of blanks are elements; what stands in the file is one.
            let blank = |c: char| c == '\n' || c == '\r' || c == '\t';
            text.push_str(&words.replace(blank, " "));
            continue;
        }
        match child.local() {
            "s" => {
                let count = child
                    .attribute_local("c")
                    .and_then(|count| count.parse::<usize>().ok())
                    .unwrap_or(1);
                text.push_str(&" ".repeat(count.min(200)));
            }
            "tab" => text.push('\t'),
            "line-break" => text.push('\n'),
            "note" => {
                let _ = write!(
                    text,
                    "[note: {}]",
                    child
                        .child("note-body")
                        .map(|body| flat_text(body, depth + 1))
                        .unwrap_or_default()
                );
            }
            "annotation" => {
                let by = child.child("creator").and_then(|node| node.text()).unwrap_or("unknown");
                let _ = write!(text, "[comment by {by}: {}]", flat_text(child, depth + 1));
            }
            "a" => {
                add_inline(child, text, depth + 1);
                if let Some(href) = child
                    .attribute_local("href")
                    .filter(|href| href.contains("://") && !text.ends_with(*href))
                {
                    let _ = write!(text, " ({href})");
                }
            }
            "image" => text.push_str("[picture]"),
            "text-box" | "" => {}
            _ => add_inline(child, text, depth + 1),
        }
    }
}
