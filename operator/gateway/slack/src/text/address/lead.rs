//! Words around a mention: does the line begin with it, or is its sentence said to the role?

/// Words that may stand before an address: they greet, or say that something is handed over.
const OPENING: [&str; 44] = [
    "hi",
    "hey",
    "hello",
    "dear",
    "ok",
    "okay",
    "alright",
    "great",
    "good",
    "so",
    "now",
    "next",
    "then",
    "over",
    "back",
    "to",
    "handing",
    "hand",
    "handoff",
    "handover",
    "passing",
    "pass",
    "please",
    "done",
    "it",
    "this",
    "that",
    "is",
    "up",
    "step",
    "your",
    "turn",
    "ping",
    "calling",
    "for",
    "work",
    "goes",
    "and",
    "off",
    "on",
    "attention",
    "cc",
    "all",
    "yours",
];
/// Words behind a mention of somebody who is talked about.
const ABOUT: [&str; 40] = [
    "said", "says", "wrote", "writes", "did", "does", "has", "had", "was", "is", "were", "will",
    "would", "found", "finds", "made", "makes", "thinks", "thought", "wants", "knows", "agrees",
    "already", "also", "and", "or", "fixed", "opened", "ran", "told", "tells", "gave", "took",
    "saw", "did", "didn't", "hasn't", "isn't", "wasn't", "who",
];
/// Words before a mention, in the middle of a line, of somebody who is spoken to.
const SPOKEN_TO: [&str; 15] = [
    "to", "over", "hi", "hey", "hello", "please", "now", "next", "then", "so", "ping", "dear",
    "ok", "okay", "done",
];
/// Words that take that back: the sentence tells of something.
const TOLD: [&str; 16] = [
    "thanks",
    "thank",
    "as",
    "by",
    "from",
    "according",
    "spoke",
    "talked",
    "replied",
    "reply",
    "answered",
    "answer",
    "similar",
    "due",
    "belongs",
    "back-to-back",
];
/// Words behind a mention of somebody who is asked for something.
const ASKED: [&str; 32] = [
    "please",
    "can",
    "could",
    "would",
    "go",
    "you",
    "your",
    "take",
    "implement",
    "review",
    "look",
    "fix",
    "check",
    "see",
    "continue",
    "proceed",
    "start",
    "carry",
    "over",
    "kindly",
    "have",
    "let",
    "merge",
    "close",
    "test",
    "run",
    "update",
    "rework",
    "verify",
    "approve",
    "decide",
    "answer",
];
/// Longest opening, in words.
const WORDS: usize = 6;

/// True if a line begins with the mention between `before` and `after`: bare, or behind decoration, a bullet,
/// an arrow, an emoji or a greeting.
pub(super) fn begins_line(before: &str, after: &str) -> bool {
    if is_possessive(after) {
        return false;
    }
    if before.trim().is_empty() {
        return true;
    }
    let words = words_before(before);
    words.is_some_and(|words| {
        let opens = words.iter().all(|word| OPENING.contains(word));
        opens && words.len() <= WORDS && !is_about(after)
    })
}

/// True if the sentence around a mention in the middle of a line is said to the role.
pub(super) fn hands_over(before: &str, after: &str) -> bool {
    if is_possessive(after) || is_about(after) {
        return false;
    }
    let ends = |c: char| matches!(c, '.' | '!' | '?' | ';');
    let sentence = before.rsplit(ends).next().unwrap_or_default();
    if sentence.contains(super::CODE) && sentence.trim_end().ends_with(super::CODE) {
        return false;
    }
    let sentence: Vec<&str> = split_words(sentence).collect();
    if sentence.iter().any(|word| TOLD.contains(word)) {
        return false;
    }
    let spoken_to = sentence.last().is_none_or(|word| SPOKEN_TO.contains(word));
    let asked = split_words(after).next().is_some_and(|word| ASKED.contains(&word));
    let announced = sentence.last().is_some_and(|word| matches!(*word, "to" | "over"));
    (spoken_to && (asked || announced || after.trim_start().starts_with([',', ':'])))
        || asked && {
            // "I asked @codebutler.coder to …" and "ask @codebutler.coder to …" are no request.
            sentence.last().is_none_or(|word| !word.starts_with("ask"))
        }
}

/// True for a mention in the genitive, as in `@codebutler.coder's`.
fn is_possessive(after: &str) -> bool {
    after.starts_with("'s") || after.starts_with("\u{2019}s")
}

/// True if the words behind a mention tell of the role rather than speak to it.
fn is_about(after: &str) -> bool {
    if after.trim_start().starts_with([',', ':', '*', '_', '~', '-', '\u{2013}', '\u{2014}']) {
        return false;
    }
    let Some(word) = split_words(after).next() else { return false };
    ABOUT.contains(&word) || (word.len() > 4 && word.ends_with("ed") && word != "needed")
}

/// The words before a mention at the start of a line; None if there is more than words and decoration.
fn words_before(before: &str) -> Option<Vec<&str>> {
    // A numbered list.
    let rest = before.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(['.', ')']).unwrap_or(before);
    if rest.contains(super::CODE) || rest.contains(['.', '?', '(', '"', '\u{201c}']) {
        return None;
    }
    Some(split_words(rest).filter(|word| !is_emoji(word)).collect())
}

/// Words, lower-cased already, without what decorates them. Emoji by name stay whole.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',');
    words.map(trim_word).filter(|word| !word.is_empty())
}

fn trim_word(word: &str) -> &str {
    let word = word.trim_start_matches("-&gt;").trim_start_matches("=&gt;");
    if is_emoji(word) {
        return word;
    }
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn is_emoji(word: &str) -> bool {
    let inner = word.strip_prefix(':').and_then(|word| word.strip_suffix(':'));
    inner.is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}
