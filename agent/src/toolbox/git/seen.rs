//! The tip of the remote's branch when this worktree last took it over: the commits that the remote had once. One
//! that it lacks later was taken away by a person, and does not come back with a push.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use git2::{Oid, Repository};

use super::GitSite;
use super::sealed::is_descendant;
use crate::toolbox::ToolError;

/// Under this the remote's last known commit is kept, so that it can't be collected.
const SEEN: &str = "refs/codebutler/remote/";
/// Under this commits are kept that people took off the branch.
pub(super) const KEPT: &str = "refs/codebutler/kept/";

fn seen_ref(place: &GitSite) -> String {
    format!("{SEEN}{}", place.hello.branch)
}

/// The remote's commit that this worktree took over last.
pub(super) fn last_seen(place: &GitSite, repo: &Repository) -> Option<Oid> {
    repo.refname_to_id(&seen_ref(place)).ok()
}

/// Removes links that a command put where a reference goes: through one, what is written here would land elsewhere.
fn remove_links(repo: &Repository, name: &str) {
    let mut at = repo.path().to_owned();
    for part in name.split('/') {
        at.push(part);
        if at.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
            && let Err(error) = fs::remove_file(&at)
        {
            tracing::warn!(%error, "reference_link_removal_failed");
        }
    }
}

/// Records that HEAD holds what the remote has at `tip`.
pub(super) fn note_seen(place: &GitSite, repo: &Repository, tip: Oid) -> Result<(), git2::Error> {
    remove_links(repo, &seen_ref(place));
    repo.reference(&seen_ref(place), tip, true, "taken over from the remote").map(|_| ())
}

/// A worktree of an earlier version knows it from Git's own remote-tracking branch alone, before that moves.
pub(super) fn remember_tracked(place: &GitSite, repo: &Repository) -> Result<(), ToolError> {
    if last_seen(place, repo).is_some() {
        return Ok(());
    }
    let Ok(tracked) = repo.refname_to_id(&place.remote_branch()) else { return Ok(()) };
    let Ok(own) = repo.refname_to_id(&place.local()) else { return Ok(()) };
    if own == tracked || is_descendant(place, own, tracked)? {
        note_seen(place, repo, tracked)?;
    }
    Ok(())
}

/// Keeps a commit that no branch leads to any more; the name of the reference.
pub(super) fn keep_commit(repo: &Repository, commit: Oid) -> Result<String, git2::Error> {
    let name = format!("{KEPT}{}", super::short_id(commit));
    remove_links(repo, &name);
    repo.reference(&name, commit, true, "no longer on the remote")?;
    Ok(name)
}

fn note_path(place: &GitSite) -> PathBuf {
    place.work.join(".branch.note")
}

/// Keeps what every role of the thread has to know of the branch until it is pushed again.
pub(super) fn write_note(place: &GitSite, text: &str) {
    if let Err(error) = fs::write(note_path(place), text) {
        tracing::warn!(%error, "branch_note_write_failed");
    }
}

/// Adds a sentence to what is kept.
pub(super) fn add_note(place: &GitSite, sentence: &str) {
    let before = read_note(place);
    let space = if before.is_empty() { "" } else { " " };
    write_note(place, &format!("{before}{space}{sentence}."));
}

pub(super) fn read_note(place: &GitSite) -> String {
    fs::read_to_string(note_path(place)).unwrap_or_default()
}

pub(super) fn clear_note(place: &GitSite) {
    match fs::remove_file(note_path(place)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, "branch_note_removal_failed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::*;

    #[test]
    fn a_link_among_the_references_leads_nothing_out() {
        let f = GitFixture::new();
        super::super::prepare_worktree(&f.place).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let refs = f.place.tree().join(".git/refs/codebutler");
        fs::rename(&refs, refs.with_file_name("was")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &refs).unwrap();
        let repo = f.place.open().unwrap();
        let head = repo.head().unwrap().target().unwrap();
        note_seen(&f.place, &repo, head).unwrap();
        keep_commit(&repo, head).unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        assert_eq!(last_seen(&f.place, &repo), Some(head));
    }
}
