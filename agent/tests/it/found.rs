//! Files and matches are found and shown through the toolbox: names that look alike or hold brackets, files that an
//! ignore file names and Git tracks, matches far out, progress bars, and what a command printed before it was killed.

use std::fs;

use codebutler_agent::tool_args as args;
use codebutler_agent::toolbox::protocol::{ToolboxReply, ToolboxRequest};

use crate::toolbox::{Box, bash, start, text};

fn write(t: &Box, path: &str, content: impl AsRef<[u8]>) {
    let full = t.world.tree(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, content).unwrap();
}

fn grep(pattern: &str, path: Option<&str>) -> ToolboxRequest {
    let path = path.map(str::to_owned);
    ToolboxRequest::Grep(args::GrepArgs { pattern: pattern.into(), path, ..Default::default() })
}

fn glob(pattern: &str) -> ToolboxRequest {
    ToolboxRequest::Glob(args::GlobArgs { pattern: pattern.into(), ..Default::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tracked_files_are_found_whatever_ignore_files_say() {
    let t = start().await;
    for path in ["dist/kept.js", "logs/a.log", "vendor/.hidden/x.js"] {
        write(&t, path, "needle\n");
    }
    let done = text(&t.toolbox, bash("git add -A && git commit -qm files", None)).await;
    assert!(done.contains("exit code 0"), "{done}");
    write(&t, ".gitignore", "dist/\n*.log\nvendor/\n");
    write(&t, ".ignore", "vendor\n");
    write(&t, "dist/built.js", "needle built\n");
    let found = text(&t.toolbox, grep("needle", None)).await;
    let tracked = "dist/kept.js:1:needle\nlogs/a.log:1:needle\nvendor/.hidden/x.js:1:needle";
    let ignored =
        "(1 file that ignore files name matches too, `dist/built.js`: pass its folder as `path`)";
    assert_eq!(found, format!("{tracked}\n{ignored}"));
    let named = text(&t.toolbox, grep("needle", Some("dist"))).await;
    assert_eq!(named, "dist/built.js:1:needle built\ndist/kept.js:1:needle");
    assert_eq!(text(&t.toolbox, grep("needle$", None)).await, tracked);
    assert_eq!(text(&t.toolbox, glob("*.log")).await, "logs/a.log");
    assert_eq!(text(&t.toolbox, glob("dist/**")).await, "dist/kept.js");
    let none = text(&t.toolbox, grep("built", None)).await;
    assert!(none.starts_with("no match\n") && none.contains("dist/built.js"), "{none}");
    let named = text(&t.toolbox, grep("built", Some("dist"))).await;
    assert_eq!(named, "dist/built.js:1:needle built");
    write(&t, "logs/other.log", "needle other\n");
    let named = text(&t.toolbox, grep("other", Some("logs"))).await;
    assert!(named.starts_with("logs/other.log:1:needle other\n(ignore files name"), "{named}");
    let built = text(&t.toolbox, glob("built.js")).await;
    assert!(built.starts_with("dist/built.js\n(ignore files name"), "{built}");
    fs::remove_dir_all(t.world.tree("logs")).unwrap();
    assert!(text(&t.toolbox, glob("*.log")).await.starts_with("no file matches"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_brackets_and_names_that_look_alike_are_found() {
    let t = start().await;
    write(&t, "app/[slug]/page.tsx", "export needle\n");
    write(&t, "Shot 9.41\u{202f}AM.txt", "one needle\n");
    write(&t, "cafe\u{301}.txt", "menu: cre\u{301}me\n");
    assert_eq!(text(&t.toolbox, glob("app/[slug]/**")).await, "app/[slug]/page.tsx");
    let args = args::GrepArgs {
        pattern: "needle".into(),
        glob: Some("app/[slug]/*.tsx".into()),
        ..Default::default()
    };
    let found = text(&t.toolbox, ToolboxRequest::Grep(args)).await;
    assert_eq!(found, "app/[slug]/page.tsx:1:export needle");
    let found = text(&t.toolbox, glob("Shot 9.41 AM.txt")).await;
    assert!(found.contains("\\u{202f}") && found.starts_with("Shot 9.41\u{202f}AM.txt"), "{found}");
    let read = |path: &str| {
        ToolboxRequest::Read(args::ReadArgs { path: path.into(), ..Default::default() })
    };
    let shown = text(&t.toolbox, read("Shot 9.41 AM.txt")).await;
    assert!(shown.contains("one needle") && shown.contains("Shot 9.41\\u{202f}AM.txt"), "{shown}");
    assert!(text(&t.toolbox, read("caf\u{e9}.txt")).await.contains("menu"));
    let found = text(&t.toolbox, grep("cr\u{e9}me", None)).await;
    assert!(found.starts_with("cafe\u{301}.txt:1:menu"), "{found}");
    // A twin that nobody could tell apart is not made.
    let twin = args::WriteArgs { path: "Shot 9.41 AM.txt".into(), content: "x".into() };
    match t.toolbox.ask(ToolboxRequest::Write(twin)).await.unwrap() {
        ToolboxReply::Refused(why) => assert!(why.contains("\\u{202f}"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_match_far_out_in_a_long_line_is_shown_with_its_column() {
    let t = start().await;
    let line = format!("{}NEEDLE={}NEEDLE{}", "ñ".repeat(240_000), "a", "b".repeat(240_000));
    write(&t, "bundle.js", format!("first\n{line}\n"));
    let found = text(&t.toolbox, grep("NEEDLE", None)).await;
    assert!(found.starts_with("bundle.js:2:…ñ"), "{}", &found[..60]);
    assert!(found.contains("ñNEEDLE=aNEEDLEbb"), "{found}");
    assert!(found.ends_with("… [column 240001 of 480014; 2 matches in it]"), "{found}");
    assert!(found.chars().count() < 600);
    write(&t, "data.bin", b"head\0needle here\0tail\n");
    let none = text(&t.toolbox, grep("needle here", None)).await;
    assert!(none.contains("binary file"), "{none}");
    let named = text(&t.toolbox, grep("needle here", Some("data.bin"))).await;
    assert!(named.starts_with("data.bin:") && named.contains("needle here"), "{named}");
    assert!(named.contains("is no text from byte"), "{named}");
}

const SHIFT_JIS: &[u8] = b"\x8f\xa4\x95i\x82\xcc\x91\xe5\x82\xab\x82\xb3\x82\xc6\x89\xbf\x8ai\x82\xf0\x95\x5c\x8e\xa6\x82\xb7\x82\xe9\x89\xe6\x96\xca\x82\xc5\x82\xb7\x81B\x83T\x83C\x83Y\x82\xcd\x91q\x8c\xc9\x82\xc5\x8am\x94F\x82\xb5\x82\xc4\x82\xad\x82\xbe\x82\xb3\x82\xa2\x81B\n";
const GBK: &[u8] = b"\xd5\xe2\xb8\xf6\xb3\xcc\xd0\xf2\xcf\xd4\xca\xbe\xc9\xcc\xc6\xb7\xb5\xc4\xb4\xf3\xd0\xa1\xba\xcd\xbc\xdb\xb8\xf1\xa3\xac\xc7\xeb\xd4\xda\xb2\xd6\xbf\xe2\xd6\xd0\xc8\xb7\xc8\xcf\xb3\xdf\xb4\xe7\xa1\xa3\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_read_shows_of_other_encodings_is_found() {
    let t = start().await;
    let german = "// Die Größe der Tür ist für größere Häuser zu ändern.\nint size;\n";
    let latin: Vec<u8> = german.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let wide: Vec<u8> = german.encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(&t, "latin.c", &latin);
    write(&t, "wide.c", &wide);
    write(&t, "japanese.txt", SHIFT_JIS);
    write(&t, "chinese.txt", GBK);
    write(&t, "picture.bin", b"\x89PNG\0\0\x01\x02size\0\xff\xfe\xfd");
    let first = german.lines().next().unwrap();
    let both = format!("latin.c:1:{first}\nwide.c:1:{first}");
    for pattern in ["Größe", "Gr.{2}e", r"Gr\xf6\u00dfe", "zu ändern|price"] {
        assert_eq!(text(&t.toolbox, grep(pattern, None)).await, both, "{pattern}");
    }
    let found = text(&t.toolbox, grep("サイズ", None)).await;
    assert!(found.starts_with("japanese.txt:1:商品の大きさ"), "{found}");
    let found = text(&t.toolbox, grep("商品", None)).await;
    assert!(
        found.contains("chinese.txt:1:这个程序显示商品") && found.contains("japanese.txt:1:"),
        "{found}"
    );
    // Plain letters, too: where the file is no UTF-8, and where every other byte is none.
    assert_eq!(text(&t.toolbox, grep("der T", None)).await, both);
    assert_eq!(
        text(&t.toolbox, grep("int size", None)).await,
        "latin.c:2:int size;\nwide.c:2:int size;"
    );
    assert_eq!(text(&t.toolbox, grep("Größe", Some("wide.c"))).await, format!("wide.c:1:{first}"));
    // A file that is too large to be decoded is mentioned.
    write(&t, "large.txt", latin.repeat(17 * 1024 * 1024 / latin.len()));
    let none = text(&t.toolbox, grep("Höhe", None)).await;
    assert!(none.starts_with("no match\n"), "{none}");
    assert!(none.contains("(1 file in another encoding was not searched)"), "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_bars_push_nothing_out_and_line_ends_are_none() {
    let t = start().await;
    let bars = "bar() { i=0; while [ $i -lt 1500 ]; do printf '\\r%s [====================>        ] %d/1500 1.2 MB/s' \
                $1 $i; i=$((i+1)); done; echo; }; bar pull; echo 'ERROR: checksum of layer 0 is wrong'; bar extract";
    let out = text(&t.toolbox, bash(bars, None)).await;
    assert!(out.contains("\nERROR: checksum of layer 0 is wrong\n"), "{out}");
    assert!(out.contains("pull [====================>        ] 1499/1500"), "{out}");
    assert!(out.len() < 1000 && out.contains("drawn over are left out"), "{out}");
    let out = text(&t.toolbox, bash("printf 'one\\r\\ntwo\\r\\nthree\\r\\n'", None)).await;
    assert!(out.starts_with("one\ntwo\nthree\n["), "{out}");
    let up = "printf 'a 1\\nb 1\\n'; printf '\\033[2A\\033[2Ka 2\\n\\033[2Kb 2\\n'; printf -- '-\\b+\\bok\\n'";
    let out = text(&t.toolbox, bash(up, None)).await;
    assert!(out.starts_with("a 2\nb 2\nok\n["), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_command_shows_what_it_had_printed() {
    let t = start().await;
    // Time enough for a busy machine to start each of them.
    let python = "python3 -c \"print('collected 40 items'); import time; time.sleep(600)\"";
    let out = text(&t.toolbox, bash(python, Some(15))).await;
    assert!(out.starts_with("collected 40 items\n") && out.contains("[killed after 15 s"), "{out}");
    // A command that holds output back has a moment to write it.
    let held = "trap 'echo written in the end; exit 1' INT TERM; sleep 60 & wait";
    let out = text(&t.toolbox, bash(held, Some(5))).await;
    assert!(out.starts_with("written in the end\n") && out.contains("[killed after 5 s"), "{out}");
    let out = text(&t.toolbox, bash("exec sleep 60", Some(1))).await;
    assert!(out.contains("It printed nothing") && out.contains("stdbuf"), "{out}");
    let deaf = "trap '' INT TERM; echo deaf; while :; do sleep 1; done";
    let began = std::time::Instant::now();
    let out = text(&t.toolbox, bash(deaf, Some(5))).await;
    assert!(out.starts_with("deaf\n") && began.elapsed().as_secs() < 60, "{out}");
}
