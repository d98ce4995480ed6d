//! Files of every form, by each tool: what nobody named stays.

use std::os::unix::fs::{MetadataExt as _, symlink};

use super::*;
use crate::toolbox::git::fixture::GitFixture;

impl Place {
    fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.tree.root().join(path)).unwrap()
    }
    fn patch(&self, body: &str) -> Result<String, ToolError> {
        let patch = Some(format!("*** Begin Patch\n{body}*** End Patch"));
        let args = args::EditArgs { patch, ..args::EditArgs::default() };
        let plan = plan_edit(&self.tree, &self.seen, &args)?;
        edit_files(&self.tree, &self.seen, self.dir.path(), &args, &plan)
    }
    fn shown(&self, path: &str) -> String {
        self.read(path, None, None).unwrap()
    }
}

fn utf16(text: &str) -> Vec<u8> {
    [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
}

#[test]
fn latin1_is_read_edited_and_written_as_what_it_is() {
    let place = place();
    place.put("a.java", b"// caf\xe9 note\nint x = 1;\n");
    let shown = place.shown("a.java");
    assert_eq!(
        shown,
        "(Latin-1 text: Edit and Write keep that)\n     1\t// café note\n     2\tint x = 1;\n"
    );
    place.edit("a.java", &[("x = 1;", "x = 2; // ü")]).unwrap();
    assert_eq!(place.bytes("a.java"), b"// caf\xe9 note\nint x = 2; // \xfc\n");
    place.patch("*** Update File: a.java\n // café note\n-int x = 2; // ü\n+int y;\n").unwrap();
    assert_eq!(place.bytes("a.java"), b"// caf\xe9 note\nint y;\n");
    let told = place.write("a.java", "// café note\nint z;\n").unwrap();
    assert_eq!(place.bytes("a.java"), b"// caf\xe9 note\nint z;\n");
    assert!(told.contains("kept as it was: Latin-1 text"), "{told}");
    let before = place.bytes("a.java");
    let refusals = [
        place.edit("a.java", &[("int z", "int z; // →")]),
        place.write("a.java", "// café →\n"),
        place.patch("*** Update File: a.java\n-int z;\n+→\n"),
    ];
    for refused in refusals {
        let refused = why(refused);
        assert!(refused.contains("Latin-1 has no “→” (U+2192)"), "{refused}");
        assert!(refused.contains("in a commit of its own"), "{refused}");
    }
    assert_eq!(place.bytes("a.java"), before);
}

#[test]
fn wide_text_with_its_mark_and_line_ends_is_kept() {
    let place = place();
    place.put("a.ps1", utf16("param($x)\r\nWrite-Host 'é'\r\n"));
    let shown = place.shown("a.ps1");
    assert!(shown.starts_with("(UTF-16 LE text with byte order mark, CRLF line ends"), "{shown}");
    place.edit("a.ps1", &[("($x)\nWrite", "($y)\n\nWrite")]).unwrap();
    assert_eq!(place.bytes("a.ps1"), utf16("param($y)\r\n\r\nWrite-Host 'é'\r\n"));
    place.write("a.ps1", "one\ntwo\n").unwrap();
    assert_eq!(place.bytes("a.ps1"), utf16("one\r\ntwo\r\n"));
}

#[test]
fn write_keeps_mark_line_ends_last_line_and_mode() {
    let place = place();
    let bom = "\u{feff}";
    for (before, content, after) in [
        ("a\r\nb\r\n", "a\nB\n", "a\r\nB\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nnew\nc\n", "a\r\nb\nnew\nc\r\n"),
        ("a\rb\r", "a\nc\n", "a\rc\r"),
        ("\u{feff}a\n", "b\n", "\u{feff}b\n"),
        ("\u{feff}a\n", "\u{feff}b\n", "\u{feff}b\n"),
        (bom, "b\n", "\u{feff}b\n"),
        ("a\nb", "a\nc\n", "a\nc"),
        ("a\nb\n", "a\nc", "a\nc\n"),
        ("a\r\nb", "a\nc", "a\r\nc"),
        ("", "a\n", "a\n"),
        ("a\u{2028}b\u{c}\u{85}\n", "a\u{2028}c\u{c}\u{85}\n", "a\u{2028}c\u{c}\u{85}\n"),
    ] {
        place.put("f", before);
        let told = place.write("f", content).unwrap();
        assert_eq!(place.content("f"), after, "{before:?} {content:?}: {told}");
        // Once more changes nothing.
        place.write("f", content).unwrap();
        assert_eq!(place.content("f"), after, "{before:?} {content:?}");
    }
    place.put("f", "a\nb\n");
    let told = place.write("f", "a\r\nb\r\n").unwrap();
    assert!(told.contains("CRLF line ends now, LF line ends before"), "{told}");
    assert_eq!(place.content("f"), "a\r\nb\r\n");
}

#[test]
fn a_line_is_ended_as_it_was_whatever_ends_the_others() {
    let place = place();
    place.put("m", "one\r\ntwo\nthree\rfour");
    let shown = place.shown("m");
    assert!(
        shown.starts_with("(mixed line ends: 1 LF, 1 CRLF, 1 CR, no newline at the end"),
        "{shown}"
    );
    assert!(shown.ends_with("     3\tthree\n     4\tfour\n"), "{shown}");
    place.edit("m", &[("one\ntwo\nthree", "1\n2\n3"), ("four", "4\n5")]).unwrap();
    assert_eq!(place.content("m"), "1\r\n2\n3\r4\r5");
    place.patch("*** Update File: m\n 1\n-2\n+two\n+more\n 3\n").unwrap();
    assert_eq!(place.content("m"), "1\r\ntwo\nmore\n3\r4\r5");
    let same = why(place.edit("m", &[("1\ntwo", "1\r\ntwo"), ("3\r\n4", "3\n4")]));
    assert!(same.contains("edit 2: `old` and `new` differ only in line ends"), "{same}");
    place.edit("m", &[("two\nmore", "two\r\nmore")]).unwrap();
    assert_eq!(place.content("m"), "1\r\ntwo\r\nmore\n3\r4\r5");
}

#[test]
fn a_file_that_can_not_be_kept_is_left_alone_and_named() {
    let place = place();
    let broken = b"Gr\xc3\xb6\xc3\x9fe\nok\nbad \xff\xfe\n";
    place.put("b.txt", broken);
    let shown = place.shown("b.txt");
    assert!(
        shown.starts_with("(UTF-8 text with bytes in it that are no UTF-8 (the first in line 3)"),
        "{shown}"
    );
    let refusals = [
        place.edit("b.txt", &[("ok", "fine")]),
        place.write("b.txt", "Größe\nfine\n"),
        place.patch("*** Update File: b.txt\n-ok\n+fine\n"),
    ];
    for refused in refusals {
        let refused = why(refused);
        assert!(refused.contains("convert it to UTF-8 first, in a commit of its own"), "{refused}");
    }
    assert_eq!(place.bytes("b.txt"), broken);
    place.put("bin", b"\x7fELF\0\0\x02");
    assert!(why(place.write("bin", "text\n")).contains("binary file"));
    assert!(why(place.patch("*** Update File: bin\n-a\n+b\n")).contains("binary file"));
    // A binary file can be moved all the same.
    place.patch("*** Update File: bin\n*** Move to: bin2\n").unwrap();
    assert_eq!(place.bytes("bin2"), b"\x7fELF\0\0\x02");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
    place.put("lfs.csv", pointer);
    assert!(place.shown("lfs.csv").contains("Git LFS"));
    assert!(why(place.edit("lfs.csv", &[("size 5", "size 6")])).contains("git lfs pull"));
    assert!(why(place.write("lfs.csv", "a,b\n")).contains("git lfs pull"));
    assert_eq!(place.bytes("lfs.csv"), pointer);
}

#[test]
fn links_and_modes_stay_what_they_are() {
    let place = place();
    let at = |path: &str| place.tree.root().join(path);
    place.put("run.sh", "#!/bin/sh\necho 1\n");
    fs::set_permissions(at("run.sh"), Permissions::from_mode(0o751)).unwrap();
    let mode = |path: &str| fs::metadata(at(path)).unwrap().permissions().mode() & 0o777;
    symlink("run.sh", at("link.sh")).unwrap();
    place.read("link.sh", None, None).unwrap();
    place.edit("link.sh", &[("echo 1", "echo 2")]).unwrap();
    place.write("link.sh", "#!/bin/sh\necho 3\n").unwrap();
    assert_eq!(fs::read_link(at("link.sh")).unwrap(), Path::new("run.sh"));
    assert_eq!((place.content("run.sh").as_str(), mode("run.sh")), ("#!/bin/sh\necho 3\n", 0o751));
    for body in ["*** Delete File: link.sh\n", "*** Update File: link.sh\n*** Move to: new.sh\n"] {
        let refused = why(place.patch(body));
        assert!(refused.contains("`link.sh` is a symbolic link to `run.sh`"), "{refused}");
    }
    place.patch("*** Update File: run.sh\n*** Move to: bin/run.sh\n-echo 3\n+echo 4\n").unwrap();
    assert_eq!(
        (place.content("bin/run.sh").as_str(), mode("bin/run.sh")),
        ("#!/bin/sh\necho 4\n", 0o751)
    );
    place.put("one", "a\n");
    fs::hard_link(at("one"), at("two")).unwrap();
    place.read("one", None, None).unwrap();
    let told = place.edit("one", &[("a", "b")]).unwrap();
    assert!(told.contains("was one of 2 hard links"), "{told}");
    assert_eq!(
        (place.content("two").as_str(), fs::metadata(at("two")).unwrap().nlink()),
        ("a\n", 1)
    );
    symlink("/nowhere", at("dangling")).unwrap();
    assert!(why(place.write("dangling", "x")).contains("leads nowhere"));
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(why(place.write("pipe", "x")).contains("not a regular file"));
}

#[test]
fn an_edit_that_breaks_what_could_be_parsed_says_so() {
    let place = place();
    place.put("package.json", "{\"a\": 1}\n");
    place.read("package.json", None, None).unwrap();
    let told = place.edit("package.json", &[("1", "1,")]).unwrap();
    assert!(
        told.contains("Note: `package.json` was valid JSON and is not after this change"),
        "{told}"
    );
    let told = place.edit("package.json", &[("1,", "1")]).unwrap();
    assert!(!told.contains("Note"), "{told}");
    let told = place.write("package.json", "{\"a\": \n").unwrap();
    assert!(told.contains("was valid JSON"), "{told}");
    place.put("a.yaml", "a: [1]\n");
    let told = place.patch("*** Update File: a.yaml\n-a: [1]\n+a: [1\n").unwrap();
    assert!(told.contains("was valid YAML"), "{told}");
    place.put("tsconfig.json", "{\n  // strict\n  \"a\": 1,\n}\n");
    let told = place.write("tsconfig.json", "{\n  // strict\n  \"a\": 2,\n}\n").unwrap();
    assert!(!told.contains("Note"), "{told}");
}

const BOOK: &str = r#"{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 1,
   "metadata": {"collapsed" : true},
   "outputs": [{"name": "stdout", "output_type": "stream", "text": ["rate 0.5\n"]}],
   "source": [
    "import math\n",
    "rate = 0.5\n",
    "print(\"rate\", rate)"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 2
}"#;

#[test]
fn a_notebook_is_edited_by_its_cells() {
    let place = place();
    place.put("n.ipynb", BOOK);
    let shown = place.shown("n.ipynb");
    assert!(
        shown.ends_with(
            "     1\t# [code 1]\n     2\timport math\n     3\trate = 0.5\n     4\tprint(\"rate\", rate)\n\
             # [output]\nrate 0.5\n"
        ),
        "{shown}"
    );
    place
        .edit("n.ipynb", &[("import math", "import math\nimport os"), ("\"rate\"", "\"r\"")])
        .unwrap();
    let expected = BOOK
        .replace("math\\n\",", "math\\n\",\n    \"import os\\n\",")
        .replace(r#"(\"rate\","#, r#"(\"r\","#);
    assert_eq!(place.content("n.ipynb"), expected);
    place
        .patch("*** Update File: n.ipynb\n rate = 0.5\n-print(\"r\", rate)\n+print(\"\\t\")\n")
        .unwrap();
    assert!(
        place.content("n.ipynb").contains(r#""print(\"\\t\")""#),
        "{}",
        place.content("n.ipynb")
    );
    let why_not =
        why(place.edit("n.ipynb", &[("\"execution_count\": 1", "\"execution_count\": 2")]));
    assert!(why_not.contains("does not occur"), "{why_not}");
    for bad in
        ["{\"cells\": [}", "{\"cells\": []}", "print(1)\n", &BOOK.replace("\"outputs\"", "\"out\"")]
    {
        let refused = why(place.write("n.ipynb", bad));
        assert!(refused.contains("was not written: as a notebook it"), "{refused}");
        assert!(why(place.write("new.ipynb", bad)).contains("was not written"));
    }
    place.write("n.ipynb", &format!("{BOOK}\n")).unwrap();
    assert_eq!(place.content("n.ipynb"), BOOK);
    place.write("n.ipynb", "# [markdown]\n# Title\n\n# [code 1]\nimport math\n").unwrap();
    let written = place.content("n.ipynb");
    assert!(written.contains("\"# Title\"") && written.contains("rate 0.5"), "{written}");
    place.write("new.ipynb", "# [code 1]\nx = \"é\"\n").unwrap();
    codebutler_textform::check_notebook(&place.content("new.ipynb")).unwrap();
}

#[test]
fn a_new_file_has_the_line_ends_that_the_repository_asks_for() {
    let f = GitFixture::new();
    crate::toolbox::git::prepare_worktree(&f.place).unwrap();
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    let place = Place { dir: tempfile::tempdir().unwrap(), tree, seen: SeenFiles::default() };
    place.put(".editorconfig", "root = true\n[*]\nend_of_line = crlf\n[*.md]\nend_of_line = lf\n");
    place.put(".gitattributes", "*.lf text eol=lf\n");
    let told = place.write("a.cs", "one\ntwo\n").unwrap();
    assert!(told.contains("CRLF line ends, as `.editorconfig` asks for"), "{told}");
    assert_eq!(place.bytes("a.cs"), b"one\r\ntwo\r\n");
    for (path, content) in
        [("a.md", "one\n"), ("a.lf", "one\n"), ("run", "#!/bin/sh\n"), ("b.cs", "one\r\n")]
    {
        let told = place.write(path, content).unwrap();
        assert!(!told.contains("editorconfig"), "{path}: {told}");
        assert_eq!(place.bytes(path), content.as_bytes(), "{path}");
    }
    // A folder may take it back.
    fs::create_dir(place.tree.root().join("unix")).unwrap();
    place.put("unix/.editorconfig", "[*]\nend_of_line = unset\n");
    place.write("unix/a.cs", "one\n").unwrap();
    assert_eq!(place.bytes("unix/a.cs"), b"one\n");
    // A file that is there keeps its own.
    place.put("old.cs", "one\n");
    place.write("old.cs", "one\ntwo\n").unwrap();
    assert_eq!(place.bytes("old.cs"), b"one\ntwo\n");
}

#[test]
fn what_the_repository_says_of_encodings_counts() {
    let f = GitFixture::new();
    crate::toolbox::git::prepare_worktree(&f.place).unwrap();
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    let place = Place { dir: tempfile::tempdir().unwrap(), tree, seen: SeenFiles::default() };
    place.put(
        ".gitattributes",
        "*.ps1 working-tree-encoding=UTF-16LE-BOM eol=crlf\n*.kr working-tree-encoding=CP949\n",
    );
    place.put(
        ".editorconfig",
        "root = true\n[*.txt]\ncharset = latin1\n[*.cs]\ncharset = utf-8-bom\n",
    );
    let told = place.write("new.ps1", "é\n").unwrap();
    assert!(
        told.contains("written as UTF-16 LE with byte order mark, as `working-tree-encoding`"),
        "{told}"
    );
    assert_eq!(place.bytes("new.ps1"), utf16("é\n"));
    // The file as it was checked out.
    place.put("old.ps1", "é\n");
    assert!(place.shown("old.ps1").contains("but it is UTF-8 here and stays so"));
    place.edit("old.ps1", &[("é", "ü")]).unwrap();
    assert_eq!(place.content("old.ps1"), "ü\n");
    place.put("a.kr", b"\xc4\xab\n");
    assert!(place.shown("a.kr").starts_with("(EUC-KR text"));
    place.put("a.txt", "x\n");
    place.read("a.txt", None, None).unwrap();
    place.edit("a.txt", &[("x", "é")]).unwrap();
    assert_eq!(place.bytes("a.txt"), b"\xe9\n");
    assert!(why(place.edit("a.txt", &[("é", "→")])).contains("Latin-1 has no"));
    place.write("new.cs", "class A {}\n").unwrap();
    assert_eq!(place.content("new.cs"), "\u{feff}class A {}\n");
    assert!(place.write("b.txt", "→\n").unwrap().contains("written as UTF-8 although"));
}
