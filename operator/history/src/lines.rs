//! Goes through the lines of a history with a memory that is bounded, however long a line is.

use std::io;

use codebutler_wire::history::MAX_LINE;

use crate::{HistoryStore, ThreadPlace};

/// Bytes read at once.
const CHUNK: u64 = 1024 * 1024;
/// Bytes kept of a line that is too long: its head, which says what line it is.
const HEAD: usize = 64 * 1024;

/// A complete line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptLine {
    /// A line with the byte that it begins at, and its newline.
    Whole(u64, Vec<u8>),
    /// A line that is longer than is read: its offset, its bytes with the newline, and its head.
    Long(u64, u64, Vec<u8>),
}

/// Walk over the lines of a history. Lines that are not finished are not given out.
pub struct LineWalk<'s, S: ?Sized> {
    store: &'s S,
    place: &'s ThreadPlace,
    /// Byte offset of the line that is read next.
    at: u64,
    /// Bytes read so far; of a line that is too long, its head.
    text: Vec<u8>,
    /// Bytes of `text` that were given out, and up to where the rest is known to have no newline.
    given: usize,
    looked: usize,
    /// Bytes read of a line that is too long.
    long: Option<u64>,
    longest: usize,
}

impl<'s, S: HistoryStore + ?Sized> LineWalk<'s, S> {
    /// Begins the walk at a line's first byte.
    pub const fn new(store: &'s S, place: &'s ThreadPlace, at: u64) -> Self {
        let text = Vec::new();
        Self { store, place, at, text, given: 0, looked: 0, long: None, longest: MAX_LINE }
    }

    /// Gives out longer lines, too.
    #[must_use]
    pub fn up_to(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    /// The next whole line; nothing at the end.
    ///
    /// # Errors
    /// When the history can't be read.
    pub fn next_line(&mut self) -> io::Result<Option<KeptLine>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.text[self.looked..]) {
                return Ok(Some(self.take(self.looked + end + 1)));
            }
            self.text.drain(..self.given);
            (self.given, self.looked) = (0, self.text.len());
            if self.long.is_none() && self.text.len() > self.longest {
                self.long = Some(self.text.len() as u64);
                self.text.truncate(HEAD.min(self.longest));
                self.looked = self.text.len();
            }
            let read = self.long.unwrap_or(self.text.len() as u64);
            let more = self.store.read(self.place, self.at + read, CHUNK)?;
            if more.is_empty() {
                return Ok(None);
            }
            let Some(long) = self.long else {
                self.text.extend(more);
                continue;
            };
            if let Some(end) = memchr::memchr(b'\n', &more) {
                let (at, bytes) = (self.at, long + end as u64 + 1);
                let head = std::mem::replace(&mut self.text, more[end + 1..].to_vec());
                (self.at, self.given, self.looked, self.long) = (at + bytes, 0, 0, None);
                return Ok(Some(KeptLine::Long(at, bytes, head)));
            }
            self.long = Some(long + more.len() as u64);
        }
    }

    /// The line that ends before this byte of `text`.
    fn take(&mut self, end: usize) -> KeptLine {
        let (at, line) = (self.at, &self.text[self.given..end]);
        let bytes = line.len();
        let kept = if bytes > self.longest { HEAD.min(self.longest) } else { bytes };
        let line = line[..kept].to_vec();
        (self.at, self.given, self.looked) = (at + bytes as u64, end, end);
        if kept < bytes {
            KeptLine::Long(at, bytes as u64, line)
        } else {
            KeptLine::Whole(at, line)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HistoryVolume;

    #[test]
    fn lines_of_every_length_are_gone_through_and_long_ones_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let chunk = usize::try_from(CHUNK).unwrap();
        let lengths = [1, 10, MAX_LINE, MAX_LINE + 1, 3, 9 << 20, 2, chunk, 5 << 20, 1];
        let text: Vec<u8> = lengths
            .iter()
            .flat_map(|length| [vec![b'x'; length - 1], vec![b'\n']].concat())
            .collect();
        assert!(volume.append(&place, 0, &[&text[..], b"unfinished"].concat()).unwrap());
        for longest in [MAX_LINE, 64 << 20, 4] {
            let mut walk = LineWalk::new(&volume, &place, 0).up_to(longest);
            let (mut at, mut seen) = (0, Vec::new());
            while let Some(line) = walk.next_line().unwrap() {
                let (begins, bytes) = match line {
                    KeptLine::Whole(begins, line) => {
                        assert!(line.len() <= longest);
                        (begins, line.len())
                    }
                    KeptLine::Long(begins, bytes, head) => {
                        let bytes = usize::try_from(bytes).unwrap();
                        assert!(bytes > longest && head.len() <= HEAD);
                        (begins, bytes)
                    }
                };
                assert_eq!(begins, at);
                at += bytes as u64;
                seen.push(bytes);
            }
            assert_eq!(seen, lengths);
        }
    }
}
