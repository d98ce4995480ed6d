use codebutler_crds::limits::BudgetSpec;
use codebutler_crds::spend::{CallLimit, RepoSpend};
use codebutler_runtime::calendar;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::leaving::LedgerOffice;
use super::*;

const fn usd(cents: u64) -> NanoUsd {
    NanoUsd(cents * 10_000_000)
}

fn budget(spec: &Value) -> BudgetSpec {
    serde_json::from_value(spec.clone()).unwrap()
}

fn at(now: &str) -> BudgetMoment {
    calendar::find_moment(now.parse().unwrap(), "UTC")
}

fn opened(now: &str) -> RepoBook {
    let mut book = RepoBook::default();
    book.begin(&at(now));
    book
}

/// A call that is reserved, if the budgets leave room for it.
fn call(budget: &BudgetSpec, book: &mut RepoBook, user: &str, cents: u64, now: &str) -> bool {
    let allowed = check_shares(budget, book, user, usd(cents), &at(now)).is_ok();
    if allowed {
        book.book.account.reserve(usd(cents));
        book.people.reserve(user, usd(cents));
    }
    allowed
}

fn settle(book: &mut RepoBook, user: &str, cents: (u64, u64)) {
    book.book.settle(None, usd(cents.0), usd(cents.1));
    book.people.settle(user, usd(cents.0), usd(cents.1));
}

/// The record after a write.
fn write(book: &mut RepoBook, me: &str, office: LedgerOffice, spend: &mut RepoSpend) {
    let entry = book.entry(me, office).expect("something to write");
    let surprise = entry.apply(spend).unwrap();
    assert_eq!(entry.apply(spend).unwrap(), surprise, "a write whose answer was lost");
    book.wrote(&entry, &surprise, Instant::now());
}

fn found(spend: &RepoSpend, me: &str) -> RepoBook {
    let status = json!({"spend": spend});
    RepoBook::found(Some(&serde_json::from_value(status).unwrap()), me)
}

const NOW: &str = "2026-11-28T10:00:00Z";
const HELD: LedgerOffice = LedgerOffice::Held;

#[test]
fn parallel_calls_of_a_person_cannot_pass_their_budget_together() {
    let budget = budget(&json!({"people": {"default": {"perDay": "1.00", "perMonth": "1.50"}}}));
    let mut book = opened(NOW);
    let let_through = (0..8).filter(|_| call(&budget, &mut book, "U0ANA", 30, NOW)).count();
    assert_eq!(let_through, 3);
    assert!(call(&budget, &mut book, "U0BEN", 100, NOW), "somebody else has their own");
    assert!(check_shares(&budget, &book, "U0ANA", NanoUsd(100_000_001), &at(NOW)).is_err());
    assert!(check_shares(&budget, &book, "U0ANA", NanoUsd(100_000_000), &at(NOW)).is_ok());
    for _ in 0..3 {
        settle(&mut book, "U0ANA", (30, 30));
    }
    // A day later the month is what is in the way.
    let next = "2026-11-29T00:00:00Z";
    book.begin(&at(next));
    assert!(call(&budget, &mut book, "U0ANA", 60, next));
    let exceeded = check_shares(&budget, &book, "U0ANA", usd(10), &at(next)).unwrap_err();
    assert_eq!(
        (exceeded.limit, exceeded.of.as_deref(), exceeded.until.unwrap().to_string().as_str()),
        (CallLimit::PersonPerMonth, Some("U0ANA"), "2026-12-01T00:00:00Z")
    );
    assert!(check_shares(&budget, &book, "U0ANA", NanoUsd::ZERO, &at(next)).is_ok(), "it is free");
    // Calls under way when a month begins belong to that month.
    let december = "2026-12-01T00:00:00Z";
    book.begin(&at(december));
    assert!(!call(&budget, &mut book, "U0ANA", 41, december));
    assert!(call(&budget, &mut book, "U0ANA", 40, december));
}

#[test]
fn a_team_has_spent_what_its_members_have() {
    let team = json!({"name": "payments", "members": ["U0ANA", "U0BEN"], "perMonth": "1.00"});
    let budget =
        budget(&json!({"teams": [team], "people": {"users": [{"user": "U0BEN", "perDay": "9"}]}}));
    let mut book = opened(NOW);
    assert!(call(&budget, &mut book, "U0ANA", 60, NOW));
    assert!(call(&budget, &mut book, "U0EVE", 500, NOW), "not a member");
    let exceeded = check_shares(&budget, &book, "U0BEN", usd(41), &at(NOW)).unwrap_err();
    assert_eq!(
        (exceeded.limit, exceeded.of.as_deref()),
        (CallLimit::TeamPerMonth, Some("payments"))
    );
    assert!(call(&budget, &mut book, "U0BEN", 40, NOW));
    assert_eq!(current_cap(&budget, CallLimit::TeamPerMonth, "payments", "U0BEN"), Some(usd(100)));
    assert_eq!(current_cap(&budget, CallLimit::TeamPerMonth, "payments", "U0EVE"), None);
}

#[test]
fn a_gateway_that_dies_leaves_what_it_was_granted_to_each_person() {
    let budget = budget(&json!({"people": {"default": {"perDay": "1.00"}}}));
    let (mut book, mut spend) = (opened(NOW), RepoSpend::default());
    assert!(
        call(&budget, &mut book, "U0ANA", 70, NOW) && call(&budget, &mut book, "U0BEN", 20, NOW)
    );
    assert!(!book.is_covered(), "nothing is spent before it is on record");
    write(&mut book, "a", HELD, &mut spend);
    assert!(book.is_covered() && book.is_written());
    settle(&mut book, "U0BEN", (20, 5));
    write(&mut book, "a", HELD, &mut spend);
    assert_eq!(spend.people["U0BEN"].month.settled, usd(5));
    assert_eq!(
        (spend.people["U0ANA"].granted, spend.people["U0BEN"].granted),
        (usd(70), NanoUsd::ZERO)
    );
    // It dies here.
    let mut next = found(&spend, "b");
    next.begin(&at(NOW));
    assert!(!call(&budget, &mut next, "U0ANA", 31, NOW), "70 of it may be spent");
    assert!(call(&budget, &mut next, "U0ANA", 30, NOW));
    write(&mut next, "b", HELD, &mut spend);
    let ana = &spend.people["U0ANA"];
    assert_eq!((ana.day.flagged, ana.month.flagged, ana.granted), (usd(70), usd(70), usd(30)));
    // The provider says what it was after all.
    next.people.reconcile("U0ANA", usd(70), usd(12));
    settle(&mut next, "U0ANA", (30, 3));
    write(&mut next, "b", HELD, &mut spend);
    let ana = &spend.people["U0ANA"];
    assert_eq!((ana.day.used(), ana.month.settled, ana.granted), (usd(15), usd(15), NanoUsd::ZERO));
    assert!(next.entry("b", HELD).is_none());
}

#[test]
fn calls_that_outlast_a_hand_over_are_charged_to_their_person_once() {
    let budget = budget(&json!({"people": {"default": {"perDay": "1.00"}}}));
    let (mut first, mut spend) = (opened(NOW), RepoSpend::default());
    assert!(call(&budget, &mut first, "U0ANA", 70, NOW));
    write(&mut first, "a", HELD, &mut spend);
    write(&mut first, "a", LedgerOffice::Leaving(120), &mut spend);
    assert_eq!(
        (spend.people.get("U0ANA"), spend.leaving["a"].people["U0ANA"].granted),
        (None, usd(70))
    );
    let mut second = found(&spend, "b");
    second.begin(&at(NOW));
    assert!(!call(&budget, &mut second, "U0ANA", 31, NOW), "70 are under way elsewhere");
    assert!(call(&budget, &mut second, "U0ANA", 30, NOW));
    settle(&mut first, "U0ANA", (70, 50));
    write(&mut first, "a", LedgerOffice::Left(120), &mut spend);
    assert!(second.adopt(&spend.leaving.clone()));
    settle(&mut second, "U0ANA", (30, 1));
    write(&mut second, "b", HELD, &mut spend);
    assert_eq!((spend.people["U0ANA"].day.settled, spend.leaving.len()), (usd(51), 0));
}

#[test]
fn a_new_day_and_a_new_month_begin_with_nothing_on_record() {
    let budget = budget(&json!({"people": {"default": {"perDay": "1.00", "perMonth": "9"}}}));
    let (mut book, mut spend) = (opened(NOW), RepoSpend::default());
    for user in ["U0ANA", "U0BEN"] {
        assert!(call(&budget, &mut book, user, 90, NOW));
        settle(&mut book, user, (90, 90));
    }
    write(&mut book, "a", HELD, &mut spend);
    let next = "2026-11-29T09:00:00Z";
    book.begin(&at(next));
    assert!(call(&budget, &mut book, "U0ANA", 90, next));
    settle(&mut book, "U0ANA", (90, 10));
    write(&mut book, "a", HELD, &mut spend);
    let of = |spend: &RepoSpend, user: &str| {
        let person = spend.people.get(user).cloned().unwrap_or_default();
        (person.day.settled, person.month.settled)
    };
    assert_eq!(of(&spend, "U0ANA"), (usd(10), usd(100)));
    assert_eq!(of(&spend, "U0BEN"), (NanoUsd::ZERO, usd(90)));
    let december = "2026-12-01T09:00:00Z";
    book.begin(&at(december));
    assert!(call(&budget, &mut book, "U0BEN", 90, december));
    settle(&mut book, "U0BEN", (90, 1));
    write(&mut book, "a", HELD, &mut spend);
    assert_eq!((spend.month.as_str(), of(&spend, "U0BEN")), ("2026-12", (usd(1), usd(1))));
    assert!(!spend.people.contains_key("U0ANA"), "who has spent nothing is not kept");
}

#[test]
fn a_warning_is_given_once_in_a_period_and_survives_the_gateway() {
    let team = json!({"name": "payments", "members": ["U0ANA", "U0BEN"], "perDay": "1.00"});
    let budget = budget(&json!({"teams": [team], "people": {"default": {"perMonth": "2.00"}}}));
    let (mut book, mut spend) = (opened(NOW), RepoSpend::default());
    let after_call = |book: &mut RepoBook, user: &str, cents: u64, now: &str| {
        assert!(call(&budget, book, user, cents, now));
        settle(book, user, (cents, cents));
        let near = near_shares(&budget, book, user).into_iter();
        near.map(|near| (near.limit, near.of.unwrap(), near.period)).collect::<Vec<_>>()
    };
    assert_eq!(after_call(&mut book, "U0ANA", 40, NOW), []);
    let of_team = (CallLimit::TeamPerDay, "payments".to_owned(), "2026-11-28".to_owned());
    assert_eq!(after_call(&mut book, "U0BEN", 40, NOW), [of_team]);
    write(&mut book, "a", HELD, &mut spend);
    let mut next = found(&spend, "b");
    next.begin(&at(NOW));
    assert_eq!(after_call(&mut next, "U0ANA", 10, NOW), []);
    let tomorrow = "2026-11-29T10:00:00Z";
    next.begin(&at(tomorrow));
    let again = (CallLimit::TeamPerDay, "payments".to_owned(), "2026-11-29".to_owned());
    assert_eq!(after_call(&mut next, "U0ANA", 90, tomorrow), [again]);
    next.begin(&at("2026-11-30T10:00:00Z"));
    let of_ana = (CallLimit::PersonPerMonth, "U0ANA".to_owned(), "2026-11".to_owned());
    assert_eq!(after_call(&mut next, "U0ANA", 20, "2026-11-30T10:00:00Z"), [of_ana]);
}

#[test]
fn who_asked_pays_and_where_nobody_at_slack_did_who_spoke() {
    let thread = |by: Option<&str>, speaker: Option<&str>| -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "r", "requestedBy": by}, "status": {"speaker": speaker},
        }))
        .unwrap()
    };
    let charged = |by, speaker| charged_person(&thread(by, speaker)).map(ToOwned::to_owned);
    assert_eq!(charged(Some("U0ANA"), Some("U0BEN")).as_deref(), Some("U0ANA"));
    assert_eq!(charged(Some("nightly"), Some("U0BEN")).as_deref(), Some("U0BEN"));
    assert_eq!(charged(Some("nightly"), None), None);
}
