//! Archives: a list of what is in them, or one member. Nothing is unpacked to a disk.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;
use zip::ZipArchive;

use super::kind::{DocumentKind, is_document, sniff_kind};
use super::package::{explain_read, explain_zip};
use super::sink::TextSink;
use super::{
    DocumentContent, DocumentError, DocumentText, MAX_NESTED, MAX_PART, PartEntry, read_nested,
};

/// Members that are listed, and looked through.
const LISTED: usize = 2_000;
const MAX_MEMBERS: usize = 200_000;
/// Bytes of each end of a text that is too large to be handed out.
const SHOWN_END: usize = 3 * 1024 * 1024;
/// Bytes at the beginning in which a zero means that it is no text, as Git has it.
const BINARY_HEAD: usize = 8000;
/// Most bytes of something compressed as a whole.
const MAX_UNPACKED: u64 = 256 * 1024 * 1024;
/// Memory that an xz stream may ask for, in KiB, and the window of a zstd one, in bytes.
const XZ_MEMORY: u32 = 128 * 1024;
const ZSTD_WINDOW: u64 = 128 * 1024 * 1024;

/// The contents of an archive.
#[derive(Debug, Default)]
struct ArchiveListing {
    members: Vec<ArchiveMember>,
    more: bool,
}

#[derive(Debug)]
struct ArchiveMember {
    name: String,
    size: u64,
    note: &'static str,
    is_folder: bool,
}

/// Lists an archive, or reads a member of it.
pub(crate) fn read_archive(
    kind: DocumentKind,
    bytes: Vec<u8>,
    name: &str,
    part: Option<&str>,
    depth: usize,
) -> Result<DocumentContent, DocumentError> {
    match kind {
        DocumentKind::Zip | DocumentKind::Tar => open_members(kind, bytes, part, depth),
        _ => {
            let unpacked = unpack(kind, &bytes)?;
            drop(bytes);
            let inner = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            match sniff_kind(&unpacked) {
                Some(DocumentKind::Tar) => open_members(DocumentKind::Tar, unpacked, part, depth),
                Some(inside) if !is_archive(inside) => {
                    read_nested(unpacked, inner, part, depth + 1)
                }
                _ if part.is_some() => {
                    Err(DocumentError::NoPart(part.unwrap_or_default().to_owned()))
                }
                _ => hand_out(inner.to_owned(), unpacked),
            }
        }
    }
}

fn is_archive(kind: DocumentKind) -> bool {
    matches!(
        kind,
        DocumentKind::Zip
            | DocumentKind::Tar
            | DocumentKind::Gzip
            | DocumentKind::Xz
            | DocumentKind::Zstd
            | DocumentKind::OtherArchive
    )
}

fn hand_out(name: String, bytes: Vec<u8>) -> Result<DocumentContent, DocumentError> {
    if bytes.len() <= MAX_PART {
        return Ok(DocumentContent::Part { name, bytes });
    }
    show_ends(&name, &bytes).ok_or_else(|| {
        DocumentError::TooLarge(format!(
            "`{name}` in it has {} bytes, and {MAX_PART} are shown: unpack it with a program of the workspace, if you have Bash",
            bytes.len()
        ))
    })
}

/// The beginning and the end of a text that is too large to be handed out, as logs are. Nothing for anything else.
fn show_ends(name: &str, bytes: &[u8]) -> Option<DocumentContent> {
    if bytes.iter().take(BINARY_HEAD).any(|byte| *byte == 0) {
        return None;
    }
    let (head, tail) = (bytes.get(..SHOWN_END)?, bytes.get(bytes.len() - SHOWN_END..)?);
    let head_end = head.iter().rposition(|byte| *byte == b'\n').unwrap_or(SHOWN_END);
    let tail_start = tail.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut sink = TextSink::default();
    for (title, part) in [("Its beginning", &head[..head_end]), ("Its end", &tail[tail_start..])] {
        sink.begin(title);
        sink.line(String::from_utf8_lossy(part).trim_end_matches('\n'));
    }
    let note = format!(
        "`{}` in it has {} bytes, of which the first and the last {} MiB are here, as two pages; for what is between them \
         unpack it with a program of the workspace, if you have Bash",
        printable(name),
        bytes.len(),
        SHOWN_END >> 20
    );
    Some(sink.finish(vec![note], Vec::new()))
}

/// Everything that is compressed as a whole.
fn unpack(kind: DocumentKind, bytes: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let input = Cursor::new(bytes);
    match kind {
        DocumentKind::Gzip => read_bounded(MultiGzDecoder::new(input)),
        DocumentKind::Xz => {
            read_bounded(lzma_rust2::XzReader::new_mem_limit(input, true, XZ_MEMORY))
        }
        _ => {
            let decoder =
                ruzstd::decoding::StreamingDecoder::new_with_max_window_size(input, ZSTD_WINDOW);
            read_bounded(decoder.map_err(DocumentError::damaged)?)
        }
    }
}

fn read_bounded(reader: impl Read) -> Result<Vec<u8>, DocumentError> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_UNPACKED + 1).read_to_end(&mut bytes);
    read.map_err(|error| explain_read(&error))?;
    if bytes.len() as u64 > MAX_UNPACKED {
        return Err(DocumentError::TooLarge(format!(
            "it unpacks to more than {} MiB",
            MAX_UNPACKED >> 20
        )));
    }
    Ok(bytes)
}

fn open_members(
    kind: DocumentKind,
    bytes: Vec<u8>,
    part: Option<&str>,
    depth: usize,
) -> Result<DocumentContent, DocumentError> {
    let Some(part) = part.map(|part| part.trim_matches('/')).filter(|part| !part.is_empty()) else {
        let listing = match kind {
            DocumentKind::Zip => list_zip(bytes)?,
            _ => list_tar(&bytes)?,
        };
        return Ok(DocumentContent::Text(show_listing(&listing)));
    };
    let (name, member, rest) = match kind {
        DocumentKind::Zip => find_in_zip(bytes, part)?,
        _ => find_in_tar(&bytes, part)?,
    };
    let is_inner = is_document(&member);
    let nests = is_inner && sniff_kind(&member).is_some_and(is_archive);
    if nests && depth >= MAX_NESTED {
        return Err(DocumentError::Unsupported(format!(
            "has an archive in an archive (`{name}`), which is not opened here: unpack it with a program of the workspace, \
             if you have Bash"
        )));
    }
    if is_inner {
        return read_nested(member, &name, rest.as_deref(), depth + 1);
    }
    match rest {
        Some(_) => Err(DocumentError::NoPart(part.to_owned())),
        None => hand_out(name, member),
    }
}

fn show_listing(listing: &ArchiveListing) -> DocumentText {
    let files = listing.members.iter().filter(|member| !member.is_folder);
    let (count, total) = files
        .clone()
        .fold((0_usize, 0_u64), |(n, sum), member| (n + 1, sum.saturating_add(member.size)));
    let more = if listing.more { " or more" } else { "" };
    let mut notes = vec![format!(
        "{count}{more} files of {total} bytes together; one is Read by its path behind the archive's"
    )];
    if count > LISTED {
        notes.push(format!("the first {LISTED} are listed"));
    }
    notes.extend(explain_iwork(&listing.members));
    let parts = files.take(LISTED).map(|member| PartEntry {
        name: printable(&member.name),
        about: format!("{} bytes{}", member.size, member.note),
    });
    DocumentText { notes, parts: parts.collect(), ..DocumentText::default() }
}

/// The remark on a document of Apple's, whose words are in none of its members that can be read.
fn explain_iwork(members: &[ArchiveMember]) -> Option<String> {
    let has = |is_it: fn(&str) -> bool| members.iter().any(|member| is_it(&member.name));
    let is_index = |name: &str| {
        let file = name.strip_prefix("Index/").and_then(|file| file.rsplit_once('.'));
        file.is_some_and(|(_, ending)| ending == "iwa")
    };
    if !has(is_index) {
        return None;
    }
    let preview = if has(|name| name == "preview.jpg") {
        "; `preview.jpg` in it is a picture of its beginning"
    } else {
        ""
    };
    Some(format!(
        "it is a document of Pages, Numbers or Keynote, whose words can't be read here: ask for it as a PDF, or as Word, Excel or \
         PowerPoint{preview}"
    ))
}

/// A name without what moves a cursor or turns the direction of writing.
fn printable(name: &str) -> String {
    let harmless = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    name.chars().filter(harmless).take(300).collect()
}

/// The name of a member as it is asked for.
fn normal(name: &str) -> String {
    let name = name.replace('\\', "/");
    name.trim_start_matches("./").trim_matches('/').to_owned()
}

/// True if `part` is this member, or something in it: what is behind its name.
fn reaches<'p>(name: &str, part: &'p str) -> Option<&'p str> {
    let rest = part.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// A part inside of a member; nothing where the member itself is wanted.
fn inner_part(rest: &str) -> Option<String> {
    (!rest.is_empty()).then(|| rest.to_owned())
}

type FoundMember = (String, Vec<u8>, Option<String>);

fn open_zip(bytes: Vec<u8>) -> Result<ZipArchive<Cursor<Vec<u8>>>, DocumentError> {
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(explain_zip)?;
    if archive.len() > MAX_MEMBERS {
        return Err(DocumentError::TooLarge(format!("it has {} members", archive.len())));
    }
    Ok(archive)
}

fn list_zip(bytes: Vec<u8>) -> Result<ArchiveListing, DocumentError> {
    let mut archive = open_zip(bytes)?;
    let mut listing = ArchiveListing::default();
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index).map_err(explain_zip)?;
        let name = member.name().map_err(explain_zip)?.into_owned();
        listing.members.push(ArchiveMember {
            is_folder: name.ends_with('/'),
            name: normal(&name),
            size: member.size(),
            note: if member.encrypted() { ", locked with a password" } else { "" },
        });
    }
    Ok(listing)
}

fn find_in_zip(bytes: Vec<u8>, part: &str) -> Result<FoundMember, DocumentError> {
    let mut archive = open_zip(bytes)?;
    let mut found: Option<(usize, String, Option<String>)> = None;
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index).map_err(explain_zip)?;
        let name = normal(&member.name().map_err(explain_zip)?);
        if name.is_empty() || member.is_dir() {
            continue;
        }
        if let Some(rest) = reaches(&name, part) {
            found = Some((index, name, inner_part(rest)));
        }
    }
    let (index, name, rest) = found.ok_or_else(|| DocumentError::NoPart(printable(part)))?;
    let member = archive.by_index(index).map_err(explain_zip)?;
    Ok((name, read_bounded(member)?, rest))
}

fn list_tar(bytes: &[u8]) -> Result<ArchiveListing, DocumentError> {
    let mut archive = tar::Archive::new(Cursor::new(bytes));
    let mut listing = ArchiveListing::default();
    for entry in archive.entries().map_err(DocumentError::damaged)? {
        let entry = match entry {
            Ok(entry) => entry,
            // Text before a broken end is worth showing.
            Err(error) if listing.members.is_empty() => return Err(DocumentError::damaged(error)),
            Err(_) => {
                listing.more = true;
                break;
            }
        };
        let kind = entry.header().entry_type();
        let note = match kind {
            kind if kind.is_symlink() || kind.is_hard_link() => ", a link",
            kind if kind.is_file() || kind.is_dir() || kind.is_gnu_sparse() => "",
            _ => ", no regular file",
        };
        listing.members.push(ArchiveMember {
            name: normal(&String::from_utf8_lossy(&entry.path_bytes())),
            size: entry.size(),
            note,
            is_folder: kind.is_dir(),
        });
        if listing.members.len() >= MAX_MEMBERS {
            listing.more = true;
            break;
        }
    }
    Ok(listing)
}

fn find_in_tar(bytes: &[u8], part: &str) -> Result<FoundMember, DocumentError> {
    let mut archive = tar::Archive::new(Cursor::new(bytes));
    // A later member of the same name replaces an earlier one.
    let mut found: Option<FoundMember> = None;
    for entry in archive.entries().map_err(DocumentError::damaged)?.take(MAX_MEMBERS) {
        let Ok(entry) = entry else { break };
        let name = normal(&String::from_utf8_lossy(&entry.path_bytes()));
        let Some(rest) = reaches(&name, part).filter(|_| !name.is_empty()) else { continue };
        let kind = entry.header().entry_type();
        if kind.is_symlink() || kind.is_hard_link() {
            let to = entry.link_name_bytes().map(|to| String::from_utf8_lossy(&to).into_owned());
            return Err(DocumentError::Unsupported(format!(
                "has a link there, to `{}`: Read that member",
                printable(&to.unwrap_or_default())
            )));
        }
        if kind.is_file() {
            found = Some((name, read_bounded(entry)?, inner_part(rest)));
        }
    }
    found.ok_or_else(|| DocumentError::NoPart(printable(part)))
}
