//! A book's part in a hand-over: what of its calls is written where. Pure.

use std::collections::BTreeMap;

use codebutler_crds::NanoUsd;
use codebutler_crds::spend::{LeavingGateway, OpenCall};
use codebutler_crds::thread::TokenUsage;
use tokio::time::Instant;

use super::account::WrittenSpend;
use super::book::CallBook;
use super::leaving::{self, BookHandover, LeavingBase, LeavingEntries, LedgerOffice, WriteClash};
use super::open::{CallListing, CallStage, OpenRecord};
use super::record::{CallHolder, CallRecords};

impl CallBook {
    /// Takes in what a copy of the record says of gateways that leave.
    pub fn look_elsewhere(&mut self, copy: &LeavingEntries) {
        self.elsewhere.look(copy, Instant::now());
        self.account.expect(self.elsewhere.money());
    }

    /// Takes what nobody writes any more of that into the books, as the record has it this moment.
    pub fn adopt(&mut self, record: &LeavingEntries, most: usize) -> Vec<LeavingGateway> {
        let due = self.elsewhere.take(record, Instant::now());
        for entry in &due {
            self.account.adopt(entry.settled, entry.granted);
            for (id, call) in &entry.open {
                let OpenCall { role, estimate } = call.clone();
                self.open.begin(id, OpenRecord { role, estimate, stage: CallStage::Lost }, most);
            }
        }
        self.account.expect(self.elsewhere.money());
        due
    }

    /// Undoes what a failed write has shown not to belong in the books.
    pub fn clash(&mut self, clash: WriteClash) -> Option<LeavingGateway> {
        let name = match clash {
            WriteClash::Moved(name) => name,
            WriteClash::Taken => {
                self.handed = BookHandover::Done;
                return None;
            }
            WriteClash::Late => return None,
        };
        let taken = self.elsewhere.put_back(&name)?;
        self.account.disown(taken.settled, taken.granted);
        for id in taken.open.keys() {
            self.open.end(id);
        }
        Some(taken)
    }

    /// Returns the records of calls to write, if there are any.
    pub fn calls(
        &self,
        office: LedgerOffice,
        usage: &BTreeMap<String, TokenUsage>,
        clean: bool,
    ) -> Option<CallRecords> {
        let part = match (office, &self.handed) {
            (_, BookHandover::Done) | (LedgerOffice::Left(_), BookHandover::No) => return None,
            (LedgerOffice::Leaving(seconds), BookHandover::No) if !self.account.is_idle() => {
                let (rest, open) = self.open.parts();
                let granted = self.account.wanted(self.cap).granted;
                CallHolder::HandOver(
                    rest,
                    LeavingGateway { seconds, granted, open, ..LeavingGateway::default() },
                )
            }
            _ if clean => return None,
            (
                LedgerOffice::Leaving(seconds) | LedgerOffice::Left(seconds),
                BookHandover::As(base),
            ) => CallHolder::Apart(self.apart(base, seconds, usage)),
            (LedgerOffice::Held | LedgerOffice::Leaving(_), _) => CallHolder::Own,
        };
        Some(CallRecords { all: self.open.listing(), taken: self.elsewhere.taken(), part })
    }

    /// Builds the entry of the calls that were taken out of the books, with what has become of
    /// them.
    fn apart(
        &self,
        base: &LeavingBase,
        seconds: u32,
        usage: &BTreeMap<String, TokenUsage>,
    ) -> LeavingGateway {
        let money = self.account.wanted(self.cap);
        LeavingGateway {
            seconds: if self.account.is_idle() { 0 } else { seconds },
            granted: money.granted + money.flagged.less(base.flagged),
            settled: money.settled.less(base.settled),
            usage: leaving::usage_beyond(&base.usage, usage),
            open: self.open.without(&base.lost),
            people: BTreeMap::new(),
        }
    }

    /// Takes note of what was written of calls under way.
    pub fn handed_over(&mut self, settled: NanoUsd, flagged: NanoUsd, part: &CallHolder) {
        match part {
            CallHolder::HandOver(rest, _) => {
                let base =
                    LeavingBase { settled, flagged, lost: rest.names(), ..LeavingBase::default() };
                self.handed = BookHandover::As(base);
            }
            CallHolder::Apart(LeavingGateway { seconds: 0, .. }) => {
                self.handed = BookHandover::Done;
            }
            CallHolder::Own | CallHolder::Apart(_) => {}
        }
    }
}

impl CallHolder {
    /// Splits what is written: returns the grant and the open calls that stay in the books once
    /// those under way are taken out.
    pub fn hand_over<'a>(
        &'a self,
        money: WrittenSpend,
        all: &'a CallListing,
        me: &str,
        record: &mut LeavingEntries,
    ) -> (NanoUsd, &'a CallListing) {
        let Self::HandOver(rest, own) = self else { return (money.granted, all) };
        record.insert(me.to_owned(), own.clone());
        (NanoUsd::ZERO, rest)
    }
}

#[cfg(test)]
mod tests {
    use codebutler_crds::ThreadStatus;
    use codebutler_crds::spend::ThreadBudget;

    use super::super::book::ThreadBook;
    use super::*;

    fn usage(cost: u64) -> TokenUsage {
        TokenUsage { cost: NanoUsd(cost), calls: 1, ..TokenUsage::default() }
    }

    fn written(book: &mut ThreadBook, me: &str, office: LedgerOffice, status: &mut ThreadStatus) {
        let entry = book.entry(me, office).expect("something to write");
        let surprise = entry.apply(status).unwrap();
        assert_eq!(entry.apply(status).unwrap(), surprise, "a write whose answer was lost");
        book.wrote(entry, surprise, Instant::now());
    }

    fn budget(status: &ThreadStatus) -> ThreadBudget {
        *status.budget.clone().unwrap_or_default()
    }

    /// A book with two calls under way, one of which is known by an id, that was handed over.
    fn handed_over(status: &mut ThreadStatus) -> ThreadBook {
        let mut book = ThreadBook::found(Some(status), "a");
        book.book.account.reserve(NanoUsd(10));
        book.book.account.reserve(NanoUsd(20));
        let open = OpenRecord { role: "pm".into(), estimate: NanoUsd(20), stage: CallStage::Brief };
        book.book.open.begin("gen-1", open, 16);
        written(&mut book, "a", LedgerOffice::Held, status);
        assert_eq!(budget(status).granted, NanoUsd(30));
        written(&mut book, "a", LedgerOffice::Leaving(120), status);
        let found = budget(status);
        assert_eq!((found.granted, found.holder.clone(), found.open.len()), (NanoUsd(0), None, 0));
        let entry = &found.leaving["a"];
        assert_eq!((entry.seconds, entry.granted, entry.open.len()), (120, NanoUsd(30), 1));
        book
    }

    #[test]
    fn calls_that_outlast_a_hand_over_are_settled_once_by_who_keeps_the_books() {
        let mut status = ThreadStatus::default();
        let mut first = handed_over(&mut status);
        let mut second = ThreadBook::found(Some(&status), "b");
        assert!(!second.book.account.allows(NanoUsd(1), Some(NanoUsd(30))), "30 are under way");
        assert!(second.book.account.allows(NanoUsd(1), Some(NanoUsd(31))));
        second.book.account.reserve(NanoUsd(5));
        written(&mut second, "b", LedgerOffice::Held, &mut status);

        let office = LedgerOffice::Left(120);
        first.book.settle(None, NanoUsd(10), NanoUsd(7));
        first.add("pm", usage(7));
        written(&mut first, "a", office, &mut status);
        assert_eq!(status.cost, None, "only who keeps the books adds up");
        assert!(!second.adopt(&budget(&status).leaving), "it is not final");
        first.book.settle(Some("gen-1"), NanoUsd(20), NanoUsd(9));
        first.add("pm", usage(9));
        written(&mut first, "a", office, &mut status);
        assert_eq!(first.entry("a", office), None);

        assert!(second.adopt(&budget(&status).leaving));
        written(&mut second, "b", LedgerOffice::Held, &mut status);
        let found = budget(&status);
        assert_eq!(
            (status.cost, found.flagged, found.leaving.len()),
            (Some(NanoUsd(16)), NanoUsd(0), 0)
        );
        assert_eq!((status.roles["pm"].usage.calls, found.granted), (2, NanoUsd(5)));
        assert!(!second.adopt(&budget(&status).leaving) && second.book.elsewhere.is_empty());
    }

    #[test]
    fn what_is_left_of_a_gateway_that_died_is_flagged_and_asked_for() {
        let mut status = ThreadStatus::default();
        let mut first = handed_over(&mut status);
        first.book.settle(None, NanoUsd(10), NanoUsd(7));
        first.add("pm", usage(7));
        written(&mut first, "a", LedgerOffice::Left(120), &mut status);
        // Its time is over for whoever has waited that long.
        let mut record = budget(&status).leaving;
        let mut second = ThreadBook::found(Some(&status), "b");
        assert!(!second.adopt(&record));
        record.get_mut("a").unwrap().seconds = 0;
        assert!(second.adopt(&record));
        assert_eq!(second.book.account.used(), NanoUsd(27));
        assert_eq!(second.book.open.ask(), ["gen-1"]);
        // It wakes up once more before that is written: what it says then is what counts.
        first.book.settle(Some("gen-1"), NanoUsd(20), NanoUsd(9));
        first.add("pm", usage(9));
        written(&mut first, "a", LedgerOffice::Left(120), &mut status);
        let clash = second.entry("b", LedgerOffice::Held).unwrap().apply(&mut status).unwrap_err();
        second.clash(clash);
        assert_eq!(second.book.account.used(), NanoUsd(0));
        assert!(second.adopt(&budget(&status).leaving));
        written(&mut second, "b", LedgerOffice::Held, &mut status);
        assert_eq!((status.cost, budget(&status)), (Some(NanoUsd(16)), ThreadBudget::default()));

        // And afterwards it has no say.
        let mut late = handed_over(&mut status);
        let mut third = ThreadBook::found(Some(&status), "c");
        let mut record = budget(&status).leaving;
        record.get_mut("a").unwrap().seconds = 0;
        status.budget.as_mut().unwrap().leaving.clone_from(&record);
        assert!(third.adopt(&record));
        written(&mut third, "c", LedgerOffice::Held, &mut status);
        late.book.settle(Some("gen-1"), NanoUsd(20), NanoUsd(9));
        let entry = late.entry("a", LedgerOffice::Left(120)).unwrap();
        assert_eq!(entry.apply(&mut status), Err(WriteClash::Taken));
        late.clash(WriteClash::Taken);
        assert_eq!(late.entry("a", LedgerOffice::Left(120)), None);
        assert_eq!(budget(&status).flagged, NanoUsd(30));
    }

    #[test]
    fn a_copy_that_is_behind_takes_nothing_in_twice() {
        let mut status = ThreadStatus::default();
        let mut first = handed_over(&mut status);
        let mut second = ThreadBook::found(Some(&status), "b");
        first.book.settle(None, NanoUsd(10), NanoUsd(7));
        first.book.settle(Some("gen-1"), NanoUsd(20), NanoUsd(9));
        first.add("pm", usage(16));
        written(&mut first, "a", LedgerOffice::Left(120), &mut status);
        let copy = budget(&status).leaving;
        assert!(second.adopt(&copy));
        written(&mut second, "b", LedgerOffice::Held, &mut status);

        let mut third = ThreadBook::found(Some(&status), "c");
        for (book, me) in [(&mut second, "b"), (&mut third, "c")] {
            book.book.look_elsewhere(&copy);
            assert!(!book.adopt(&budget(&status).leaving));
            assert_eq!(book.entry(me, LedgerOffice::Held), None);
            assert!(book.book.account.allows(NanoUsd(1), Some(NanoUsd(17))));
        }
        assert_eq!(status.cost, Some(NanoUsd(16)));
    }

    #[test]
    fn a_call_that_costs_nothing_is_handed_over_as_well() {
        let mut status = ThreadStatus::default();
        let mut first = ThreadBook::found(None, "a");
        first.book.account.reserve(NanoUsd::ZERO);
        written(&mut first, "a", LedgerOffice::Leaving(120), &mut status);
        first.book.settle(None, NanoUsd::ZERO, NanoUsd(3));
        first.add("pm", usage(3));
        written(&mut first, "a", LedgerOffice::Left(120), &mut status);
        let mut second = ThreadBook::found(Some(&status), "b");
        assert!(second.adopt(&budget(&status).leaving));
        written(&mut second, "b", LedgerOffice::Held, &mut status);
        assert_eq!((status.cost, status.roles["pm"].usage), (Some(NanoUsd(3)), usage(3)));
    }

    #[test]
    fn what_could_not_be_handed_over_is_left_as_it_was_granted() {
        let mut status = ThreadStatus::default();
        let mut book = ThreadBook::found(None, "a");
        book.book.account.reserve(NanoUsd(10));
        written(&mut book, "a", LedgerOffice::Held, &mut status);
        book.book.settle(None, NanoUsd(10), NanoUsd(7));
        assert_eq!(book.entry("a", LedgerOffice::Left(120)), None);
        let next = ThreadBook::found(Some(&status), "b");
        assert_eq!(next.book.account.flagged(), NanoUsd(10));
    }
}
