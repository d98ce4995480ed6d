//! Patterns of paths. Brackets and braces are taken as they stand too: paths such as `app/[slug]/page.tsx` are names
//! and no patterns to whoever writes them. Names in other Unicode forms match what looks like them.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::toolbox::ToolError;
use crate::toolbox::names::fold_name;

/// Ways of reading one pattern, at most.
const READINGS: usize = 16;

/// A glob that is matched against paths.
pub(super) struct PathPattern {
    set: GlobSet,
    /// Error in the glob, where it can only be taken literally.
    pub wrong: Option<String>,
}

impl PathPattern {
    /// Without a slash a pattern matches names in every folder, as in `.gitignore`. A set: for most patterns it
    /// compares names, where a single glob is always a regular expression.
    pub(super) fn new(pattern: &str) -> Result<Self, ToolError> {
        let anywhere = if pattern.contains('/') {
            pattern.trim_start_matches("./").trim_start_matches('/').to_owned()
        } else {
            format!("**/{pattern}")
        };
        let mut set = GlobSetBuilder::new();
        let folded = fold_name(&anywhere).into_owned();
        let mut readings = list_readings(&anywhere);
        if folded != anywhere {
            readings.extend(list_readings(&folded));
        }
        let mut wrong = None;
        for (n, reading) in readings.iter().enumerate() {
            match GlobBuilder::new(reading).literal_separator(true).build() {
                Ok(glob) => {
                    set.add(glob);
                }
                Err(error) if n == 0 => {
                    wrong = Some(format!("`{pattern}` is not a glob: {}", error.kind()));
                }
                Err(_) => {}
            }
        }
        let set = set
            .build()
            .map_err(|error| ToolError::refused(format!("`{pattern}` is not a glob: {error}")))?;
        Ok(Self { set, wrong })
    }

    /// Returns true if the glob matches a file's path in the worktree, or its path below the folder `inside`.
    pub(super) fn is_match(&self, inside: &Path, relative: &Path) -> bool {
        let below = relative.strip_prefix(inside).unwrap_or(relative);
        self.is_like(below) || (below != relative && self.is_like(relative))
    }

    fn is_like(&self, path: &Path) -> bool {
        if self.set.is_match(path) {
            return true;
        }
        let name = path.to_str().filter(|name| !name.is_ascii());
        name.is_some_and(|name| self.set.is_match(fold_name(name).as_ref()))
    }
}

/// A pattern as it is, and with the brackets and braces of some of its parts taken as they stand.
fn list_readings(pattern: &str) -> Vec<String> {
    let mut readings = vec![String::new()];
    for (n, part) in pattern.split('/').enumerate() {
        let slash = if n == 0 { "" } else { "/" };
        let literal = take_literally(part);
        let mut next: Vec<String> =
            readings.iter().map(|before| format!("{before}{slash}{part}")).collect();
        if literal != part {
            if readings.len() * 2 > READINGS {
                next.clear();
            }
            next.extend(readings.iter().map(|before| format!("{before}{slash}{literal}")));
        }
        readings = next;
    }
    readings
}

fn take_literally(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for c in part.chars() {
        match c {
            '[' | ']' | '{' | '}' => {
                out.push('[');
                out.push(c);
                out.push(']');
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_are_names_and_patterns() {
        for (pattern, path, matches) in [
            ("app/[slug]/**", "app/[slug]/page.tsx", true),
            ("app/[slug]/**", "app/s/page.tsx", true),
            ("app/[slug]/**", "app/other/page.tsx", false),
            ("**/[[...all]]/*.ts", "src/[[...all]]/x.ts", true),
            ("app/(shop)/[id]/[ab].tsx", "app/(shop)/[id]/a.tsx", true),
            ("app/[...rest]/{id}.ts", "app/[...rest]/{id}.ts", true),
            ("app/[slug", "app/[slug", true),
            ("[id].tsx", "deep/[id].tsx", true),
            ("src/*.{ts,tsx}", "src/a.tsx", true),
            ("src/*.{ts,tsx}", "src/a.rs", false),
            ("[a-c].rs", "x/b.rs", true),
            ("Screenshot*AM.png", "shots/Screenshot 9\u{202f}AM.png", true),
            ("Screenshot 9 AM.png", "Screenshot 9\u{202f}AM.png", true),
            ("caf\u{e9}*", "cafe\u{301}.md", true),
            ("cafe\u{301}*", "caf\u{e9}.md", true),
        ] {
            let glob = PathPattern::new(pattern).unwrap();
            let found = glob.is_match(Path::new(""), Path::new(path));
            assert_eq!(found, matches, "{pattern} {path}");
        }
        let many = format!("{}x", "[a]/".repeat(30));
        let glob = PathPattern::new(&many).unwrap();
        assert!(glob.is_match(Path::new(""), Path::new(&many)));
        let wrong = PathPattern::new("src/[b-a]").unwrap().wrong.unwrap();
        assert!(wrong.contains("`src/[b-a]` is not a glob"), "{wrong}");
    }
}
