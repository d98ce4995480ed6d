//! Documents as text: PDF, Word, PowerPoint and Excel files, their OpenDocument counterparts, and archives.
//!
//! Pure: bytes go in, text or the bytes of a part come out. Everything is bounded in size and depth, and a bad file
//! ends in one sentence; what a bound can't hold back (time, memory of a library) is the matter of the process that
//! calls this.

mod archive;
mod drawings;
mod kind;
mod legacy;
mod opendocument;
mod package;
mod pdf;
mod sheets;
mod sink;
mod slides;
mod word;
mod xml;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};

pub use kind::{DocumentKind, is_document, sniff_kind};
pub use sink::SectionStart;

/// Most text of one document, in bytes.
const MAX_TEXT: usize = 8 * 1024 * 1024;
/// Largest part that is handed out, in bytes.
pub const MAX_PART: usize = 24 * 1024 * 1024;
/// Archives inside of archives that are opened.
const MAX_NESTED: usize = 1;
/// Bytes of stack for what nests.
const STACK: usize = 64 * 1024 * 1024;

/// Reason that a document can't be read: a sentence about the file, without its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentError {
    /// The document is encrypted with a password.
    #[error("is locked with a password: ask for a copy without one")]
    Locked,
    /// The document has no text; says why.
    #[error("has no text: {0}")]
    NoText(String),
    /// The file is cut off, or its content does not match its first bytes.
    #[error("is damaged, or not what it says it is: {0}")]
    Damaged(String),
    /// The document exceeds a limit of the reader; says which.
    #[error("is too large to be read here: {0}")]
    TooLarge(String),
    /// A form that nothing here reads.
    #[error("{0}")]
    Unsupported(String),
    /// The document has no part of this name.
    #[error("has no `{0}` in it")]
    NoPart(String),
}

impl DocumentError {
    fn damaged(error: impl std::fmt::Display) -> Self {
        let said = error.to_string();
        let line: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self::Damaged(line.chars().take(200).collect())
    }
}

/// A part of a document that can be read by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartEntry {
    /// Name by which the part is asked for.
    pub name: String,
    /// Size of the part, and what else is known of it.
    pub about: String,
}

/// A document's text, with its places and parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentText {
    /// Name of the format, such as `PDF`.
    pub kind: String,
    /// Remarks for the reader, a sentence each.
    pub notes: Vec<String>,
    /// The lines at which its pages, slides and sheets begin.
    pub places: Vec<SectionStart>,
    /// Pictures of the document, or members of an archive.
    pub parts: Vec<PartEntry>,
    pub text: String,
}

/// The content of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentContent {
    /// A whole document.
    Text(DocumentText),
    /// A part that is no document: a picture, or any other file.
    Part {
        /// The name that it has inside.
        name: String,
        bytes: Vec<u8>,
    },
}

/// Reads a document, or one part of it: a picture by number (`picture-1`), or a member of an archive by its name.
/// `name` is what the file is called.
pub fn read_document(
    bytes: Vec<u8>,
    name: &str,
    part: Option<&str>,
) -> Result<DocumentContent, DocumentError> {
    let (name, part) = (name.to_owned(), part.map(str::to_owned));
    // A panic of a library is a broken document, and so is what nests too deep for a usual stack.
    let reader = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let read = || read_nested(bytes, &name, part.as_deref(), 0);
        catch_unwind(AssertUnwindSafe(read))
    });
    let done = reader.map_err(DocumentError::damaged)?.join();
    match done {
        Ok(Ok(read)) => read,
        _ => Err(DocumentError::Damaged("its reader gave up on it".to_owned())),
    }
}

fn read_nested(
    bytes: Vec<u8>,
    name: &str,
    part: Option<&str>,
    depth: usize,
) -> Result<DocumentContent, DocumentError> {
    let kind = sniff_kind(&bytes).ok_or_else(|| {
        DocumentError::Unsupported("is no document that is known here".to_owned())
    })?;
    let mut found = match kind {
        DocumentKind::Pdf => pdf::read_pdf(bytes, part)?,
        DocumentKind::Word => word::read_word(bytes, part)?,
        DocumentKind::Slides => slides::read_slides(bytes, part)?,
        DocumentKind::Workbook => sheets::read_workbook(bytes, part)?,
        DocumentKind::OldWorkbook | DocumentKind::BinaryWorkbook | DocumentKind::OpenSheet => {
            legacy::read_old_workbook(kind, bytes, part)?
        }
        DocumentKind::OpenText | DocumentKind::OpenSlides => {
            opendocument::read_open_document(kind, bytes, part)?
        }
        DocumentKind::LockedOffice => return Err(DocumentError::Locked),
        DocumentKind::Zip
        | DocumentKind::Tar
        | DocumentKind::Gzip
        | DocumentKind::Xz
        | DocumentKind::Zstd => archive::read_archive(kind, bytes, name, part, depth)?,
        DocumentKind::OldWord
        | DocumentKind::OldSlides
        | DocumentKind::OldOther
        | DocumentKind::OtherArchive => {
            return Err(DocumentError::Unsupported(kind.refusal().to_owned()));
        }
    };
    if let DocumentContent::Text(text) = &mut found {
        // A member of an archive has said what it is.
        if text.kind.is_empty() {
            text.kind = kind.to_string();
        }
        text.notes.extend(kind.mismatch(name));
    }
    Ok(found)
}

/// The picture with this name, of those that a document has.
fn pick_picture<T>(pictures: Vec<T>, part: &str) -> Result<T, DocumentError> {
    let number =
        part.trim_matches('/').strip_prefix("picture-").and_then(|n| n.parse::<usize>().ok());
    let index = number.and_then(|number| number.checked_sub(1));
    let found = index.and_then(|index| pictures.into_iter().nth(index));
    found.ok_or_else(|| DocumentError::NoPart(part.chars().take(200).collect()))
}

#[cfg(test)]
mod tests;
