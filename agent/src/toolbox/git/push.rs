//! GitPush: the thread's branch, to the remote behind the relay.

use std::cell::RefCell;

use git2::build::CheckoutBuilder;
use git2::{
    Oid, PushOptions, RebaseOptions, RemoteCallbacks, RemoteRedirect, Repository, Signature,
};

use super::prepare::is_clean;
use super::{GitSite, short_id};
use crate::toolbox::ToolError;
use codebutler_guides::text::clip_text;

/// Tries of a push that others are faster than.
const TRIES: u32 = 3;
/// Files in conflict that are named.
const MAX_NAMED: usize = 10;
/// Characters of what the remote says beside a refusal.
const MAX_SAID: usize = 600;

#[derive(Debug)]
pub enum PushOutcome {
    /// It is on the remote; for the model.
    Done(String),
    /// Others have changed these files on the remote in another way. Nothing was changed; for the
    /// model.
    Conflict(Vec<String>, String),
}

/// Pushes HEAD to the thread's branch. A repetition finds the branch up to date.
pub fn push_branch(place: &GitSite) -> Result<PushOutcome, ToolError> {
    push_after(place, || {})
}

/// `meanwhile` happens before each try, once it is known what the remote has.
fn push_after(place: &GitSite, mut meanwhile: impl FnMut()) -> Result<PushOutcome, ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    let branch = &place.hello.branch;
    let mut rebased = "";
    let mut tries = 0;
    loop {
        place.fetch(&repo)?;
        let mut own = place.head_on_branch(&repo)?;
        let remote = repo.refname_to_id(&place.remote_branch()).ok();
        if let Some(remote) = remote {
            if remote == own {
                let what = if tries == 0 { "up to date" } else { "there" };
                let at = short_id(own);
                return Ok(PushOutcome::Done(format!(
                    "`{branch}` is {what} on the remote at {at}"
                )));
            }
            if repo.graph_descendant_of(remote, own)? {
                return Ok(PushOutcome::Done(format!(
                    "nothing to push: the remote's `{branch}` is ahead, at {}",
                    short_id(remote)
                )));
            }
            if !repo.graph_descendant_of(own, remote)? {
                own = match rebase_onto(place, &repo, remote)? {
                    Rebased::To(own) => own,
                    Rebased::Conflict(files, why) => return Ok(PushOutcome::Conflict(files, why)),
                };
                rebased = ", rebased onto what others had pushed";
            }
        }
        meanwhile();
        tries += 1;
        match send_branch(place, &repo) {
            Ok(()) => {
                repo.reference(&place.remote_branch(), own, true, "pushed")?;
                return Ok(PushOutcome::Done(format!(
                    "Pushed `{branch}` at {}{rebased}",
                    short_id(own)
                )));
            }
            // Somebody was faster: once more, on top of that.
            Err(error) => {
                place.fetch(&repo)?;
                let now = repo.refname_to_id(&place.remote_branch()).ok();
                if tries >= TRIES || now == remote {
                    return Err(error);
                }
            }
        }
    }
}

fn send_branch(place: &GitSite, repo: &Repository) -> Result<(), ToolError> {
    let refused = RefCell::new(None);
    let said = RefCell::new(Vec::new());
    let mut callbacks = RemoteCallbacks::new();
    callbacks.sideband_progress(|text| {
        said.borrow_mut().extend_from_slice(text);
        true
    });
    callbacks.push_update_reference(|_, status| {
        if let Some(status) = status {
            *refused.borrow_mut() = Some(status.to_owned());
        }
        Ok(())
    });
    let mut options = PushOptions::new();
    options.remote_callbacks(callbacks).follow_redirects(RemoteRedirect::None);
    let own = place.local();
    let mut remote = repo.remote_anonymous(&place.hello.relay_url)?;
    let sent = remote.push(&[format!("{own}:{own}")], Some(&mut options));
    drop(options);
    let branch = &place.hello.branch;
    sent.map_err(|e| {
        ToolError::refused(format!("the push of `{branch}` failed: {}", e.message()))
    })?;
    match refused.into_inner() {
        None => Ok(()),
        Some(why) => {
            let said = said.into_inner();
            let said = clip_text(String::from_utf8_lossy(&said).trim(), MAX_SAID);
            let more = if said.is_empty() { said } else { format!(". {said}") };
            Err(ToolError::refused(format!("the push of `{branch}` was refused: {why}{more}")))
        }
    }
}

enum Rebased {
    To(Oid),
    Conflict(Vec<String>, String),
}

/// Puts the own commits on top of `remote`.
fn rebase_onto(place: &GitSite, repo: &Repository, remote: Oid) -> Result<Rebased, ToolError> {
    let branch = &place.hello.branch;
    if !is_clean(repo)? {
        return Err(ToolError::refused(format!(
            "the remote's `{branch}` has commits that you don't have: commit your changes, then push \
             again, and they are put on top"
        )));
    }
    if has_merges(repo, remote)? {
        return Err(ToolError::refused(format!(
            "the remote's `{branch}` has commits that you don't have, and yours contain a merge: bring both \
             together with `git merge origin/{branch}` in Bash, then push again"
        )));
    }
    let upstream = repo.find_annotated_commit(remote)?;
    let signature = Signature::now(&place.hello.author.name, &place.hello.author.email)?;
    let mut checkout = CheckoutBuilder::new();
    checkout.safe();
    let mut options = RebaseOptions::new();
    options.checkout_options(checkout);
    let mut rebase = repo.rebase(None, Some(&upstream), None, Some(&mut options))?;
    let mut files = Vec::new();
    let outcome = (|| {
        while let Some(step) = rebase.next() {
            step?;
            files = conflicting_files(repo)?;
            match rebase.commit(None, &signature, None) {
                Ok(_) => {}
                // The remote has this change already.
                Err(e) if e.code() == git2::ErrorCode::Applied => {}
                Err(e) => return Err(e),
            }
        }
        rebase.finish(Some(&signature))
    })();
    let Err(error) = outcome else { return Ok(Rebased::To(place.head_on_branch(repo)?)) };
    rebase.abort()?;
    let named = if files.is_empty() { String::new() } else { format!(" in {}", files.join(", ")) };
    let why = format!(
        "the remote's `{branch}` has commits that conflict with yours{named} ({}). Nothing was changed. \
         Resolve it with `git rebase origin/{branch}` in Bash, then push again",
        error.message()
    );
    if files.is_empty() { Err(ToolError::refused(why)) } else { Ok(Rebased::Conflict(files, why)) }
}

/// Whether one of the own commits is a merge, which can't be put on top of others.
fn has_merges(repo: &Repository, remote: Oid) -> Result<bool, ToolError> {
    let mut walk = repo.revwalk()?;
    walk.push_head()?;
    walk.hide(remote)?;
    for id in walk {
        if repo.find_commit(id?)?.parent_count() > 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files of a step that two sides have changed.
fn conflicting_files(repo: &Repository) -> Result<Vec<String>, git2::Error> {
    let index = repo.index()?;
    if !index.has_conflicts() {
        return Ok(Vec::new());
    }
    let paths = index.conflicts()?.filter_map(|conflict| {
        let conflict = conflict.ok()?;
        let entry = conflict.our.or(conflict.their).or(conflict.ancestor)?;
        Some(String::from_utf8_lossy(&entry.path).replace(char::is_control, "?"))
    });
    Ok(paths.take(MAX_NAMED).collect())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{commit_files, head_commit, prepare_worktree};
    use super::*;
    use crate::toolbox::paths::WorktreeRoot;
    use crate::tools::args;

    fn fixture() -> GitFixture {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f
    }

    fn pushed(f: &GitFixture) -> String {
        match push_branch(&f.place).unwrap() {
            PushOutcome::Done(text) => text,
            conflict @ PushOutcome::Conflict(..) => panic!("{conflict:?}"),
        }
    }

    fn commit_file(f: &GitFixture, path: &str, content: &str) -> String {
        f.write(path, content);
        let args = args::GitCommit { message: format!("Change {path}"), paths: None };
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap()).unwrap();
        head_commit(&f.place).unwrap()
    }

    #[test]
    fn a_push_moves_the_branch_once() {
        let f = fixture();
        assert!(pushed(&f).contains("up to date"));
        let own = commit_file(&f, "a", "1");
        assert!(pushed(&f).starts_with("Pushed `codebutler/t` at "));
        assert_eq!(f.remote_tip(), own);
        assert!(pushed(&f).contains("up to date"));
        f.commit_elsewhere("b", "2");
        assert!(pushed(&f).contains("ahead"));
    }

    #[test]
    fn others_commits_are_kept_below() {
        let f = fixture();
        f.commit_elsewhere("b", "2");
        commit_file(&f, "a", "1");
        f.write("README", "dirty\n");
        assert!(push_branch(&f.place).unwrap_err().to_string().contains("commit your changes"));
        f.write("README", "hello\n");
        let said = pushed(&f);
        assert!(said.contains("rebased"), "{said}");
        assert_eq!(f.remote_tip(), head_commit(&f.place).unwrap());
        assert_eq!((f.file("a"), f.file("b")), ("1".to_owned(), "2".to_owned()));
        let log = f.git(&f.place.tree(), &["log", "--format=%an: %s"]);
        assert_eq!(log, "CodeButler Coder: Change a\nSomeone: Elsewhere\nSomeone: First");
    }

    #[test]
    fn whoever_was_faster_is_built_upon() {
        let f = fixture();
        commit_file(&f, "a", "1");
        let mut others = ["b", "c"].iter();
        let said = push_after(&f.place, || {
            if let Some(path) = others.next() {
                f.commit_elsewhere(path, "2");
            }
        });
        assert!(matches!(said.unwrap(), PushOutcome::Done(text) if text.contains("rebased")));
        assert_eq!(f.remote_tip(), head_commit(&f.place).unwrap());
        let log = f.git(&f.place.tree(), &["log", "--format=%an"]);
        assert_eq!(log, "CodeButler Coder\nSomeone\nSomeone\nSomeone");
        // Not for ever.
        commit_file(&f, "a", "2");
        let mut n = 0;
        let refused = push_after(&f.place, || {
            n += 1;
            f.commit_elsewhere(&format!("d{n}"), "2");
        });
        assert!(refused.is_err() && n == TRIES, "{n}");
    }

    #[test]
    fn a_conflict_changes_nothing() {
        let f = fixture();
        f.commit_elsewhere("README", "theirs\n");
        let own = commit_file(&f, "README", "mine\n");
        let PushOutcome::Conflict(files, why) = push_branch(&f.place).unwrap() else { panic!() };
        assert_eq!(files, ["README"]);
        assert!(why.contains("yours in README") && why.contains("git rebase origin/codebutler/t"));
        assert_eq!(head_commit(&f.place).unwrap(), own);
        assert_eq!(f.file("README"), "mine\n");
        assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");
    }

    #[test]
    fn a_remote_that_is_gone_is_said_so() {
        let f = fixture();
        commit_file(&f, "a", "1");
        let mut place = f.place.clone();
        place.hello.relay_url = format!("file://{}/gone.git", f.dir.path().display());
        assert!(push_branch(&place).unwrap_err().to_string().starts_with("Git: "));
    }
}
