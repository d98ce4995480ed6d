//! One pot of money with a cap: a Thread's, or a Repo's for a day. Pure.
//!
//! A call reserves its estimate before it is forwarded and settles what was billed afterwards. What
//! is reserved has to be covered by a written grant before the money is spent, so that a successor
//! knows of it whatever happens to this process.

use codebutler_crds::NanoUsd;

/// Writes of unknown outcome that are remembered.
const MOST_TRIED: usize = 32;

/// Spend on record at the API server, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenSpend {
    /// Amount billed.
    pub settled: NanoUsd,
    /// Amount that counts as spent although the bill is not known.
    pub flagged: NanoUsd,
    pub granted: NanoUsd,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendAccount {
    settled: NanoUsd,
    flagged: NanoUsd,
    reserved: NanoUsd,
    /// Calls under way: some cost nothing.
    calls: u32,
    written: WrittenSpend,
    /// Amounts billed of writes whose outcome is not known: one of them may be on record.
    tried: Vec<NanoUsd>,
    /// Spend of calls that another gateway, which leaves, still makes.
    elsewhere: NanoUsd,
    /// Granted beyond what is reserved, so that not every call of a busy pot has to wait.
    chunk: NanoUsd,
}

impl SpendAccount {
    /// A pot as it was found. A grant in it is another holder's: what it was spent on is unknown.
    pub fn found(settled: NanoUsd, flagged: NanoUsd, granted_to_another: NanoUsd) -> Self {
        let flagged = flagged + granted_to_another;
        let written = WrittenSpend { settled, flagged, granted: NanoUsd::ZERO };
        Self { settled, flagged, written, ..Self::default() }
    }

    /// Billed, and counted as if it were.
    pub fn used(&self) -> NanoUsd {
        self.settled + self.flagged
    }

    /// Returns the amount billed.
    pub const fn settled(&self) -> NanoUsd {
        self.settled
    }

    /// Returns the amount that counts as spent although the bill is not known.
    pub const fn flagged(&self) -> NanoUsd {
        self.flagged
    }

    /// Used, and what calls under way may cost.
    pub fn committed(&self) -> NanoUsd {
        self.used() + self.reserved + self.elsewhere
    }

    /// Returns true if a call may be let through. A free call is no matter of money: a pot that is
    /// used up does not stop it.
    pub fn allows(&self, estimate: NanoUsd, cap: Option<NanoUsd>) -> bool {
        estimate == NanoUsd::ZERO || cap.is_none_or(|cap| self.committed() + estimate <= cap)
    }

    /// Reserves the estimate of a call that begins.
    pub fn reserve(&mut self, estimate: NanoUsd) {
        self.reserved += estimate;
        self.calls = self.calls.saturating_add(1);
    }

    /// Releases the reservation of a call that was not made.
    pub fn release(&mut self, estimate: NanoUsd) {
        self.reserved = self.reserved.less(estimate);
        self.calls = self.calls.saturating_sub(1);
    }

    /// Replaces the reservation of a call by its bill.
    pub fn settle(&mut self, estimate: NanoUsd, billed: NanoUsd) {
        self.release(estimate);
        self.settled += billed;
    }

    /// Counts the estimate as spent: the call was made, and nobody knows what was billed.
    pub fn flag(&mut self, estimate: NanoUsd) {
        self.release(estimate);
        self.flagged += estimate;
    }

    /// Adds an amount that came to light and is on record as flagged already.
    pub fn flag_more(&mut self, amount: NanoUsd) {
        self.flagged += amount;
        self.written.flagged += amount;
    }

    /// Counts what calls may cost that are under way elsewhere.
    pub const fn expect(&mut self, elsewhere: NanoUsd) {
        self.elsewhere = elsewhere;
    }

    /// Calls that were made elsewhere, billed or not.
    pub fn adopt(&mut self, settled: NanoUsd, flagged: NanoUsd) {
        self.settled += settled;
        self.flagged += flagged;
    }

    /// Takes calls out of the account as if they had not been made.
    pub fn disown(&mut self, settled: NanoUsd, flagged: NanoUsd) {
        self.settled = self.settled.less(settled);
        self.flagged = self.flagged.less(flagged);
    }

    /// Replaces a flagged estimate by the bill that is known after all.
    pub fn reconcile(&mut self, estimate: NanoUsd, billed: NanoUsd) {
        self.flagged = self.flagged.less(estimate);
        self.settled += billed;
    }

    /// Returns true if everything that may be spent now is on record.
    pub fn is_covered(&self) -> bool {
        let WrittenSpend { settled, flagged, granted } = self.written;
        self.used() + self.reserved <= settled + flagged + granted
    }

    /// Returns true if no calls are under way.
    pub const fn is_idle(&self) -> bool {
        self.calls == 0
    }

    /// A call had to wait for a grant although there was one a moment ago: grant more at a time.
    pub fn grow(&mut self, estimate: NanoUsd) {
        let least = estimate + estimate + estimate + estimate;
        self.chunk = (self.chunk + self.chunk).max(least);
    }

    /// Drops the spare grant, after a while without calls.
    pub fn calm(&mut self) {
        self.chunk = NanoUsd::ZERO;
    }

    /// Computes what is to be written now. A chunk never reaches beyond the cap.
    pub fn wanted(&self, cap: Option<NanoUsd>) -> WrittenSpend {
        let free = cap.map(|cap| cap.less(self.used() + self.reserved + self.elsewhere));
        let chunk = free.map_or(self.chunk, |free| self.chunk.min(free));
        let granted = self.reserved + chunk;
        WrittenSpend { settled: self.settled, flagged: self.flagged, granted }
    }

    /// Notes that a write begins: until its outcome is known, this may be on record.
    pub fn tries(&mut self, settled: NanoUsd) {
        if settled != self.written.settled {
            note_tried(&mut self.tried, settled);
        }
    }

    /// Amounts that may be on record instead of the one that is known to be.
    pub fn tried(&self) -> Vec<NanoUsd> {
        self.tried.clone()
    }

    pub fn wrote(&mut self, written: WrittenSpend) {
        self.written = written;
        self.tried.clear();
    }

    /// Returns the spend on record, as far as is known.
    pub const fn written(&self) -> WrittenSpend {
        self.written
    }

    /// A new day: nothing is spent yet, and what is under way is settled today.
    pub fn begin_day(&mut self) {
        (self.settled, self.flagged) = (NanoUsd::ZERO, NanoUsd::ZERO);
        self.written = WrittenSpend::default();
        self.tried.clear();
    }
}

/// `now` with what leads from `base` to `new` in it. If `now` is `new`, or one of what was `tried`, an earlier attempt
/// got through and only its answer was lost.
pub fn merge_money(now: NanoUsd, (base, tried): (NanoUsd, &[NanoUsd]), new: NanoUsd) -> NanoUsd {
    if now == base || now == new || tried.contains(&now) { new } else { now + new.less(base) }
}

/// Adds what a write is to put on record to what earlier ones were, whose outcome is not known. Most likely the first
/// of many has got through, or the last.
pub fn note_tried<T: PartialEq>(tried: &mut Vec<T>, value: T) {
    if tried.contains(&value) {
        return;
    }
    if tried.len() == MOST_TRIED {
        tried.remove(MOST_TRIED / 2);
    }
    tried.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn usd(cents: u64) -> NanoUsd {
        NanoUsd(cents * 10_000_000)
    }

    #[test]
    fn parallel_calls_cannot_pass_a_cap_together() {
        let mut pot = SpendAccount::found(usd(40), NanoUsd::ZERO, NanoUsd::ZERO);
        let cap = Some(usd(100));
        let mut taken = 0;
        while pot.allows(usd(25), cap) {
            pot.reserve(usd(25));
            taken += 1;
        }
        assert_eq!(taken, 2);
        pot.settle(usd(25), usd(5));
        assert!(pot.allows(usd(25), cap));
        pot.settle(usd(25), usd(70));
        assert_eq!(pot.used(), usd(115));
        assert!(!pot.allows(NanoUsd(1), cap), "used up");
        assert!(pot.allows(NanoUsd::ZERO, cap), "what costs nothing goes on");
        assert!(pot.allows(usd(900), None));
    }

    #[test]
    fn nothing_is_spent_that_is_not_written() {
        let mut pot = SpendAccount::default();
        assert!(pot.is_covered());
        pot.reserve(usd(10));
        assert!(!pot.is_covered());
        pot.wrote(pot.wanted(None));
        assert!(pot.is_covered());
        pot.settle(usd(10), usd(4));
        pot.reserve(usd(6));
        assert!(pot.is_covered(), "the rest of a grant is used up first");
        pot.reserve(usd(1));
        assert!(!pot.is_covered());
        assert_eq!(pot.written(), WrittenSpend { granted: usd(10), ..WrittenSpend::default() });
        assert_eq!(
            pot.wanted(None),
            WrittenSpend { settled: usd(4), flagged: NanoUsd::ZERO, granted: usd(7) }
        );
    }

    #[test]
    fn a_busy_pot_is_granted_more_at_a_time_and_never_beyond_its_cap() {
        let mut pot = SpendAccount::default();
        pot.reserve(usd(1));
        pot.grow(usd(1));
        assert_eq!(pot.wanted(None).granted, usd(5));
        pot.grow(usd(1));
        assert_eq!(pot.wanted(None).granted, usd(9));
        assert_eq!(pot.wanted(Some(usd(3))).granted, usd(3));
        pot.calm();
        assert_eq!(pot.wanted(None).granted, usd(1));
    }

    #[test]
    fn what_another_holder_was_granted_counts_as_spent_until_it_is_known() {
        let mut pot = SpendAccount::found(usd(10), usd(5), usd(20));
        assert_eq!((pot.settled(), pot.flagged(), pot.used()), (usd(10), usd(25), usd(35)));
        assert!(pot.is_covered() && pot.is_idle());
        pot.reserve(usd(10));
        pot.flag(usd(10));
        assert_eq!(pot.flagged(), usd(35));
        pot.reconcile(usd(10), usd(2));
        assert_eq!((pot.settled(), pot.flagged()), (usd(12), usd(25)));
    }

    #[test]
    fn what_a_write_of_unknown_outcome_has_put_on_record_is_not_added_again() {
        let mut pot = SpendAccount::default();
        pot.settle(NanoUsd::ZERO, usd(5));
        pot.tries(usd(5));
        pot.settle(NanoUsd::ZERO, usd(2));
        let merged = |pot: &SpendAccount, now| {
            let tried = pot.tried();
            merge_money(now, (pot.written().settled, tried.as_slice()), pot.settled())
        };
        assert_eq!(merged(&pot, usd(5)), usd(7), "it has got through");
        assert_eq!(merged(&pot, NanoUsd::ZERO), usd(7), "it has not");
        assert_eq!(merged(&pot, usd(7)), usd(7));
        assert_eq!(merged(&pot, usd(1)), usd(8), "somebody else has written");
        pot.wrote(pot.wanted(None));
        assert!(pot.tried().is_empty());
        for cents in 0..100 {
            pot.tries(usd(1000 + cents));
        }
        let tried = pot.tried();
        assert_eq!(tried.len(), MOST_TRIED);
        assert!(tried.contains(&usd(1000)) && tried.contains(&usd(1099)));
    }

    #[test]
    fn a_new_day_begins_with_what_is_under_way() {
        let mut pot = SpendAccount::found(usd(90), NanoUsd::ZERO, NanoUsd::ZERO);
        pot.reserve(usd(10));
        pot.begin_day();
        assert_eq!(pot.used(), NanoUsd::ZERO);
        assert!(!pot.allows(usd(95), Some(usd(100))));
        pot.settle(usd(10), usd(3));
        assert_eq!(pot.used(), usd(3));
    }
}
