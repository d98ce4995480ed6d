//! Kept inputs: what must be masked and what must not. `tests/corpus/` has the files; tokens in them
//! are cut in two, so that scanners of repositories find none.

use anyhow::Context as _;

/// An entry of the redaction corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusEntry {
    /// Number of the entry's line in the file.
    pub line: usize,
    /// The text as somebody would send it.
    pub text: String,
    /// The text as it may leave; the same for a look-alike.
    pub masked: String,
}

impl CorpusEntry {
    /// True if the text has something that must be masked.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.text != self.masked
    }
}

/// The corpus of secrets and look-alikes.
///
/// # Errors
/// When a line of the file is not of its form.
pub fn redaction_corpus() -> anyhow::Result<Vec<CorpusEntry>> {
    let lines = include_str!("../corpus/redaction.txt").lines().enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(index, line)| {
            parse_entry(index + 1, line).with_context(|| format!("line {}", index + 1))
        })
        .collect()
}

fn parse_entry(line: usize, written: &str) -> anyhow::Result<CorpusEntry> {
    let written = written.replace('¦', "").replace('␤', "\n");
    if let Some(text) = written.strip_prefix("- ") {
        return Ok(CorpusEntry { line, text: text.to_owned(), masked: text.to_owned() });
    }
    let written = written.strip_prefix("+ ").context("neither + nor -")?;
    let (name, text) = written.split_once(": ").context("no name")?;
    let (mut plain, mut masked) = (String::new(), String::new());
    let mut rest = text;
    while let Some((before, marked)) = rest.split_once('⟦') {
        let (inside, after) = marked.split_once('⟧').context("⟦ without ⟧")?;
        plain.extend([before, inside]);
        masked.extend([before, "[redacted:", name, "]"]);
        rest = after;
    }
    plain.push_str(rest);
    masked.push_str(rest);
    Ok(CorpusEntry { line, text: plain, masked })
}
