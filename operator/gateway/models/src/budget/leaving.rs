//! Calls that outlast the right to act of the gateway that makes them. What it has granted them it takes
//! out of the books into an entry of its own, which it alone writes from then on; whoever keeps the books
//! counts the entry as spent, and takes it over when it is final, or its gateway can't be alive. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_crds::spend::LeavingGateway;
use codebutler_crds::thread::TokenUsage;
use tokio::time::Instant;

/// Longest lag of the watch cache behind what was read.
const LAG: Duration = Duration::from_secs(10);

/// Entries by the name of their gateway, as they are on record.
pub type LeavingEntries = BTreeMap<String, LeavingGateway>;

/// Spend of other gateways that leave, with calls still under way.
#[derive(Debug, Default)]
pub struct SpentElsewhere {
    known: BTreeMap<String, KnownLeaving>,
    /// Taken into the books, and on record still.
    taken: LeavingEntries,
    /// Names of entries off the record: a copy that shows them is behind, and must not be believed.
    gone: BTreeSet<String>,
}

#[derive(Debug)]
struct KnownLeaving {
    entry: LeavingGateway,
    /// Time at which the entry was first seen.
    since: Instant,
}

impl KnownLeaving {
    /// Returns true if the entry is final, or the gateway that could write it can't be alive.
    fn is_over(&self, now: Instant) -> bool {
        let patience = Duration::from_secs(self.entry.seconds.into());
        self.entry.seconds == 0 || now.duration_since(self.since) > patience
    }
}

impl SpentElsewhere {
    /// Takes in what a copy of the record says, which may be behind.
    pub fn look(&mut self, copy: &LeavingEntries, now: Instant) {
        for (name, entry) in copy {
            if self.taken.contains_key(name) || self.gone.contains(name) {
                continue;
            }
            let fresh = || KnownLeaving { entry: entry.clone(), since: now };
            let known = self.known.entry(name.clone()).or_insert_with(fresh);
            if known.entry.seconds > 0 {
                known.entry = entry.clone();
            }
        }
        let lags = |known: &KnownLeaving| now.duration_since(known.since) < LAG;
        self.known.retain(|name, known| copy.contains_key(name) || lags(known));
    }

    /// Returns true if there seem to be entries that nobody writes any more: then the record is to
    /// be read.
    pub fn is_due(&self, now: Instant) -> bool {
        self.known.values().any(|known| known.is_over(now))
    }

    /// The entries of the record, as it is this moment, that nobody writes any more: each is handed out
    /// once, to be taken into the books.
    pub fn take(&mut self, record: &LeavingEntries, now: Instant) -> Vec<LeavingGateway> {
        self.look(record, now);
        self.known.retain(|name, known| {
            record.get(name).is_some_and(|entry| {
                known.entry.clone_from(entry);
                true
            })
        });
        let due = self.known.extract_if(.., |_, known| known.is_over(now));
        let due: LeavingEntries = due.map(|(name, known)| (name, known.entry)).collect();
        self.taken.extend(due.clone());
        due.into_values().collect()
    }

    /// Puts an entry back whose gateway has written once more although its time was over: it is not
    /// to be in the books, and is heard of anew.
    pub fn put_back(&mut self, name: &str) -> Option<LeavingGateway> {
        self.taken.remove(name)
    }

    /// Returns the entries to remove from the record.
    pub fn taken(&self) -> LeavingEntries {
        self.taken.clone()
    }

    /// Notes the entries that were removed from the record.
    pub fn wrote(&mut self, gone: &LeavingEntries) {
        self.taken.retain(|name, _| !gone.contains_key(name));
        self.gone.extend(gone.keys().cloned());
    }

    /// Money of calls under way there.
    pub fn money(&self) -> NanoUsd {
        self.known.values().map(|known| known.entry.granted + known.entry.settled).sum()
    }

    /// The part of it that is charged to a person.
    pub fn money_of(&self, user: &str) -> NanoUsd {
        let spent = self.known.values().filter_map(|known| known.entry.people.get(user));
        spent.map(|spent| spent.granted + spent.settled).sum()
    }

    /// Returns true if no entries are left.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.taken.is_empty()
    }

    /// Returns true if the record is as it should be.
    pub fn is_written(&self) -> bool {
        self.taken.is_empty()
    }
}

/// Role of a ledger in keeping the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LedgerOffice {
    /// This ledger keeps the books.
    #[default]
    Held,
    /// This ledger hands them over, with so many seconds for calls under way.
    Leaving(u32),
    /// Another one keeps them: this ledger writes what it has taken out, and nothing else.
    Left(u32),
}

/// State of a book when it was handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeavingBase {
    /// Amount billed.
    pub settled: NanoUsd,
    /// Amount that counts as spent although the bill is not known.
    pub flagged: NanoUsd,
    /// Usage of each role.
    pub usage: BTreeMap<String, TokenUsage>,
    /// Calls whose end was not seen.
    pub lost: BTreeSet<String>,
}

/// State of a book's handover.
#[derive(Debug, Default)]
pub enum BookHandover {
    /// The book was not handed over.
    #[default]
    No,
    /// The book was handed over in this state.
    As(LeavingBase),
    /// The book was handed over, and nothing is left to write.
    Done,
}

/// Reason why something was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteClash {
    /// This gateway's own entry is gone: the gateway that keeps the books has taken it over.
    Taken,
    /// Another one's entry, which is named, is not as it was taken into the books.
    Moved(String),
    /// Somebody else keeps the books by now.
    Late,
}

/// Takes what is in the books out of the record.
///
/// # Errors
/// When it is not what is in the books.
pub fn take_out(record: &mut LeavingEntries, taken: &LeavingEntries) -> Result<(), WriteClash> {
    for (name, entry) in taken {
        // A missing entry was taken out by an earlier attempt: nobody else may.
        if record.get(name).is_some_and(|found| found != entry) {
            return Err(WriteClash::Moved(name.clone()));
        }
    }
    record.retain(|name, _| !taken.contains_key(name));
    Ok(())
}

/// Writes what a gateway that leaves says of its calls now.
///
/// # Errors
/// When it has no say any more.
pub fn put_entry(
    record: &mut LeavingEntries,
    name: &str,
    entry: &LeavingGateway,
) -> Result<(), WriteClash> {
    let known = record.get_mut(name).ok_or(WriteClash::Taken)?;
    if *entry == LeavingGateway::default() {
        record.remove(name);
    } else {
        known.clone_from(entry);
    }
    Ok(())
}

/// Returns the usage in `new` beyond `base`, by role.
pub fn usage_beyond(
    base: &BTreeMap<String, TokenUsage>,
    new: &BTreeMap<String, TokenUsage>,
) -> BTreeMap<String, TokenUsage> {
    let more = new.iter().map(|(role, new)| {
        let base = base.get(role).copied().unwrap_or_default();
        (role.clone(), usage_difference(*new, base))
    });
    more.filter(|(_, usage)| *usage != TokenUsage::default()).collect()
}

/// Subtracts `base` from `new`.
pub fn usage_difference(new: TokenUsage, base: TokenUsage) -> TokenUsage {
    TokenUsage {
        cost: new.cost.less(base.cost),
        prompt_tokens: new.prompt_tokens.saturating_sub(base.prompt_tokens),
        completion_tokens: new.completion_tokens.saturating_sub(base.completion_tokens),
        cached_tokens: new.cached_tokens.saturating_sub(base.cached_tokens),
        written_tokens: new.written_tokens.saturating_sub(base.written_tokens),
        reasoning_tokens: new.reasoning_tokens.saturating_sub(base.reasoning_tokens),
        calls: new.calls.saturating_sub(base.calls),
    }
}
