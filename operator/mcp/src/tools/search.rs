//! The tools that a model is shown, and the search for the others.

use std::collections::HashMap;

/// A tool in the search index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchEntry<'a> {
    /// Name of the tool for models.
    pub name: &'a str,
    pub description: &'a str,
    /// Bytes that its whole declaration takes.
    pub size: usize,
}

/// Indexes of the tools that a model is shown, and of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownTools {
    /// Declared in each request.
    pub shown: Vec<usize>,
    /// Found by a search only.
    pub hidden: Vec<usize>,
}

/// Weight of a word in a name, against one in a description.
const NAME_WEIGHT: f64 = 3.0;
/// Weight of a word that only begins as another one does.
const PREFIX_WEIGHT: f64 = 0.5;
/// Words that say nothing of what is looked for.
const COMMON: [&str; 20] = [
    "a", "all", "an", "and", "by", "for", "from", "i", "in", "is", "me", "of", "on", "or", "the",
    "this", "to", "tool", "use", "with",
];
/// Letters that two words have to begin with.
const PREFIX_LETTERS: usize = 4;

/// Shows all tools where they fit, and otherwise only those that were found before (`kept`), so that the list of a
/// conversation does not change by itself.
pub fn choose_shown(
    entries: &[SearchEntry<'_>],
    kept: &[&str],
    most: usize,
    most_bytes: usize,
) -> ShownTools {
    let size: usize = entries.iter().map(|entry| entry.size).sum();
    let all = entries.len() <= most && size <= most_bytes;
    let mut chosen = ShownTools::default();
    let mut left = most_bytes;
    for (index, entry) in entries.iter().enumerate() {
        let is_shown =
            all || (kept.contains(&entry.name) && chosen.shown.len() < most && entry.size <= left);
        if is_shown {
            left = left.saturating_sub(entry.size);
            chosen.shown.push(index);
        } else {
            chosen.hidden.push(index);
        }
    }
    chosen
}

/// The tools that fit words best, the best first, by index. Rare words count more than common ones.
pub fn search_tools(entries: &[SearchEntry<'_>], query: &str, most: usize) -> Vec<usize> {
    let words: Vec<String> =
        split_words(query).into_iter().filter(|word| !COMMON.contains(&&**word)).collect();
    let texts: Vec<(Vec<String>, Vec<String>)> = entries
        .iter()
        .map(|entry| (split_words(entry.name), split_words(entry.description)))
        .collect();
    let mut documents = HashMap::<&str, f64>::new();
    for word in &words {
        let with = texts
            .iter()
            .filter(|(name, about)| fit(word, name).max(fit(word, about)) > 0.0)
            .count();
        #[expect(clippy::cast_precision_loss, reason = "numbers of tools are small")]
        let rarity = (1.0 + entries.len() as f64 / (1.0 + with as f64)).ln();
        documents.insert(word, rarity);
    }
    let score = |(name, about): &(Vec<String>, Vec<String>)| -> f64 {
        words
            .iter()
            .map(|word| documents[&**word] * (NAME_WEIGHT * fit(word, name) + fit(word, about)))
            .sum()
    };
    let mut found: Vec<(usize, f64)> =
        texts.iter().map(score).enumerate().filter(|(_, score)| *score > 0.0).collect();
    found.sort_by(|(one, a), (other, b)| {
        b.total_cmp(a).then_with(|| entries[*one].name.cmp(entries[*other].name))
    });
    found.into_iter().take(most).map(|(index, _)| index).collect()
}

fn fit(word: &str, text: &[String]) -> f64 {
    if text.iter().any(|one| one == word) {
        return 1.0;
    }
    let shared = |one: &String| {
        let letters = one.chars().zip(word.chars()).take_while(|(a, b)| a == b).count();
        letters >= PREFIX_LETTERS && letters * 2 > one.chars().count().max(word.chars().count())
    };
    if text.iter().any(shared) { PREFIX_WEIGHT } else { 0.0 }
}

/// Lower-case words; `getUserName` and `get_user_name` have three.
fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<SearchEntry<'static>> {
        let tools = [
            ("mcp__sentry__search_issues", "Finds issues of a project by words."),
            ("mcp__sentry__get_trace", "Shows a trace with its spans."),
            ("mcp__db__query", "Runs a read-only SQL query in PostgreSQL."),
            ("mcp__browser__takeScreenshot", "Saves a picture of the page."),
            ("mcp__linear__create_issue", "Creates an issue in a team."),
        ];
        tools.map(|(name, description)| SearchEntry { name, description, size: 100 }).into()
    }

    fn best(query: &str) -> Option<&'static str> {
        let names = ["search", "trace", "query", "shot", "create"];
        search_tools(&entries(), query, 3).first().map(|index| names[*index])
    }

    #[test]
    fn words_of_names_and_descriptions_find_tools() {
        for (query, expected) in [
            ("take a screenshot", Some("shot")),
            ("SQL", Some("query")),
            ("create issues", Some("create")),
            ("find an issue in sentry", Some("search")),
            ("queries", Some("query")),
            ("picture of a page", Some("shot")),
            ("weather", None),
            ("", None),
            ("\u{0}*[(", None),
        ] {
            assert_eq!(best(query), expected, "{query}");
        }
    }

    #[test]
    fn all_are_shown_where_they_fit_and_otherwise_those_found_before() {
        let entries = entries();
        assert_eq!(choose_shown(&entries, &[], 5, 500).shown, [0, 1, 2, 3, 4]);
        let few = choose_shown(&entries, &["mcp__db__query"], 4, 500);
        assert_eq!((few.shown, few.hidden), (vec![2], vec![0, 1, 3, 4]));
        assert_eq!(choose_shown(&entries, &[], 5, 499).shown, Vec::<usize>::new());
        let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
        assert_eq!(choose_shown(&entries, &names, 2, 499).shown, [0, 1]);
    }
}
