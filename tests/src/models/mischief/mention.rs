//! Hand-overs as models write them: a line that begins with `@codebutler.<role>`, rewritten.

use super::MischiefKind;

const ADDRESS: &str = "@codebutler.";

/// Finds the end of the address that a line begins with.
fn address_end(line: &str) -> Option<usize> {
    let rest = line.strip_prefix(ADDRESS)?;
    let name = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
    (name > 0).then_some(ADDRESS.len() + name)
}

/// Rewrites the first hand-over of a text in another way. A text without one stays as it is.
pub(super) fn rewrite_mention(kind: MischiefKind, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let found = lines.iter().enumerate().find_map(|(n, line)| Some((n, address_end(line)?)));
    let Some((n, end)) = found else { return text.to_owned() };
    let (address, rest) = lines[n].split_at(end);
    let rest_words = rest.trim_start_matches([':', ',', ' ']);
    let line = match kind {
        MischiefKind::MentionBold => format!("**{address}**{rest}"),
        MischiefKind::MentionListed => format!("- {address}{rest}"),
        MischiefKind::MentionMidline => format!("Over to {address}: {rest_words}"),
        MischiefKind::MentionDoubled => format!("{address}{rest}\n\n{address} please go on."),
        MischiefKind::MentionMissing => rest_words.to_owned(),
        _ => return text.to_owned(),
    };
    lines[n] = line;
    lines.join("\n")
}

/// True if two texts say the same apart from whom they address and how.
pub(crate) fn is_but_for_mentions(one: &str, other: &str) -> bool {
    let words = |text: &str| {
        let text = text.replace("please go on.", " ").replace("Over to ", " ");
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '@' && c != '.');
        let words = words.filter(|word| !word.is_empty() && !word.starts_with('@'));
        words.map(|word| word.trim_matches('.').to_lowercase()).collect::<Vec<_>>()
    };
    let (one, other) = (words(one), words(other));
    !one.is_empty() && one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Done.\n\n@codebutler.reviewer please look at `src/a.rs`.";

    #[test]
    fn a_hand_over_is_written_in_five_other_ways() {
        use MischiefKind as K;
        for (kind, expected) in [
            (K::MentionBold, "**@codebutler.reviewer** please look"),
            (K::MentionListed, "- @codebutler.reviewer please look"),
            (K::MentionMidline, "Over to @codebutler.reviewer: please look"),
            (K::MentionDoubled, "@codebutler.reviewer please go on."),
            (K::MentionMissing, "Done.\n\nplease look"),
        ] {
            let text = rewrite_mention(kind, TEXT);
            assert!(text.contains(expected), "{text}");
            assert!(is_but_for_mentions(&text, TEXT), "{text}");
            assert_eq!(rewrite_mention(kind, "Done, @codebutler.pm"), "Done, @codebutler.pm");
        }
        assert!(!is_but_for_mentions("Done.", TEXT));
    }
}
