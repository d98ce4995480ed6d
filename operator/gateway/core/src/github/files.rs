//! The files that a pull request changes, as GitHub lists them. Its answer as one diff ends at 300 files or 20,000
//! lines with 406; the list goes on to 3,000 files, and leaves out the patches that it does not want to give.

use codebutler_crds::wire::{FileDiff, LineComment, LineRef, PulledFile};
use http::StatusCode;
use serde::Deserialize;

use super::{GitHub, GitHubError, text};

/// Files a page, and pages: what GitHub lists at most.
const PAGE: usize = 100;
const PAGES: usize = 30;

/// A file of a pull request.
#[derive(Clone, Debug, Deserialize)]
pub struct ListedFile {
    filename: String,
    #[serde(default)]
    previous_filename: Option<String>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    additions: u64,
    #[serde(default)]
    deletions: u64,
    #[serde(default)]
    patch: Option<String>,
}

/// The files of a pull request in GitHub's order.
#[derive(Debug, Default)]
pub struct ListedFiles {
    pub all: Vec<ListedFile>,
}

impl ListedFile {
    pub fn named(&self) -> PulledFile {
        PulledFile {
            path: text::one_line(&self.filename, 300),
            previous: self.previous_filename.as_ref().map(|path| text::one_line(path, 300)),
            status: text::one_line(&self.status, 20),
            additions: self.additions,
            deletions: self.deletions,
        }
    }

    pub fn diff(&self) -> FileDiff {
        let patch = self.patch.as_deref().map(|patch| text::diff_text(patch, usize::MAX));
        FileDiff { file: self.named(), patch, continued: false, left_out: self.is_left_out() }
    }

    /// True if it has this name, or had it.
    pub fn is_called(&self, path: &str) -> bool {
        self.filename == path || self.previous_filename.as_deref() == Some(path)
    }

    /// Returns true if GitHub left out the patch: once the patches of an answer have about 20,000
    /// lines, GitHub lists the rest as if nothing had changed in them. A renamed file may really be
    /// unchanged.
    fn is_left_out(&self) -> bool {
        self.patch.is_none()
            && self.additions + self.deletions == 0
            && matches!(&*self.status, "modified" | "changed" | "added" | "removed")
    }

    /// True if its patch shows all of these lines: GitHub takes no remark that goes from one hunk to another.
    fn shows(&self, at: &LineRef) -> bool {
        let Some(patch) = self.patch.as_deref() else { return false };
        let first = at.first.unwrap_or(at.line);
        let shown = shown_lines(patch, at.removed);
        let found = shown.iter().filter(|line| (first..=at.line).contains(*line)).count();
        let wanted = at.line.checked_sub(first).and_then(|more| more.checked_add(1));
        u64::try_from(found).ok() == wanted
    }
}

impl ListedFiles {
    /// Remarks whose lines GitHub would not take, as `path:line`.
    pub fn misplaced(&self, comments: &[LineComment]) -> Vec<String> {
        let is_shown = |one: &&LineComment| {
            let file = self.all.iter().find(|file| file.filename == one.at.path);
            // A file without a patch here may have one at GitHub.
            !file.is_some_and(|file| file.is_left_out() || file.shows(&one.at))
        };
        let places = comments.iter().filter(is_shown);
        let place = |one: &LineComment| {
            LineRef { path: text::one_line(&one.at.path, 200), ..one.at.clone() }.to_string()
        };
        places.map(place).collect()
    }
}

/// Lines that a patch shows: of the new version, or of the one before.
fn shown_lines(patch: &str, before: bool) -> Vec<u64> {
    let (own, other) = if before { ('-', '+') } else { ('+', '-') };
    let (mut shown, mut next) = (Vec::new(), 0);
    for line in patch.lines() {
        if let Some(hunk) = line.strip_prefix("@@ ") {
            let range = hunk.split(' ').find_map(|part| part.strip_prefix(own));
            let first = range.and_then(|range| range.split(',').next());
            next = first.and_then(|first| first.parse().ok()).unwrap_or(0);
        } else if !line.starts_with([other, '\\']) {
            shown.push(next);
            next += 1;
        }
    }
    shown
}

impl GitHub {
    /// Lists all files of a pull request, as far as GitHub lists them.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn pull_files(&self, number: u64) -> Result<ListedFiles, GitHubError> {
        let mut all = Vec::new();
        for page in 1..=PAGES {
            let files = self.files_page(number, PAGE, page).await?;
            let is_last = files.len() < PAGE;
            all.extend(files);
            if is_last {
                break;
            }
        }
        Ok(ListedFiles { all })
    }

    /// The diff of one file: asked for alone, GitHub may give what the whole list lacks.
    pub(super) async fn whole_file(
        &self,
        number: u64,
        file: &ListedFile,
        place: usize,
    ) -> Result<FileDiff, GitHubError> {
        if !file.is_left_out() {
            return Ok(file.diff());
        }
        let alone = self.files_page(number, 1, place + 1).await?;
        let same = alone.into_iter().find(|one| one.filename == file.filename);
        Ok(FileDiff { left_out: false, ..same.as_ref().unwrap_or(file).diff() })
    }

    async fn files_page(
        &self,
        number: u64,
        size: usize,
        page: usize,
    ) -> Result<Vec<ListedFile>, GitHubError> {
        let path = format!("pulls/{number}/files?per_page={size}&page={page}");
        let answer = self.client.get(&self.client.repo(&path)).await?;
        self.client.expect(&answer, StatusCode::OK)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_remark_needs_a_line_that_the_diff_shows() {
        let file =
            |value: serde_json::Value| -> ListedFile { serde_json::from_value(value).unwrap() };
        let patch = "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n@@ -9 +9,2 @@\n nine\n+ten\n\\ No newline at end of file";
        let files = ListedFiles {
            all: vec![
                file(
                    json!({"filename": "a.rs", "status": "modified", "additions": 2, "deletions": 1, "patch": patch}),
                ),
                file(
                    json!({"filename": "b.png", "status": "added", "additions": 1, "deletions": 0}),
                ),
                file(json!({"filename": "late.rs", "status": "modified"})),
                file(
                    json!({"filename": "new.rs", "previous_filename": "old.rs", "status": "renamed"}),
                ),
            ],
        };
        assert_eq!(shown_lines(patch, false), [1, 2, 3, 9, 10]);
        assert_eq!(shown_lines(patch, true), [1, 2, 3, 9]);
        let remark = |path: &str, line| LineComment {
            at: LineRef { path: path.to_owned(), line, ..LineRef::default() },
            body: "x".to_owned(),
        };
        let of = |line, first, removed| {
            let at = LineRef { path: "a.rs".to_owned(), line, first, removed };
            files.misplaced(&[LineComment { at, body: "x".to_owned() }])
        };
        assert_eq!(of(9, None, true), [""; 0]);
        assert_eq!(of(10, None, true), ["a.rs:10 before the change"]);
        assert_eq!(of(3, Some(2), false), [""; 0]);
        assert_eq!(of(9, Some(4), false), ["a.rs:4-9"]);
        assert_eq!(of(9, Some(3), false), ["a.rs:3-9"], "in two hunks");
        let comments = [
            ("a.rs", 2),
            ("a.rs", 4),
            ("a.rs", 10),
            ("b.png", 1),
            ("late.rs", 7),
            ("new.rs", 1),
            ("no", 1),
        ]
        .map(|(path, line)| remark(path, line));
        assert_eq!(files.misplaced(&comments), ["a.rs:4", "b.png:1", "new.rs:1", "no:1"]);
        let left: Vec<bool> = files.all.iter().map(ListedFile::is_left_out).collect();
        assert_eq!(left, [false, false, true, false], "a pure rename has no patch");
    }
}
