//! A transcript as a journal that is read from the beginning, as often as it takes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use codebutler_wire::HistoryBatch;
use codebutler_wire::history::MAX_BATCH;
use sha2::{Digest as _, Sha256};

use super::events::EventTeller;
use crate::transcript::{DatedRecord, read_line};

/// Limit of what is read for one batch, in bytes.
const MAX_READ: u64 = 1024 * 1024;

/// A transcript, and how far it was read.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    /// Bytes of the transcript that are durably on the disk.
    synced: u64,
    id: Option<String>,
    offset: u64,
    /// Number of lines before `offset`.
    lines: u64,
    teller: EventTeller,
    /// The number that will be wanted next if all that was read arrived.
    expected: u64,
}

impl JournalFile {
    pub(super) fn new(path: PathBuf) -> Self {
        let (id, teller) = (None, EventTeller::default());
        Self { path, synced: 0, id, offset: 0, lines: 0, teller, expected: 1 }
    }

    /// Records that the transcript is on the disk up to this length.
    pub(super) fn grew(&mut self, synced: u64) {
        self.synced = self.synced.max(synced);
    }

    /// True if a part of the transcript was not read yet.
    pub(super) fn has_more(&self) -> bool {
        self.offset < self.synced
    }

    /// True if everything that is wanted was read and nothing is left.
    pub(super) fn is_settled(&self, wanted: u64) -> bool {
        self.expected == wanted && !self.has_more()
    }

    /// Returns the id of the journal: another one for every transcript. None while it is empty.
    pub(super) fn id(&mut self) -> io::Result<Option<&str>> {
        if self.id.is_none() && self.synced > 0 {
            let mut first = Vec::new();
            BufReader::new(File::open(&self.path)?).read_until(b'\n', &mut first)?;
            self.id = Some(hex::encode(&Sha256::digest(&first)[..8]));
        }
        Ok(self.id.as_deref())
    }

    /// Reads the next batch from the sequence number `wanted` on. It has no events if there were none in what was
    /// read.
    pub(super) fn next(&mut self, wanted: u64) -> io::Result<HistoryBatch> {
        if wanted != self.expected {
            // Something was lost on the way, or is known already.
            (self.offset, self.lines, self.teller) = (0, 0, EventTeller::default());
            self.expected = wanted;
        }
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut lines = BufReader::new(file.take(self.synced.saturating_sub(self.offset)));
        let (mut events, mut line, mut read) = (Vec::new(), Vec::new(), 0);
        while events.len() < MAX_BATCH && read < MAX_READ {
            line.clear();
            let length = lines.read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                break;
            }
            (self.offset, self.lines, read) = (self.offset + length, self.lines + 1, read + length);
            let Some(DatedRecord { at, record }) = read_line(&line) else { continue };
            let told = self.teller.tell(self.lines, at, record);
            events.extend(told.filter(|told| told.seq >= wanted));
        }
        if let Some(last) = events.last() {
            self.expected = last.seq + 1;
        }
        let journal = self.id()?.unwrap_or_default().to_owned();
        Ok(HistoryBatch { journal, from: wanted, events })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{OpenTranscript, TranscriptRecord};
    use codebutler_wire::history::ToldEntry;

    fn record(n: u32) -> TranscriptRecord {
        match n % 4 {
            0 => TranscriptRecord::RunStarted { run: format!("r{n}"), at: 1, brief: false },
            1 => TranscriptRecord::Blind { newest: vec![], why: String::new() },
            2 => TranscriptRecord::Note { text: n.to_string() },
            _ => TranscriptRecord::Escalated { model: format!("m{n}") },
        }
    }

    /// Everything that a gateway keeps, each entry once.
    #[derive(Default)]
    struct Kept(Vec<ToldEntry>);

    impl Kept {
        fn wanted(&self) -> u64 {
            self.0.last().map_or(1, |told| told.seq + 1)
        }

        fn take(&mut self, batch: HistoryBatch) {
            let wanted = self.wanted();
            if batch.from <= wanted {
                self.0.extend(batch.events.into_iter().filter(|told| told.seq >= wanted));
            }
        }
    }

    #[test]
    fn a_thousand_cuts_lose_and_double_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut transcript = OpenTranscript::open(dir.path(), "pm").unwrap();
        let path = dir.path().join("pm/transcript.jsonl");
        let (mut journal, mut kept, mut cuts, mut n) =
            (JournalFile::new(path.clone()), Kept::default(), 0, 0);
        while cuts < 1000 || journal.has_more() || kept.wanted() <= 3000 {
            if n < 3001 {
                for _ in 0..rand::random_range(1..9) {
                    transcript.append(&record(n)).unwrap();
                    n += 1;
                }
            }
            journal.grew(transcript.length());
            let wanted = kept.wanted();
            let batch = journal.next(wanted).unwrap();
            cuts += 1;
            match rand::random_range(0..5) {
                // The request is lost, or whoever sends dies.
                0 => continue,
                1 => journal = JournalFile::new(path.clone()),
                2 => {
                    // It arrives twice.
                    kept.take(batch.clone());
                    kept.take(batch);
                }
                _ => kept.take(batch),
            }
            if n >= 3001 && journal.is_settled(kept.wanted()) {
                break;
            }
        }
        let mut teller = EventTeller::default();
        let all = std::fs::read(&path).unwrap();
        let all = all.split_inclusive(|byte| *byte == b'\n').zip(1..);
        let all: Vec<_> = all
            .filter_map(|(line, seq)| {
                let DatedRecord { at, record } = read_line(line)?;
                teller.tell(seq, at, record)
            })
            .collect();
        assert!(all.len() > 2000 && cuts > 300, "{} {cuts}", all.len());
        assert_eq!(kept.0, all);
    }
}
