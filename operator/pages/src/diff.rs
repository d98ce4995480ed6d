//! Git's output about changes: files with their lines. Pure, and lenient: odd output is text.

use codebutler_markdown::mark_hidden;

/// Files and lines whose patch is shown with the others; of more, each is shown alone.
const FILES: usize = 50;
const LINES: u64 = 1500;
/// Bytes of a line that are shown.
const WIDE: usize = 2000;

/// A file that a branch changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    /// Lines; nothing of a binary file.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

impl ChangedFile {
    /// Reads `git diff --numstat -z --no-renames`.
    pub fn read_all(counts: &[u8]) -> Vec<Self> {
        let text = String::from_utf8_lossy(counts);
        let read = |entry: &str| {
            let mut parts = entry.splitn(3, '\t');
            let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
            let path = Some(path.to_owned()).filter(|path| !path.is_empty())?;
            Some(Self { path, added: added.parse().ok(), removed: removed.parse().ok() })
        };
        text.split('\0').filter_map(read).collect()
    }

    /// True if all of them can be shown at once.
    pub fn fit_on_a_page(files: &[Self]) -> bool {
        let lines = files.iter().flat_map(|file| [file.added, file.removed]).flatten();
        files.len() <= FILES && lines.fold(0, u64::saturating_add) <= LINES
    }
}

/// Row of a patch, as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffRow {
    /// `add`, `del`, `hunk` or nothing.
    pub class: &'static str,
    /// Numbers before and after.
    pub old: Option<u64>,
    pub new: Option<u64>,
    pub text: String,
}

/// The changed lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePatch {
    pub path: String,
    pub rows: Vec<DiffRow>,
}

impl FilePatch {
    /// Reads `git diff --patch` of these files, in this order.
    pub fn read_all(patch: &str, paths: &[String]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let (mut old, mut new, mut in_hunk) = (0, 0, false);
        for line in patch.lines() {
            // Within a hunk each line has a mark of its own.
            if line.starts_with("diff --git ") {
                let own = paths.get(all.len()).cloned().unwrap_or_default();
                all.push(Self { path: own, rows: Vec::new() });
                in_hunk = false;
                continue;
            }
            let Some(file) = all.last_mut() else { continue };
            if let Some(begins) = read_hunk(line) {
                (old, new) = begins;
                in_hunk = true;
                file.rows.push(DiffRow {
                    class: "hunk",
                    text: cut_line(line),
                    ..DiffRow::default()
                });
            } else if in_hunk {
                file.rows.push(read_row(line, &mut old, &mut new));
            }
        }
        all
    }
}

/// Numbers of the first lines, before and after.
fn read_hunk(line: &str) -> Option<(u64, u64)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let first = |range: &str| range.split(',').next()?.parse().ok();
    Some((first(old)?, first(new)?))
}

fn read_row(line: &str, old: &mut u64, new: &mut u64) -> DiffRow {
    let next = |at: &mut u64| {
        *at += 1;
        Some(*at - 1)
    };
    let (class, before, after) = match line.as_bytes().first() {
        Some(b'+') => ("add", None, next(new)),
        Some(b'-') => ("del", next(old), None),
        // Such as that the last line has no end.
        Some(b'\\') => ("hunk", None, None),
        _ => ("", next(old), next(new)),
    };
    let text = if class == "hunk" { line } else { line.get(1..).unwrap_or_default() };
    DiffRow { class, old: before, new: after, text: cut_line(text) }
}

/// A line as it is shown: nothing in it is unseen, or turns what follows.
fn cut_line(line: &str) -> String {
    let line = mark_hidden(line);
    if line.len() <= WIDE {
        return line.into_owned();
    }
    format!("{}…", &line[..line.floor_char_boundary(WIDE)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_patches_are_read_by_file() {
        let files = ChangedFile::read_all(b"2\t1\tsrc/a b.rs\0-\t-\tlogo.png\x00odd\0\t\t\0");
        let named = str::to_owned;
        assert_eq!(
            files,
            [
                ChangedFile { path: named("src/a b.rs"), added: Some(2), removed: Some(1) },
                ChangedFile { path: named("logo.png"), added: None, removed: None },
            ]
        );
        let patch = "diff --git a/src/a b.rs b/src/a b.rs\n--- a/src/a b.rs\n+++ b/src/a b.rs\n\
            @@ -7,2 +7,3 @@ fn x()\n one\n--- old\n+++ new\n+diff --git a/x b/x\n\\ No newline at end of file\n\
            diff --git a/logo.png b/logo.png\nBinary files a/logo.png and b/logo.png differ\n";
        let paths = [named("src/a b.rs"), named("logo.png")];
        let patches = FilePatch::read_all(patch, &paths);
        let rows: Vec<_> = patches[0]
            .rows
            .iter()
            .map(|row| (row.class, row.old, row.new, row.text.as_str()))
            .collect();
        assert_eq!(
            rows,
            [
                ("hunk", None, None, "@@ -7,2 +7,3 @@ fn x()"),
                ("", Some(7), Some(7), "one"),
                ("del", Some(8), None, "-- old"),
                ("add", None, Some(8), "++ new"),
                ("add", None, Some(9), "diff --git a/x b/x"),
                ("hunk", None, None, "\\ No newline at end of file"),
            ]
        );
        assert_eq!((&*patches[1].path, patches[1].rows.len()), ("logo.png", 0));
        for odd in ["", "x", "@@ -1 +1 @@\n+a", "diff --git \n@@ é\n+x"] {
            assert!(FilePatch::read_all(odd, &[]).iter().all(|file| file.rows.is_empty()), "{odd}");
        }
    }

    #[test]
    fn a_line_shows_what_would_make_it_read_as_another() {
        let patch = "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+a /*\u{202e} } \u{2066}*/\n";
        let patches = FilePatch::read_all(patch, &["x".to_owned()]);
        assert_eq!(patches[0].rows[2].text, "a /*⟦U+202E⟧ } ⟦U+2066⟧*/");
    }

    #[test]
    fn a_change_of_many_files_or_lines_is_shown_by_file() {
        let file = |lines| ChangedFile { path: "a".into(), added: Some(lines), removed: None };
        assert!(ChangedFile::fit_on_a_page(&[file(LINES)]));
        assert!(!ChangedFile::fit_on_a_page(&[file(LINES), file(1)]));
        assert!(!ChangedFile::fit_on_a_page(&vec![file(1); FILES + 1]));
        assert!(!ChangedFile::fit_on_a_page(&[file(u64::MAX), file(2)]));
    }
}
