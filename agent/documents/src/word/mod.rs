//! DOCX: the body with tables, links, changes and notes, then headers, footers, notes and comments.

mod body;
mod numbering;

use std::collections::HashMap;

use roxmltree::Node;

use self::body::BodyReader;
use self::numbering::Numbering;
use super::drawings::{CHART, DIAGRAM, add_words};
use super::package::{Package, Relations, relations_of};
use super::sink::{TextSink, one_line};
use super::xml::{self, Element};
use super::{DocumentContent, DocumentError, PartEntry, pick_picture};

/// Reads it, or a picture of it.
pub(crate) fn read_word(
    bytes: Vec<u8>,
    part: Option<&str>,
) -> Result<DocumentContent, DocumentError> {
    let mut package = Package::open(bytes)?;
    let main = package.main_part("word/document.xml")?;
    let relations = package.relations(&main)?;
    let Some(text) = package.text(&main)? else {
        return Err(DocumentError::Damaged("its main part is missing".to_owned()));
    };
    let document = xml::parse(&text)?;
    if let Some(part) = part {
        let targets = list_pictures(document.root_element(), &relations);
        return hand_out_picture(
            &mut package,
            targets.into_iter().map(|(target, _)| target).collect(),
            part,
        );
    }
    let styles = read_styles(&mut package, &relations)?;
    let numbering = match relations_of(&relations, "numbering").first() {
        Some(target) => {
            let text = package.text(target)?.unwrap_or_default();
            if text.is_empty() {
                Numbering::default()
            } else {
                Numbering::read(xml::parse(&text)?.root_element())
            }
        }
        None => Numbering::default(),
    };
    let mut sink = TextSink::default();
    let pictures = list_pictures(document.root_element(), &relations);
    let mut reader = BodyReader::new(&mut sink, &relations, &styles, numbering);
    reader.read_body(document.root_element());
    let mut notes = reader.describe_marks();
    if relations_of(&relations, "altChunk").len() + relations_of(&relations, "aFChunk").len() > 0 {
        notes.push("it includes another file whose text is not shown here".to_owned());
    }
    let mut drawn = TextSink::default();
    for part in [CHART, DIAGRAM] {
        add_words(&mut package, &mut drawn, &relations, part)?;
    }
    let drawn = drawn.into_text();
    if !drawn.is_empty() {
        sink.begin("Charts and diagrams");
        sink.line(drawn.trim_end());
    }
    for (kind, title) in [
        ("header", "Headers"),
        ("footer", "Footers"),
        ("footnotes", "Footnotes"),
        ("endnotes", "Endnotes"),
        ("comments", "Comments"),
    ] {
        add_beside(&mut package, &mut sink, &relations, &styles, (kind, title))?;
    }
    if sink.is_blank() {
        let why = match pictures.len() {
            0 => "it is empty".to_owned(),
            n => format!("it holds {n} pictures and no words; Read them one by one"),
        };
        if pictures.is_empty() {
            return Err(DocumentError::NoText(why));
        }
        notes.push(format!("no text was found: {why}"));
    }
    Ok(sink.finish(notes, name_pictures(&pictures)))
}

/// Entries for pictures: by number, with what the document calls them.
pub(crate) fn name_pictures(pictures: &[(String, String)]) -> Vec<PartEntry> {
    let named = pictures.iter().enumerate().map(|(index, (target, about))| {
        let file = target.rsplit('/').next().unwrap_or_default();
        let about = if about.is_empty() { file.to_owned() } else { format!("{file}: {about}") };
        PartEntry {
            name: format!("picture-{}", index + 1),
            about: one_line(&about).chars().take(120).collect(),
        }
    });
    named.collect()
}

/// The bytes of a picture of an Office document.
pub(crate) fn hand_out_picture(
    package: &mut Package,
    targets: Vec<String>,
    part: &str,
) -> Result<DocumentContent, DocumentError> {
    let target = pick_picture(targets, part)?;
    let bytes = package.part(&target)?.ok_or_else(|| DocumentError::NoPart(part.to_owned()))?;
    if bytes.len() > super::MAX_PART {
        return Err(DocumentError::TooLarge(format!("`{part}` in it has {} bytes", bytes.len())));
    }
    let name = target.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(DocumentContent::Part { name, bytes })
}

/// Pictures in the order in which they stand, each once, with their description.
fn list_pictures(root: Node<'_, '_>, relations: &Relations) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for node in root.descendants().filter(|node| ["blip", "imagedata"].contains(&node.local())) {
        let Some(relation) = node.relation_id().and_then(|id| relations.get(id)) else { continue };
        if relation.external || found.iter().any(|(target, _)| *target == relation.target) {
            continue;
        }
        let described = node.ancestors().take(12).find_map(|node| {
            node.child("docPr")
                .or_else(|| node.child("nvPicPr").and_then(|about| about.child("cNvPr")))
        });
        let about = described.and_then(|node| node.attribute_local("descr")).unwrap_or_default();
        found.push((relation.target.clone(), about.to_owned()));
    }
    found
}

/// Styles of paragraphs, by their ids.
#[derive(Debug, Default)]
pub(crate) struct ParagraphStyles {
    /// Heading level of each heading style.
    pub headings: HashMap<String, usize>,
    /// List and level of those that number their paragraphs.
    pub lists: HashMap<String, (String, usize)>,
}

/// Styles that one is based on, one behind the other.
const MAX_BASED: usize = 10;

fn read_styles(
    package: &mut Package,
    relations: &Relations,
) -> Result<ParagraphStyles, DocumentError> {
    let mut styles = ParagraphStyles::default();
    let Some(target) = relations_of(relations, "styles").into_iter().next() else {
        return Ok(styles);
    };
    let Some(text) = package.text(&target)? else { return Ok(styles) };
    let document = xml::parse(&text)?;
    let nodes = document.root_element().children().filter(|node| node.has_tag_name_local("style"));
    let mut bases: HashMap<String, String> = HashMap::new();
    for style in nodes {
        let Some(id) = style.attribute_local("styleId") else { continue };
        styles.headings.extend(heading_level(style).map(|level| (id.to_owned(), level)));
        let value = |node: Node<'_, '_>, name: &str| {
            node.child(name).and_then(|child| child.attribute_local("val")).map(str::to_owned)
        };
        if let Some(list) = style.child("pPr").and_then(|node| node.child("numPr")) {
            let level = value(list, "ilvl").and_then(|level| level.parse().ok()).unwrap_or(0);
            styles.lists.extend(value(list, "numId").map(|list| (id.to_owned(), (list, level))));
        }
        bases.extend(value(style, "basedOn").map(|base| (id.to_owned(), base)));
    }
    for (id, base) in &bases {
        let behind = std::iter::successors(Some(base), |style| bases.get(*style));
        let found = behind.take(MAX_BASED).find_map(|style| styles.lists.get(style)).cloned();
        if let Some(found) = found {
            styles.lists.entry(id.clone()).or_insert(found);
        }
    }
    Ok(styles)
}

fn heading_level(style: Node<'_, '_>) -> Option<usize> {
    let name = style.child("name").and_then(|node| node.attribute_local("val")).unwrap_or_default();
    let name = name.to_ascii_lowercase();
    if name == "title" {
        return Some(1);
    }
    let named = name.strip_prefix("heading ").and_then(|level| level.trim().parse::<usize>().ok());
    let outline = || {
        let level = style.child("pPr")?.child("outlineLvl")?.attribute_local("val")?;
        level.parse::<usize>().ok().map(|level| level + 1)
    };
    named.or_else(outline).filter(|level| (1..=9).contains(level))
}

/// Adds what stands beside the body.
fn add_beside(
    package: &mut Package,
    sink: &mut TextSink,
    relations: &Relations,
    styles: &ParagraphStyles,
    (kind, title): (&str, &str),
) -> Result<(), DocumentError> {
    let mut shown: Vec<String> = Vec::new();
    for target in relations_of(relations, kind) {
        let Some(text) = package.text(&target)? else { continue };
        let own = package.relations(&target)?;
        let document = xml::parse(&text)?;
        let mut inner = TextSink::default();
        let mut reader = BodyReader::new(&mut inner, &own, styles, Numbering::default());
        match kind {
            "footnotes" | "endnotes" => {
                reader.read_notes(document.root_element(), kind == "endnotes");
            }
            "comments" => reader.read_comments(document.root_element()),
            _ => reader.read_body(document.root_element()),
        }
        let text = inner.into_text().trim().to_owned();
        // The first page, even and odd pages often say the same.
        if !text.is_empty() && !shown.contains(&text) {
            shown.push(text);
        }
    }
    if !shown.is_empty() {
        sink.begin(title);
        sink.line(&shown.join("\n"));
    }
    Ok(())
}
