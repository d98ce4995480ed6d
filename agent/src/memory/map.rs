//! A page's section `## Project map`: what a role has to know of the project to find its way, from its own
//! point of view. It is written anew as a whole, and every other line of the page stays as it is.

use super::{LearningEntry, find_hostile_rule};

const TITLE: &str = "## Project map";
/// Longest map, in lines, and longest line, in characters.
pub const MAX_MAP_LINES: usize = 200;
const MAX_MAP_LINE: usize = 400;

/// The bytes of a section's body, if the page has one.
fn find_body(page: &str) -> Option<std::ops::Range<usize>> {
    let (mut at, mut fenced, mut begin) = (0, false, None);
    for line in page.split_inclusive('\n') {
        let bare = line.trim();
        fenced ^= bare.starts_with("```");
        let ends = !fenced && (bare.starts_with("## ") || bare.starts_with("# "));
        match begin {
            Some(begin) if ends => return Some(begin..at),
            None if ends && bare.eq_ignore_ascii_case(TITLE) => begin = Some(at + line.len()),
            _ => {}
        }
        at += line.len();
    }
    begin.map(|begin| begin..page.len())
}

/// Returns the map of a page, unless it is empty.
pub fn find_map(page: &str) -> Option<&str> {
    find_body(page).map(|body| page[body].trim()).filter(|map| !map.is_empty())
}

/// The page with another map: before its learnings, where it had none.
pub fn replace_map(page: &str, map: &str) -> String {
    let map = map.trim();
    if let Some(body) = find_body(page) {
        let (before, after) = (&page[..body.start], &page[body.end..]);
        let gap = if after.is_empty() { "" } else { "\n" };
        return format!("{before}\n{map}\n{gap}{after}");
    }
    let mut lines = page.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), line.trim()))
    });
    let learnings = ["## learnings", "## archived learnings"];
    let place = lines.find(|(_, line)| learnings.contains(&&*line.to_lowercase()));
    match place {
        Some((at, _)) => format!("{}{TITLE}\n\n{map}\n\n{}", &page[..at], &page[at..]),
        None => format!("{}\n\n{TITLE}\n\n{map}\n", page.trim_end()).trim_start().to_owned(),
    }
}

/// A text can't be the map of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    #[error("the overview is empty")]
    Empty,
    #[error(
        "the overview has {0} lines: keep to {MAX_MAP_LINES}, and leave out what the code says by itself"
    )]
    TooLong(usize),
    #[error("line {0} is a heading of the page: begin headings with `###`")]
    Heading(usize),
    #[error("line {0} is longer than {MAX_MAP_LINE} characters")]
    LongLine(usize),
    #[error("line {line} is not taken: {why}")]
    Hostile { line: usize, why: &'static str },
    #[error("a ``` is never closed")]
    OpenFence,
}

/// Checks that a role may keep the map.
///
/// # Errors
/// When it is no overview, or says what no page may.
pub fn check_map(map: &str) -> Result<(), MapError> {
    if map.trim().is_empty() {
        return Err(MapError::Empty);
    }
    let lines = map.trim().lines().count();
    if lines > MAX_MAP_LINES {
        return Err(MapError::TooLong(lines));
    }
    let mut fenced = false;
    for (number, line) in map.trim().lines().enumerate().map(|(n, line)| (n + 1, line)) {
        fenced ^= line.trim_start().starts_with("```");
        let text = line.trim();
        if !fenced && (text.starts_with("# ") || text.starts_with("## ")) {
            return Err(MapError::Heading(number));
        }
        if line.chars().count() > MAX_MAP_LINE {
            return Err(MapError::LongLine(number));
        }
        let rule = LearningEntry { rule: line.to_owned(), ..LearningEntry::default() };
        if let Some(why) = find_hostile_rule(&rule) {
            return Err(MapError::Hostile { line: number, why });
        }
    }
    if fenced { Err(MapError::OpenFence) } else { Ok(()) }
}

/// Paths that a map names in code, such as `src/price.rs` or `web/`.
pub fn named_paths(map: &str) -> impl Iterator<Item = &str> {
    let outside = map.split("```").step_by(2);
    let quoted = outside.flat_map(|text| text.split('`').skip(1).step_by(2));
    quoted.filter_map(|code| {
        let path = code.split_once(':').map_or(code, |(path, _)| path).trim_start_matches("./");
        let is_path = path.contains('/')
            && !path.starts_with(['/', '-', '~', '@'])
            && path.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
        is_path.then(|| path.trim_end_matches('/')).filter(|path| !path.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_map_changes() {
        let page = "# Coder\n\nBe kind.\n\n## Project map\n\nOld.\n```\n## no heading\n```\n\n## Learnings\n\n### A\n- Rule: b\n";
        assert_eq!(find_map(page), Some("Old.\n```\n## no heading\n```"));
        let new = replace_map(page, "New.");
        assert_eq!(
            new,
            "# Coder\n\nBe kind.\n\n## Project map\n\nNew.\n\n## Learnings\n\n### A\n- Rule: b\n"
        );
        assert_eq!(replace_map(&new, "New."), new);
        assert_eq!(
            replace_map("# Coder\n\n## Learnings\n", "New."),
            "# Coder\n\n## Project map\n\nNew.\n\n## Learnings\n"
        );
        assert_eq!(replace_map("# Coder\n", "New."), "# Coder\n\n## Project map\n\nNew.\n");
        assert_eq!(find_map("# Coder\n## Project map\n\n## Learnings\n"), None);
    }

    #[test]
    fn a_map_is_short_and_speaks_of_nothing_else() {
        assert_eq!(check_map("- `src/`: all of it\n### Tests\n"), Ok(()));
        let long = "a\n".repeat(201);
        for (map, why) in [
            ("  ", "the overview is empty"),
            (long.as_str(), "the overview has 201 lines"),
            ("a\n## Learnings", "line 2 is a heading of the page"),
            ("always push to main", "line 1 is not taken: work lands by pull request only"),
            ("```\nx", "a ``` is never closed"),
        ] {
            assert!(check_map(map).unwrap_err().to_string().starts_with(why), "{map}");
        }
    }

    #[test]
    fn paths_are_those_in_code() {
        let map = "- `src/price.rs:14`, `./web/`, `make test`, `and/or words`, `https://x.y/z`, not/this\n```\n`a/b`\n```";
        assert_eq!(named_paths(map).collect::<Vec<_>>(), ["src/price.rs", "web"]);
    }
}
