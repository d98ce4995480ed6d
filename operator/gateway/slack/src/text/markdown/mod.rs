//! Markdown, which models write, as Slack's mrkdwn. Pure.
//!
//! Slack's markup is not Markdown: it knows no headings, tables or nested lists, wants its markers
//! at the edges of words and has no escapes. So a message is parsed as CommonMark (with tables,
//! strikethrough and task lists) and written anew. Everything outside code and links is escaped:
//! a model can't ping (`<!channel>`, `<@U…>`) or forge Slack's markup.
//!
//! Slack's `markdown` block is no way around it. Slack would decide what of it is seen (comments, titles of links
//! and definitions are not), so that people could say yes to words that they were not shown. It draws all headings
//! alike and no task lists, and gives back other blocks than it was given, which an edit that takes buttons away
//! could not send again.

mod cell;
mod inline;
mod table;

use std::ops::Range;

use codebutler_markdown::{fence_words, mark_hidden, parse_events, prepare_source};
use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};

use serde_json::Value;

use self::inline::InlineLine;
use self::table::{HUGE, MarkdownTable};
use crate::text::mrkdwn::escape_text;

/// Least number of lines of code that go into a file.
const LONG: usize = 20;
const INDENT: &str = "    ";
const BULLETS: [&str; 3] = ["•", "◦", "▪"];

/// Code that is too long for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongSnippet {
    /// Words behind the opening ticks, if there are any.
    pub language: Option<String>,
    /// The code as it was written.
    pub code: String,
}

impl LongSnippet {
    /// Extension of the file's name.
    pub(crate) fn extension(&self) -> &str {
        let language = self.language.as_deref().unwrap_or_default();
        match language {
            "rust" => "rs",
            "python" => "py",
            "javascript" => "js",
            "typescript" => "ts",
            "shell" | "bash" | "console" | "zsh" => "sh",
            "ruby" => "rb",
            "markdown" => "md",
            "kotlin" => "kt",
            "csharp" => "cs",
            "patch" => "diff",
            "yml" => "yaml",
            "" | "text" | "plain" | "plaintext" => "txt",
            other => other,
        }
    }
}

/// A message in Slack's markup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RenderedMessage {
    /// Text with a line in place of each snippet.
    pub text: String,
    /// Snippets in the order of the text.
    pub snippets: Vec<LongSnippet>,
    /// Tables in the order of the text.
    pub tables: Vec<RenderedTable>,
}

/// A table in a role's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenderedTable {
    /// The table as the message's text has it.
    pub text: String,
    /// The block that shows it; `None` where no block can.
    pub block: Option<Value>,
}

/// Renders Markdown as mrkdwn, long code apart; `name` gives the name of the n-th snippet (from 0).
pub(crate) fn render_markdown(
    markdown: &str,
    name: impl Fn(usize, &LongSnippet) -> String,
) -> RenderedMessage {
    let mut writer = MarkdownWriter::new(markdown, Some(&name));
    writer.write();
    writer.finish()
}

/// Renders Markdown as mrkdwn, all of it in the text.
pub(crate) fn render_inline(markdown: &str) -> String {
    render_whole(markdown).text
}

/// The same, with the tables in it.
pub(crate) fn render_whole(markdown: &str) -> RenderedMessage {
    let mut writer = MarkdownWriter::new(markdown, None);
    writer.write();
    writer.finish()
}

type SnippetName<'a> = &'a dyn Fn(usize, &LongSnippet) -> String;

enum OpenBlock {
    Quote,
    /// A list, with the number of its next item if it is numbered.
    List(Option<u64>),
    /// An item whose marker was not written yet.
    Item(String),
}

struct MarkdownWriter<'a> {
    source: String,
    out: RenderedMessage,
    open: Vec<OpenBlock>,
    line: InlineLine,
    /// Offset in the source at which the last block ended.
    end: Option<usize>,
    /// Separator between it and the item that begins.
    gap: &'static str,
    name: Option<SnippetName<'a>>,
}

impl<'a> MarkdownWriter<'a> {
    fn new(markdown: &str, name: Option<SnippetName<'a>>) -> Self {
        Self {
            source: prepare_source(markdown),
            out: RenderedMessage::default(),
            open: Vec::new(),
            line: InlineLine::default(),
            end: None,
            gap: "\n",
            name,
        }
    }

    fn finish(self) -> RenderedMessage {
        self.out
    }

    fn write(&mut self) {
        let source = std::mem::take(&mut self.source);
        let mut events = parse_events(&source);
        while let Some((event, range)) = events.next() {
            if begins_block(&event) {
                self.settle(&source, &range);
            }
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let code = text_until(&mut events, TagEnd::CodeBlock);
                    self.code(&kind, code, &source, &range);
                }
                Event::Start(Tag::Table(alignments)) => {
                    let table = table::read_table(&mut events, alignments);
                    self.table(&table, &source, &range);
                }
                Event::Start(Tag::HtmlBlock) => {
                    let html = text_until(&mut events, TagEnd::HtmlBlock);
                    self.block(&source, &range, &escape_text(html.trim_end()));
                }
                Event::Rule => self.block(&source, &range, "———"),
                Event::Start(tag) => self.start(tag, &source, &range),
                Event::End(tag) => self.stop(tag, &source, &range),
                event => self.line.event(event),
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, source: &str, range: &Range<usize>) {
        match tag {
            Tag::BlockQuote(_) => self.open.push(OpenBlock::Quote),
            Tag::List(first) => {
                self.open.push(OpenBlock::List(first));
            }
            Tag::Item => {
                self.gap = self.gap_before(source, range);
                self.item();
            }
            Tag::Heading { .. } => self.line.heading(),
            tag => self.line.start(tag),
        }
    }

    fn stop(&mut self, tag: TagEnd, source: &str, range: &Range<usize>) {
        match tag {
            TagEnd::Paragraph => {
                let text = self.line.take();
                self.block(source, range, &text);
            }
            TagEnd::Heading(_) => {
                let text = self.line.take();
                let text = if text.is_empty() { text } else { format!("*{text}*") };
                self.block(source, range, &text);
            }
            TagEnd::Item => {
                self.flush_item();
                self.open.pop();
                self.end = Some(block_end(source, range));
            }
            TagEnd::List(_) | TagEnd::BlockQuote(_) => {
                self.open.pop();
                self.end = Some(block_end(source, range));
            }
            tag => self.line.stop(tag),
        }
    }

    fn item(&mut self) {
        let lists = self.open.iter().filter(|open| matches!(open, OpenBlock::List(_))).count();
        let marker = match self.open.last_mut() {
            Some(OpenBlock::List(Some(number))) => {
                *number += 1;
                format!("{}.", *number - 1)
            }
            _ => BULLETS[lists.saturating_sub(1).min(BULLETS.len() - 1)].to_owned(),
        };
        self.open.push(OpenBlock::Item(marker));
    }

    /// Ends the text of a tight item, which has no paragraph, where a block inside it begins.
    fn settle(&mut self, source: &str, range: &Range<usize>) {
        let text = self.line.take();
        if !text.is_empty() {
            self.lines(&text, self.gap);
            self.end = source.get(..range.start).map(|before| before.trim_end().len());
        }
    }

    /// Writes the text of a tight item, which has no paragraph.
    fn flush_item(&mut self) {
        let fresh = matches!(self.open.last(), Some(OpenBlock::Item(marker)) if !marker.is_empty());
        let text = self.line.take();
        if fresh || !text.is_empty() {
            self.lines(&text, self.gap);
        }
    }

    /// Long code becomes a line that names its file.
    fn code(&mut self, kind: &CodeBlockKind<'_>, code: String, source: &str, range: &Range<usize>) {
        let count = code.lines().count();
        if let Some(words) = fence_words(kind) {
            self.block(source, range, &escape_text(words));
        }
        match self.name {
            Some(name) if count >= LONG => {
                let snippet = LongSnippet { language: code_language(kind), code };
                let name = name(self.out.snippets.len(), &snippet);
                self.out.snippets.push(snippet);
                self.block(source, range, &format!("📎 `{name}` ({count} lines)"));
            }
            _ => {
                // Slack knows no language names, and no ticks inside code.
                let code = escape_text(&mark_hidden(code.trim_end_matches('\n')));
                let code = code.replace("```", "`\u{200b}``");
                self.block(source, range, &format!("```\n{code}\n```"));
            }
        }
    }

    /// A table that no message holds becomes several, and the end of a huge one a file.
    fn table(&mut self, table: &MarkdownTable, source: &str, range: &Range<usize>) {
        let pieces = table.in_pieces();
        let whole = source.get(range.clone()).unwrap_or_default().trim_end();
        let file = self.name.filter(|_| pieces.len() > 1 && table.render().chars().count() > HUGE);
        let shown = if file.is_some() { &pieces[..1] } else { &pieces[..] };
        for (at, piece) in shown.iter().enumerate() {
            let gap = if at == 0 { self.gap_before(source, range) } else { "\n\n" };
            let nested = !self.open.is_empty();
            let text = piece.render();
            let start = self.lines(&text, gap);
            let text = self.out.text.get(start..).unwrap_or_default().to_owned();
            let block = if nested { None } else { piece.block() };
            self.out.tables.push(RenderedTable { text, block });
        }
        if let Some(name) = file {
            let language = Some("markdown".to_owned());
            let snippet = LongSnippet { language, code: format!("{whole}\n") };
            let name = name(self.out.snippets.len(), &snippet);
            self.out.snippets.push(snippet);
            let (first, all) = (shown.first().map_or(0, MarkdownTable::count), table.count());
            self.lines(&format!("📎 `{name}`: all {all} rows, of which {first} are shown"), "\n");
        }
        self.end = Some(block_end(source, range));
    }

    /// Writes one block, as far from the one before it as in the source.
    fn block(&mut self, source: &str, range: &Range<usize>, text: &str) {
        self.lines(text, self.gap_before(source, range));
        self.end = Some(block_end(source, range));
    }

    fn gap_before(&self, source: &str, range: &Range<usize>) -> &'static str {
        let gap = self.end.and_then(|end| source.get(end..range.start)).unwrap_or_default();
        if gap.matches('\n').count() > 1 { "\n\n" } else { "\n" }
    }

    /// Writes lines and returns where they begin in the text.
    fn lines(&mut self, text: &str, apart: &str) -> usize {
        if !self.out.text.is_empty() {
            self.out.text.push_str(apart);
        }
        let start = self.out.text.len();
        // Slack takes a fence only at the start of a line.
        let fenced = text.starts_with("```");
        let mut lines = text.lines().peekable();
        if lines.peek().is_none() || (fenced && self.fresh_item()) {
            let prefix = self.prefix();
            self.out.text.push_str(prefix.trim_end());
            if lines.peek().is_some() {
                self.out.text.push('\n');
            }
        }
        for (index, line) in lines.enumerate() {
            if index > 0 {
                self.out.text.push('\n');
            }
            if !fenced {
                let prefix = self.prefix();
                self.out.text.push_str(&prefix);
            }
            self.out.text.push_str(line);
        }
        start
    }

    fn fresh_item(&self) -> bool {
        matches!(self.open.last(), Some(OpenBlock::Item(marker)) if !marker.is_empty())
    }

    /// Prefix of a line: quote marks, indentation, and an item's marker once.
    fn prefix(&mut self) -> String {
        let mut prefix = String::new();
        let mut lists = 0;
        let last = self.open.len().saturating_sub(1);
        for (index, open) in self.open.iter_mut().enumerate() {
            match open {
                OpenBlock::Quote => prefix.push_str("> "),
                OpenBlock::List(_) => {
                    if lists > 0 {
                        prefix.push_str(INDENT);
                    }
                    lists += 1;
                }
                OpenBlock::Item(marker) if marker.is_empty() => {
                    if index == last {
                        prefix.push_str("  ");
                    }
                }
                OpenBlock::Item(marker) => {
                    prefix.push_str(marker);
                    prefix.push(' ');
                    marker.clear();
                }
            }
        }
        prefix
    }
}

fn begins_block(event: &Event<'_>) -> bool {
    match event {
        Event::Rule => true,
        Event::Start(tag) => matches!(
            tag,
            Tag::CodeBlock(_)
                | Tag::Table(_)
                | Tag::HtmlBlock
                | Tag::BlockQuote(_)
                | Tag::List(_)
                | Tag::Heading { .. }
                | Tag::Paragraph
        ),
        _ => false,
    }
}

/// Offset at which the text of a block ends.
fn block_end(source: &str, range: &Range<usize>) -> usize {
    let text = source.get(range.clone()).unwrap_or_default();
    range.start + text.trim_end().len()
}

fn code_language(kind: &CodeBlockKind<'_>) -> Option<String> {
    let CodeBlockKind::Fenced(info) = kind else { return None };
    let word = info.split([' ', ',', '{']).next().unwrap_or_default();
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '-'));
    (!word.is_empty() && plain && word.len() <= 16).then(|| word.to_ascii_lowercase())
}

/// Reads the text up to the end of a block that holds nothing but text.
fn text_until<'a>(
    events: &mut impl Iterator<Item = (Event<'a>, Range<usize>)>,
    until: TagEnd,
) -> String {
    let mut text = String::new();
    for (event, _) in events {
        match event {
            Event::End(tag) if tag == until => break,
            Event::Text(part) | Event::Html(part) => text.push_str(&part),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests;
