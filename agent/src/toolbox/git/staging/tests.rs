use std::fs;

use super::super::fixture::GitFixture;
use super::super::{
    commit_files, find_standing, find_surroundings, head_commit, keep_leftover, keep_work,
    prepare_worktree, push_branch, show_diff, snapshot_tree, take_back,
};
use super::*;
use crate::tool_args as args;

fn fixture(files: &[(&str, &str)]) -> GitFixture {
    let f = GitFixture::new();
    for (path, text) in files {
        f.commit_elsewhere(path, text);
    }
    prepare_worktree(&f.place).unwrap();
    f
}

fn git(f: &GitFixture, args: &[&str]) -> String {
    f.git(&f.place.tree(), args)
}

fn commit(f: &GitFixture, paths: Option<&[&str]>) -> Result<String, ToolError> {
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    let paths = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
    let args = args::GitCommit { message: "Change".to_owned(), paths };
    commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap())
}

fn committed(f: &GitFixture) -> String {
    git(f, &["show", "--name-only", "--format=", "HEAD"])
}

#[test]
fn what_was_staged_before_stays_staged_when_a_file_is_named() {
    let f = fixture(&[]);
    f.write(".env", "SECRET=1\n");
    f.write("notes.tmp", "mine\n");
    f.write("a.py", "a\n");
    git(&f, &["add", "-A"]);
    git(&f, &["rm", "-q", "--cached", "README"]);
    commit(&f, Some(&["a.py"])).unwrap();
    assert_eq!(committed(&f), "a.py");
    assert_eq!(git(&f, &["status", "--porcelain"]), "A  .env\nD  README\nA  notes.tmp\n?? README");
    // A file that is tracked no longer, and ignored, is taken out of the branch by its name.
    f.write(".gitignore", "target/\nREADME\n");
    commit(&f, Some(&["README", ".gitignore"])).unwrap();
    assert_eq!(committed(&f), ".gitignore\nREADME");
    assert_eq!(git(&f, &["status", "--porcelain"]), "A  .env\nA  notes.tmp");
}

#[test]
fn a_folder_by_name_takes_no_file_out_of_the_branch_that_is_there() {
    let f = fixture(&[("gen/a", "a\n"), ("gen/b", "b\n")]);
    f.write(".gitignore", "gen/*\n");
    git(&f, &["rm", "-rq", "--cached", "gen"]);
    let refused = commit(&f, Some(&["gen"])).unwrap_err().to_string();
    assert!(refused.contains("nothing to commit in `gen`"), "{refused}");
    assert_eq!(git(&f, &["diff", "--cached", "--name-status"]), "D\tgen/a\nD\tgen/b");
    f.write("gen/a", "new\n");
    fs::remove_file(f.place.tree().join("gen/b")).unwrap();
    commit(&f, Some(&["gen"])).unwrap();
    assert_eq!(git(&f, &["show", "--name-status", "--format="]), "M\tgen/a\nD\tgen/b");
    assert_eq!(git(&f, &["ls-files", "gen"]), "gen/a");
}

#[test]
fn what_only_git_ends_well_is_left_to_it() {
    let f = fixture(&[("a", "a\n")]);
    git(&f, &["checkout", "-q", "-b", "side"]);
    f.write("b", "b\n");
    git(&f, &["add", "b"]);
    git(&f, &["commit", "-qm", "Side"]);
    git(&f, &["checkout", "-q", &f.place.hello.branch]);
    f.write("a", "not committed\n");
    git(&f, &["merge", "-q", "--autostash", "--no-commit", "--no-ff", "side"]);
    let refused = commit(&f, None).unwrap_err().to_string();
    assert!(refused.contains("set changes aside"), "{refused}");
    git(&f, &["commit", "-qm", "Merge"]);
    assert_eq!(f.file("a"), "not committed\n");
    git(&f, &["revert", "--no-commit", "-m", "1", "HEAD"]);
    let refused = commit(&f, None).unwrap_err().to_string();
    assert!(refused.starts_with("a revert is in progress"), "{refused}");
}

#[test]
fn a_sparse_checkout_loses_nothing() {
    let f = fixture(&[("src/a.rs", "a\n"), ("docs/a.md", "a\n"), ("docs/b.md", "b\n")]);
    git(&f, &["sparse-checkout", "set", "--no-sparse-index", "src"]);
    assert!(!f.place.tree().join("docs").exists());
    assert_eq!(find_standing(&f.place, None).unwrap().uncommitted, [""; 0]);
    let tested = snapshot_tree(&f.place, &f.place.tree()).unwrap();
    assert_eq!(git(&f, &["rev-parse", "HEAD^{tree}"]), tested);
    let kept = keep_work(&f.place).unwrap();
    assert_eq!(git(&f, &["show", &format!("{}:docs/a.md", kept.name)]), "a");

    f.write("src/a.rs", "b\n");
    f.write("docs/new.md", "new\n");
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    let asked = args::GitDiff { base: Some("HEAD".to_owned()), path: None };
    let diff = show_diff(&f.place, &tree, &asked).unwrap();
    assert!(diff.starts_with("2 file(s) changed") && !diff.contains("docs/a.md"), "{diff}");
    assert_eq!(find_surroundings(&f.place).unwrap().uncommitted, 2);
    let said = commit(&f, None).unwrap();
    assert_eq!(committed(&f), "src/a.rs");
    assert!(said.contains("`docs/new.md` (outside of the sparse checkout"), "{said}");
    commit(&f, Some(&["docs/new.md"])).unwrap();
    assert_eq!(git(&f, &["ls-tree", "-r", "--name-only", "HEAD"]).lines().count(), 6);

    f.write("src/b.rs", "b\n");
    assert!(keep_leftover(&f.place, "Work").unwrap().committed);
    assert_eq!(committed(&f), "src/b.rs");
    take_back(&f.place, "Work").unwrap();
    assert_eq!(git(&f, &["status", "--porcelain"]), "?? src/b.rs");

    // Others change what is left out: the branch moves on all the same.
    fs::remove_file(f.place.tree().join("src/b.rs")).unwrap();
    push_branch(&f.place).unwrap();
    f.commit_elsewhere("docs/b.md", "theirs\n");
    let said = prepare_worktree(&f.place).unwrap();
    assert!(said.contains("moved on"), "{said}");
    assert_eq!(git(&f, &["status", "--porcelain"]), "");
    assert_eq!(git(&f, &["show", "HEAD:docs/b.md"]), "theirs");
}

#[test]
fn what_git_was_told_to_pass_over_is_left_alone_and_named() {
    let f = fixture(&[("local.cfg", "a\n"), ("skip.cfg", "a\n")]);
    git(&f, &["update-index", "--assume-unchanged", "local.cfg"]);
    git(&f, &["update-index", "--skip-worktree", "skip.cfg"]);
    for path in ["local.cfg", "skip.cfg", "README"] {
        f.write(path, "changed\n");
    }
    let said = commit(&f, None).unwrap();
    assert_eq!(committed(&f), "README");
    assert!(said.contains("`local.cfg` (Git was told to take it for unchanged"), "{said}");
    assert!(said.contains("`skip.cfg` (Git was told to skip it"), "{said}");
    let refused = commit(&f, Some(&["skip.cfg"])).unwrap_err().to_string();
    assert!(refused.contains("--no-skip-worktree"), "{refused}");
    commit(&f, Some(&["local.cfg"])).unwrap();
    assert_eq!(committed(&f), "local.cfg");
}

#[test]
fn what_is_only_meant_to_be_added_is_in_no_commit_of_another_file() {
    let f = fixture(&[]);
    f.write("later", "x\n");
    f.write("empty", "");
    git(&f, &["add", "-N", "later", "empty"]);
    f.write("README", "changed\n");
    commit(&f, Some(&["README"])).unwrap();
    assert_eq!(committed(&f), "README");
    let kept = keep_work(&f.place).unwrap();
    assert_eq!(
        git(&f, &["ls-tree", "--name-only", &format!("{}^2", kept.name)]),
        ".gitignore\nREADME"
    );
    commit(&f, None).unwrap();
    assert_eq!(committed(&f), "empty\nlater");
}

#[test]
fn an_index_that_cant_be_read_is_made_again_and_said() {
    type BreakIndex<'a> = &'a dyn Fn(&GitFixture);
    let broken: [(&str, BreakIndex<'_>); 5] = [
        ("split", &|f| drop(git(f, &["update-index", "--split-index"]))),
        ("sparse", &|f| drop(git(f, &["sparse-checkout", "set", "--sparse-index", "src"]))),
        ("damaged", &|f| fs::write(f.place.tree().join(".git/index"), "DIRC nothing").unwrap()),
        ("empty", &|f| fs::write(f.place.tree().join(".git/index"), "").unwrap()),
        ("missing", &|f| fs::remove_file(f.place.tree().join(".git/index")).unwrap()),
    ];
    for (name, break_it) in broken {
        let f = fixture(&[("src/a", "a\n"), ("docs/a", "a\n"), ("target/kept", "k\n")]);
        break_it(&f);
        f.write("src/a", "changed\n");
        let said = commit(&f, None).unwrap();
        assert!(
            said.contains("index could not be read") && said.contains("made again"),
            "{name}: {said}"
        );
        assert_eq!(committed(&f), "src/a", "{name}");
        assert_eq!(git(&f, &["status", "--porcelain"]), "", "{name}");
        break_it(&f);
        f.write("src/a", "again\n");
        let kept = keep_leftover(&f.place, "Work").unwrap();
        assert!(kept.committed && kept.notes.contains("made again"), "{name}: {kept:?}");
        assert_eq!(committed(&f), "src/a", "{name}");
        break_it(&f);
        let said = prepare_worktree(&f.place).unwrap();
        assert!(said.contains("made again"), "{name}: {said}");
        assert_eq!(find_standing(&f.place, None).unwrap().uncommitted, [""; 0], "{name}");
        for (text, is_said) in [("once more\n", true), ("and more\n", false)] {
            f.write("src/a", text);
            let said = commit(&f, None).unwrap();
            assert_eq!(said.contains("made again"), is_said, "once to the role: {name}: {said}");
        }
        break_it(&f);
        snapshot_tree(&f.place, &f.place.tree()).unwrap();
        f.write("src/a", "and again\n");
        let said = commit(&f, None).unwrap();
        assert!(said.contains("made again"), "by whoever can: {name}: {said}");
    }
}

#[test]
fn a_file_in_another_encoding_is_committed_as_git_would() {
    let f = GitFixture::new();
    f.commit_elsewhere(
        ".gitattributes",
        "*.ps1 text working-tree-encoding=UTF-16LE-BOM eol=crlf\n*.txt text working-tree-encoding=ISO-8859-1\n\
         *.jp working-tree-encoding=SHIFT-JIS\n",
    );
    let wide = |text: &str| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
    };
    f.commit_elsewhere("a.ps1", wide("grüße\r\n"));
    f.commit_elsewhere("b.txt", b"gr\xfc\xdfe\n");
    f.commit_elsewhere("c.jp", "ascii\n");
    prepare_worktree(&f.place).unwrap();
    let a = f.place.tree().join("a.ps1");
    assert!(fs::read(&a).unwrap().starts_with(b"\xff\xfeg\0r\0\xfc\0"));
    assert_eq!(fs::read(f.place.tree().join("b.txt")).unwrap(), b"gr\xfc\xdfe\n");
    assert_eq!(git(&f, &["status", "--porcelain"]), "");

    git(&f, &["checkout", "--", "."]);
    f.write("README", "changed\n");
    let said = commit(&f, None).unwrap();
    assert_eq!(committed(&f), "README", "{said}");
    assert_eq!(find_standing(&f.place, None).unwrap().uncommitted, [""; 0]);

    fs::write(&a, wide("tschüß\r\n")).unwrap();
    commit(&f, Some(&["a.ps1"])).unwrap();
    assert_eq!(git(&f, &["cat-file", "blob", "HEAD:a.ps1"]), "tschüß");
    assert_eq!(git(&f, &["status", "--porcelain"]), "");

    f.write("a.ps1", "no such encoding");
    f.write("README", "again\n");
    let said = commit(&f, None).unwrap();
    assert_eq!(committed(&f), "README");
    assert!(
        said.contains("`a.ps1` (.gitattributes says working-tree-encoding=UTF-16LE-BOM"),
        "{said}"
    );
    let refused = commit(&f, Some(&["a.ps1"])).unwrap_err().to_string();
    assert!(refused.contains("not committed: `a.ps1`"), "{refused}");
    git(&f, &["checkout", "--", "a.ps1"]);

    push_branch(&f.place).unwrap();
    f.commit_elsewhere("a.ps1", wide("neu\r\n"));
    let said = prepare_worktree(&f.place).unwrap();
    assert!(said.contains("moved on"), "{said}");
    assert!(fs::read(&a).unwrap().starts_with(b"\xff\xfen\0"));
    assert_eq!(git(&f, &["status", "--porcelain"]), "");
}

#[test]
fn a_file_that_a_filter_would_have_to_convert_is_left_to_git() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:\
                   9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0\nsize 3\n";
    let f = fixture(&[("a.png", pointer), ("vault", "cipher\n"), ("plain.nb", "x\n")]);
    f.write(".gitattributes", "*.png filter=lfs\nvault filter=git-crypt\n*.nb filter=unknown\n");
    commit(&f, None).unwrap();
    // A file with the content that Git LFS would have fetched is unchanged.
    f.write("a.png", "aaa");
    f.write("vault", "plain secret\n");
    f.write("plain.nb", "y\n");
    let said = commit(&f, None).unwrap();
    assert_eq!(committed(&f), "plain.nb", "no program is set up for that filter");
    assert!(said.contains("`vault` (.gitattributes says filter=git-crypt"), "{said}");
    assert!(!said.contains("a.png"), "{said}");
    f.write("a.png", "other");
    let refused = commit(&f, Some(&["a.png"])).unwrap_err().to_string();
    assert!(refused.contains("filter=lfs"), "{refused}");
    f.write("a.png", &pointer.replace("size 3", "size 4"));
    commit(&f, Some(&["a.png"])).unwrap();
}

#[test]
fn repositories_inside_the_worktree_are_recorded_and_said() {
    let f = fixture(&[]);
    git(&f, &["init", "-q", "sub"]);
    f.write("sub/own", "x\n");
    f.write("README", "changed\n");
    let said = commit(&f, None).unwrap();
    assert!(said.contains("`sub` (a repository of its own without a commit)"), "{said}");
    let sub = f.place.tree().join("sub");
    f.git(&sub, &["add", "-A"]);
    f.git(&sub, &["commit", "-qm", "Own"]);
    let said = commit(&f, None).unwrap();
    assert!(said.contains("only its commit is recorded"), "{said}");
    assert!(git(&f, &["ls-tree", "HEAD", "sub"]).starts_with("160000 commit"));
    let refused = commit(&f, Some(&["sub/own"])).unwrap_err().to_string();
    assert!(refused.contains("in the submodule `sub`"), "{refused}");
    // An empty folder, as a clone has it, is no change.
    fs::remove_dir_all(&sub).unwrap();
    fs::create_dir(&sub).unwrap();
    assert!(commit(&f, None).unwrap_err().to_string().contains("no file differs"));
}

#[test]
fn a_submodule_that_others_moved_on_is_not_moved_back() {
    let f = fixture(&[]);
    f.git(f.dir.path(), &["init", "-q", "module"]);
    let module = f.dir.path().join("module");
    f.git(&module, &["commit", "-q", "--allow-empty", "-m", "One"]);
    let allow = ["-c", "protocol.file.allow=always", "submodule"];
    let add = ["add", "-q", module.to_str().unwrap(), "lib"];
    git(&f, &[&allow[..], &add].concat());
    commit(&f, None).unwrap();
    let was = git(&f, &["rev-parse", "HEAD:lib"]);
    f.git(&module, &["commit", "-q", "--allow-empty", "-m", "Two"]);
    let moved = f.git(&module, &["rev-parse", "HEAD"]);
    // As after a merge of what somebody else recorded.
    git(&f, &["update-index", "--cacheinfo", &format!("160000,{moved},lib")]);
    git(&f, &["commit", "-qm", "Take the newest lib"]);
    f.write("own", "1\n");
    let said = commit(&f, None).unwrap();
    assert_eq!((committed(&f), git(&f, &["rev-parse", "HEAD:lib"])), ("own".into(), moved.clone()));
    assert!(said.contains("`lib` (a submodule that does not have the commit"), "{said}");
    f.write("own", "2\n");
    let kept = keep_leftover(&f.place, "Work").unwrap();
    assert!(kept.left.contains("`lib`") && committed(&f) == "own", "{}", kept.left);
    // What is named is meant, and where the commit is, Git's own way counts.
    commit(&f, Some(&["lib"])).unwrap();
    assert_eq!(git(&f, &["rev-parse", "HEAD:lib"]), was);
    git(&f, &["reset", "-q", "--hard", "HEAD~1"]);
    git(&f, &[&allow[..], &["update", "-q", "lib"]].concat());
    assert!(commit(&f, None).unwrap_err().to_string().contains("no file differs"));
}

#[test]
fn hooks_and_words_that_switch_off_ci_are_said() {
    let f = fixture(&[]);
    f.write(".husky/pre-commit", "exit 1\n");
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    let args =
        args::GitCommit { message: "Say hello [skip ci]\n\nskip-checks: true".into(), paths: None };
    let parent = head_commit(&f.place).unwrap();
    let said = commit_files(&f.place, &tree, &args, &parent).unwrap();
    assert!(said.contains("hooks were not run (`.husky/pre-commit`)"), "{said}");
    assert!(said.contains("would switch off CI"), "{said}");
    let message = git(&f, &["log", "-1", "--format=%B"]);
    assert!(!message.contains("[skip ci]") && !message.contains("skip-checks"), "{message}");
    assert_eq!(message.replace('\u{200b}', ""), args.message);
    assert_eq!(
        commit_files(&f.place, &tree, &args, &parent).unwrap().lines().next(),
        said.lines().next()
    );
}
