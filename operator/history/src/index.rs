//! Finds the lines of a history by their numbers, while it grows, without keeping them.

use std::io;

use crate::{HistoryStore, ThreadPlace};

/// Every so many lines' place is known.
const EVERY: u64 = 64;
/// What is looked through at once, in bytes.
const CHUNK: u64 = 4 * 1024 * 1024;

/// Where the lines of one history are.
#[derive(Clone, Debug, Default)]
pub struct LineIndex {
    /// Of lines 1, 65, 129 and so on.
    starts: Vec<u64>,
    lines: u64,
    length: u64,
}

/// Some lines of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinePage {
    /// Number of the first one.
    pub first: u64,
    pub lines: Vec<String>,
}

impl LineIndex {
    /// Takes in what was added, and answers how many lines there are.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn refresh(&mut self, store: &impl HistoryStore, place: &ThreadPlace) -> io::Result<u64> {
        let length = store.length(place)?;
        if length < self.length {
            // A writer that died had not finished it, or it was removed.
            *self = Self::default();
        }
        while self.length < length {
            let text = store.read(place, self.length, CHUNK)?;
            let mut taken = 0;
            for line in text.split_inclusive(|byte| *byte == b'\n').filter(|l| l.ends_with(b"\n")) {
                if self.lines.is_multiple_of(EVERY) {
                    self.starts.push(self.length + taken);
                }
                taken += line.len() as u64;
                self.lines += 1;
            }
            if taken == 0 {
                break;
            }
            self.length += taken;
        }
        Ok(self.lines)
    }

    /// How many lines there were at the last look.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines from a number on, as far as there are some: `most` of them, and of `bytes` together unless
    /// the first one alone is longer.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn page(
        &self,
        store: &impl HistoryStore,
        place: &ThreadPlace,
        first: u64,
        (most, bytes): (u64, u64),
    ) -> io::Result<LinePage> {
        let first = first.max(1);
        let mut page = LinePage { first, lines: Vec::new() };
        let end = first.saturating_add(most).min(self.lines + 1);
        let (mut number, mut room) = (first - (first - 1) % EVERY, bytes);
        while number < end {
            let Some((from, to)) = self.span(number) else { break };
            let text = store.read(place, from, to - from)?;
            for line in text.split_inclusive(|byte| *byte == b'\n') {
                if (first..end).contains(&number) {
                    let length = line.len() as u64;
                    if length > room && !page.lines.is_empty() {
                        return Ok(page);
                    }
                    room = room.saturating_sub(length);
                    page.lines.push(String::from_utf8_lossy(line).trim_end().to_owned());
                }
                number += 1;
            }
        }
        Ok(page)
    }

    /// The bytes of the lines that stand together with this one.
    fn span(&self, number: u64) -> Option<(u64, u64)> {
        let at = usize::try_from((number - 1) / EVERY).ok()?;
        let from = *self.starts.get(at)?;
        Some((from, self.starts.get(at + 1).copied().unwrap_or(self.length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HistoryVolume;

    #[test]
    fn lines_are_found_by_number_while_they_are_added() {
        let dir = tempfile::tempdir().unwrap();
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let mut index = LineIndex::default();
        let (mut length, mut written) = (0, 0);
        for add in [1, 62, 1, 1, 63, 64, 300] {
            let new: Vec<_> =
                (written + 1..=written + add).map(|n| format!("line {n}\n")).collect();
            let text = new.concat();
            written += add;
            let _ = volume.append(&place, length, text.as_bytes()).unwrap();
            length += text.len() as u64;
            assert_eq!(index.refresh(&volume, &place).unwrap(), written);
            for first in [1, 2, 63, 64, 65, 66, 128, 129, written] {
                let page = index.page(&volume, &place, first, (70, 1 << 20)).unwrap();
                let expected: Vec<_> =
                    (first..(first + 70).min(written + 1)).map(|n| format!("line {n}")).collect();
                assert_eq!((page.first, page.lines), (first, expected));
            }
        }
        let page = index.page(&volume, &place, 5, (70, 20)).unwrap();
        assert_eq!(page.lines, ["line 5", "line 6"]);
        let _ = volume.append(&place, length, b"half").unwrap();
        assert_eq!(index.refresh(&volume, &place).unwrap(), written);
        let _ = volume.append(&place, length, b"whole\n").unwrap();
        assert_eq!(index.refresh(&volume, &place).unwrap(), written + 1);
        let page = index.page(&volume, &place, written + 1, (1, 1)).unwrap();
        assert_eq!(page.lines, ["whole"]);
        volume.remove(&place).unwrap();
        assert_eq!(index.refresh(&volume, &place).unwrap(), 0);
        assert_eq!(index.page(&volume, &place, 1, (9, 9)).unwrap().lines, [""; 0]);
    }
}
