mod forms;
mod property;

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::toolbox::protocol::ToolboxReply;

struct Place {
    dir: tempfile::TempDir,
    tree: WorktreeRoot,
    seen: SeenFiles,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    let tree = WorktreeRoot::open(&dir.path().join("tree")).unwrap();
    Place { dir, tree, seen: SeenFiles::default() }
}

impl Place {
    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::write(self.tree.root().join(path), content).unwrap();
    }
    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.tree.root().join(path)).unwrap()
    }
    fn read(
        &self,
        path: &str,
        offset: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, ToolError> {
        let args = args::ReadArgs { path: path.into(), offset, limit, ..args::ReadArgs::default() };
        match read_file(&self.tree, &self.seen, &args)? {
            FileRead::Shown(reply) => match *reply {
                ToolboxReply::Text(text) => Ok(text),
                other => panic!("{other:?}"),
            },
            FileRead::Document(place) => panic!("{} is a document", place.at.shown),
        }
    }
    fn write(&self, path: &str, content: &str) -> Result<String, ToolError> {
        let args = args::WriteArgs { path: path.into(), content: content.into() };
        write_file(&self.tree, &self.seen, self.dir.path(), &args)
    }
    fn edit(&self, path: &str, edits: &[(&str, &str)]) -> Result<String, ToolError> {
        let args = edits_of(path, edits);
        let plan = plan_edit(&self.tree, &self.seen, &args)?;
        edit_files(&self.tree, &self.seen, self.dir.path(), &args, &plan)
    }
}

fn edits_of(path: &str, edits: &[(&str, &str)]) -> args::EditArgs {
    let edit = |(old, new): &(&str, &str)| args::EditReplacement {
        old: (*old).into(),
        new: (*new).into(),
        all: false,
    };
    args::EditArgs { path: path.into(), edits: edits.iter().map(edit).collect(), patch: None }
}

fn why<T: std::fmt::Debug>(result: Result<T, ToolError>) -> String {
    match result.unwrap_err() {
        ToolError::Refused(why) => why,
        ToolError::Failed(why) => panic!("failed: {why}"),
    }
}

#[test]
fn read_numbers_lines_and_says_where_the_rest_is() {
    let place = place();
    place.put("a.txt", "one\ntwo\nthree\nfour\n");
    assert_eq!(
        place.read("a.txt", None, None).unwrap(),
        "     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour\n"
    );
    assert_eq!(
        place.read("a.txt", Some(2), Some(2)).unwrap(),
        "     2\ttwo\n     3\tthree\n(lines 2 to 3 of 4; read on with offset 4)\n"
    );
    assert!(why(place.read("a.txt", Some(5), None)).contains("only 4 lines"));
    place.put("many.txt", format!("{}\n", "y".repeat(90)).repeat(3000));
    let many = place.read("many.txt", None, None).unwrap();
    assert!(many.len() < MAX_TEXT + 300, "{}", many.len());
    assert!(many.contains("read on with offset"), "{}", &many[many.len() - 100..]);
    place.put("binary", b"\x7fELF\0\0");
    assert!(why(place.read("binary", None, None)).contains("binary"));
    assert!(why(place.read(".", None, None)).contains("folder"));
    assert!(why(place.read("nothing", None, None)).contains("does not exist"));
}

#[test]
fn pictures_are_shown_and_notebooks_told() {
    let place = place();
    place.put("a.png", b"\x89PNG\r\n\x1a\n\0\0rest");
    let args = |path: &str| args::ReadArgs { path: path.into(), ..args::ReadArgs::default() };
    let FileRead::Shown(reply) = read_file(&place.tree, &place.seen, &args("a.png")).unwrap()
    else {
        panic!()
    };
    let ToolboxReply::Picture(picture) = *reply else { panic!() };
    assert_eq!((&*picture.media_type, &*picture.shown), ("image/png", "a.png"));
    let mut large = b"\xff\xd8\xff".to_vec();
    large.resize(4 * 1024 * 1024, 0);
    place.put("b.jpg", &large);
    let damaged = why(read_file(&place.tree, &place.seen, &args("b.jpg")));
    assert!(damaged.contains("can't be shown smaller"), "{damaged}");
    place.put("n.ipynb", "{\"cells\": [{\"cell_type\": \"code\", \"source\": \"1 + 1\"}]}\n");
    let told = place.read("n.ipynb", None, None).unwrap();
    assert!(told.contains("\t1 + 1\n") && told.starts_with("(a notebook"), "{told}");
    // An invalid notebook is shown as plain text.
    place.put("m.ipynb", "not JSON");
    assert!(place.read("m.ipynb", None, None).unwrap().contains("\tnot JSON"));
}

#[test]
fn the_source_of_a_rich_text_or_a_mail_is_named_with_the_way_to_its_words() {
    let place = place();
    let told = |path: &str, content: &str| {
        place.put(path, content);
        place.read(path, None, None).unwrap()
    };
    let rich = told("letter.rtf", "{\\rtf1\\ansi Hello}\n");
    assert!(rich.starts_with("(the source of a rich text file (RTF)"), "{rich}");
    assert!(rich.contains("ask for a .docx") && rich.contains("Hello"), "{rich}");
    let part = "Content-Type: application/pdf\r\ncontent-transfer-encoding: BASE64\r\n\r\nJVBE\r\n";
    let mail = told("alert.EML", part);
    assert!(mail.contains("(the source of a mail with parts in base64"), "{mail}");
    for (path, content) in [("plain.eml", "Subject: x\n\nHello\n"), ("a.txt", part)] {
        assert!(!told(path, content).contains("the source of"), "{path}");
    }
}

#[test]
fn a_file_of_one_character_can_be_edited() {
    let place = place();
    place.put("n", "1\n");
    place.read("n", None, None).unwrap();
    place.edit("n", &[("1", "2")]).unwrap();
    assert_eq!(place.content("n"), "2\n");
}

#[test]
fn an_edit_needs_a_read_and_an_unchanged_file() {
    let place = place();
    place.put("a.rs", "fn a() {}\nfn b() {}\n");
    assert!(why(place.edit("a.rs", &[("fn a", "fn c")])).contains("read `a.rs` first"));
    place.read("a.rs", None, Some(1)).unwrap();
    place.put("a.rs", "fn a() {}\nfn b() { }\n");
    assert!(why(place.edit("a.rs", &[("fn a", "fn c")])).contains("changed since"));
    place.read("a.rs", None, None).unwrap();
    place.edit("a.rs", &[("fn a", "fn c"), ("fn c() {}", "fn c() { 1 }")]).unwrap();
    // Own writes and edits count as read.
    place.edit("a.rs", &[("fn b", "fn d")]).unwrap();
    assert_eq!(place.content("a.rs"), "fn c() { 1 }\nfn d() { }\n");
}

#[test]
fn an_edit_is_exact_unique_and_all_or_nothing() {
    let place = place();
    place.write("a.txt", "same\nsame\nother\n").unwrap();
    assert!(why(place.edit("a.txt", &[("same", "x")])).contains("2 times"));
    assert!(why(place.edit("a.txt", &[("other", "x"), ("Other", "y")])).contains("does not occur"));
    assert!(why(place.edit("a.txt", &[("", "x")])).contains("empty"));
    assert!(why(place.edit("a.txt", &[("same", "same")])).contains("same"));
    assert!(why(place.edit("a.txt", &[])).contains("empty"));
    assert_eq!(place.content("a.txt"), "same\nsame\nother\n");
    // Places may share a line.
    place.write("b.txt", "}\n}\n}\n").unwrap();
    let refused = why(place.edit("b.txt", &[("}\n}\n", "};\n")]));
    assert!(refused.contains("2 times in `b.txt` (lines 1, 2)"), "{refused}");
    // All of them would be the first one.
    assert!(refused.contains("share lines") && !refused.contains("all: true"), "{refused}");
}

#[test]
fn a_planned_edit_can_be_repeated_after_a_crash() {
    let place = place();
    place.write("a.txt", "1\n").unwrap();
    let args = edits_of("a.txt", &[("1", "2 1")]);
    let plan = plan_edit(&place.tree, &place.seen, &args).unwrap();
    for _ in 0..2 {
        let nothing_seen = SeenFiles::default();
        edit_files(&place.tree, &nothing_seen, place.dir.path(), &args, &plan).unwrap();
        assert_eq!(place.content("a.txt"), "2 1\n");
    }
    place.put("a.txt", "3\n");
    assert!(
        why(edit_files(&place.tree, &place.seen, place.dir.path(), &args, &plan))
            .contains("meanwhile")
    );
}

#[test]
fn what_was_read_may_be_edited_after_a_restart() {
    let place = place();
    place.put("a.txt", "one\n");
    let kept = place.dir.path().join("seen.json");
    let first = args::ReadArgs { path: "a.txt".into(), ..args::ReadArgs::default() };
    read_file(&place.tree, &SeenFiles::kept_in(kept.clone()), &first).unwrap();
    let edit = edits_of("a.txt", &[("one", "two")]);
    assert!(plan_edit(&place.tree, &SeenFiles::default(), &edit).is_err());
    plan_edit(&place.tree, &SeenFiles::kept_in(kept.clone()), &edit).unwrap();
    fs::write(&kept, "{torn").unwrap();
    assert!(plan_edit(&place.tree, &SeenFiles::kept_in(kept), &edit).is_err());
}

#[test]
fn write_makes_folders_keeps_modes_and_leaves_no_scratch() {
    let place = place();
    assert!(place.write("x/y/z.sh", "#!/bin/sh\n").unwrap().starts_with("Created"));
    let path = place.tree.root().join("x/y/z.sh");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    assert!(place.write("x/y/z.sh", "#!/bin/bash\n").unwrap().starts_with("Wrote"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 1);
    assert!(why(place.write("x", "a")).contains("folder"));
    assert!(why(place.write(".git/config", "a")).contains(".git"));
}

#[test]
fn a_new_name_that_differs_in_case_alone_is_said() {
    let place = place();
    place.put("README.md", "a\n");
    let said = place.write("readme.md", "b\n").unwrap();
    assert!(said.contains("`README.md` is there already"), "{said}");
    let said = place.write("readme.md", "c\n").unwrap();
    assert!(!said.contains("there already"), "it is not new: {said}");
    fs::create_dir(place.tree.root().join("src")).unwrap();
    let said = place.write("Src/a.rs", "x\n").unwrap();
    assert!(said.contains("`src` is there already"), "{said}");
    let said = place.write("src/b.rs", "x\n").unwrap();
    assert!(!said.contains("there already"), "{said}");
}

#[test]
fn a_missing_file_is_answered_with_what_is_called_alike() {
    let place = place();
    for path in ["src/clock.rs", "src/report/mod.rs", "docs/clock.md", "tests/Clock.rs"] {
        place.write(path, "x").unwrap();
    }
    let missing = |path: &str| why(place.read(path, None, None));
    assert_eq!(
        missing("lib/src/clock.rs"),
        "`lib/src/clock.rs` does not exist; there is `src/clock.rs`, `tests/Clock.rs`, `docs/clock.md`"
    );
    assert_eq!(missing("src/clok.rs").matches("there is `src/clock.rs`").count(), 1);
    assert_eq!(missing("zebra"), "`zebra` does not exist: look for it with Glob");
    assert!(why(place.edit("src/clocks.rs", &[("a", "b")])).contains("`src/clock.rs`"));
}

#[test]
fn an_edit_that_almost_fits_is_told_where() {
    let place = place();
    place.write("a.rs", "fn a() {\n\tone();\n\ttwo();\n}\nfn b() {\n}\n").unwrap();
    let refused = |old: &str| why(place.edit("a.rs", &[(old, "x")]));
    assert!(refused("    one();\n    two();\n").contains("lines 2 to 3 differ from it only in"));
    assert!(refused("fn  b()").contains("line 5 differs from it only in whitespace"));
    assert!(refused("fn a() {\n\tthree();\n").contains("its first line is line 1"));
    assert!(refused("nowhere").contains("line numbers are not part"));
    assert!(refused("fn ").contains("occurs 2 times in `a.rs` (lines 1, 5)"));
    assert!(why(place.edit("a.rs", &[("\n \n", "x")])).contains("does not occur"));
}

#[test]
fn line_ends_are_those_of_the_file() {
    let place = place();
    place.write("dos.txt", "one\r\ntwo\r\nthree\r\n").unwrap();
    place.edit("dos.txt", &[("one\ntwo\n", "1\n2\n"), ("three\r\n", "3\r\n")]).unwrap();
    assert_eq!(place.content("dos.txt"), "1\r\n2\r\n3\r\n");
}

#[test]
fn an_edit_shows_its_places_replaces_all_and_takes_the_one_place_that_almost_fits() {
    let place = place();
    place.put("a.py", "def f(x):\n    y = x \n    return y\n\n\n\n\n\n\nf(1)\nf(2)\n");
    place.read("a.py", None, None).unwrap();
    let mut args = edits_of("a.py", &[("f(", "g(")]);
    let refused = why(plan_edit(&place.tree, &place.seen, &args));
    assert!(refused.contains("occurs 3 times") && refused.contains("all: true"), "{refused}");
    args.edits[0].all = true;
    let plan = plan_edit(&place.tree, &place.seen, &args).unwrap();
    let told = edit_files(&place.tree, &place.seen, place.dir.path(), &args, &plan).unwrap();
    assert_eq!(
        told,
        "Edited `a.py` (3 replacements)\n     1\tdef g(x):\n     2\t    y = x \n     3\t    return y\n\
         \x20    4\t\n     …\n     7\t\n     8\t\n     9\t\n    10\tg(1)\n    11\tg(2)"
    );
    let told = place.edit("a.py", &[("y = x\n  return y", "return x")]).unwrap_err().to_string();
    assert!(told.contains("does not occur"), "not all lines are shifted alike: {told}");
    let told = place.edit("a.py", &[("    y = x\n    return y\n", "    return x\n")]).unwrap();
    assert!(told.contains("not in the file exactly") && told.contains("line 2"), "{told}");
    assert!(place.content("a.py").starts_with("def g(x):\n    return x\n\n"));
}

const PATCH: &str = "*** Begin Patch\n*** Add File: new/a.txt\n+one\n*** Update File: b.txt\n-two\n+2\n\
                     *** Update File: c.txt\n*** Move to: new/c.txt\n-three\n+3\n*** Delete File: d.txt\n*** End Patch";

fn patched() -> (Place, args::EditArgs) {
    let place = place();
    for (path, text) in [("b.txt", "two\n"), ("c.txt", "three\n"), ("d.txt", "four\n")] {
        place.put(path, text);
    }
    (place, args::EditArgs { patch: Some(PATCH.to_owned()), ..args::EditArgs::default() })
}

fn state(place: &Place) -> Vec<Option<String>> {
    let paths = ["new/a.txt", "b.txt", "c.txt", "new/c.txt", "d.txt"];
    paths.map(|path| fs::read_to_string(place.tree.root().join(path)).ok()).to_vec()
}

#[test]
fn a_patch_of_several_files_is_done_as_a_whole_wherever_it_was_cut_off() {
    let some = |text: &str| Some(text.to_owned());
    let after = vec![some("one\n"), some("2\n"), None, some("3\n"), None];
    // Files in the order in which they are written.
    let written = [("new/a.txt", "one\n"), ("b.txt", "2\n"), ("new/c.txt", "3\n"), ("c.txt", "")];
    for cut in 0..=written.len() {
        let (place, args) = patched();
        let plan = plan_edit(&place.tree, &place.seen, &args).unwrap();
        fs::create_dir(place.tree.root().join("new")).unwrap();
        for (path, text) in &written[..cut] {
            match *text {
                "" => fs::remove_file(place.tree.root().join(path)).unwrap(),
                text => place.put(path, text),
            }
        }
        edit_files(&place.tree, &place.seen, place.dir.path(), &args, &plan).unwrap();
        assert_eq!(state(&place), after, "{cut}");
        // Once more finds it done.
        edit_files(&place.tree, &place.seen, place.dir.path(), &args, &plan).unwrap();
        assert_eq!(state(&place), after, "{cut}");
    }
}

#[test]
fn a_patch_that_fits_not_everywhere_changes_nothing() {
    let (place, args) = patched();
    let before = state(&place);
    let plan = plan_edit(&place.tree, &place.seen, &args).unwrap();
    place.put("d.txt", "changed\n");
    let refused = edit_files(&place.tree, &place.seen, place.dir.path(), &args, &plan);
    assert!(why(refused).contains("`d.txt` was changed by something else"));
    place.put("d.txt", "four\n");
    assert_eq!(state(&place), before);
    for (from, to, told) in [
        ("-three", "-nine", "not in `c.txt`"),
        ("d.txt", "e.txt", "`e.txt` does not exist"),
        ("d.txt", "../x", "outside"),
        ("d.txt", ".git/config", ".git"),
        ("new/a.txt", "b.txt", "twice"),
        ("new/c.txt", "d.txt", "twice"),
    ] {
        let args =
            args::EditArgs { patch: Some(PATCH.replace(from, to)), ..args::EditArgs::default() };
        let refused = why(plan_edit(&place.tree, &place.seen, &args));
        assert!(refused.contains(told), "{refused}");
    }
    assert_eq!(state(&place), before);
    let both = args::EditArgs { path: "b.txt".into(), patch: Some(PATCH.into()), edits: vec![] };
    assert!(why(plan_edit(&place.tree, &place.seen, &both)).contains("not all of them"));
}
