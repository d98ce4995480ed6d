//! Finds the learnings that a message goes by: a role names their ids, people read their claims.

use std::fmt::Write as _;

/// Most that are named under a message.
const MAX_NAMED: usize = 5;

/// A learning that a role was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLearning {
    pub id: String,
    pub claim: String,
    /// Path of the page that holds it.
    pub page: String,
}

/// The message with the claims of the learnings that it names, below it and once each.
pub fn name_used(text: &str, known: &[KnownLearning]) -> String {
    let used: Vec<_> = known.iter().filter(|one| mentions_id(text, &one.id)).collect();
    if used.is_empty() {
        return text.to_owned();
    }
    let mut text = text.to_owned();
    for KnownLearning { id, .. } in &used {
        for mark in [format!(" [{id}]"), format!(" ({id})"), format!("[{id}]"), format!("({id})")] {
            text = text.replace(&mark, "");
        }
    }
    let mut out = format!("{}\n\nGoes by what the team remembers:", text.trim_end());
    for (number, KnownLearning { claim, page, .. }) in used.iter().take(MAX_NAMED).enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(out, "{comma} “{}” (`{page}`)", claim.replace('@', ""));
    }
    if used.len() > MAX_NAMED {
        let _ = write!(out, " and {} more", used.len() - MAX_NAMED);
    }
    out
}

/// True if an id stands in a text as a word of its own.
fn mentions_id(text: &str, id: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '-';
    !id.is_empty()
        && text.match_indices(id).any(|(at, _)| {
            !text[..at].chars().next_back().is_some_and(is_part)
                && !text[at + id.len()..].chars().next().is_some_and(is_part)
        })
}

/// Ids of learnings that stand in a text, whichever they are.
pub fn find_ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| {
        word.strip_prefix("l-")
            .is_some_and(|hash| hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(number: u32) -> KnownLearning {
        KnownLearning {
            id: format!("l-{number:08x}"),
            claim: format!("Claim {number}"),
            page: ".codebutler/coder.md".to_owned(),
        }
    }

    #[test]
    fn who_reads_is_told_the_claim_and_not_the_id() {
        let all: Vec<_> = (1..=7).map(known).collect();
        assert_eq!(
            name_used("Prices are cents [l-00000001], so 20 [l-00000001].", &all),
            "Prices are cents, so 20.\n\nGoes by what the team remembers: “Claim 1” (`.codebutler/coder.md`)"
        );
        assert_eq!(
            name_used("Nothing. l-000000012 xl-00000001", &all),
            "Nothing. l-000000012 xl-00000001"
        );
        let many: Vec<_> = all.iter().map(|one| format!("[{}]", one.id)).collect();
        assert!(name_used(&many.join(" "), &all).ends_with("(`.codebutler/coder.md`) and 2 more"));
    }

    #[test]
    fn ids_are_found_wherever_they_stand() {
        let text = "as [l-1a2b3c4d], `l-00000001` and l-nothing, al-1a2b3c4d";
        assert_eq!(find_ids(text).collect::<Vec<_>>(), ["l-1a2b3c4d", "l-00000001"]);
    }
}
