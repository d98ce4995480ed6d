//! GitPush: the thread's branch, to the remote behind the relay.

use std::cell::RefCell;

use git2::{Oid, PushOptions, RemoteCallbacks, RemoteRedirect, Repository};

use super::hooks::{HookMoment, name_hooks};
use super::markers::find_conflict;
use super::rewrite::{describe_missing, find_rewrite};
use super::sealed::is_descendant;
use super::seen::{clear_note, last_seen, note_seen};
use super::taking::{TakenOver, break_own_messages, put_on_top};
use super::{GitSite, short_id};
use crate::toolbox::ToolError;
use codebutler_guides::text::clip_text;

/// Tries of a push that others are faster than.
const TRIES: u32 = 3;
/// Characters of what the remote says beside a refusal: GitHub names the file and line of a secret behind a page of
/// general words.
const MAX_SAID: usize = 3000;

#[derive(Debug)]
pub enum PushOutcome {
    /// The remote has the commits; text for the model.
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
    let mut rebased = String::new();
    let mut tries = 0;
    loop {
        let branches = place.fetch(&repo)?;
        let mut own = place.head_on_branch(&repo)?;
        if let Some(remote) = branches.own {
            if remote == own {
                note_seen(place, &repo, own)?;
                let what = if tries == 0 { "up to date" } else { "there" };
                let at = short_id(own);
                return Ok(PushOutcome::Done(format!(
                    "`{branch}` is {what} on the remote at {at}{rebased}"
                )));
            }
            let rewrite = find_rewrite(place, &repo, remote)?;
            if rewrite.is_none() && is_descendant(place, remote, own)? {
                return Ok(PushOutcome::Done(format!(
                    "nothing to push: the remote's `{branch}` is ahead, at {}",
                    short_id(remote)
                )));
            }
            if rewrite.is_some() || !is_descendant(place, own, remote)? {
                let told =
                    rewrite.as_ref().map(|one| one.describe(place, &repo, own)).transpose()?;
                own = match put_on_top(place, &repo, (own, remote), rewrite.as_ref())? {
                    TakenOver::To(own) => own,
                    TakenOver::Conflict(files, why) => {
                        let why = told.map_or_else(|| why.clone(), |told| format!("{told}. {why}"));
                        return Ok(PushOutcome::Conflict(files, why));
                    }
                };
                rebased = told.map_or_else(
                    || ", rebased onto what others had pushed".to_owned(),
                    |told| format!(". Note that {told}"),
                );
                if own == remote {
                    return Ok(PushOutcome::Done(format!(
                        "nothing to push: the branch is at the remote's {} now{rebased}",
                        short_id(own)
                    )));
                }
            }
        } else if let Some(known) = last_seen(place, &repo) {
            return Err(ToolError::refused(describe_missing(place, &repo, known, &branches)));
        }
        own = break_own_messages(place, &repo, own, branches.own)?;
        meanwhile();
        tries += 1;
        match send_branch(place, &repo) {
            Ok(()) => {
                repo.reference(&place.remote_branch(), own, true, "pushed")?;
                note_seen(place, &repo, own)?;
                clear_note(place);
                let hooks = name_hooks(place, HookMoment::Push)
                    .map_or(String::new(), |named| format!(".\n{named}"));
                let conflict = note_conflict(place, &repo, own).unwrap_or_default();
                return Ok(PushOutcome::Done(format!(
                    "Pushed `{branch}` at {}{rebased}{conflict}{hooks}",
                    short_id(own)
                )));
            }
            // Somebody was faster: once more, on top of that.
            Err(error) => {
                let now = place.fetch(&repo)?.own;
                if tries >= TRIES || now == branches.own {
                    return Err(error);
                }
            }
        }
    }
}

/// A note on a conflict that the branch adds: commits of Git itself, as a rebase makes them, are judged nowhere else.
fn note_conflict(place: &GitSite, repo: &Repository, own: Oid) -> Option<String> {
    let (path, line) = find_conflict(place, repo, own)?;
    Some(format!(
        ". Note that `{path}` holds both sides of a conflict (from line {line} on): settle it and push again, unless these \
         lines are meant to be there"
    ))
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
            let more = remote_words(&said.into_inner());
            Err(ToolError::refused(format!("the push of `{branch}` was refused: {why}{more}")))
        }
    }
}

/// Formats what the remote said beside a refusal, to follow it.
fn remote_words(said: &[u8]) -> String {
    let said = clip_text(String::from_utf8_lossy(said).trim(), MAX_SAID);
    if said.is_empty() { said } else { format!(". {said}") }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{commit_files, head_commit, prepare_worktree};
    use super::*;
    use crate::tool_args as args;
    use crate::toolbox::paths::WorktreeRoot;

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
    fn where_github_has_found_a_secret_is_not_cut_off() {
        let rule = "—".repeat(41);
        let said = format!(
            "error: GH013: Repository rule violations found for refs/heads/codebutler/t.\n\n- GITHUB PUSH PROTECTION\n  \
             {rule}\n    Resolve the following violations before pushing again\n\n    - Push cannot contain secrets\n\n    \n     \
             (?) Learn how to resolve a blocked push\n     https://docs.github.com/code-security/secret-scanning/\
             working-with-secret-scanning-and-push-protection/working-with-push-protection-from-the-command-line\
             #resolving-a-blocked-push\n    \n    \n      —— Example Cloud Access Key {rule}\n       locations:\n         \
             - commit: 1111111111111111111111111111111111111111\n           path: src/config.rs:3\n"
        );
        assert!(said.chars().count() > 600, "{}", said.chars().count());
        assert!(remote_words(said.as_bytes()).ends_with("path: src/config.rs:3"));
        assert_eq!(remote_words(b" \n"), "");
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
    fn a_conflict_that_git_itself_has_committed_is_named() {
        let f = fixture();
        f.write("README", "<<<<<<< HEAD\nhello\n=======\nhi\n>>>>>>> theirs\n");
        f.git(&f.place.tree(), &["commit", "-qam", "Change README"]);
        let said = pushed(&f);
        assert!(said.starts_with("Pushed `codebutler/t` at "), "{said}");
        assert!(
            said.contains("`README` holds both sides of a conflict (from line 1 on)"),
            "{said}"
        );
        commit_file(&f, "README", "hi\n");
        let said = pushed(&f);
        assert!(!said.contains("both sides"), "{said}");
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
        // The number of tries is limited.
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

    fn seed(f: &GitFixture, args: &[&str]) {
        f.git(&f.dir.path().join("seed"), args);
    }

    /// A commit with a secret and another one, both pushed; a person's clone has them.
    fn pushed_twice(f: &GitFixture) {
        commit_file(f, "config.env", "TOKEN=1\n");
        commit_file(f, "b", "1\n");
        pushed(f);
        seed(f, &["pull", "-q", "--rebase", "origin", "codebutler/t"]);
    }

    #[test]
    fn a_commit_that_a_person_took_away_does_not_come_back() {
        let ways: [(&[&str], bool, bool); 3] = [
            (&["rebase", "-q", "--onto", "HEAD~2", "HEAD~1"], false, true),
            (&["reset", "-q", "--hard", "HEAD~2"], false, false),
            (&["reset", "-q", "--hard", "HEAD~1"], true, false),
        ];
        for ((way, has_config, has_b), prepares) in
            ways.into_iter().flat_map(|way| [(way, false), (way, true)])
        {
            let f = fixture();
            pushed_twice(&f);
            seed(&f, way);
            seed(&f, &["push", "-qf", "origin", "HEAD:codebutler/t"]);
            let theirs = f.remote_tip();
            commit_file(&f, "c", "1\n");
            let mut said = String::new();
            if prepares {
                said = prepare_worktree(&f.place).unwrap();
            }
            said.push_str(&pushed(&f));
            assert!(said.contains("people rewrote `codebutler/t`"), "{said}");
            assert!(said.contains("No longer in it: ") && said.contains("Change "), "{said}");
            let tree = f.place.tree();
            assert_eq!(f.git(&tree, &["rev-parse", "HEAD~1"]), theirs, "{way:?}");
            assert_eq!(f.remote_tip(), head_commit(&f.place).unwrap());
            for (path, is_there) in [("config.env", has_config), ("b", has_b), ("c", true)] {
                assert_eq!(tree.join(path).exists(), is_there, "{way:?}: {path}");
            }
            assert_eq!(f.git(&tree, &["status", "--porcelain"]), "");
            let kept = f.git(&tree, &["for-each-ref", "refs/codebutler/kept"]);
            assert_eq!(kept.lines().count(), 1, "{kept}");
        }
    }

    #[test]
    fn what_was_rebased_or_squashed_is_said_and_built_upon() {
        let f = fixture();
        pushed_twice(&f);
        f.merge(&[("base", "1")]);
        seed(&f, &["rebase", "-q", "main"]);
        seed(&f, &["push", "-qf", "origin", "HEAD:codebutler/t"]);
        let said = prepare_worktree(&f.place).unwrap();
        assert!(said.contains("In it under other ids: ") && !said.contains("No longer"), "{said}");
        assert_eq!(head_commit(&f.place).unwrap(), f.remote_tip());
        assert_eq!(f.file("base"), "1");
        let told = super::super::find_surroundings(&f.place).unwrap().branch;
        assert!(told.starts_with("People rewrote `codebutler/t`"), "{told}");

        seed(&f, &["reset", "-q", "--soft", "HEAD~2"]);
        seed(&f, &["commit", "-qm", "Squashed"]);
        seed(&f, &["push", "-qf", "origin", "HEAD:codebutler/t"]);
        let theirs = f.remote_tip();
        commit_file(&f, "c", "1");
        let said = pushed(&f);
        assert!(said.contains("became one, `") && said.contains("Squashed"), "{said}");
        assert_eq!(f.git(&f.place.tree(), &["rev-parse", "HEAD~1"]), theirs);
        assert_eq!(super::super::find_surroundings(&f.place).unwrap().branch, "");
        assert!(pushed(&f).contains("up to date"), "once");
    }

    #[test]
    fn what_conflicts_with_a_rewritten_branch_is_left_and_said() {
        let f = fixture();
        pushed_twice(&f);
        seed(&f, &["reset", "-q", "--hard", "HEAD~1"]);
        seed(&f, &["push", "-qf", "origin", "HEAD:codebutler/t"]);
        let own = commit_file(&f, "b", "2\n");
        let PushOutcome::Conflict(files, why) = push_branch(&f.place).unwrap() else { panic!() };
        assert_eq!(files, ["b"]);
        assert!(
            why.contains("people rewrote") && why.contains("git rebase --onto origin/codebutler/t")
        );
        assert_eq!((head_commit(&f.place).unwrap(), f.file("b")), (own, "2\n".to_owned()));
        // Uncommitted work is not touched either.
        f.write("b", "3\n");
        let said = prepare_worktree(&f.place).unwrap();
        assert!(said.contains("left as it is"), "{said}");
        assert_eq!(f.file("b"), "3\n");
    }

    #[test]
    fn a_branch_that_was_deleted_or_renamed_is_not_made_again() {
        let f = fixture();
        pushed_twice(&f);
        seed(&f, &["push", "-q", "origin", "HEAD:refs/heads/renamed", ":codebutler/t"]);
        let own = commit_file(&f, "c", "1");
        let said = prepare_worktree(&f.place).unwrap();
        assert!(
            said.contains("no branch `codebutler/t` any more") && said.contains("`renamed`"),
            "{said}"
        );
        let refused = push_branch(&f.place).unwrap_err().to_string();
        assert!(refused.contains("not made again") && refused.contains("Change b"), "{refused}");
        assert_eq!(head_commit(&f.place).unwrap(), own);
        // After a yes.
        f.git(&f.place.tree(), &["push", "-q", "origin", "HEAD:refs/heads/codebutler/t"]);
        assert!(pushed(&f).contains("up to date"));
    }

    #[test]
    fn what_a_role_put_on_top_by_hand_is_pushed_without_what_was_taken_away() {
        let f = fixture();
        pushed_twice(&f);
        seed(&f, &["rebase", "-q", "--onto", "HEAD~2", "HEAD~1"]);
        seed(&f, &["push", "-qf", "origin", "HEAD:codebutler/t"]);
        commit_file(&f, "c", "1");
        let tree = f.place.tree();
        f.git(&tree, &["fetch", "-q", "origin"]);
        f.git(&tree, &["rebase", "-q", "--no-fork-point", "origin/codebutler/t"]);
        assert!(tree.join("config.env").exists(), "plain Git brings it back");
        pushed(&f);
        let names = f.git(&tree, &["ls-tree", "--name-only", "HEAD"]);
        assert!(!names.contains("config.env") && names.contains('c'), "{names}");
    }

    #[test]
    fn no_word_that_switches_off_ci_is_pushed() {
        let f = fixture();
        let tree = f.place.tree();
        for (path, message) in [("a", "One"), ("b", "Two [skip ci]"), ("c", "Three")] {
            f.write(path, "1");
            f.git(&tree, &["add", "-A"]);
            let author = "--author=CodeButler Coder <coder@codebutler.invalid>";
            f.git(&tree, &["commit", "-qm", message, author]);
        }
        let before = f.git(&tree, &["rev-parse", "HEAD^{tree}"]);
        pushed(&f);
        let log = f.git(&tree, &["log", "--format=%s", "-3"]);
        assert_eq!(log, "Three\nTwo [s\u{200b}kip ci]\nOne");
        assert_eq!(f.git(&tree, &["rev-parse", "HEAD^{tree}"]), before);
        assert_eq!(f.remote_tip(), head_commit(&f.place).unwrap());
        assert_eq!(f.git(&tree, &["status", "--porcelain"]), "");
        // Somebody else's words are theirs.
        f.write("d", "1");
        f.git(&tree, &["add", "-A"]);
        f.git(&tree, &["commit", "-qm", "Theirs [skip ci]"]);
        pushed(&f);
        assert_eq!(f.git(&tree, &["log", "-1", "--format=%s"]), "Theirs [skip ci]");
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
