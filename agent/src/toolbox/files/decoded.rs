//! The text of a file as Read shows it, for whoever searches it.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use codebutler_textform::{UnfitText, read_text};
use nix::fcntl::OFlag;

use super::super::paths::{LocatedPath, WorktreeRoot};
use super::MAX_FILE;
use super::hints::EncodingHints;

/// Bytes by which it is known whether a file may be text in UTF-16 or UTF-32: not the same place within a character
/// for all of them.
const HEADS: [usize; 3] = [4096, 4092, 4094];

/// Result of decoding a file to UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub enum DecodedFile {
    /// The file is UTF-8 already, or no text at all.
    AsItIs,
    /// Text that was decoded from another encoding.
    Text(String),
    /// Text in an encoding that is not known, or too much of it.
    Unknown,
}

/// Decodes a file as Read does. What can't be read is as it is.
pub fn decode_file(tree: &WorktreeRoot, full: &Path, shown: &str) -> DecodedFile {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(flags).open(full) else {
        return DecodedFile::AsItIs;
    };
    let mut bytes = Vec::new();
    if file.by_ref().take(HEADS[0] as u64).read_to_end(&mut bytes).is_err() {
        return DecodedFile::AsItIs;
    }
    let at = LocatedPath { full: full.to_owned(), shown: shown.to_owned() };
    let mut hints = None;
    let is_whole = bytes.len() < HEADS[0];
    if bytes.contains(&0) && !is_whole {
        let hints = hints.get_or_insert_with(|| EncodingHints::find(tree, &at)).as_form();
        if !HEADS.iter().any(|end| read_text(&bytes[..*end], &hints).is_ok()) {
            return DecodedFile::AsItIs;
        }
    }
    if !is_whole && file.take(MAX_FILE).read_to_end(&mut bytes).is_err() {
        return DecodedFile::AsItIs;
    }
    let is_plain = std::str::from_utf8(&bytes).is_ok() && !bytes.contains(&0);
    if bytes.len() as u64 > MAX_FILE {
        return if is_plain { DecodedFile::AsItIs } else { DecodedFile::Unknown };
    }
    if is_plain {
        return DecodedFile::AsItIs;
    }
    let hints = hints.unwrap_or_else(|| EncodingHints::find(tree, &at));
    match read_text(&bytes, &hints.as_form()) {
        Ok((_, text)) => DecodedFile::Text(text),
        Err(UnfitText::Binary | UnfitText::BrokenUtf8 { .. }) => DecodedFile::AsItIs,
        Err(_) => DecodedFile::Unknown,
    }
}
