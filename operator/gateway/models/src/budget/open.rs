//! Calls whose cost is not known, by the provider's id: those under way, and those whose end nobody
//! here has seen. Pure.
//!
//! A short call is only here, in memory: the money it may cost is granted, and it settles before a
//! record of it would be worth a write. One that lasts is put on record, so that whoever takes over
//! can ask the provider what it cost.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_crds::NanoUsd;
use codebutler_crds::spend::OpenCall;

const LONGEST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRecord {
    /// Role that made the call. Empty in a Repo's book that was found.
    pub role: String,
    pub estimate: NanoUsd,
    pub stage: CallStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStage {
    Brief,
    /// Under way for so long that it is worth a write.
    Long,
    /// The end of the call was not seen: its estimate is part of what is flagged.
    Lost,
    /// As `Lost`, and the provider is being asked.
    Asked,
}

#[derive(Debug, Default)]
pub struct OpenCalls {
    calls: BTreeMap<String, OpenRecord>,
    written: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallListing {
    calls: BTreeMap<String, OpenRecord>,
    before: BTreeSet<String>,
}

impl OpenCalls {
    /// Calls that were found on record: nobody here sees their end.
    pub fn found(calls: impl Iterator<Item = (String, OpenRecord)>) -> Self {
        let calls: BTreeMap<_, _> = calls.collect();
        Self { written: calls.keys().cloned().collect(), calls }
    }

    /// Keeps a call under way by the provider's id. More than `most` are not kept, nor one with an impossible id.
    pub fn begin(&mut self, id: &str, call: OpenRecord, most: usize) {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
        if self.calls.len() < most && (1..=LONGEST).contains(&id.len()) && id.bytes().all(fits) {
            self.calls.entry(id.to_owned()).or_insert(call);
        }
    }

    pub fn set(&mut self, id: &str, stage: CallStage) {
        if let Some(call) = self.calls.get_mut(id) {
            call.stage = stage;
        }
    }

    /// The call is settled, or was not made, or is given up.
    pub fn end(&mut self, id: &str) -> Option<OpenRecord> {
        self.calls.remove(id)
    }

    /// Calls to ask the provider for that nobody asks for yet; from now on somebody does.
    pub fn ask(&mut self) -> Vec<String> {
        let lost = self.calls.iter_mut().filter(|(_, call)| call.stage == CallStage::Lost);
        lost.map(|(id, call)| {
            call.stage = CallStage::Asked;
            id.clone()
        })
        .collect()
    }

    /// Forgets lost calls, which are of no interest any more.
    pub fn forget_lost(&mut self) {
        self.calls.retain(|_, call| matches!(call.stage, CallStage::Brief | CallStage::Long));
    }

    /// Returns true if no calls are open or on record.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.written.is_empty()
    }

    /// Returns true if nothing has to be written.
    pub fn is_written(&self) -> bool {
        let due = |(id, call): (&String, &OpenRecord)| {
            call.stage != CallStage::Brief && !self.written.contains(id)
        };
        !self.calls.iter().any(due) && self.written.iter().all(|id| self.calls.contains_key(id))
    }

    /// Lists the calls to be on record: all there are, since it is written anyway.
    pub fn listing(&self) -> CallListing {
        CallListing { calls: self.calls.clone(), before: self.written.clone() }
    }

    /// Splits the calls into those whose end was not seen, and those under way.
    pub fn parts(&self) -> (CallListing, BTreeMap<String, OpenCall>) {
        let under_way =
            |call: &OpenRecord| matches!(call.stage, CallStage::Brief | CallStage::Long);
        let mut lost = self.listing();
        let mut calls = lost.calls.clone();
        lost.calls.retain(|_, call| !under_way(call));
        calls.retain(|_, call| under_way(call));
        (lost, calls.into_iter().map(|(id, call)| (id, call.on_record())).collect())
    }

    /// Returns the calls except those that are named.
    pub fn without(&self, names: &BTreeSet<String>) -> BTreeMap<String, OpenCall> {
        let calls = self.calls.iter().filter(|(id, _)| !names.contains(*id));
        calls.map(|(id, call)| (id.clone(), call.on_record())).collect()
    }

    /// Takes note of what was written.
    pub fn wrote(&mut self, listing: &CallListing) {
        self.written = listing.calls.keys().cloned().collect();
    }
}

impl OpenRecord {
    /// Returns the form in which the call is on record.
    pub fn on_record(&self) -> OpenCall {
        OpenCall { role: self.role.clone(), estimate: self.estimate }
    }
}

impl CallListing {
    /// Returns the names of the listed calls.
    pub fn names(&self) -> BTreeSet<String> {
        self.calls.keys().cloned().collect()
    }

    /// Writes it into the newest record, once or again. What others wrote there stays.
    pub fn apply<T>(&self, record: &mut BTreeMap<String, T>, form: impl Fn(&OpenRecord) -> T) {
        record.retain(|id, _| self.calls.contains_key(id) || !self.before.contains(id));
        record.extend(self.calls.iter().map(|(id, call)| (id.clone(), form(call))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(stage: CallStage) -> OpenRecord {
        OpenRecord { role: "coder".into(), estimate: NanoUsd(7), stage }
    }

    #[test]
    fn a_short_call_asks_for_no_write_and_a_long_one_for_two() {
        let mut calls = OpenCalls::default();
        calls.begin("gen-1", call(CallStage::Brief), 2);
        assert!(calls.is_written());
        calls.end("gen-1");
        assert!(calls.is_written() && calls.is_empty());

        calls.begin("gen-2", call(CallStage::Brief), 2);
        calls.set("gen-2", CallStage::Long);
        assert!(!calls.is_written());
        let mut record = BTreeMap::from([("of another".to_owned(), NanoUsd(1))]);
        let listing = calls.listing();
        listing.apply(&mut record, |call| call.estimate);
        listing.apply(&mut record, |call| call.estimate);
        assert_eq!(record.len(), 2);
        calls.wrote(&listing);
        assert!(calls.is_written());
        calls.end("gen-2");
        assert!(!calls.is_written());
        calls.listing().apply(&mut record, |call| call.estimate);
        assert_eq!(record.into_keys().collect::<Vec<_>>(), ["of another"]);
    }

    #[test]
    fn what_is_found_is_asked_for_once() {
        let found = [("gen-1".to_owned(), call(CallStage::Lost))];
        let mut calls = OpenCalls::found(found.into_iter());
        assert!(calls.is_written());
        assert_eq!((calls.ask(), calls.ask()), (vec!["gen-1".to_owned()], vec![]));
    }

    #[test]
    fn there_is_an_end_to_ids_and_to_their_number() {
        let mut calls = OpenCalls::default();
        for id in ["", "a b", "a/../b", &"x".repeat(65), "gen-1", "gen-2", "gen-3"] {
            calls.begin(id, call(CallStage::Long), 2);
        }
        assert_eq!(calls.listing().calls.into_keys().collect::<Vec<_>>(), ["gen-1", "gen-2"]);
    }
}
