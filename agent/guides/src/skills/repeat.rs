//! Finds requests that people make again and again, and that no skill does. Pure: the same words always give the same
//! answer.

use super::lists::{DETERMINERS, PREPOSITIONS};
use super::words::{WordToken, same_word, split_sentences};
use crate::text::clip_text;
use crate::voice::join_lines;

/// Every so many times somebody asks for it, a skill is suggested: not each time after the second.
const EVERY: usize = 3;
/// Most words of a request that count.
const MAX_WORDS: usize = 24;
/// Fewest words that both have in common, and their least share of the words of both in percent.
const LEAST_SHARED: usize = 2;
const LIKENESS: usize = 60;
/// Earlier requests that are named, and the longest of them, in characters.
const MAX_NAMED: usize = 4;
const MAX_SHOWN: usize = 140;
/// Other words that stand in any request.
const PLAIN: &[&str] = &[
    "again", "all", "also", "and", "any", "are", "as", "be", "but", "can", "could", "do", "does",
    "have", "hello", "hey", "hi", "if", "is", "it", "just", "let", "like", "make", "me", "need",
    "new", "now", "one", "or", "please", "pls", "should", "so", "thank", "thanks", "then", "there",
    "today", "us", "want", "was", "we", "were", "what", "when", "which", "will", "would", "you",
];

/// The request that began an earlier conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRequest {
    /// Page or link where the conversation can be read.
    pub place: String,
    pub asked: String,
}

/// Returns the past requests that ask for the same as `text`, if this is the time to suggest a skill for it.
pub fn find_repeats<'a>(text: &str, past: &'a [PastRequest]) -> Vec<&'a PastRequest> {
    let wanted = telling_words(text);
    let alike: Vec<&PastRequest> =
        past.iter().filter(|one| is_alike(&wanted, &telling_words(&one.asked))).collect();
    if (alike.len() + 1).is_multiple_of(EVERY) { alike } else { Vec::new() }
}

/// Brief for the model about repeated requests.
pub fn repeat_brief(message: &str, repeats: &[&PastRequest]) -> String {
    let shown = |one: &&PastRequest| {
        let asked = join_lines(&one.asked.replace('"', "'"));
        format!("- {}: \"{}\"", one.place, clip_text(&asked, MAX_SHOWN))
    };
    let newest: Vec<String> = repeats.iter().take(MAX_NAMED).map(shown).collect();
    let times = repeats.len();
    format!(
        "[CodeButler] Message {message} asks for something that people asked for {times} times before, and no skill covers \
         it. Their words, as quotes:\n{}\nDo what is asked. At the end of your answer, offer in one sentence to make it a \
         skill: its name, the words to say, what varies as `{{parameters}}`, and its role. If they want it, plan the file \
         `.codebutler/skills/<name>.md` like any change.",
        newest.join("\n")
    )
}

/// The words that say what is wanted. Numbers, names in quotes and issues differ from time to time.
fn telling_words(text: &str) -> Vec<String> {
    let tells = |token: &WordToken| {
        let word = token.word.as_str();
        let letters = word.chars().filter(|c| c.is_alphabetic()).count();
        let is_plain = [PLAIN, DETERMINERS, PREPOSITIONS].iter().any(|list| list.contains(&word));
        !token.quoted && letters > 1 && !word.starts_with('#') && !is_plain
    };
    let mut words: Vec<String> = Vec::new();
    for token in split_sentences(text).into_iter().flat_map(|sentence| sentence.tokens) {
        if words.len() < MAX_WORDS
            && tells(&token)
            && !words.iter().any(|word| same_word(word, &token.word))
        {
            words.push(token.word);
        }
    }
    words
}

fn is_alike(one: &[String], other: &[String]) -> bool {
    let shared =
        one.iter().filter(|word| other.iter().any(|theirs| same_word(word, theirs))).count();
    let all = one.len() + other.len();
    shared >= LEAST_SHARED && 2 * shared * 100 >= all * LIKENESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(asked: &[&str]) -> Vec<PastRequest> {
        let of = |(n, asked): (usize, &&str)| PastRequest {
            place: format!("journals/thread-{n}.md"),
            asked: (*asked).to_owned(),
        };
        asked.iter().enumerate().map(of).collect()
    }

    #[test]
    fn the_same_wish_in_other_words_is_found_at_the_third_time() {
        let before = past(&[
            "bump the rust dependencies to the newest versions",
            "the price is rounded wrongly in the invoice",
            "hey, can you please bump our Rust dependencies?",
        ]);
        let found = find_repeats("Could you bump the rust dependencies again, please?", &before);
        let places: Vec<_> = found.iter().map(|one| one.place.as_str()).collect();
        assert_eq!(places, ["journals/thread-0.md", "journals/thread-2.md"]);
        let brief = repeat_brief("9.000001", &found);
        assert!(brief.contains("asked for 2 times before"), "{brief}");
        assert!(brief.contains("- journals/thread-2.md: \"hey, can you"), "{brief}");
    }

    #[test]
    fn neither_the_second_nor_the_fourth_time_nor_other_wishes_say_anything() {
        let twice = past(&["bump the rust dependencies"]);
        assert_eq!(find_repeats("bump the rust dependencies", &twice), [&twice[0]; 0]);
        let often = past(&["bump the rust dependencies"; 3]);
        assert!(find_repeats("bump rust dependencies", &often).is_empty());
        let others = past(&[
            "fix the rounding of prices",
            "fix the login page",
            "fix the tests of the invoice",
            "please fix it",
        ]);
        for text in ["fix the export of invoices", "please do it", "", "fix", "1 2 3"] {
            assert!(find_repeats(text, &others).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_differs_from_time_to_time_does_not_count() {
        let before = past(&[
            "add the customer `Acme GmbH` to the price list, #41",
            "add the customer \"Nord AG\" to the price list",
        ]);
        assert_eq!(
            find_repeats("add the customer 'Süd KG' to the price list, #77", &before).len(),
            2
        );
    }
}
