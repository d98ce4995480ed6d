//! Tracks what one history holds already, so that nothing is in it twice and nothing is left out.
//! Pure.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use codebutler_wire::history::{
    GATEWAY, HistoryEvent, HistoryLine, MAX_JOURNALS, MAX_LINE, ToldEntry, VERSION,
};
use serde::Deserialize;

/// Fields of a line that decide whether it is there already.
#[derive(Deserialize)]
struct LineHead {
    #[serde(default)]
    at: u64,
    source: String,
    #[serde(default)]
    seq: Option<u64>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    event: String,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    whole: bool,
}

/// Text in front of an event in its line.
const EVENT: &[u8] = b",\"event\":";

/// Reason why a batch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedBatch {
    /// The batch begins after the number that is wanted next.
    Gap,
    /// The batch's numbers don't grow.
    Order,
    /// The role has as many journals as it may have.
    Journals,
}

/// Contents of a history, as far as they decide about new lines.
#[derive(Clone, Debug, Default)]
pub struct HistoryLog {
    length: u64,
    lines: u64,
    next: BTreeMap<String, u64>,
    keys: HashSet<u64>,
    /// UID of the Thread that the newest lines are of, where that is told.
    uid: Option<String>,
    /// UIDs of those of the same name before.
    gone: HashSet<String>,
    /// Time at which the conversation was first told to be opened.
    opened: Option<u64>,
}

impl HistoryLog {
    /// Takes in what is kept. Only whole lines count: the rest was not finished.
    pub fn read(&mut self, text: &[u8]) -> usize {
        let mut taken = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            taken += line.len();
            self.lines += 1;
            // A line that nobody can read counts as a line.
            if let Ok(head) = serde_json::from_slice::<LineHead>(line) {
                self.know_head(head);
            }
        }
        self.length += taken as u64;
        taken
    }

    /// Passes over a line that is too long to be read, of which this is the head.
    pub fn pass(&mut self, bytes: u64, head: &[u8]) {
        self.length += bytes;
        self.lines += 1;
        let told = memchr::memmem::find(head, EVENT).unwrap_or_default();
        let whole = [&head[..told], b"}"].concat();
        if let Ok(head) = serde_json::from_slice::<LineHead>(&whole) {
            self.know_head(head);
        }
    }

    /// The text that says which Thread object follows, made at such a time; nothing if that is said. False
    /// for one that another one of its name has followed already.
    pub fn begin(&mut self, (uid, made): (&str, u64), at: u64, into: &mut Vec<u8>) -> bool {
        if self.uid.as_deref() == Some(uid) || self.gone.contains(uid) {
            return !self.gone.contains(uid);
        }
        // Nothing was told of UIDs before: what was opened since is its own.
        let whole = self.uid.is_none() && self.opened.is_none_or(|opened| opened >= made);
        let (source, key) = (GATEWAY.to_owned(), Some(format!("begun:{uid}")));
        let event = HistoryEvent::Begun { uid: uid.to_owned(), whole };
        let line =
            HistoryLine { v: VERSION, at, source, seq: None, key, role: None, run: None, event };
        self.follow(uid, whole);
        self.add(&line, into);
        true
    }

    /// Begins the lines of another Thread: what the one before told under the same keys is told
    /// again, and its journals are not gone on with.
    fn follow(&mut self, uid: &str, whole: bool) {
        self.gone.extend(self.uid.replace(uid.to_owned()));
        self.gone.remove(uid);
        if !whole {
            self.keys.clear();
            self.next.clear();
        }
    }

    /// Returns the bytes of its whole lines.
    pub const fn length(&self) -> u64 {
        self.length
    }

    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// The numbers that are wanted next of the sources that begin with `prefix`, by the rest of their
    /// names.
    pub fn next_of(&self, prefix: &str) -> BTreeMap<String, u64> {
        let own = self
            .next
            .iter()
            .filter_map(|(source, next)| Some((source.strip_prefix(prefix)?.to_owned(), *next)));
        own.collect()
    }

    /// Returns true if the gateway told this already.
    pub fn has(&self, key: &str) -> bool {
        self.keys.contains(&hash_key(key))
    }

    /// The text of something that the gateway tells; nothing if it did.
    pub fn tell(&mut self, line: &HistoryLine, into: &mut Vec<u8>) {
        let known = line.key.as_deref().is_some_and(|key| self.has(key));
        if !known {
            self.add(line, into);
        }
    }

    /// The text of what an agent's journal says next, without what is known.
    ///
    /// # Errors
    /// When it can't be told whether something is left out.
    pub fn take(
        &mut self,
        (source, role): (&str, &str),
        from: u64,
        events: &[ToldEntry],
        into: &mut Vec<u8>,
    ) -> Result<(), RefusedBatch> {
        if !self.next.contains_key(source) {
            let role = source.rfind('/').map_or(source, |end| &source[..=end]);
            let own = self.next.keys().filter(|known| known.starts_with(role)).count();
            if own >= MAX_JOURNALS {
                return Err(RefusedBatch::Journals);
            }
        }
        let wanted = self.next.get(source).copied().unwrap_or(1);
        if from > wanted {
            return Err(RefusedBatch::Gap);
        }
        if !events.is_sorted_by(|a, b| a.seq < b.seq) || events.iter().any(|told| told.seq < from) {
            return Err(RefusedBatch::Order);
        }
        for ToldEntry { seq, at, run, event } in
            events.iter().filter(|told| told.seq >= wanted).cloned()
        {
            let (seq, key, role) = (Some(seq), None, Some(role.to_owned()));
            let source = source.to_owned();
            self.add(&HistoryLine { v: VERSION, at, source, seq, key, role, run, event }, into);
        }
        Ok(())
    }

    fn add(&mut self, line: &HistoryLine, into: &mut Vec<u8>) {
        let before = into.len();
        if serde_json::to_writer(&mut *into, line).is_err() {
            into.truncate(before);
            return;
        }
        into.push(b'\n');
        let bytes = into.len() - before;
        if bytes > MAX_LINE {
            into.truncate(before);
            let text = format!("An event of {bytes} bytes was too long to be kept.");
            let event = HistoryEvent::Note { text };
            return self.add(&HistoryLine { event, ..line.clone() }, into);
        }
        self.length += (into.len() - before) as u64;
        self.lines += 1;
        self.know(&line.source, line.seq, line.key.as_deref());
    }

    fn know_head(&mut self, head: LineHead) {
        if head.source == GATEWAY && head.event == "opened" && self.opened.is_none() {
            self.opened = Some(head.at);
        }
        if let Some(uid) = head.uid.filter(|_| head.source == GATEWAY && head.event == "begun") {
            self.follow(&uid, head.whole);
        }
        self.know(&head.source, head.seq, head.key.as_deref());
    }

    fn know(&mut self, source: &str, seq: Option<u64>, key: Option<&str>) {
        if source == GATEWAY {
            self.keys.extend(key.map(hash_key));
        } else if let Some(seq) = seq {
            let next = self.next.entry(source.to_owned()).or_insert(1);
            *next = (*next).max(seq.saturating_add(1));
        }
    }
}

fn hash_key(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistoryStore as _, HistoryVolume, ThreadPlace};
    use codebutler_wire::history::HistoryEvent;

    fn told(seq: u64) -> ToldEntry {
        ToldEntry { seq, at: seq, run: None, event: HistoryEvent::Note { text: seq.to_string() } }
    }

    fn spoken(key: u64) -> HistoryLine {
        let event = HistoryEvent::Note { text: key.to_string() };
        let (source, key) = (GATEWAY.to_owned(), Some(key.to_string()));
        HistoryLine { v: VERSION, at: 1, source, seq: None, key, role: None, run: None, event }
    }

    #[test]
    fn a_thousand_random_cuts_lose_and_double_no_event() {
        let dir = tempfile::tempdir().unwrap();
        let place = ThreadPlace::new("team", "shop-1").unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let mut log = HistoryLog::default();
        let (mut key, mut cuts) = (0, 0);
        // Entries without an event have numbers too.
        let journal: Vec<_> = (1..=6000).filter(|n| n % 3 != 0).map(told).collect();
        let wanted = |log: &HistoryLog| log.next_of("agent/pm/").get("j").copied().unwrap_or(1);
        while wanted(&log) < 6000 || cuts < 1000 {
            let (from, length) = (wanted(&log), log.length());
            let mut text = Vec::new();
            // Events that were not acknowledged are sent again, together with newer ones.
            let again = from.saturating_sub(rand::random_range(0..9)).max(1);
            let events = journal.iter().filter(|told| told.seq >= again);
            let events: Vec<_> = events.take(rand::random_range(1..12)).cloned().collect();
            log.take(("agent/pm/j", "pm"), again, &events, &mut text).unwrap();
            for key in [key, key] {
                log.tell(&spoken(key), &mut text);
            }
            key += 1;
            // The process dies within a write: the file has any beginning of it.
            let cut = if rand::random_range(0..3) == 0 {
                text.len()
            } else {
                rand::random_range(0..=text.len())
            };
            assert!(volume.append(&place, length, &text[..cut]).unwrap());
            if cut < text.len() {
                cuts += 1;
                key -= 1;
                log = HistoryLog::default();
                log.read(&volume.read(&place, 0, u64::MAX).unwrap());
                if log.has(&key.to_string()) {
                    key += 1;
                }
            }
        }
        let text = volume.read(&place, 0, log.length()).unwrap();
        let lines: Vec<HistoryLine> = text
            .split_inclusive(|b| *b == b'\n')
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect();
        let seqs: Vec<_> = lines.iter().filter_map(|line| line.seq).collect();
        assert_eq!(seqs, journal.iter().map(|told| told.seq).collect::<Vec<_>>());
        let keys: Vec<_> = lines.iter().filter_map(|line| line.key.clone()).collect();
        assert_eq!(keys, (0..key).map(|key| key.to_string()).collect::<Vec<_>>());
        assert_eq!(log.lines(), lines.len() as u64);
        assert!(cuts >= 1000);
    }

    #[test]
    fn a_gap_and_a_mess_are_refused() {
        let (mut log, mut text) = (HistoryLog::default(), Vec::new());
        let of = ("agent/pm/j", "pm");
        log.take(of, 1, &[told(1), told(4)], &mut text).unwrap();
        assert_eq!(log.take(of, 6, &[told(7)], &mut text), Err(RefusedBatch::Gap));
        assert_eq!(log.take(of, 5, &[told(7), told(6)], &mut text), Err(RefusedBatch::Order));
        assert_eq!(log.take(of, 5, &[told(4)], &mut text), Err(RefusedBatch::Order));
        log.take(of, 5, &[told(9)], &mut text).unwrap();
        assert_eq!(log.next_of("agent/pm/"), BTreeMap::from([("j".to_owned(), 10)]));
        assert!(log.next_of("agent/coder/").is_empty());
    }

    #[test]
    fn the_highest_number_there_is_stops_nothing() {
        let (mut log, mut text) = (HistoryLog::default(), Vec::new());
        let of = ("agent/pm/j", "pm");
        log.take(of, 1, &[told(u64::MAX)], &mut text).unwrap();
        assert_eq!(log.next_of("agent/pm/"), BTreeMap::from([("j".to_owned(), u64::MAX)]));
        let mut again = HistoryLog::default();
        again.read(&text);
        assert_eq!(again.next_of("agent/pm/"), log.next_of("agent/pm/"));
    }

    #[test]
    fn what_was_told_before_there_were_uids_is_the_own_of_who_was_there_then() {
        let opened = |at: u64| {
            let event =
                HistoryEvent::Opened { repo: "shop".into(), channel: "C1".into(), by: None };
            let (source, key) = (GATEWAY.to_owned(), Some("opened:C1".to_owned()));
            HistoryLine { v: VERSION, at, source, seq: None, key, role: None, run: None, event }
        };
        for (made, whole) in [(50, true), (51, false)] {
            let (mut log, mut text) = (HistoryLog::default(), Vec::new());
            log.tell(&opened(50), &mut text);
            let mut log = HistoryLog::default();
            log.read(&text);
            assert!(log.begin(("uid", made), 60, &mut text));
            let line = text.split_inclusive(|byte| *byte == b'\n').next_back().unwrap();
            let line: HistoryLine = serde_json::from_slice(line).unwrap();
            assert_eq!(line.event, HistoryEvent::Begun { uid: "uid".into(), whole });
            // Events are told again to a history that has none of them.
            assert_eq!(log.has("opened:C1"), whole);
        }
    }

    #[test]
    fn an_event_that_is_too_long_is_a_line_all_the_same() {
        let (mut log, mut text) = (HistoryLog::default(), Vec::new());
        let event = HistoryEvent::Note { text: "x".repeat(MAX_LINE) };
        let entry = ToldEntry { seq: 3, at: 1, run: None, event };
        log.take(("agent/pm/j", "pm"), 1, &[entry], &mut text).unwrap();
        assert!(text.len() < 1000 && text.windows(8).any(|part| part == b"too long"));
        assert_eq!(log.next_of("agent/pm/"), BTreeMap::from([("j".to_owned(), 4)]));
    }
}
