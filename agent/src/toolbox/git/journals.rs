//! The journals of earlier conversations on the base branch.

use git2::{Repository, Tree as GitTree};

use super::GitSite;
use super::base::{self, FOLDER};
use super::sealed::read_base;
use crate::journal::find_asked;
use crate::toolbox::ToolError;

/// Largest journal, in bytes.
const MAX_JOURNAL: usize = 256 * 1024;
/// Journals that are looked through for what people asked for: the newest.
const MAX_ASKED: usize = 200;

/// A conversation that has ended.
pub(super) struct ThreadJournal {
    /// Path of the page, below `.codebutler/`.
    pub page: String,
    /// Time of its beginning, in seconds since 1970.
    pub began: u64,
    pub text: String,
}

/// First requests of earlier conversations, each with the journal's page; the newest first.
pub fn past_requests(place: &GitSite) -> Result<Vec<(String, String)>, ToolError> {
    let asked = |one: ThreadJournal| Some((one.page, find_asked(&one.text)?.to_owned()));
    let found = read_base(place, |repo, tree| read_journals(repo, tree, MAX_ASKED))?;
    Ok(found.into_iter().filter_map(asked).collect())
}

/// Reads at most `most` journals, the newest first.
pub(super) fn read_journals(
    repo: &Repository,
    tree: &GitTree<'_>,
    most: usize,
) -> Result<Vec<ThreadJournal>, ToolError> {
    let folder = format!("{FOLDER}/journals");
    let mut found = Vec::new();
    for file in base::files_in(repo, tree, &folder)?.into_iter().rev() {
        let began = file.strip_prefix("thread-").and_then(|rest| rest.get(..10)?.parse().ok());
        let Some(began) = began.filter(|_| found.len() < most) else { continue };
        let path = format!("{folder}/{file}");
        if let Some(text) = base::usable_text(repo, tree, &path, MAX_JOURNAL)? {
            found.push(ThreadJournal { page: format!("journals/{file}"), began, text });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn what_people_asked_for_before_is_read_newest_first_and_from_the_head_alone() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        assert_eq!(past_requests(&f.place).unwrap(), []);
        let journal = |asked: &str| {
            format!("# A plan\n\n- Asked: {asked}\n- Thread: x\n\n## Plan\n\n- Asked: no\n")
        };
        f.merge(&[
            (".codebutler/journals/thread-1700000000-000100.md", &journal("bump it")),
            (".codebutler/journals/thread-1700000009-000100.md", &journal("bump it again")),
            (
                ".codebutler/journals/thread-1700000005-000100.md",
                "# None\n\n## Plan\n\n- Asked: no\n",
            ),
            (".codebutler/journals/notes.md", &journal("by hand")),
        ]);
        prepare_worktree(&f.place).unwrap();
        let found = past_requests(&f.place).unwrap();
        let asked: Vec<_> =
            found.iter().map(|(page, asked)| (page.as_str(), asked.as_str())).collect();
        assert_eq!(
            asked,
            [
                ("journals/thread-1700000009-000100.md", "bump it again"),
                ("journals/thread-1700000000-000100.md", "bump it"),
            ]
        );
    }
}
