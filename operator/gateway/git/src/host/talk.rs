//! Encodes requests to a Git host and decodes its answers. Pure: bytes in, bytes and values out.

use std::time::Duration;

use super::{RefUpdate, RemoteRefs};
use crate::pktline::{self, PacketError, PktLine};
use crate::push::is_object;

/// Longest answer but for packs, in bytes.
pub(super) const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// Most bytes of a capability list that are read.
pub(super) const MAX_ABILITIES: usize = 64 * 1024;
/// Longest silence of the host before a request is given up.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);
/// Longest silence of the host while it checks a push.
pub(super) const PUSHED: Duration = Duration::from_mins(10);
/// Most tips that are named as known.
const MAX_HAVES: usize = 512;

const AGENT: &[u8] = concat!("agent=codebutler/", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
const DELIMITER: &[u8] = b"0001";

/// Most characters of the host's own words.
const MAX_COMPLAINT: usize = 200;

/// An answer is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnswerError {
    #[error(transparent)]
    Packet(#[from] PacketError),
    #[error("its list of branches is cut off")]
    CutOff,
    #[error("its list of branches is none")]
    NoRefs,
    /// The host's own words, shortened.
    #[error("{0}")]
    Complaint(String),
}

impl AnswerError {
    fn complaint(why: &str) -> Self {
        Self::Complaint(why.chars().take(MAX_COMPLAINT).collect())
    }
}

/// Encodes a request for all refs with one of these prefixes.
pub(super) fn ask_for_refs(prefixes: &[&str]) -> Vec<u8> {
    let mut out = protocol_command("ls-refs");
    for prefix in prefixes {
        pktline::write_packets(&mut out, format!("ref-prefix {prefix}\n").as_bytes());
    }
    pktline::write_flush(&mut out);
    out
}

/// Encodes a request for a pack, in one round: the tips of what is present are named in it.
pub(super) fn ask_for_pack(wants: &[&str], haves: &[&str]) -> Vec<u8> {
    let mut out = protocol_command("fetch");
    for option in ["thin-pack\n", "no-progress\n", "ofs-delta\n"] {
        pktline::write_packets(&mut out, option.as_bytes());
    }
    for want in wants {
        pktline::write_packets(&mut out, format!("want {want}\n").as_bytes());
    }
    for have in haves.iter().take(MAX_HAVES) {
        pktline::write_packets(&mut out, format!("have {have}\n").as_bytes());
    }
    pktline::write_packets(&mut out, b"done\n");
    pktline::write_flush(&mut out);
    out
}

fn protocol_command(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    pktline::write_packets(&mut out, format!("command={name}\n").as_bytes());
    pktline::write_packets(&mut out, AGENT);
    pktline::write_packets(&mut out, b"object-format=sha1\n");
    out.extend_from_slice(DELIMITER);
    out
}

/// The beginning of a push, up to its pack.
pub(crate) fn ask_for_update(update: &RefUpdate) -> Vec<u8> {
    let zero = "0".repeat(update.new.len());
    let old = update.old.as_deref().unwrap_or(&zero);
    let (new, name) = (&update.new, &update.name);
    let mut out = Vec::new();
    let line = format!("{old} {new} {name}\0 report-status side-band-64k ofs-delta");
    pktline::write_packets(&mut out, line.as_bytes());
    pktline::write_flush(&mut out);
    out
}

/// The refs of a whole answer.
pub(super) fn read_refs(mut bytes: &[u8]) -> Result<RemoteRefs, AnswerError> {
    let mut refs = RemoteRefs::new();
    loop {
        let Some((packet, used)) = pktline::read_packet(bytes)? else {
            return Err(AnswerError::CutOff);
        };
        bytes = bytes.get(used..).unwrap_or_default();
        let PktLine::Data(line) = packet else { return Ok(refs) };
        let Ok(line) = std::str::from_utf8(line) else { continue };
        let line = line.trim_end_matches('\n');
        if let Some(why) = line.strip_prefix("ERR ") {
            return Err(AnswerError::complaint(why));
        }
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some(id), Some(name)) if is_object(id) && is_ref(name) => {
                refs.insert(name.to_owned(), id.to_owned());
            }
            _ => return Err(AnswerError::NoRefs),
        }
    }
}

/// Reads the object format from a host's capability list; None where that is SHA-1, or is not said.
pub(super) fn read_object_format(mut bytes: &[u8]) -> Option<String> {
    while let Ok(Some((packet, used))) = pktline::read_packet(bytes) {
        bytes = bytes.get(used..).unwrap_or_default();
        let PktLine::Data(line) = packet else { continue };
        let line = String::from_utf8_lossy(line);
        // Protocol 2 has a line for each ability, the older one words behind the first ref.
        let mut words = line.split(['\0', ' ', '\n']);
        let format = words.find_map(|word| word.strip_prefix("object-format="));
        if let Some(format) = format.filter(|format| *format != "sha1") {
            let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
            return Some(format.chars().filter(plain).take(20).collect());
        }
    }
    None
}

/// True if a name fits on one line of a ref list, so that it can't be read as several.
fn is_ref(name: &str) -> bool {
    name.starts_with("refs/") && name.bytes().all(|b| b > b' ' && b != 0x7f)
}

/// Finds the pack in the answer to a fetch.
#[derive(Debug, Default)]
pub(super) struct FetchSections {
    in_pack: bool,
    ended: bool,
    is_cut_off: bool,
}

impl FetchSections {
    /// A piece of the pack, if the packet has one.
    pub(super) fn read<'p>(
        &mut self,
        packet: PktLine<'p>,
    ) -> Result<Option<&'p [u8]>, AnswerError> {
        match packet {
            PktLine::Flush => {
                self.ended = true;
                Ok(None)
            }
            PktLine::Data(line) if !self.in_pack => {
                if let Some(why) = line.strip_prefix(b"ERR ") {
                    return Err(AnswerError::complaint(&String::from_utf8_lossy(why)));
                }
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                self.is_cut_off |= line.starts_with(b"shallow ");
                self.in_pack = line == b"packfile";
                Ok(None)
            }
            PktLine::Data([1, data @ ..]) => Ok(Some(data)),
            PktLine::Data([3, why @ ..]) => {
                Err(AnswerError::complaint(String::from_utf8_lossy(why).trim()))
            }
            PktLine::Data(_) | PktLine::Delimiter | PktLine::ResponseEnd => Ok(None),
        }
    }

    /// True if the remote's own history is cut off somewhere (a shallow clone): no depth is ever asked for.
    pub(super) const fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Returns true once the pack has been received to its end.
    pub(super) const fn is_whole(&self) -> bool {
        self.in_pack && self.ended
    }
}

/// The host's answer to a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushVerdict {
    /// Reason why the ref has not changed; None if it has.
    pub refused: Option<String>,
    /// Further messages of the host.
    pub said: String,
}

/// Reads the answer to a push; nothing if it does not say what became of the ref.
pub(super) fn read_report(mut bytes: &[u8], name: &str) -> Option<PushVerdict> {
    let (mut status, mut said) = (Vec::new(), Vec::new());
    while let Ok(Some((packet, used))) = pktline::read_packet(bytes) {
        bytes = bytes.get(used..).unwrap_or_default();
        match packet {
            PktLine::Data([1, data @ ..]) => status.extend_from_slice(data),
            PktLine::Data([2 | 3, data @ ..]) => said.extend_from_slice(data),
            PktLine::Data(_) => {}
            PktLine::Flush | PktLine::Delimiter | PktLine::ResponseEnd => break,
        }
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    let (mut rest, mut unpacked) = (status.as_slice(), None);
    while let Ok(Some((PktLine::Data(line), used))) = pktline::read_packet(rest) {
        rest = rest.get(used..).unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\n');
        if let Some(result) = line.strip_prefix("unpack ") {
            unpacked = (result != "ok").then(|| format!("the Git host: {result}"));
        } else if line.strip_prefix("ok ").is_some_and(|done| done == name) {
            return Some(PushVerdict { refused: unpacked, said });
        } else if let Some((refused, why)) =
            line.strip_prefix("ng ").and_then(|l| l.split_once(' '))
            && refused == name
        {
            return Some(PushVerdict { refused: Some(why.trim().to_owned()), said });
        }
    }
    None
}

/// Whatever a host says is read or refused.
///
/// # Panics
/// When it is neither.
#[cfg(test)]
pub(crate) fn fuzz_talk(bytes: &[u8]) {
    let name = "refs/heads/codebutler/t";
    if let Ok(refs) = read_refs(bytes) {
        assert!(refs.iter().all(|(name, id)| is_ref(name) && is_object(id)));
        assert!(refs.len() * 50 <= bytes.len(), "more refs than were said");
    }
    if let Some(verdict) = read_report(bytes, name) {
        assert!(bytes.len() > name.len());
        assert_eq!(read_report(bytes, name), Some(verdict));
    }
    let (mut sections, mut rest, mut pack) = (FetchSections::default(), bytes, 0);
    while let Ok(Some((packet, used))) = pktline::read_packet(rest) {
        let was_in_pack = sections.in_pack;
        match sections.read(packet) {
            Ok(piece) => {
                assert!(piece.is_none() || was_in_pack, "a pack before its beginning");
                pack += piece.map_or(0, <[u8]>::len);
            }
            Err(why) => {
                assert!(why.to_string().chars().count() <= MAX_COMPLAINT);
                break;
            }
        }
        rest = rest.get(used..).unwrap_or_default();
    }
    assert!(pack <= bytes.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1111111111111111111111111111111111111111";

    fn lines(lines: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for line in lines {
            pktline::write_packets(&mut out, line);
        }
        pktline::write_flush(&mut out);
        out
    }

    #[test]
    fn how_objects_are_named_is_read_from_either_protocol() {
        let packets = |lines: &[&str]| {
            let mut out = Vec::new();
            for line in lines {
                pktline::write_packets(&mut out, line.as_bytes());
                if line.starts_with('#') {
                    pktline::write_flush(&mut out);
                }
            }
            pktline::write_flush(&mut out);
            read_object_format(&out)
        };
        let service = "# service=git-upload-pack\n";
        let second =
            packets(&[service, "version 2\n", "ls-refs=unborn\n", "object-format=sha256\n"]);
        assert_eq!(second.as_deref(), Some("sha256"));
        let first = packets(&["aa HEAD\0multi_ack object-format=sha256 agent=git/2\n"]);
        assert_eq!(first.as_deref(), Some("sha256"));
        assert_eq!(packets(&[service, "version 2\n", "object-format=sha1\n"]), None);
        assert_eq!((packets(&[]), read_object_format(b"<html>")), (None, None));
    }

    #[test]
    fn refs_are_read_to_the_end_or_not_at_all() {
        let line = format!("{ID} refs/heads/main\n");
        let whole = lines(&[line.as_bytes(), format!("{ID} refs/tags/v1 peeled:{ID}").as_bytes()]);
        let refs = read_refs(&whole).unwrap();
        assert_eq!(refs.keys().collect::<Vec<_>>(), ["refs/heads/main", "refs/tags/v1"]);
        assert!(read_refs(&whole[..whole.len() - 4]).is_err());
        let denied = read_refs(&lines(&[b"ERR access denied\n"])).unwrap_err();
        assert_eq!(denied.to_string(), "access denied");
        assert!(read_refs(b"<!DOCTYPE html>").is_err());
        assert!(read_refs(&lines(&[b"nonsense"])).is_err());
        // A name that would be a command of its own where names are listed.
        let two = format!("{ID} refs/heads/a\ndelete\trefs/heads/main\n");
        assert!(read_refs(&lines(&[two.as_bytes()])).is_err());
    }

    #[test]
    fn a_pack_is_taken_from_its_band_and_counts_when_it_has_ended() {
        let mut sections = FetchSections::default();
        assert_eq!(sections.read(PktLine::Data(b"shallow-info\n")), Ok(None));
        assert!(!sections.is_cut_off());
        let end = format!("shallow {ID}\n");
        assert_eq!(sections.read(PktLine::Data(end.as_bytes())), Ok(None));
        assert!(sections.is_cut_off(), "nobody asked for that");
        assert_eq!(sections.read(PktLine::Delimiter), Ok(None));
        assert_eq!(sections.read(PktLine::Data(b"packfile\n")), Ok(None));
        assert_eq!(sections.read(PktLine::Data(b"\x01PACK")), Ok(Some(&b"PACK"[..])));
        assert_eq!(sections.read(PktLine::Data(b"\x02counting")), Ok(None));
        assert!(!sections.is_whole());
        assert_eq!(sections.read(PktLine::Flush), Ok(None));
        assert!(sections.is_whole());
        let gone = Err(AnswerError::Complaint("gone".to_owned()));
        assert_eq!(sections.read(PktLine::Data(b"\x03gone\n")), gone);
    }

    #[test]
    fn a_push_is_taken_refused_or_unknown() {
        let name = "refs/heads/codebutler/t";
        let answer = |status: &[&[u8]]| {
            let mut out = Vec::new();
            pktline::write_band(&mut out, 2, b"hi\n");
            pktline::write_band(&mut out, 1, &lines(status));
            pktline::write_flush(&mut out);
            read_report(&out, name)
        };
        let taken = answer(&[b"unpack ok\n", b"ok refs/heads/codebutler/t\n"]).unwrap();
        assert_eq!((taken.refused, &*taken.said), (None, "hi\n"));
        let refused = answer(&[b"unpack ok\n", b"ng refs/heads/codebutler/t fetch first\n"]);
        assert_eq!(refused.unwrap().refused.as_deref(), Some("fetch first"));
        assert_eq!(answer(&[b"unpack ok\n", b"ok refs/heads/other\n"]), None);
        assert_eq!(answer(&[b"unpack ok\n", b"ng refs/heads/codebutler/t2 no\n"]), None);
        assert_eq!(read_report(b"", name), None);
    }
}
