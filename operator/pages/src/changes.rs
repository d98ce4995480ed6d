//! The page of a branch's changes: files and lines, with reviewers' remarks on them.

use askama::Template;
use codebutler_markdown::{TextDialect, mark_hidden};
use codebutler_wire::history::CheckShown;

use crate::UserNames;
use crate::checks::{classify_check, sort_checks};
use crate::diff::{ChangedFile, DiffRow, FilePatch};
use crate::list::encode_query;
use crate::page::{PageVisitor, name_thread, render_tabs};
use crate::summary::{LineRemark, PullShown, ThreadSummary};
use crate::syntax::LinePainter;
use crate::text::{format_count, group_digits, render_prose, render_template};

/// Lines of a file that are shown at once.
const ROWS: usize = 3000;
/// Files that are listed.
const FILES: usize = 1000;
const TOO_LARGE: &str = "What changes in this file is too large to be shown here.";

/// A branch's changes.
#[derive(Clone, Debug, Default)]
pub struct BranchShown {
    pub branch: String,
    /// Its newest commit.
    pub tip: String,
    pub files: Vec<ChangedFile>,
    /// One a line: id, space, first line.
    pub commits: String,
    /// Of the files whose lines are shown.
    pub patches: Vec<FilePatch>,
}

/// Content of the page.
#[derive(Clone, Debug)]
pub struct ChangesPage {
    /// Address of the thread's page.
    pub base: String,
    pub summary: ThreadSummary,
    pub names: UserNames,
    /// In milliseconds since 1970.
    pub now: u64,
    /// The conversation in Slack is known.
    pub slack: bool,
    /// The one file that was asked for, and the first of its lines.
    pub file: Option<String>,
    pub from: usize,
    /// Or why there is nothing to show.
    pub changes: Result<BranchShown, &'static str>,
}

#[derive(Template)]
#[template(path = "changes.html")]
struct ChangesTemplate<'a> {
    page: &'a ChangesPage,
    visitor: &'a PageVisitor,
    tabs: String,
    title: String,
    head: String,
    checks: Vec<CheckRow<'a>>,
    /// Commit of the checks, where another one is shown.
    checked: Option<&'a str>,
    listed: Vec<FileRow>,
    /// True if a reviewer has remarks on any of the listed files.
    has_remarks: bool,
    more_files: usize,
    shown: Vec<PatchShown>,
    /// Remarks on files that the branch does not change any more: where, and HTML.
    gone: Vec<(String, String)>,
    commits: Vec<CommitRow>,
    notice: Option<&'static str>,
}

struct CheckRow<'a> {
    check: &'a CheckShown,
    class: &'static str,
}

struct FileRow {
    path: String,
    link: String,
    added: String,
    removed: String,
    /// Number of reviewers' remarks on its lines; empty if there are none.
    remarks: String,
}

struct CommitRow {
    short: String,
    subject: String,
    link: Option<String>,
}

/// A file's lines.
struct PatchShown {
    path: String,
    added: String,
    removed: String,
    rows: Vec<ShownRow>,
    /// Remarks that stand beside no line, such as those on earlier commits: where, and HTML.
    earlier: Vec<(String, String)>,
    /// `only-old`, `only-new` or nothing: a side without lines takes no room.
    sides: &'static str,
    /// Address and label of the link to the rest.
    rest: Option<(String, String)>,
    binary: bool,
}

/// A line before and after, side by side.
#[derive(Default)]
struct ShownRow {
    /// The hunk's heading, or a remark of Git.
    note: Option<String>,
    old: Option<ShownLine>,
    new: Option<ShownLine>,
    /// A reviewer's remarks: role, and HTML.
    remarks: Vec<(String, String)>,
}

#[derive(Clone)]
struct ShownLine {
    number: u64,
    /// Coloured.
    html: String,
    /// `del`, `add` or nothing.
    class: &'static str,
}

/// The page of a branch's changes.
pub fn render_changes(page: &ChangesPage, visitor: &PageVisitor) -> String {
    let summary = &page.summary;
    let tabs = render_tabs(&page.base, summary, "Changes", page.slack);
    let title = name_thread(&page.base, summary, &page.names);
    let none = BranchShown::default();
    let changes = page.changes.as_ref().unwrap_or(&none);
    let lines = |count: fn(&ChangedFile) -> Option<u64>| {
        group_digits(changes.files.iter().filter_map(count).sum())
    };
    let head = format!(
        "{}, +{} −{}",
        format_count(changes.files.len() as u64, "file"),
        lines(|file| file.added),
        lines(|file| file.removed)
    );
    let listed = changes.files.iter().take(FILES).map(|file| FileRow::of(page, file));
    let listed: Vec<_> = listed.collect();
    let checked = Some(summary.checked.as_str()).filter(|at| !at.is_empty() && *at != changes.tip);
    let checks = sort_checks(&summary.checks).into_iter();
    let checks = checks.map(|check| CheckRow { check, class: classify_check(check) });
    let commits = changes.commits.lines();
    let commits = commits.filter_map(|line| CommitRow::of(line, summary.pull.as_ref()));
    let notice = page.changes.as_ref().err().copied();
    let is_there = |path: &str| changes.files.iter().any(|file| file.path == path);
    let gone = summary.remarks.iter().filter(|one| page.file.is_none() && !is_there(&one.file));
    let gone = gone.map(|one| {
        let place = format!("{}, line {} of {}", one.role, one.line, one.file);
        (place, render_prose(&one.body, TextDialect::Markdown, &page.names))
    });
    let lacking = page.file.as_deref().filter(|_| changes.patches.is_empty());
    let same = "The branch does not change this file.";
    let lacking = lacking.map(|file| if is_there(file) { TOO_LARGE } else { same });
    render_template(&ChangesTemplate {
        page,
        visitor,
        tabs,
        title,
        head,
        checks: checks.collect(),
        checked: checked.map(shorten_commit),
        has_remarks: listed.iter().any(|row| !row.remarks.is_empty()),
        listed,
        more_files: changes.files.len().saturating_sub(FILES),
        shown: changes.patches.iter().map(|patch| PatchShown::of(page, changes, patch)).collect(),
        gone: gone.collect(),
        commits: commits.collect(),
        notice: notice.or(lacking),
    })
}

/// A commit's id, as people read it.
fn shorten_commit(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

/// A count with its sign; nothing of a binary file.
fn format_signed(sign: char, count: Option<u64>) -> String {
    count.map(|count| format!("{sign}{}", group_digits(count))).unwrap_or_default()
}

impl ChangesTemplate<'_> {
    fn pull_link(&self) -> Option<&str> {
        let pull = self.page.summary.pull.as_ref()?;
        Some(pull.url.as_str()).filter(|url| url.starts_with("https://"))
    }

    fn branch(&self) -> Option<&BranchShown> {
        self.page.changes.as_ref().ok()
    }
}

impl FileRow {
    fn of(page: &ChangesPage, file: &ChangedFile) -> Self {
        let own = page.summary.remarks.iter().filter(|remark| remark.file == file.path);
        let remarks = own.count() as u64;
        Self {
            remarks: if remarks > 0 { group_digits(remarks) } else { String::new() },
            path: mark_hidden(&file.path).into_owned(),
            link: format!("{}/changes?file={}", page.base, encode_query(&file.path)),
            added: format_signed('+', file.added),
            removed: format_signed('−', file.removed),
        }
    }
}

impl CommitRow {
    fn of(entry: &str, pull: Option<&PullShown>) -> Option<Self> {
        let (id, subject) = entry.split_once(' ')?;
        let short = shorten_commit(id).to_owned();
        let link = pull.and_then(|pull| {
            let host = pull.url.strip_suffix(&format!("/pull/{}", pull.number))?;
            host.starts_with("https://").then(|| format!("{host}/commit/{id}"))
        });
        Some(Self { short, subject: mark_hidden(subject).into_owned(), link })
    }
}

impl PatchShown {
    fn of(page: &ChangesPage, changes: &BranchShown, patch: &FilePatch) -> Self {
        let file = changes.files.iter().find(|file| file.path == patch.path);
        let remarks = page.summary.remarks.iter().filter(|remark| remark.file == patch.path);
        let of_earlier =
            |remark: &LineRemark| remark.commit.clone().filter(|at| *at != changes.tip);
        let has_line = |line: u64| patch.rows.iter().any(|row| row.new == Some(line));
        let (remarks, others): (Vec<_>, Vec<_>) =
            remarks.partition(|one| of_earlier(one).is_none() && has_line(one.line));
        let earlier = others.into_iter().map(|remark| {
            let at = of_earlier(remark).map(|at| format!(" at {}", shorten_commit(&at)));
            let (role, line) = (&remark.role, remark.line);
            let place = format!("{role}, line {line}{}", at.unwrap_or_default());
            (place, render_prose(&remark.body, TextDialect::Markdown, &page.names))
        });
        let end = page.from.saturating_add(ROWS);
        let shown = patch.rows.iter().skip(page.from).take(ROWS);
        let mut rows = pair_rows(shown, &LinePainter::of(&patch.path));
        for row in &mut rows {
            row.add_remarks(&remarks, &page.names);
        }
        let left = patch.rows.len().saturating_sub(end);
        let rest = (left > 0).then(|| {
            let file = encode_query(&patch.path);
            let link = format!("{}/changes?file={file}&from={end}", page.base);
            (link, format_count(left as u64, "more line"))
        });
        Self {
            path: mark_hidden(&patch.path).into_owned(),
            added: format_signed('+', file.and_then(|file| file.added)),
            removed: format_signed('−', file.and_then(|file| file.removed)),
            sides: find_sides(&rows),
            rows,
            earlier: earlier.collect(),
            rest,
            binary: file.is_some_and(|file| file.added.is_none()),
        }
    }
}

/// Puts removed lines beside the lines that took their place.
fn pair_rows<'a>(rows: impl Iterator<Item = &'a DiffRow>, painter: &LinePainter) -> Vec<ShownRow> {
    let mut paired: Vec<ShownRow> = Vec::new();
    let (mut before, mut after) = (painter.clone(), painter.clone());
    // The first row of the change whose new side is not filled yet.
    let mut open = 0;
    for row in rows {
        let old = ShownLine::of(row.old, row, &mut before);
        let new = ShownLine::of(row.new, row, &mut after);
        if row.class == "hunk" {
            before.begin_again();
            after.begin_again();
        }
        match row.class {
            "hunk" => paired.push(ShownRow { note: Some(row.text.clone()), ..ShownRow::default() }),
            "del" => paired.push(ShownRow { old, ..ShownRow::default() }),
            "add" if open < paired.len() => {
                paired[open].new = new;
                open += 1;
                continue;
            }
            _ => paired.push(ShownRow { old, new, ..ShownRow::default() }),
        }
        if row.class != "del" {
            open = paired.len();
        }
    }
    paired
}

/// Class of a file by the side that has all of its lines.
fn find_sides(rows: &[ShownRow]) -> &'static str {
    let has = |side: fn(&ShownRow) -> bool| rows.iter().any(side);
    match (has(|row| row.old.is_some()), has(|row| row.new.is_some())) {
        (true, false) => "only-old",
        (false, true) => "only-new",
        _ => "",
    }
}

impl ShownRow {
    fn add_remarks(&mut self, remarks: &[&LineRemark], names: &UserNames) {
        let Some(line) = self.new.as_ref().map(|line| line.number) else { return };
        let own = remarks.iter().filter(|remark| remark.line == line);
        let html = |remark: &&LineRemark| render_prose(&remark.body, TextDialect::Markdown, names);
        self.remarks.extend(own.map(|remark| (remark.role.clone(), html(remark))));
    }

    /// Of a line that stays, which is shown once on a narrow screen.
    fn stays(&self) -> bool {
        self.old.is_some() && self.new.as_ref().is_some_and(|line| line.class.is_empty())
    }
}

impl ShownLine {
    fn of(number: Option<u64>, row: &DiffRow, painter: &mut LinePainter) -> Option<Self> {
        Some(Self { number: number?, html: painter.paint(&row.text), class: row.class })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(changes: Result<BranchShown, &'static str>) -> ChangesPage {
        let remark = LineRemark {
            role: "reviewer".into(),
            file: "src/a.rs".into(),
            line: 2,
            body: "This is **not** tested <img src=x>".into(),
            commit: None,
        };
        let url = "https://github.example/acme/shop/pull/7".to_owned();
        let summary = ThreadSummary {
            pull: Some(PullShown { number: 7, url, state: "open".into() }),
            checks: vec![CheckShown { name: "ci <b>".into(), state: "failure".into() }],
            remarks: vec![remark],
            ..ThreadSummary::default()
        };
        ChangesPage {
            base: "/team/shop-1".into(),
            summary,
            names: UserNames::new(),
            now: 1,
            slack: true,
            file: None,
            from: 0,
            changes,
        }
    }

    fn branch(lines: usize) -> BranchShown {
        let name = "src/a.rs".to_owned();
        let added: String =
            (0..lines).map(|n| format!("+<script>{n}</script>\n")).collect::<Vec<_>>().concat();
        let patch =
            format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,{lines} @@\n-old\n{added}");
        BranchShown {
            branch: "codebutler/t".into(),
            tip: "2".repeat(40),
            files: vec![ChangedFile {
                path: name.clone(),
                added: Some(lines as u64),
                removed: Some(1),
            }],
            commits: format!("{} Fix <b>\n", "2".repeat(40)),
            patches: FilePatch::read_all(&patch, &[name]),
        }
    }

    fn render(page: &ChangesPage) -> String {
        render_changes(page, &PageVisitor::default())
    }

    #[test]
    fn files_lines_remarks_checks_and_commits_are_shown_as_text() {
        let shown = render(&page(Ok(branch(3))));
        let commit = format!("href=\"https://github.example/acme/shop/commit/{}\"", "2".repeat(40));
        for part in [
            "1 file, +3 −1",
            "&#60;script&#62;<span class=\"sn\">1</span>&#60;/script&#62;",
            "<b>not</b> tested &#60;img",
            "ci &#60;b&#62;",
            "Fix &#60;b&#62;",
            &*commit,
            "href=\"https://github.example/acme/shop/pull/7\"",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("<script>1") && !shown.contains("<img"), "{shown}");
    }

    #[test]
    fn a_remark_stays_with_the_commit_that_it_was_made_at() {
        let mut page = page(Ok(branch(3)));
        page.summary.remarks[0].commit = Some("2".repeat(40));
        assert!(render(&page).contains("<tr class=\"remark\">"));
        page.summary.remarks[0].commit = Some("1".repeat(40));
        let shown = render(&page);
        assert!(!shown.contains("<tr class=\"remark\">"), "{shown}");
        assert!(shown.contains("reviewer, line 2 at 1111111111"), "{shown}");
    }

    #[test]
    fn a_remark_on_a_line_that_is_not_shown_is_not_lost_and_counted_in_the_list() {
        let mut far = page(Ok(branch(3)));
        far.summary.remarks[0].line = 900;
        let shown = render(&far);
        assert!(!shown.contains("<tr class=\"remark\">"), "{shown}");
        assert!(shown.contains("reviewer, line 900<") && shown.contains("<b>not</b> tested"));
        far.summary.remarks[0].file = "src/reverted.rs".to_owned();
        assert!(render(&far).contains("reviewer, line 900 of src/reverted.rs<"));
        // A large change is a list of its files: which of them has remarks is said there.
        let mut large = page(Ok(branch(3)));
        if let Ok(branch) = &mut large.changes {
            branch.patches.clear();
        }
        let shown = render(&large);
        assert!(
            shown.contains("Remarks</th>") && shown.contains("<td class=\"n\">1</td>"),
            "{shown}"
        );
        large.summary.remarks.clear();
        assert!(!render(&large).contains("Remarks</th>"));
    }

    #[test]
    fn checks_say_of_which_commit_they_are_and_failed_ones_stand_first() {
        let mut page = page(Ok(branch(3)));
        let check = |name: &str, state: &str| CheckShown { name: name.into(), state: state.into() };
        page.summary.checks =
            vec![check("lint", "neutral"), check("slow", "pending"), check("e2e", "cancelled")];
        page.summary.checked = "2".repeat(40);
        let shown = render(&page);
        let rows = "<p class=\"facts\">Checks: <span class=\"bad\">e2e: cancelled</span>\
                    <span class=\"\">slow: pending</span><span class=\"good\">lint: neutral</span></p>";
        assert!(shown.contains(rows), "{shown}");
        page.summary.checked = "1".repeat(40);
        let shown = render(&page);
        assert!(shown.contains("Checks at <code>1111111111</code>: <span"), "{shown}");
    }

    #[test]
    fn a_long_file_is_shown_in_parts_that_lead_to_each_other() {
        let mut long = page(Ok(branch(50_000)));
        long.file = Some("src/a.rs".into());
        let shown = render(&long);
        assert!(
            shown.contains("from=3000") && shown.contains("47,002 more lines"),
            "{}",
            shown.len()
        );
        assert_eq!(shown.matches("<td class=\"add\"").count(), ROWS - 2);
        long.from = 48_000;
        let shown = render(&long);
        assert!(shown.contains("49999</span>&#60;/script&#62;") && !shown.contains("more line"));
    }

    #[test]
    fn removed_lines_stand_beside_what_took_their_place() {
        let patch =
            "diff --git a/x b/x\n@@ -1,4 +1,5 @@\n same\n-one\n-two\n+1\n+2\n+3\n last\n-gone\n";
        let patches = FilePatch::read_all(patch, &["x".to_owned()]);
        let rows = pair_rows(patches[0].rows.iter(), &LinePainter::default());
        let text = |line: &Option<ShownLine>| line.as_ref().map(|line| line.html.clone());
        let sides: Vec<_> = rows.iter().map(|row| (text(&row.old), text(&row.new))).collect();
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            (None, None),
            (some("same"), some("same")),
            (some("one"), some("1")),
            (some("two"), some("2")),
            (None, some("3")),
            (some("last"), some("last")),
            (some("gone"), None),
        ];
        assert_eq!(sides, expected);
        assert_eq!(find_sides(&rows), "");
        let added = "diff --git a/x b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n";
        let patches = FilePatch::read_all(added, &["x".to_owned()]);
        assert_eq!(
            find_sides(&pair_rows(patches[0].rows.iter(), &LinePainter::default())),
            "only-new"
        );
    }

    #[test]
    fn what_can_t_be_shown_is_said() {
        assert!(render(&page(Err("Nothing was pushed yet."))).contains("Nothing was pushed yet."));
        let mut other = page(Ok(branch(1)));
        other.file = Some("none".into());
        if let Ok(branch) = &mut other.changes {
            branch.patches.clear();
        }
        assert!(render(&other).contains("does not change this file"));
        other.file = Some("src/a.rs".into());
        assert!(render(&other).contains("too large to be shown"));
    }
}
