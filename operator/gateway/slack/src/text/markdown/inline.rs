//! Spans within a block: code, links, bold, italic, strike.

use std::fmt::Write as _;
use std::ops::Range;

use codebutler_markdown::{find_addresses, is_url, looks_elsewhere, mark_hidden};
use pulldown_cmark::{CowStr, Event, Tag, TagEnd};

use crate::text::mrkdwn::escape_text;

/// Text of one block with the spans in it.
#[derive(Default)]
pub(super) struct InlineLine {
    text: String,
    spans: Vec<MarkedSpan>,
    /// Indexes of spans that are open.
    open: Vec<usize>,
    link: Option<Link>,
    /// True inside a heading, which is bold: Slack can't nest bold in bold.
    heading: bool,
    /// Byte ranges of code and links: addresses in them are no links of their own.
    kept: Vec<Range<usize>>,
}

/// A marker and the bytes at which its text begins and ends.
struct MarkedSpan {
    marker: char,
    from: usize,
    to: usize,
}

struct Link {
    url: String,
    /// Title of the link, which others show when a pointer rests on it.
    title: String,
    from: usize,
}

impl InlineLine {
    /// Begins a heading: what follows is bold as a whole.
    pub(super) fn heading(&mut self) {
        self.heading = true;
    }

    pub(super) fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Strong if !self.heading => self.span('*'),
            Tag::Emphasis => self.span('_'),
            Tag::Strikethrough => self.span('~'),
            // An image inside a link is the link's label.
            Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. }
                if self.link.is_none() =>
            {
                let (url, title) = (dest_url.to_string(), title.to_string());
                self.link = Some(Link { url, title, from: self.text.len() });
            }
            _ => {}
        }
    }

    pub(super) fn stop(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong if self.heading => {}
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => {
                if let Some(span) = self.open.pop() {
                    self.spans[span].to = self.text.len();
                }
            }
            TagEnd::Link | TagEnd::Image => self.close_link(),
            _ => {}
        }
    }

    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&escape_text(&text)),
            Event::Code(code) => self.code(&code),
            Event::Html(html) | Event::InlineHtml(html) => self.text.push_str(&escape_text(&html)),
            Event::SoftBreak | Event::HardBreak => self.text.push('\n'),
            Event::TaskListMarker(done) => self.text.push_str(if done { "☑ " } else { "☐ " }),
            _ => {}
        }
    }

    /// Takes the finished text; what follows is another block's.
    pub(super) fn take(&mut self) -> String {
        let line = std::mem::take(self);
        // At one place, what ends comes before what begins; what began last ends first.
        let mut marks = Vec::new();
        let count = line.spans.len();
        for (index, span) in line.spans.iter().enumerate() {
            if shows_marker(&line.text, span) {
                marks.push((span.to, (0, count - index), span.marker));
                marks.push((span.from, (1, index), span.marker));
            }
        }
        let edges = marks.iter().map(|(at, ..)| *at).collect::<Vec<_>>();
        for Range { start, end } in find_addresses(&line.text, &line.kept, &edges) {
            marks.push((end, (0, 0), '>'));
            marks.push((start, (2, 0), '<'));
        }
        marks.sort_unstable();
        let mut out = String::with_capacity(line.text.len() + marks.len());
        let mut done = 0;
        for (at, _, marker) in marks {
            out.push_str(&line.text[done..at]);
            out.push(marker);
            done = at;
        }
        out.push_str(&line.text[done..]);
        out.trim().to_owned()
    }

    fn span(&mut self, marker: char) {
        self.open.push(self.spans.len());
        let at = self.text.len();
        self.spans.push(MarkedSpan { marker, from: at, to: at });
    }

    fn code(&mut self, code: &CowStr<'_>) {
        // A tick can't stand inside Slack's code.
        let code = escape_text(&mark_hidden(code)).replace('`', "ˋ");
        if self.link.is_some() {
            self.text.push_str(&code);
        } else {
            let from = self.text.len();
            self.text.push('`');
            self.text.push_str(&code);
            self.text.push('`');
            self.kept.push(from..self.text.len());
        }
    }

    fn close_link(&mut self) {
        let Some(link) = self.link.take() else { return };
        let label = self.text.split_off(link.from);
        // Markers can't stand inside a link's label.
        self.spans.retain(|span| span.from < link.from || span.to < link.from);
        let label = label.replace(['|', '\n'], " ");
        let url = link_target(&link.url);
        if !is_url(&link.url) {
            self.text.push_str(&label);
            if !link.url.is_empty() && escape_text(&link.url) != label {
                self.text.push_str(" (");
                self.text.push_str(&escape_text(&link.url));
                self.text.push(')');
            }
        } else if label.trim().is_empty() || label == escape_text(&link.url) {
            let _ = write!(self.text, "<{url}>");
        } else if looks_elsewhere(&label, &link.url) {
            // Nobody sees where a label leads: one that is an address of its own is not hidden behind.
            let _ = write!(self.text, "{} (<{url}>)", label.trim());
        } else {
            let _ = write!(self.text, "<{url}|{}>", label.trim());
        }
        if !link.title.trim().is_empty() {
            let _ = write!(self.text, " (“{}”)", escape_text(link.title.trim()));
        }
        self.kept.push(link.from..self.text.len());
    }
}

/// True if Slack shows the marker: at the edge of a word, around something.
fn shows_marker(text: &str, span: &MarkedSpan) -> bool {
    let before = text[..span.from].chars().next_back();
    let after = text[span.to..].chars().next();
    let inner = &text[span.from..span.to];
    !inner.trim().is_empty()
        && !inner.contains('\n')
        && !before.is_some_and(char::is_alphanumeric)
        && !after.is_some_and(char::is_alphanumeric)
}

/// Escapes a URL as a link's target: nothing in it can end the link.
fn link_target(url: &str) -> String {
    escape_text(url).replace('|', "%7C")
}
