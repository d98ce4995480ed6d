//! Facts on the place in which a role works, as far as Git and the system know: the model would otherwise spend its
//! first calls on them.

use std::time::{SystemTime, UNIX_EPOCH};

use git2::{DiffOptions, Repository};

use super::base::{self, FOLDER};
use super::clean::differing_files;
use super::history::format_date;
use super::hooks::find_hooks;
use super::seen::{last_seen, read_note};
use super::sparse::find_extent;
use super::worktree::SKIP;
use super::{GitSite, short_id};
use crate::toolbox::ToolError;
use crate::toolbox::protocol::RoleSurroundings;
use codebutler_guides::text::clip_text;

/// Guides that are named as changed.
const MAX_GUIDES: usize = 10;
const MAX_PATTERNS: usize = 10;

/// Everything but the versions of programs. What can't be found out is left empty.
pub fn find_surroundings(place: &GitSite) -> Result<RoleSurroundings, ToolError> {
    let repo = place.open()?;
    let head = repo.head()?.peel_to_commit()?;
    let base = base::base_tree(place, &repo)?;
    Ok(RoleSurroundings {
        root: place.tree().display().to_string(),
        platform: find_platform(),
        top: base::list_top(place)?,
        programs: Vec::new(),
        day: format_today(),
        head: format!("{} {}", short_id(head.id()), commit_summary(&head)),
        apart: place.open_sealed()?.graph_ahead_behind(head.id(), base::base_commit(place)?)?,
        uncommitted: differing_files(place, &repo)?.len(),
        guides: changed_guides(&repo, &base)?,
        elsewhere: lfs_patterns(&repo, &base),
        hooks: find_hooks(place),
        submodules: submodule_paths(&repo),
        shows_pages: shows_pages(&repo),
        branch: read_note(place),
        branch_lost: last_seen(place, &repo).is_none()
            && repo.refname_to_id(&place.remote_branch()).is_err(),
        nested: base::list_nested(&repo, &base)?,
        copies: false,
        sparse: find_extent(place, &repo)?,
    })
}

fn commit_summary(commit: &git2::Commit<'_>) -> String {
    let summary = commit.summary_bytes().map(String::from_utf8_lossy).unwrap_or_default();
    clip_text(&codebutler_guides::text::plain_text(&summary).replace('`', "'"), 80)
}

fn format_today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format_date(i64::try_from(now.as_secs()).unwrap_or_default())
}

fn find_platform() -> String {
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name =
        name.map(|name| clip_text(name.trim_matches(['"', '\'']), 60)).filter(|n| !n.is_empty());
    match name {
        Some(name) => format!("{system} on {processor} ({name})"),
        None => format!("{system} on {processor}"),
    }
}

/// Guides that the thread changes: what counts is the base branch's.
fn changed_guides(repo: &Repository, base: &git2::Tree<'_>) -> Result<Vec<String>, ToolError> {
    let mut options = DiffOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(true);
    for path in [FOLDER, "AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md"] {
        options.pathspec(path);
    }
    let diff = repo.diff_tree_to_workdir_with_index(Some(base), Some(&mut options))?;
    let index = repo.index()?;
    let is_there = |path: &std::path::Path| {
        // A sparse checkout may leave it out.
        index.get_path(path, 0).is_none_or(|entry| entry.flags_extended & SKIP == 0)
    };
    let paths = diff.deltas().filter_map(|delta| delta.new_file().path().map(ToOwned::to_owned));
    let paths = paths.filter(|path| is_there(path));
    let named = |path: std::path::PathBuf| {
        clip_text(&path.to_string_lossy().replace(['`', '\n'], "?"), 120)
    };
    Ok(paths.map(named).take(MAX_GUIDES).collect())
}

/// Returns true if some files are shown to people as pages, or are styles of such pages.
fn shows_pages(repo: &Repository) -> bool {
    const KINDS: [&str; 18] = [
        "html", "htm", "css", "scss", "sass", "less", "jsx", "tsx", "vue", "svelte", "astro",
        "erb", "haml", "hbs", "ejs", "twig", "cshtml", "jinja",
    ];
    let is_page = |path: &[u8]| {
        let kind = path.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
        KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known.as_bytes()))
    };
    repo.index().is_ok_and(|index| index.iter().any(|entry| is_page(&entry.path)))
}

/// Patterns of files whose contents are not here, as the top of the base branch's tree says.
fn lfs_patterns(repo: &Repository, tree: &git2::Tree<'_>) -> Vec<String> {
    let entry = tree.get_name(".gitattributes");
    let Some(blob) = entry.and_then(|entry| repo.find_blob(entry.id()).ok()) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(blob.content());
    let kept = text.lines().filter(|line| !line.starts_with('#'));
    let kept = kept.filter(|line| line.split_whitespace().any(|word| word == "filter=lfs"));
    let pattern = |line: &str| Some(line.split_whitespace().next()?.replace('`', "?"));
    kept.filter_map(pattern)
        .map(|pattern| clip_text(&codebutler_guides::text::plain_text(&pattern), 60))
        .take(MAX_PATTERNS)
        .collect()
}

/// Folders of submodules, as the index has them.
fn submodule_paths(repo: &Repository) -> Vec<String> {
    const LINK: u32 = 0o160_000;
    let Ok(index) = repo.index() else { return Vec::new() };
    let links = index.iter().filter(|entry| entry.mode == LINK);
    let path = |path: Vec<u8>| {
        codebutler_guides::text::plain_text(&String::from_utf8_lossy(&path))
            .replace(['`', '\n'], "?")
    };
    links.map(|entry| clip_text(&path(entry.path), 120)).take(MAX_PATTERNS).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn files_that_count_for_a_part_of_the_tree_are_named() {
        let f = GitFixture::new();
        f.merge(&[
            ("AGENTS.md", "Use tabs.\n"),
            ("web/AGENTS.md", "Use pnpm.\n"),
            ("web/ui/AGENTS.md", "Use CSS.\n"),
            ("web/ui/a.css", "a {}\n"),
        ]);
        prepare_worktree(&f.place).unwrap();
        let found = find_surroundings(&f.place).unwrap();
        assert_eq!(found.nested, ["web/AGENTS.md", "web/ui/AGENTS.md"]);
        assert!(!found.copies);
    }

    #[test]
    fn a_worktree_is_described_and_what_the_thread_changes_is_not_in_the_part_that_stays() {
        let f = GitFixture::new();
        let attributes = "# a comment filter=lfs\n*.png filter=lfs diff=lfs -text\n*.rs text\n";
        f.merge(&[
            ("src/main.rs", "fn main() {}\n"),
            ("Cargo.toml", "[package]\n"),
            (".gitattributes", attributes),
        ]);
        prepare_worktree(&f.place).unwrap();
        let before = find_surroundings(&f.place).unwrap();
        assert_eq!(
            before.top,
            [".gitattributes", ".gitignore", "Cargo.toml", "README", "src/ (main.rs)"]
        );
        assert_eq!((before.apart, before.uncommitted), ((0, 1), 0));
        assert_eq!(before.guides, Vec::<String>::new());
        assert_eq!(before.elsewhere, ["*.png"]);
        assert_eq!(before.submodules, Vec::<String>::new());
        let head = f.place.open().unwrap().head().unwrap().target().unwrap();
        let link = format!("160000,{head},vendor/lib");
        f.git(&f.place.tree(), &["update-index", "--add", "--cacheinfo", &link]);
        assert_eq!(find_surroundings(&f.place).unwrap().submodules, ["vendor/lib"]);
        f.git(&f.place.tree(), &["update-index", "--force-remove", "vendor/lib"]);
        assert_eq!(before.day.len(), 10);
        assert!(before.head.ends_with(" First"), "{}", before.head);
        f.write("new/a.txt", "a");
        f.write(".codebutler/pm.md", "Mine.");
        let after = find_surroundings(&f.place).unwrap();
        assert_eq!((&after.top, &after.root), (&before.top, &before.root));
        assert_eq!(after.uncommitted, 2);
        assert_eq!(after.guides, [".codebutler/pm.md"]);
    }
}
