//! The kind of a document, by its content: a name proves nothing.

use std::fmt;
use std::io::Cursor;

use serde::{Deserialize, Serialize};

/// Kinds of documents, by their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    Pdf,
    /// Word document since 2007 (`.docx`).
    Word,
    /// PowerPoint presentation since 2007 (`.pptx`).
    Slides,
    /// Excel workbook since 2007 (`.xlsx`).
    Workbook,
    /// Excel workbook in its binary form (`.xlsb`).
    BinaryWorkbook,
    /// Excel workbook before 2007 (`.xls`).
    OldWorkbook,
    /// OpenDocument spreadsheet (`.ods`).
    OpenSheet,
    /// OpenDocument text (`.odt`).
    OpenText,
    /// OpenDocument presentation (`.odp`).
    OpenSlides,
    /// Word document before 2007 (`.doc`).
    OldWord,
    /// PowerPoint presentation before 2007 (`.ppt`).
    OldSlides,
    /// Another file of the container that old Office files are.
    OldOther,
    /// An Office file behind a password.
    LockedOffice,
    Zip,
    Tar,
    /// Something compressed with gzip.
    Gzip,
    /// Something compressed with xz.
    Xz,
    /// Something compressed with zstd.
    Zstd,
    /// Archive of a kind that is not read: RAR, 7z or bzip2.
    OtherArchive,
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pdf => "PDF",
            Self::Word => "Word document",
            Self::Slides => "PowerPoint presentation",
            Self::Workbook => "Excel workbook",
            Self::BinaryWorkbook => "binary Excel workbook",
            Self::OldWorkbook => "old Excel workbook",
            Self::OpenSheet => "OpenDocument spreadsheet",
            Self::OpenText => "OpenDocument text",
            Self::OpenSlides => "OpenDocument presentation",
            Self::OldWord => "old Word document",
            Self::OldSlides => "old PowerPoint presentation",
            Self::OldOther => "OLE container",
            Self::LockedOffice => "locked Office file",
            Self::Zip => "ZIP archive",
            Self::Tar => "TAR archive",
            Self::Gzip => "gzip file",
            Self::Xz => "xz file",
            Self::Zstd => "zstd file",
            Self::OtherArchive => "archive",
        })
    }
}

impl DocumentKind {
    /// Reason that files of this kind can't be read, for the model.
    pub fn refusal(self) -> &'static str {
        match self {
            Self::OldWord => {
                "is a Word document of the format before 2007 (.doc), which can't be read here: ask for a .docx or a PDF"
            }
            Self::OldSlides => {
                "is a PowerPoint presentation of the format before 2007 (.ppt), which can't be read here: ask for a .pptx or \
                 a PDF"
            }
            Self::OldOther => {
                "is an OLE container (such as a mail of Outlook), which can't be read here: ask for it as text or PDF"
            }
            _ => {
                "is an archive of a kind that can't be opened here: unpack it with a program of the workspace, if you have Bash"
            }
        }
    }

    /// Endings of names that files of this kind have.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Pdf => &["pdf", "ai"],
            Self::Word => &["docx", "docm", "dotx", "dotm"],
            Self::Slides => &["pptx", "pptm", "ppsx", "potx"],
            Self::Workbook => &["xlsx", "xlsm", "xltx", "xltm", "xlam"],
            Self::BinaryWorkbook => &["xlsb"],
            Self::OldWorkbook => &["xls", "xlt", "xla"],
            Self::OpenSheet => &["ods", "ots"],
            Self::OpenText => &["odt", "ott"],
            Self::OpenSlides => &["odp", "otp"],
            _ => &[],
        }
    }

    /// A sentence where the file's name promises another kind of document.
    pub fn mismatch(self, name: &str) -> Option<String> {
        const PROMISES: [&str; 21] = [
            "pdf", "docx", "docm", "pptx", "pptm", "xlsx", "xlsm", "xlsb", "xls", "doc", "ppt",
            "ods", "odt", "odp", "png", "jpg", "jpeg", "gif", "txt", "csv", "md",
        ];
        let (_, ending) = name.rsplit_once('.')?;
        let ending = ending.to_ascii_lowercase();
        let promised = PROMISES.contains(&ending.as_str());
        (promised && !self.endings().contains(&ending.as_str()))
            .then(|| format!("its name ends with .{ending}, but its content is a {self}"))
    }
}

const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
/// Bytes at the beginning in which a PDF may begin.
const PDF_HEAD: usize = 1024;
const TAR_MARK: usize = 257;

/// True if these are the first bytes of something that [`super::read_document`] has an answer for.
pub fn is_document(head: &[u8]) -> bool {
    let begins = |mark: &[u8]| head.starts_with(mark);
    begins(b"PK\x03\x04")
        || begins(b"PK\x05\x06")
        || begins(OLE)
        || begins(b"\x1f\x8b\x08")
        || begins(b"\xfd7zXZ\0")
        || begins(b"\x28\xb5\x2f\xfd")
        || is_other_archive(head)
        || is_tar(head)
        || is_pdf(head)
}

fn is_other_archive(head: &[u8]) -> bool {
    let bzip2 =
        matches!(head, [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]);
    bzip2 || head.starts_with(b"Rar!\x1a\x07") || head.starts_with(b"7z\xbc\xaf\x27\x1c")
}

fn is_tar(head: &[u8]) -> bool {
    head.get(TAR_MARK..TAR_MARK + 5) == Some(b"ustar")
}

/// Some writers put bytes before the header; text that speaks of PDF has no version behind it.
fn is_pdf(head: &[u8]) -> bool {
    let head = &head[..head.len().min(PDF_HEAD)];
    if head.starts_with(b"%PDF-") {
        return true;
    }
    let found = head.windows(8).position(|bytes| {
        bytes.starts_with(b"%PDF-")
            && bytes[5].is_ascii_digit()
            && bytes[6] == b'.'
            && bytes[7].is_ascii_digit()
    });
    found.is_some_and(|at| head[..at].iter().any(|b| !b.is_ascii() || *b == 0))
}

/// The kind, from all of a file.
pub fn sniff_kind(bytes: &[u8]) -> Option<DocumentKind> {
    if !is_document(bytes) {
        return None;
    }
    Some(match bytes {
        [b'P', b'K', ..] => sniff_zip(bytes),
        [0xd0, 0xcf, ..] => sniff_ole(bytes),
        [0x1f, 0x8b, ..] => DocumentKind::Gzip,
        [0xfd, b'7', ..] => DocumentKind::Xz,
        [0x28, 0xb5, ..] => DocumentKind::Zstd,
        _ if is_pdf(bytes) => DocumentKind::Pdf,
        _ if is_tar(bytes) => DocumentKind::Tar,
        _ => DocumentKind::OtherArchive,
    })
}

fn sniff_zip(bytes: &[u8]) -> DocumentKind {
    let Ok(mut archive) = zip::ZipArchive::new(Cursor::new(bytes)) else {
        return DocumentKind::Zip;
    };
    if let Some(kind) = sniff_open_document(&mut archive) {
        return kind;
    }
    if archive.index_for_name("[Content_Types].xml").is_none() {
        return DocumentKind::Zip;
    }
    let has = |start: &str| {
        archive.file_names().flatten().any(|name| {
            name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
        })
    };
    if archive.index_for_name("xl/workbook.bin").is_some() {
        DocumentKind::BinaryWorkbook
    } else if has("word/") {
        DocumentKind::Word
    } else if has("ppt/") {
        DocumentKind::Slides
    } else if has("xl/") {
        DocumentKind::Workbook
    } else {
        DocumentKind::Zip
    }
}

fn sniff_open_document(archive: &mut zip::ZipArchive<Cursor<&[u8]>>) -> Option<DocumentKind> {
    use std::io::Read as _;
    let mut said = String::new();
    archive.by_name("mimetype").ok()?.take(100).read_to_string(&mut said).ok()?;
    let kind = said.trim().strip_prefix("application/vnd.oasis.opendocument.")?;
    match kind.trim_end_matches("-template") {
        "text" => Some(DocumentKind::OpenText),
        "presentation" => Some(DocumentKind::OpenSlides),
        "spreadsheet" => Some(DocumentKind::OpenSheet),
        _ => None,
    }
}

fn sniff_ole(bytes: &[u8]) -> DocumentKind {
    let Ok(container) = cfb::CompoundFile::open(Cursor::new(bytes)) else {
        return DocumentKind::OldOther;
    };
    let has = |name: &str| container.is_stream(name);
    if has("/EncryptedPackage") {
        DocumentKind::LockedOffice
    } else if has("/Workbook") || has("/Book") {
        DocumentKind::OldWorkbook
    } else if has("/WordDocument") {
        DocumentKind::OldWord
    } else if has("/PowerPoint Document") {
        DocumentKind::OldSlides
    } else {
        DocumentKind::OldOther
    }
}
