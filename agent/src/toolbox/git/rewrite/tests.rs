use std::fs;

use super::super::fixture::GitFixture;
use super::super::push::{PushOutcome, push_branch};
use super::super::{commit_files, head_commit, prepare_worktree};
use crate::tool_args as args;
use crate::toolbox::paths::WorktreeRoot;

fn fixture(path: &str, content: &[u8]) -> GitFixture {
    let f = GitFixture::new();
    f.commit_elsewhere(path, content);
    prepare_worktree(&f.place).unwrap();
    f
}

fn commit(f: &GitFixture, path: &str, content: &[u8], message: &str) -> String {
    fs::write(f.place.tree().join(path), content).unwrap();
    let args = args::GitCommit { message: message.to_owned(), paths: None };
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap()).unwrap();
    head_commit(&f.place).unwrap()
}

fn pushed(f: &GitFixture) -> String {
    match push_branch(&f.place).unwrap() {
        PushOutcome::Done(text) => text,
        conflict @ PushOutcome::Conflict(..) => panic!("{conflict:?}"),
    }
}

/// A person's clone, with what the branch has.
fn seed(f: &GitFixture, args: &[&str]) {
    f.git(&f.dir.path().join("seed"), args);
}

fn force(f: &GitFixture) {
    seed(f, &["push", "-qf", "origin", "HEAD:codebutler/t"]);
}

fn pull(f: &GitFixture) {
    seed(f, &["pull", "-q", "--rebase", "origin", "codebutler/t"]);
}

/// Two commits of the same file whose changes look alike: a person takes the first one away.
fn plays_alike(path: &str, [before, first, second]: [&[u8]; 3]) {
    for prepares in [false, true] {
        let f = fixture(path, before);
        commit(&f, path, first, "First look");
        pushed(&f);
        pull(&f);
        seed(&f, &["reset", "-q", "--hard", "HEAD~1"]);
        force(&f);
        let own = commit(&f, path, second, "Second look");
        if prepares {
            let said = prepare_worktree(&f.place).unwrap();
            assert!(said.contains(&format!("conflict with yours in {path}")), "{said}");
        }
        let PushOutcome::Conflict(files, why) = push_branch(&f.place).unwrap() else {
            panic!("{path}: the second commit is gone");
        };
        assert_eq!(files, [path]);
        assert!(why.contains("No longer in it: ") && why.contains("First look"), "{why}");
        assert_eq!(head_commit(&f.place).unwrap(), own);
        assert_eq!(fs::read(f.place.tree().join(path)).unwrap(), second);
    }
}

#[test]
fn a_second_edit_of_a_picture_is_not_taken_for_one_that_was_taken_away() {
    plays_alike("logo.png", [b"\x89PNG\0one", b"\x89PNG\0two", b"\x89PNG\0three"]);
}

#[test]
fn tabs_and_spaces_are_two_changes() {
    plays_alike("a.py", [b"if a:\n  b()\n", b"if a:\n\tb()\n", b"if a:\n    b()\n"]);
}

#[test]
fn the_same_change_made_again_is_left_out_but_named_and_kept() {
    let f = fixture("a", b"one\n");
    commit(&f, "a", b"two\n", "Make it two");
    pushed(&f);
    pull(&f);
    seed(&f, &["reset", "-q", "--hard", "HEAD~1"]);
    force(&f);
    commit(&f, "a", b"one\n", "Make it one");
    let again = commit(&f, "a", b"two\n", "Make it two again");
    let said = pushed(&f);
    assert!(said.contains("Make it two again") && said.contains("left out"), "{said}");
    let tree = f.place.tree();
    assert_eq!(f.git(&tree, &["show", "HEAD:a"]), "one");
    let kept = f.git(&tree, &["for-each-ref", "--format=%(objectname)", "refs/codebutler/kept"]);
    assert!(kept.contains(&again), "{kept}");
}

#[test]
fn a_squash_with_an_amendment_takes_nothing_away() {
    let f = fixture("list", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    commit(&f, "b", b"1\n", "Add b");
    commit(&f, "list", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "Add ten");
    commit(&f, "secret", b"TOKEN=1\n", "Add a secret");
    commit(&f, "logo", b"\0\x01", "Add a logo");
    pushed(&f);
    pull(&f);
    seed(&f, &["reset", "-q", "--soft", "HEAD~4"]);
    seed(&f, &["rm", "-qf", "secret"]);
    let list = f.dir.path().join("seed/list");
    fs::write(list, "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n").unwrap();
    seed(&f, &["add", "-A"]);
    seed(&f, &["commit", "-qm", "Squashed"]);
    force(&f);
    let said = prepare_worktree(&f.place).unwrap();
    let gone = said.split("No longer in it: ").nth(1).unwrap_or_default();
    let gone = gone.split(". ").next().unwrap();
    assert!(gone.contains("Add a secret") && !gone.contains("Add b"), "{said}");
    let squashed = said.split("Squashed, so still in it: ").nth(1).unwrap_or_default();
    let squashed = squashed.split(". ").next().unwrap();
    for name in ["Add b", "Add ten", "Add a logo"] {
        assert!(squashed.contains(name), "{said}");
    }
}

#[test]
fn what_the_base_branch_has_is_not_said_to_be_removed() {
    let f = fixture("a", b"one\n");
    f.merge(&[("base", "1")]);
    pull(&f);
    seed(&f, &["merge", "-q", "--no-edit", "main"]);
    seed(&f, &["push", "-q", "origin", "HEAD:codebutler/t"]);
    prepare_worktree(&f.place).unwrap();
    commit(&f, "b", b"1\n", "Add b");
    pushed(&f);
    pull(&f);
    seed(&f, &["reset", "-q", "--hard", "HEAD~2"]);
    force(&f);
    let said = prepare_worktree(&f.place).unwrap();
    assert!(said.contains("No longer in it: ") && said.contains("Add b"), "{said}");
    assert!(!said.contains(" Merged`"), "{said}");
}
