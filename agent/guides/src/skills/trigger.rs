//! A trigger: what people say to get a skill, with `{param}` for what they name. `{param#}` takes a number
//! alone, such as `#12` or `2.4.0`.

use super::words;

/// Words and params of a trigger.
const MAX_PARTS: usize = 16;
/// Words that stand in any message: alone they name nothing.
const COMMON: &[&str] = &[
    "a", "an", "and", "are", "at", "be", "by", "can", "code", "could", "did", "do", "does", "for",
    "from", "get", "give", "go", "have", "hello", "help", "hey", "hi", "how", "i", "if", "in",
    "is", "it", "let", "like", "look", "make", "me", "need", "now", "of", "on", "or", "our",
    "please", "run", "say", "see", "show", "some", "tell", "that", "the", "then", "this", "to",
    "us", "use", "want", "was", "we", "what", "when", "where", "which", "who", "why", "will",
    "with", "would", "you", "your",
];
/// Common words of which two make a trigger: `how does {what} work`.
const ASKING: &[&str] =
    &["how", "what", "where", "which", "who", "why", "do", "does", "is", "are", "look"];

/// A word or a parameter of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerPart {
    /// A word that has to be said.
    Word(String),
    /// A value that somebody names.
    Param {
        name: String,
        /// True if only a value with a digit fits.
        number: bool,
    },
}

/// A phrase by which people ask for a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillTrigger {
    /// The phrase as it is written in the file.
    pub text: String,
    pub parts: Vec<TriggerPart>,
}

/// A phrase can't be a trigger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    #[error(
        "the trigger `{text}` has `{chunk}`: a parameter is a word of its own, `{{name}}` or `{{name#}}`, of a-z, 0-9, \
         `_` and `-`"
    )]
    Parameter { text: String, chunk: String },
    #[error("the trigger `{0}` has more than {MAX_PARTS} words")]
    TooLong(String),
    #[error(
        "the trigger `{0}` is only a parameter: it fits every message. Put the words before it that people say"
    )]
    NoWord(String),
    #[error(
        "the trigger `{0}` fits too much: its words stand in any message. Add one that names what is wanted"
    )]
    TooCommon(String),
    #[error("the trigger `{0}` has two parameters side by side: put a word between them")]
    SideBySide(String),
    #[error("the trigger `{text}` names `{{{name}}}` twice")]
    Twice { text: String, name: String },
}

impl SkillTrigger {
    /// Reads one.
    ///
    /// # Errors
    /// When it has odd parameters, or would fit too many messages.
    pub fn parse(text: &str) -> Result<Self, TriggerError> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut parts = Vec::new();
        for chunk in text.split(' ') {
            match chunk.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(name) => {
                    parts.push(parse_param(name).ok_or_else(|| describe_odd(&text, chunk))?);
                }
                None if chunk.contains(['{', '}']) => return Err(describe_odd(&text, chunk)),
                None => parts.extend(fixed_words(chunk)),
            }
        }
        let trigger = Self { text, parts };
        trigger.judge()?;
        Ok(trigger)
    }

    /// Names of the trigger's parameters.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TriggerPart::Param { name, .. } => Some(name.as_str()),
            TriggerPart::Word(_) => None,
        })
    }

    /// Words that have to be there.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TriggerPart::Word(word) => Some(word.as_str()),
            TriggerPart::Param { .. } => None,
        })
    }

    /// The trigger with its parameters' names left out: two of the same shape match the same messages.
    pub fn shape(&self) -> String {
        let shown = |part: &TriggerPart| match part {
            TriggerPart::Word(word) => word.clone(),
            TriggerPart::Param { number, .. } => if *number { "{#}" } else { "{}" }.to_owned(),
        };
        self.parts.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    fn judge(&self) -> Result<(), TriggerError> {
        let Self { text, parts } = self;
        if parts.len() > MAX_PARTS {
            return Err(TriggerError::TooLong(text.clone()));
        }
        if self.words().next().is_none() {
            return Err(TriggerError::NoWord(text.clone()));
        }
        let telling = self.words().filter(|word| !COMMON.contains(word)).count();
        let asking = self.words().filter(|word| ASKING.contains(word)).count();
        if telling == 0 && (asking < 2 || parts.len() < 4) {
            return Err(TriggerError::TooCommon(text.clone()));
        }
        let open = |part: &TriggerPart| matches!(part, TriggerPart::Param { .. });
        if parts.windows(2).any(|pair| pair.iter().all(open)) {
            return Err(TriggerError::SideBySide(text.clone()));
        }
        let mut names: Vec<&str> = self.params().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(TriggerError::Twice { text: text.clone(), name: pair[0].to_owned() }),
            None => Ok(()),
        }
    }
}

fn describe_odd(text: &str, chunk: &str) -> TriggerError {
    TriggerError::Parameter { text: text.to_owned(), chunk: chunk.to_owned() }
}

fn parse_param(name: &str) -> Option<TriggerPart> {
    let (name, number) = name.strip_suffix('#').map_or((name, false), |name| (name, true));
    is_name(name).then(|| TriggerPart::Param { name: name.to_owned(), number })
}

/// True if it can be a parameter's name.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 32
        && name.bytes().all(plain)
}

/// The words that a message is compared with: what says nothing is left out on both sides.
fn fixed_words(chunk: &str) -> Vec<TriggerPart> {
    let tokens = words::read_phrase(chunk).into_iter();
    let said = tokens.map(|token| token.word).filter(|word| !says_nothing(word));
    said.map(TriggerPart::Word).collect()
}

/// True if a word is left out of triggers.
fn says_nothing(word: &str) -> bool {
    matches!(word, "a" | "an" | "the" | "some" | "my" | "our" | "your")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_words_and_params() {
        let trigger = SkillTrigger::parse("  deploy the shop  to {environment}").unwrap();
        assert_eq!(trigger.shape(), "deploy shop to {}");
        assert_eq!(trigger.params().collect::<Vec<_>>(), ["environment"]);
        assert_eq!(SkillTrigger::parse("review PR {pr#}").unwrap().shape(), "review pr {#}");
        assert!(SkillTrigger::parse("how does {what} work").is_ok());
    }

    #[test]
    fn one_that_fits_too_much_is_none() {
        for (text, why) in [
            ("{what}", "is only a parameter"),
            ("{a} {b}", "is only a parameter"),
            ("please {what}", "fits too much"),
            ("can you {what}", "fits too much"),
            ("do {what}", "fits too much"),
            ("what {x}", "fits too much"),
            ("deploy {a} {b}", "side by side"),
            ("copy {a} to {a}", "names `{a}` twice"),
            ("deploy {to the env}", "a parameter is a word of its own"),
            ("deploy {Env}", "a parameter is a word of its own"),
            ("a b c d e f g h i j k l m n o p q r s deploy", "more than 16 words"),
        ] {
            let error = SkillTrigger::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
