//! Detects a run that goes in circles. Pure: the steps of a run in, what repeats out.

use crate::transcript::state::HashedStep;

/// Repetitions of the same call with the same result, in a row.
const SAME: usize = 4;
/// Repetitions of the same error in a row, whatever was called.
const ERRORS: usize = 3;
/// Alternations of the same two calls with their results.
const PING_PONG: usize = 3;
/// Repetitions of the same words beside calls, in a row.
const WORDS: usize = 4;

/// Names the repetition, in words for the model and the decision log.
pub fn find_circle(steps: &[HashedStep], words: &[u64]) -> Option<&'static str> {
    let last = |n: usize| steps.len().checked_sub(n).map(|from| &steps[from..]);
    let alike = |n: usize, same: fn(&HashedStep, &HashedStep) -> bool| {
        last(n).is_some_and(|steps| steps.windows(2).all(|two| same(&two[0], &two[1])))
    };
    if alike(SAME, |a, b| a == b) {
        return Some("the same call gave the same result four times");
    }
    if alike(ERRORS, |a, b| a.failed && b.failed && a.result == b.result) {
        return Some("the same error came three times");
    }
    let pong = last(2 * PING_PONG).is_some_and(|steps| {
        steps[0] != steps[1] && steps.windows(3).all(|three| three[0] == three[2])
    });
    if pong {
        return Some("two calls alternate and nothing changes");
    }
    let spoken = words.len().checked_sub(WORDS).map(|from| &words[from..]);
    if spoken.is_some_and(|words| words.windows(2).all(|two| two[0] == two[1])) {
        return Some("the same words came four times");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<HashedStep> {
        // A letter for call and result; a capital one failed, with an error that it shares with all.
        let step = |c: char| HashedStep {
            call: c.into(),
            result: if c.is_uppercase() { 0 } else { c.into() },
            failed: c.is_uppercase(),
        };
        text.chars().map(step).collect()
    }

    #[test]
    fn circles_are_noticed_and_progress_is_not() {
        for (text, expected) in [
            ("abcd", None),
            ("aaa", None),
            ("aaaa", Some("the same call")),
            ("xaaaab", None),
            ("AB", None),
            ("ABC", Some("the same error")),
            ("AbCD", None),
            ("ababa", None),
            ("ababab", Some("two calls alternate")),
            ("abcabc", None),
        ] {
            let found = find_circle(&steps(text), &[]);
            assert_eq!(found.is_some(), expected.is_some(), "{text}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{text}");
        }
        assert!(find_circle(&[], &[1, 1, 1, 1]).is_some());
        assert!(find_circle(&[], &[1, 1, 2, 1]).is_none());
    }
}
