use std::mem;

use super::super::fixture::GitFixture;
use super::super::unclaimed::note_set_up;
use super::super::{
    bring_copy, find_standing, find_surroundings, prepare_base, prepare_worktree, snapshot_tree,
};
use super::*;

/// A remote whose thread's branch has some folders, and a Repo that wants these of them.
fn fixture(folders: &[&str]) -> GitFixture {
    let mut f = GitFixture::new();
    for path in ["app/[id]/page", "app/other/page", "docs/a.md", "docs/x/b.md", "src/a.rs"] {
        f.commit_elsewhere(path, "text\n");
    }
    want(&mut f, folders);
    f
}

fn want(f: &mut GitFixture, folders: &[&str]) {
    f.place.hello.sparse = folders.iter().map(|folder| (*folder).to_owned()).collect();
}

fn git(f: &GitFixture, args: &[&str]) -> String {
    f.git(&f.place.tree(), args)
}

/// Tracked files that are there.
fn files(f: &GitFixture) -> Vec<String> {
    let tracked = git(f, &["ls-files"]);
    let there = tracked.lines().filter(|path| f.place.tree().join(path).exists());
    there.map(str::to_owned).collect()
}

#[test]
fn a_clone_has_the_folders_that_the_repo_wants() {
    let f = fixture(&["app/[id]", "docs/x"]);
    f.commit_elsewhere(".codebutler/pm.md", "text\n");
    assert!(prepare_worktree(&f.place).unwrap().starts_with("cloned codebutler/t at "));
    let wanted =
        [".codebutler/pm.md", ".gitignore", "README", "app/[id]/page", "docs/a.md", "docs/x/b.md"];
    assert_eq!(files(&f), wanted);
    assert_eq!(git(&f, &["status", "--porcelain"]), "");
    // Git itself sees the same checkout.
    assert_eq!(git(&f, &["sparse-checkout", "list"]), ".codebutler\napp/[id]\ndocs/x");
    git(&f, &["sparse-checkout", "reapply"]);
    assert_eq!(files(&f), wanted);

    let here = find_surroundings(&f.place).unwrap();
    let folders = [".codebutler", "app/[id]", "docs/x"].map(str::to_owned).to_vec();
    assert_eq!(here.sparse, Some(SparseExtent { folders, outside: 2 }));
    assert_eq!((here.uncommitted, here.guides), (0, vec![".codebutler/pm.md".to_owned()]));
    let tested = snapshot_tree(&f.place, &f.place.tree()).unwrap();
    assert_eq!(git(&f, &["rev-parse", "HEAD^{tree}"]), tested);

    // A role widens it, and the next run leaves that as it is.
    git(&f, &["sparse-checkout", "add", "src"]);
    assert!(prepare_worktree(&f.place).unwrap().starts_with("codebutler/t is at "));
    assert_eq!(f.file("src/a.rs"), "text\n");
    let here = find_surroundings(&f.place).unwrap().sparse.unwrap();
    assert_eq!((here.folders.len(), here.outside), (4, 1));
}

#[test]
fn a_folder_may_have_any_name() {
    const NAMES: [&str; 14] = [
        "#a",
        "!b",
        " lead",
        "trail ",
        "a,b",
        "a=b",
        "~c",
        "d&e",
        "{f}",
        "g?",
        "h*i",
        ":j",
        "k's \"l\"",
        "...",
    ];
    let mut f = GitFixture::new();
    for name in NAMES {
        let folder = f.dir.path().join("seed").join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "text\n").unwrap();
    }
    f.commit_elsewhere("other/file", "text\n");
    want(&mut f, &NAMES);
    prepare_worktree(&f.place).unwrap();
    let assert_there = || {
        for name in NAMES {
            assert!(f.place.tree().join(name).join("file").exists(), "{name}");
        }
        assert!(!f.place.tree().join("other").exists());
        assert_eq!(git(&f, &["status", "--porcelain"]), "");
    };
    assert_there();
    // Git reads the same, and writes it again.
    git(&f, &["sparse-checkout", "reapply"]);
    assert_there();
    git(&f, &["sparse-checkout", "add", "docs"]);
    assert_there();
}

#[test]
fn without_folders_a_clone_has_all_of_it() {
    let f = fixture(&[]);
    prepare_worktree(&f.place).unwrap();
    assert_eq!(files(&f).len(), 7);
    assert_eq!(find_surroundings(&f.place).unwrap().sparse, None);
    assert!(!f.place.tree().join(".git/info/sparse-checkout").exists());
}

#[test]
fn what_others_add_to_folders_that_are_left_out_stays_out() {
    let f = fixture(&["src"]);
    prepare_worktree(&f.place).unwrap();
    f.commit_elsewhere("docs/new.md", "theirs\n");
    f.commit_elsewhere("src/b.rs", "theirs\n");
    let said = prepare_worktree(&f.place).unwrap();
    assert!(said.contains("moved on"), "{said}");
    assert_eq!(files(&f), [".gitignore", "README", "src/a.rs", "src/b.rs"]);
    assert_eq!(git(&f, &["status", "--porcelain"]), "");
    assert_eq!(git(&f, &["show", "HEAD:docs/new.md"]), "theirs");

    // Killed when the files were there, and the branch was not yet.
    f.commit_elsewhere("src/a.rs", "theirs\n");
    let remote = f.dir.path().join("remote.git");
    git(&f, &["fetch", "-q", &remote.display().to_string(), "codebutler/t"]);
    git(&f, &["read-tree", "-m", "-u", "HEAD", "FETCH_HEAD"]);
    let said = prepare_worktree(&f.place).unwrap();
    assert!(said.contains("moved on"), "{said}");
    assert_eq!(git(&f, &["status", "--porcelain"]), "");
}

#[test]
fn a_merge_with_conflicts_deletes_nothing_that_is_left_out() {
    let f = fixture(&["src"]);
    prepare_worktree(&f.place).unwrap();
    f.merge(&[("src/a.rs", "other\n")]);
    let remote = f.dir.path().join("remote.git");
    git(&f, &["fetch", "-q", &remote.display().to_string(), "main"]);
    git(&f, &["-c", "alias.conflict=!git merge -q FETCH_HEAD || true", "conflict"]);
    assert!(f.file("src/a.rs").contains("<<<<<<<"));
    assert_eq!(find_standing(&f.place, None).unwrap().uncommitted, ["src/a.rs"]);
}

#[test]
fn a_clone_that_waits_is_made_anew_where_other_folders_are_wanted_by_then() {
    let mut f = fixture(&["src"]);
    let waits = |f: &mut GitFixture| {
        let thread = mem::replace(&mut f.place.hello.branch, "main".to_owned());
        let done = prepare_base(&f.place).unwrap();
        f.place.hello.branch = thread;
        done
    };
    waits(&mut f);
    note_set_up(&f.place).unwrap();
    f.write("deps/made", "by the set-up\n");
    // As it was wanted: it is taken with what its set-up has made, and no other folder comes with the branch.
    want(&mut f, &["src"]);
    prepare_worktree(&f.place).unwrap();
    assert_eq!(files(&f), [".gitignore", "README", "src/a.rs"]);
    assert_eq!(f.file("deps/made"), "by the set-up\n");
    // A clone in which a thread works stays as it is.
    want(&mut f, &["docs"]);
    assert!(prepare_worktree(&f.place).unwrap().starts_with("codebutler/t is at "));
    assert_eq!(f.file("deps/made"), "by the set-up\n");

    for folders in [&["docs"][..], &[]] {
        let mut f = fixture(&["src"]);
        waits(&mut f);
        note_set_up(&f.place).unwrap();
        want(&mut f, folders);
        assert!(prepare_worktree(&f.place).unwrap().starts_with("cloned codebutler/t at "));
        assert!(f.place.tree().join("docs/x/b.md").exists());
        assert_eq!(f.place.tree().join("src").exists(), folders.is_empty());
    }
    let mut f = fixture(&["src"]);
    waits(&mut f);
    want(&mut f, &["docs"]);
    assert!(waits(&mut f).starts_with("cloned main at "));
    assert!(waits(&mut f).starts_with("main is at "));
}

#[test]
fn the_folders_of_an_approved_plan_are_added() {
    let f = fixture(&["src"]);
    prepare_worktree(&f.place).unwrap();
    let add = |paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        add_planned(&f.place, &paths).unwrap()
    };
    fs::remove_file(f.place.tree().join("src/a.rs")).unwrap();
    assert_eq!(add(&["README", "src/a.rs", "src/new.rs", "**/*.py"]), None);
    let plan = ["docs/x/b.md", "app/other/", "lib/new.rs"];
    let said = "The sparse checkout got `app/other`, `docs/x`, `lib`";
    assert_eq!(add(&plan).as_deref(), Some(said));
    assert_eq!(add(&plan), None);
    assert_eq!(files(&f), [".gitignore", "README", "app/other/page", "docs/a.md", "docs/x/b.md"]);
    // A file that a role has deleted stays so.
    assert_eq!(git(&f, &["status", "--porcelain"]), "D src/a.rs");
    assert_eq!(find_surroundings(&f.place).unwrap().sparse.unwrap().outside, 1);
    git(&f, &["checkout", "-q", "src/a.rs"]);
    git(&f, &["sparse-checkout", "reapply"]);
    assert_eq!(git(&f, &["status", "--porcelain"]), "");

    // Nothing is written over what lies in the place of a folder.
    f.write("app/[id]", "mine\n");
    assert!(add(&["app/[id]/page"]).is_some());
    assert_eq!(f.file("app/[id]"), "mine\n");
}

#[test]
fn folders_of_a_plan_that_can_not_be_written_leave_no_part_in_the_worktree() {
    let f = fixture(&["src"]);
    let seed = f.dir.path().join("seed");
    let blob = f.git(&seed, &["rev-parse", "HEAD:docs/a.md"]);
    // No file can have this name: writing ends in the middle, as on a full disk.
    let file = format!("100644,{blob},docs/{}", "z".repeat(300));
    f.git(&seed, &["update-index", "--add", "--cacheinfo", &file]);
    f.git(&seed, &["commit", "-q", "-m", "Add it"]);
    f.git(&seed, &["push", "-q", "origin", "HEAD:codebutler/t"]);
    prepare_worktree(&f.place).unwrap();
    let failed = add_planned(&f.place, &["docs/a.md".to_owned()]).unwrap_err().to_string();
    assert!(failed.contains("too long"), "{failed}");
    assert!(!f.place.tree().join("docs").exists(), "half of a file would count as a change");
    assert_eq!(git(&f, &["status", "--porcelain"]), "");
    let beside = fs::read_dir(&f.place.work).unwrap().flatten();
    let left = beside.filter(|own| own.file_name().to_string_lossy().starts_with("tree."));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_copy_is_as_sparse_as_the_worktree_and_follows_when_that_gets_more() {
    let f = fixture(&["src"]);
    prepare_worktree(&f.place).unwrap();
    let copy = f.dir.path().join("copy");
    let first = bring_copy(&f.place, &copy, None).unwrap();
    assert!(copy.join("src/a.rs").exists() && !copy.join("docs").exists());
    assert_eq!(f.git(&copy, &["status", "--porcelain"]), "");
    assert_eq!(f.git(&copy, &["grep", "-l", "text", "HEAD", "--", "docs/x"]), "HEAD:docs/x/b.md");
    git(&f, &["sparse-checkout", "add", "docs/x"]);
    bring_copy(&f.place, &copy, Some(&first)).unwrap();
    assert_eq!(fs::read_to_string(copy.join("docs/x/b.md")).unwrap(), "text\n");
    assert!(!copy.join("app").exists());
    assert_eq!(f.git(&copy, &["status", "--porcelain"]), "");
    // A command may have more in its copy, too.
    f.git(&copy, &["sparse-checkout", "add", "app"]);
    bring_copy(&f.place, &copy, None).unwrap();
    assert!(copy.join("app/other/page").exists());
    assert_eq!(f.git(&copy, &["status", "--porcelain"]), "");
}
