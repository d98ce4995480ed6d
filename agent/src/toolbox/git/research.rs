//! Reads the research pages of the base branch.

use git2::{Repository, Tree as GitTree};

use super::GitSite;
use super::base::{self, FOLDER};
use super::sealed::read_base;
use crate::research::{KnownResearch, RESEARCH};
use crate::toolbox::ToolError;

/// Pages that are looked at, and how much of one.
const MAX_PAGES: usize = 200;
const MAX_PAGE: usize = 64 * 1024;

/// The pages, the one that was checked last first.
pub fn known_research(place: &GitSite) -> Result<Vec<KnownResearch>, ToolError> {
    read_base(place, find_research)
}

fn find_research(repo: &Repository, tree: &GitTree<'_>) -> Result<Vec<KnownResearch>, ToolError> {
    let mut known = Vec::new();
    for file in
        base::files_in(repo, tree, &format!("{FOLDER}/{RESEARCH}"))?.into_iter().take(MAX_PAGES)
    {
        let page = format!("{RESEARCH}/{file}");
        if let Some(text) = base::usable_text(repo, tree, &format!("{FOLDER}/{page}"), MAX_PAGE)? {
            known.push(KnownResearch::of(&page, &text));
        }
    }
    known.sort_by(|one, other| other.checked.cmp(&one.checked).then(one.path.cmp(&other.path)));
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn what_was_checked_last_comes_first() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        assert_eq!(known_research(&f.place).unwrap(), []);
        f.merge(&[
            (".codebutler/research/a.md", "# Old\n\n- Checked: 2025-01-01\n"),
            (".codebutler/research/b.md", "# New\n\n- Checked: 2026-11-26\n"),
            (".codebutler/research/c.md", "by hand\n"),
            (".codebutler/research/d.txt", "# No page\n"),
        ]);
        prepare_worktree(&f.place).unwrap();
        let found = known_research(&f.place).unwrap();
        let titles: Vec<_> = found.iter().map(|page| page.title.as_str()).collect();
        assert_eq!(titles, ["New", "Old", "c"]);
    }
}
