//! Reads from last words how the work stands, as far as a decision about who goes on needs it.
//! Words are only read where nobody was addressed: an address is taken at its word.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVerdict {
    /// Nothing has to change.
    Passed,
    Found,
    /// The words do not say.
    Unclear,
}

/// Words of a review that found nothing.
const PASSED: [&str; 12] = [
    "approved",
    "approve",
    "approving",
    "lgtm",
    "looks good",
    "look good",
    "ready to merge",
    "good to merge",
    "no findings",
    "nothing to change",
    "no further comments",
    "no issues",
];
/// Words that turn the ones above around.
const NOT: [&str; 8] =
    ["not ", "n't ", "cannot ", "before ", "once ", "until ", "after ", "unless "];
const IF: [&str; 8] =
    [" once ", " if ", " but ", " except", " when ", " after ", " unless ", " as soon as "];
const FOUND: [&str; 14] = [
    "finding",
    "must fix",
    "must be fixed",
    "has to be fixed",
    "needs to be fixed",
    "please fix",
    "changes requested",
    "request changes",
    "requesting changes",
    "change requested",
    "blocking",
    "blocker",
    "[correctness]",
    "[security]",
];

/// Reads the verdict from a review's words.
pub(super) fn review_of(text: &str) -> ReviewVerdict {
    let text = text.to_lowercase();
    // "No findings" finds nothing.
    let found = FOUND.iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let before = text[..at].trim_end();
            let last = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            !matches!(
                last,
                "no" | "zero" | "0" | "non" | "without" | "not" | "the" | "all" | "your"
            )
        })
    });
    let passed = text.split(['.', '\n', ';', '!']).any(|sentence| {
        let said = PASSED.iter().filter_map(|word| sentence.find(word)).min();
        said.is_some_and(|at| {
            let (before, after) = sentence.split_at(at);
            !NOT.iter().any(|not| before.contains(not))
                && !IF.iter().any(|then| after.contains(then))
        })
    });
    match (passed, found) {
        (true, false) => ReviewVerdict::Passed,
        (false, true) => ReviewVerdict::Found,
        _ => ReviewVerdict::Unclear,
    }
}

/// Returns true if a text looks like a plan: a heading that says so, and at least two steps under
/// it.
pub(super) fn is_plan(text: &str) -> bool {
    let mut lines = text.lines().map(|line| line.trim().trim_start_matches(['#', '*', '_', ' ']));
    let heads = |line: &str| {
        let line = line.to_lowercase();
        let line = line.trim_end_matches(['*', '_', ' ']);
        let named = line.starts_with("plan") || line.ends_with("plan:") || line.ends_with("plan");
        named && (line.ends_with(':') || line.len() <= 40) && !line.ends_with('.')
    };
    if !lines.by_ref().any(heads) {
        return false;
    }
    lines.filter(|line| is_step(line)).count() >= 2
}

/// Returns true for lines like `1. …`, `2) …` or `- …`.
fn is_step(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.len() < line.len() && rest.starts_with(['.', ')']);
    numbered || line.starts_with("- ") || line.starts_with("• ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_says_whether_it_passed() {
        for (text, expected) in [
            ("Approved. The finding is fixed and tested.", ReviewVerdict::Passed),
            ("LGTM!", ReviewVerdict::Passed),
            ("No findings, ready to merge", ReviewVerdict::Passed),
            ("Everything looks good to me.", ReviewVerdict::Passed),
            ("One finding: the loop ends too early", ReviewVerdict::Found),
            ("1. [correctness] `a.rs:3`: overflow", ReviewVerdict::Found),
            ("Please fix the two points above.", ReviewVerdict::Found),
            ("I can't approve this. Changes requested.", ReviewVerdict::Found),
            ("Not approved", ReviewVerdict::Unclear),
            ("Looks good once the test is fixed", ReviewVerdict::Unclear),
            ("Looks good, but one blocking finding", ReviewVerdict::Found),
            ("I read the diff.", ReviewVerdict::Unclear),
            ("", ReviewVerdict::Unclear),
        ] {
            assert_eq!(review_of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_plan_is_known_by_its_looks() {
        for text in [
            "The cause is x.\n\nPlan:\n1. Do a\n2. Do b",
            "**Plan**\n- a\n- b",
            "## Proposed plan\n\n1) a\n2) b",
            "Here is the plan:\n1. a\n2. b",
        ] {
            assert!(is_plan(text), "{text}");
        }
        for text in [
            "The plan is approved.\n1. a\n2. b",
            "Plan: ask somebody",
            "We planned a lot.",
            "Two ways:\n1. a\n2. b",
            "",
        ] {
            assert!(!is_plan(text), "{text}");
        }
    }
}
