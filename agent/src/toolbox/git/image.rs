//! A chosen image, committed by itself on top of the thread's branch. What lies in index and worktree beside it stays
//! as it is.

use std::borrow::Cow;
use std::path::Path;

use git2::build::TreeUpdateBuilder;
use git2::{AttrCheckFlags, FileMode, Repository, RepositoryState, Signature, Tree as GitTree};

use super::GitSite;
use super::learn::{UNDER_WAY, bring_file, stage_blobs};
use crate::toolbox::ToolError;
use crate::toolbox::icon::{is_icon, make_icon};
use crate::toolbox::paths::WorktreeRoot;
use crate::toolbox::pixels::fit_ending;
use codebutler_wire::{MAX_IMAGE, break_ci_words};

/// Commits an image at a path, and answers with the branch's commit; no commit is made of what is there already.
pub fn commit_image(
    place: &GitSite,
    (image, bytes): (&str, &[u8]),
    (tree, path): (&WorktreeRoot, &str),
    message: &str,
) -> Result<String, ToolError> {
    let path = tree.locate(path)?.shown;
    let (made, _) = make_file(bytes, &path)?;
    let bytes = &*made;
    if bytes.len() > MAX_IMAGE {
        return Err(ToolError::refused(format!("the image has {} bytes: too many", bytes.len())));
    }
    let _lock = place.lock()?;
    let repo = place.open()?;
    if repo.state() != RepositoryState::Clean {
        return Err(ToolError::refused(UNDER_WAY));
    }
    let filter = repo.get_attr(Path::new(&path), "filter", AttrCheckFlags::default())?;
    if filter.is_some_and(|filter| !filter.is_empty()) {
        return Err(ToolError::refused(format!(
            "`{path}` is stored through a filter of this repository (.gitattributes), such as Git LFS: the coder commits \
             `{image}` there with GitCommit"
        )));
    }
    let head = place.head_on_branch(&repo)?;
    let parent = repo.find_commit(head)?;
    let before = parent.tree()?;
    let old = file_bytes(&repo, &before, &path)?;
    if old.as_deref() == Some(bytes) {
        return Ok(head.to_string());
    }
    let blob = repo.blob(bytes)?;
    let mut update = TreeUpdateBuilder::new();
    update.upsert(path.as_str(), blob, FileMode::Blob);
    let after = repo.find_tree(update.create_updated(&repo, &before)?)?;
    let author = &place.hello.author;
    let signature = Signature::now(&author.name, &author.email)?;
    let message = git2::message_prettify(&*break_ci_words(message), None)?;
    bring_file(place, &repo, &path, (old.as_deref(), bytes))?;
    stage_blobs(&repo, &[(path.as_str(), blob)])?;
    let id = repo.commit(Some("HEAD"), &signature, &signature, &message, &after, &[&parent])?;
    place.hooks.owe();
    Ok(id.to_string())
}

/// The bytes that an image has at a path, and what was made of it, in a sentence.
pub fn make_file<'b>(
    bytes: &'b [u8],
    path: &str,
) -> Result<(Cow<'b, [u8]>, Option<&'static str>), ToolError> {
    if is_icon(path) { Ok((Cow::Owned(make_icon(bytes)?), None)) } else { fit_ending(bytes, path) }
}

/// The content of a file of a commit, if it is one.
fn file_bytes(
    repo: &Repository,
    tree: &GitTree<'_>,
    path: &str,
) -> Result<Option<Vec<u8>>, ToolError> {
    let Ok(entry) = tree.get_path(Path::new(path)) else { return Ok(None) };
    match entry.to_object(repo)?.peel_to_blob() {
        Ok(blob) => Ok(Some(blob.content().to_vec())),
        Err(_) => Err(ToolError::refused(format!("`{path}` is a folder on the thread's branch"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nfox";

    #[test]
    fn a_chosen_image_is_committed_alone_and_once() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let root = f.place.tree();
        let tree = WorktreeRoot::open(&root).unwrap();
        std::fs::create_dir_all(root.join(".codebutler/images")).unwrap();
        std::fs::write(root.join(".codebutler/images/a-2.png"), PNG).unwrap();
        std::fs::write(root.join("beside.txt"), "of the coder").unwrap();
        let commit = |path: &str| {
            let image = ".codebutler/images/a-2.png";
            commit_image(&f.place, (image, PNG), (&tree, path), "Add the logo")
        };
        let id = commit("public/logo.png").unwrap();
        assert_eq!(commit("public/logo.png").unwrap(), id, "it is there already");
        assert_eq!(std::fs::read(root.join("public/logo.png")).unwrap(), PNG);
        let repo = f.place.open().unwrap();
        let tip = repo.head().unwrap().peel_to_commit().unwrap();
        assert_eq!(tip.id().to_string(), id);
        assert!(tip.tree().unwrap().get_path(Path::new("beside.txt")).is_err());
        let status = repo.status_file(Path::new("public/logo.png")).unwrap();
        assert!(status.is_empty(), "{status:?}");
        for (path, why) in [
            ("public/logo.svg", "ends in .png"),
            ("../x.png", "outside"),
            (".git/x.png", "inside .git"),
            ("public", "public"),
        ] {
            let refused = commit(path).unwrap_err().to_string();
            assert!(refused.contains(why), "{path}: {refused}");
        }
        // The image's bytes are no whole picture, and an icon is made of one.
        let refused = commit("favicon.ico").unwrap_err().to_string();
        assert!(refused.contains("no icon can be made"), "{refused}");
        std::fs::write(root.join(".gitattributes"), "*.png filter=lfs\n").unwrap();
        let refused = commit("docs/logo.png").unwrap_err().to_string();
        assert!(refused.contains("Git LFS"), "{refused}");
    }
}
