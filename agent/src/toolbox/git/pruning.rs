//! Finds learnings of the base branch that should go: looks up their pages, the journals and what they speak of.

use std::collections::{BTreeSet, HashMap};

use git2::{Repository, Tree as GitTree};

use super::GitSite;
use super::base::{self, FOLDER};
use super::journals::{ThreadJournal, read_journals};
use super::learn::{MAX_CITED, check_citations};
use super::sealed::read_base;
use crate::memory::{
    LearningEntry, LearningMarks, MemoryCitation, MemoryPage, NamedPage, PastThread, PruneSignal,
    find_map, find_signals, named_paths,
};
use crate::toolbox::ToolError;

/// Largest page and journal, in bytes.
const MAX_PAGE: usize = 256 * 1024;
/// Journals that are read: the newest.
const MAX_JOURNALS: usize = 200;
/// A map is out of date where so many of its paths are gone, and one in so many.
const LOST_PATHS: usize = 2;
const LOST_SHARE: usize = 5;

/// Finds learnings that should go, in the order of pages and entries.
pub fn find_stale_learnings(place: &GitSite) -> Result<Vec<PruneSignal>, ToolError> {
    read_base(place, |repo, tree| find_stale(place, repo, tree))
}

fn find_stale(
    place: &GitSite,
    repo: &Repository,
    tree: &GitTree<'_>,
) -> Result<Vec<PruneSignal>, ToolError> {
    let texts = read_pages(repo, tree)?;
    let pages: Vec<_> = texts
        .iter()
        .map(|(file, text)| NamedPage { file, page: MemoryPage::parse(text) })
        .collect();
    let learnings = || pages.iter().flat_map(|page| page.page.learnings());
    let cited: Vec<MemoryCitation> = learnings().flat_map(|one| one.citations.clone()).collect();
    let faults = check_citations(place, &cited)?;
    let faults: HashMap<String, String> = cited
        .iter()
        .zip(faults)
        .filter_map(|(citation, fault)| Some((citation.to_string(), fault?)))
        .collect();
    let fault = |learning: &LearningEntry| {
        let mut cited = learning.citations.iter().map(ToString::to_string);
        cited
            .find_map(|citation| faults.get(&citation).cloned())
            .or_else(|| find_lost_scope(tree, learning))
            .or_else(|| find_lost_symbol(repo, tree, learning))
    };
    let mut found = find_signals(&pages, &read_past(repo, tree)?, fault);
    found.extend(texts.iter().filter_map(|(file, text)| find_lost_map(tree, file, text)));
    Ok(found)
}

fn read_pages(repo: &Repository, tree: &GitTree<'_>) -> Result<Vec<(String, String)>, ToolError> {
    let mut pages = Vec::new();
    for file in base::files_in(repo, tree, FOLDER)? {
        // An unreadable page is reported where it is used.
        if let Some(text) = base::usable_text(repo, tree, &format!("{FOLDER}/{file}"), MAX_PAGE)? {
            pages.push((file, text));
        }
    }
    Ok(pages)
}

fn read_past(repo: &Repository, tree: &GitTree<'_>) -> Result<Vec<PastThread>, ToolError> {
    let journals = read_journals(repo, tree, MAX_JOURNALS)?;
    let past = |one: ThreadJournal| PastThread {
        began: one.began,
        marks: LearningMarks::parse(&one.text),
    };
    Ok(journals.into_iter().map(past).collect())
}

/// A map whose paths are gone leads astray.
fn find_lost_map(tree: &GitTree<'_>, file: &str, text: &str) -> Option<PruneSignal> {
    let named: BTreeSet<&str> = named_paths(find_map(text)?).collect();
    let lost: Vec<_> = named
        .iter()
        .filter(|path| tree.get_path(std::path::Path::new(path)).is_err())
        .copied()
        .collect();
    let is_stale = lost.len() >= LOST_PATHS && lost.len() * LOST_SHARE >= named.len();
    let shown = lost.iter().take(LOST_PATHS).copied().collect::<Vec<_>>().join("`, `");
    let why = format!(
        "{} of the {} paths that it names are gone (`{shown}` …): propose that the team learns this project again, \
         with the word `re-learn`",
        lost.len(),
        named.len()
    );
    is_stale.then(|| PruneSignal {
        file: file.to_owned(),
        id: String::new(),
        claim: "Project map".to_owned(),
        why,
    })
}

/// Says so if all files and folders that a learning is about are gone.
fn find_lost_scope(tree: &GitTree<'_>, learning: &LearningEntry) -> Option<String> {
    let is_there = |scope: &String| {
        let path = scope.trim_end_matches("/**").trim_end_matches('/');
        path.contains(['*', '?', '[', '{']) || tree.get_path(std::path::Path::new(path)).is_ok()
    };
    let is_lost = !learning.scope.is_empty() && !learning.scope.iter().any(is_there);
    is_lost.then(|| format!("`{}` does not exist any more", learning.scope.join("`, `")))
}

/// A function that it names stands in none of the files that it is about.
fn find_lost_symbol(
    repo: &Repository,
    tree: &GitTree<'_>,
    learning: &LearningEntry,
) -> Option<String> {
    let cited = learning.citations.iter().filter_map(|citation| match citation {
        MemoryCitation::File { path, .. } => Some(path),
        MemoryCitation::Other(_) => None,
    });
    let files: Vec<&String> = learning.scope.iter().chain(cited).collect();
    let texts: Vec<String> = files
        .iter()
        .filter_map(|path| base::file_text(repo, tree, path, MAX_CITED).ok().flatten())
        .collect();
    // A folder may have it anywhere.
    if texts.is_empty() || texts.len() < files.len() {
        return None;
    }
    let lost = named_functions(&learning.rule)
        .find(|(_, name)| !texts.iter().any(|text| text.contains(name)))?;
    Some(format!("`{}` stands in none of the files that it is about any more", lost.0))
}

/// Functions that are named in code, such as `parse()` or `price::parse()`: as written, and by their last name.
fn named_functions(rule: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = rule.split('`').skip(1).step_by(2);
    quoted.filter_map(|code| {
        let path = code.split_once('(')?.0;
        let name = path.rsplit([':', '.', '>']).next().unwrap_or(path);
        let is_name = name.len() > 2 && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name.then_some((code, name))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn what_code_and_journals_no_longer_bear_out_is_found() {
        let f = GitFixture::new();
        let entry = |id: u32, rest: &str| format!("### C{id} {{#l-{id:08x}}}\n{rest}\n\n");
        let page = [
            entry(1, "- Rule: call `price::parse()` first\n- Scope: src/price.rs"),
            entry(2, "- Rule: call `round()` last\n- Scope: src/price.rs"),
            entry(3, "- Rule: keep it small\n- Scope: web/**, old.rs"),
            entry(4, "- Rule: see there\n- Cites: src/price.rs:1 \"fn nothing\""),
            entry(5, "- Rule: trust it"),
        ];
        f.merge(&[
            ("src/price.rs", "fn parse() {}\n"),
            (".codebutler/coder.md", &format!("## Learnings\n\n{}", page.concat())),
            (
                ".codebutler/pm.md",
                "## Project map\n- `src/price.rs`: prices\n- `web/a.ts`, `web/b.ts:3`: gone\n",
            ),
            (
                ".codebutler/journals/thread-1700000000-000100.md",
                "# A\n- Learnings that misled: l-00000005\n",
            ),
        ]);
        prepare_worktree(&f.place).unwrap();
        let found = find_stale_learnings(&f.place).unwrap();
        let found: Vec<_> = found.iter().map(|one| format!("{} {}", one.id, one.why)).collect();
        assert_eq!(
            found,
            [
                "l-00000002 `round()` stands in none of the files that it is about any more",
                "l-00000003 `web/**`, `old.rs` does not exist any more",
                "l-00000004 `src/price.rs` has no line with `fn nothing` any more",
                "l-00000005 it misled more often than it helped (1 : 0)",
                " 2 of the 3 paths that it names are gone (`web/a.ts`, `web/b.ts` …): propose that the team learns \
                 this project again, with the word `re-learn`",
            ]
        );
    }
}
