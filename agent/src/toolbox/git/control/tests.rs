use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::fixture::GitFixture;
use super::super::{bring_copy, keep_work, prepare_worktree, snapshot_tree};
use super::*;

/// Files that Git reads; true for those in the repository's own folder.
const PLACES: [(&str, bool); 14] = [
    (".gitignore", false),
    (".gitattributes", false),
    (".gitmodules", false),
    ("src/.gitignore", false),
    ("src/.gitattributes", false),
    (".git/HEAD", true),
    (".git/config", true),
    (".git/index", true),
    (".git/packed-refs", true),
    (".git/shallow", true),
    (".git/info/exclude", true),
    (".git/info/attributes", true),
    (".git/objects/info/commit-graph", true),
    (".git/refs/heads/other", true),
];

fn fixture() -> GitFixture {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    f.write("src/a.rs", "fn a() {}\n");
    f
}

fn refused(f: &GitFixture, path: &str) {
    let began = Instant::now();
    let tree = f.place.tree();
    let copy = f.dir.path().join("copy");
    for said in [
        snapshot_tree(&f.place, &tree).unwrap_err().to_string(),
        keep_work(&f.place).unwrap_err().to_string(),
        bring_copy(&f.place, &copy, None).unwrap_err().to_string(),
    ] {
        assert!(said.contains(&format!("`{path}`")), "{path}: {said}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{path}");
}

#[test]
fn a_file_that_is_not_plain_is_named_before_git_opens_it() {
    for (path, own) in PLACES {
        for kind in ["pipe", "link", "large"] {
            let f = fixture();
            let full = f.place.tree().join(path);
            let _ = fs::remove_file(&full);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            match kind {
                "pipe" => {
                    assert!(Command::new("mkfifo").arg(&full).status().unwrap().success());
                }
                "link" => symlink("README", &full).unwrap(),
                _ => {
                    let most = if path == ".git/index" { MAX_INDEX } else { MAX_CONTROL };
                    File::create(&full).unwrap().set_len(most + 1).unwrap();
                }
            }
            refused(&f, path);
            // The next run begins all the same, and what was a file is still there.
            prepare_worktree(&f.place).unwrap_or_else(|e| panic!("{path}, {kind}: {e}"));
            snapshot_tree(&f.place, &f.place.tree()).unwrap();
            let name = format!("{}.aside-1", full.file_name().unwrap().to_string_lossy());
            let aside = if own {
                f.place.tree().join(".git").join(ASIDE).join(name)
            } else {
                full.with_file_name(name)
            };
            assert_eq!(aside.exists(), kind == "large", "{path}, {kind}");
        }
    }
}

#[test]
fn a_configuration_that_includes_others_is_named_before_git_opens_them() {
    for section in ["[include]", "  [INCLUDE] ; all", "[includeIf \"onbranch:**\"]"] {
        let f = fixture();
        let pipe = f.place.tree().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let config = f.place.tree().join(".git/config");
        let before = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{before}{section}\n\tpath = ../pipe\n")).unwrap();
        refused(&f, ".git/config");
        prepare_worktree(&f.place).unwrap();
        snapshot_tree(&f.place, &f.place.tree()).unwrap();
    }
    // Git's own files outside of the repository may include others: they are read without them.
    let f = fixture();
    let home = f.place.work.join("home");
    fs::create_dir_all(&home).unwrap();
    assert!(Command::new("mkfifo").arg(home.join("pipe")).status().unwrap().success());
    fs::write(home.join(".gitconfig"), "[include]\n\tpath = pipe\n[core]\n\tautocrlf = input\n")
        .unwrap();
    f.write("crlf.txt", "a\r\nb\r\n");
    let tree = snapshot_tree(&f.place, &f.place.tree()).unwrap();
    let repo = git2::Repository::open(f.place.tree()).unwrap();
    let tree = repo.find_tree(git2::Oid::from_str(&tree).unwrap()).unwrap();
    let blob = tree.get_name("crlf.txt").unwrap().to_object(&repo).unwrap();
    assert_eq!(blob.as_blob().unwrap().content(), b"a\nb\n");
}

#[test]
fn a_repository_that_borrows_from_elsewhere_is_refused() {
    for path in [".git/commondir", ".git/objects/info/alternates", ".git/info/grafts"] {
        let f = fixture();
        fs::write(f.place.tree().join(path), "../elsewhere\n").unwrap();
        refused(&f, path);
    }
    for path in [".git/refs/heads", ".git/info", ".git/objects/info"] {
        let f = fixture();
        let full = f.place.tree().join(path);
        fs::rename(&full, f.dir.path().join("away")).unwrap();
        symlink(f.dir.path().join("away"), &full).unwrap();
        refused(&f, path);
    }
}

#[test]
fn a_link_that_the_repository_itself_has_is_read_as_before() {
    let f = GitFixture::new();
    let seed = f.dir.path().join("seed");
    f.git(&seed, &["checkout", "-q", "codebutler/t"]);
    f.git(&seed, &["mv", ".gitignore", "ignored"]);
    symlink("ignored", seed.join(".gitignore")).unwrap();
    f.git(&seed, &["add", "."]);
    f.git(&seed, &["commit", "-q", "-m", "Link"]);
    f.git(&seed, &["push", "-q", "origin", "HEAD:codebutler/t"]);
    prepare_worktree(&f.place).unwrap();
    snapshot_tree(&f.place, &f.place.tree()).unwrap();
}
