//! Reads the lines of a roadmap's file by their form alone.

use crate::item::ItemField;

/// A line by its form alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoadmapLine<'a> {
    /// A line of nothing but blanks.
    Blank,
    /// The roadmap's title: `# …`
    Title(&'a str),
    /// A heading of an item: `## …`
    Heading(&'a str),
    /// `- Key: value`, with the place of the value in the line.
    Entry { key: &'a str, value: &'a str, at: usize },
    /// A line that begins with two blanks or a tab.
    Indented(&'a str),
    /// Anything else, and everything between fences.
    Text(&'a str),
}

/// The lines of a text by their form, with where each one begins in it.
pub(crate) fn read_lines(text: &str) -> impl Iterator<Item = (usize, RoadmapLine<'_>)> {
    let mut fence: Option<&str> = None;
    let mut at = 0;
    text.split_inclusive('\n').map(move |whole| {
        let from = at;
        at += whole.len();
        let line = whole.trim_end_matches(['\n', '\r']);
        let mark = fence_mark(line);
        let fenced = fence.is_some();
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if mark.starts_with(open) => {
                let closes = line.trim().len() == mark.len();
                fence = if closes { None } else { fence };
            }
            _ => {}
        }
        (from, if fenced || mark.is_some() { plain_line(line) } else { line_form(line) })
    })
}

/// The backticks or tildes that open or close a block of code.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let first = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == first).count();
    (length >= 3).then(|| &line[..length])
}

fn plain_line(line: &str) -> RoadmapLine<'_> {
    if line.starts_with("  ") || line.starts_with('\t') {
        RoadmapLine::Indented(line)
    } else {
        RoadmapLine::Text(line)
    }
}

fn line_form(line: &str) -> RoadmapLine<'_> {
    if line.trim().is_empty() {
        return RoadmapLine::Blank;
    }
    if let Some(rest) = line.strip_prefix("## ") {
        return RoadmapLine::Heading(rest.trim());
    }
    if let Some(rest) = line.strip_prefix("# ") {
        return RoadmapLine::Title(rest.trim());
    }
    read_entry(line).unwrap_or_else(|| plain_line(line))
}

/// `- Key: value`, the key bold or not.
fn read_entry(line: &str) -> Option<RoadmapLine<'_>> {
    let rest = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))?;
    let (before, value) = rest.split_once(':')?;
    let (key, value) = match before.trim().strip_prefix("**") {
        None => (before.trim(), value),
        Some(key) => match key.strip_suffix("**") {
            Some(key) => (key, value),
            None => (key, value.strip_prefix("**")?),
        },
    };
    // Prose that happens to have a colon is none.
    let is_key = !key.is_empty() && key.len() <= 24 && key.split(' ').count() <= 3;
    let at = line.len() - value.len();
    is_key.then(|| RoadmapLine::Entry { key: key.trim(), value: value.trim(), at })
}

/// The field of an entry's key.
pub(crate) fn field_of(key: &str) -> Option<ItemField> {
    ItemField::find(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_it_looks_like_outside_of_fences() {
        let text = "# Roadmap: x\r\n\n## 1. A\n- Status: done\n* **Depends on:** —\n- **PR**: 4\n  more\n\
            ```sh\n## 2. no\n- Status: no\n```\n~~~~\n```\n~~~\n## no\n~~~~\n- why: a: b\n- a sentence of many words: b\n";
        let all: Vec<_> = read_lines(text).map(|(_, line)| line).collect();
        assert_eq!(all[0], RoadmapLine::Title("Roadmap: x"));
        assert_eq!(all[1], RoadmapLine::Blank);
        assert_eq!(all[2], RoadmapLine::Heading("1. A"));
        assert_eq!(all[3], RoadmapLine::Entry { key: "Status", value: "done", at: 9 });
        assert_eq!(all[4], RoadmapLine::Entry { key: "Depends on", value: "—", at: 17 });
        assert_eq!(all[5], RoadmapLine::Entry { key: "PR", value: "4", at: 9 });
        assert_eq!(all[6], RoadmapLine::Indented("  more"));
        assert!(all[7..16].iter().all(|line| matches!(line, RoadmapLine::Text(_))), "{all:?}");
        assert_eq!(all[16], RoadmapLine::Entry { key: "why", value: "a: b", at: 6 });
        assert_eq!(all[17], RoadmapLine::Text("- a sentence of many words: b"));
        for (from, line) in read_lines(text) {
            if let RoadmapLine::Entry { value, at, .. } = line {
                assert!(text[from + at..].trim_start().starts_with(value));
            }
        }
    }
}
