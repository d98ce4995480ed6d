//! The worktree at the start of a run: cloned if it is not there, on the thread's branch, and not
//! behind the remote unless it holds work.

use std::fs;
use std::path::Path;

use git2::{ErrorCode, FileMode, Oid, Repository, RepositoryInitOptions, RepositoryState, Tree};

use super::clean::{is_clean, same_as};
use super::control;
use super::lock::{WAIT_AT_START, remove_stale_locks};
use super::opening::unfinished_error;
use super::rewrite::{BranchRewrite, describe_lost, describe_missing, find_rewrite};
use super::sealed::is_descendant;
use super::seen::{add_note, keep_commit, last_seen, note_seen, write_note};
use super::sparse::{check_out_wanted, discard_outdated};
use super::taking::{TakenOver, put_on_top};
use super::unclaimed::{CloneMark, append_upstream, discard_clone, open_at, sweep_discarded};
use super::worktree::{
    MoveOutcome, WorktreeScanner, encode_files, leave_mended_note, move_files, open_index,
    show_mended_note,
};
use super::{GitSite, short_id, tracking_ref};
use crate::relay::public_url;
use crate::toolbox::ToolError;

/// Clones or updates; says in a line what was done.
pub fn prepare_worktree(place: &GitSite) -> Result<String, ToolError> {
    begin_worktree(place, None)
}

/// The same. `made_at` is the commit of the base branch from which the thread's branch was just made on the remote,
/// so that a clone that is at it has nothing to fetch.
pub fn begin_worktree(place: &GitSite, made_at: Option<&str>) -> Result<String, ToolError> {
    let _lock = place.lock_within(WAIT_AT_START)?;
    sweep_discarded(&place.work);
    discard_outdated(place)?;
    if let CloneMark::SetUp(at) = CloneMark::read(&place.work) {
        return claim_set_up(place, at);
    }
    if place.tree().join(".git").symlink_metadata().is_err() {
        claim_clone(place)?;
        return clone_repository(place, CloneHead::Branch);
    }
    if claim_clone(place)?
        && let Some(done) = begin_at(place, made_at)?
    {
        return Ok(done);
    }
    let repaired = repair_worktree(place);
    remove_stale_locks(&place.tree().join(".git"));
    let repo = place.open()?;
    let branches = place.fetch(&repo)?;
    open_index(&repo)?;
    let done = match (branches.own, last_seen(place, &repo)) {
        (None, Some(known)) => {
            let why = describe_missing(place, &repo, known, &branches);
            write_note(place, &format!("{}.", capitalize(&why)));
            Ok(format!("left as it is: {why}"))
        }
        _ => update_worktree(place, &repo),
    }?;
    if !repaired.is_empty() {
        let named = repaired.join(", ");
        leave_mended_note(&repo, &format!("Put aside, since Git can't read them: {named}."));
    }
    Ok(match show_mended_note(&repo) {
        Some(mended) => format!("{done}. {mended}"),
        None => done,
    })
}

/// Takes out of the way what no operation of Git could be begun with.
fn repair_worktree(place: &GitSite) -> Vec<String> {
    let tree = place.tree();
    let mut done = control::repair_git(&tree.join(".git"), &place.hello.branch);
    let index = place.open().and_then(|repo| open_index(&repo));
    let is_link = |path: &Path| {
        let entry = index.as_ref().ok().and_then(|index| index.get_path(path, 0));
        entry.is_some_and(|entry| entry.mode == u32::from(FileMode::Link))
    };
    done.extend(control::repair_folders(&tree, is_link));
    if !done.is_empty() {
        tracing::warn!(files = done.join(", "), "git_files_repaired");
    }
    done
}

/// Clones or updates the base branch, as long as no thread works here: what a thread finds then is a clone whose HEAD
/// is on no branch.
pub fn prepare_base(place: &GitSite) -> Result<String, ToolError> {
    let _lock = place.lock_within(WAIT_AT_START)?;
    discard_outdated(place)?;
    match CloneMark::read(&place.work) {
        CloneMark::Claimed => CloneMark::Untouched.write(&place.work)?,
        CloneMark::Untouched => {}
        CloneMark::SetUp(at) => return follow_base(place, at),
    }
    if place.tree().join(".git").symlink_metadata().is_err() {
        return clone_repository(place, CloneHead::Nowhere);
    }
    remove_stale_locks(&place.tree().join(".git"));
    let repo = place.open()?;
    place.fetch(&repo)?;
    let tip = remote_tip(place, &repo)?;
    if repo.head()?.target() == Some(tip) {
        return Ok(format!("{} is at {}", place.hello.branch, short_id(tip)));
    }
    if let Some(why) = go_to(place, &repo, &repo.find_commit(tip)?)? {
        return Ok(why);
    }
    repo.set_head_detached(tip)?;
    Ok(format!("{} moved on to {}", place.hello.branch, short_id(tip)))
}

/// The same for a clone in which a set-up has run: what that has made stays, unless it is in the way.
fn follow_base(place: &GitSite, at: Oid) -> Result<String, ToolError> {
    let branch = &place.hello.branch;
    if let Some(repo) = open_at(place, at) {
        place.fetch(&repo)?;
        let tip = remote_tip(place, &repo)?;
        if tip == at {
            return Ok(format!("{branch} is at {}", short_id(tip)));
        }
        if go_to(place, &repo, &repo.find_commit(tip)?)?.is_none() {
            repo.set_head_detached(tip)?;
            CloneMark::SetUp(tip).write(&place.work)?;
            return Ok(format!("{branch} moved on to {}", short_id(tip)));
        }
    }
    discard_clone(place)?;
    clone_repository(place, CloneHead::Nowhere)
}

/// A clone in which a set-up has run becomes this thread's. It is made anew where it is not as the set-up should have
/// left it, or in the way of newer commits: nobody has worked in it yet.
fn claim_set_up(place: &GitSite, at: Oid) -> Result<String, ToolError> {
    let done = if let Ok(Some(done)) = begin_set_up(place, at) {
        done
    } else {
        discard_clone(place)?;
        clone_repository(place, CloneHead::Branch)?
    };
    CloneMark::Claimed.write(&place.work)?;
    Ok(done)
}

/// Puts such a clone on the thread's branch. None if it has to be made anew. References are fetched, since commands can
/// have written them.
fn begin_set_up(place: &GitSite, at: Oid) -> Result<Option<String>, ToolError> {
    let Some(repo) = open_at(place, at) else { return Ok(None) };
    place.fetch(&repo)?;
    let (tip, lost) = branch_tip(place, &repo)?;
    if tip != at && go_to(place, &repo, &repo.find_commit(tip)?)?.is_some() {
        return Ok(None);
    }
    repo.reference(&place.local(), tip, true, "thread's branch")?;
    repo.set_head(&place.local())?;
    append_upstream(place);
    let done = format!("{} is at {}", place.hello.branch, short_id(tip));
    let Some(why) = lost else {
        note_seen(place, &repo, tip)?;
        return Ok(Some(done));
    };
    note_lost(place, &why);
    Ok(Some(format!("{done}: {why}")))
}

/// A clone that no thread had becomes this thread's. No command has run in it yet, or its configuration would not
/// be written to. True if it was nobody's until now.
fn claim_clone(place: &GitSite) -> Result<bool, ToolError> {
    if CloneMark::read(&place.work) == CloneMark::Claimed {
        return Ok(false);
    }
    let git = place.tree().join(".git");
    if git.symlink_metadata().is_ok() {
        control::check_git(&git)?;
        track_branch(place, &Repository::open(place.tree())?)?;
    }
    CloneMark::Claimed.write(&place.work)?;
    Ok(true)
}

/// Puts a clone that was just claimed on the thread's branch, as if it had been fetched, if the remote's branch is
/// known to be at the same commit. No command has run in the clone, so that its references are what the remote said.
fn begin_at(place: &GitSite, made_at: Option<&str>) -> Result<Option<String>, ToolError> {
    let Some(tip) = made_at.and_then(|commit| Oid::from_str(commit).ok()) else { return Ok(None) };
    remove_stale_locks(&place.tree().join(".git"));
    let repo = place.open()?;
    let base = repo.refname_to_id(&tracking_ref(&place.hello.base_branch));
    let is_there = base.is_ok_and(|base| base == tip)
        && repo.head().is_ok_and(|head| head.target() == Some(tip))
        && repo.head_detached()?;
    if !is_there {
        return Ok(None);
    }
    place.base.set(tip);
    repo.reference(&place.remote_branch(), tip, true, "made by the gateway")?;
    update_worktree(place, &repo).map(Some)
}

/// State of HEAD in a new clone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CloneHead {
    /// HEAD is on the thread's branch.
    Branch,
    /// HEAD is detached, at the tip of a branch that will not be worked on.
    Nowhere,
}

/// Sets the branch's upstream for `git` on the command line; the toolbox itself does not read it.
fn track_branch(place: &GitSite, repo: &Repository) -> Result<(), ToolError> {
    let mut config = repo.config()?;
    config.set_str(&format!("branch.{}.remote", place.hello.branch), "origin")?;
    config.set_str(&format!("branch.{}.merge", place.hello.branch), &place.local())?;
    Ok(())
}

fn clone_repository(place: &GitSite, head: CloneHead) -> Result<String, ToolError> {
    let io = |e: std::io::Error| ToolError::Failed(format!("the worktree can't be made: {e}"));
    // A clone that was killed leaves a folder like this one.
    for entry in fs::read_dir(&place.work).map_err(io)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("tree.new-") {
            fs::remove_dir_all(entry.path()).map_err(io)?;
        }
    }
    let fresh = place.work.join(format!("tree.new-{:016x}", rand::random::<u64>()));
    let repo = Repository::init_opts(
        &fresh,
        RepositoryInitOptions::new().external_template(false).initial_head(&place.hello.branch),
    )?;
    place.fetch(&repo)?;
    let (tip, lost) = match head {
        CloneHead::Branch => branch_tip(place, &repo)?,
        CloneHead::Nowhere => (remote_tip(place, &repo)?, None),
    };
    // The remote is for `git` on the command line; the toolbox itself does not read it.
    repo.remote("origin", &public_url(&place.hello.relay_url))?;
    match head {
        CloneHead::Branch => {
            track_branch(place, &repo)?;
            repo.reference(&place.local(), tip, false, "thread's branch")?;
        }
        CloneHead::Nowhere => repo.set_head_detached(tip)?,
    }
    check_out_wanted(place, &repo)?;
    encode_files(&repo, None)?;
    match &lost {
        Some(why) => note_lost(place, why),
        None if head == CloneHead::Branch => note_seen(place, &repo, tip)?,
        None => {}
    }
    drop(repo);
    fs::rename(&fresh, place.tree()).map_err(io)?;
    if let Some(why) = lost {
        return Ok(format!("cloned at {}: {why}", short_id(tip)));
    }
    Ok(format!("cloned {} at {}", place.hello.branch, short_id(tip)))
}

/// The commit at which the thread's branch begins here. Where it was deleted and this volume never had it, that is
/// the base branch's, with the sentence for it: the branch is made once for each thread, before the first pod.
fn branch_tip(place: &GitSite, repo: &Repository) -> Result<(Oid, Option<String>), ToolError> {
    if let Ok(tip) = remote_tip(place, repo) {
        return Ok((tip, None));
    }
    let base = repo.refname_to_id(&tracking_ref(&place.hello.base_branch)).map_err(|_| {
        ToolError::refused(format!(
            "the remote has neither a branch `{}` nor `{}`",
            place.hello.branch, place.hello.base_branch
        ))
    })?;
    Ok((base, Some(describe_lost(place))))
}

fn note_lost(place: &GitSite, why: &str) {
    write_note(place, &format!("{}.", capitalize(why)));
}

fn remote_tip(place: &GitSite, repo: &Repository) -> Result<Oid, ToolError> {
    repo.refname_to_id(&place.remote_branch()).map_err(|_| {
        ToolError::refused(format!("the remote has no branch `{}`", place.hello.branch))
    })
}

fn update_worktree(place: &GitSite, repo: &Repository) -> Result<String, ToolError> {
    let (tip, lost) = branch_tip(place, repo)?;
    if let Some(why) = &lost {
        note_lost(place, why);
    }
    let elsewhere = keep_elsewhere(place, repo, tip)?;
    if let Some(why) = return_to_branch(place, repo, tip)? {
        return Ok(why);
    }
    let said = move_on(place, repo, tip, lost)?;
    Ok(match elsewhere {
        Some(elsewhere) => {
            add_note(place, &elsewhere);
            format!("{said}. {elsewhere}")
        }
        None => said,
    })
}

/// Where HEAD is not on the thread's branch: a sentence on the commits there that the branch lacks. Those that only
/// HEAD leads to are kept.
fn keep_elsewhere(
    place: &GitSite,
    repo: &Repository,
    tip: Oid,
) -> Result<Option<String>, ToolError> {
    // A clone that belonged to no thread yet has nobody's work in it.
    if last_seen(place, repo).is_none() {
        return Ok(None);
    }
    let Ok(head) = repo.head() else { return Ok(None) };
    let at = head.peel_to_commit()?.id();
    let own = repo.refname_to_id(&place.local()).ok();
    let base = super::base::base_commit(place).ok();
    for known in [Some(tip), own, base].into_iter().flatten() {
        // What a command fetched without its history is known to nobody.
        if known == at || is_descendant(place, known, at).unwrap_or(false) {
            return Ok(None);
        }
    }
    let branch = &place.hello.branch;
    let was = if repo.head_detached()? {
        format!("on no branch, at a commit that is kept as `{}`", keep_commit(repo, at)?)
    } else {
        format!("on `{}`", String::from_utf8_lossy(head.shorthand_bytes()).replace('`', "'"))
    };
    Ok(Some(format!(
        "HEAD was {was}, with commits that `{branch}` does not have, and is on `{branch}` again: `git merge` or `git \
         cherry-pick` in Bash brings them in"
    )))
}

/// Puts HEAD on the thread's branch, with the files of that, or says why not.
fn return_to_branch(
    place: &GitSite,
    repo: &Repository,
    tip: Oid,
) -> Result<Option<String>, ToolError> {
    let head = repo.head();
    if head.as_ref().is_ok_and(|head| head.name_bytes() == place.local().as_bytes()) {
        return Ok(None);
    }
    // A rebase goes on from HEAD. A bisection holds no work.
    if !matches!(repo.state(), RepositoryState::Clean | RepositoryState::Bisect) {
        return Ok(Some(format!("left as it is: {}", unfinished_error(repo.state()))));
    }
    let before = match head {
        Ok(head) => {
            if !is_clean(place, repo)? {
                let branch = &place.hello.branch;
                return Ok(Some(format!(
                    "left as it is: uncommitted work, and HEAD is not on {branch}"
                )));
            }
            head.peel_to_tree()?
        }
        // A branch without a commit: no file that lies there is known.
        Err(error) if error.code() == ErrorCode::UnbornBranch => {
            repo.find_tree(repo.treebuilder(None)?.write()?)?
        }
        Err(error) => return Err(error.into()),
    };
    if repo.refname_to_id(&place.local()).is_err() {
        repo.reference(&place.local(), tip, false, "thread's branch")?;
    }
    let target = repo.find_reference(&place.local())?.peel_to_commit()?;
    if let Some(why) = go_from(place, repo, &before, &target)? {
        return Ok(Some(why));
    }
    repo.set_head(&place.local())?;
    Ok(None)
}

/// Brings the thread's branch and its files to where the remote is, if nothing is in the way.
fn move_on(
    place: &GitSite,
    repo: &Repository,
    tip: Oid,
    lost: Option<String>,
) -> Result<String, ToolError> {
    let branch = &place.hello.branch;
    let own = place.head_on_branch(repo)?;
    if let Some(why) = lost {
        return Ok(format!("{branch} is at {}: {why}", short_id(own)));
    }
    if let Some(rewrite) = find_rewrite(place, repo, tip)? {
        return take_over_rewrite(place, repo, (own, tip), &rewrite);
    }
    if own == tip || !is_descendant(place, tip, own)? {
        if own == tip || is_descendant(place, own, tip)? {
            note_seen(place, repo, tip)?;
        }
        return Ok(format!("{branch} is at {}", short_id(own)));
    }
    let target = repo.find_commit(tip)?;
    // The second case is a fast-forward that was killed after its files were there.
    if !is_clean(place, repo)? && !same_as(place, repo, &target)? {
        return Ok(format!("left as it is: uncommitted work on {}", short_id(own)));
    }
    if let Some(why) = go_to(place, repo, &target)? {
        return Ok(why);
    }
    repo.reference(&place.local(), tip, true, "fast-forward to the remote")?;
    note_seen(place, repo, tip)?;
    Ok(format!("{branch} moved on to {}", short_id(tip)))
}

/// Brings the files from HEAD to another commit, or says what is in the way.
fn go_to(
    place: &GitSite,
    repo: &Repository,
    target: &git2::Commit<'_>,
) -> Result<Option<String>, ToolError> {
    go_from(place, repo, &repo.head()?.peel_to_tree()?, target)
}

fn go_from(
    place: &GitSite,
    repo: &Repository,
    before: &Tree<'_>,
    target: &git2::Commit<'_>,
) -> Result<Option<String>, ToolError> {
    let scanner = WorktreeScanner::new(repo, &place.work);
    match move_files(&scanner, repo, before, target)? {
        MoveOutcome::Done => Ok(None),
        MoveOutcome::InTheWay(files) => {
            Ok(Some(format!("left as it is: {} would be overwritten", files.join(", "))))
        }
    }
}

/// People rewrote the branch: every role of the thread hears of it, and what is new here goes on top where
/// that can be done without a person.
fn take_over_rewrite(
    place: &GitSite,
    repo: &Repository,
    (own, tip): (Oid, Oid),
    rewrite: &BranchRewrite,
) -> Result<String, ToolError> {
    let told = rewrite.describe(place, repo, own)?;
    let outcome = match put_on_top(place, repo, (own, tip), Some(rewrite)) {
        Ok(TakenOver::To(at)) if at == tip => format!("the worktree is at {} now", short_id(at)),
        Ok(TakenOver::To(at)) => {
            format!("what you had not pushed is on top of it now, at {}", short_id(at))
        }
        Ok(TakenOver::Conflict(_, why)) | Err(ToolError::Refused(why)) => {
            format!("the worktree is left as it is: {why}")
        }
        Err(error @ ToolError::Failed(_)) => return Err(error),
    };
    write_note(place, &format!("{}. {}.", capitalize(&told), capitalize(&outcome)));
    Ok(format!("{told}; {outcome}"))
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// The point where the thread's branch left the base branch.
pub(super) fn fork_point(place: &GitSite, repo: &Repository) -> Result<Oid, ToolError> {
    // The commit that the remote told counts; without one, the tracking ref.
    let base = match super::base::base_commit(place) {
        Ok(base) => base,
        Err(_) => repo.refname_to_id(&tracking_ref(&place.hello.base_branch))?,
    };
    let head = repo.head()?.peel_to_commit()?.id();
    Ok(place.open_sealed()?.merge_base(base, head)?)
}

#[cfg(test)]
mod tests;
