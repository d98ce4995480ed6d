//! PPTX: slides in their order, with tables, diagrams, speaker notes and comments.

use std::fmt::Write as _;

use roxmltree::Node;

use super::drawings::{CHART, COMMENTS, DIAGRAM, add_words};
use super::package::{Package, Relations, relations_of};
use super::sink::{TextSink, mark_exponent, one_line, table_cell, table_row};
use super::word::{hand_out_picture, name_pictures};
use super::xml::{self, Element, MAX_DEPTH};
use super::{DocumentContent, DocumentError};

/// Most slides that are read.
const MAX_SLIDES: usize = 5_000;

/// Reads it, or a picture of it.
pub(crate) fn read_slides(
    bytes: Vec<u8>,
    part: Option<&str>,
) -> Result<DocumentContent, DocumentError> {
    let mut package = Package::open(bytes)?;
    let main = package.main_part("ppt/presentation.xml")?;
    let relations = package.relations(&main)?;
    let Some(text) = package.text(&main)? else {
        return Err(DocumentError::Damaged("its main part is missing".to_owned()));
    };
    let targets = list_slides(&text, &relations)?;
    let total = targets.len();
    let mut pictures: Vec<(String, String)> = Vec::new();
    let (mut sink, mut hidden) = (TextSink::default(), Vec::new());
    for (index, target) in targets.iter().enumerate().take(MAX_SLIDES) {
        let number = index + 1;
        let Some(text) = package.text(target)? else { continue };
        let own = package.relations(target)?;
        let document = xml::parse(&text)?;
        let root = document.root_element();
        let is_hidden = matches!(root.attribute_local("show"), Some("0" | "false"));
        if is_hidden {
            hidden.push(number.to_string());
        }
        let mark = if is_hidden { ", hidden" } else { "" };
        sink.begin(&format!("Slide {number} of {total}{mark}"));
        let mut shapes = ShapeReader { sink: &mut sink, relations: &own, pictures: &mut pictures };
        shapes.read_shapes(root, 0);
        add_beside(&mut package, &mut sink, &own)?;
    }
    if let Some(part) = part {
        let targets = pictures.into_iter().map(|(target, _)| target).collect();
        return hand_out_picture(&mut package, targets, part);
    }
    let mut notes = Vec::new();
    if !hidden.is_empty() {
        notes.push(format!("slides that are hidden when it is shown: {}", hidden.join(", ")));
    }
    if sink.is_blank() {
        if pictures.is_empty() {
            return Err(DocumentError::NoText(format!("its {total} slides are empty")));
        }
        notes.push(format!(
            "no text was found: its {total} slides hold pictures only; Read them one by one"
        ));
    }
    Ok(sink.finish(notes, name_pictures(&pictures)))
}

/// The slides in the order in which they are shown.
fn list_slides(presentation: &str, relations: &Relations) -> Result<Vec<String>, DocumentError> {
    let document = xml::parse(presentation)?;
    let ids = document.root_element().descendants().filter(|node| node.has_tag_name_local("sldId"));
    let listed = ids
        .filter_map(|node| relations.get(node.relation_id()?))
        .map(|relation| relation.target.clone());
    let listed: Vec<String> = listed.collect();
    Ok(if listed.is_empty() { relations_of(relations, "slide") } else { listed })
}

struct ShapeReader<'r> {
    sink: &'r mut TextSink,
    relations: &'r Relations,
    pictures: &'r mut Vec<(String, String)>,
}

impl ShapeReader<'_> {
    fn read_shapes(&mut self, node: Node<'_, '_>, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for child in node.children().filter(Node::is_element) {
            match child.local() {
                "sp" => self.read_shape(child),
                "pic" => self.read_picture(child),
                "tbl" => self.read_table(child),
                "AlternateContent" => {
                    let chosen = child.child("Choice").or_else(|| child.child("Fallback"));
                    self.read_shapes(chosen.unwrap_or(child), depth + 1);
                }
                "relIds" | "chart" => self.mark_graphic(child),
                _ => self.read_shapes(child, depth + 1),
            }
        }
    }

    fn read_shape(&mut self, shape: Node<'_, '_>) {
        let place = shape.descendants().find(|node| node.has_tag_name_local("ph"));
        let kind = place.and_then(|node| node.attribute_local("type")).unwrap_or_default();
        let Some(body) = shape.child("txBody") else { return };
        for paragraph in body.children().filter(|node| node.has_tag_name_local("p")) {
            let text = paragraph_text(paragraph, self.relations);
            if text.trim().is_empty() {
                continue;
            }
            let level = paragraph
                .child("pPr")
                .and_then(|node| node.attribute_local("lvl")?.parse::<usize>().ok());
            let indent = "  ".repeat(level.unwrap_or(0).min(8));
            let mark = if matches!(kind, "title" | "ctrTitle") { "# " } else { "" };
            self.sink.line(&format!("{indent}{mark}{}", text.trim_end()));
        }
    }

    fn read_picture(&mut self, picture: Node<'_, '_>) {
        let about = picture.descendants().find(|node| node.has_tag_name_local("cNvPr"));
        let about = about.and_then(|node| node.attribute_local("descr")).unwrap_or_default();
        let blip = picture.descendants().find(|node| node.has_tag_name_local("blip"));
        let relation = blip.and_then(|node| self.relations.get(node.relation_id()?));
        let Some(relation) = relation.filter(|relation| !relation.external) else { return };
        let known = self.pictures.iter().position(|(target, _)| *target == relation.target);
        let index = known.unwrap_or_else(|| {
            self.pictures.push((relation.target.clone(), about.to_owned()));
            self.pictures.len() - 1
        });
        let about = if about.is_empty() { String::new() } else { format!(": {}", one_line(about)) };
        self.sink.line(&format!("[picture-{}{about}]", index + 1));
    }

    fn read_table(&mut self, table: Node<'_, '_>) {
        let rows: Vec<_> = table.children().filter(|node| node.has_tag_name_local("tr")).collect();
        for (number, row) in rows.iter().enumerate() {
            let cells: Vec<String> = row
                .children()
                .filter(|node| node.has_tag_name_local("tc"))
                .map(|cell| self.cell_text(cell))
                .collect();
            self.sink.line(&table_row(cells.iter().map(String::as_str)));
            if number == 0 && rows.len() > 1 {
                self.sink.line(&table_row(cells.iter().map(|_| "---")));
            }
        }
    }

    fn cell_text(&self, cell: Node<'_, '_>) -> String {
        if matches!(cell.attribute_local("hMerge"), Some("1" | "true")) {
            return "<".to_owned();
        }
        if matches!(cell.attribute_local("vMerge"), Some("1" | "true")) {
            return "^".to_owned();
        }
        let paragraphs = cell.descendants().filter(|node| node.has_tag_name_local("p"));
        let texts = paragraphs.map(|node| one_line(&paragraph_text(node, self.relations)));
        table_cell(&texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" / "))
    }

    /// A chart or diagram: its words are in a part of its own.
    fn mark_graphic(&mut self, node: Node<'_, '_>) {
        if node.has_tag_name_local("chart") && node.relation_id().is_some() {
            self.sink.line("[chart]");
        }
    }
}

/// The text of a paragraph, with the addresses of its links.
fn paragraph_text(paragraph: Node<'_, '_>, relations: &Relations) -> String {
    let mut text = String::new();
    for piece in paragraph.children().filter(Node::is_element) {
        match piece.local() {
            "r" | "fld" => {
                let start = text.len();
                text.push_str(piece.child("t").and_then(|node| node.text()).unwrap_or_default());
                let form = piece.child("rPr");
                let height = form.and_then(|node| node.attribute_local("baseline"));
                let height =
                    height.and_then(|value| value.trim_end_matches('%').parse::<i64>().ok());
                if height.is_some_and(|height| height > 0) {
                    mark_exponent(&mut text, start);
                }
                let link = form.and_then(|node| node.child("hlinkClick"));
                let target = link.and_then(|node| relations.get(node.relation_id()?));
                if let Some(target) =
                    target.filter(|target| target.external && !text.contains(&target.target))
                {
                    let _ = write!(text, " ({})", one_line(&target.target));
                }
            }
            "br" => text.push('\n'),
            "m" | "AlternateContent" => {
                let texts = piece.descendants().filter(|node| node.has_tag_name_local("t"));
                text.extend(texts.filter_map(|node| node.text()));
            }
            _ => {}
        }
    }
    text
}

/// Adds the parts that belong to a slide and stand beside it: words of diagrams and charts, speaker notes, comments.
fn add_beside(
    package: &mut Package,
    sink: &mut TextSink,
    relations: &Relations,
) -> Result<(), DocumentError> {
    for part in [DIAGRAM, CHART, COMMENTS] {
        add_words(package, sink, relations, part)?;
    }
    for target in relations_of(relations, "notesSlide") {
        let Some(text) = package.text(&target)? else { continue };
        let own = package.relations(&target)?;
        let document = xml::parse(&text)?;
        let shapes =
            document.root_element().descendants().filter(|node| node.has_tag_name_local("sp"));
        for shape in shapes {
            let place = shape.descendants().find(|node| node.has_tag_name_local("ph"));
            // The number of the slide and its date are no notes.
            if matches!(
                place.and_then(|node| node.attribute_local("type")),
                Some("sldNum" | "dt" | "hdr" | "ftr" | "sldImg")
            ) {
                continue;
            }
            let paragraphs = shape.descendants().filter(|node| node.has_tag_name_local("p"));
            let texts: Vec<String> = paragraphs
                .map(|node| paragraph_text(node, &own))
                .filter(|text| !text.trim().is_empty())
                .collect();
            if !texts.is_empty() {
                sink.line(&format!("Notes: {}", texts.join("\n")));
            }
        }
    }
    Ok(())
}
