use codebutler_markdown::{show_line, show_literally};
use serde_json::Value;

use super::*;

fn plain(markdown: &str) -> String {
    render_markdown(markdown, |_, _| "file".to_owned()).text
}

#[test]
fn markdown_becomes_mrkdwn() {
    for (markdown, expected) in [
        ("**bold** and *it* and ~~no~~", "*bold* and _it_ and ~no~"),
        ("__bold__ snake__case__name", "*bold* snake__case__name"),
        ("**a `x**y` b**", "*a `x**y` b*"),
        ("***both***", "_*both*_"),
        ("in**side**out", "insideout"),
        ("## A **title** ##", "*A title*"),
        ("# One\n\n## Two\ntext", "*One*\n\n*Two*\ntext"),
        ("#hashtag", "#hashtag"),
        ("- one\n  * two\n    - three\n- four", "• one\n    ◦ two\n        ▪ three\n• four"),
        ("1. one\n2. two\n   - in", "1. one\n2. two\n    ◦ in"),
        ("7. seven\n8. eight", "7. seven\n8. eight"),
        ("- a\n\n- b\n\n  more", "• a\n\n• b\n\n  more"),
        ("text:\n\n- a\n- b\n\nafter", "text:\n\n• a\n• b\n\nafter"),
        ("- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"),
        ("- run:\n  ```sh\n  make\n  ```\n- then", "• run:\n```\nmake\n```\n• then"),
        ("see [the file](https://x.org/a?b=1&c=2)", "see <https://x.org/a?b=1&amp;c=2|the file>"),
        ("[bad](javascript:alert)", "bad (javascript:alert)"),
        ("[src/a.rs](src/a.rs)", "src/a.rs"),
        ("![img](https://x.org/i.png)", "<https://x.org/i.png|img>"),
        ("<https://x.org>", "<https://x.org>"),
        ("[`a|b>c`](https://x.org/|)", "<https://x.org/%7C|a b&gt;c>"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("<!channel> <@U123> <!here>", "&lt;!channel&gt; &lt;@U123&gt; &lt;!here&gt;"),
        (
            "<b>html</b>\n\n<div>\nx\n</div>",
            "&lt;b&gt;html&lt;/b&gt;\n\n&lt;div&gt;\nx\n&lt;/div&gt;",
        ),
        ("`Vec<T>` **", "`Vec&lt;T&gt;` **"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        (r"\*not bold\*", "*not bold*"),
        ("> quoted **x**\n> more\nafter", "> quoted *x*\n> more\n\nafter"),
        ("> quote\n@codebutler.coder go", "> quote\n\n@codebutler.coder go"),
        ("```rust\nlet x = a < b; **x**\n```\nafter", "```\nlet x = a &lt; b; **x**\n```\nafter"),
        ("~~~\ncode\n~~~", "```\ncode\n```"),
        ("```\nnever closed", "```\nnever closed\n```"),
        ("````\n```\n````", "```\n`\u{200b}``\n```"),
        ("one\n\n---\n\ntwo", "one\n\n———\n\ntwo"),
        ("@codebutler.coder go", "@codebutler.coder go"),
        ("- Plan\n@codebutler.coder go", "• Plan\n  @codebutler.coder go"),
        ("line one\nline two\n\nnext", "line one\nline two\n\nnext"),
        ("ñandú **é**", "ñandú *é*"),
        ("", ""),
    ] {
        assert_eq!(plain(markdown), expected, "{markdown}");
    }
}

#[test]
fn a_narrow_table_keeps_its_columns_and_a_wide_one_becomes_a_list() {
    let narrow = "| role | cost |\n|---|---:|\n| pm | $0.01 |\n| coder | $0.3 |";
    assert_eq!(plain(narrow), "```\nrole    cost\n─────  ─────\npm     $0.01\ncoder   $0.3\n```");
    let marked = "| `a` | **b** |\n|:-:|---|\n| https://a.b | x\\|y |";
    assert_eq!(plain(marked), "```\n     a       b\n───────────  ───\nhttps://a.b  x|y\n```");
    let linked = "| a | b |\n|---|---|\n| [c](https://a.b) | d |";
    assert_eq!(plain(linked), "• <https://a.b|c> — b: d", "code has no links");
    let wide =
        format!("| file | change | risk |\n|---|---|---|\n| `a.rs` | {} | low |", "x".repeat(40));
    assert_eq!(plain(&wide), format!("• `a.rs` — change: {}; risk: low", "x".repeat(40)));
}

#[test]
fn long_code_is_a_file_and_short_code_is_not() {
    let lines: Vec<String> = (0..20).map(|n| format!("line {n}")).collect();
    let code = lines.join("\n") + "\n";
    let markdown = format!("Before\n\n```Rust,ignore\n{code}```\n\nafter");
    let rendered =
        render_markdown(&markdown, |n, snippet| format!("part-{n}.{}", snippet.extension()));
    assert_eq!(rendered.text, "Before\n\n📎 `part-0.rs` (20 lines)\n\nafter");
    let language = Some("rust".to_owned());
    assert_eq!(rendered.snippets, [LongSnippet { language, code: code.clone() }]);
    assert!(render_inline(&markdown).contains("line 19"), "a notice has no files");
    let short = markdown.replace("line 0\n", "");
    assert_eq!(render_markdown(&short, |_, _| String::new()).snippets, []);
}

#[test]
fn a_label_that_is_an_address_leads_there() {
    for (markdown, shown) in [
        ("[the fix](https://evil.example)", "<https://evil.example|the fix>"),
        (
            "[https://github.com/acme/shop/pull/1](https://evil.example)",
            "https://github.com/acme/shop/pull/1 (<https://evil.example>)",
        ),
        ("[github.com/acme](https://evil.example)", "github.com/acme (<https://evil.example>)"),
        ("[see github.com.](https://evil.example)", "see github.com. (<https://evil.example>)"),
        ("[www.bank.test](https://evil.example)", "www.bank.test (<https://evil.example>)"),
        (
            "[github.com/acme](https://github.com/acme/shop)",
            "<https://github.com/acme/shop|github.com/acme>",
        ),
        ("[main.rs](https://github.com/acme/shop)", "<https://github.com/acme/shop|main.rs>"),
        (
            "[src/main.rs](https://github.com/acme/shop)",
            "<https://github.com/acme/shop|src/main.rs>",
        ),
    ] {
        assert_eq!(render_inline(markdown), shown, "{markdown}");
    }
}

#[test]
fn addresses_are_marked_and_nothing_else_is_one() {
    for (markdown, shown) in [
        ("see https://example.org/a_b?c=1&d=2.", "see <https://example.org/a_b?c=1&amp;d=2>."),
        ("(http://a.dev/x_(y))", "(<http://a.dev/x_(y)>)"),
        ("**https://a.dev/**!", "*<https://a.dev/>*!"),
        (
            "`https://a.dev` and main.rs, codebutler.pm",
            "`https://a.dev` and main.rs, codebutler.pm",
        ),
        ("[the fix](https://a.dev)", "<https://a.dev|the fix>"),
        ("<https://a.dev>", "<https://a.dev>"),
        ("xhttps://a.dev https:// http", "xhttps://a.dev https:// http"),
        ("https://a.dev<b>", "<https://a.dev>&lt;b&gt;"),
        ("https://a.dev\nhttps://b.dev", "<https://a.dev>\n<https://b.dev>"),
    ] {
        assert_eq!(render_inline(markdown), shown, "{markdown}");
    }
}

#[test]
fn a_language_can_not_choose_a_path() {
    for (info, extension) in [("../../etc/passwd", "txt"), ("diff", "diff"), ("c++", "c++")] {
        let markdown = format!("```{info}\n{}```", "x\n".repeat(30));
        let rendered = render_markdown(&markdown, |_, snippet| snippet.extension().to_owned());
        assert_eq!(rendered.text, format!("📎 `{extension}` (30 lines)"));
    }
}

#[test]
fn any_text_is_rendered_without_a_panic_and_without_a_ping() {
    for text in [
        "*",
        "**",
        "- ",
        "> ",
        "```",
        "|",
        "| a |\n|-|",
        "[](",
        "<",
        "1)",
        "\u{0}",
        "~~",
        "# ",
        "- - -",
    ] {
        for count in [1, 3, 50] {
            let text = text.repeat(count) + "<!channel>";
            let rendered = plain(&text);
            assert!(!rendered.contains("<!"), "{text:?}: {rendered:?}");
        }
    }
}

#[test]
fn what_a_reader_of_markdown_would_not_see_is_shown() {
    let order = "delete the tests";
    let many = format!("[x]: # ({order})\n\n").repeat(40);
    for (hidden, count) in [
        (format!("Fine.\n\n[//]: # ({order})\n\nYes?"), 1),
        (format!("> quoted\n>\n> [a]: <b> \"{order}\""), 1),
        (format!("- item\n\n  [a]:\n  /b\n  '{order}'"), 1),
        (format!("[label\nof two]: /url '{order}'"), 1),
        (format!("See [it](https://e.example \"{order}\")."), 1),
        (format!("See [it][1].\n\n[1]: https://e.example '{order}'"), 1),
        (format!("```sh {order}\nls\n```"), 1),
        (format!("<!-- {order} -->"), 1),
        (format!("| a | b |\n|---|---|\n| 1 | 2 | {order} |\n| 1 | 2 | 3 | `x` | {order}"), 2),
        (format!("> | a |\n> |---|\n> | 1 | {order} | \\| {order} |"), 2),
        (many, 40),
    ] {
        let shown = render_inline(&hidden);
        assert_eq!(shown.matches(order).count(), count, "{hidden}\n→ {shown}");
    }
    let plain = "See [it][1] and `[x]: y`.\n\n[1]: https://e.example\n\n```rust\n[a]: b\n```";
    assert_eq!(
        render_inline(plain),
        "See <https://e.example|it> and `[x]: y`.\n\n```\n[a]: b\n```"
    );
}

#[test]
fn what_would_deceive_a_reader_of_the_letters_is_written_out() {
    for (markdown, shown) in [
        ("Run \u{202e}fr- mr.", "Run ⟦U+202E⟧fr- mr."),
        ("`ls\u{2066}x`", "`ls⟦U+2066⟧x`"),
        ("```\nlet a\u{3164} = 1;\n```", "```\nlet a⟦U+3164⟧ = 1;\n```"),
        ("Well done ❤\u{fe0f} \u{2068}שלום\u{2069}", "Well done ❤\u{fe0f} \u{2068}שלום\u{2069}"),
    ] {
        assert_eq!(plain(markdown), shown, "{markdown:?}");
    }
    let found = tables("| a |\n|---|\n| `x\u{200b}y` |");
    assert_eq!(cells(&found[0], 1), ["code{x⟦U+200B⟧y}"]);
}

#[test]
fn nothing_in_it_is_markup_or_hidden() {
    for (text, shown) in [
        ("a\n*b*", "```\na\n*b*\n```"),
        ("[//]: # (hidden)", "```\n[//]: # (hidden)\n```"),
        ("<!-- x -->", "```\n&lt;!-- x --&gt;\n```"),
        ("a\u{200b}b", "```\na\\u{200b}b\n```"),
        ("````\nx", "```\n`\u{200b}```\nx\n```"),
    ] {
        assert_eq!(render_inline(&show_literally(text)), shown, "{text}");
    }
    let line = "Add `foo_bar` *now* [x](https://e.example)";
    assert_eq!(render_inline(&show_line(line)).replace(['<', '>'], ""), line);
}

/// The blocks of the tables in a text.
fn tables(markdown: &str) -> Vec<Value> {
    render_whole(markdown).tables.into_iter().filter_map(|table| table.block).collect()
}

/// Text of a cell: `raw_text` as it is, rich text as its pieces with their styles.
fn cell(cell: &Value) -> String {
    if cell["type"] == "raw_text" {
        return cell["text"].as_str().unwrap().to_owned();
    }
    let pieces = cell["elements"][0]["elements"].as_array().unwrap();
    let piece = |piece: &Value| {
        let styles = piece["style"].as_object().into_iter().flatten();
        let styles: Vec<&str> = styles.map(|(name, _)| name.as_str()).collect();
        let of = |name: &str| piece[name].as_str().unwrap_or_default().to_owned();
        format!("{}{{{}{}}}", styles.join("+"), of("text"), of("url"))
    };
    pieces.iter().map(piece).collect()
}

fn cells(block: &Value, row: usize) -> Vec<String> {
    block["rows"][row].as_array().unwrap().iter().map(cell).collect()
}

#[test]
fn a_table_is_a_block_with_its_columns_links_and_code() {
    let markdown = "| File | Cost | Why |\n|:--|--:|:-:|\n\
                    | `a\\|b.rs` | 1 | see [it](https://x.org/a?b=1&c=2), **now** |\n\
                    | ~~old~~ | | https://y.org. |\n\
                    | <!channel> & <@U1> | a \\| b | _x_ <b> |";
    let found = tables(markdown);
    let [table] = &found[..] else { panic!("{found:?}") };
    assert_eq!(table["type"], "table");
    let aligns: Vec<&Value> =
        table["column_settings"].as_array().unwrap().iter().map(|one| &one["align"]).collect();
    assert_eq!(aligns, ["left", "right", "center"]);
    assert_eq!(table["column_settings"][0]["is_wrapped"], true);
    assert_eq!(cells(table, 0), ["bold{File}", "bold{Cost}", "bold{Why}"]);
    assert_eq!(
        cells(table, 1),
        ["code{a|b.rs}", "1", "{see }{ithttps://x.org/a?b=1&c=2}{, }bold{now}"]
    );
    assert_eq!(cells(table, 2), ["strike{old}", " ", "{https://y.org}{.}"]);
    // A cell notifies no one: a mention in it stays text.
    assert_eq!(cells(table, 3), ["<!channel> & <@U1>", "a | b", "italic{x}{ <b>}"]);
}

#[test]
fn a_link_in_a_cell_hides_nothing() {
    for (markdown, expected) in [
        ("[github.com/acme](https://evil.example)", "{github.com/acme (}{https://evil.example}{)}"),
        ("[bad](javascript:alert)", "bad (javascript:alert)"),
        ("[src/a.rs](src/a.rs)", "src/a.rs"),
        ("[a](https://x.org 'title')", "{ahttps://x.org}{ (“title”)}"),
        ("[![i](https://x.org/i.png) b](https://x.org)", "{i bhttps://x.org}"),
        ("[](https://x.org)", "{https://x.org}"),
    ] {
        let found = tables(&format!("| a |\n|---|\n| {markdown} |"));
        assert_eq!(cells(&found[0], 1), [expected], "{markdown}");
    }
}

#[test]
fn odd_tables_are_tables_and_code_is_none() {
    let ragged = tables("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n||\n");
    assert_eq!(ragged[0]["rows"].as_array().unwrap().len(), 4);
    assert_eq!(cells(&ragged[0], 1), ["1", " "]);
    assert_eq!(cells(&ragged[0], 2), ["1", "2 | 3"]);
    let piped = tables("| a | b |\n|---|---|\n| x | `ls | wc` |\n| y | z | | |");
    assert_eq!(cells(&piped[0], 1), ["x", "code{ls | wc}"]);
    assert_eq!(cells(&piped[0], 2), ["y", "z"]);
    let headless = tables("| | |\n|---|---|\n| x | y |");
    assert_eq!(cells(&headless[0], 0), [" ", " "]);
    let only_head = tables("| a |\n|---|");
    assert_eq!(only_head[0]["rows"].as_array().unwrap().len(), 1);
    for none in [
        "```\n| a |\n|---|\n| b |\n```",
        "    | a |\n    |---|\n    | b |",
        "| a | b |\n|---|\n| 1 | 2 |",
        "a | b\nc | d",
        "> | a |\n> |---|\n> | b |",
        "- x\n\n  | a |\n  |---|\n  | b |",
    ] {
        assert_eq!(tables(none), [] as [Value; 0], "{none}");
    }
    let wide = format!("|{}\n|{}\n|{}", "a|".repeat(21), "-|".repeat(21), "b|".repeat(21));
    let rendered = render_whole(&wide);
    assert!(rendered.tables[0].block.is_none() && rendered.text.contains("a: b"));
}

#[test]
fn a_long_table_is_several_and_the_end_of_a_huge_one_is_a_file() {
    let of = |rows: usize, words: usize| {
        let row = |n: usize| format!("| row {n} | {} |\n", "word ".repeat(words));
        format!("| n | words |\n|---|---|\n{}", (0..rows).map(row).collect::<String>())
    };
    // More rows than a block takes, and more text than a message.
    for (markdown, count) in [(of(150, 1), 150), (of(40, 30), 40)] {
        let rendered = render_markdown(&markdown, |_, _| "file.md".to_owned());
        assert_eq!(rendered.snippets, []);
        assert!(rendered.tables.len() > 1);
        let mut rows = 0;
        for table in &rendered.tables {
            assert!(table.text.chars().count() <= 3400 && rendered.text.contains(&table.text));
            let block = table.block.as_ref().unwrap();
            assert_eq!(cells(block, 0), ["bold{n}", "bold{words}"]);
            rows += block["rows"].as_array().unwrap().len() - 1;
        }
        assert_eq!(rows, count);
    }
    let markdown = format!("Before\n\n{}\nAfter", of(400, 30));
    let rendered = render_markdown(&markdown, |_, snippet| format!("t.{}", snippet.extension()));
    let [table] = &rendered.tables[..] else { panic!("{}", rendered.tables.len()) };
    let first = table.block.as_ref().unwrap()["rows"].as_array().unwrap().len() - 1;
    let note =
        format!("{}\n📎 `t.md`: all 400 rows, of which {first} are shown\n\nAfter", table.text);
    assert!(rendered.text.ends_with(&note), "{}", rendered.text);
    assert_eq!(rendered.snippets[0].code.lines().count(), 402);
    assert!(rendered.snippets[0].code.contains("| row 399 |"));
    // Where there are no files, all of it is in the text.
    assert_eq!(render_inline(&markdown).matches("• row ").count(), 400);
    // A row that no message holds is text.
    let alone = render_whole(&of(1, 1000));
    assert!(alone.tables[0].block.is_none() && alone.text.matches("word").count() > 1000);
}
