//! GitLog and GitDiff: commits that fit a filter, and differences between them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use git2::{Commit, Diff, DiffFormat, DiffOptions, Oid, Repository, Sort};
use regex::{Regex, RegexBuilder};

use super::prepare::fork_point;
use super::proof::tree_of_files;
use super::worktree::{WorktreeScanner, open_index, take_mended_note};
use super::{GitSite, short_id};
use crate::tool_args as args;
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;
use codebutler_guides::text::{clip_text, head_and_tail, plain_text};

const DEFAULT_COMMITS: u32 = 20;
const MAX_COMMITS: u32 = 200;
/// Commits looked at for one that fits, and for how long.
const MAX_VISITED: usize = 5_000;
const MAX_TIME: Duration = Duration::from_secs(30);
/// Characters of a diff, and of one beside others.
const MAX_DIFF: usize = 40_000;
const MAX_PART: usize = 6_000;
/// Largest file that is compared by its lines, in bytes: a larger one counts as binary.
pub(super) const MAX_COMPARED: i64 = 2 * 1024 * 1024;

/// Filter for the commits that are shown.
struct WantedHistory {
    path: Option<String>,
    search: Option<Needle>,
    author: Option<String>,
    since: Option<i64>,
}

enum Needle {
    /// A text whose number of occurrences in a file changes.
    Text(String),
    Line(Regex),
}

impl WantedHistory {
    fn of(tree: &WorktreeRoot, args: &args::GitLog) -> Result<Self, ToolError> {
        let path = args.path.as_deref().map(|path| tree.locate(path)).transpose()?;
        let search = args.search.as_deref().map(|search| match args.regex {
            Some(true) => RegexBuilder::new(search).size_limit(1 << 20).build().map(Needle::Line),
            _ => Ok(Needle::Text(search.to_owned())),
        });
        let search = search.transpose().map_err(|e| {
            ToolError::refused(format!("`search` is not a regular expression: {e}"))
        })?;
        let since = args.since.as_deref().map(|day| {
            day_seconds(day)
                .ok_or_else(|| ToolError::refused("`since` is a day such as 2025-01-31"))
        });
        Ok(Self {
            path: path.map(|at| at.shown).filter(|shown| shown != "."),
            search,
            author: args.author.as_ref().map(|author| author.to_lowercase()),
            since: since.transpose()?,
        })
    }

    fn fits(&self, repo: &Repository, commit: &Commit<'_>) -> Result<bool, ToolError> {
        if self.since.is_some_and(|since| commit.time().seconds() < since) {
            return Ok(false);
        }
        if let Some(wanted) = &self.author {
            let author = commit.author();
            let (name, email) = (author.name_bytes(), author.email_bytes());
            let shown =
                format!("{} <{}>", String::from_utf8_lossy(name), String::from_utf8_lossy(email));
            if !shown.to_lowercase().contains(wanted) {
                return Ok(false);
            }
        }
        match (&self.path, &self.search) {
            (None, None) => Ok(true),
            (Some(_), None) => {
                Ok(commit_changes(repo, commit, self.path.as_deref())?.deltas().len() > 0)
            }
            // A merge brings what other commits have changed.
            (_, Some(_)) if commit.parent_count() > 1 => Ok(false),
            (_, Some(needle)) => {
                needle.is_in(repo, &commit_changes(repo, commit, self.path.as_deref())?)
            }
        }
    }
}

impl Needle {
    fn is_in(&self, repo: &Repository, diff: &Diff<'_>) -> Result<bool, ToolError> {
        match self {
            Self::Text(text) => Ok(diff.deltas().any(|delta| {
                let count = |id: Oid| {
                    let blob = repo.find_blob(id).ok();
                    let blob = blob.filter(|b| {
                        !b.is_binary()
                            && i64::try_from(b.size()).is_ok_and(|size| size <= MAX_COMPARED)
                    });
                    blob.map_or(0, |b| find_bytes(b.content(), text.as_bytes()))
                };
                count(delta.old_file().id()) != count(delta.new_file().id())
            })),
            Self::Line(regex) => {
                let mut found = false;
                let printed = diff.print(DiffFormat::Patch, |_, _, line| {
                    let text = String::from_utf8_lossy(line.content());
                    found = matches!(line.origin(), '+' | '-')
                        && regex.is_match(text.trim_end_matches(['\r', '\n']));
                    !found
                });
                if found { Ok(true) } else { printed.map(|()| false).map_err(Into::into) }
            }
        }
    }
}

fn find_bytes(text: &[u8], part: &[u8]) -> usize {
    let Some(first) = part.first() else { return 0 };
    let (mut count, mut from) = (0, 0);
    while let Some(at) = text[from..].iter().position(|byte| byte == first).map(|at| from + at) {
        if text[at..].starts_with(part) {
            count += 1;
            from = at + part.len();
        } else {
            from = at + 1;
        }
    }
    count
}

/// The newest commits, one a line, and what they changed if that is asked for.
pub fn show_log(
    place: &GitSite,
    tree: &WorktreeRoot,
    args: &args::GitLog,
) -> Result<String, ToolError> {
    let repo = place.open()?;
    let limit = args.limit.unwrap_or(DEFAULT_COMMITS).clamp(1, MAX_COMMITS) as usize;
    let wanted = WantedHistory::of(tree, args)?;
    let mut walk = repo.revwalk()?;
    match &args.commit {
        Some(name) => walk.push(find_commit(place, &repo, name)?.id())?,
        None => walk.push_head()?,
    }
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::TIME)?;
    let began = Instant::now();
    let mut out = String::new();
    let mut count = 0;
    let mut end = None;
    for (visited, id) in walk.enumerate() {
        // In a shallow clone the commits before this one are not here.
        let Ok(commit) = id.and_then(|id| repo.find_commit(id)) else {
            end = Some(ENDS_HERE.to_owned());
            break;
        };
        if visited >= MAX_VISITED || began.elapsed() > MAX_TIME {
            end = Some(format!("(stopped looking after {visited} commits)"));
            break;
        }
        if !wanted.fits(&repo, &commit)? {
            continue;
        }
        if count == limit || out.len() > MAX_DIFF {
            end = Some("(older commits exist: raise `limit`)".to_owned());
            break;
        }
        count += 1;
        let summary = commit.summary_bytes().map(String::from_utf8_lossy).unwrap_or_default();
        let author = commit.author();
        let _ = writeln!(
            out,
            "{} {} {}: {}",
            short_id(commit.id()),
            format_date(commit.time().seconds()),
            clip_text(&plain_text(&String::from_utf8_lossy(author.name_bytes())), 60),
            clip_text(&plain_text(&summary), 200)
        );
        if args.patch == Some(true) {
            let diff = commit_changes(&repo, &commit, wanted.path.as_deref())?;
            let _ = writeln!(out, "{}", head_and_tail(&text_of(&diff)?, MAX_PART));
        }
    }
    let end = end.or_else(|| repo.is_shallow().then(|| ENDS_HERE.to_owned()));
    match (out.is_empty(), end) {
        (true, None) => Ok("no commits".to_owned()),
        (true, Some(end)) => Ok(format!("no commits {end}")),
        (false, end) => Ok(out + &end.map(|end| end + "\n").unwrap_or_default()),
    }
}

/// Note at the end of the history of a shallow clone.
pub(super) const ENDS_HERE: &str =
    "(this clone's history ends here: what is older is on the remote only)";

/// Diff of a commit against its first parent.
pub(super) fn commit_changes<'r>(
    repo: &'r Repository,
    commit: &Commit<'r>,
    path: Option<&str>,
) -> Result<Diff<'r>, ToolError> {
    let before = commit.parent(0).ok().map(|parent| parent.tree()).transpose()?;
    let mut options = DiffOptions::new();
    options.max_size(MAX_COMPARED);
    if let Some(path) = path {
        options.pathspec(path).disable_pathspec_match(true);
    }
    Ok(repo.diff_tree_to_tree(before.as_ref(), Some(&commit.tree()?), Some(&mut options))?)
}

/// A commit by any of its names; branches of the remote count too.
pub(super) fn find_commit<'r>(
    place: &GitSite,
    repo: &'r Repository,
    name: &str,
) -> Result<Commit<'r>, ToolError> {
    let unknown = || {
        let base = &place.hello.base_branch;
        ToolError::refused(format!(
            "`{}` is not a commit here; there are `HEAD`, `origin/{base}` and what GitLog shows{}",
            clip_text(name, 100),
            if repo.is_shallow() { " (older ones are on the remote only)" } else { "" }
        ))
    };
    // `:/text` would search all of history.
    if name.starts_with(':') || name.contains("^{") {
        return Err(unknown());
    }
    let found =
        repo.revparse_single(name).or_else(|_| repo.revparse_single(&format!("origin/{name}")));
    found.and_then(|object| object.peel_to_commit()).map_err(|_| unknown())
}

/// Formats a diff as a patch.
pub(super) fn text_of(diff: &Diff<'_>) -> Result<String, ToolError> {
    let mut patch = String::new();
    let printed = diff.print(DiffFormat::Patch, |_, _, line| {
        if matches!(line.origin(), '+' | '-' | ' ') {
            patch.push(line.origin());
        }
        patch.push_str(&String::from_utf8_lossy(line.content()));
        // Far more than is ever shown.
        patch.len() < 64 * MAX_DIFF
    });
    if printed.is_err() && patch.len() < 64 * MAX_DIFF {
        printed?;
    }
    Ok(plain_text(&patch))
}

/// Shows the changes of the worktree, uncommitted and new files included, against a commit.
pub fn show_diff(
    place: &GitSite,
    tree: &WorktreeRoot,
    args: &args::GitDiff,
) -> Result<String, ToolError> {
    let repo = place.open()?;
    let base = match &args.base {
        None => fork_point(place, &repo)?,
        Some(name) => find_commit(place, &repo, name)?.id(),
    };
    let mut options = DiffOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(true).show_untracked_content(true);
    if let Some(path) = &args.path {
        let at = tree.locate(path)?;
        if at.shown != "." {
            options.pathspec(at.shown).disable_pathspec_match(true);
        }
    }
    let from = repo.find_commit(base)?.tree()?;
    {
        let _lock = place.lock()?;
        open_index(&repo)?;
    }
    // libgit2 takes what a sparse checkout leaves out for deleted, and other encodings for changes.
    let diff = if WorktreeScanner::new(&repo, &place.work).is_plain()? {
        repo.diff_tree_to_workdir_with_index(Some(&from), Some(&mut options))?
    } else {
        let files = tree_of_files(place, &place.open()?)?;
        repo.diff_tree_to_tree(Some(&from), Some(&repo.find_tree(files)?), Some(&mut options))?
    };
    let remade = take_mended_note(&repo).map_or(String::new(), |remade| format!("{remade}\n"));
    if diff.deltas().len() == 0 {
        return Ok(format!("{remade}no difference from {}", short_id(base)));
    }
    let patch = text_of(&diff)?;
    let stats = diff.stats()?;
    let (files, plus, minus) = (stats.files_changed(), stats.insertions(), stats.deletions());
    let head =
        format!("{remade}{files} file(s) changed since {}, +{plus} −{minus}\n", short_id(base));
    Ok(head + &head_and_tail(&patch, MAX_DIFF))
}

/// Seconds since 1970 at the beginning of a day in UTC.
fn day_seconds(day: &str) -> Option<i64> {
    let day: Vec<i64> =
        day.get(..10)?.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month @ 1..=12, day @ 1..=31] = day[..] else { return None };
    let (year, shifted) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400)
}

/// Formats a time as `YYYY-MM-DD` in UTC.
pub(super) fn format_date(seconds: i64) -> String {
    // Days since 0000-03-01, in eras of 400 years: leap days fall at the end of a year.
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn dates() {
        for (seconds, shown) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_763_765_623, "2025-11-21"),
            (-1, "1969-12-31"),
            (4_107_542_399, "2100-02-28"),
        ] {
            assert_eq!(format_date(seconds), shown);
            let begins = day_seconds(shown).unwrap();
            assert!((0..86_400).contains(&(seconds - begins)), "{shown}");
        }
    }

    #[test]
    fn log_and_diff_show_what_happened() {
        let f = GitFixture::new();
        f.commit_elsewhere("src.txt", "one\n");
        prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let log = |limit, path: Option<&str>| {
            show_log(
                &f.place,
                &tree,
                &args::GitLog { limit, path: path.map(Into::into), ..args::GitLog::default() },
            )
            .unwrap()
        };
        let all = log(None, None);
        assert_eq!(all.lines().count(), 2);
        assert!(all.lines().next().unwrap().ends_with(" Someone: Elsewhere"), "{all}");
        assert!(log(Some(1), None).contains("older commits exist"));
        assert_eq!(log(None, Some("README")).lines().count(), 1);

        f.write("README", "hello\nworld\n");
        f.write("new.txt", "new\n");
        f.write("target/ignored", "x");
        let diff = |base: Option<&str>, path: Option<&str>| {
            let args = args::GitDiff { base: base.map(Into::into), path: path.map(Into::into) };
            show_diff(&f.place, &tree, &args).map_err(|e| e.to_string())
        };
        let whole = diff(None, None).unwrap();
        for part in ["+world", "+new\n", "+one\n", "3 file(s) changed since ", "+3 −0"] {
            assert!(whole.contains(part), "{part}: {whole}");
        }
        assert!(!whole.contains("ignored"));
        let one = diff(Some("HEAD"), Some("README")).unwrap();
        assert!(one.contains("+world") && !one.contains("new.txt"), "{one}");
        assert!(diff(None, Some(".gitignore")).unwrap().contains("no difference"));
        assert!(diff(Some("no-such"), None).unwrap_err().contains("not a commit"));
    }

    #[test]
    fn commits_are_found_by_what_they_changed_and_by_whom() {
        let f = GitFixture::new();
        for (content, path) in [
            ("alpha\n", "a.txt"),
            ("alpha\nbeta()\n", "a.txt"),
            ("x\n", "b.txt"),
            ("alpha\n", "a.txt"),
        ] {
            f.commit_elsewhere(path, content);
        }
        prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let count = |args: args::GitLog| {
            show_log(&f.place, &tree, &args)
                .map(|out| out.lines().filter(|line| line.contains("Someone: ")).count())
        };
        let none = args::GitLog::default;
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(count(none()).unwrap(), 5);
        // One commit adds the text, and another one removes it.
        assert_eq!(count(args::GitLog { search: some("beta("), ..none() }).unwrap(), 2);
        assert_eq!(
            count(args::GitLog { search: some("beta("), path: some("b.txt"), ..none() }).unwrap(),
            0
        );
        assert_eq!(
            count(args::GitLog { search: some("^bet.\\(\\)$"), regex: Some(true), ..none() })
                .unwrap(),
            2
        );
        assert!(count(args::GitLog { search: some("("), regex: Some(true), ..none() }).is_err());
        assert_eq!(count(args::GitLog { author: some("SOMEONE@"), ..none() }).unwrap(), 5);
        assert_eq!(count(args::GitLog { author: some("nobody"), ..none() }).unwrap(), 0);
        assert_eq!(count(args::GitLog { since: some("2100-01-01"), ..none() }).unwrap(), 0);
        assert!(count(args::GitLog { since: some("yesterday"), ..none() }).is_err());
        assert_eq!(count(args::GitLog { commit: some("main"), ..none() }).unwrap(), 1);
        let shown = show_log(
            &f.place,
            &tree,
            &args::GitLog { patch: Some(true), limit: Some(1), ..none() },
        )
        .unwrap();
        assert!(shown.contains("-beta()"), "{shown}");
    }

    #[test]
    fn a_shallow_clone_says_where_its_history_ends() {
        let f = GitFixture::new();
        f.commit_elsewhere("a.txt", "a\n");
        prepare_worktree(&f.place).unwrap();
        let head = f.git(&f.place.tree(), &["rev-parse", "HEAD"]);
        std::fs::write(f.place.tree().join(".git/shallow"), format!("{head}\n")).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let shown = show_log(&f.place, &tree, &args::GitLog::default()).unwrap();
        assert!(shown.contains("history ends here"), "{shown}");
    }
}
