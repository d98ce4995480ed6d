//! PDF: text by page, with form fields, notes and attached files; what has no text is told apart.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_oxide::PdfDocument;
use pdf_oxide::extractors::forms::{FieldValue, FormExtractor};

use super::sink::{TextSink, one_line};
use super::{DocumentContent, DocumentError, MAX_PART, PartEntry};

/// Limit on the number of pages.
const MAX_PAGES: usize = 10_000;
/// Pictures that are named, and the least of a side in pixels that counts as one.
const MAX_PICTURES: usize = 200;
const LEAST_SIDE: u32 = 32;
/// Largest picture that is decoded, in pixels.
const MAX_PIXELS: u64 = 50_000_000;
/// Words of the only page of a dynamic form, for readers that can't show it.
const DYNAMIC: &str = "If this message is not eventually replaced";
/// Fields of a form that are named.
const MAX_FIELDS: usize = 2_000;

/// The place of a picture: its page, and where on it.
struct FoundPicture {
    page: usize,
    index: usize,
    width: u32,
    height: u32,
}

/// Reads it, or a picture of it.
pub(crate) fn read_pdf(
    bytes: Vec<u8>,
    part: Option<&str>,
) -> Result<DocumentContent, DocumentError> {
    let document = PdfDocument::from_bytes(bytes).map_err(|error| explain(&error))?;
    if !document.is_authenticated() {
        return Err(DocumentError::Locked);
    }
    let total = document.page_count().map_err(|error| explain(&error))?;
    if total == 0 {
        return Err(DocumentError::NoText("it has no pages".to_owned()));
    }
    let pictures = list_pictures(&document, total);
    if let Some(part) = part {
        return hand_out(&document, &pictures, part);
    }
    let (mut sink, mut empty, mut broken) = (TextSink::default(), Vec::new(), Vec::new());
    for page in 0..total.min(MAX_PAGES) {
        if sink.is_full() {
            break;
        }
        sink.begin(&format!("Page {} of {total}", page + 1));
        match read_page(&document, page) {
            Some(text) if text.trim().is_empty() => empty.push(page + 1),
            Some(text) => sink.line(text.trim_end()),
            None => broken.push(page + 1),
        }
        add_remarks(&document, page, &mut sink);
    }
    let fields = list_fields(&document);
    if !fields.is_empty() {
        sink.begin("Form fields");
        sink.line(&fields.join("\n"));
    }
    if sink.is_blank() {
        return Err(DocumentError::NoText(explain_silence(
            &document,
            &pictures,
            total,
            broken.len(),
        )));
    }
    let mut notes = Vec::new();
    let name_pages = |pages: &[usize]| {
        pages.iter().take(20).map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    if !empty.is_empty() {
        notes.push(format!("pages without text (pictures, or empty): {}", name_pages(&empty)));
    }
    if !broken.is_empty() {
        notes.push(format!("pages that can't be read: {}", name_pages(&broken)));
    }
    if total == 1 && sink.contains(DYNAMIC) {
        notes.push(
            "it is a dynamic form (XFA), whose pages only Adobe's programs show: ask for it printed to PDF".to_owned(),
        );
    }
    if let Some(names) = list_attached(&document) {
        notes.push(names);
    }
    if total > MAX_PAGES {
        notes.push(format!("only the first {MAX_PAGES} of its {total} pages are here"));
    }
    let parts = pictures.iter().enumerate().map(|(index, found)| PartEntry {
        name: format!("picture-{}", index + 1),
        about: format!("page {}, {} x {}", found.page + 1, found.width, found.height),
    });
    Ok(sink.finish(notes, parts.collect()))
}

/// A page's text. None if its reader fails on it: other pages are readable still.
fn read_page(document: &PdfDocument, page: usize) -> Option<String> {
    let read = catch_unwind(AssertUnwindSafe(|| document.extract_text(page)));
    Some(spell_ligatures(&read.ok()?.ok()?))
}

/// Words with ligatures are not found by who looks for them.
fn spell_ligatures(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{fb00}' => out.push_str("ff"),
            '\u{fb01}' => out.push_str("fi"),
            '\u{fb02}' => out.push_str("fl"),
            '\u{fb03}' => out.push_str("ffi"),
            '\u{fb04}' => out.push_str("ffl"),
            '\u{fb05}' | '\u{fb06}' => out.push_str("st"),
            '\u{ad}' => {}
            c => out.push(c),
        }
    }
    out
}

/// Notes that people put on a page.
fn add_remarks(document: &PdfDocument, page: usize, sink: &mut TextSink) {
    let read = catch_unwind(AssertUnwindSafe(|| document.get_annotations(page)));
    let Ok(Ok(remarks)) = read else { return };
    for remark in remarks.iter().take(200) {
        let kind = remark.subtype.as_deref().unwrap_or_default();
        if matches!(kind, "Link" | "Widget" | "Popup") {
            continue;
        }
        let Some(text) = remark.contents.as_deref().filter(|text| !text.trim().is_empty()) else {
            continue;
        };
        let by =
            remark.author.as_deref().map(|by| format!(" by {}", one_line(by))).unwrap_or_default();
        sink.line(&format!("[comment{by}: {}]", one_line(text)));
    }
}

fn list_fields(document: &PdfDocument) -> Vec<String> {
    let read = catch_unwind(AssertUnwindSafe(|| FormExtractor::extract_fields(document)));
    let Ok(Ok(fields)) = read else { return Vec::new() };
    let shown = fields.iter().take(MAX_FIELDS).filter_map(|field| {
        let value = match &field.value {
            FieldValue::Text(text) | FieldValue::Name(text) => text.clone(),
            FieldValue::Boolean(on) => on.to_string(),
            FieldValue::Array(all) => all.join(", "),
            FieldValue::None => return None,
        };
        let value = one_line(&value);
        (!value.is_empty()).then(|| format!("{}: {value}", one_line(&field.full_name)))
    });
    shown.collect()
}

fn list_attached(document: &PdfDocument) -> Option<String> {
    let read = catch_unwind(AssertUnwindSafe(|| document.extract_embedded_files()));
    let files = read.ok()?.ok().filter(|files| !files.is_empty())?;
    let names = files
        .iter()
        .take(20)
        .map(|(name, bytes)| format!("{} ({} bytes)", one_line(name), bytes.len()));
    Some(format!(
        "files are attached to it, which are not shown here: {}",
        names.collect::<Vec<_>>().join(", ")
    ))
}

fn list_pictures(document: &PdfDocument, total: usize) -> Vec<FoundPicture> {
    let mut found = Vec::new();
    for page in 0..total.min(MAX_PAGES) {
        let read = catch_unwind(AssertUnwindSafe(|| document.page_image_handles(page)));
        let Ok(Ok(handles)) = read else { continue };
        for (index, handle) in handles.iter().enumerate() {
            if handle.width < LEAST_SIDE || handle.height < LEAST_SIDE {
                continue;
            }
            found.push(FoundPicture { page, index, width: handle.width, height: handle.height });
            if found.len() == MAX_PICTURES {
                return found;
            }
        }
    }
    found
}

fn hand_out(
    document: &PdfDocument,
    pictures: &[FoundPicture],
    part: &str,
) -> Result<DocumentContent, DocumentError> {
    let found = super::pick_picture(pictures.iter().collect(), part)?;
    if u64::from(found.width) * u64::from(found.height) > MAX_PIXELS {
        return Err(DocumentError::TooLarge(format!(
            "`{part}` in it is {} x {} pixels",
            found.width, found.height
        )));
    }
    let decode = || {
        let handles = document.page_image_handles(found.page)?;
        let handle = handles.get(found.index);
        let handle = handle.ok_or_else(|| pdf_oxide::Error::Image("it is gone".to_owned()))?;
        let raw = handle.raw_compressed_bytes().unwrap_or_default();
        // A JPEG is kept as it is; colours of print are the one kind that viewers show wrongly.
        if raw.starts_with(b"\xff\xd8\xff") && handle.color_space.components() != 4 {
            return Ok(("jpg", raw));
        }
        handle.decode()?.to_png_bytes().map(|bytes| ("png", bytes))
    };
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    let decoded =
        decoded.map_err(|_| DocumentError::Damaged(format!("`{part}` in it can't be decoded")))?;
    let (ending, bytes) = decoded.map_err(|error| explain(&error))?;
    if bytes.len() > MAX_PART {
        return Err(DocumentError::TooLarge(format!("`{part}` in it has {} bytes", bytes.len())));
    }
    Ok(DocumentContent::Part { name: format!("{}.{ending}", part.trim_matches('/')), bytes })
}

/// Explains why a PDF has no text: encrypted, empty, damaged or scanned.
fn explain_silence(
    document: &PdfDocument,
    pictures: &[FoundPicture],
    total: usize,
    broken: usize,
) -> String {
    let mut why = match (pictures.len(), broken) {
        (0, 0) if document.is_encrypted() => {
            "it may be locked against copying, or its pages are empty".to_owned()
        }
        (0, 0) => format!("its {total} pages are empty, or drawn without letters"),
        (0, broken) => format!("{broken} of its {total} pages can't be read"),
        (n, _) => format!("its {total} pages are a scan ({n} pictures)"),
    };
    if !pictures.is_empty() {
        let _ =
            write!(why, "; Read its `picture-1` and so on to look at them, or ask for the text");
    }
    why
}

fn explain(error: &pdf_oxide::Error) -> DocumentError {
    let said = error.to_string();
    let lower = said.to_ascii_lowercase();
    if lower.contains("password") || lower.contains("authenticat") || lower.contains("encrypt") {
        return DocumentError::Locked;
    }
    DocumentError::damaged(said)
}
