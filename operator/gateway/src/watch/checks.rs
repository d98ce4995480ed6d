//! State of checks at GitHub, for the history: told when a pull request is looked at, for as long as any of them runs,
//! and then now and then, for people run checks again.

use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::Thread;
use codebutler_crds::wire::HeadCheck;
use codebutler_crds::wire::history::{CheckShown, HistoryEvent};
use codebutler_gateway_core::history::ToldEvent;
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use sha2::{Digest as _, Sha256};

use crate::work::WorkServices;

/// Checks of one commit that are told at most.
const MOST: usize = 100;
/// States in which a check still does something.
const RUNNING: [&str; 6] = ["pending", "queued", "in_progress", "waiting", "requested", "expected"];

/// States of checks that nobody runs again because of them.
const FINE: [&str; 4] = ["success", "neutral", "skipped", "unknown"];
/// Number of looks after which a commit without checks is left alone for a while.
const CHECKLESS: u32 = 5;
/// Pause between looks at checks that are over, of which one has failed: it may be run again.
const AFTER_FAILURE: Duration = Duration::from_mins(5);
/// The same for those that are all right, or not there.
const AT_REST: Duration = Duration::from_mins(30);

/// The commit whose checks were looked at last, and when that is due again.
#[derive(Clone, Debug)]
pub(super) struct CheckPoll {
    pub(super) head: String,
    /// Time at which its checks were asked about.
    pub(super) looked: Instant,
    /// Looks in a row that found no checks.
    looks: u32,
    /// Time of the next look; None: in the next round.
    again: Option<Instant>,
}

impl CheckPoll {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.again.is_none_or(|at| at <= now)
    }

    /// Takes note of a look. `before` is what the last one left.
    pub(super) fn of(
        before: Option<Self>,
        head: String,
        checks: &[HeadCheck],
        now: Instant,
    ) -> Self {
        let known = before.filter(|known| known.head == head).map_or(0, |known| known.looks);
        let looks = if checks.is_empty() { known.saturating_add(1) } else { 0 };
        let is = |states: &[&str], check: &HeadCheck| states.contains(&&*check.state);
        let pause = match checks {
            [] => (looks >= CHECKLESS).then_some(AT_REST),
            all if all.iter().any(|check| is(&RUNNING, check)) => None,
            all if all.iter().all(|check| is(&FINE, check)) => Some(AT_REST),
            _ => Some(AFTER_FAILURE),
        };
        Self { head, looked: now, looks, again: pause.map(|pause| now + pause) }
    }
}

/// Tells the history of checks, once for each state that they are in.
pub async fn tell_checks(
    gateway: &WorkServices,
    repo: &Repo,
    thread: &Thread,
    (commit, checks): (&str, &[HeadCheck]),
) {
    if checks.is_empty() || gateway.context.history.store().is_none() {
        return;
    }
    let redactor = masks::as_known(&gateway.context, repo).await;
    let (key, event) = (key_of(commit, checks), event_of(commit, checks));
    let told = ToldEvent { key, at: None, role: None, run: None, event };
    gateway.context.history.tell(&ThreadKey::from(thread), &redactor, told);
}

fn event_of(commit: &str, checks: &[HeadCheck]) -> HistoryEvent {
    let shown =
        |check: &HeadCheck| CheckShown { name: check.name.clone(), state: check.state.clone() };
    HistoryEvent::Checks {
        commit: commit.to_owned(),
        checks: checks.iter().take(MOST).map(shown).collect(),
    }
}

fn key_of(commit: &str, checks: &[HeadCheck]) -> String {
    let mut all: Vec<_> =
        checks.iter().map(|check| (&check.name, &check.state, &check.attempt)).collect();
    all.sort_unstable();
    let digest = Sha256::digest(format!("{all:?}").as_bytes());
    format!("checks:{commit}:{}", hex::encode(&digest[..6]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, state: &str) -> HeadCheck {
        HeadCheck {
            name: name.to_owned(),
            state: state.to_owned(),
            summary: None,
            attempt: Some("1".to_owned()),
        }
    }

    #[test]
    fn the_same_checks_in_another_order_are_told_once_and_another_state_anew() {
        let (lint, test) = (check("lint", "success"), check("test", "pending"));
        let one = key_of("abc", &[lint.clone(), test.clone()]);
        assert_eq!(one, key_of("abc", &[test, lint.clone()]));
        assert_ne!(one, key_of("abc", &[lint, check("test", "failure")]));
    }

    #[test]
    fn a_check_that_runs_again_and_fails_again_is_told_again() {
        let at = |state: &str, attempt: &str| {
            let attempt = Some(attempt.to_owned());
            key_of("abc", &[HeadCheck { attempt, ..check("test", state) }])
        };
        let told = [at("failure", "1"), at("pending", "2"), at("failure", "2")];
        let keys: std::collections::BTreeSet<_> = told.iter().collect();
        assert_eq!(keys.len(), told.len(), "{told:?}");
    }

    #[test]
    fn checks_are_looked_at_each_round_while_they_run_and_then_now_and_then() {
        let now = Instant::now();
        let due = |head: &CheckPoll, after: Duration| head.is_due(now + after);
        let look = |checks: &[HeadCheck]| CheckPoll::of(None, "a".into(), checks, now);
        assert!(look(&[check("lint", "success"), check("test", "in_progress")]).is_due(now));
        let failed = look(&[check("lint", "success"), check("test", "failure")]);
        assert!(!failed.is_due(now) && due(&failed, AFTER_FAILURE));
        let fine = look(&[check("lint", "success"), check("statuses", "unknown")]);
        assert!(!due(&fine, AFTER_FAILURE) && due(&fine, AT_REST));

        let mut none = None;
        for looks in 1..=CHECKLESS {
            let known = CheckPoll::of(none.take(), "a".into(), &[], now);
            assert_eq!(known.is_due(now), looks < CHECKLESS, "{looks}");
            none = Some(known);
        }
        assert!(due(none.as_ref().unwrap(), AT_REST));
        let pushed = CheckPoll::of(none, "b".into(), &[], now);
        assert!(pushed.is_due(now), "another commit begins anew");
    }
}
