//! Names that glob characters, brackets and braces can spell.

/// The repository's folder.
const NAME: &str = ".git";

/// True for a name with glob characters, brackets or braces that can spell `.git`, and little else.
pub(super) fn could_be(part: &str) -> bool {
    if part.eq_ignore_ascii_case(".git") {
        return true;
    }
    // A star or a question mark stands for no dot at the beginning.
    could_spell(part, NAME) && expand_braces(part).iter().any(|one| one.starts_with(['.', '[']))
}

/// True where glob characters can spell a name.
pub(super) fn could_spell(glob: &str, name: &str) -> bool {
    glob.contains(['*', '?', '[', '{'])
        && expand_braces(glob).iter().any(|one| glob_matches(one.as_bytes(), name.as_bytes()))
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
    match (glob.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            glob_matches(&glob[1..], name) || (!name.is_empty() && glob_matches(glob, &name[1..]))
        }
        (Some(b'?'), Some(_)) => glob_matches(&glob[1..], &name[1..]),
        (Some(b'['), Some(byte)) => match glob.iter().skip(2).position(|b| *b == b']') {
            Some(end) => {
                let set = &glob[1..end + 2];
                let negated = matches!(set.first(), Some(b'!' | b'^'));
                let set = if negated { &set[1..] } else { set };
                let listed = set.contains(byte)
                    || set.windows(3).any(|w| w[1] == b'-' && (w[0]..=w[2]).contains(byte))
                    || set.starts_with(b"[:");
                listed != negated && glob_matches(&glob[end + 3..], &name[1..])
            }
            None => false,
        },
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b) && glob_matches(&glob[1..], &name[1..]),
        _ => false,
    }
}
