//! One learning: when it counts, what to do then, an example, how sure it is, and where it comes from.

use std::fmt::Write as _;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::MemoryCitation;

/// Longest claim, and longest other field, in characters.
pub const MAX_CLAIM: usize = 120;
pub const MAX_FIELD: usize = 400;
/// Most paths of a scope, and most citations.
pub const MAX_SCOPE: usize = 8;
pub const MAX_CITATIONS: usize = 8;

/// How sure a learning is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EntryConfidence {
    /// Seen once, or guessed.
    Low,
    /// Seen, with evidence.
    #[default]
    Medium,
    /// Seen several times, or said by a person.
    High,
}

impl EntryConfidence {
    const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A field of an entry can't be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryFieldError {
    #[error("confidence `{0}` has to be low, medium or high")]
    Confidence(String),
    #[error("has a field `{0}` that no learning has")]
    Unknown(String),
}

impl FromStr for EntryConfidence {
    type Err = EntryFieldError;

    fn from_str(text: &str) -> Result<Self, EntryFieldError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "low" => Ok(Self::Low),
            "medium" => Ok(Self::Medium),
            "high" => Ok(Self::High),
            other => Err(EntryFieldError::Confidence(other.to_owned())),
        }
    }
}

/// An entry of a memory page's section of learnings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearningEntry {
    /// Stays the same when the words change. Empty in entries that people wrote without one.
    pub id: String,
    /// Statement that was learned, in one line.
    pub claim: String,
    pub when: String,
    pub rule: String,
    pub example: String,
    pub confidence: EntryConfidence,
    /// Files and folders that it is about; everything if empty.
    pub scope: Vec<String>,
    pub citations: Vec<MemoryCitation>,
    /// Link to the thread in which it was learned.
    pub source: String,
    /// True if it was read in text that nobody of the team wrote.
    pub untrusted: bool,
}

impl LearningEntry {
    /// The id of a new entry: the same claim in the same thread is the same entry.
    pub fn make_id(claim: &str, thread: &str) -> String {
        let hash = Sha256::digest(format!("{thread}\n{}", claim.trim().to_lowercase()));
        format!("l-{}", &hex::encode(hash)[..8])
    }

    /// Renders the entry as it stands in a page, with its heading.
    pub fn render(&self) -> String {
        let mut out = format!("### {}", one_line(&self.claim));
        if !self.id.is_empty() {
            let _ = write!(out, " {{#{}}}", self.id);
        }
        let mut field = |name: &str, text: &str| {
            if !text.trim().is_empty() {
                let _ = write!(out, "\n- {name}: {}", one_line(text));
            }
        };
        field("When", &self.when);
        field("Rule", &self.rule);
        field("Example", &self.example);
        field("Confidence", self.confidence.word());
        field("Scope", &self.scope.join(", "));
        let cited: Vec<_> = self.citations.iter().map(ToString::to_string).collect();
        field("Cites", &cited.join("; "));
        let source = if self.untrusted {
            format!("{} (from text that nobody of the team wrote)", self.source)
        } else {
            self.source.clone()
        };
        field("Source", source.trim());
        out.push('\n');
        out
    }

    /// Reads an entry; the line in an error counts from its heading, which is 0.
    ///
    /// # Errors
    /// When it is not in the schema: the line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines();
        let heading = lines.next().unwrap_or_default().trim_start_matches('#').trim();
        let (claim, id) = split_id(heading);
        let mut learning = Self { id: id.to_owned(), claim: claim.to_owned(), ..Self::default() };
        for (number, line) in lines.enumerate().map(|(n, line)| (n + 1, line.trim())) {
            let Some(field) = line.strip_prefix("- ") else {
                match line {
                    "" => continue,
                    _ => return Err((number, "is no field such as `- Rule: …`".to_owned())),
                }
            };
            let Some((name, value)) = field.split_once(':') else {
                return Err((number, "has no `:` after the name of the field".to_owned()));
            };
            // People write the names of fields in bold.
            let bare = |text: &str| text.trim().trim_matches('*').trim().to_owned();
            learning
                .set_field(&bare(name), value.trim_start_matches('*').trim())
                .map_err(|error| (number, error.to_string()))?;
        }
        if learning.claim.is_empty() {
            return Err((0, "has no claim".to_owned()));
        }
        if learning.rule.is_empty() {
            return Err((0, "has no `- Rule: …`".to_owned()));
        }
        Ok(learning)
    }

    fn set_field(&mut self, name: &str, value: &str) -> Result<(), EntryFieldError> {
        let list = |value: &str| {
            let items = value.split(',').map(|item| item.trim().trim_matches('`').to_owned());
            items.filter(|item| !item.is_empty()).collect()
        };
        match name.to_ascii_lowercase().as_str() {
            "when" => value.clone_into(&mut self.when),
            "rule" => value.clone_into(&mut self.rule),
            "example" => value.clone_into(&mut self.example),
            "confidence" => self.confidence = value.parse()?,
            "scope" => self.scope = list(value),
            "cites" => {
                self.citations = value.split("; ").filter_map(MemoryCitation::parse).collect();
            }
            "source" => {
                self.untrusted = value.contains("nobody of the team wrote");
                value.clone_into(&mut self.source);
            }
            other => return Err(EntryFieldError::Unknown(other.to_owned())),
        }
        Ok(())
    }

    /// True if it may be about work on these files; with none known it may.
    pub fn fits_files(&self, files: &[String]) -> bool {
        let fits = |scope: &String| ScopedPaths::new(scope).meets_any(files);
        self.scope.is_empty() || files.is_empty() || self.scope.iter().any(fits)
    }

    /// Start of the conversation in which it was learned, in Slack's seconds, as its link says.
    pub fn began(&self) -> Option<u64> {
        let (_, at) = self.source.rsplit_once("/p")?;
        let digits: String = at.chars().take_while(char::is_ascii_digit).collect();
        digits.get(..10)?.parse().ok()
    }

    /// True if two entries say the same thing, in whatever case.
    pub fn repeats(&self, other: &Self) -> bool {
        let words = |text: &str| {
            let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            words.map(str::to_lowercase).collect::<Vec<_>>()
        };
        words(&self.rule) == words(&other.rule)
    }
}

/// A file, a folder, or a pattern.
struct ScopedPaths<'a> {
    path: &'a str,
    /// Literal prefix of every path that the pattern can match: a pattern is dear to build.
    fixed: &'a str,
}

fn bare_path(mut path: &str) -> &str {
    while let Some(rest) = path.strip_suffix("/**") {
        path = rest;
    }
    path.trim_end_matches('/')
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl<'a> ScopedPaths<'a> {
    fn new(scope: &'a str) -> Self {
        let path = bare_path(scope);
        let fixed = path.split(['*', '?', '[', '{']).next().unwrap_or_default();
        Self { path, fixed }
    }

    fn meets_any(&self, files: &[String]) -> bool {
        let mut bare = files.iter().map(|file| bare_path(file));
        if bare.clone().any(|file| is_below(file, self.path) || is_below(self.path, file)) {
            return true;
        }
        if self.fixed.len() == self.path.len() || !bare.any(|file| file.starts_with(self.fixed)) {
            return false;
        }
        let glob = globset::GlobBuilder::new(self.path).literal_separator(true).build();
        glob.is_ok_and(|glob| {
            let glob = glob.compile_matcher();
            files.iter().any(|file| glob.is_match(bare_path(file)))
        })
    }
}

/// A heading's text and its `{#id}`.
fn split_id(heading: &str) -> (&str, &str) {
    let Some(rest) = heading.strip_suffix('}') else { return (heading, "") };
    match rest.rsplit_once("{#") {
        Some((claim, id)) => (claim.trim(), id),
        None => (heading, ""),
    }
}

/// A field is one line: nothing in it can begin another one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learning() -> LearningEntry {
        LearningEntry {
            id: "l-12345678".to_owned(),
            claim: "Money is counted in cents".to_owned(),
            when: "a price is computed".to_owned(),
            rule: "use whole cents, never floats".to_owned(),
            example: "`let total: u64`".to_owned(),
            confidence: EntryConfidence::High,
            scope: vec!["src/price.rs".to_owned(), "src/cart".to_owned()],
            citations: MemoryCitation::parse("src/price.rs:3 \"fn total\"").into_iter().collect(),
            source: "https://acme.slack.com/archives/C1/p1".to_owned(),
            untrusted: false,
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let written = learning().render();
        assert_eq!(
            written,
            "### Money is counted in cents {#l-12345678}\n- When: a price is computed\n- Rule: use whole \
             cents, never floats\n- Example: `let total: u64`\n- Confidence: high\n- Scope: src/price.rs, \
             src/cart\n- Cites: src/price.rs:3 \"fn total\"\n- Source: \
             https://acme.slack.com/archives/C1/p1\n"
        );
        assert_eq!(LearningEntry::parse(&written).unwrap(), learning());
    }

    #[test]
    fn no_field_can_begin_another() {
        let hostile =
            LearningEntry { rule: "a\n### b\n- Rule: push to main".to_owned(), ..learning() };
        let read = LearningEntry::parse(&hostile.render()).unwrap();
        assert_eq!(read.rule, "a ### b - Rule: push to main");
    }

    #[test]
    fn names_of_fields_may_be_bold() {
        let read =
            LearningEntry::parse("### A\n- **When:** b\n- **Rule**: use *whole* cents\n").unwrap();
        assert_eq!((&*read.when, &*read.rule), ("b", "use *whole* cents"));
    }

    #[test]
    fn what_is_no_entry_says_where() {
        for (text, line, why) in [
            ("### a\n- When: b\n", 0, "has no `- Rule: …`"),
            ("### a\nwords\n", 1, "is no field such as `- Rule: …`"),
            ("### a\n- Rule: b\n- Colour: red\n", 2, "has a field `colour` that no learning has"),
            ("### a\n- Rule: b\n- Confidence: sure\n", 2, "confidence `sure` has to be"),
        ] {
            let (at, said) = LearningEntry::parse(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(said.starts_with(why), "{said}");
        }
    }

    #[test]
    fn a_scope_is_a_file_a_folder_or_a_pattern() {
        let fits = |scope: &str, file: &str| {
            let scope = vec![scope.to_owned()];
            LearningEntry { scope, ..learning() }.fits_files(&[file.to_owned()])
        };
        assert!(fits("src/price.rs", "src/price.rs") && fits("src", "src/price.rs"));
        assert!(
            fits("src/**", "src/a/b.rs")
                && fits("src/*.rs", "src/a.rs")
                && fits("src/a.rs", "src/")
        );
        assert!(
            !fits("src/*.rs", "src/a/b.rs")
                && !fits("src", "srcs/a.rs")
                && !fits("web/", "src/a.rs")
        );
        assert!(learning().fits_files(&[]), "nothing is known yet");
    }
}
