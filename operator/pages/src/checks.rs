//! Checks at the Git host, as pages show them. Pure.

use codebutler_wire::history::CheckShown;

/// States of checks that count as passed.
const PASSED: [&str; 3] = ["success", "neutral", "skipped"];
const FAILED: [&str; 6] =
    ["failure", "error", "timed_out", "cancelled", "action_required", "startup_failure"];
/// State of checks that nobody may read.
const UNKNOWN: &str = "unknown";

pub(crate) fn has_passed(check: &CheckShown) -> bool {
    PASSED.contains(&&*check.state)
}

pub(crate) fn has_failed(check: &CheckShown) -> bool {
    FAILED.contains(&&*check.state)
}

pub(crate) fn is_unknown(check: &CheckShown) -> bool {
    check.state == UNKNOWN
}

/// Sorts checks: those that failed first, those that passed last.
pub(crate) fn sort_checks(checks: &[CheckShown]) -> Vec<&CheckShown> {
    let mut sorted: Vec<&CheckShown> = checks.iter().collect();
    sorted.sort_by_key(|check| (has_passed(check), !has_failed(check)));
    sorted
}

/// CSS class of a check: `good`, `bad` or nothing while it is not known.
pub(crate) fn classify_check(check: &CheckShown) -> &'static str {
    if has_failed(check) {
        "bad"
    } else if has_passed(check) {
        "good"
    } else {
        ""
    }
}
