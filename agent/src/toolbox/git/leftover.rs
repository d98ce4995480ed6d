//! What a run leaves uncommitted: the harness commits it, so that it is not in the volume alone.

use std::path::Path;

use git2::{Index, IndexAddOption, Repository, RepositoryState, ResetType, Signature};

use super::GitSite;
use crate::toolbox::ToolError;
use crate::toolbox::protocol::WorktreeLeftover;

/// Larger files that Git does not know yet are not committed.
const MAX_NEW: u64 = 5 * 1024 * 1024;
/// Folders that tools make, where no .gitignore names them.
pub(super) const MADE: [&str; 5] =
    ["node_modules", "target", "__pycache__", ".venv", ".pytest_cache"];

/// Commits everything that differs from HEAD with `message`, if anything does, and says whether the
/// remote lacks something. A repetition finds nothing to commit.
pub fn keep_leftover(place: &GitSite, message: &str) -> Result<WorktreeLeftover, ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    if repo.state() != RepositoryState::Clean {
        return Err(ToolError::refused("a merge or rebase is in progress in the worktree"));
    }
    let head = repo.find_commit(place.head_on_branch(&repo)?)?;
    let mut index = repo.index()?;
    index.read(true)?;
    stage_all(&repo, &mut index)?;
    let tree = repo.find_tree(index.write_tree()?)?;
    let committed = tree.id() != head.tree_id();
    if committed {
        index.write()?;
        let author = &place.hello.author;
        let signature = Signature::now(&author.name, &author.email)?;
        repo.commit(Some("HEAD"), &signature, &signature, message, &tree, &[&head])?;
    }
    let own = place.head_on_branch(&repo)?;
    let unpushed = match repo.refname_to_id(&place.remote_branch()) {
        Ok(remote) => remote != own && !repo.graph_descendant_of(remote, own)?,
        Err(_) => true,
    };
    Ok(WorktreeLeftover { committed, unpushed })
}

/// Undoes the commits with `message` at the tip that the remote does not have, which leaves the
/// worktree as it is: what must be in no commit of a push would be in one for good otherwise. A
/// repetition finds nothing to undo.
pub fn take_back(place: &GitSite, message: &str) -> Result<(), ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    let remote = repo.refname_to_id(&place.remote_branch()).ok();
    loop {
        let tip = repo.find_commit(place.head_on_branch(&repo)?)?;
        let is_ours = tip.message() == Ok(message) && tip.parent_count() == 1;
        let is_pushed = match remote {
            Some(remote) => remote == tip.id() || repo.graph_descendant_of(remote, tip.id())?,
            None => false,
        };
        if !is_ours || is_pushed {
            return Ok(());
        }
        repo.reset(tip.parent(0)?.as_object(), ResetType::Mixed, None)?;
    }
}

fn stage_all(repo: &Repository, index: &mut Index) -> Result<(), ToolError> {
    let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
    let known = index.iter().map(|entry| entry.path).collect::<std::collections::HashSet<_>>();
    let mut skip = |path: &Path, _: &[u8]| {
        if known.contains(path.as_os_str().as_encoded_bytes()) {
            return 0;
        }
        let made = path.iter().any(|part| MADE.iter().any(|name| part == *name));
        let large = || root.join(path).symlink_metadata().is_ok_and(|meta| meta.len() > MAX_NEW);
        i32::from(made || large())
    };
    Ok(index.add_all(["*"], IndexAddOption::DEFAULT, Some(&mut skip))?)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{prepare_worktree, push_branch};
    use super::*;

    #[test]
    fn what_is_left_is_committed_once_but_for_what_tools_make() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let none = WorktreeLeftover { committed: false, unpushed: false };
        assert_eq!(keep_leftover(&f.place, "Work in progress by coder").unwrap(), none);
        f.write("src/new.rs", "fn a() {}\n");
        f.write("README", "changed\n");
        f.write("a/node_modules/x.js", "x");
        f.write("big", &"x".repeat(6 * 1024 * 1024));
        let kept = keep_leftover(&f.place, "Work in progress by coder").unwrap();
        assert_eq!(kept, WorktreeLeftover { committed: true, unpushed: true });
        let git = |args: &[&str]| f.git(&f.place.tree(), args);
        assert_eq!(
            git(&["log", "-1", "--format=%an|%s"]),
            "CodeButler Coder|Work in progress by coder"
        );
        assert_eq!(git(&["show", "--name-only", "--format="]), "README\nsrc/new.rs");
        let again = keep_leftover(&f.place, "Work in progress by coder").unwrap();
        assert_eq!(again, WorktreeLeftover { committed: false, unpushed: true });
        push_branch(&f.place).unwrap();
        assert_eq!(keep_leftover(&f.place, "Work in progress by coder").unwrap(), none);
        std::fs::remove_file(f.place.tree().join("README")).unwrap();
        assert!(keep_leftover(&f.place, "x").unwrap().committed);
    }

    #[test]
    fn what_can_not_be_pushed_is_taken_back_and_what_is_pushed_is_not() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let message = "Work in progress by coder";
        let git = |args: &[&str]| f.git(&f.place.tree(), args);
        f.write("a", "pushed\n");
        keep_leftover(&f.place, message).unwrap();
        push_branch(&f.place).unwrap();
        let pushed = git(&["rev-parse", "HEAD"]);
        for content in ["1\n", "2\n"] {
            f.write("b", content);
            keep_leftover(&f.place, message).unwrap();
        }
        for _ in 0..2 {
            take_back(&f.place, message).unwrap();
            assert_eq!(git(&["rev-parse", "HEAD"]), pushed);
            assert_eq!(git(&["status", "--porcelain"]), "?? b");
            assert_eq!(std::fs::read_to_string(f.place.tree().join("b")).unwrap(), "2\n");
        }
    }
}
