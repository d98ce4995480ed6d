//! Markdown as HTML in which nothing runs, loads or leads anywhere but to the web. Pure.

use std::fmt::Write as _;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, OffsetIter, Tag, TagEnd};

use crate::{
    fence_words, find_addresses, is_url, looks_elsewhere, mark_hidden, parse_events, prepare_source,
};

/// Quotations and lists inside of each other that are shown as such.
const DEPTH: usize = 8;
/// Marks of list items in messages that were written for Slack.
const BULLETS: [&str; 3] = ["• ", "◦ ", "▪ "];
/// Three ticks as they stand in Slack's code, which they would end.
const TICKS: &str = "`\u{200b}``";

/// Markup in which a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextDialect {
    /// Markdown, as models write it.
    Markdown,
    /// Messages as Slack reads them: single asterisks are bold, items begin with bullets.
    Slack,
}

/// A text as HTML. `name` gets each piece of plain text, such as to name people in it; what it gives is text, too.
pub fn render_html(text: &str, dialect: TextDialect, name: &dyn Fn(&str) -> String) -> String {
    let source = match dialect {
        TextDialect::Markdown => prepare_source(text),
        TextDialect::Slack => prepare_source(&mark_items(text)),
    };
    let mut writer = HtmlWriter {
        source: &source,
        dialect,
        name,
        out: String::with_capacity(source.len() * 2),
        text: String::new(),
        link: None,
        ends: Vec::new(),
        depth: 0,
        in_head: false,
        blank: 0,
    };
    writer.write(parse_events(&source));
    writer.out
}

/// True for single marks inside of a word, as in `2*3*4`, where they mean nothing.
pub(crate) fn is_inside_word(source: &str, range: &Range<usize>) -> bool {
    let before = source.get(..range.start).and_then(|text| text.chars().next_back());
    let after = source.get(range.end..).and_then(|text| text.chars().next());
    before.is_some_and(char::is_alphanumeric) || after.is_some_and(char::is_alphanumeric)
}

/// Bullets as Markdown marks items, but for those in code. A line that begins at the margin ends a list: in Slack, no
/// item goes on there.
fn mark_items(text: &str) -> String {
    let (mut out, mut in_code, mut in_list) = (String::with_capacity(text.len()), false, false);
    for line in text.lines() {
        let inner = line.trim_start();
        in_code ^= inner.starts_with("```");
        let item = BULLETS.iter().find_map(|mark| inner.strip_prefix(mark)).filter(|_| !in_code);
        let is_item = item.is_some() || is_numbered(inner);
        if in_list && !in_code && !is_item && inner.len() == line.len() && !line.is_empty() {
            out.push('\n');
        }
        in_list = !in_code && (is_item || (in_list && inner.len() < line.len()));
        out.push_str(&line[..line.len() - inner.len()]);
        out.push_str(if item.is_some() { "- " } else { "" });
        let words = item.unwrap_or(inner);
        // A call of everybody, such as `<!here>`, begins no HTML.
        let is_call = words.starts_with("<!") && !in_code;
        let is_indented = item.is_none() && line.len() - inner.len() >= 4;
        out.push_str(if is_call && !is_indented { "\\" } else { "" });
        out.push_str(words);
        out.push('\n');
    }
    out
}

/// An item such as `3. text`.
fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "))
}

struct HtmlLink {
    url: String,
    title: String,
    label: String,
}

struct HtmlWriter<'a> {
    source: &'a str,
    dialect: TextDialect,
    name: &'a dyn Fn(&str) -> String,
    out: String,
    /// Plain text that was not written yet.
    text: String,
    link: Option<HtmlLink>,
    /// End tags of the open elements.
    ends: Vec<&'static str>,
    /// Nesting depth of quotations and lists.
    depth: usize,
    in_head: bool,
    /// Cells of the row with nothing in them that were not written yet.
    blank: usize,
}

impl HtmlWriter<'_> {
    fn write(&mut self, mut events: OffsetIter<'_>) {
        while let Some((event, range)) = events.next() {
            match event {
                Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.say(&text),
                Event::Code(code) => self.code(&code),
                Event::Start(Tag::CodeBlock(kind)) => self.block(&kind, &mut events),
                Event::Start(tag) => self.start(tag, &range),
                Event::End(tag) => self.end(tag),
                Event::SoftBreak | Event::HardBreak => self.put("<br>"),
                Event::Rule => self.put("<hr>"),
                Event::TaskListMarker(done) => self.say(if done { "☑ " } else { "☐ " }),
                _ => {}
            }
        }
        self.flush();
    }

    fn say(&mut self, text: &str) {
        match &mut self.link {
            Some(link) => link.label.push_str(text),
            None => self.text.push_str(text),
        }
    }

    /// Markup behind the text so far.
    fn put(&mut self, markup: &str) {
        match &mut self.link {
            Some(link) if markup == "<br>" => link.label.push(' '),
            Some(_) => {}
            None => {
                self.flush();
                self.out.push_str(markup);
            }
        }
    }

    /// The text so far, in which addresses are links.
    fn flush(&mut self) {
        let text = (self.name)(&std::mem::take(&mut self.text));
        let mut done = 0;
        for Range { start, end } in find_addresses(&text, &[], &[]) {
            push_escaped(&mut self.out, &text[done..start]);
            push_link(&mut self.out, &text[start..end], &text[start..end]);
            done = end;
        }
        push_escaped(&mut self.out, &text[done..]);
    }

    fn code(&mut self, code: &str) {
        if self.link.is_some() {
            return self.say(code);
        }
        self.flush();
        self.out.push_str("<code>");
        push_escaped(&mut self.out, &mark_hidden(code));
        self.out.push_str("</code>");
    }

    fn block(&mut self, kind: &CodeBlockKind<'_>, events: &mut OffsetIter<'_>) {
        self.flush();
        if let Some(words) = fence_words(kind) {
            self.out.push_str("<p>");
            push_escaped(&mut self.out, words);
            self.out.push_str("</p>");
        }
        self.out.push_str("<pre tabindex=\"0\"><code>");
        for (event, _) in events {
            match event {
                Event::End(TagEnd::CodeBlock) => break,
                Event::Text(text) if self.dialect == TextDialect::Slack => {
                    push_escaped(&mut self.out, &mark_hidden(&text.replace(TICKS, "```")));
                }
                Event::Text(text) => push_escaped(&mut self.out, &mark_hidden(&text)),
                _ => {}
            }
        }
        self.out.push_str("</code></pre>");
    }

    fn start(&mut self, tag: Tag<'_>, range: &Range<usize>) {
        let (begin, end) = match tag {
            Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. } => {
                return self.open_link(&dest_url, &title);
            }
            Tag::BlockQuote(_) => self.nested("<blockquote>", "</blockquote>"),
            Tag::List(None) => self.nested("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.nested("<ol>", "</ol>"),
            Tag::List(Some(first)) => {
                let begin = format!("<ol start=\"{first}\">");
                let (begin, end) = self.nested(&begin, "</ol>");
                self.put(begin);
                return self.ends.push(end);
            }
            Tag::Item if self.depth > DEPTH => ("<br>", ""),
            Tag::Item => ("<li>", "</li>"),
            Tag::Paragraph | Tag::HtmlBlock => ("<p>", "</p>"),
            Tag::Heading { .. } => ("<p class=\"heading\">", "</p>"),
            Tag::Strong => ("<b>", "</b>"),
            Tag::Emphasis => return self.emphasis(range),
            Tag::Strikethrough => ("<s>", "</s>"),
            Tag::Table(_) => (
                "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>",
                "</tbody></table></div>",
            ),
            Tag::TableHead => {
                self.in_head = true;
                ("<thead><tr>", "</tr></thead><tbody>")
            }
            Tag::TableRow => {
                self.blank = 0;
                ("<tr>", "</tr>")
            }
            // The parser fills short rows up: of a wide head and many of them it makes very many cells.
            Tag::TableCell if !self.in_head && range.is_empty() => {
                self.blank += 1;
                ("", "")
            }
            Tag::TableCell if self.in_head => ("<th scope=\"col\">", "</th>"),
            Tag::TableCell => {
                let blank = "<td></td>".repeat(std::mem::take(&mut self.blank));
                self.put(&blank);
                ("<td>", "</td>")
            }
            _ => ("", ""),
        };
        self.put(begin);
        self.ends.push(end);
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Link | TagEnd::Image => return self.close_link(),
            TagEnd::BlockQuote(_) | TagEnd::List(_) => self.depth -= 1,
            TagEnd::TableHead => self.in_head = false,
            _ => {}
        }
        let end = self.ends.pop().unwrap_or_default();
        self.put(end);
    }

    /// Deeper levels are flattened: browsers handle deep trees badly.
    fn nested<'t>(&mut self, begin: &'t str, end: &'static str) -> (&'t str, &'static str) {
        self.depth += 1;
        if self.depth > DEPTH { ("", "") } else { (begin, end) }
    }

    fn emphasis(&mut self, range: &Range<usize>) {
        let asterisk = self.source.as_bytes().get(range.start) == Some(&b'*');
        let (begin, end) = match (asterisk, self.dialect) {
            (true, TextDialect::Slack) if is_inside_word(self.source, range) => {
                self.say("*");
                return self.ends.push("*");
            }
            (true, TextDialect::Slack) => ("<b>", "</b>"),
            _ => ("<em>", "</em>"),
        };
        self.put(begin);
        self.ends.push(end);
    }

    /// An image inside of a link is the link's label.
    fn open_link(&mut self, url: &str, title: &str) {
        if self.link.is_some() {
            return self.ends.push("inner");
        }
        self.flush();
        let (url, title) = (url.to_owned(), title.to_owned());
        self.link = Some(HtmlLink { url, title, label: String::new() });
        self.ends.push("link");
    }

    fn close_link(&mut self) {
        if self.ends.pop() != Some("link") {
            return;
        }
        let Some(HtmlLink { url, title, label }) = self.link.take() else { return };
        let label = label.trim();
        if !is_url(&url) {
            let target = if url.is_empty() || url == label { "" } else { &*format!(" ({url})") };
            push_escaped(&mut self.out, label);
            push_escaped(&mut self.out, target);
        } else if label.is_empty() {
            push_link(&mut self.out, &url, &url);
        } else if looks_elsewhere(label, &url) {
            // A label that is an address of its own hides none.
            push_escaped(&mut self.out, &format!("{label} ("));
            push_link(&mut self.out, &url, &url);
            self.out.push(')');
        } else {
            push_link(&mut self.out, &url, &(self.name)(label));
        }
        if !title.trim().is_empty() {
            push_escaped(&mut self.out, &format!(" (“{}”)", title.trim()));
        }
    }
}

fn push_link(out: &mut String, url: &str, label: &str) {
    out.push_str("<a rel=\"nofollow noreferrer\" href=\"");
    push_escaped(out, url);
    out.push_str("\">");
    push_escaped(out, label);
    out.push_str("</a>");
}

/// Text in which no character is markup, in an attribute as well.
fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '"' | '\'' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        render_html(text, TextDialect::Markdown, &str::to_owned)
    }

    fn slack(text: &str) -> String {
        render_html(text, TextDialect::Slack, &|text| text.replace("<@U1>", "@Ana <b>"))
    }

    #[test]
    fn markdown_is_shown_as_it_is_meant() {
        for (text, expected) in [
            ("# Plan\nDo `a<b`.", "<p class=\"heading\">Plan</p><p>Do <code>a&#60;b</code>.</p>"),
            ("*a* **b** ~~c~~", "<p><em>a</em> <b>b</b> <s>c</s></p>"),
            ("- a\n- [x] b", "<ul><li>a</li><li>☑ b</li></ul>"),
            ("3. a\n4. b", "<ol start=\"3\"><li>a</li><li>b</li></ol>"),
            ("> q\nmine", "<blockquote><p>q</p></blockquote><p>mine</p>"),
            ("a\nb", "<p>a<br>b</p>"),
            (
                "```rust\nlet x = 1 < 2;\n```",
                "<pre tabindex=\"0\"><code>let x = 1 &#60; 2;\n</code></pre>",
            ),
            (
                "|a|b|\n|-|-|\n|1|`2`|",
                "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr>\
                 <th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead><tbody><tr><td>1</td>\
                 <td><code>2</code></td></tr></tbody></table></div>",
            ),
            (
                "see https://a.example/x.",
                "<p>see <a rel=\"nofollow noreferrer\" href=\"https://a.example/x\">https://a.example/x</a>.</p>",
            ),
        ] {
            assert_eq!(html(text), expected, "{text}");
        }
    }

    #[test]
    fn messages_of_slack_are_shown_as_slack_shows_them() {
        for (text, expected) in [
            ("*Plan* for <@U1>", "<p><b>Plan</b> for @Ana &#60;b&#62;</p>"),
            ("• a\n    ◦ b\n• c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
            (
                "Plan:\n1. a\n2. b\nDone when c",
                "<p>Plan:</p><ol><li>a</li><li>b</li></ol><p>Done when c</p>",
            ),
            ("• a\n  more\nend", "<ul><li>a<br>more</li></ul><p>end</p>"),
            ("<!here> *x*", "<p>&#60;!here&#62; <b>x</b></p>"),
            ("• <!here> *x*", "<ul><li>&#60;!here&#62; <b>x</b></li></ul>"),
            ("2*3*4 and _x_", "<p>2*3*4 and <em>x</em></p>"),
            ("```\n• code\n```", "<pre tabindex=\"0\"><code>• code\n</code></pre>"),
            ("```\na `\u{200b}`` b\n```", "<pre tabindex=\"0\"><code>a ``` b\n</code></pre>"),
        ] {
            assert_eq!(slack(text), expected, "{text}");
        }
    }

    #[test]
    fn hostile_markdown_is_inert() {
        for text in [
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)",
            "![x](javascript:alert(1))",
            "<javascript:alert(1)>",
            "[x]: javascript:alert(1)\n[x]",
            "<img src=x onerror=alert(1)>",
            "<div onclick=alert(1)>\n**x**\n</div>",
            "[x](//evil.example)",
            "[x](/sign-out)",
        ] {
            let shown = html(text);
            assert!(!shown.contains("href") && !shown.contains("<img"), "{text}: {shown}");
            assert!(!shown.contains("<div") && !shown.contains("<script"), "{text}: {shown}");
        }
        // Links to the web stay inside of their attribute and name their target.
        let shown = html("[x](https://e.example/\"onmouseover=alert(1)<b>)");
        assert!(
            shown.contains("href=\"https://e.example/&#34;onmouseover=alert(1)&#60;b&#62;\""),
            "{shown}"
        );
        let shown = html("[https://good.example](https://evil.example)");
        assert!(
            shown.contains("https://good.example (<a") && shown.contains(">https://evil.example<"),
            "{shown}"
        );
        let picture = html("![cat](https://evil.example/pixel.png)");
        assert!(picture.contains("<a ") && !picture.contains("<img"), "{picture}");
        assert!(html("[//]: # (hidden order)").contains("hidden order"));
        assert!(html("```sh hidden order\nls\n```").contains("hidden order"));
        assert!(html("|a|\n|-|\n|1| hidden order |").contains("1| hidden order"));
        assert_eq!(html("\u{202e}sey"), "<p>⟦U+202E⟧sey</p>");
        assert_eq!(html("`a\u{2066}b`"), "<p><code>a⟦U+2066⟧b</code></p>");
        assert!(html("```\na\u{200b}b\n```").contains("a⟦U+200B⟧b"));
    }

    #[test]
    fn elements_end_in_order_however_deep_they_are() {
        let quotes = ">".repeat(5000) + " deep";
        let lists: String = (0..200).map(|n| " ".repeat(n * 2) + "- x\n").collect();
        for text in [
            &*quotes,
            &*lists,
            "[a [b](https://b.example) ![c](d)",
            "**a *b** c*",
            "|a|\n|-|\n|[x](y)|",
        ] {
            let shown = html(text);
            let mut open = Vec::new();
            for tag in shown.split('<').skip(1) {
                let tag = tag.split(['>', ' ']).next().unwrap();
                match tag.strip_prefix('/') {
                    Some(end) => assert_eq!(open.pop(), Some(end), "{text}: {shown}"),
                    None if tag == "br" || tag == "hr" => {}
                    None => open.push(tag),
                }
            }
            assert_eq!(open, Vec::<&str>::new(), "{text}");
            assert!(shown.matches("<blockquote>").count() <= DEPTH, "{text}");
        }
    }

    #[test]
    fn a_small_text_is_no_huge_table() {
        let (head, rule) = ("a|".repeat(2000), "-|".repeat(2000));
        let text = format!("|{head}\n|{rule}\n{}", "|b\n".repeat(130));
        let shown = html(&text);
        assert!(shown.contains("<td>b</td></tr>"), "{}", shown.len());
        assert!(shown.len() < 60_000, "{}", shown.len());
        let gap = html("|a|b|c|\n|-|-|-|\n|1||3|\n||2|");
        assert!(gap.contains("<tr><td>1</td><td></td><td>3</td></tr>"), "{gap}");
        assert!(gap.contains("<tr><td></td><td>2</td></tr>"), "{gap}");
    }
}
