//! The ZIP file that an Office document is: parts by name, relations between them, all within bounds.

use std::collections::HashMap;
use std::io::{self, Cursor, Read as _};

use zip::ZipArchive;
use zip::result::ZipError;

use super::DocumentError;
use super::xml::{self, Element};

/// Largest part that is unpacked, and all of them together, in bytes.
const MAX_PART: u64 = 96 * 1024 * 1024;
const MAX_TOGETHER: u64 = 256 * 1024 * 1024;
/// Limit on the number of parts (members of the ZIP archive).
const MAX_PARTS: usize = 50_000;

/// An Office document: a ZIP archive of parts.
pub(crate) struct Package {
    archive: ZipArchive<Cursor<Vec<u8>>>,
    left: u64,
}

/// A relationship from one part to another, or to an address outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relation {
    /// The last part of its type's address, such as `hyperlink`.
    pub kind: String,
    /// The part's path, or the address outside.
    pub target: String,
    /// True if the target is outside the document.
    pub external: bool,
}

/// Relationships of one part, by id.
pub(crate) type Relations = HashMap<String, Relation>;

impl Package {
    /// Opens the archive; fails if it has more than [`MAX_PARTS`] parts.
    pub(crate) fn open(bytes: Vec<u8>) -> Result<Self, DocumentError> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(explain_zip)?;
        if archive.len() > MAX_PARTS {
            return Err(DocumentError::TooLarge(format!("it has {} parts", archive.len())));
        }
        Ok(Self { archive, left: MAX_TOGETHER })
    }

    /// The bytes of a part, if it is there. Names differ in case between writers.
    pub(crate) fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>, DocumentError> {
        let name = name.trim_start_matches('/');
        let index = self.archive.index_for_name(name).or_else(|| {
            self.archive.file_names().position(|other| {
                other.is_ok_and(|other| other.replace('\\', "/").eq_ignore_ascii_case(name))
            })
        });
        let Some(index) = index else { return Ok(None) };
        let most = self.left.min(MAX_PART);
        let part = self.archive.by_index(index).map_err(explain_zip)?;
        let mut bytes = Vec::new();
        part.take(most + 1).read_to_end(&mut bytes).map_err(|error| explain_read(&error))?;
        let size = bytes.len() as u64;
        if size > most {
            return Err(DocumentError::TooLarge(format!(
                "`{name}` in it unpacks to more than {} MiB",
                most >> 20
            )));
        }
        self.left -= size;
        Ok(Some(bytes))
    }

    /// Decoded text of a part, if it is there.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, DocumentError> {
        Ok(self.part(name)?.map(|bytes| xml::decode(&bytes)))
    }

    /// Relations of a part; of the whole document for the empty name.
    pub(crate) fn relations(&mut self, part: &str) -> Result<Relations, DocumentError> {
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
        let slash = if folder.is_empty() { "" } else { "/" };
        let Some(text) = self.text(&format!("{folder}{slash}_rels/{file}.rels"))? else {
            return Ok(Relations::new());
        };
        let document = xml::parse(&text)?;
        let all = document
            .root_element()
            .descendants()
            .filter(|node| node.has_tag_name_local("Relationship"));
        Ok(all
            .filter_map(|node| {
                let id = node.attribute_local("Id")?.to_owned();
                let kind = node.attribute_local("Type").unwrap_or_default();
                let external = node.attribute_local("TargetMode") == Some("External");
                let target = node.attribute_local("Target").unwrap_or_default();
                let target =
                    if external { target.to_owned() } else { resolve_target(folder, target) };
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                Some((id, Relation { kind, target, external }))
            })
            .collect())
    }

    /// The document's main part.
    pub(crate) fn main_part(&mut self, usual: &str) -> Result<String, DocumentError> {
        let relations = self.relations("")?;
        let main = relations.into_values().find(|relation| relation.kind == "officeDocument");
        Ok(main.map_or_else(|| usual.to_owned(), |relation| relation.target))
    }
}

/// A target relative to the folder of the part that names it.
fn resolve_target(folder: &str, target: &str) -> String {
    let target = target.replace('\\', "/");
    let mut parts: Vec<&str> =
        if target.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

/// Relations of a kind, in the order of their ids.
pub(crate) fn relations_of(relations: &Relations, kind: &str) -> Vec<String> {
    let mut found: Vec<_> = relations
        .iter()
        .filter(|(_, relation)| relation.kind == kind && !relation.external)
        .collect();
    found.sort_by_key(|(id, _)| (id.len(), id.as_str().to_owned()));
    found.into_iter().map(|(_, relation)| relation.target.clone()).collect()
}

/// Translates an error of the ZIP reader.
pub(crate) fn explain_zip(error: ZipError) -> DocumentError {
    match error {
        ZipError::UnsupportedArchive(why) if why.to_ascii_lowercase().contains("password") => {
            DocumentError::Locked
        }
        ZipError::InvalidPassword => DocumentError::Locked,
        error @ (ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_)) => {
            refuse_method(&error)
        }
        error => DocumentError::damaged(error),
    }
}

/// Translates an error of a member's reader, which is the first to meet a method that is not known.
pub(crate) fn explain_read(error: &io::Error) -> DocumentError {
    match error.kind() {
        io::ErrorKind::Unsupported => refuse_method(error),
        _ => DocumentError::damaged(error),
    }
}

fn refuse_method(error: &dyn std::fmt::Display) -> DocumentError {
    DocumentError::Unsupported(format!(
        "is compressed in a way that can't be read here ({error}): unpack it with a program of the workspace, if you have Bash"
    ))
}
