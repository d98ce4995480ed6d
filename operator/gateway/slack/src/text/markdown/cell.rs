//! Cells of a table as Slack's rich text: it knows links, bold, italic, strike and code, and nothing in its text
//! is markup or calls anybody.

use std::borrow::Cow;

use codebutler_markdown::{find_addresses, is_url, looks_elsewhere, mark_hidden};
use pulldown_cmark::{Event, Tag, TagEnd};
use serde_json::{Map, Value, json};

use crate::text::mrkdwn::escape_text;

/// Names of the styles in the order of [`CellWriter::styles`].
const STYLES: [&str; 3] = ["bold", "italic", "strike"];

/// Writes one cell from the events inside it.
#[derive(Default)]
pub(super) struct CellWriter {
    pieces: Vec<CellPiece>,
    /// Open spans of bold, italic and strike.
    styles: [usize; 3],
    link: Option<CellLink>,
}

/// Words of one style, perhaps a link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CellPiece {
    text: String,
    url: Option<String>,
    /// True for bold, italic, strike.
    styles: [bool; 3],
    code: bool,
}

struct CellLink {
    url: String,
    title: String,
    label: String,
    /// Links and images inside it: they are its label.
    inside: usize,
}

/// A finished cell, as pieces of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RichCell {
    pieces: Vec<CellPiece>,
}

impl CellWriter {
    pub(super) fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Strong => self.styles[0] += 1,
            Tag::Emphasis => self.styles[1] += 1,
            Tag::Strikethrough => self.styles[2] += 1,
            Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. } => {
                if let Some(link) = &mut self.link {
                    link.inside += 1;
                } else {
                    let (url, title) = (dest_url.to_string(), title.to_string());
                    self.link = Some(CellLink { url, title, label: String::new(), inside: 0 });
                }
            }
            _ => {}
        }
    }

    pub(super) fn stop(&mut self, tag: TagEnd) {
        let style = match tag {
            TagEnd::Strong => 0,
            TagEnd::Emphasis => 1,
            TagEnd::Strikethrough => 2,
            TagEnd::Link | TagEnd::Image => return self.close_link(),
            _ => return,
        };
        self.styles[style] = self.styles[style].saturating_sub(1);
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        let (text, code) = match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                (Cow::Borrowed(&**text), false)
            }
            Event::Code(text) => (mark_hidden(text), true),
            Event::SoftBreak | Event::HardBreak => (Cow::Borrowed(" "), false),
            _ => return,
        };
        match &mut self.link {
            Some(link) => link.label.push_str(&text),
            None => self.push(&text, None, code),
        }
    }

    /// Takes the finished cell; what follows is another one's.
    pub(super) fn take(&mut self) -> RichCell {
        let writer = std::mem::take(self);
        RichCell { pieces: writer.pieces.into_iter().flat_map(mark_addresses).collect() }
    }

    fn push(&mut self, text: &str, url: Option<String>, code: bool) {
        if text.is_empty() {
            return;
        }
        let styles = self.styles.map(|open| open > 0);
        let piece = CellPiece { text: text.to_owned(), url, styles, code };
        match self.pieces.last_mut() {
            // The parser cuts words at what could be markup.
            Some(last)
                if last.url.is_none()
                    && piece.url.is_none()
                    && (last.styles, last.code) == (styles, code) =>
            {
                last.text.push_str(text);
            }
            _ => self.pieces.push(piece),
        }
    }

    fn close_link(&mut self) {
        let Some(mut link) = self.link.take() else { return };
        if link.inside > 0 {
            link.inside -= 1;
            self.link = Some(link);
            return;
        }
        let CellLink { url, title, label, .. } = link;
        let label = label.trim();
        if !is_url(&url) {
            self.push(label, None, false);
            if !url.is_empty() && url != label {
                self.push(&format!(" ({url})"), None, false);
            }
        } else if looks_elsewhere(label, &url) {
            // Nobody sees where a label leads: one that is an address of its own is not hidden behind.
            self.push(&format!("{label} ("), None, false);
            self.push(&url.clone(), Some(url), false);
            self.push(")", None, false);
        } else {
            let shown = if label.is_empty() { url.clone() } else { label.to_owned() };
            self.push(&shown, Some(url), false);
        }
        if !title.trim().is_empty() {
            self.push(&format!(" (“{}”)", title.trim()), None, false);
        }
    }
}

/// Makes links of the addresses in a text that is none.
fn mark_addresses(piece: CellPiece) -> Vec<CellPiece> {
    if piece.url.is_some() || piece.code {
        return vec![piece];
    }
    let mut pieces = Vec::new();
    let mut done = 0;
    let mut add = |text: &str, url: Option<String>| {
        if !text.is_empty() {
            pieces.push(CellPiece { text: text.to_owned(), url, ..piece.clone() });
        }
    };
    for found in find_addresses(&piece.text, &[], &[]) {
        add(&piece.text[done..found.start], None);
        let url = &piece.text[found.clone()];
        add(url, Some(url.to_owned()));
        done = found.end;
    }
    add(&piece.text[done..], None);
    pieces
}

impl RichCell {
    /// The words alone, as they stand inside code.
    pub(super) fn plain(&self) -> String {
        let text: String = self.pieces.iter().map(|piece| piece.text.as_str()).collect();
        escape_text(text.trim()).replace("```", "`\u{200b}``")
    }

    /// True if a label hides its address where there are no links.
    pub(super) fn has_label(&self) -> bool {
        self.pieces.iter().any(|piece| piece.url.as_ref().is_some_and(|url| *url != piece.text))
    }

    /// Characters that Slack counts.
    pub(super) fn length(&self) -> usize {
        let piece = |piece: &CellPiece| {
            let url = piece.url.as_ref().map_or(0, |url| url.chars().count());
            piece.text.chars().count() + url
        };
        self.pieces.iter().map(piece).sum::<usize>().max(1)
    }

    /// The cell of a `table` block. Slack takes no empty one.
    pub(super) fn block(&self, is_head: bool) -> Value {
        let text: String = self.pieces.iter().map(|piece| piece.text.as_str()).collect();
        if text.trim().is_empty() {
            return json!({"type": "raw_text", "text": " "});
        }
        let is_plain = |piece: &CellPiece| {
            piece.url.is_none() && !piece.code && piece.styles == [false; 3] && !is_head
        };
        if self.pieces.iter().all(is_plain) {
            return json!({"type": "raw_text", "text": text.trim()});
        }
        let elements: Vec<Value> = self.pieces.iter().map(|piece| piece.element(is_head)).collect();
        let line = json!({"type": "rich_text_section", "elements": elements});
        json!({"type": "rich_text", "elements": [line]})
    }
}

impl CellPiece {
    fn element(&self, is_head: bool) -> Value {
        let mut element = match &self.url {
            Some(url) if *url == self.text => json!({"type": "link", "url": url}),
            Some(url) => json!({"type": "link", "url": url, "text": self.text}),
            None => json!({"type": "text", "text": self.text}),
        };
        let mut style = Map::new();
        for (name, is_set) in STYLES.iter().zip(self.styles) {
            if is_set || (is_head && *name == "bold") {
                style.insert((*name).to_owned(), json!(true));
            }
        }
        if self.code {
            style.insert("code".to_owned(), json!(true));
        }
        if !style.is_empty() {
            element["style"] = Value::Object(style);
        }
        element
    }
}
