//! Recognizes messages in which a person says that an answer is wrong. Such a word is worth more than any
//! retrospective: it is looked into, and what it teaches is remembered. Found by its words; a change of mind about a
//! plan is none.

/// First words of a sentence that takes something back for somebody else.
const BEGINS: [&str; 17] = [
    "no that",
    "no it",
    "no the",
    "no you",
    "no they",
    "no this",
    "no there",
    "nope",
    "wrong",
    "thats wrong",
    "that is wrong",
    "thats not",
    "that is not",
    "not true",
    "actually",
    "correction",
    "incorrect",
];
/// Phrases that say it anywhere in a sentence.
const SAYS: [&str; 9] = [
    "you are wrong",
    "youre wrong",
    "you are mistaken",
    "youre mistaken",
    "that is incorrect",
    "thats incorrect",
    "is not true",
    "isnt true",
    "your answer is wrong",
];

/// True if a message corrects what was said before.
pub fn is_correction(text: &str) -> bool {
    text.split(['.', '!', '\n', ';']).take(3).any(|sentence| {
        let plain = |c: char| c.is_alphanumeric() || c.is_whitespace();
        let words: String = sentence
            .replace(['\'', '\u{2019}'], "")
            .chars()
            .map(|c| if plain(c) { c } else { ' ' })
            .collect();
        let words = words.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let words = ["hm ", "hmm ", "sorry ", "but ", "well "]
            .iter()
            .fold(words.as_str(), |words, opening| words.strip_prefix(opening).unwrap_or(words));
        let begins = |said: &&str| {
            words.strip_prefix(*said).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let asks = text.trim_end().ends_with('?');
        !asks && (BEGINS.iter().any(begins) || SAYS.iter().any(|said| words.contains(said)))
    })
}

/// Brief for the model about a correction.
pub fn correction_brief(message: &str, lead: Option<&str>) -> String {
    let remember = match lead {
        Some(lead) => format!(
            " If they are right, say what is right and why you were wrong, in a few sentences, and end with \
             `@codebutler.{lead}` and what the team has to remember, with the `path:line` that shows it."
        ),
        None => " If they are right, say what is right and why you were wrong.".to_owned(),
    };
    format!(
        "[CodeButler] Message {message} says that what was answered is wrong. Look at the code again before you answer.\
         {remember} If they are not, show the line that says so."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_an_answer_back_is_told_from_what_does_not() {
        for text in [
            "No, that is only for orders.",
            "That's wrong: it is counted in cents.",
            "Actually, the limit is 50",
            "Hm, you are mistaken. It is in config.rs",
            "Not true!",
            "Thanks. But that is not what `check.sh` does",
        ] {
            assert!(is_correction(text), "{text}");
        }
        for text in [
            "No",
            "no thanks",
            "Is that wrong?",
            "The total is wrong for orders of three items",
            "What does check.sh do?",
            "Fix the wrong label",
            "No plan is needed, just tell me",
            "Yes, please",
        ] {
            assert!(!is_correction(text), "{text}");
        }
    }
}
