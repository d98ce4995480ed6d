//! Verdict of the checks of a train's commit. Pure.

use std::collections::BTreeSet;

use codebutler_crds::wire::HeadCheck;

use super::engine::CheckVerdict;

/// Judges all checks of a commit, of which some are required. Those in an unknown state do not count.
pub(super) fn judge_checks(checks: &[HeadCheck], required: &BTreeSet<String>) -> CheckVerdict {
    let known = checks.iter().filter(|check| check.state != "unknown");
    let known: Vec<&HeadCheck> = known.collect();
    if known.is_empty() {
        let awaited = || CheckVerdict::Pending(required.clone());
        return if required.is_empty() { CheckVerdict::Silent } else { awaited() };
    }
    let named = |is: fn(&str) -> bool| -> BTreeSet<String> {
        let such = known.iter().filter(|check| is(&check.state));
        such.map(|check| check.name.clone()).collect()
    };
    let failed = named(|state| !is_pending(state) && !is_good(state));
    if !failed.is_empty() {
        return CheckVerdict::Failed(failed);
    }
    let mut pending = named(is_pending);
    let reported = |name: &&String| !known.iter().any(|check| check.name == **name);
    pending.extend(required.iter().filter(reported).cloned());
    if pending.is_empty() { CheckVerdict::Passed } else { CheckVerdict::Pending(pending) }
}

fn is_pending(state: &str) -> bool {
    matches!(state, "pending" | "queued" | "in_progress" | "waiting" | "requested" | "expected")
}

fn is_good(state: &str) -> bool {
    matches!(state, "success" | "neutral" | "skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_what_is_green_and_all_of_it_passes() {
        let judged = |checks: &[(&str, &str)], required: &[&str]| {
            let check = |(name, state): &(&str, &str)| HeadCheck {
                name: (*name).to_owned(),
                state: (*state).to_owned(),
                summary: None,
                attempt: None,
            };
            let checks: Vec<HeadCheck> = checks.iter().map(check).collect();
            judge_checks(&checks, &names(required))
        };
        let pending = |list: &[&str]| CheckVerdict::Pending(names(list));
        assert_eq!(judged(&[], &[]), CheckVerdict::Silent);
        assert_eq!(judged(&[("commit statuses", "unknown")], &[]), CheckVerdict::Silent);
        assert_eq!(judged(&[], &["ci"]), pending(&["ci"]));
        assert_eq!(judged(&[("ci", "success"), ("docs", "skipped")], &[]), CheckVerdict::Passed);
        assert_eq!(judged(&[("ci", "success")], &["ci", "lint"]), pending(&["lint"]));
        assert_eq!(judged(&[("ci", "success"), ("lint", "pending")], &["ci"]), pending(&["lint"]));
        for state in ["failure", "error", "cancelled", "timed_out", "action_required", "stale"] {
            let failed = judged(&[("ci", state), ("lint", "pending")], &[]);
            assert_eq!(failed, CheckVerdict::Failed(names(&["ci"])), "{state}");
        }
    }
}
