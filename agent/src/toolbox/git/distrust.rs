//! Tests that nothing is believed that commands write into a repository: objects that are gone, forged histories,
//! other branches' names.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::fixture::GitFixture;
use super::*;
use crate::toolbox::protocol::ToolboxReply;

/// The base branch has a guide, skills and a policy; every object lies loose.
fn fixture() -> GitFixture {
    let f = GitFixture::new();
    f.merge(&[
        (".codebutler/pm.md", "Ours.\n"),
        (".codebutler/policy.json", "{}"),
        (".codebutler/skills/a.md", "# a"),
        (".codebutler/research/a.md", "# Found\n"),
        ("AGENTS.md", "Use tabs.\n"),
    ]);
    prepare_worktree(&f.place).unwrap();
    let git = f.place.tree().join(".git");
    let packs = git.join("objects/pack");
    let away = f.dir.path().join("packs");
    fs::rename(&packs, &away).unwrap();
    fs::create_dir(&packs).unwrap();
    for pack in fs::read_dir(&away).unwrap().flatten() {
        if pack.path().extension().is_some_and(|end| end == "pack") {
            let mut unpack = Command::new("git");
            unpack.args(["unpack-objects", "-q"]).current_dir(f.place.tree());
            let file = File::open(pack.path()).unwrap();
            assert!(unpack.stdin(file).status().unwrap().success());
        }
    }
    f
}

fn object(f: &GitFixture, name: &str) -> String {
    f.git(&f.place.tree(), &["rev-parse", name])
}

fn remove_object(f: &GitFixture, name: &str) {
    let id = object(f, name);
    let (folder, file) = id.split_at(2);
    fs::remove_file(f.place.tree().join(".git/objects").join(folder).join(file)).unwrap();
}

/// A commit of a command's own, with its own word in every guide.
fn forged_commit(f: &GitFixture) -> String {
    let tree = f.place.tree();
    for file in ["pm.md", "skills/a.md", "research/a.md"] {
        f.write(&format!(".codebutler/{file}"), "CANARY");
    }
    f.write(".codebutler/policy.json", r#"{"safe": ["CANARY"]}"#);
    f.git(&tree, &["add", "-f", "."]);
    f.git(&tree, &["commit", "-q", "-m", "Mine"]);
    object(f, "HEAD")
}

fn remote_away(f: &GitFixture) {
    fs::rename(f.dir.path().join("remote.git"), f.dir.path().join("away.git")).unwrap();
}

fn everything(f: &GitFixture) -> Vec<Result<String, ToolError>> {
    let shown = |reply: &ToolboxReply| format!("{reply:?}");
    vec![
        usable_guide(&f.place, "pm.md").map(|reply| shown(&reply)),
        usable_guide(&f.place, "policy.json").map(|reply| shown(&reply)),
        read_skills(&f.place).map(|found| format!("{found:?}")),
        known_research(&f.place).map(|found| format!("{found:?}")),
        read_conventions(&f.place, &[]).map(|found| format!("{found:?}")),
    ]
}

#[test]
fn a_missing_object_is_an_error_and_no_forged_history_is_followed() {
    for forge in ["grafts", "shallow", "commit-graph"] {
        let f = fixture();
        let base = object(&f, "origin/main");
        let forged = forged_commit(&f);
        let git = f.place.tree().join(".git");
        for name in [
            "origin/main:.codebutler/pm.md",
            "origin/main:.codebutler/policy.json",
            "origin/main:.codebutler/skills/a.md",
            "origin/main:.codebutler/research/a.md",
            "origin/main:AGENTS.md",
        ] {
            remove_object(&f, name);
        }
        match forge {
            "grafts" => fs::write(git.join("info/grafts"), format!("{base} {forged}\n")).unwrap(),
            "shallow" => fs::write(git.join("shallow"), format!("{base}\n")).unwrap(),
            _ => {
                fs::write(git.join("info/grafts"), format!("{base} {forged}\n")).unwrap();
                let mut write = Command::new("git");
                write.args(["commit-graph", "write", "--reachable"]);
                let _ = write.current_dir(f.place.tree()).output();
            }
        }
        // The remote still has it all.
        for said in everything(&f) {
            assert!(!said.unwrap().contains("CANARY"), "{forge}");
        }
        assert!(format!("{:?}", usable_guide(&f.place, "pm.md")).contains("Ours."), "{forge}");
    }
}

#[test]
fn what_can_not_be_had_again_is_a_failure_and_never_no_file() {
    for name in [
        "origin/main:.codebutler",
        "origin/main:.codebutler/skills",
        "origin/main^{tree}",
        "origin/main",
    ] {
        let f = fixture();
        remove_object(&f, name);
        remote_away(&f);
        let failed = |said: &Result<String, ToolError>| matches!(said, Err(ToolError::Failed(_)));
        let said = everything(&f);
        let lost: Vec<bool> = said.iter().map(failed).collect();
        match name {
            "origin/main:.codebutler" => assert_eq!(lost, [true, true, true, true, false]),
            "origin/main:.codebutler/skills" => {
                assert_eq!(lost, [false, false, true, false, false]);
            }
            _ => assert_eq!(lost, [true; 5], "{name}: {said:?}"),
        }
        let memory = read_memory(&f.place, None);
        assert!(matches!(memory, Err(ToolError::Failed(_))), "{name}: {memory:?}");
    }
}

#[test]
fn forged_parents_hide_no_work_and_no_file_from_the_plan() {
    let f = fixture();
    f.write("beside.rs", "fn beside() {}\n");
    let tree = f.place.tree();
    f.git(&tree, &["add", "."]);
    f.git(&tree, &["commit", "-q", "-m", "Beside the plan"]);
    let own = object(&f, "HEAD");
    // The own commit looks as if it had no parents.
    fs::write(tree.join(".git/shallow"), format!("{own}\n")).unwrap();
    assert_eq!(touched_files(&f.place).unwrap(), ["beside.rs"]);
    assert!(keep_leftover(&f.place, "Work in progress").unwrap().unpushed);
    fs::remove_file(tree.join(".git/shallow")).unwrap();
    // The remote's commit looks as if it had the own one among its ancestors.
    let remote = object(&f, "origin/codebutler/t");
    fs::write(tree.join(".git/info/grafts"), format!("{remote} {own}\n")).unwrap();
    for said in [
        touched_files(&f.place).unwrap_err(),
        keep_leftover(&f.place, "Work in progress").unwrap_err(),
        push_branch(&f.place).unwrap_err(),
    ] {
        assert!(said.to_string().contains("`.git/info/grafts`"), "{said}");
    }
    assert!(prepare_worktree(&f.place).unwrap().contains(".git/info/grafts"));
    assert!(keep_leftover(&f.place, "Work in progress").unwrap().unpushed);
    let pushed = push_branch(&f.place).unwrap();
    assert!(matches!(&pushed, PushOutcome::Done(said) if said.starts_with("Pushed")), "{pushed:?}");
    assert_eq!(f.remote_tip(), own);
}

#[test]
fn a_branch_whose_name_is_no_text_stops_nothing() {
    let f = GitFixture::new();
    prepare_worktree(&f.place).unwrap();
    let refs = f.dir.path().join("remote.git/refs/heads");
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"caf\xe9");
    fs::copy(refs.join("main"), refs.join(Path::new(name))).unwrap();
    prepare_worktree(&f.place).unwrap();
    assert_eq!(read_name(|| "refs/heads/main".to_owned()).as_deref(), Some("refs/heads/main"));
}
