//! Parses the output of `git diff` for a branch into files, lines and the definitions that its hunks touch. Pure.

use std::collections::BTreeSet;

use codebutler_crds::wire::ChangeSize;

use super::definitions::{defined_name, is_code, is_word};

/// Files, definitions and mentions that are kept of one branch.
const MAX_FILES: usize = 2_000;
const MAX_SYMBOLS: usize = 500;
const MAX_MENTIONS: usize = 2_000;
/// Shorter names are those of everything.
const MIN_NAME: usize = 4;

/// Difference between a branch and its merge base with the base branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchChange {
    pub size: ChangeSize,
    pub files: BTreeSet<String>,
    /// Definitions that are changed, or in which something is: by file.
    pub symbols: BTreeSet<(String, String)>,
    /// Names whose definition itself is changed or gone.
    pub altered: BTreeSet<String>,
    /// Names that new lines use.
    pub mentions: BTreeSet<String>,
}

impl BranchChange {
    /// Reads `git diff --numstat --patch -z -U0`.
    pub fn read(diff: &[u8]) -> Self {
        let mut change = Self::default();
        let patch = change.read_counts(diff);
        let text = String::from_utf8_lossy(patch);
        Reader { change: &mut change, path: String::new(), left: (0, 0), fresh: false }.read(&text);
        change
    }

    /// The list before the patch; gives the patch.
    fn read_counts<'d>(&mut self, diff: &'d [u8]) -> &'d [u8] {
        let mut rest = diff;
        while let Some(end) = memchr::memchr(0, rest) {
            let (entry, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if entry.is_empty() {
                break;
            }
            let entry = String::from_utf8_lossy(entry);
            let mut parts = entry.splitn(3, '\t');
            let (Some(added), Some(removed), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                break;
            };
            // A binary file has no lines.
            let lines = |count: &str| count.parse::<u64>().unwrap_or_default();
            self.size.lines += lines(added) + lines(removed);
            self.size.files += 1;
            if self.files.len() < MAX_FILES {
                self.files.insert(path.replace(char::is_control, "?"));
            }
        }
        rest
    }

    fn symbol(&mut self, path: &str, name: &str) {
        if self.symbols.len() < MAX_SYMBOLS {
            self.symbols.insert((path.to_owned(), clip_name(name)));
        }
    }
}

fn clip_name(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Parser state while a patch is read.
struct Reader<'c> {
    change: &'c mut BranchChange,
    path: String,
    /// Lines that the hunk still has: removed and added.
    left: (usize, usize),
    /// True while only blank lines and comments of the hunk were read.
    fresh: bool,
}

impl Reader<'_> {
    fn read(&mut self, patch: &str) {
        let mut header = None;
        for line in patch.split('\n') {
            if self.left != (0, 0) {
                self.content(line, &mut header);
                continue;
            }
            if let Some(side) = line.strip_prefix("+++ ").or_else(|| line.strip_prefix("--- ")) {
                let side = side.trim_end_matches('\t');
                if let Some((_, path)) = side.split_once('/').filter(|_| side != "/dev/null") {
                    path.replace(char::is_control, "?").clone_into(&mut self.path);
                }
            } else if let Some(hunk) = line.strip_prefix("@@ ") {
                let (counts, context) = hunk.split_once(" @@").unwrap_or((hunk, ""));
                self.left = hunk_counts(counts);
                self.fresh = true;
                header =
                    is_code(&self.path).then(|| context.get(1..).unwrap_or_default().to_owned());
            }
        }
    }

    /// Handles one content line of a hunk: context, added or removed.
    fn content(&mut self, line: &str, header: &mut Option<String>) {
        let Some((sign, text)) = line.split_at_checked(1) else { return };
        match sign {
            "-" => self.left.0 = self.left.0.saturating_sub(1),
            "+" => self.left.1 = self.left.1.saturating_sub(1),
            _ => return,
        }
        if !is_code(&self.path) {
            return;
        }
        let name = defined_name(&self.path, text).map(str::to_owned);
        if let Some(name) = &name {
            self.change.symbol(&self.path, name);
            if sign == "-" && name.len() >= MIN_NAME {
                self.change.altered.insert(clip_name(name));
            }
        }
        // If the hunk begins with a definition of its own, the enclosing one in its header is not changed.
        if name.is_some() || sign == "-" {
            let above = header.take().filter(|_| name.is_none() || !self.fresh);
            self.inside(above);
        } else if !is_filler(text) {
            let above = header.take();
            self.inside(above);
        }
        self.fresh &= is_filler(text);
        if sign == "+" {
            self.mention(text);
        }
    }

    fn inside(&mut self, header: Option<String>) {
        let Some(header) = header else { return };
        if let Some(name) = defined_name(&self.path, &header).map(str::to_owned) {
            let path = self.path.clone();
            self.change.symbol(&path, &name);
        }
    }

    /// Names that are called, or that are types.
    fn mention(&mut self, text: &str) {
        let mut rest = text;
        while let Some(start) = rest.find(is_word) {
            let word = &rest[start..];
            let end = word.find(|c: char| !is_word(c)).unwrap_or(word.len());
            let (name, after) = word.split_at(end);
            let called = after.starts_with(['(', '<', '!']) || after.starts_with("::");
            let is_type = name.starts_with(char::is_uppercase);
            if name.len() >= MIN_NAME
                && (called || is_type)
                && self.change.mentions.len() < MAX_MENTIONS
            {
                self.change.mentions.insert(clip_name(name));
            }
            rest = after;
        }
    }
}

/// True if a line carries no content of its own: blank, comment or attribute.
fn is_filler(text: &str) -> bool {
    let text = text.trim();
    text.is_empty()
        || ["//", "#", "/*", "*", "--", "\"\"\"", "@"].iter().any(|c| text.starts_with(c))
}

/// The lines that a hunk removes and adds: of `-7 +7,2`.
fn hunk_counts(counts: &str) -> (usize, usize) {
    let mut sides = counts.split(' ').map(|side| match side.split_once(',') {
        Some((_, count)) => count.parse().unwrap_or_default(),
        None => 1,
    });
    (sides.next().unwrap_or_default(), sides.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(set: &BTreeSet<(String, String)>) -> Vec<String> {
        set.iter().map(|(path, name)| format!("{path}: {name}")).collect()
    }

    #[test]
    fn a_diff_is_read_by_files_lines_and_definitions() {
        let diff = "2\t2\tsrc/a b.rs\0-\t-\tlogo.png\x001\t0\tREADME.md\0\0\
            diff --git a/src/a b.rs b/src/a b.rs\n--- a/src/a b.rs\t\n+++ b/src/a b.rs\t\n\
            @@ -7 +7 @@     pub fn total(&self) -> u32 {\n-        one\n+        --- old(Cart::of(price))\n\
            @@ -20 +20,0 @@ fn total() {\n-fn added(x: u8) {\n\
            @@ -30,0 +31,3 @@ fn before() {\n+\n+/// New.\n+fn after() {\n\
            diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n\
            @@ -1,0 +2 @@ fn not_code() {\n+fn neither()\n";
        let change = BranchChange::read(diff.as_bytes());
        assert_eq!(change.size, ChangeSize { files: 3, lines: 5 });
        let files: Vec<_> = change.files.iter().map(String::as_str).collect();
        assert_eq!(files, ["README.md", "logo.png", "src/a b.rs"]);
        let expected = ["src/a b.rs: added", "src/a b.rs: after", "src/a b.rs: total"];
        assert_eq!(names(&change.symbols), expected);
        assert_eq!(change.altered, BTreeSet::from(["added".to_owned()]));
        assert_eq!(change.mentions, BTreeSet::from(["Cart".to_owned(), "after".to_owned()]));
    }

    #[test]
    fn nothing_of_a_cut_or_strange_diff_is_believed() {
        for diff in ["", "\0", "x", "1\t1", "1\t1\ta.rs", "@@ -1 +1 @@\n+fn a()", "\0@@ é\n+\n"] {
            assert_eq!(BranchChange::read(diff.as_bytes()).files.len(), 0, "{diff:?}");
        }
        assert_eq!(hunk_counts("-7 +7,2"), (1, 2));
        assert_eq!(hunk_counts("x"), (1, 0));
    }
}
