//! Evidence of a learning: a line of a file, or a message, a commit, an issue. A line is checked before the learning
//! is used: it holds as long as the file has it somewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest quote, in characters.
pub(super) const MAX_QUOTE: usize = 80;

/// Something that can be looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MemoryCitation {
    File {
        /// Path relative to the repository's root.
        path: String,
        /// Line number, counted from 1.
        line: Option<usize>,
        /// Text of the line when it was cited.
        quote: Option<String>,
    },
    /// A link, or the id of a commit: nothing to check.
    Other(String),
}

impl MemoryCitation {
    /// Reads `src/a.rs:3 "quote"`, `src/a.rs`, a link or a commit; none of nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_matches('`');
        let is_commit = text.len() >= 7 && text.chars().all(|c| c.is_ascii_hexdigit());
        if text.is_empty() {
            return None;
        }
        if text.contains("://") || is_commit || text.starts_with('#') {
            return Some(Self::Other(text.to_owned()));
        }
        let (place, quote) = match text.split_once(" \"") {
            Some((place, quote)) => (place, Some(quote.trim_end_matches('"').to_owned())),
            None => (text, None),
        };
        let (path, line) = match place.rsplit_once(':').map(|(path, line)| (path, line.parse())) {
            Some((path, Ok(line))) => (path, Some(line)),
            _ => (place, None),
        };
        if path.split_whitespace().count() != 1 {
            return Some(Self::Other(text.to_owned()));
        }
        Some(Self::File { path: path.trim_start_matches("./").to_owned(), line, quote })
    }

    /// Returns what is wrong with the citation, given the file's text; nothing if it holds.
    pub fn find_fault(&self, file: Option<&str>) -> Option<String> {
        let Self::File { path, line, quote } = self else { return None };
        let Some(text) = file else { return Some(format!("`{path}` does not exist any more")) };
        if let Some(quote) = quote {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let (quote, wanted) = (quote, squeezed(quote));
            // Nearly all stand there as they were quoted: nothing has to be copied to see that.
            let there =
                text.contains(&wanted) || text.lines().any(|line| squeezed(line).contains(&wanted));
            return (!there).then(|| format!("`{path}` has no line with `{quote}` any more"));
        }
        let lines = text.lines().count();
        let missing = line.filter(|line| *line == 0 || *line > lines)?;
        Some(format!("`{path}` has {lines} lines, and line {missing} is named"))
    }

    /// The same with what stands in the line now, so that it can be found again when it has moved.
    #[must_use]
    pub fn quoting(self, file: &str) -> Self {
        let Self::File { path, line: Some(line), quote: None } = self else { return self };
        let text = line.checked_sub(1).and_then(|at| file.lines().nth(at)).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Characters that end a citation or its quote can't stand in it.
        let longest = text.split(['"', ';']).max_by_key(|part| part.len()).unwrap_or_default();
        let quote: String = longest.trim().chars().take(MAX_QUOTE).collect();
        let quote = (quote.len() > 3).then_some(quote);
        Self::File { path, line: Some(line), quote }
    }
}

impl fmt::Display for MemoryCitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(text) => f.write_str(text),
            Self::File { path, line, quote } => {
                f.write_str(path)?;
                if let Some(line) = line {
                    write!(f, ":{line}")?;
                }
                match quote {
                    Some(quote) => write!(f, " \"{quote}\""),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_as_long_as_the_file_has_it_somewhere() {
        let cited = MemoryCitation::parse("./src/a.rs:2").unwrap().quoting("a\n  let  b = 1\nc\n");
        assert_eq!(cited.to_string(), "src/a.rs:2 \"let b = 1\"");
        assert_eq!(MemoryCitation::parse(&cited.to_string()).unwrap(), cited);
        assert_eq!(cited.find_fault(Some("x\ny\n\tlet b = 1;\n")), None);
        assert_eq!(
            cited.find_fault(Some("x\n")).unwrap(),
            "`src/a.rs` has no line with `let b = 1` any more"
        );
        assert_eq!(cited.find_fault(None).unwrap(), "`src/a.rs` does not exist any more");
        let bare = MemoryCitation::parse("src/a.rs:9").unwrap();
        assert_eq!(
            bare.find_fault(Some("1\n2\n")).unwrap(),
            "`src/a.rs` has 2 lines, and line 9 is named"
        );
    }

    #[test]
    fn links_commits_and_words_are_not_looked_up() {
        for text in ["https://acme.slack.com/archives/C1/p1", "1a2b3c4d", "#12", "two words"] {
            assert_eq!(MemoryCitation::parse(text), Some(MemoryCitation::Other(text.to_owned())));
        }
        assert_eq!(MemoryCitation::parse(" "), None);
    }
}
