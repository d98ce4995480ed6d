//! A file of `.codebutler/` that can be used: as the base branch has it, or, where it was broken by hand or by a
//! merge, as the base branch had it last before.

use std::path::Path;

use git2::{Oid, Repository, Tree as GitTree};

use super::GitSite;
use super::base::{self, FOLDER, MAX_FILE};
use super::sealed::{explain_lost, read_base};
use crate::toolbox::ToolError;
use crate::toolbox::protocol::ToolboxReply;
use codebutler_guides::policy::rules::RiskRules;

/// Commits that are looked at.
const MAX_COMMITS: usize = 500;

/// The file, or an earlier version of it with the reason.
pub fn usable_guide(place: &GitSite, file: &str) -> Result<ToolboxReply, ToolError> {
    let from = base::base_commit(place)?;
    read_base(place, |repo, tree| find_usable(repo, tree, from, file))
}

fn find_usable(
    repo: &Repository,
    tree: &GitTree<'_>,
    from: Oid,
    file: &str,
) -> Result<ToolboxReply, ToolError> {
    let path = format!("{FOLDER}/{file}");
    let why = match base::file_text(repo, tree, &path, MAX_FILE) {
        Ok(None) => return Ok(ToolboxReply::Guide(None)),
        Ok(Some(text)) => match find_breakage(&path, &text) {
            None => return Ok(ToolboxReply::Guide(Some(text))),
            Some(why) => why,
        },
        // A missing object says nothing of what the people wrote.
        Err(error @ ToolError::Failed(_)) => return Err(error),
        Err(ToolError::Refused(why)) => why,
    };
    match find_earlier(repo, from, &path)? {
        Some((text, commit)) => {
            let commit = commit.to_string().chars().take(10).collect();
            Ok(ToolboxReply::EarlierGuide { text, commit, why })
        }
        None => Err(ToolError::refused(why)),
    }
}

/// Finds the error that makes a file unusable as a whole.
fn find_breakage(path: &str, text: &str) -> Option<String> {
    if Path::new(path).extension().is_some_and(|ending| ending == "json") {
        return RiskRules::parse(text).err().map(|error| error.to_string());
    }
    let line_with = |mark: &str| text.lines().position(|line| line.starts_with(mark));
    let (begin, end) = (line_with("<<<<<<< ")?, line_with(">>>>>>> ")?);
    (begin < end)
        .then(|| format!("line {} of `{path}` has a merge conflict that was left over", begin + 1))
}

fn find_earlier(
    repo: &Repository,
    from: Oid,
    path: &str,
) -> Result<Option<(String, Oid)>, ToolError> {
    let mut next = Some(from);
    let mut last = None;
    for _ in 0..MAX_COMMITS {
        let Some(id) = next else { break };
        let commit = repo.find_commit(id).map_err(|error| explain_lost(&error))?;
        next = commit.parent_ids().next();
        let tree = commit.tree().map_err(|error| explain_lost(&error))?;
        let blob = base::find_entry(&tree, Path::new(path))?.map(|entry| entry.id());
        if blob == last {
            continue;
        }
        last = blob;
        if let Some(text) = base::usable_text(repo, &tree, path, MAX_FILE)?
            && find_breakage(path, &text).is_none()
        {
            return Ok(Some((text, id)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn what_was_broken_is_used_as_it_was_before() {
        let f = GitFixture::new();
        let said = |file: &str| match usable_guide(&f.place, file) {
            Ok(ToolboxReply::Guide(text)) => format!("{text:?}"),
            Ok(ToolboxReply::EarlierGuide { text, why, .. }) => format!("earlier {text:?}: {why}"),
            other => format!("{other:?}"),
        };
        f.merge(&[(".codebutler/coder.md", "Good.\n"), (".codebutler/policy.json", "{}")]);
        f.merge(&[(".codebutler/coder.md", "Better.\n")]);
        f.merge(&[
            (".codebutler/coder.md", "a\n<<<<<<< HEAD\nBetter.\n=======\nBest.\n>>>>>>> theirs\n"),
            (".codebutler/policy.json", "{\n"),
            (".codebutler/pm.md", "<<<<<<< HEAD\n>>>>>>> theirs\n"),
            (".codebutler/lead.md", "Shows `<<<<<<< HEAD`.\n"),
        ]);
        f.merge(&[("other", "x")]);
        prepare_worktree(&f.place).unwrap();
        assert_eq!(
            said("coder.md"),
            "earlier \"Better.\\n\": line 2 of `.codebutler/coder.md` has a merge conflict that was left over"
        );
        assert!(said("policy.json").starts_with("earlier \"{}\""), "{}", said("policy.json"));
        assert!(said("pm.md").contains("line 1 of `.codebutler/pm.md` has a merge conflict"));
        assert!(said("pm.md").starts_with("Err("), "it was never good");
        assert_eq!(said("lead.md"), format!("{:?}", Some("Shows `<<<<<<< HEAD`.\n")));
        assert_eq!(said("artist.md"), "None");
    }
}
