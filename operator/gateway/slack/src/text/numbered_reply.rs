//! Replies that say which of several numbered things to keep: a whole message or nothing. Pure.

use codebutler_crds::thread::MOST_OFFERED;

/// Verdict of a whole message on several numbered things: the ones to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemVerdict {
    All,
    None,
    /// Keep only these, by number.
    Only(Vec<u32>),
    /// Drop these; nothing is said of the others.
    Not(Vec<u32>),
    /// Keep this one, in the words that follow.
    Edit(u32),
}

impl ItemVerdict {
    /// The numbers that it names.
    pub fn items(&self) -> &[u32] {
        match self {
            Self::All | Self::None => &[],
            Self::Only(items) | Self::Not(items) => items,
            Self::Edit(item) => std::slice::from_ref(item),
        }
    }
}

const ALL: &[&str] = &["all", "all of them", "keep all", "todos", "todas", "alle"];
const NONE: &[&str] = &[
    "none",
    "none of them",
    "keep none",
    "nothing",
    "ninguno",
    "ninguna",
    "nada",
    "keine",
    "keins",
    "nichts",
];
/// Fillers between numbers, and words before those that are kept or not.
const AND: [&str; 9] = ["and", "y", "e", "und", "&", "+", "number", "numbers", "only"];
const KEEP: [&str; 6] = ["keep", "approve", "accept", "yes", "remember", "just"];
const DROP: [&str; 8] = ["reject", "drop", "no", "not", "without", "skip", "sin", "ohne"];

/// Parses a text that is a verdict and nothing else: `all`, `none`, `1 and 3`, `not 2`, `2: better words`.
/// An offer knows which of the numbers it has.
pub(crate) fn item_verdict(text: &str) -> Option<ItemVerdict> {
    let text = text.trim();
    if let Some((before, after)) = text.split_once(':') {
        let item = before.trim().trim_start_matches("edit").trim().trim_start_matches('#');
        let item = item.parse().ok().filter(|item| can_be_offered(*item))?;
        // A time of day, such as 2:30, is no verdict.
        let says = after.starts_with(char::is_whitespace) && !after.trim().is_empty();
        return says.then_some(ItemVerdict::Edit(item));
    }
    let lower = text.trim_end_matches(['.', '!']).to_lowercase();
    if ALL.contains(&lower.as_str()) {
        return Some(ItemVerdict::All);
    }
    if NONE.contains(&lower.as_str()) {
        return Some(ItemVerdict::None);
    }
    let mut words = lower
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty())
        .peekable();
    let drops = words.peek().is_some_and(|word| DROP.contains(word));
    if drops || words.peek().is_some_and(|word| KEEP.contains(word)) {
        words.next();
    }
    let mut items = Vec::new();
    for word in words.filter(|word| !AND.contains(word)) {
        items.push(word.trim_start_matches('#').parse::<u32>().ok()?);
    }
    let fits = !items.is_empty()
        && items.len() <= MOST_OFFERED
        && items.iter().all(|item| can_be_offered(*item));
    fits.then_some(if drops { ItemVerdict::Not(items) } else { ItemVerdict::Only(items) })
}

/// True if an offer can have a thing with this number.
fn can_be_offered(item: u32) -> bool {
    usize::try_from(item).is_ok_and(|item| (1..=MOST_OFFERED).contains(&item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_alone_are_a_verdict() {
        let only = |items: &[u32]| Some(ItemVerdict::Only(items.to_vec()));
        for (text, verdict) in [
            ("1 and 3", only(&[1, 3])),
            ("1, 3", only(&[1, 3])),
            ("keep 2.", only(&[2])),
            ("#1 y #2", only(&[1, 2])),
            ("not 2", Some(ItemVerdict::Not(vec![2]))),
            ("All of them!", Some(ItemVerdict::All)),
            ("none", Some(ItemVerdict::None)),
            ("2: use whole cents", Some(ItemVerdict::Edit(2))),
            ("edit 3: never", Some(ItemVerdict::Edit(3))),
            ("10:30", None),
            ("2:", None),
            ("note: 2", None),
            ("1 and a half", None),
            ("see 3 of them", None),
            ("42", None),
            ("", None),
        ] {
            assert_eq!(item_verdict(text), verdict, "{text}");
        }
    }

    #[test]
    fn a_number_that_no_offer_has_is_no_verdict() {
        let most = u32::try_from(MOST_OFFERED).unwrap();
        for text in [format!("not {most}"), format!("1, {most}"), format!("{most}: whole cents")] {
            assert!(item_verdict(&text).is_some(), "{text}");
        }
        let more = most + 1;
        for text in [format!("not {more}"), format!("1, {more}"), format!("{more}: whole cents")] {
            assert_eq!(item_verdict(&text), None, "{text}");
        }
    }
}
