//! Documents at the toolbox's boundary: read in a child with walls of its own, by page, by part, or refused in a
//! sentence; and files of the conversation, which are read and saved.

use std::fs;
use std::io::{Cursor, Write as _};

use codebutler_agent::tool_args::ReadArgs;
use codebutler_agent::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::toolbox::{Box, start, start_with, text};
use crate::world::{World, calls, in_order, results, says};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";

/// A ZIP file of these members.
fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A Word document of these paragraphs, with a picture.
pub(crate) fn docx(paragraphs: &[&str]) -> Vec<u8> {
    let body: Vec<String> =
        paragraphs.iter().map(|text| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")).collect();
    let body = body.concat();
    let document = format!(
        r#"<w:document xmlns:w="w" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><w:body>{body}<w:p><w:r><w:drawing><a xmlns:a="a"><a:blip r:embed="r1"/></a></w:drawing></w:r></w:p></w:body></w:document>"#
    );
    let relations = r#"<Relationships><Relationship Id="r1" Type="x/image" Target="media/image1.png"/></Relationships>"#;
    zip_of(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("word/document.xml", document.as_bytes()),
        ("word/_rels/document.xml.rels", relations.as_bytes()),
        ("word/media/image1.png", PNG),
    ])
}

fn read(path: &str, offset: Option<u32>) -> ToolboxRequest {
    ToolboxRequest::Read(ReadArgs { path: path.into(), offset, ..ReadArgs::default() })
}

fn put(t: &Box, path: &str, bytes: &[u8]) {
    fs::write(t.world.tree(path), bytes).unwrap();
}

async fn refused(t: &Box, path: &str) -> String {
    match t.toolbox.ask(read(path, None)).await.unwrap() {
        ToolboxReply::Refused(why) => why,
        other => panic!("{path}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_read_line_by_line_and_its_picture_shown() {
    let t = start().await;
    let many: Vec<String> = (0..3000).map(|n| format!("Paragraph {n}")).collect();
    put(&t, "spec.docx", &docx(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    let first = text(&t.toolbox, read("spec.docx", None)).await;
    assert!(
        first.starts_with(
            "(Word document)\n(pictures: `spec.docx/picture-1` image1.png)\n     1\tParagraph 0\n"
        ),
        "{first}"
    );
    assert!(
        first.ends_with("(lines 1 to 2000 of 3001; read on with offset 2001)\n"),
        "{}",
        &first[first.len() - 80..]
    );
    let rest = text(&t.toolbox, read("spec.docx", Some(2001))).await;
    assert!(
        rest.contains("  3000\tParagraph 2999\n")
            && rest.ends_with("(lines 2001 to 3001 of 3001)\n")
    );
    match t.toolbox.ask(read("spec.docx/picture-1", None)).await.unwrap() {
        ToolboxReply::Picture(picture) => assert_eq!(
            (&*picture.media_type, &*picture.shown),
            ("image/png", "spec.docx/picture-1")
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        refused(&t, "spec.docx/picture-9").await,
        "`spec.docx` has no `picture-9` in it: Read `spec.docx` to see what it has"
    );
    // Changed, it is read anew.
    put(&t, "spec.docx", &docx(&["Other words"]));
    assert!(text(&t.toolbox, read("spec.docx", None)).await.contains("     1\tOther words\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_an_archive_are_files_below_it() {
    let t = start().await;
    let inner = docx(&["Inside"]);
    put(
        &t,
        "all.zip",
        &zip_of(&[("logs/app.log", b"one\ntwo\n"), ("spec.docx", &inner), ("x.bin", b"\0\x01\0")]),
    );
    let list = text(&t.toolbox, read("all.zip", None)).await;
    assert!(list.contains("     1\tlogs/app.log (8 bytes)\n"), "{list}");
    let log = text(&t.toolbox, read("all.zip/logs/app.log", Some(2))).await;
    assert_eq!(log, "     2\ttwo\n(lines 2 to 2 of 2)\n");
    assert!(text(&t.toolbox, read("all.zip/spec.docx", None)).await.contains("\tInside\n"));
    assert!(refused(&t, "all.zip/x.bin").await.contains("binary file of 3 bytes"));
    assert!(refused(&t, "all.zip/none").await.contains("has no `none` in it"));
    // Nothing is below a file that is no archive.
    put(&t, "plain.txt", b"x");
    let said = refused(&t, "plain.txt/x").await;
    assert!(said.contains("plain.txt"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_harms_its_reader_ends_in_a_sentence() {
    let t = start().await;
    let bomb = zip_of(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("word/document.xml", &vec![b' '; 100 * 1024 * 1024]),
    ]);
    put(&t, "bomb.docx", &bomb);
    assert!(refused(&t, "bomb.docx").await.contains("too large"));
    put(&t, "old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and more");
    assert!(refused(&t, "old.doc").await.contains("ask for"));
    put(&t, "cut.pdf", b"%PDF-1.7\n");
    assert!(refused(&t, "cut.pdf").await.starts_with("`cut.pdf` is damaged"));
    // The toolbox lives, and reads on.
    put(&t, "a.docx", &docx(&["Still here"]));
    assert!(text(&t.toolbox, read("a.docx", None)).await.contains("Still here"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_is_too_large_to_edit_is_read_by_page() {
    let t = start().await;
    let line = "2026-11-27 12:00:00 INFO something happened in the shop, and it was written down\n";
    let whole = (1..=250_000).map(|n| format!("{n} {line}")).collect::<Vec<_>>().concat();
    assert!(whole.len() > 20 * 1024 * 1024);
    put(&t, "huge.log", whole.as_bytes());
    let first = text(&t.toolbox, read("huge.log", None)).await;
    assert!(first.contains("     1\t1 2026-11-27"), "{}", &first[..200]);
    assert!(first.contains(" of 250000; read on with offset "), "{}", &first[first.len() - 100..]);
    let last = text(&t.toolbox, read("huge.log", Some(249_999))).await;
    assert!(
        last.contains("250000\t250000 2026")
            && last.ends_with("(lines 249999 to 250000 of 250000)\n"),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_commands_reads_documents_too() {
    let t = start_with(&["--worktree", "read-only"]).await;
    put(&t, "a.docx", &docx(&["For the reviewer"]));
    assert!(text(&t.toolbox, read("a.docx", None)).await.contains("For the reviewer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_conversation_is_got_once_read_by_page_and_saved() {
    let log: Vec<String> =
        (1..=5000).map(|n| format!("line {n} of the log that ana sent\n")).collect();
    let log = log.concat();
    let answers = vec![
        calls(&[("Read", json!({"path": "slack:F01"}))]),
        calls(&[("Read", json!({"path": "slack:F01", "offset": 4990}))]),
        calls(&[("Read", json!({"path": "slack:F02/picture-1"}))]),
        calls(&[("SaveAttachment", json!({"file": "slack:F02", "path": "docs/spec.docx"}))]),
        calls(&[("SaveAttachment", json!({"file": "slack:F01", "path": "docs/spec.docx"}))]),
        calls(&[("SaveAttachment", json!({"file": "slack:F01", "path": ".git/hooks/x"}))]),
        calls(&[("Read", json!({"path": "slack:F09"})), ("Read", json!({"path": "slack:../x"}))]),
        calls(&[("Bash", json!({"command": "ls ../build/slack"}))]),
        says("Read."),
    ];
    let mut world = World::new(in_order(answers)).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools = ["Read", "Bash", "SaveAttachment"].map(Into::into).to_vec();
        inner.files.insert("F01".into(), ("app.log".into(), log.clone().into_bytes()));
        inner.files.insert("F02".into(), ("the+spec.docx".into(), docx(&["Spec"])));
        inner.say("read these", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let last = inner.asked.last().unwrap();
    let results = results(last);
    assert!(
        results[0].contains("     1\tline 1 of the log")
            && results[0].contains("of 5000; read on with offset"),
        "{}",
        results[0]
    );
    assert!(results[1].contains("  5000\tline 5000 of the log"), "{}", results[1]);
    assert!(results[2].contains("follows as a picture"), "{}", results[2]);
    assert!(results[3].starts_with("Saved `docs/spec.docx` ("), "{}", results[3]);
    assert!(results[4].contains("exists, with other content"), "{}", results[4]);
    assert!(results[5].contains("inside .git"), "{}", results[5]);
    assert!(results[6].contains("no such file"), "{}", results[6]);
    assert!(results[7].contains("named by its id"), "{}", results[7]);
    assert!(results[8].contains("F01-app.log\nF02-the_spec.docx"), "{}", results[8]);
    assert_eq!(inner.files_got, 3);
    assert_eq!(fs::read(world.tree("docs/spec.docx")).unwrap(), docx(&["Spec"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_of_the_web_is_got_once_and_read_by_page() {
    let url = "https://docs.example.org/spec.pptx?v=2";
    let slide = |text: &str| {
        format!(
            r#"<p:sld xmlns:p="p" xmlns:a="a"><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"#
        )
    };
    let (one, two) = (slide("Prices are net."), slide("Sums are gross."));
    let list = r#"<p:presentation xmlns:p="p" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><p:sldIdLst><p:sldId id="256" r:id="r1"/><p:sldId id="257" r:id="r2"/></p:sldIdLst></p:presentation>"#;
    let relations = r#"<Relationships><Relationship Id="r1" Type="x/slide" Target="slides/slide1.xml"/><Relationship Id="r2" Type="x/slide" Target="slides/slide2.xml"/></Relationships>"#;
    let deck = zip_of(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("ppt/presentation.xml", list.as_bytes()),
        ("ppt/_rels/presentation.xml.rels", relations.as_bytes()),
        ("ppt/slides/slide1.xml", one.as_bytes()),
        ("ppt/slides/slide2.xml", two.as_bytes()),
    ]);
    let answers = vec![
        calls(&[("WebFetch", json!({"url": url}))]),
        calls(&[("WebFetch", json!({"url": url, "page": 2}))]),
        calls(&[("WebFetch", json!({"url": url, "page": 3}))]),
        calls(&[("WebFetch", json!({"url": "https://evil.example/x.pdf"}))]),
        calls(&[("WebFetch", json!({"url": url}))]),
        says("Read."),
    ];
    let mut world = World::new(in_order(answers)).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools = vec!["WebFetch".into()];
        inner.files.insert(url.into(), ("spec.pptx".into(), deck));
        inner.say("read this", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let results = results(inner.asked.last().unwrap());
    assert!(
        results[0].starts_with(&format!("{url} (200, application/pdf)\n[kept as `")),
        "{results:?}"
    );
    assert!(results[0].contains("Prices are net.") && results[0].contains("Sums are gross."));
    assert!(!results[0].contains("Bash"), "the role has no such tool");
    assert!(results[1].contains("Sums are gross.") && !results[1].contains("Prices are net."));
    assert!(results[2].contains("only 2 pages"), "{}", results[2]);
    assert!(results[3].contains("not listed"), "{}", results[3]);
    assert_eq!(inner.files_got, 2, "its beginning is got anew, in case that it has changed");
}
