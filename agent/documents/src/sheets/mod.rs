//! XLSX: sheets with their cells as people see them, and what is hidden, merged or commented.

pub(crate) mod cells;
pub(crate) mod formats;
pub(crate) mod print;

use quick_xml::Reader;
use quick_xml::events::Event;

use self::cells::{CellContext, read_cells, resolve, unescape_controls};
use self::formats::NumberForm;
use self::print::print_sheet;
use super::drawings::add_drawings;
use super::package::{Package, Relations, relations_of};
use super::sink::{TextSink, one_line};
use super::word::{hand_out_picture, name_pictures};
use super::xml::{self, Element};
use super::{DocumentContent, DocumentError};

/// Limit on the number of shared strings.
const MAX_STRINGS: usize = 4_000_000;

/// A sheet, as the workbook names it.
struct NamedSheet {
    name: String,
    target: String,
    /// `hidden`, or `very hidden`.
    hidden: Option<&'static str>,
}

/// Reads it, or a picture of it.
pub(crate) fn read_workbook(
    bytes: Vec<u8>,
    part: Option<&str>,
) -> Result<DocumentContent, DocumentError> {
    let mut package = Package::open(bytes)?;
    let main = package.main_part("xl/workbook.xml")?;
    let relations = package.relations(&main)?;
    let Some(text) = package.text(&main)? else {
        return Err(DocumentError::Damaged("its main part is missing".to_owned()));
    };
    let (sheets, is_1904) = list_sheets(&text, &relations)?;
    let pictures = list_pictures(&mut package, &sheets)?;
    if let Some(part) = part {
        let targets = pictures.into_iter().map(|(target, _)| target).collect();
        return hand_out_picture(&mut package, targets, part);
    }
    let strings = match relations_of(&relations, "sharedStrings").first() {
        Some(target) => read_strings(&package.text(target)?.unwrap_or_default())?,
        None => Vec::new(),
    };
    let forms = match relations_of(&relations, "styles").first() {
        Some(target) => read_forms(&package.text(target)?.unwrap_or_default())?,
        None => Vec::new(),
    };
    let context = CellContext { strings: &strings, forms: &forms, is_1904 };
    let mut sink = TextSink::default();
    for sheet in &sheets {
        if sink.is_full() {
            break;
        }
        let Some(text) = package.text(&sheet.target)? else { continue };
        let hidden = sheet.hidden.map(|how| format!(", {how}")).unwrap_or_default();
        let own = package.relations(&sheet.target)?;
        if !text.contains("sheetData") {
            sink.begin(&format!("Sheet {}{hidden}", sheet.name));
            sink.line("[a chart, without cells]");
            add_drawings(&mut package, &mut sink, &own)?;
            continue;
        }
        let cells = read_cells(&text, &context)?;
        drop(text);
        print_sheet(&mut sink, &format!("Sheet {}{hidden}", sheet.name), &cells);
        add_links(&mut sink, &cells.links, &own);
        add_comments(&mut package, &mut sink, &own)?;
        add_drawings(&mut package, &mut sink, &own)?;
    }
    let mut notes = Vec::new();
    let hidden: Vec<_> = sheets
        .iter()
        .filter(|sheet| sheet.hidden.is_some())
        .map(|sheet| sheet.name.as_str())
        .collect();
    if !hidden.is_empty() {
        notes.push(format!("hidden sheets: {}", hidden.join(", ")));
    }
    Ok(sink.finish(notes, name_pictures(&pictures)))
}

fn list_sheets(
    workbook: &str,
    relations: &Relations,
) -> Result<(Vec<NamedSheet>, bool), DocumentError> {
    let document = xml::parse(workbook)?;
    let root = document.root_element();
    let properties = root.child("workbookPr").and_then(|node| node.attribute_local("date1904"));
    let is_1904 = matches!(properties, Some("1" | "true" | "on"));
    let nodes = root.child("sheets").into_iter().flat_map(|node| node.children());
    let sheets = nodes.filter(|node| node.has_tag_name_local("sheet")).filter_map(|node| {
        let target = relations.get(node.relation_id()?)?.target.clone();
        let hidden = match node.attribute_local("state") {
            Some("hidden") => Some("hidden"),
            Some("veryHidden") => Some("hidden so that Excel does not offer to show it"),
            _ => None,
        };
        Some(NamedSheet {
            name: one_line(node.attribute_local("name").unwrap_or_default()),
            target,
            hidden,
        })
    });
    let sheets: Vec<_> = sheets.collect();
    if sheets.is_empty() {
        return Err(DocumentError::Damaged("it names no sheet".to_owned()));
    }
    Ok((sheets, is_1904))
}

/// Texts that cells refer to by number. Readings of Japanese names are no part of them.
fn read_strings(xml: &str) -> Result<Vec<String>, DocumentError> {
    let mut reader = Reader::from_str(xml);
    let (mut strings, mut text, mut inside, mut phonetic) =
        (Vec::new(), String::new(), false, 0_usize);
    loop {
        match reader.read_event().map_err(DocumentError::damaged)? {
            Event::Start(start) => match start.local_name().as_ref() {
                "si" => text.clear(),
                "t" => inside = phonetic == 0,
                "rPh" => phonetic += 1,
                _ => {}
            },
            Event::Empty(start) if start.local_name().as_ref() == "si" => {
                strings.push(String::new());
            }
            Event::End(end) => match end.local_name().as_ref() {
                "si" => strings.push(unescape_controls(&text)),
                "t" => inside = false,
                "rPh" => phonetic = phonetic.saturating_sub(1),
                _ => {}
            },
            Event::Text(piece) if inside => text.push_str(&piece.xml10_content()),
            Event::CData(piece) if inside => text.push_str(&piece.xml10_content()),
            Event::GeneralRef(reference) if inside => text.push_str(&resolve(&reference)),
            Event::DocType(_) => {
                return Err(DocumentError::Damaged(
                    "its XML defines entities of its own".to_owned(),
                ));
            }
            Event::Eof => break,
            _ => {}
        }
        if strings.len() > MAX_STRINGS {
            return Err(DocumentError::TooLarge(format!("it has more than {MAX_STRINGS} texts")));
        }
    }
    Ok(strings)
}

/// Number formats, by the number of the style.
fn read_forms(xml: &str) -> Result<Vec<NumberForm>, DocumentError> {
    if xml.is_empty() {
        return Ok(Vec::new());
    }
    let document = xml::parse(xml)?;
    let root = document.root_element();
    let named = |list: &str| root.child(list).into_iter().flat_map(|node| node.children());
    let own: Vec<(u32, NumberForm)> = named("numFmts")
        .filter_map(|node| {
            let id = node.attribute_local("numFmtId")?.parse().ok()?;
            Some((id, NumberForm::parse(node.attribute_local("formatCode")?)))
        })
        .collect();
    let styles = named("cellXfs").filter(|node| node.has_tag_name_local("xf"));
    Ok(styles
        .map(|node| {
            let id = node.attribute_local("numFmtId").and_then(|id| id.parse().ok()).unwrap_or(0);
            let found = own.iter().find(|(known, _)| *known == id);
            found.map_or_else(|| NumberForm::builtin(id), |(_, form)| form.clone())
        })
        .collect())
}

/// Lists the pictures that stand on sheets.
fn list_pictures(
    package: &mut Package,
    sheets: &[NamedSheet],
) -> Result<Vec<(String, String)>, DocumentError> {
    let mut pictures: Vec<(String, String)> = Vec::new();
    for sheet in sheets {
        for drawing in relations_of(&package.relations(&sheet.target)?, "drawing") {
            for target in relations_of(&package.relations(&drawing)?, "image") {
                if !pictures.iter().any(|(known, _)| *known == target) {
                    pictures.push((target, format!("on sheet {}", sheet.name)));
                }
            }
        }
    }
    Ok(pictures)
}

/// Addresses behind cells, which show other words.
fn add_links(sink: &mut TextSink, links: &[(String, String)], relations: &Relations) {
    for (place, id) in links {
        let target = relations.get(id).filter(|relation| relation.external);
        let target = target.map(|relation| one_line(&relation.target)).unwrap_or_default();
        if !target.is_empty() {
            sink.line(&format!("[link {place}] {target}"));
        }
    }
}

/// Comments of a sheet, of both kinds that Excel has.
fn add_comments(
    package: &mut Package,
    sink: &mut TextSink,
    relations: &Relations,
) -> Result<(), DocumentError> {
    let threaded = relations_of(relations, "threadedComment");
    let plain = relations_of(relations, "comments");
    // Threaded comments are repeated as plain ones for old readers, so only one of the two is read.
    for target in if threaded.is_empty() { plain } else { threaded } {
        let Some(text) = package.text(&target)? else { continue };
        let document = xml::parse(&text)?;
        let comments = document.root_element().descendants();
        for comment in
            comments.filter(|node| ["comment", "threadedComment"].contains(&node.local()))
        {
            let place = comment.attribute_local("ref").unwrap_or_default();
            let texts = comment.descendants().filter(|node| ["t", "text"].contains(&node.local()));
            let text: String = texts.filter_map(|node| node.text()).collect();
            if !text.trim().is_empty() {
                sink.line(&format!("[comment {place}] {}", one_line(&text)));
            }
        }
    }
    Ok(())
}
