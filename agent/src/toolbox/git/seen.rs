//! What the remote's branch was when this worktree last took it over: the commits that the remote had once. One
//! that it lacks later was taken away by a person, and does not come back with a push.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use git2::{Oid, Repository};

use super::GitSite;

/// Under this the remote's last known commit is kept, so that it can't be collected.
const SEEN: &str = "refs/codebutler/remote/";
/// Under this commits are kept that people took off the branch.
const KEPT: &str = "refs/codebutler/kept/";

fn seen_ref(place: &GitSite) -> String {
    format!("{SEEN}{}", place.hello.branch)
}

/// The remote's commit that this worktree took over last.
pub(super) fn last_seen(place: &GitSite, repo: &Repository) -> Option<Oid> {
    repo.refname_to_id(&seen_ref(place)).ok()
}

/// From now on HEAD holds what the remote has at `tip`.
pub(super) fn note_seen(place: &GitSite, repo: &Repository, tip: Oid) -> Result<(), git2::Error> {
    repo.reference(&seen_ref(place), tip, true, "taken over from the remote").map(|_| ())
}

/// A worktree of an earlier version knows it from Git's own remote-tracking branch alone, before that moves.
pub(super) fn remember_tracked(place: &GitSite, repo: &Repository) -> Result<(), git2::Error> {
    if last_seen(place, repo).is_some() {
        return Ok(());
    }
    let Ok(tracked) = repo.refname_to_id(&place.remote_branch()) else { return Ok(()) };
    let Ok(own) = repo.refname_to_id(&place.local()) else { return Ok(()) };
    if own == tracked || repo.graph_descendant_of(own, tracked)? {
        note_seen(place, repo, tracked)?;
    }
    Ok(())
}

/// Keeps a commit that no branch leads to any more; the name of the reference.
pub(super) fn keep_commit(repo: &Repository, commit: Oid) -> Result<String, git2::Error> {
    let name = format!("{KEPT}{}", super::short_id(commit));
    repo.reference(&name, commit, true, "no longer on the remote")?;
    Ok(name)
}

fn note_path(place: &GitSite) -> PathBuf {
    place.work.join(".branch.note")
}

/// Keeps what every role of the thread has to know of the branch until it is pushed again.
pub(super) fn write_note(place: &GitSite, text: &str) {
    if let Err(error) = fs::write(note_path(place), text) {
        tracing::warn!(%error, "what people did to the branch is not kept");
    }
}

pub(super) fn read_note(place: &GitSite) -> String {
    fs::read_to_string(note_path(place)).unwrap_or_default()
}

pub(super) fn clear_note(place: &GitSite) {
    match fs::remove_file(note_path(place)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, "what people did to the branch is still noted");
        }
        _ => {}
    }
}
