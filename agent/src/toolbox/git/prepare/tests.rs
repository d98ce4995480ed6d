use super::super::fixture::GitFixture;
use super::super::unclaimed::{is_unclaimed, note_set_up};
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

/// A clone that waits for a thread; the commit that it and the remote's base branch are at.
fn waiting_clone(f: &mut GitFixture) -> String {
    let thread = std::mem::replace(&mut f.place.hello.branch, "main".to_owned());
    prepare_base(&f.place).unwrap();
    f.place.hello.branch = thread;
    f.git(&f.place.tree(), &["rev-parse", "HEAD"])
}

/// Without a remote no fetch succeeds; a clone at the commit that the branch was made at needs none.
#[test]
fn a_clone_at_the_commit_of_a_new_branch_is_taken_without_a_fetch() {
    let mut f = GitFixture::new();
    let at = waiting_clone(&mut f);
    let (remote, away) = (f.dir.path().join("remote.git"), f.dir.path().join("away.git"));
    fs::rename(&remote, &away).unwrap();
    let said = begin_worktree(&f.place, Some(&at)).unwrap();
    assert!(said.starts_with("codebutler/t is at "), "{said}");
    let of = |name: &str| f.git(&f.place.tree(), &["rev-parse", name]);
    assert_eq!(f.git(&f.place.tree(), &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
    assert_eq!(
        (of("HEAD"), of("origin/codebutler/t"), of("origin/main")),
        (at.clone(), at.clone(), at.clone())
    );
    assert_eq!(of("refs/codebutler/remote/codebutler/t"), at);
    assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "");
    let told = super::super::find_surroundings(&f.place).unwrap();
    assert_eq!(told.apart, (0, 0));

    // It works on as any other.
    fs::rename(&away, &remote).unwrap();
    f.write("a", "1\n");
    assert!(super::super::keep_leftover(&f.place, "Work").unwrap().unpushed);
    super::super::push_branch(&f.place).unwrap();
    assert_eq!(f.git(&remote, &["show", "codebutler/t:a"]), "1");
    assert!(prepare_worktree(&f.place).unwrap().starts_with("codebutler/t is at "));
}

#[test]
fn a_clone_elsewhere_and_a_branch_that_was_there_are_fetched() {
    // The base branch has moved on since the clone, and the thread's branch began there.
    let mut behind = GitFixture::new();
    waiting_clone(&mut behind);
    behind.merge(&[("new.txt", "merged\n")]);
    let remote = behind.dir.path().join("remote.git");
    behind.git(&remote, &["branch", "-qf", "codebutler/t", "main"]);
    let at = behind.git(&remote, &["rev-parse", "main"]);
    begin_worktree(&behind.place, Some(&at)).unwrap();
    assert_eq!(behind.file("new.txt"), "merged\n");
    assert_eq!(behind.git(&behind.place.tree(), &["rev-parse", "origin/main"]), at);

    // Nobody has made the branch now: it has work already.
    let mut known = GitFixture::new();
    waiting_clone(&mut known);
    known.commit_elsewhere("README", "second\n");
    begin_worktree(&known.place, None).unwrap();
    assert_eq!(known.file("README"), "second\n");

    // And a clone is new once: what a thread has worked in hears of the remote.
    let mut taken = GitFixture::new();
    let at = waiting_clone(&mut taken);
    begin_worktree(&taken.place, Some(&at)).unwrap();
    taken.commit_elsewhere("README", "second\n");
    begin_worktree(&taken.place, Some(&at)).unwrap();
    assert_eq!(taken.file("README"), "second\n");
    let mut odd = GitFixture::new();
    waiting_clone(&mut odd);
    assert!(begin_worktree(&odd.place, Some("no commit")).is_ok());
}

/// A clone that waits for a thread and in which a set-up has run, at the commit that is answered: it has made a file,
/// and how it ended is kept.
fn set_up_clone(f: &mut GitFixture) -> String {
    let at = waiting_clone(f);
    note_set_up(&f.place).unwrap();
    f.write("deps/lib", "installed\n");
    fs::write(f.place.work.join(".setup.json"), "{}").unwrap();
    at
}

fn follow(f: &mut GitFixture) -> String {
    let thread = std::mem::replace(&mut f.place.hello.branch, "main".to_owned());
    let said = prepare_base(&f.place);
    f.place.hello.branch = thread;
    said.unwrap()
}

fn has_set_up(f: &GitFixture) -> bool {
    let (made, kept) = (f.place.tree().join("deps/lib"), f.place.work.join(".setup.json"));
    assert_eq!(made.exists(), kept.exists(), "what was made, and that it was");
    made.exists()
}

#[test]
fn what_a_set_up_has_made_is_there_for_the_thread_that_takes_the_clone() {
    for moves in [false, true] {
        let mut f = GitFixture::new();
        let at = set_up_clone(&mut f);
        assert!(follow(&mut f).starts_with("main is at "));
        if moves {
            f.merge(&[("new.txt", "merged\n")]);
            assert!(follow(&mut f).starts_with("main moved on to "));
            f.merge(&[("newer.txt", "merged\n")]);
            let remote = f.dir.path().join("remote.git");
            f.git(&remote, &["branch", "-qf", "codebutler/t", "main"]);
        }
        assert!(is_unclaimed(&f.place) && has_set_up(&f));
        let said = begin_worktree(&f.place, Some(&at)).unwrap();
        assert!(said.starts_with("codebutler/t is at "), "{said}");
        assert!(has_set_up(&f) && !is_unclaimed(&f.place));
        assert_eq!(f.place.tree().join("newer.txt").exists(), moves);
        let tree = f.place.tree();
        assert_eq!(f.git(&tree, &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
        assert_eq!(f.git(&tree, &["status", "--porcelain"]), "?? deps/");
        let upstream = f.git(&tree, &["rev-parse", "--abbrev-ref", "@{u}"]);
        assert_eq!(upstream, "origin/codebutler/t");

        // It works on as any other.
        assert!(note_set_up(&f.place).is_err(), "nothing is set up for nobody any more");
        f.commit_elsewhere("README", "second\n");
        prepare_worktree(&f.place).unwrap();
        assert_eq!(f.file("README"), "second\n");
        assert!(has_set_up(&f));
    }
}

/// Changes that a set-up makes to the clone that it runs in.
type Mischief = fn(&GitFixture);

#[test]
fn a_clone_that_is_not_as_it_should_be_after_a_set_up_is_made_anew() {
    let mischief: [(&str, Mischief); 5] = [
        ("in the way", |f| f.write("new.txt", "mine\n")),
        ("a commit", |f| {
            drop(f.git(&f.place.tree(), &["commit", "-q", "--allow-empty", "-m", "Mine"]));
        }),
        ("a branch", |f| drop(f.git(&f.place.tree(), &["checkout", "-q", "-b", "mine"]))),
        ("no repository", |f| fs::remove_dir_all(f.place.tree().join(".git")).unwrap()),
        ("another place", |f| {
            drop(f.git(&f.place.tree(), &["config", "core.worktree", "/nonexistent"]));
        }),
    ];
    for (what, change) in mischief {
        for waits in [true, false] {
            let mut f = GitFixture::new();
            set_up_clone(&mut f);
            change(&f);
            f.merge(&[("new.txt", "merged\n")]);
            let remote = f.dir.path().join("remote.git");
            f.git(&remote, &["branch", "-qf", "codebutler/t", "main"]);
            if waits {
                assert!(follow(&mut f).starts_with("cloned main at "), "{what}");
                assert!(is_unclaimed(&f.place) && !has_set_up(&f), "{what}");
            }
            prepare_worktree(&f.place).unwrap();
            let tree = f.place.tree();
            assert_eq!((f.file("new.txt").as_str(), has_set_up(&f)), ("merged\n", false), "{what}");
            assert_eq!(f.git(&tree, &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
            assert_eq!(f.git(&tree, &["status", "--porcelain"]), "", "{what}");
            assert!(!is_unclaimed(&f.place), "{what}");
        }
    }
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

    // The state after a kill between the writes of files and branch.
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
        assert_eq!(f.git(&f.place.tree(), &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
        assert_eq!((f.file("base"), f.place.tree().join("lost").exists()), ("1\n".into(), false));
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

#[test]
fn commits_that_the_branch_lacks_are_kept_and_told() {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    let tree = f.place.tree();
    let commit = |path: &str| {
        f.write(path, "1\n");
        f.git(&tree, &["add", path]);
        f.git(&tree, &["commit", "-qm", "Alone"]);
        f.git(&tree, &["rev-parse", "HEAD"])
    };
    let told = || {
        prepare_worktree(&f.place).unwrap();
        assert_eq!(f.git(&tree, &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
        assert_eq!(f.git(&tree, &["status", "--porcelain"]), "");
        super::super::find_surroundings(&f.place).unwrap().branch
    };
    f.git(&tree, &["checkout", "-q", "--detach"]);
    assert_eq!(told(), "");
    f.git(&tree, &["checkout", "-q", "--detach"]);
    let alone = commit("a");
    let said = told();
    let kept = || f.git(&tree, &["for-each-ref", "--format=%(objectname)", "refs/codebutler/kept"]);
    assert_eq!(kept(), alone);
    assert!(said.contains("on no branch") && said.contains("refs/codebutler/kept/"), "{said}");
    // A branch of its own needs no other reference.
    f.git(&tree, &["checkout", "-q", "-b", "fix"]);
    commit("b");
    let said = told();
    assert!(said.contains("on no branch") && said.contains("HEAD was on `fix`"), "{said}");
    assert_eq!(kept(), alone);
    assert_eq!(told(), said, "nothing is told twice");
}

#[test]
fn a_rebase_that_is_under_way_keeps_its_head() {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    let tree = f.place.tree();
    f.write("a", "1\n");
    f.git(&tree, &["add", "a"]);
    f.git(&tree, &["commit", "-qm", "One"]);
    let edit = "sequence.editor=sed -i s/^pick/edit/";
    f.git(&tree, &["-c", edit, "rebase", "-q", "-i", "HEAD~1"]);
    f.git(&tree, &["commit", "-q", "--amend", "-m", "Reworded"]);
    let at = f.git(&tree, &["rev-parse", "HEAD"]);
    let said = prepare_worktree(&f.place).unwrap();
    assert!(said.contains("left as it is: a rebase is in progress"), "{said}");
    assert_eq!(f.git(&tree, &["rev-parse", "HEAD"]), at);
    f.git(&tree, &["rebase", "--continue"]);
    assert_eq!(f.git(&tree, &["log", "-1", "--format=%s", "codebutler/t"]), "Reworded");
    assert!(prepare_worktree(&f.place).unwrap().starts_with("codebutler/t is at "));
}

#[test]
fn from_a_branch_without_a_commit_the_way_back_overwrites_nothing() {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    let tree = f.place.tree();
    let on_branch = || {
        assert_eq!(f.git(&tree, &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
        assert_eq!(f.git(&tree, &["status", "--porcelain"]), "");
    };
    f.git(&tree, &["checkout", "-q", "--orphan", "pages"]);
    prepare_worktree(&f.place).unwrap();
    on_branch();
    f.git(&tree, &["checkout", "-q", "--orphan", "pages"]);
    f.git(&tree, &["rm", "-qrf", "."]);
    f.write("README", "a page\n");
    let said = prepare_worktree(&f.place).unwrap();
    assert!(said.contains("left as it is: README would be overwritten"), "{said}");
    assert_eq!(f.file("README"), "a page\n");
    fs::remove_file(tree.join("README")).unwrap();
    prepare_worktree(&f.place).unwrap();
    on_branch();
    assert_eq!(f.file("README"), "hello\n");
}

#[test]
fn a_commit_without_its_history_keeps_no_run_from_beginning() {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    let tree = f.place.tree();
    let files = f.git(&tree, &["rev-parse", "HEAD^{tree}"]);
    let by = "A <a@example.org> 1 +0000";
    let parent = "1".repeat(40);
    let text =
        format!("tree {files}\nparent {parent}\nauthor {by}\ncommitter {by}\n\nFetched alone\n");
    let path = f.dir.path().join("commit");
    fs::write(&path, text).unwrap();
    let alone = f.git(&tree, &["hash-object", "-t", "commit", "-w", path.to_str().unwrap()]);
    // As after `git fetch --depth 1`.
    fs::write(tree.join(".git/shallow"), format!("{alone}\n")).unwrap();
    f.git(&tree, &["checkout", "-q", "--detach", &alone]);
    prepare_worktree(&f.place).unwrap();
    assert_eq!(f.git(&tree, &["symbolic-ref", "HEAD"]), "refs/heads/codebutler/t");
    let kept = ["for-each-ref", "--format=%(objectname)", "refs/codebutler/kept"];
    assert_eq!(f.git(&tree, &kept), alone);
}
