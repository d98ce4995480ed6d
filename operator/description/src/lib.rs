//! The description of a pull request, which people and CodeButler write together. CodeButler's parts stand between
//! marks, HTML comments that carry a digest of what was written last. A part that still fits its digest is replaced
//! in place; everything else in a description is people's, and no byte of it changes. Pure.

mod fit;
mod marks;

use marks::{MarkToken, PartStamp, split_marks};

pub use fit::{FittedDescription, LIMIT};

/// A part that CodeButler writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPart {
    /// Origin of the change, and how it was tested.
    Receipt,
    /// Words of the role that opened the pull request.
    Words,
    /// Pictures of before and after the change.
    Pictures,
    /// Summary of the work and its cost, at the end.
    Summary,
}

impl OwnPart {
    pub(crate) const ALL: [Self; 4] = [Self::Receipt, Self::Words, Self::Pictures, Self::Summary];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Words => "description",
            Self::Pictures => "pictures",
            Self::Summary => "summary",
        }
    }
}

/// Outcome of writing a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The part is in the description as written.
    Written,
    /// A person had changed the part: their version stays, and the new one stands below it.
    Beside,
    /// A person had changed the part, and there is nothing new to say: their version stays.
    Kept,
}

/// A piece of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DescriptionPiece {
    People(String),
    Own(OwnText),
}

/// A part between its marks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnText {
    part: OwnPart,
    /// Stamp of the text that was written last.
    stamp: Option<PartStamp>,
    /// Text with the line breaks around it.
    text: String,
    /// Bytes at its end that are not shortened.
    fixed: usize,
}

impl OwnText {
    fn new(part: OwnPart, text: &str, tail: &str) -> Self {
        let text = marks::close_fence(text.trim());
        let tail = tail.trim();
        let whole = if text.is_empty() || tail.is_empty() {
            format!("{text}{tail}")
        } else {
            format!("{text}\n\n{tail}")
        };
        let stamp = Some(PartStamp::of(&whole));
        let fixed = if tail.is_empty() { 0 } else { tail.len() + 2 };
        Self { part, stamp, text: format!("\n\n{whole}\n\n"), fixed }
    }

    /// True if nobody has edited the part since it was written.
    fn is_untouched(&self) -> bool {
        self.stamp.as_ref().is_some_and(|stamp| *stamp == PartStamp::of(&self.text))
    }
}

/// A description, taken apart.
#[derive(Clone, Debug)]
pub struct SharedDescription {
    pieces: Vec<DescriptionPiece>,
    /// Digest of the title that CodeButler wrote last.
    title: Option<String>,
    is_receipt_line: fn(&str) -> bool,
}

impl SharedDescription {
    /// Parses a description. `is_receipt_line`: recognizes lines that only a receipt has, to find a receipt whose
    /// marks a person removed.
    pub fn read(body: &str, is_receipt_line: fn(&str) -> bool) -> Self {
        let tokens = split_marks(body);
        let mut read = Self { pieces: Vec::new(), title: None, is_receipt_line };
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                MarkToken::Text(text) => read.push_people(text),
                MarkToken::Open { part, stamp, title } => {
                    read.title = read.title.take().or_else(|| title.clone());
                    let whole = match (tokens.get(at), tokens.get(at + 1)) {
                        (Some(MarkToken::Close { part: end, .. }), _) if end == part => {
                            Some(("", 1))
                        }
                        (Some(MarkToken::Text(text)), Some(MarkToken::Close { part: end, .. }))
                            if end == part =>
                        {
                            Some((*text, 2))
                        }
                        _ => None,
                    };
                    if let Some((text, length)) = whole {
                        at += length;
                        read.push_own(*part, stamp.clone(), text);
                    } else if let Some(MarkToken::Text(text)) = tokens.get(at) {
                        // The end mark is missing.
                        at += 1;
                        let (own, rest) =
                            text.split_at(read.own_length(*part, stamp.as_ref(), text));
                        if !own.is_empty() {
                            read.push_own(*part, stamp.clone(), own);
                        }
                        read.push_people(rest);
                    }
                }
                MarkToken::Close { part, stamp } => read.close_unopened(*part, stamp.as_ref()),
            }
        }
        read.drop_copies();
        read
    }

    fn push_people(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(DescriptionPiece::People(before)) => before.push_str(text),
            _ if text.is_empty() => {}
            _ => self.pieces.push(DescriptionPiece::People(text.to_owned())),
        }
    }

    fn push_own(&mut self, part: OwnPart, stamp: Option<PartStamp>, text: &str) {
        let text = text.to_owned();
        self.pieces.push(DescriptionPiece::Own(OwnText { part, stamp, text, fixed: 0 }));
    }

    /// Length of the prefix of `text` that belongs to a part whose end mark is missing.
    fn own_length(&self, part: OwnPart, stamp: Option<&PartStamp>, text: &str) -> usize {
        if let Some(length) = stamp.and_then(|stamp| stamp.length_at_start(text)) {
            return length;
        }
        if part != OwnPart::Receipt {
            return 0;
        }
        let own = |line: &&str| line.trim().is_empty() || (self.is_receipt_line)(line);
        text.split_inclusive('\n').take_while(own).map(str::len).sum()
    }

    /// An end whose beginning is gone.
    fn close_unopened(&mut self, part: OwnPart, stamp: Option<&PartStamp>) {
        let Some(DescriptionPiece::People(before)) = self.pieces.last_mut() else { return };
        let own = |line: &&str| line.trim().is_empty() || (self.is_receipt_line)(line);
        let length = match stamp.and_then(|stamp| stamp.length_at_end(before)) {
            Some(length) => length,
            None if part == OwnPart::Receipt => {
                before.split_inclusive('\n').rev().take_while(own).map(str::len).sum()
            }
            None => 0,
        };
        if length > 0 {
            let text = before.split_off(before.len() - length);
            if before.is_empty() {
                self.pieces.pop();
            }
            self.push_own(part, stamp.cloned(), &text);
        }
    }

    /// Keeps one copy of each part, preferably one that nobody has edited. Exact copies go, edited ones become
    /// people's.
    fn drop_copies(&mut self) {
        for part in OwnPart::ALL {
            let own = |piece: &DescriptionPiece| match piece {
                DescriptionPiece::Own(own) if own.part == part => Some(own.is_untouched()),
                _ => None,
            };
            let stays = self.pieces.iter().position(|piece| own(piece) == Some(true));
            let stays = stays.or_else(|| self.pieces.iter().position(|piece| own(piece).is_some()));
            let before = std::mem::take(&mut self.pieces);
            for (at, piece) in before.into_iter().enumerate() {
                match piece {
                    DescriptionPiece::People(text) => self.push_people(&text),
                    DescriptionPiece::Own(own) if own.part == part && stays != Some(at) => {
                        if !own.is_untouched() {
                            self.push_people(&own.text);
                        }
                    }
                    own @ DescriptionPiece::Own(_) => self.pieces.push(own),
                }
            }
        }
    }

    fn position(&self, part: OwnPart) -> Option<usize> {
        let is_it = |piece: &DescriptionPiece| matches!(piece, DescriptionPiece::Own(own) if own.part == part);
        self.pieces.iter().position(is_it)
    }

    fn own(&self, part: OwnPart) -> Option<&OwnText> {
        match self.pieces.get(self.position(part)?)? {
            DescriptionPiece::Own(own) => Some(own),
            DescriptionPiece::People(_) => None,
        }
    }

    /// Returns the text of a part, without its marks and with plain line breaks.
    pub fn part(&self, part: OwnPart) -> Option<String> {
        self.own(part).map(|own| marks::plain_lines(&own.text))
    }

    /// Returns the text outside of all parts, which people wrote, with plain line breaks.
    pub fn people(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            DescriptionPiece::People(text) => Some(marks::plain_lines(text)),
            DescriptionPiece::Own(_) => None,
        });
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// True if a title is the one that CodeButler wrote last.
    pub fn has_title(&self, title: &str) -> bool {
        self.title.as_ref().is_some_and(|known| *known == marks::title_digest(title))
    }

    /// Notes the title that is written together with the description.
    pub fn note_title(&mut self, title: &str) {
        self.title = Some(marks::title_digest(title));
    }

    /// Writes a part; its `tail` is not shortened where the description is too long.
    pub fn put(&mut self, part: OwnPart, text: &str, tail: &str) -> PutOutcome {
        let new = OwnText::new(part, text, tail);
        let Some(at) = self.position(part) else {
            let at = self.place_of(part);
            self.pieces.insert(at, DescriptionPiece::Own(new));
            return PutOutcome::Written;
        };
        let Some(DescriptionPiece::Own(old)) = self.pieces.get(at) else {
            return PutOutcome::Written;
        };
        let is_same = marks::plain_lines(&old.text) == marks::plain_lines(&new.text);
        if old.is_untouched() || is_same {
            self.pieces[at] = DescriptionPiece::Own(new);
            return PutOutcome::Written;
        }
        if part == OwnPart::Words && old.stamp == new.stamp {
            return PutOutcome::Kept;
        }
        let theirs = match part {
            OwnPart::Receipt => self.added_lines(&old.text, &new.text),
            OwnPart::Words | OwnPart::Pictures | OwnPart::Summary => old.text.clone(),
        };
        let is_beside = !theirs.trim().is_empty();
        let mut pieces = vec![DescriptionPiece::Own(new)];
        if is_beside {
            let at = usize::from(part == OwnPart::Receipt);
            pieces.insert(at, DescriptionPiece::People(theirs));
        }
        self.pieces.splice(at..=at, pieces);
        if is_beside { PutOutcome::Beside } else { PutOutcome::Written }
    }

    /// Removes a part that nobody has edited.
    pub fn remove(&mut self, part: OwnPart) {
        if self.own(part).is_some_and(OwnText::is_untouched)
            && let Some(at) = self.position(part)
        {
            self.pieces.remove(at);
        }
    }

    /// Changes what stands in a part, whoever wrote it, if it is there.
    pub fn amend(&mut self, part: OwnPart, change: impl Fn(&str) -> String) {
        let Some(at) = self.position(part) else { return };
        let Some(DescriptionPiece::Own(own)) = self.pieces.get_mut(at) else { return };
        let untouched = own.is_untouched();
        own.text = change(&own.text);
        if untouched {
            own.stamp = Some(PartStamp::of(&own.text));
        }
    }

    /// Lines of a receipt that people added to it.
    fn added_lines(&self, old: &str, new: &str) -> String {
        let is_ours = |line: &str| {
            let same = new.lines().any(|own| own.trim_end() == line.trim_end());
            (self.is_receipt_line)(line) || (same && !line.trim().is_empty())
        };
        old.split_inclusive('\n').filter(|line| !is_ours(line)).collect()
    }

    /// Index at which a part that is not there yet is inserted: the receipt first, the summary last.
    fn place_of(&self, part: OwnPart) -> usize {
        match part {
            OwnPart::Receipt => 0,
            OwnPart::Words => {
                let next = self.position(OwnPart::Pictures).or(self.position(OwnPart::Summary));
                next.unwrap_or(self.pieces.len())
            }
            OwnPart::Pictures => self.position(OwnPart::Summary).unwrap_or(self.pieces.len()),
            OwnPart::Summary => self.pieces.len(),
        }
    }

    /// Renders all pieces as one description.
    fn whole(&self) -> String {
        let mut out = String::new();
        let mut after_own = false;
        for piece in &self.pieces {
            match piece {
                DescriptionPiece::People(text) => {
                    if after_own && !text.starts_with(['\r', '\n']) {
                        out.push_str("\n\n");
                    }
                    out.push_str(text);
                    after_own = false;
                }
                DescriptionPiece::Own(own) => {
                    let is_apart =
                        out.is_empty() || out.ends_with("\n\n") || out.ends_with("\n\r\n");
                    if !is_apart {
                        out.push_str(if out.ends_with('\n') { "\n" } else { "\n\n" });
                    }
                    let title = self.title.as_deref().filter(|_| own.part == OwnPart::Words);
                    out.push_str(&marks::open_mark(own.part, own.stamp.as_ref(), title));
                    out.push_str(&own.text);
                    out.push_str(&marks::close_mark(own.part, own.stamp.as_ref()));
                    after_own = true;
                }
            }
        }
        out
    }
}

/// True if two descriptions have the same lines, apart from line endings, trailing spaces and blank lines around.
pub fn reads_same(one: &str, other: &str) -> bool {
    marks::plain_lines(one) == marks::plain_lines(other)
}

#[cfg(test)]
mod tests;
