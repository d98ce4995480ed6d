//! Changes one item of a roadmap and nothing else in the file, or adds items.

use crate::draft::{DraftError, DraftItem};
use crate::item::ItemField;
use crate::line::{RoadmapLine, field_of, read_lines};
use crate::read::{MAX_FILE, RoadmapFile};

/// Reason for which the file stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No item has this id, or two items have it.
    #[error("the roadmap has no item {0}, or two of them")]
    NoItem(String),
    /// An item that is to be added is not as it has to be.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// The file would be longer than [`MAX_FILE`].
    #[error("the roadmap gets too long: move what is done elsewhere")]
    TooLong,
    /// The file would have this fault.
    #[error("{0}")]
    Refused(String),
}

/// A field of an item says this now. Of all other lines not one byte differs.
///
/// # Errors
/// When there is no such item.
pub fn set_field(text: &str, id: &str, field: ItemField, value: &str) -> Result<String, EditError> {
    let missing = || EditError::NoItem(id.to_owned());
    if RoadmapFile::read(text).item(id).is_none() {
        return Err(missing());
    }
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = if value.is_empty() { "—" } else { &value };
    let head = ItemHead::find(text, id, field).ok_or_else(missing)?;
    let mut edited = text.to_owned();
    if let Some((from, to)) = head.value {
        edited.replace_range(from..to, &format!(" {value}"));
    } else {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let line = format!("- {}: {value}{newline}", field.as_str());
        let broken = head.end > 0 && !text[..head.end].ends_with('\n');
        let line = if broken { format!("{newline}{line}") } else { line };
        edited.insert_str(head.end, &line);
    }
    Ok(edited)
}

/// A field of an item is not there any more. Of all other lines not one byte differs.
///
/// # Errors
/// When there is no such item.
pub fn clear_field(text: &str, id: &str, field: ItemField) -> Result<String, EditError> {
    let missing = || EditError::NoItem(id.to_owned());
    if RoadmapFile::read(text).item(id).is_none() {
        return Err(missing());
    }
    let head = ItemHead::find(text, id, field).ok_or_else(missing)?;
    let mut edited = text.to_owned();
    if let Some((from, to)) = head.lines {
        edited.replace_range(from..to, "");
    }
    Ok(edited)
}

/// The heading of an item and the fields below it, by their places in the text.
struct ItemHead {
    /// Range of the value of the field that was looked for: from behind the colon to the end of its words.
    value: Option<(usize, usize)>,
    /// Range of the field's lines.
    lines: Option<(usize, usize)>,
    /// Offset behind the line of the first field, or of the heading.
    end: usize,
}

impl ItemHead {
    fn find(text: &str, id: &str, field: ItemField) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut entered = false;
        let mut all = read_lines(text).peekable();
        let mut is_open = false;
        while let Some((from, line)) = all.next() {
            let next = all.peek().map_or(text.len(), |(next, _)| *next);
            match (&mut found, line) {
                (None, RoadmapLine::Heading(heading)) => {
                    let own = heading.split_once('.').map(|(own, _)| own.trim());
                    if own == Some(id) {
                        found = Some(Self { value: None, lines: None, end: next });
                    }
                }
                (None, _) | (Some(_), RoadmapLine::Blank) => {}
                (Some(head), RoadmapLine::Entry { key, at, .. }) => {
                    is_open = field_of(key) == Some(field);
                    let words = text[from..next].trim_end().len();
                    if is_open {
                        head.value = Some((from + at, from + words.max(at)));
                        head.lines = Some((from, next));
                    }
                    if !entered {
                        (entered, head.end) = (true, next);
                    }
                }
                // The rest of a value that goes on.
                (Some(head), RoadmapLine::Indented(_)) => {
                    if let (Some(value), Some(lines), true) =
                        (&mut head.value, &mut head.lines, is_open)
                    {
                        value.1 = from + text[from..next].trim_end().len();
                        lines.1 = next;
                    }
                }
                // The next item, or words below the fields.
                (Some(_), _) => break,
            }
        }
        found
    }
}

/// Items at the end of the file, which begins with them if there was none.
///
/// # Errors
/// When an item is not as it has to be, or waits for one that is nowhere.
pub fn add_items(text: &str, items: &[DraftItem]) -> Result<String, EditError> {
    let before = RoadmapFile::read(text);
    let mut edited = text.trim_end().to_owned();
    if edited.is_empty() {
        "# Roadmap".clone_into(&mut edited);
    }
    for item in items {
        let written = item.write()?;
        edited = format!("{edited}\n\n{}", written.trim_end());
    }
    edited.push('\n');
    if text.contains("\r\n") {
        edited = edited.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if edited.len() > MAX_FILE {
        return Err(EditError::TooLong);
    }
    // Faults that were there before are not this edit's to fix, so only new ones refuse it.
    let after = RoadmapFile::read(&edited);
    let known = |message: &str| before.faults.iter().any(|fault| fault.message == message);
    match after.faults.iter().find(|fault| !known(&fault.message)) {
        Some(fault) => Err(EditError::Refused(fault.message.clone())),
        None => Ok(edited),
    }
}
