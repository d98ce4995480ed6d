//! Redaction of text that leaves: credentials, private keys and internal addresses are found and masked as
//! `[redacted:<name>]`. Pure: text in, ranges or text out. Where it is applied is the business of whoever sends the
//! text.
//!
//! One automaton looks for the beginnings of everything known ([`anchors`]); only there is more
//! looked at: [`providers`]' tokens by their form, [`assignment`]s by name and value, [`address`]es
//! and connection strings. The same is done for what [`fold`] makes of hidden characters and
//! escapes, and for what [`encoded`] runs decode to.

#![warn(missing_docs)]

mod address;
mod anchors;
mod assignment;
mod breadth;
mod encoded;
mod fold;
pub mod log;
mod providers;
mod rule;
mod value;

use std::borrow::Cow;
use std::ops::Range;

use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

pub use self::fold::is_invisible;
pub use self::rule::RedactionRule;

/// Maximum depth of nested encodings that are unpacked: a token in hex in base64 is still found.
const DEPTH: u8 = 2;
/// Maximum memory that one pattern of a Repo may compile to, in bytes.
const PATTERN_SIZE: usize = 1 << 20;

/// A secret or internal address in a text, which must not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFinding {
    /// Name of the kind of secret: stands in its place as `[redacted:<name>]`.
    pub name: Cow<'static, str>,
    /// Position of the secret, in bytes of the text.
    pub range: Range<usize>,
}

/// Reason why a pattern can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// It is no regular expression, for the reason in this sentence.
    #[error("{0}")]
    Syntax(String),
    /// It takes too much memory.
    #[error("it is too large once its repetitions are counted out")]
    TooLarge,
    /// It matches everywhere.
    #[error("it matches the empty text, and so everything")]
    MatchesEmpty,
    /// It masks ordinary text.
    #[error(
        "it would blank most of any text, log lines of every team among it: name what is special about what it is to find"
    )]
    TooBroad,
}

/// A pattern that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("redaction[{index}].pattern (`{name}`) can't be used: {why}")]
pub struct BadPattern {
    /// Index of the pattern in the list.
    pub index: usize,
    /// Name of the pattern, as its rule has it.
    pub name: String,
    /// Reason why it can't be used, in one line.
    pub why: PatternFault,
}

/// Finds and masks: the built-in kinds, and patterns of a Repo's own.
#[derive(Clone, Debug, Default)]
pub struct SecretRedactor {
    own: Vec<(String, Regex)>,
}

impl SecretRedactor {
    /// With the patterns of `rules` on top of the built-in kinds. Patterns that can't be used are
    /// left out and told of: the others go on protecting.
    pub fn new(rules: &[RedactionRule]) -> (Self, Vec<BadPattern>) {
        let mut own = Vec::new();
        let mut bad = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            match compile_pattern(&rule.pattern) {
                Ok(regex) => own.push((rule.name.clone(), regex)),
                Err(why) => bad.push(BadPattern { index, name: rule.name.clone(), why }),
            }
        }
        (Self { own }, bad)
    }

    /// Joins redactors to one with the own patterns of all of them.
    fn joined<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        Self { own: all.flat_map(|one| one.own.iter().cloned()).collect() }
    }

    /// Everything that must not leave, in order and without overlaps.
    pub fn find(&self, text: &str) -> Vec<SecretFinding> {
        let mut found = self.unpacked(text, DEPTH);
        fold::visit_folds(text, |folded| {
            let hidden = self.unpacked(&folded.text, DEPTH);
            found.extend(
                hidden.into_iter().map(|f| FoundSecret { range: folded.origin(f.range), ..f }),
            );
        });
        merge_findings(found)
    }

    /// The text with everything found masked.
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.mask_but(text, "")
    }

    /// The text with everything found masked but for one kind.
    pub fn mask_but<'t>(&self, text: &'t str, shown: &str) -> Cow<'t, str> {
        let mut found = self.find(text);
        found.retain(|finding| finding.name != shown);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for SecretFinding { name, range } in found {
            masked.push_str(&text[end..range.start]);
            masked.push_str("[redacted:");
            masked.push_str(&name);
            masked.push(']');
            end = range.end;
        }
        masked.push_str(&text[end..]);
        Cow::Owned(masked)
    }

    fn unpacked(&self, text: &str, depth: u8) -> Vec<FoundSecret> {
        let mut found = self.plain(text);
        if depth > 0 {
            encoded::encoded_runs(text, |range, decoded| {
                if let Some(inner) = self.unpacked(decoded, depth - 1).into_iter().next() {
                    found.push(FoundSecret { range, ..inner });
                }
            });
        }
        found
    }

    fn plain(&self, text: &str) -> Vec<FoundSecret> {
        let mut found = anchors::find_anchored(text);
        for (name, regex) in &self.own {
            let ranges = regex.find_iter(Input::new(text)).map(|m| m.range());
            found.extend(ranges.filter(|range| !range.is_empty()).map(|range| FoundSecret {
                name: Cow::Owned(name.clone()),
                weight: NameWeight::Own,
                range,
            }));
        }
        found
    }
}

/// Specificity of a finding's name, least first: it decides which name stands where findings overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameWeight {
    Assigned,
    Formed,
    Own,
}

#[derive(Clone, Debug)]
struct FoundSecret {
    name: Cow<'static, str>,
    weight: NameWeight,
    range: Range<usize>,
}

/// Overlapping findings become one, named after the one that says most.
fn merge_findings(mut found: Vec<FoundSecret>) -> Vec<SecretFinding> {
    found.sort_by_key(|f| (f.range.start, f.range.end));
    let mut merged: Vec<FoundSecret> = Vec::with_capacity(found.len());
    for next in found {
        match merged.last_mut() {
            Some(last) if next.range.start < last.range.end => {
                last.range.end = last.range.end.max(next.range.end);
                if next.weight > last.weight {
                    (last.name, last.weight) = (next.name, next.weight);
                }
            }
            _ => merged.push(next),
        }
    }
    merged.into_iter().map(|f| SecretFinding { name: f.name, range: f.range }).collect()
}

fn compile_pattern(pattern: &str) -> Result<Regex, PatternFault> {
    let limits = Regex::config().nfa_size_limit(Some(PATTERN_SIZE)).hybrid_cache_capacity(1 << 18);
    let regex = Regex::builder()
        .configure(limits)
        .syntax(syntax::Config::new().nest_limit(50))
        .build(pattern)
        .map_err(|error| match error.syntax_error() {
            // The first lines repeat the pattern; the last one says what is wrong with it.
            Some(syntax) => {
                let text = syntax.to_string();
                let last = text.lines().last().unwrap_or_default();
                PatternFault::Syntax(last.trim_start_matches("error: ").trim().to_owned())
            }
            None => PatternFault::TooLarge,
        })?;
    if regex.is_match("") {
        return Err(PatternFault::MatchesEmpty);
    }
    if breadth::is_broad(&regex) {
        return Err(PatternFault::TooBroad);
    }
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, pattern: &str) -> RedactionRule {
        RedactionRule { name: name.to_owned(), pattern: pattern.to_owned() }
    }

    #[test]
    fn what_is_found_is_masked_and_nothing_else() {
        let (redactor, _) = SecretRedactor::new(&[]);
        let key = ["ghp", &"a1B2".repeat(9)].join("_");
        let text = format!("the key is {key}, see README");
        assert_eq!(redactor.mask(&text), "the key is [redacted:github-token], see README");
        assert_eq!(redactor.mask(&redactor.mask(&text)), redactor.mask(&text));
        assert!(matches!(redactor.mask("nothing here"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_repos_own_patterns_count_and_bad_ones_are_told_by_index() {
        let rules = [
            rule("customer", r"cust_[a-z0-9]{20,}"),
            rule("broken", r"(unclosed"),
            rule("empty", r"x*"),
            rule("huge", r"(?:\w{1000}){1000}"),
            rule("look", r"(?=ahead)"),
        ];
        let (redactor, bad) = SecretRedactor::new(&rules);
        let told: Vec<String> = bad.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"));
        let text = format!("see cust_{}.", "a1".repeat(12));
        assert_eq!(redactor.mask(&text), "see [redacted:customer].");
    }

    #[test]
    fn the_name_that_says_most_stands_where_findings_overlap() {
        let (redactor, _) = SecretRedactor::new(&[]);
        let key = ["ghp", &"a1B2".repeat(9)].join("_");
        assert_eq!(redactor.mask(&format!("token={key}")), "token=[redacted:github-token]");
    }

    #[test]
    fn a_pattern_that_blanks_everything_is_refused_with_its_place() {
        let broad = [
            ".+",
            ".*x?.",
            "(?s).+",
            r"\w+",
            r"\S+",
            "[a-z]+",
            "[^x]+",
            "[aeiou]",
            r"\b\w",
            " ",
            "e",
            r"[\s\S]{300,}",
            r"(?i)[A-Z]{3,}",
            r"\{.*\}",
            "\"message\".*",
            r"[^\n]{20,}",
            r".{80,}",
        ];
        for pattern in broad {
            let rules = [rule("fine", "cust_[0-9]+"), rule("all", pattern)];
            let (redactor, bad) = SecretRedactor::new(&rules);
            let told: Vec<String> = bad.iter().map(ToString::to_string).collect();
            assert!(
                told.len() == 1 && told[0].starts_with("redaction[1].pattern (`all`)"),
                "{pattern}: {told:?}"
            );
            assert_eq!(
                redactor.mask("a line about cust_1"),
                "a line about [redacted:fine]",
                "{pattern}"
            );
        }
        for pattern in [
            "cust_[0-9]{4,}",
            r"\b[0-9]{8,}\b",
            r"[\w.+-]+@[\w-]+\.[a-z]+",
            r"(?i)\bacme[- ]corp\b",
            r"\d{4}-\d{2}-\d{2}",
            "[0-9a-f]{32}",
            r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}",
            r"\+?\d[\d ()-]{7,}\d",
            "[0-9]+",
        ] {
            assert_eq!(SecretRedactor::new(&[rule("own", pattern)]).1, [], "{pattern}");
        }
    }
}
