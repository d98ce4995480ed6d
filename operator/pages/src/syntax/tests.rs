use super::*;

fn painted(path: &str, lines: &[&str]) -> Vec<String> {
    let mut painter = LinePainter::of(path);
    // Short names in place of the markup.
    let short = |html: String| html.replace("<span class=\"s", "[").replace("\">", " ");
    lines.iter().map(|line| short(painter.paint(line)).replace("</span>", "]")).collect()
}

#[test]
fn comments_strings_keywords_and_numbers_have_colours() {
    let rust = [
        "let s = \"a // b \\\" c\"; // it's",
        "fn f<'a>(x: &'a str) -> char { '\\n' } /* one",
        "two */ 0x1f_u8 letter1",
    ];
    assert_eq!(
        painted("src/a.rs", &rust),
        [
            "[k let] s = [s &#34;a // b \\&#34; c&#34;]; [c // it&#39;s]",
            "[k fn] f&#60;&#39;a&#62;(x: &#38;&#39;a str) -&#62; char { [s &#39;\\n&#39;] } [c /* one]",
            "[c two */] [n 0x1f_u8] letter1",
        ]
    );
    let python = ["x = '''a", "b''' # c", "def f(): return f\"{x}\""];
    assert_eq!(
        painted("tool.py", &python),
        [
            "x = [s &#39;&#39;&#39;a]",
            "[s b&#39;&#39;&#39;] [c # c]",
            "[k def] f(): [k return] f[s &#34;{x}&#34;]",
        ]
    );
    assert_eq!(painted("a/Dockerfile", &["FROM debian"]), ["[k FROM] debian"]);
    assert_eq!(painted("a.yml", &["on: don't # x"]), ["[k on]: don&#39;t [c # x]"]);
    assert_eq!(painted("a.sh", &["echo ${x#y}"]), ["echo ${x#y}"]);
    assert_eq!(painted("a.lua", &["--[[ a", "]] x -- b"]), ["[c --[[ a]", "[c ]]] x [c -- b]"]);
}

#[test]
fn what_is_not_known_is_plain_and_nothing_is_markup() {
    for path in ["README.md", "LICENSE", "a.unknown", "", "src/"] {
        let html = LinePainter::of(path).paint("<script>let x = \"&\"</script>");
        assert_eq!(html, "&#60;script&#62;let x = &#34;&#38;&#34;&#60;/script&#62;", "{path}");
    }
    let html = LinePainter::of("a.js").paint("let x = \"<img src=x onerror='a()'>\" // </span>");
    assert!(!html.contains("<img") && html.matches("</span>").count() == 3, "{html}");
}

#[test]
fn any_line_is_whole_and_takes_time_by_its_length() {
    let odd = [
        "'", "'\\", "\"", "`", "/*", "*/", "\"\"\"", "é'é", "\u{0}", "#", "--[[", "\\", "🦀'", "0.",
    ];
    for path in ["a.rs", "a.py", "a.js", "a.sql", "a.lua", "a.hs", "a.html", "a.sh", "a.yml"] {
        let mut painter = LinePainter::of(path);
        for one in odd {
            for line in [one.to_owned(), one.repeat(3), format!("x{one}y"), one.repeat(2000)] {
                let html = painter.paint(&line);
                let mut text = String::new();
                let mut inside = false;
                for c in html.chars() {
                    match c {
                        '<' => inside = true,
                        '>' => inside = false,
                        c if !inside => text.push(c),
                        _ => {}
                    }
                }
                for (entity, c) in [
                    ("&#60;", "<"),
                    ("&#62;", ">"),
                    ("&#34;", "\""),
                    ("&#39;", "'"),
                    ("&#38;", "&"),
                ] {
                    text = text.replace(entity, c);
                }
                assert_eq!(text, line, "{path}");
            }
        }
        painter.begin_again();
    }
}

#[test]
fn quotes_that_nothing_closes_are_looked_for_nearby_alone() {
    let begun = std::time::Instant::now();
    let line = "'\\".repeat(1000);
    for path in ["a.rs", "a.hs"] {
        let mut painter = LinePainter::of(path);
        (0..3000).for_each(|_| drop(painter.paint(&line)));
    }
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}
