use std::fs;

use super::super::fixture::GitFixture;
use super::super::{
    PushOutcome, UpdateOutcome, commit_files, commit_learnings, head_commit, keep_leftover,
    prepare_worktree, push_branch, update_branch, update_key,
};
use super::*;
use crate::tool_args as args;
use crate::toolbox::paths::WorktreeRoot;

fn fixture() -> GitFixture {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    f
}

fn commit(f: &GitFixture, path: &str) -> String {
    f.write(path, path);
    let args = args::GitCommit { message: format!("Add {path}"), paths: Some(vec![path.into()]) };
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap()).unwrap()
}

fn push(f: &GitFixture) -> String {
    match push_branch(&f.place).unwrap() {
        PushOutcome::Done(said) => said,
        other @ PushOutcome::Conflict(..) => panic!("{other:?}"),
    }
}

fn set(f: &GitFixture, key: &str, value: &str) {
    f.git(&f.place.tree(), &["config", key, value]);
}

/// A file of the home that commands have.
fn write_home(f: &GitFixture, path: &str, text: &str) {
    let path = f.place.work.join("home").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn hooks_of_every_kind_are_named_once() {
    let f = fixture();
    assert_eq!(name_hooks(&f.place, HookMoment::Commit), None);
    set(&f, "core.hooksPath", ".husky");
    f.write(".git/hooks/pre-commit.sample", "");
    f.write(".git/hooks/commit-msg", "");
    f.write(".husky/pre-commit", "");
    f.write(".husky/_/husky.sh", "");
    f.write(".pre-commit-config.yaml", "");
    f.write("package.json", r#"{"simple-git-hooks": {"pre-commit": "x"}}"#);
    let all = [
        ".husky/pre-commit",
        ".git/hooks/commit-msg",
        ".pre-commit-config.yaml",
        "package.json (simple-git-hooks)",
    ];
    assert_eq!(find_hooks(&f.place), all);
    let said = name_hooks(&f.place, HookMoment::Commit).unwrap();
    assert!(said.contains(&format!("were not run (`{}`)", all.join("`, `"))), "{said}");
    assert_eq!(name_hooks(&f.place, HookMoment::Commit), None);
    // A hook that a command has installed meanwhile is new.
    f.write(".git/hooks/pre-push", "");
    let said = name_hooks(&f.place, HookMoment::Push).unwrap();
    assert!(said.contains("(`.git/hooks/pre-push`)"), "{said}");
}

#[test]
fn hooks_are_found_wherever_a_configuration_puts_them() {
    let f = fixture();
    f.write("tools/hooks/pre-commit", "");
    f.write("tools/more/pre-push", "");
    for (config, text) in [
        (".gitconfig", "[core]\n\thooksPath = tools/hooks\n"),
        (".config/git/config", "[core]\n\thooksPath = tools/hooks\n"),
        (".gitconfig", "[user]\n\tname = A\n[include]\n\tpath = team.conf\n"),
        (".gitconfig", "[include]\n\tpath = ~/sub/team.conf\n"),
        (".gitconfig", "[includeIf \"gitdir:/\"]\n\tpath = team.conf\n[user]\n\tname = A\n"),
    ] {
        write_home(&f, "team.conf", "[core]\n\thooksPath = tools/hooks\n");
        write_home(&f, "sub/team.conf", "[core]\n\thooksPath = tools/hooks\n");
        write_home(&f, config, text);
        assert_eq!(find_hooks(&f.place), ["tools/hooks/pre-commit"], "{config}: {text}");
        fs::remove_dir_all(f.place.work.join("home")).unwrap();
    }
    write_home(&f, "hooks/commit-msg", "");
    set(&f, "core.hooksPath", "~/hooks");
    let named = f.place.work.join("home/hooks/commit-msg").display().to_string();
    assert_eq!(find_hooks(&f.place), [named]);
    set(&f, "core.hooksPath", f.place.tree().join("tools/more").to_str().unwrap());
    assert_eq!(find_hooks(&f.place), ["tools/more/pre-push"]);
    f.git(&f.place.tree(), &["config", "--unset", "core.hooksPath"]);
    set(&f, "hook.lint.event", "pre-commit");
    set(&f, "hook.lint.command", "make lint");
    assert_eq!(find_hooks(&f.place), ["hook.lint"]);
    // Files that include each other, and what no command could read, say nothing.
    write_home(&f, ".gitconfig", "[include]\n\tpath = .gitconfig\n\tpath = /dev/zero\n");
    assert_eq!(find_hooks(&f.place), ["hook.lint"]);
}

#[test]
fn each_answer_names_the_hooks_that_its_call_did_not_run() {
    let f = fixture();
    for hook in ["pre-commit", "pre-push", "pre-merge-commit"] {
        f.write(&format!(".husky/{hook}"), "");
    }
    let said = commit(&f, "a");
    assert!(said.contains("not run (`.husky/pre-commit`)"), "{said}");
    assert!(!commit(&f, "b").contains(HOOKS_NOT_RUN), "named before");
    f.git(&f.place.tree(), &["stash", "-q", "-u"]);
    f.git(&f.place.tree(), &["stash", "apply", "-q"]);
    let said = push(&f);
    assert!(said.contains("not run (`.husky/pre-push`)"), "{said}");
    f.merge(&[("base", "new\n")]);
    commit(&f, "c");
    fs::remove_dir_all(f.place.tree().join(".husky")).unwrap();
    f.write(".git/hooks/pre-merge-commit", "");
    let key = update_key(&f.place).unwrap();
    let said = match update_branch(&f.place, &key, false, &[]).unwrap() {
        UpdateOutcome::Done(said) => said,
        other @ UpdateOutcome::Conflict(..) => panic!("{other:?}"),
    };
    assert!(said.contains("not run (`.git/hooks/pre-merge-commit`)"), "{said}");
    assert!(!push(&f).contains(HOOKS_NOT_RUN));
}

#[test]
fn work_in_progress_and_pages_are_not_committed_past_hooks_in_silence() {
    let f = fixture();
    f.write(".git/hooks/pre-commit", "");
    assert_eq!(keep_leftover(&f.place, "Work").unwrap().notes, "", "nothing was committed");
    f.write("a", "1");
    f.write(".git/hooks/pre-push", "");
    let kept = keep_leftover(&f.place, "Work").unwrap();
    assert!(kept.notes.contains("(`.git/hooks/pre-commit`, `.git/hooks/pre-push`)"), "{kept:?}");
    assert!(!push(&f).contains(HOOKS_NOT_RUN));

    let f = fixture();
    f.write(".git/hooks/pre-commit", "");
    commit_learnings(&f.place, &[], &[("research/a.md".into(), "# A\n".into())], "Keep").unwrap();
    let said = push(&f);
    assert!(said.contains("(`.git/hooks/pre-commit`)"), "{said}");
}
