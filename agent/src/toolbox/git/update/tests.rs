use super::super::fixture::GitFixture;
use super::super::{PushOutcome, commit_files, head_commit, prepare_worktree, push_branch};
use super::*;
use crate::tool_args as args;
use crate::toolbox::paths::WorktreeRoot;

fn fixture() -> GitFixture {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    f
}

fn try_commit(f: &GitFixture, message: &str) -> Result<String, ToolError> {
    let args = args::GitCommit { message: message.to_owned(), paths: None };
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap())
}

fn written(f: &GitFixture, path: &str, content: &str) {
    f.write(path, content);
    try_commit(f, &format!("Change {path}")).unwrap();
}

fn updated(f: &GitFixture) -> UpdateOutcome {
    let key = update_key(&f.place).unwrap();
    update_branch(&f.place, &key, false, &[]).unwrap()
}

fn parents(f: &GitFixture) -> usize {
    f.git(&f.place.tree(), &["log", "-1", "--format=%P"]).split(' ').count()
}

#[test]
fn what_the_base_branch_has_comes_in_as_a_merge_once() {
    let f = fixture();
    assert!(matches!(updated(&f), UpdateOutcome::Done(text) if text.contains("already")));
    f.merge(&[("b", "2")]);
    // A branch without commits of its own moves on.
    assert!(
        matches!(updated(&f), UpdateOutcome::Done(text) if text.contains("1 commits of `main`"))
    );
    assert_eq!((f.file("b"), parents(&f)), ("2".to_owned(), 1));
    written(&f, "a", "1");
    f.merge(&[("c", "3")]);
    f.write("a", "dirty");
    let key = update_key(&f.place).unwrap();
    let refused = update_branch(&f.place, &key, false, &[]).unwrap_err().to_string();
    assert!(refused.contains("GitCommit"), "{refused}");
    f.write("a", "1");
    assert!(matches!(updated(&f), UpdateOutcome::Done(text) if text.contains("Run the tests")));
    assert_eq!((f.file("a"), f.file("c"), parents(&f)), ("1".into(), "3".into(), 2));
    assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");
    let tip = head_commit(&f.place).unwrap();
    assert!(matches!(updated(&f), UpdateOutcome::Done(text) if text.contains("already")));
    assert_eq!(head_commit(&f.place).unwrap(), tip);
    assert!(matches!(push_branch(&f.place).unwrap(), PushOutcome::Done(_)));
    assert_eq!(f.remote_tip(), tip);
}

#[test]
fn a_conflict_is_left_in_the_files_until_it_is_settled() {
    let f = fixture();
    written(&f, "README", "mine\n");
    f.merge(&[("README", "theirs\n")]);
    f.merge(&[("c", "3")]);
    let UpdateOutcome::Conflict(files, why) = updated(&f) else { panic!() };
    assert_eq!(files, ["README"]);
    assert!(why.contains("GitCommit") && f.file("README").contains("<<<<<<< codebutler/t"));
    assert_eq!(f.file("c"), "3");
    let refused = try_commit(&f, "Merge").unwrap_err().to_string();
    assert!(refused.contains("both sides of the merge still (line 1)"), "{refused}");
    f.write("README", "both\n||||||| 1234567\nold\n");
    let refused = try_commit(&f, "Merge").unwrap_err().to_string();
    assert!(refused.contains("both sides of the merge still (line 2)"), "{refused}");
    // Cut off after that: what was begun by an earlier call stays as it was left.
    f.write("README", "both\n");
    let key = update_key(&f.place).unwrap();
    assert!(matches!(
        update_branch(&f.place, &key, true, &[]).unwrap(),
        UpdateOutcome::Conflict(..)
    ));
    assert_eq!(f.file("README"), "both\n");
    try_commit(&f, "Merge main").unwrap();
    assert_eq!((parents(&f), f.file("README")), (2, "both\n".to_owned()));
    assert!(matches!(updated(&f), UpdateOutcome::Done(text) if text.contains("already")));
}

#[test]
fn what_a_squashed_branch_below_brought_is_no_conflict() {
    let f = fixture();
    written(&f, "README", "below\n");
    let below = [head_commit(&f.place).unwrap()];
    written(&f, "README", "mine\n");
    written(&f, "b", "mine\n");
    f.merge(&[("README", "below\n")]);
    f.merge(&[("b", "theirs\n")]);
    let key = update_key(&f.place).unwrap();
    let updated = update_branch(&f.place, &key, false, &below).unwrap();
    let UpdateOutcome::Conflict(files, _) = updated else { panic!() };
    assert_eq!((files, f.file("README")), (vec!["b".to_owned()], "mine\n".to_owned()));
    f.write("b", "both\n");
    try_commit(&f, "Merge main").unwrap();
    let base = f.git(&f.place.tree(), &["rev-parse", "origin/main"]);
    assert_eq!(f.git(&f.place.tree(), &["rev-parse", "HEAD^2"]), base);
    // Without a conflict, it is the same.
    written(&f, "README", "mine again\n");
    f.merge(&[("c", "3\n")]);
    let key = update_key(&f.place).unwrap();
    let updated = update_branch(&f.place, &key, false, &below).unwrap();
    assert!(matches!(updated, UpdateOutcome::Done(_)));
    assert_eq!((f.file("README"), f.file("c")), ("mine again\n".into(), "3\n".into()));
}

#[test]
fn no_file_with_both_sides_is_committed_however_many_and_whoever_staged_them() {
    let f = fixture();
    let names: Vec<String> = (10..35).map(|n| format!("f{n}")).collect();
    for name in &names {
        f.write(name, "mine\n");
    }
    try_commit(&f, "Add them").unwrap();
    let theirs: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "theirs\n")).collect();
    f.merge(&theirs);
    let UpdateOutcome::Conflict(files, why) = updated(&f) else { panic!() };
    assert!(files.len() == 25 && why.contains("f29 and 5 more"), "{why}");
    for name in &names[..20] {
        f.write(name, "both\n");
    }
    let refused = try_commit(&f, "Merge").unwrap_err().to_string();
    assert!(refused.contains("`f30` holds both sides"), "{refused}");
    // Staged past the tools, no conflict is on record any more.
    f.git(&f.place.tree(), &["add", "-A"]);
    let refused = try_commit(&f, "Merge").unwrap_err().to_string();
    assert!(refused.contains("`f30` holds both sides"), "{refused}");
    for name in &names[20..] {
        f.write(name, "both\n");
    }
    try_commit(&f, "Merge main").unwrap();
    assert_eq!(parents(&f), 2);
}

#[test]
fn a_conflict_that_no_marker_shows_is_told() {
    let f = fixture();
    written(&f, "logo", "\0mine");
    written(&f, "README", "mine\n");
    f.merge(&[("logo", "\0theirs"), ("README", "theirs\n")]);
    let UpdateOutcome::Conflict(files, why) = updated(&f) else { panic!() };
    assert_eq!(files, ["README", "logo"]);
    assert!(why.contains("Without markers, since binary or removed on one side: logo."), "{why}");
    assert!(why.contains("`git restore --theirs PATH`"), "{why}");
    f.git(&f.place.tree(), &["restore", "--theirs", "logo"]);
    f.write("README", "both\n");
    try_commit(&f, "Merge main").unwrap();
    assert_eq!((f.file("logo"), parents(&f)), ("\0theirs".to_owned(), 2));
    // No tool advises what the coder's guide forbids.
    let guide = include_str!("../../../../../seeds/prompts/coder.md");
    let (_, never) = guide.split_once("Never `").unwrap();
    let never: Vec<&str> = never.lines().next().unwrap().split('`').step_by(2).collect();
    assert!(never.contains(&"git checkout -- PATH"), "{never:?}");
    let begins = never.iter().map(|command| command.trim_end_matches("PATH").trim_end());
    for command in begins.filter(|command| command.starts_with("git ")) {
        assert!(!why.contains(command), "{command}: {why}");
    }
    assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");
}

#[test]
fn an_ignored_file_is_not_overwritten_by_a_merge_that_conflicts() {
    let f = fixture();
    written(&f, "README", "mine\n");
    std::fs::write(f.place.tree().join(".git/info/exclude"), ".env\n").unwrap();
    f.write(".env", "TOKEN=mine\n");
    f.merge(&[("README", "theirs\n"), (".env", "TOKEN=\n")]);
    let key = update_key(&f.place).unwrap();
    let refused = update_branch(&f.place, &key, false, &[]).unwrap_err().to_string();
    assert!(refused.contains("would be overwritten: .env."), "{refused}");
    assert_eq!((f.file(".env"), f.file("README")), ("TOKEN=mine\n".into(), "mine\n".into()));
    std::fs::remove_file(f.place.tree().join(".env")).unwrap();
    assert!(matches!(updated(&f), UpdateOutcome::Conflict(..)));
    assert_eq!(f.file(".env"), "TOKEN=\n");
}

#[test]
fn a_link_that_is_in_a_commit_gives_way_to_a_folder_and_an_ignored_one_does_not() {
    let f = fixture();
    let seed = f.dir.path().join("seed");
    // Both branches have a link to a folder.
    f.git(&seed, &["checkout", "-q", "main"]);
    std::fs::create_dir(seed.join("old")).unwrap();
    std::fs::write(seed.join("old/page"), "old\n").unwrap();
    std::os::unix::fs::symlink("old", seed.join("docs")).unwrap();
    f.git(&seed, &["add", "."]);
    f.git(&seed, &["commit", "-q", "-m", "Link it"]);
    f.git(&seed, &["push", "-q", "origin", "main"]);
    assert!(matches!(updated(&f), UpdateOutcome::Done(_)));
    written(&f, "README", "mine\n");
    std::fs::remove_file(seed.join("docs")).unwrap();
    f.merge(&[("docs/page", "new\n"), ("cache/entry", "new\n"), ("README", "theirs\n")]);

    let tree = f.place.tree();
    std::fs::write(tree.join(".git/info/exclude"), "/cache\n").unwrap();
    std::os::unix::fs::symlink("old", tree.join("cache")).unwrap();
    let key = update_key(&f.place).unwrap();
    let refused = update_branch(&f.place, &key, false, &[]).unwrap_err().to_string();
    assert!(refused.contains("would be overwritten: cache."), "{refused}");
    assert_eq!(f.file("docs/page"), "old\n");
    std::fs::remove_file(tree.join("cache")).unwrap();
    let UpdateOutcome::Conflict(files, _) = updated(&f) else { panic!() };
    assert_eq!(files, ["README"]);
    assert_eq!((f.file("docs/page"), f.file("old/page")), ("new\n".into(), "old\n".into()));
    assert!(!tree.join("docs").is_symlink());
}

#[test]
fn an_ignored_file_in_a_folder_that_becomes_a_file_is_named_and_nothing_is_lost() {
    let f = fixture();
    f.merge(&[("docs/page", "old\n")]);
    assert!(matches!(updated(&f), UpdateOutcome::Done(_)));
    written(&f, "README", "mine\n");
    let seed = f.dir.path().join("seed");
    f.git(&seed, &["checkout", "-q", "main"]);
    f.git(&seed, &["rm", "-q", "-r", "docs"]);
    f.git(&seed, &["commit", "-q", "-m", "Remove them"]);
    f.merge(&[("docs", "file\n"), ("README", "theirs\n")]);

    let tree = f.place.tree();
    std::fs::write(tree.join(".git/info/exclude"), ".env\n").unwrap();
    f.write("docs/.env", "TOKEN=mine\n");
    let key = update_key(&f.place).unwrap();
    let refused = update_branch(&f.place, &key, false, &[]).unwrap_err().to_string();
    assert!(refused.contains("would be overwritten: docs/.env."), "{refused}");
    assert_eq!(f.git(&tree, &["status", "--porcelain"]), "");
    assert_eq!((f.file("docs/page"), f.file("README")), ("old\n".into(), "mine\n".into()));
    std::fs::remove_file(tree.join("docs/.env")).unwrap();
    assert!(matches!(updated(&f), UpdateOutcome::Conflict(..)));
    assert_eq!(f.file("docs"), "file\n");
}

#[test]
fn a_merge_that_was_cut_off_begins_anew() {
    let f = fixture();
    written(&f, "README", "mine\n");
    f.merge(&[("README", "theirs\n")]);
    f.merge(&[("c", "3")]);
    let key = update_key(&f.place).unwrap();
    assert!(matches!(
        update_branch(&f.place, &key, false, &[]).unwrap(),
        UpdateOutcome::Conflict(..)
    ));
    // The state after a kill before all files were there.
    std::fs::remove_file(f.place.tree().join("c")).unwrap();
    assert!(matches!(
        update_branch(&f.place, &key, true, &[]).unwrap(),
        UpdateOutcome::Conflict(..)
    ));
    assert_eq!(f.file("c"), "3");
}

#[test]
fn others_commits_come_first() {
    let f = fixture();
    written(&f, "a", "1");
    f.commit_elsewhere("b", "2");
    f.merge(&[("c", "3")]);
    let key = update_key(&f.place).unwrap();
    let refused = update_branch(&f.place, &key, false, &[]).unwrap_err().to_string();
    assert!(refused.contains("call GitPush"), "{refused}");
    push_branch(&f.place).unwrap();
    assert!(matches!(updated(&f), UpdateOutcome::Done(_)));
    f.commit_elsewhere("d", "4");
    let refused = push_branch(&f.place).unwrap_err().to_string();
    assert!(refused.contains("git merge origin/codebutler/t"), "{refused}");
}
