//! Names that glob characters, brackets and braces can spell.

/// Name of the repository's folder.
const NAME: &str = ".git";

/// True for a name with glob characters, brackets or braces that can spell `.git`, and little else.
pub(super) fn could_be(part: &str) -> bool {
    if part.eq_ignore_ascii_case(".git") {
        return true;
    }
    // In a shell, a leading `*` or `?` matches no leading dot.
    could_spell(part, NAME) && expand_braces(part).iter().any(|one| one.starts_with(['.', '[']))
}

/// True where glob characters can spell a name.
pub(super) fn could_spell(glob: &str, name: &str) -> bool {
    glob.contains(['*', '?', '[', '{'])
        && expand_braces(glob).iter().any(|one| glob_matches(one.as_bytes(), name.as_bytes()))
}

/// True for a pattern of `find`, in which `*` matches any characters.
pub(super) fn glob_spells(pattern: &str, name: &str) -> bool {
    glob_matches(pattern.as_bytes(), name.as_bytes())
}

/// `{a,b}c` as `ac` and `bc`; only what is short enough to matter.
fn expand_braces(text: &str) -> Vec<String> {
    let parts = (|| {
        let open = text.find('{')?;
        let close = open + text[open..].find('}')?;
        Some((&text[..open], &text[open + 1..close], &text[close + 1..]))
    })();
    match parts {
        Some((before, inner, after)) if text.len() < 64 => inner
            .split(',')
            .flat_map(|one| expand_braces(&format!("{before}{one}{after}")))
            .take(64)
            .collect(),
        _ => vec![text.to_owned()],
    }
}

/// Shell globs: `*`, `?`, `[a-z]`.
fn glob_matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut done) = (0, 0);
    // Behind the last star, and what that may stand for so far.
    let mut star = None;
    while done < name.len() {
        if glob.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, done));
        } else if let Some(length) = one_matches(&glob[at..], name[done]) {
            at += length;
            done += 1;
        } else if let Some((behind, from)) = star {
            star = Some((behind, from + 1));
            (at, done) = (behind, from + 1);
        } else {
            return false;
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the glob part that matches one byte, if it matches this one.
fn one_matches(glob: &[u8], byte: u8) -> Option<usize> {
    match glob.first()? {
        b'?' => Some(1),
        b'[' => {
            let end = glob.iter().skip(2).position(|b| *b == b']')?;
            let set = &glob[1..end + 2];
            let negated = matches!(set.first(), Some(b'!' | b'^'));
            let set = if negated { &set[1..] } else { set };
            let listed = set.contains(&byte)
                || set.windows(3).any(|w| w[1] == b'-' && (w[0]..=w[2]).contains(&byte))
                || set.starts_with(b"[:");
            (listed != negated).then_some(end + 3)
        }
        plain => plain.eq_ignore_ascii_case(&byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_many_stars_are_matched_at_once() {
        let stars = "*a".repeat(2_000);
        assert!(!glob_spells(&stars, &"a".repeat(1_999)));
        assert!(glob_spells(&stars, &"a".repeat(2_000)));
        for (glob, name, matches) in [
            ("*", "", true),
            ("a*", "a", true),
            ("*.[ch]", "x.c", true),
            ("*.[!ch]", "x.c", false),
            ("?b*d", "abccd", true),
            ("?b*d", "abcce", false),
            ("[a", "[a", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(glob_spells(glob, name), matches, "{glob} {name}");
        }
    }
}
