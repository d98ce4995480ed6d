//! Fits a description into GitHub's limit: our parts are shortened, people's words never.

use crate::{DescriptionPiece, OwnPart, OwnText, SharedDescription, marks};

/// Characters that GitHub takes, as browsers count them.
pub const LIMIT: usize = 65_536;
/// Below what is left of a part.
const SHORTENED: &str = "… _(shortened: the description would be too long)_";
/// A part of fewer characters says nothing any more.
const LEAST: usize = 200;
/// Words by which GitHub closes an issue.
const CLOSING: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];

/// A description that is short enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedDescription {
    pub text: String,
    /// True if none of our parts was shortened or left out.
    pub is_whole: bool,
}

impl SharedDescription {
    /// Renders the description within [`LIMIT`] characters; `None` where people's words leave no room.
    pub fn fitted(&self) -> Option<FittedDescription> {
        self.fitted_within(LIMIT)
    }

    pub(crate) fn fitted_within(&self, limit: usize) -> Option<FittedDescription> {
        let text = self.whole();
        if count_units(&text) <= limit {
            return Some(FittedDescription { text, is_whole: true });
        }
        let mut short = self.clone();
        // The pictures are in the conversation, too.
        short.remove(OwnPart::Pictures);
        for part in [OwnPart::Summary, OwnPart::Words] {
            let over = count_units(&short.whole()).saturating_sub(limit);
            let Some(at) = short.position(part).filter(|_| over > 0) else { continue };
            let DescriptionPiece::Own(own) = &short.pieces[at] else { continue };
            // A part that a person has edited is theirs.
            if !own.is_untouched() {
                continue;
            }
            match shorten(own, over) {
                Some(own) => short.pieces[at] = DescriptionPiece::Own(own),
                None => drop(short.pieces.remove(at)),
            }
        }
        let text = short.whole();
        (count_units(&text) <= limit).then_some(FittedDescription { text, is_whole: false })
    }
}

fn count_units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// A part with so many characters less, if that leaves something of it.
fn shorten(own: &OwnText, over: usize) -> Option<OwnText> {
    let text = own.text.trim();
    let tail_from = text.len().saturating_sub(own.fixed);
    let (head, tail) = (text.get(..tail_from)?, text.get(tail_from..)?);
    let closing: Vec<&str> = head.lines().filter(|line| is_closing(line)).collect();
    // The note, what closes issues, a fence that has to be closed, line breaks.
    let extra =
        count_units(SHORTENED) + closing.iter().map(|l| count_units(l) + 2).sum::<usize>() + 20;
    let left = count_units(head).checked_sub(over + extra).filter(|left| *left >= LEAST)?;
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= left
    };
    let cut: String = head.chars().take_while(fits).collect();
    let cut = match cut.rfind('\n').filter(|line| *line > cut.len() / 2) {
        Some(line) => &cut[..line],
        None => &cut,
    };
    let lost = closing.iter().filter(|line| !cut.lines().any(|known| known == **line));
    let mut head = format!("{}\n\n{SHORTENED}", marks::close_fence(cut.trim_end()));
    for line in lost {
        head.push_str("\n\n");
        head.push_str(line);
    }
    Some(OwnText::new(own.part, &head, tail))
}

/// A line by which GitHub closes an issue with the merge.
fn is_closing(line: &str) -> bool {
    let Some((word, number)) = line.trim().split_once(" #") else { return false };
    let word = word.trim_end_matches(':').to_ascii_lowercase();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && CLOSING.contains(&&*word)
}
