use super::*;

fn usage(cost: u64, calls: u64) -> TokenUsage {
    TokenUsage { cost: NanoUsd(cost), prompt_tokens: calls, calls, ..TokenUsage::default() }
}

#[test]
fn a_call_is_on_the_thread_once_however_often_it_is_written() {
    let mut status = ThreadStatus::default();
    let mut book = ThreadBook::found(Some(&status), "a");
    assert_eq!(book.entry("a", LedgerOffice::Held), None);
    book.book.account.reserve(NanoUsd(10));
    let entry = book.entry("a", LedgerOffice::Held).unwrap();
    assert_eq!(entry.apply(&mut status).unwrap(), NanoUsd::ZERO);
    let budget = status.budget.clone().unwrap();
    assert_eq!((budget.granted, budget.holder.as_deref()), (NanoUsd(10), Some("a")));
    book.wrote(entry, NanoUsd::ZERO, Instant::now());
    book.book.account.settle(NanoUsd(10), NanoUsd(7));
    book.add("pm", usage(7, 1));
    let entry = book.entry("a", LedgerOffice::Held).unwrap();
    entry.apply(&mut status).unwrap();
    entry.apply(&mut status).unwrap();
    assert_eq!((status.cost, status.roles["pm"].usage), (Some(NanoUsd(7)), usage(7, 1)));
    assert_eq!(status.budget, None, "an idle Thread stays small");
    book.wrote(entry, NanoUsd::ZERO, Instant::now());
    assert_eq!(book.entry("a", LedgerOffice::Held), None);
    // Somebody else's sums are kept.
    status.roles.entry("pm".into()).or_default().usage = usage(100, 9);
    status.cost = Some(NanoUsd(100));
    book.book.account.settle(NanoUsd::ZERO, NanoUsd(1));
    book.add("pm", usage(1, 1));
    book.entry("a", LedgerOffice::Held).unwrap().apply(&mut status).unwrap();
    assert_eq!((status.cost, status.roles["pm"].usage), (Some(NanoUsd(101)), usage(101, 10)));
}

#[test]
fn a_successor_flags_what_it_finds_granted_and_once() {
    let budget = ThreadBudget {
        granted: NanoUsd(30),
        holder: Some("a".into()),
        flagged: NanoUsd(5),
        ..ThreadBudget::default()
    };
    let mut status = ThreadStatus { budget: Some(Box::new(budget)), ..ThreadStatus::default() };
    let mut book = ThreadBook::found(Some(&status), "b");
    assert_eq!(book.book.account.used(), NanoUsd(35));
    let entry = book.entry("b", LedgerOffice::Held).unwrap();
    assert_eq!(entry.apply(&mut status).unwrap(), NanoUsd::ZERO);
    assert_eq!(entry.apply(&mut status).unwrap(), NanoUsd::ZERO);
    let found = status.budget.clone().unwrap();
    assert_eq!((found.flagged, found.granted, found.holder), (NanoUsd(35), NanoUsd::ZERO, None));
    book.wrote(entry, NanoUsd::ZERO, Instant::now());
    assert_eq!(book.entry("b", LedgerOffice::Held), None);
    // One that wakes up late is flagged as well.
    let late = status.budget.as_mut().unwrap();
    (late.granted, late.holder) = (NanoUsd(2), Some("a".into()));
    book.book.account.reserve(NanoUsd(1));
    let entry = book.entry("b", LedgerOffice::Held).unwrap();
    let surprise = entry.apply(&mut status).unwrap();
    assert_eq!((surprise, status.budget.as_ref().unwrap().flagged), (NanoUsd(2), NanoUsd(37)));
    book.wrote(entry, surprise, Instant::now());
    assert_eq!(book.book.account.flagged(), NanoUsd(37));
    assert_eq!(book.book.account.written().flagged, NanoUsd(37));
}

#[test]
fn a_repo_begins_each_day_with_nothing() {
    let moment = |day: &str, hour: &str| BudgetMoment {
        day: day.into(),
        day_ends: jiff::Timestamp::UNIX_EPOCH,
        month: "2026-11".into(),
        month_ends: jiff::Timestamp::UNIX_EPOCH,
        hour: format!("{day}T{hour}"),
        hour_ends: jiff::Timestamp::UNIX_EPOCH,
    };
    let mut spend = RepoSpend::default();
    let mut book = RepoBook::found(None, "a");
    book.begin(&moment("2026-11-22", "10"));
    book.count("U1");
    book.book.account.settle(NanoUsd::ZERO, NanoUsd(9));
    let entry = book.entry("a", LedgerOffice::Held).unwrap();
    entry.apply(&mut spend).unwrap();
    entry.apply(&mut spend).unwrap();
    book.wrote(&entry, &RepoSurprise::default(), Instant::now());
    assert_eq!((spend.settled, spend.hour.as_ref().unwrap().users["U1"]), (NanoUsd(9), 1));
    book.begin(&moment("2026-11-23", "00"));
    assert_eq!((book.book.account.used(), book.hour.calls), (NanoUsd::ZERO, 0));
    book.book.account.settle(NanoUsd::ZERO, NanoUsd(2));
    book.entry("a", LedgerOffice::Held).unwrap().apply(&mut spend).unwrap();
    assert_eq!((spend.day.as_str(), spend.settled), ("2026-11-23", NanoUsd(2)));
}

#[test]
fn a_write_whose_answer_was_lost_is_not_added_again_with_what_came_after_it() {
    let (mut status, mut spend) = (ThreadStatus::default(), RepoSpend::default());
    let mut thread = ThreadBook::found(Some(&status), "a");
    let mut repo = RepoBook::found(None, "a");
    let settle = |thread: &mut ThreadBook, repo: &mut RepoBook, cost: u64| {
        thread.book.account.settle(NanoUsd::ZERO, NanoUsd(cost));
        thread.add("pm", usage(cost, 1));
        repo.book.account.settle(NanoUsd::ZERO, NanoUsd(cost));
        repo.people.reserve("U1", NanoUsd::ZERO);
        repo.people.settle("U1", NanoUsd::ZERO, NanoUsd(cost));
    };
    for (cost, is_taken) in [(5, false), (7, true), (11, false), (13, false)] {
        settle(&mut thread, &mut repo, cost);
        let entry = thread.entry("a", LedgerOffice::Held).unwrap();
        let all = repo.entry("a", LedgerOffice::Held).unwrap();
        thread.tries(&entry);
        repo.tries(&all);
        if is_taken {
            entry.apply(&mut status).unwrap();
            all.apply(&mut spend).unwrap();
        }
    }
    settle(&mut thread, &mut repo, 17);
    let entry = thread.entry("a", LedgerOffice::Held).unwrap();
    let all = repo.entry("a", LedgerOffice::Held).unwrap();
    for _ in 0..2 {
        entry.apply(&mut status).unwrap();
        all.apply(&mut spend).unwrap();
    }
    let sum = 5 + 7 + 11 + 13 + 17;
    assert_eq!((status.cost, status.roles["pm"].usage), (Some(NanoUsd(sum)), usage(sum, 5)));
    let person = &spend.people["U1"];
    assert_eq!((spend.settled, person.day.settled), (NanoUsd(sum), NanoUsd(sum)));
    assert_eq!(person.month.settled, NanoUsd(sum));
}
