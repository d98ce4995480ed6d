use std::fs;
use std::os::unix::fs::symlink;

use super::super::fixture::GitFixture;
use super::super::{prepare_worktree, push_branch};
use super::*;

fn fixture() -> GitFixture {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    f
}

fn git(f: &GitFixture, args: &[&str]) -> String {
    f.git(&f.place.tree(), args)
}

fn restored(f: &GitFixture, name: &str, path: &str) {
    git(f, &["restore", &format!("--source={name}"), "--", path]);
}

#[test]
fn what_was_never_committed_comes_back_and_git_itself_does_not_notice() {
    let f = fixture();
    f.write("README", "changed\n");
    f.write("src/new.rs", "fn a() {}\n");
    f.write("staged", "staged\n");
    git(&f, &["add", "staged"]);
    f.write("staged", "later\n");
    f.write("target/out", "ignored");
    symlink("../../etc/passwd", f.place.tree().join("link")).unwrap();
    let before = git(&f, &["status", "--porcelain"]);
    let kept = keep_work(&f.place).unwrap();
    assert_eq!((kept.name.as_str(), kept.left_out.len()), ("refs/codebutler/snap/1", 0));
    assert_eq!(git(&f, &["status", "--porcelain"]), before);
    git(&f, &["reset", "-q", "--hard"]);
    git(&f, &["clean", "-qfdx"]);
    restored(&f, &kept.name, ".");
    assert_eq!(f.file("README"), "changed\n");
    assert_eq!(f.file("src/new.rs"), "fn a() {}\n");
    assert_eq!(f.file("staged"), "later\n");
    assert!(f.place.tree().join("link").symlink_metadata().unwrap().is_symlink());
    assert!(!f.place.tree().join("target").exists());
    assert_eq!(git(&f, &["show", &format!("{}^2:staged", kept.name)]), "staged");
}

#[test]
fn small_files_that_are_ignored_are_kept_and_ignored_folders_are_not() {
    let f = fixture();
    f.write(".gitignore", ".env\n*.log\ntarget/\n");
    f.write(".env", "PORT=1\n");
    f.write("sub/code", "x");
    f.write("sub/.env", "PORT=2\n");
    f.write("target/out", "made");
    f.write("big.log", &"x".repeat(2 * 1024 * 1024));
    symlink("/etc/passwd", f.place.tree().join("link.log")).unwrap();
    let before = git(&f, &["status", "--porcelain", "--ignored"]);
    let kept = keep_work(&f.place).unwrap();
    assert_eq!(keep_work(&f.place).unwrap().name, kept.name, "the same is kept once");
    assert_eq!(git(&f, &["status", "--porcelain", "--ignored"]), before);
    let names = git(&f, &["ls-tree", "-r", "--name-only", &kept.name]);
    for gone in ["target", "big.log", "link.log"] {
        assert!(!names.contains(gone), "{names}");
    }
    let left = kept.left_out.join("; ");
    assert!(left.contains("`big.log`, `link.log` (ignored, and "), "{left}");
    git(&f, &["clean", "-qfdx"]);
    restored(&f, &kept.name, ".");
    assert_eq!((f.file(".env"), f.file("sub/.env")), ("PORT=1\n".into(), "PORT=2\n".into()));
}

#[test]
fn the_same_is_kept_once_and_the_newest_twenty_are() {
    let f = fixture();
    f.write("a", "0");
    for _ in 0..3 {
        assert_eq!(keep_work(&f.place).unwrap().name, "refs/codebutler/snap/1");
    }
    for n in 1..30 {
        f.write("a", &n.to_string());
        keep_work(&f.place).unwrap();
    }
    let names = git(&f, &["for-each-ref", "--format=%(refname)", "--sort=v:refname", REFS]);
    let names: Vec<&str> = names.lines().collect();
    assert_eq!((names.len(), names[0]), (KEPT, "refs/codebutler/snap/11"));
    assert_eq!(git(&f, &["show", "refs/codebutler/snap/30:a"]), "29");
    // Objects of a pruned snapshot are collected, and a file that it held is hashed again.
    git(&f, &["-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now"]);
    f.write("a", "0");
    let again = keep_work(&f.place).unwrap();
    assert_eq!(git(&f, &["show", &format!("{}:a", again.name)]), "0");
}

#[test]
fn commits_stashes_and_branches_outlive_whatever_collects_them() {
    let f = fixture();
    f.write("README", "stashed\n");
    git(&f, &["stash"]);
    git(&f, &["checkout", "-qb", "other"]);
    f.write("b", "b\n");
    git(&f, &["add", "."]);
    git(&f, &["commit", "-qm", "Other"]);
    let other = git(&f, &["rev-parse", "HEAD"]);
    git(&f, &["checkout", "-q", "codebutler/t"]);
    f.write("c", "c\n");
    git(&f, &["add", "."]);
    git(&f, &["commit", "-qm", "Mine"]);
    let mine = git(&f, &["rev-parse", "HEAD"]);
    let stash = git(&f, &["rev-parse", "refs/stash"]);
    let kept = keep_work(&f.place).unwrap();
    git(&f, &["reset", "-q", "--hard", "HEAD~1"]);
    git(&f, &["stash", "drop", "-q"]);
    git(&f, &["branch", "-qD", "other"]);
    git(&f, &["reflog", "expire", "--expire=now", "--all"]);
    git(&f, &["gc", "-q", "--prune=now"]);
    for lost in [&other, &mine, &stash] {
        assert_eq!(git(&f, &["cat-file", "-t", lost]), "commit");
    }
    let said = git(&f, &["log", "-1", "--format=%B", &kept.name]);
    assert!(said.contains(&format!("refs/heads/other {other}")), "{said}");
    assert!(said.contains(&format!("stash@{{0}} {stash}")), "{said}");
}

#[test]
fn what_is_too_large_is_named_and_the_rest_is_kept() {
    let f = fixture();
    f.write("small", "s");
    f.write("big", &"x".repeat(17 * 1024 * 1024));
    f.write("a/package.json", "{}");
    f.write("a/node_modules/x/package.json", "{}");
    git(&f, &["init", "-q", "nested"]);
    let kept = keep_work(&f.place).unwrap();
    let left = kept.left_out.join("; ");
    assert!(left.contains("`big` (new, and larger than 16 MB)"), "{left}");
    assert!(left.contains("`nested` (a repository of its own)"), "{left}");
    assert!(left.contains("`a/node_modules/` (a tool made this folder"), "{left}");
    let names = git(&f, &["ls-tree", "-r", "--name-only", &kept.name]);
    assert!(names.contains("small") && !names.contains("node_modules"), "{names}");
}

#[test]
fn sources_in_folders_with_a_tools_name_are_kept_before_they_are_removed() {
    let f = fixture();
    f.write(".gitignore", "");
    f.write("src/target/audience.py", "one\n");
    f.write("__pycache__/notes.txt", "two\n");
    let kept = keep_work(&f.place).unwrap();
    assert_eq!(kept.left_out, Vec::<String>::new());
    git(&f, &["clean", "-qfdx"]);
    restored(&f, &kept.name, ".");
    assert_eq!(f.file("src/target/audience.py"), "one\n");
    assert_eq!(f.file("__pycache__/notes.txt"), "two\n");
}

#[test]
fn an_odd_or_hostile_repository_is_kept_or_refused_and_runs_nothing() {
    let f = fixture();
    let tree = f.place.tree();
    let ran = f.dir.path().join("ran");
    f.write(".gitattributes", "* filter=x\n");
    let config = fs::read_to_string(tree.join(".git/config")).unwrap();
    let filter =
        format!("{config}[filter \"x\"]\n\tclean = touch {}\n\trequired = true\n", ran.display());
    fs::write(tree.join(".git/config"), filter).unwrap();
    f.write("a", "1");
    fs::write(tree.join(".git/index"), "no index at all").unwrap();
    fs::write(f.place.work.join(".snapshot.index"), "neither").unwrap();
    let kept = keep_work(&f.place).unwrap();
    assert_eq!(git(&f, &["show", &format!("{}:a", kept.name)]), "1");
    assert!(!ran.exists());

    // A repository without any commit.
    fs::remove_file(tree.join(".git/index")).unwrap();
    git(&f, &["symbolic-ref", "HEAD", "refs/heads/fresh"]);
    f.write("a", "2");
    let kept = keep_work(&f.place).unwrap();
    assert_eq!(git(&f, &["show", &format!("{}:a", kept.name)]), "2");

    let snap = tree.join(".git/refs/codebutler");
    fs::rename(&snap, tree.join(".git/refs/away")).unwrap();
    symlink(f.dir.path(), &snap).unwrap();
    let refused = keep_work(&f.place).unwrap_err().to_string();
    assert!(refused.contains("is a link"), "{refused}");
}

#[test]
fn a_snapshot_is_never_pushed() {
    let f = fixture();
    f.write("secret", "s");
    keep_work(&f.place).unwrap();
    fs::remove_file(f.place.tree().join("secret")).unwrap();
    f.write("a", "1");
    super::super::keep_leftover(&f.place, "Work").unwrap();
    push_branch(&f.place).unwrap();
    let remote = f.dir.path().join("remote.git");
    assert!(!f.git(&remote, &["for-each-ref"]).contains("snap"));
    assert!(!f.git(&remote, &["rev-list", "--objects", "--all"]).contains("secret"));
}
