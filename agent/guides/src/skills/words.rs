//! A message as words that can be compared: without case, punctuation, mentions and contractions, cut
//! into sentences and clauses. Pure.

/// Characters of a message that are looked at: who asks for something does so early.
const MAX_LOOKED: usize = 1500;
/// Words of a sentence that are looked at.
const MAX_WORDS: usize = 80;
/// Characters that stand around words, and are no part of them.
const AROUND: &str = "()[]{}<>\"'`*_~“”‘’„«»¿¡…";
/// Punctuation that is cut off the end of a word.
const ENDS: &str = ".,:;!?";
/// Short forms of several words.
const SHORT: [(&str, &str); 22] = [
    ("cant", "can not"),
    ("can't", "can not"),
    ("won't", "will not"),
    ("dont", "do not"),
    ("let's", "let us"),
    ("lets", "let us"),
    ("whats", "what is"),
    ("what's", "what is"),
    ("hows", "how is"),
    ("how's", "how is"),
    ("where's", "where is"),
    ("who's", "who is"),
    ("it's", "it is"),
    ("that's", "that is"),
    ("there's", "there is"),
    ("here's", "here is"),
    ("i'm", "i am"),
    ("im", "i am"),
    ("wanna", "want to"),
    ("gimme", "give me"),
    ("prs", "pr"),
    ("hotfixes", "hotfix"),
];

/// A word, and where it stands in its sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WordToken {
    /// The word as it is compared.
    pub word: String,
    pub start: usize,
    pub end: usize,
    /// Somebody's own words, such as what stands in quotes: no word of a trigger.
    pub quoted: bool,
    /// A comma, a colon or a dash follows.
    pub pause: bool,
}

/// A sentence and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpokenSentence {
    pub text: String,
    pub tokens: Vec<WordToken>,
}

/// The sentences in which somebody may ask for something: no code, no quotations, nothing that was
/// added to the message.
pub(super) fn split_sentences(text: &str) -> Vec<SpokenSentence> {
    let mut found = Vec::new();
    let mut fenced = false;
    let looked: String = text.chars().take(MAX_LOOKED).collect();
    for line in looked.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        // The text of a linked message or a file is shown behind the message.
        if line.starts_with("[linked ") || line.starts_with("[file ") {
            break;
        }
        if !fenced && !line.starts_with('>') && !line.starts_with("&gt;") {
            split_line(&without_markup(line), &mut found);
        }
    }
    found
}

/// A trigger's phrase, or anything that is one sentence.
pub(super) fn read_phrase(text: &str) -> Vec<WordToken> {
    let mut found = Vec::new();
    split_line(text, &mut found);
    found.into_iter().flat_map(|sentence| sentence.tokens).collect()
}

/// Removes mentions, and leaves links as their addresses.
fn without_markup(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('<') {
        let Some(end) = rest[at..].find('>').map(|end| at + end) else { break };
        let inner = &rest[at + 1..end];
        out.push_str(&rest[..at]);
        if inner.starts_with("http") {
            out.push_str(inner.split('|').next().unwrap_or(inner));
        } else if inner.starts_with(['@', '#', '!']) {
            // `<@U123>.coder` addresses a role.
            let after = &rest[end + 1..];
            let role = after.strip_prefix('.').map_or(0, |name| {
                1 + name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len())
            });
            rest = &after[role..];
            continue;
        } else {
            out.push_str(&rest[at..=end]);
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
}

fn split_line(line: &str, found: &mut Vec<SpokenSentence>) {
    let mut current = SpokenSentence { text: line.to_owned(), tokens: Vec::new() };
    for (start, chunk) in split_chunks(line) {
        if current.tokens.len() >= MAX_WORDS {
            break;
        }
        let ends = add_chunk(&mut current.tokens, start, chunk);
        if ends && !current.tokens.is_empty() {
            let next = SpokenSentence { text: line.to_owned(), tokens: Vec::new() };
            found.push(std::mem::replace(&mut current, next));
        }
    }
    if !current.tokens.is_empty() {
        found.push(current);
    }
}

/// Splits a line at spaces; words in quotes stay together.
fn split_chunks(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = None;
    let mut quote = None;
    for (at, c) in line.char_indices() {
        let closing = quote.is_some_and(|quote| c == quote);
        if closing {
            quote = None;
        } else if quote.is_none() && start.is_none() {
            let other = match c {
                '`' | '"' => Some(c),
                '“' | '„' => Some('”'),
                _ => None,
            };
            quote = other.filter(|end| line[at + c.len_utf8()..].contains(*end));
        }
        if c.is_whitespace() && quote.is_none() {
            if let Some(begin) = start.take() {
                found.push((begin, &line[begin..at]));
            }
        } else if start.is_none() {
            start = Some(at);
        }
    }
    if let Some(begin) = start {
        found.push((begin, &line[begin..]));
    }
    found
}

/// Adds the words of a chunk. Answers whether a sentence ends with it.
fn add_chunk(tokens: &mut Vec<WordToken>, at: usize, chunk: &str) -> bool {
    let quoted = chunk.starts_with(['`', '"', '“', '„']);
    let around = |c: char| AROUND.contains(c);
    let bare = chunk.trim_end_matches(|c: char| around(c) || ENDS.contains(c));
    let tail = &chunk[bare.len()..];
    let start = at + bare.len() - bare.trim_start_matches(around).len();
    let bare = bare.trim_start_matches(around);
    let pause = tail.contains([',', ':', ';']);
    let ends = tail.contains(['.', '!', '?', ';']);
    if !bare.chars().any(char::is_alphanumeric) {
        // A dash, or a sign of its own.
        if let Some(last) = tokens.last_mut() {
            last.pause = true;
        }
        return ends;
    }
    if bare.starts_with('@') {
        return ends;
    }
    let end = start + bare.len();
    for word in spell_words(bare, quoted) {
        tokens.push(WordToken { word, start, end, quoted, pause: false });
    }
    if let Some(last) = tokens.last_mut() {
        last.pause |= pause;
    }
    ends
}

/// The words that are meant by one, as they are compared.
fn spell_words(bare: &str, quoted: bool) -> Vec<String> {
    let word = bare.to_lowercase().replace(['’', '‘'], "'");
    if quoted {
        return vec![word];
    }
    if let Some(words) = parse_address(&word) {
        return words;
    }
    if let Some((_, words)) = SHORT.iter().find(|(short, _)| *short == word) {
        return words.split(' ').map(str::to_owned).collect();
    }
    for (end, full) in
        [("n't", "not"), ("'d", "would"), ("'ll", "will"), ("'re", "are"), ("'ve", "have")]
    {
        if let Some(stem) = word.strip_suffix(end).filter(|stem| !stem.is_empty()) {
            return vec![stem.to_owned(), full.to_owned()];
        }
    }
    // `hot-fix` and `hotfix` are one word; paths and numbers stay as they are.
    let hyphened = !word.starts_with('-') && word.chars().all(|c| c.is_alphabetic() || c == '-');
    vec![if hyphened { word.replace('-', "") } else { word }]
}

/// A link to an issue or a pull request says which one it is.
fn parse_address(word: &str) -> Option<Vec<String>> {
    let path = word.strip_prefix("https://").or_else(|| word.strip_prefix("http://"))?;
    let parts: Vec<&str> = path.split(['/', '?', '#']).collect();
    let [_, _, _, kind, number, ..] = parts[..] else { return None };
    let kind = match kind {
        "pull" => "pr",
        "issues" => "issue",
        _ => return None,
    };
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| vec![kind.to_owned(), format!("#{number}")])
}

/// True if two words are the same but for their number.
pub(super) fn same_word(a: &str, b: &str) -> bool {
    let stem = |word: &str| {
        let short = word.strip_suffix("'s").unwrap_or(word);
        let plural = short.strip_suffix('s').filter(|stem| stem.len() > 2 && !stem.ends_with('s'));
        plural.unwrap_or(short).to_owned()
    };
    a == b || stem(a) == stem(b)
}

/// True if one word is the other one with a slip of the fingers: letters that changed places, one too many or too
/// few, or in a long word a wrong one. The first letter is nearly always right.
pub(super) fn is_slip(wanted: &str, found: &str) -> bool {
    let (a, b) = (wanted.chars().count(), found.chars().count());
    let plain = |word: &str| word.chars().all(char::is_alphabetic);
    if a.min(b) < 4 || !plain(wanted) || !plain(found) {
        return false;
    }
    if wanted.chars().next() != found.chars().next() {
        return false;
    }
    let (steps, plain_steps) =
        (strsim::osa_distance(wanted, found), strsim::levenshtein(wanted, found));
    let substituted = steps == 1 && a == b && plain_steps == 1;
    match steps {
        0 => true,
        1 if substituted => a >= 7,
        1 => a.max(b) >= 5 || plain_steps == 2,
        2 => a.min(b) >= 9,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let of = |s: SpokenSentence| s.tokens.into_iter().map(|token| token.word).collect();
        split_sentences(text).into_iter().map(of).collect()
    }

    #[test]
    fn a_message_is_told_by_its_words() {
        for (text, expected) in [
            ("Hey <@U1>, what's up?", vec![vec!["hey", "what", "is", "up"]]),
            ("<@U1>.pm hot-fix it! Now.", vec![vec!["hotfix", "it"], vec!["now"]]),
            ("src/cart.rs - don’t", vec![vec!["src/cart.rs", "do", "not"]]),
            (
                "see <https://github.com/a/b/pull/7|the PR> and https://x.dev/a",
                vec![vec!["see", "pr", "#7", "and", "https://x.dev/a"]],
            ),
            ("say \"run tests\" twice", vec![vec!["say", "run tests", "twice"]]),
            ("> explain\n```\nexplain\n```\n[linked conversation: x]\nexplain", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        assert!(split_sentences("a, b")[0].tokens[0].pause);
        assert!(split_sentences("`x y`")[0].tokens[0].quoted);
    }

    #[test]
    fn slips_are_seen_and_other_words_are_none() {
        for (a, b) in
            [("explain", "explian"), ("write", "wirte"), ("release", "relase"), ("test", "tset")]
        {
            assert!(is_slip(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("write", "wrote"),
            ("test", "text"),
            ("tests", "texts"),
            ("docs", "dogs"),
            ("pr", "pt"),
        ] {
            assert!(!is_slip(a, b), "{a} {b}");
        }
        assert!(
            same_word("tests", "test")
                && same_word("release", "releases")
                && !same_word("new", "news ")
        );
    }
}
