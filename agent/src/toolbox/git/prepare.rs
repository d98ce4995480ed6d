//! The worktree at the start of a run: cloned if it is not there, on the thread's branch, and not
//! behind the remote unless it holds work.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use git2::build::CheckoutBuilder;
use git2::{FileMode, Oid, Repository, RepositoryInitOptions};

use super::clean::{is_clean, same_as};
use super::control;
use super::lock::WAIT_AT_START;
use super::rewrite::{BranchRewrite, describe_lost, describe_missing, find_rewrite};
use super::sealed::is_descendant;
use super::seen::{last_seen, note_seen, write_note};
use super::taking::{TakenOver, put_on_top};
use super::worktree::{MoveOutcome, WorktreeScanner, encode_files, move_files, open_index};
use super::{GitSite, short_id, tracking_ref};
use crate::relay::public_url;
use crate::toolbox::ToolError;

/// A lock file of Git that nobody touched for this long belongs to a process that died.
const STALE: Duration = Duration::from_secs(5);

/// Beside the worktree, where no command reaches: the clone in it is no thread's yet.
const UNCLAIMED: &str = ".unclaimed";

/// Clones or updates; says in a line what was done.
pub fn prepare_worktree(place: &GitSite) -> Result<String, ToolError> {
    let _lock = place.lock_within(WAIT_AT_START)?;
    if place.tree().join(".git").symlink_metadata().is_err() {
        claim_clone(place)?;
        return clone_repository(place, CloneHead::Branch);
    }
    claim_clone(place)?;
    let repaired = repair_worktree(place);
    remove_stale_locks(&place.tree().join(".git"));
    let repo = place.open()?;
    let branches = place.fetch(&repo)?;
    let (_, remade) = open_index(&repo)?;
    let done = match (branches.own, last_seen(place, &repo)) {
        (None, Some(known)) => {
            let why = describe_missing(place, &repo, known, &branches);
            write_note(place, &format!("{}.", capitalize(&why)));
            Ok(format!("left as it is: {why}"))
        }
        _ => update_worktree(place, &repo),
    }?;
    let done = remade.map_or_else(|| done.clone(), |remade| format!("{done}. {remade}"));
    Ok(if repaired.is_empty() {
        done
    } else {
        format!("{done}. Put aside, since Git can't read them: {}", repaired.join(", "))
    })
}

/// Takes out of the way what no operation of Git could be begun with.
fn repair_worktree(place: &GitSite) -> Vec<String> {
    let tree = place.tree();
    let mut done = control::repair_git(&tree.join(".git"), &place.hello.branch);
    let index = place.open().and_then(|repo| Ok(open_index(&repo)?.0));
    let is_link = |path: &Path| {
        let entry = index.as_ref().ok().and_then(|index| index.get_path(path, 0));
        entry.is_some_and(|entry| entry.mode == u32::from(FileMode::Link))
    };
    done.extend(control::repair_folders(&tree, is_link));
    if !done.is_empty() {
        tracing::warn!(files = done.join(", "), "files that Git can't read were put aside");
    }
    done
}

/// Clones or updates the base branch, as long as no thread works here: what a thread finds then is a clone whose HEAD
/// is on no branch.
pub fn prepare_base(place: &GitSite) -> Result<String, ToolError> {
    let _lock = place.lock_within(WAIT_AT_START)?;
    let io = |e: std::io::Error| ToolError::Failed(format!("the clone can't be made: {e}"));
    fs::write(place.work.join(UNCLAIMED), "").map_err(io)?;
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

/// A clone that no thread had becomes this thread's. No command has run in it yet, or its configuration would not
/// be written to.
fn claim_clone(place: &GitSite) -> Result<(), ToolError> {
    let mark = place.work.join(UNCLAIMED);
    if mark.symlink_metadata().is_err() {
        return Ok(());
    }
    let git = place.tree().join(".git");
    if git.symlink_metadata().is_ok() {
        control::check_git(&git)?;
        track_branch(place, &Repository::open(place.tree())?)?;
    }
    fs::remove_file(mark).map_err(|e| ToolError::Failed(format!("the worktree can't be made: {e}")))
}

/// HEAD of a new clone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CloneHead {
    /// On the thread's branch.
    Branch,
    /// At the tip of what will not be worked on.
    Nowhere,
}

/// For `git` on the command line; the toolbox itself does not read it.
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
    // For `git` on the command line; the toolbox itself does not read it.
    repo.remote("origin", &public_url(&place.hello.relay_url))?;
    match head {
        CloneHead::Branch => {
            track_branch(place, &repo)?;
            repo.reference(&place.local(), tip, false, "thread's branch")?;
        }
        CloneHead::Nowhere => repo.set_head_detached(tip)?,
    }
    repo.checkout_head(Some(CheckoutBuilder::new().force()))?;
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

/// The commit at which the thread's branch begins here. Where it was deleted and this volume never had it, that is the
/// base branch's, with the sentence for it: the branch is made once for each thread, before the first pod.
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
    let branch = &place.hello.branch;
    let (tip, lost) = branch_tip(place, repo)?;
    if let Some(why) = &lost {
        note_lost(place, why);
    }
    let clean = is_clean(place, repo)?;
    let on_branch = repo.head().is_ok_and(|head| head.name_bytes() == place.local().as_bytes());
    if !on_branch {
        if !clean {
            return Ok(format!("left as it is: uncommitted work, and HEAD is not on {branch}"));
        }
        if repo.refname_to_id(&place.local()).is_err() {
            repo.reference(&place.local(), tip, false, "thread's branch")?;
        }
        let target = repo.find_reference(&place.local())?.peel_to_commit()?;
        if let Some(why) = go_to(place, repo, &target)? {
            return Ok(why);
        }
        repo.set_head(&place.local())?;
    }
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
    if !clean && !same_as(place, repo, &target)? {
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
    let scanner = WorktreeScanner::new(repo, &place.work);
    let before = repo.head()?.peel_to_tree()?;
    match move_files(&scanner, repo, &before, target)? {
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

/// Removes what a killed Git operation left locked. A lock in use is waited for: it moves on.
fn remove_stale_locks(git: &Path) {
    for name in ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"] {
        let path = git.join(name);
        let deadline = Instant::now() + STALE;
        while path.exists() {
            let age =
                path.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if age.is_some_and(|age| age > STALE) || Instant::now() > deadline {
                tracing::warn!(name, "removing a lock that a killed Git operation left");
                let _ = fs::remove_file(&path);
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // Branch locks sit beside the branch, at any depth.
    remove_lock_files(&git.join("refs"));
}

fn remove_lock_files(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_lock_files(&path);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The point where the thread's branch left the base branch.
pub(super) fn fork_point(place: &GitSite, repo: &Repository) -> Result<Oid, ToolError> {
    // What the remote said counts, where it was asked.
    let base = match super::base::base_commit(place) {
        Ok(base) => base,
        Err(_) => repo.refname_to_id(&tracking_ref(&place.hello.base_branch))?,
    };
    let head = repo.head()?.peel_to_commit()?.id();
    Ok(place.open_sealed()?.merge_base(base, head)?)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::*;

    #[test]
    fn a_clone_is_on_the_branch_and_a_second_role_finds_it() {
        let f = GitFixture::new();
        fs::create_dir(f.place.work.join("tree.new-dead")).unwrap();
        assert!(prepare_worktree(&f.place).unwrap().starts_with("cloned codebutler/t at "));
        assert_eq!(f.file("README"), "hello\n");
        assert!(!f.place.work.join("tree.new-dead").exists());
        assert!(prepare_worktree(&f.place).unwrap().starts_with("codebutler/t is at "));
        assert_eq!(f.git(&f.place.tree(), &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
        assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");
        assert_eq!(
            f.git(&f.place.tree(), &["rev-parse", "--abbrev-ref", "@{u}"]),
            "origin/codebutler/t"
        );
    }

    #[test]
    fn a_clone_of_the_base_branch_becomes_a_threads() {
        let mut f = GitFixture::new();
        let thread = f.place.hello.branch.clone();
        f.place.hello.branch.clone_from(&f.place.hello.base_branch);
        assert!(prepare_base(&f.place).unwrap().starts_with("cloned main at "));
        assert!(prepare_base(&f.place).unwrap().starts_with("main is at "));
        f.merge(&[("new.txt", "merged\n")]);
        assert!(prepare_base(&f.place).unwrap().starts_with("main moved on to "));
        assert_eq!(f.file("new.txt"), "merged\n");

        // The thread's branch has more by then, and as if killed between branch and HEAD.
        f.place.hello.branch = thread;
        f.commit_elsewhere("README", "second\n");
        prepare_worktree(&f.place).unwrap();
        f.git(&f.place.tree(), &["checkout", "-q", "--detach"]);
        prepare_worktree(&f.place).unwrap();
        assert_eq!(f.file("README"), "second\n");
        assert_eq!(f.git(&f.place.tree(), &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
        assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");
        assert_eq!(
            f.git(&f.place.tree(), &["branch", "--format=%(refname)"]),
            "refs/heads/codebutler/t"
        );
        assert_eq!(
            f.git(&f.place.tree(), &["rev-parse", "--abbrev-ref", "@{u}"]),
            "origin/codebutler/t"
        );
    }

    #[test]
    fn a_clean_tree_moves_on_and_a_dirty_one_is_left_alone() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.commit_elsewhere("README", "second\n");
        assert!(prepare_worktree(&f.place).unwrap().contains("moved on"));
        assert_eq!(f.file("README"), "second\n");
        assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");

        f.write("README", "mine\n");
        f.commit_elsewhere("README", "third\n");
        assert!(prepare_worktree(&f.place).unwrap().contains("uncommitted work"));
        assert_eq!(f.file("README"), "mine\n");

        // As if killed between files and branch.
        f.write("README", "third\n");
        assert!(prepare_worktree(&f.place).unwrap().contains("moved on"));
        assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");
    }

    #[test]
    fn an_untracked_file_in_the_way_is_not_overwritten() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.write("new.txt", "mine\n");
        f.commit_elsewhere("new.txt", "theirs\n");
        assert!(prepare_worktree(&f.place).unwrap().contains("left as it is"));
        assert_eq!(f.file("new.txt"), "mine\n");
    }

    #[test]
    fn a_missing_branch_and_a_dead_lock_are_dealt_with() {
        let mut f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let lock = f.place.tree().join(".git/refs/heads/codebutler/t.lock");
        fs::write(&lock, "").unwrap();
        prepare_worktree(&f.place).unwrap();
        assert!(!lock.exists());
        f.write("README", "uncommitted\n");
        f.place.hello.branch = "codebutler/nothing".to_owned();
        let said = prepare_worktree(&f.place).unwrap();
        assert!(said.contains("uncommitted work"), "{said}");
        assert_eq!(f.file("README"), "uncommitted\n");
    }

    #[test]
    fn without_branch_and_volume_work_goes_on_from_the_base_branch() {
        let mut f = GitFixture::new();
        let remote = f.dir.path().join("remote.git");
        f.commit_elsewhere("lost", "1\n");
        f.merge(&[("base", "1\n")]);
        f.git(&remote, &["branch", "-qD", "codebutler/t"]);
        // A second role finds what the first one found.
        for _ in 0..2 {
            let said = prepare_worktree(&f.place).unwrap();
            let why = "`codebutler/t` was deleted on the remote";
            assert!(said.contains(why) && said.contains("from `main`"), "{said}");
            let told = super::super::find_surroundings(&f.place).unwrap().branch;
            assert!(told.contains(why), "{told}");
            assert_eq!(
                f.git(&f.place.tree(), &["symbolic-ref", "HEAD"]),
                "refs/heads/codebutler/t"
            );
            assert_eq!(
                (f.file("base"), f.place.tree().join("lost").exists()),
                ("1\n".into(), false)
            );
        }
        let branches = f.git(&remote, &["branch", "--format=%(refname:short)"]);
        assert_eq!(branches, "main", "nothing is pushed before a role pushes");
        assert!(!super::super::keep_leftover(&f.place, "Work").unwrap().unpushed);
        f.write("a", "1\n");
        assert!(super::super::keep_leftover(&f.place, "Work").unwrap().unpushed);
        super::super::push_branch(&f.place).unwrap();
        assert_eq!(f.git(&remote, &["show", "codebutler/t:a"]), "1");
        assert_eq!(super::super::find_surroundings(&f.place).unwrap().branch, "");
        assert!(prepare_worktree(&f.place).unwrap().starts_with("codebutler/t is at "));

        // A seat's clone that such a thread takes.
        let mut seat = GitFixture::new();
        let thread = std::mem::replace(&mut seat.place.hello.branch, "main".to_owned());
        prepare_base(&seat.place).unwrap();
        seat.place.hello.branch = thread;
        seat.git(&seat.dir.path().join("remote.git"), &["branch", "-qD", "codebutler/t"]);
        f = seat;
        assert!(prepare_worktree(&f.place).unwrap().contains("was deleted on the remote"));
        assert_eq!(f.git(&f.place.tree(), &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
    }

    #[test]
    fn a_repository_that_points_elsewhere_is_refused() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let outside = f.place.work.join("outside");
        fs::create_dir(&outside).unwrap();
        f.git(&f.place.tree(), &["config", "core.worktree", outside.to_str().unwrap()]);
        assert!(prepare_worktree(&f.place).unwrap_err().to_string().contains("outside"));
    }
}
