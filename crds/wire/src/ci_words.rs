//! Words in a commit message, a title or a description that make a CI service skip its work: `[skip ci]` and
//! its kin, as GitHub, GitLab, Gitea, Azure, Bitbucket, Travis, CircleCI, Drone, Codeship, Cloudflare and others
//! document them. What a model writes must not decide whether the checks run.

use std::borrow::Cow;

/// Invisible to people, and between two letters no CI service reads them as one word.
const BREAK: char = '\u{200b}';
/// Longest text between brackets that is taken for such a word, in bytes.
const MAX_BRACKETS: usize = 48;
/// Most words between brackets, as in `[skip travis ci]`.
const MAX_TOKENS: usize = 5;
/// Words without a separator.
const JOINED: [&str; 6] = ["skipci", "ciskip", "skipcd", "skiprun", "skipbuild", "noci"];
/// Words that may follow `no` between brackets.
const SERVICES: [&str; 8] =
    ["ci", "cd", "build", "builds", "actions", "deploy", "pipeline", "pipelines"];
/// Words that count without brackets.
const BARE: [&str; 4] = ["***no_ci***", "***skip_ci***", "--skip-ci", "--ci-skip"];
/// A trailer: a colon follows.
const TRAILERS: [&str; 3] = ["skip-checks", "skip-ci", "ci-skip"];

/// The text with a zero-width space in each word that switches off CI; a text without one is not copied. What
/// removes control or invisible characters has to run before this.
#[must_use]
pub fn break_ci_words(text: &str) -> Cow<'_, str> {
    let places = find_ci_words(text);
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + places.len() * BREAK.len_utf8());
    let mut from = 0;
    for place in places {
        out.push_str(&text[from..place]);
        out.push(BREAK);
        from = place;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

/// True if the text has a word that switches off CI.
#[must_use]
pub fn has_ci_words(text: &str) -> bool {
    !find_ci_words(text).is_empty()
}

/// Offsets at which such words are to be broken: behind the first letter of each, in ascending order.
fn find_ci_words(text: &str) -> Vec<usize> {
    let lower = text.to_ascii_lowercase();
    let mut places: Vec<usize> = find_brackets(&lower).collect();
    for word in BARE {
        let letter = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or_default();
        places.extend(lower.match_indices(word).map(|(at, _)| at + letter + 1));
    }
    for word in TRAILERS {
        let found = lower.match_indices(word).filter(|(at, _)| {
            lower[at + word.len()..].trim_start_matches([' ', '\t']).starts_with([':', '='])
        });
        places.extend(found.map(|(at, _)| at + 1));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Offsets of such words between brackets.
fn find_brackets(lower: &str) -> impl Iterator<Item = usize> + '_ {
    lower.match_indices('[').filter_map(|(open, _)| {
        let inner = &lower[open + 1..];
        let inner = &inner[..inner.find(['[', ']'])?];
        let is_closed = lower[open + 1 + inner.len()..].starts_with(']');
        if !is_closed || inner.len() > MAX_BRACKETS {
            return None;
        }
        let at = find_switch(inner)?;
        Some(open + 1 + at + 1)
    })
}

/// Offset of the word that makes a text in brackets a switch.
fn find_switch(inner: &str) -> Option<usize> {
    let tokens = inner.split(|c: char| !c.is_alphanumeric()).filter(|token| !token.is_empty());
    let tokens: Vec<&str> = tokens.take(MAX_TOKENS + 1).collect();
    match tokens.as_slice() {
        [word] if JOINED.contains(word) => inner.find(word),
        ["no", what] if SERVICES.contains(what) => inner.find("no"),
        ["skip", _, ..] if tokens.len() <= MAX_TOKENS => inner.find("skip"),
        [_, .., "skip"] if tokens.len() <= MAX_TOKENS => inner.rfind("skip"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_switch_off_ci_are_broken_and_read_the_same() {
        for word in [
            "[skip ci]",
            "[ci skip]",
            "[no ci]",
            "[skip actions]",
            "[actions skip]",
            "[Skip CI]",
            "[CI-Skip]",
            "[skip_ci]",
            "[ skip  ci ]",
            "[skip\nci]",
            "[skip travis-ci]",
            "[travis ci skip]",
            "[skip azurepipelines]",
            "[azp skip]",
            "[CF-Pages-Skip]",
            "[skip-cd]",
            "[skip tkn]",
            "[pre-commit.ci skip]",
            "[skip appveyor]",
            "[skip netlify]",
            "[skipRun]",
            "[skipci]",
            "***NO_CI***",
            "***no_ci***",
            "--skip-ci",
            "--ci-skip",
            "skip-checks: true",
            "skip-checks:true",
            "Skip-Checks : true",
            "[[skip ci]]",
            "[docs][skip ci]",
            "[é [skip ci]",
        ] {
            let text = format!("Say hello {word}\n\nBecause {word}");
            let broken = break_ci_words(&text);
            assert!(!broken.to_lowercase().contains(&word.to_lowercase()), "{broken:?}");
            assert!(has_ci_words(&text) && !has_ci_words(&broken), "{broken:?}");
            assert_eq!(broken.replace('\u{200b}', ""), text);
            assert_eq!(break_ci_words(&broken), broken, "once is enough");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in [
            "",
            "Skip CI when nothing changed",
            "[skip]",
            "[x] Do not skip ci",
            "[ ] no ci yet",
            "array[skip]",
            "a[skip_to(the, next, of, these, things)]",
            "[no]",
            "[no changes]",
            "git rebase --skip",
            "the skip-checks option",
            "NO_CI",
            "[see how to skip this one here]",
            "[unclosed skip ci",
        ] {
            assert!(matches!(break_ci_words(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
