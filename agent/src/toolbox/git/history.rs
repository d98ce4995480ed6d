//! GitLog and GitDiff.

use std::fmt::Write as _;

use git2::{DiffFormat, DiffOptions, Repository, Sort};

use super::prepare::fork_point;
use super::{Place, short};
use crate::text::{clip, head_and_tail};
use crate::toolbox::ToolError;
use crate::toolbox::paths::Tree;
use crate::tools::args;

const DEFAULT_COMMITS: u32 = 20;
const MAX_COMMITS: u32 = 200;
/// Commits looked at for a path.
const MAX_VISITED: usize = 5_000;
/// Characters of a diff.
const MAX_DIFF: usize = 40_000;

/// The newest commits of HEAD, one a line.
pub fn log(place: &Place, tree: &Tree, args: &args::GitLog) -> Result<String, ToolError> {
    let repo = place.open()?;
    let limit = args.limit.unwrap_or(DEFAULT_COMMITS).clamp(1, MAX_COMMITS) as usize;
    let path = args.path.as_deref().map(|path| tree.locate(path)).transpose()?;
    let path = path.map(|at| at.shown).filter(|shown| shown != ".");
    let mut walk = repo.revwalk()?;
    walk.push_head()?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::TIME)?;
    let mut out = String::new();
    let mut count = 0;
    for (visited, id) in walk.enumerate() {
        let commit = repo.find_commit(id?)?;
        if visited >= MAX_VISITED {
            let _ = writeln!(out, "(stopped looking after {MAX_VISITED} commits)");
            break;
        }
        if let Some(path) = &path
            && !touches(&repo, &commit, path)?
        {
            continue;
        }
        if count == limit {
            let _ = writeln!(out, "(older commits exist: raise `limit`)");
            break;
        }
        count += 1;
        let summary = commit.summary_bytes().map(String::from_utf8_lossy).unwrap_or_default();
        let author = commit.author();
        let _ = writeln!(
            out,
            "{} {} {}: {}",
            short(commit.id()),
            date(commit.time().seconds()),
            clip(&String::from_utf8_lossy(author.name_bytes()), 60),
            clip(&summary, 200)
        );
    }
    if out.is_empty() { Ok("no commits".to_owned()) } else { Ok(out) }
}

fn touches(repo: &Repository, commit: &git2::Commit<'_>, path: &str) -> Result<bool, ToolError> {
    let before = commit.parent(0).ok().map(|parent| parent.tree()).transpose()?;
    let mut options = DiffOptions::new();
    options.pathspec(path).disable_pathspec_match(true);
    let diff =
        repo.diff_tree_to_tree(before.as_ref(), Some(&commit.tree()?), Some(&mut options))?;
    Ok(diff.deltas().len() > 0)
}

/// What the worktree, uncommitted and new files included, changes against a commit.
pub fn diff(place: &Place, tree: &Tree, args: &args::GitDiff) -> Result<String, ToolError> {
    let repo = place.open()?;
    let base = match &args.base {
        None => fork_point(place, &repo)?,
        Some(name) => repo
            .revparse_single(name)
            .and_then(|object| object.peel_to_commit())
            .map_err(|_| ToolError::refused(format!("`{}` is not a commit here", clip(name, 100))))?
            .id(),
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
    let diff = repo.diff_tree_to_workdir_with_index(Some(&from), Some(&mut options))?;
    if diff.deltas().len() == 0 {
        return Ok(format!("no difference from {}", short(base)));
    }
    let mut patch = String::new();
    diff.print(DiffFormat::Patch, |_, _, line| {
        if matches!(line.origin(), '+' | '-' | ' ') {
            patch.push(line.origin());
        }
        patch.push_str(&String::from_utf8_lossy(line.content()));
        true
    })?;
    let stats = diff.stats()?;
    let (files, plus, minus) = (stats.files_changed(), stats.insertions(), stats.deletions());
    let head = format!("{files} file(s) changed since {}, +{plus} −{minus}\n", short(base));
    Ok(head + &head_and_tail(&patch, MAX_DIFF))
}

/// `YYYY-MM-DD` in UTC.
pub(super) fn date(seconds: i64) -> String {
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
    use super::super::fixture::Fixture;
    use super::super::prepare;
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
            assert_eq!(date(seconds), shown);
        }
    }

    #[test]
    fn log_and_diff_show_what_happened() {
        let f = Fixture::new();
        f.commit_elsewhere("src.txt", "one\n");
        prepare(&f.place).unwrap();
        let tree = Tree::open(&f.place.tree()).unwrap();
        let log = |limit, path: Option<&str>| {
            log(&f.place, &tree, &args::GitLog { limit, path: path.map(Into::into) }).unwrap()
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
            diff(&f.place, &tree, &args).map_err(|e| e.to_string())
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
}
