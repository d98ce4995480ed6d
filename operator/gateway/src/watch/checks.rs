//! State of checks at GitHub, for the history: told when a pull request is looked at, and for as long as any of them
//! runs.

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

/// True if all checks are over.
pub fn are_over(checks: &[HeadCheck]) -> bool {
    !checks.is_empty() && checks.iter().all(|check| !RUNNING.contains(&&*check.state))
}

/// Tells the history, once for each way in which they stand.
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
    let mut all: Vec<_> = checks.iter().map(|check| (&check.name, &check.state)).collect();
    all.sort_unstable();
    let digest = Sha256::digest(format!("{all:?}").as_bytes());
    format!("checks:{commit}:{}", hex::encode(&digest[..6]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, state: &str) -> HeadCheck {
        HeadCheck { name: name.to_owned(), state: state.to_owned(), summary: None }
    }

    #[test]
    fn the_same_checks_in_another_order_are_told_once_and_another_state_anew() {
        let (lint, test) = (check("lint", "success"), check("test", "pending"));
        let one = key_of("abc", &[lint.clone(), test.clone()]);
        assert_eq!(one, key_of("abc", &[test.clone(), lint.clone()]));
        assert_ne!(one, key_of("abc", &[lint.clone(), check("test", "failure")]));
        assert!(!are_over(&[lint.clone(), test]) && are_over(&[lint]) && !are_over(&[]));
    }
}
