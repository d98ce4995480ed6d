//! Rules that say the contrary of each other: the same words, and one of them forbids what the other wants.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::LearningEntry;

/// Subject of a rule, and its sense: to do that or not to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RuleSense {
    /// Digest of the rule's words, in whatever order; 0 for a rule without any.
    about: u64,
    forbids: bool,
}

fn sense_of(rule: &str) -> RuleSense {
    let mut forbids = false;
    let mut words = Vec::new();
    let is_part = |c: char| c.is_alphanumeric() || c == '\'' || c == '\u{2019}';
    for word in rule.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        match word.as_str() {
            "never" | "not" | "no" | "avoid" | "don't" | "don\u{2019}t" => forbids = !forbids,
            "always" | "do" => {}
            word => {
                let mut hasher = DefaultHasher::new();
                word.hash(&mut hasher);
                words.push(hasher.finish());
            }
        }
    }
    words.sort_unstable();
    words.dedup();
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    RuleSense { about: if words.is_empty() { 0 } else { hasher.finish() }, forbids }
}

/// True if two rules can't both be followed.
pub fn contradicts(one: &LearningEntry, other: &LearningEntry) -> bool {
    let (one, other) = (sense_of(&one.rule), sense_of(&other.rule));
    one.about == other.about && one.about != 0 && one.forbids != other.forbids
}

/// Of learnings that contradict each other those that are older, by their place in the list; among equals the
/// first stands. Each with the one that counts.
pub fn find_contradicted<'a>(
    learnings: impl Iterator<Item = &'a LearningEntry>,
) -> HashMap<usize, &'a LearningEntry> {
    let mut by_words: HashMap<u64, Vec<(usize, bool, &LearningEntry)>> = HashMap::new();
    for (place, learning) in learnings.enumerate() {
        let RuleSense { about, forbids } = sense_of(&learning.rule);
        if about != 0 {
            by_words.entry(about).or_default().push((place, forbids, learning));
        }
    }
    let mut found = HashMap::new();
    for group in by_words.into_values().filter(|group| group.len() > 1) {
        let newest = group.iter().rev().max_by_key(|(_, _, one)| one.began());
        let Some((_, forbids, counts)) = newest.copied() else { continue };
        let against = group.iter().filter(|(_, other, _)| *other != forbids);
        found.extend(against.map(|(place, ..)| (*place, counts)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(rule: &str, at: &str) -> LearningEntry {
        let source = format!("https://acme.slack.com/archives/C1/p{at}000100");
        LearningEntry { rule: rule.to_owned(), source, ..LearningEntry::default() }
    }

    #[test]
    fn of_contrary_rules_the_newer_counts() {
        let all = [
            rule("always sort the lines", "1700000000"),
            rule("use cents", "1700000000"),
            rule("Never sort the lines.", "1700000009"),
            rule("do not use cents", ""),
            rule("don't", ""),
            rule("do", ""),
        ];
        let found = find_contradicted(all.iter());
        let mut places: Vec<_> = found.iter().map(|(at, by)| (*at, by.rule.as_str())).collect();
        places.sort_unstable();
        assert_eq!(places, [(0, "Never sort the lines."), (3, "use cents")]);
        assert!(contradicts(&all[0], &all[2]) && !contradicts(&all[0], &all[1]));
        assert!(!contradicts(&all[4], &all[5]), "nothing is said");
        let equal = [rule("sort", "1700000000"), rule("never sort", "1700000000")];
        assert_eq!(
            find_contradicted(equal.iter()).keys().collect::<Vec<_>>(),
            [&1],
            "the first stands"
        );
    }
}
