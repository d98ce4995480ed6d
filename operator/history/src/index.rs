//! Finds the lines of a history by their numbers, while it grows, without keeping them.

use std::io;

use codebutler_wire::history::{GATEWAY, HistoryEvent, HistoryLine};

use crate::lines::{KeptLine, LineWalk};
use crate::{HistoryStore, ThreadPlace};

/// Interval of lines whose place is kept.
const EVERY: u64 = 64;
/// Text within a line that says which Thread follows.
const BEGUN: &[u8] = b"\"event\":\"begun\"";

/// Index of the lines of one history.
#[derive(Clone, Debug, Default)]
pub struct LineIndex {
    /// Byte offsets of lines 1, 65, 129 and so on.
    starts: Vec<u64>,
    lines: u64,
    length: u64,
    begun: Vec<ThreadBegin>,
}

/// Beginning of the lines of one Thread object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadBegin {
    pub uid: String,
    /// Number of its first line.
    pub line: u64,
    /// Byte offset of that line.
    pub byte: u64,
}

/// A range of lines of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinePage {
    /// Number of the first line.
    pub first: u64,
    /// Lines; one that is too long to be read is empty.
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
        let mut walk = LineWalk::new(store, place, self.length);
        while self.length < length
            && let Some(line) = walk.next_line()?
        {
            if self.lines.is_multiple_of(EVERY) {
                self.starts.push(self.length);
            }
            self.lines += 1;
            match line {
                KeptLine::Whole(at, text) => {
                    self.hear_begun(at, &text);
                    self.length = at + text.len() as u64;
                }
                KeptLine::Long(at, bytes, _) => self.length = at + bytes,
            }
        }
        Ok(self.lines)
    }

    fn hear_begun(&mut self, at: u64, text: &[u8]) {
        if memchr::memmem::find(text, BEGUN).is_none() {
            return;
        }
        let Ok(line) = serde_json::from_slice::<HistoryLine>(text) else { return };
        if let HistoryEvent::Begun { uid, whole } = line.event
            && line.source == GATEWAY
        {
            let (line, byte) = if whole { (1, 0) } else { (self.lines, at) };
            self.begun.push(ThreadBegin { uid, line, byte });
        }
    }

    /// Returns the Thread object that the newest lines are of, where that is told.
    pub fn begun(&self) -> Option<&ThreadBegin> {
        self.begun.last()
    }

    /// Returns the number of lines at the last look.
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
        if end <= first {
            return Ok(page);
        }
        let (mut number, mut room) = (first - (first - 1) % EVERY, bytes);
        let Some(from) = self.group(number) else { return Ok(page) };
        let mut walk = LineWalk::new(store, place, from);
        while number < end
            && let Some(line) = walk.next_line()?
        {
            number += 1;
            if number <= first {
                continue;
            }
            let text = match line {
                KeptLine::Whole(_, text) => text,
                KeptLine::Long(..) => Vec::new(),
            };
            let length = text.len() as u64;
            if length > room && !page.lines.is_empty() {
                return Ok(page);
            }
            room = room.saturating_sub(length);
            page.lines.push(String::from_utf8_lossy(&text).trim_end().to_owned());
        }
        Ok(page)
    }

    /// Returns the byte offset of the group of lines that contains this one.
    fn group(&self, number: u64) -> Option<u64> {
        self.starts.get(usize::try_from((number - 1) / EVERY).ok()?).copied()
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

    #[test]
    fn what_stands_behind_a_long_line_is_found_and_the_long_one_is_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let long = "x".repeat(5 << 20);
        let text = format!("one\n{long}\nthree\n{long}{long}\nfive\n");
        assert!(volume.append(&place, 0, text.as_bytes()).unwrap());
        let mut index = LineIndex::default();
        assert_eq!(index.refresh(&volume, &place).unwrap(), 5);
        let page = index.page(&volume, &place, 1, (9, 1 << 20)).unwrap();
        assert_eq!(page.lines, ["one", "", "three", "", "five"]);
        assert_eq!(index.page(&volume, &place, 5, (9, 9)).unwrap().lines, ["five"]);
    }

    #[test]
    fn a_thread_of_the_same_name_has_lines_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let line = |source: &str, event: HistoryEvent| {
            let source = source.to_owned();
            let (seq, key, role, run) = (None, None, None, None);
            let line = HistoryLine { v: 1, at: 1, source, seq, key, role, run, event };
            serde_json::to_string(&line).unwrap() + "\n"
        };
        let begun = |uid: &str| HistoryEvent::Begun { uid: uid.into(), whole: false };
        let note = |text: &str| HistoryEvent::Note { text: text.into() };
        let first = [line(GATEWAY, begun("one")), line(GATEWAY, note("private"))].concat();
        let text = [
            &first,
            &line(GATEWAY, begun("other")),
            // An agent's word for it counts for nothing.
            &line("agent/pm/j", begun("third")),
            &line("agent/pm/j", note("\"event\":\"begun\"")),
        ];
        let text = text.map(String::as_str).concat();
        assert!(volume.append(&place, 0, text.as_bytes()).unwrap());
        let mut index = LineIndex::default();
        index.refresh(&volume, &place).unwrap();
        let (uid, byte) = ("other".to_owned(), first.len() as u64);
        assert_eq!(index.begun(), Some(&ThreadBegin { uid, line: 3, byte }));
    }
}
