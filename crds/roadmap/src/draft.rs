//! Proposed items of a roadmap, before they are in the file.

use crate::item::{ItemField, RoadmapItem, is_item_id};
use crate::read::{MAX_TITLE, MAX_WORDS};

/// Letters and digits that nobody mistakes for each other.
const ALPHABET: &[u8; 30] = b"abcdefghjkmnpqrstvwxyz23456789";
/// The first ones of them, with which an id begins: one that is drawn is never a number.
const LETTERS: usize = 22;
/// Length of a drawn id: of so many, a thousand that are drawn at once meet once in two thousand times.
const LENGTH: usize = 7;

/// An item as somebody proposes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftItem {
    /// Id that was drawn, or chosen by people.
    pub id: String,
    /// Short title of the work.
    pub title: String,
    /// Ids of items of the file, or of the same proposal.
    pub depends_on: Vec<String>,
    /// Acceptance criteria, a line each.
    pub criteria: Vec<String>,
    /// Further notes on the work.
    pub notes: String,
}

/// An item can't be written as it is proposed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// The id has other characters, or too many.
    #[error("`{0}` is no item's id: small letters and digits, 12 at most")]
    Id(String),
    /// The title is empty or too long.
    #[error("an item needs a title, of {MAX_TITLE} characters at most")]
    Title,
    /// The item with this title has no acceptance criteria.
    #[error("“{0}” has no acceptance criteria: nobody could tell when it is done")]
    NoCriteria(String),
    /// Criteria or notes of the item with this title are too long.
    #[error("“{0}” says too much: {MAX_WORDS} characters at most, split it")]
    TooLong(String),
}

/// An id that no other branch has drawn: from nine bytes of chance or more.
#[must_use]
pub fn fresh_id(random: u64) -> String {
    let mut left = random;
    let mut id = String::with_capacity(LENGTH);
    for place in 0..LENGTH {
        let base = if place == 0 { LETTERS } else { ALPHABET.len() } as u64;
        let at = usize::try_from(left % base).unwrap_or_default();
        left /= base;
        id.push(ALPHABET[at].into());
    }
    id
}

impl From<&RoadmapItem> for DraftItem {
    fn from(item: &RoadmapItem) -> Self {
        let line = |line: &str| line.strip_prefix("- ").unwrap_or(line).to_owned();
        Self {
            id: item.id.clone(),
            title: item.title.clone(),
            depends_on: item.depends_on.clone(),
            criteria: item.criteria.lines().map(line).collect(),
            notes: item.notes.clone(),
        }
    }
}

impl DraftItem {
    /// Writes the item as it stands in the file.
    ///
    /// # Errors
    /// When it would be no sound item of the file.
    pub fn write(&self) -> Result<String, DraftError> {
        let Self { id, title, depends_on, criteria, notes } = self;
        if !is_item_id(id) {
            return Err(DraftError::Id(id.clone()));
        }
        let title = one_line(title);
        if title.is_empty() || title.chars().count() > MAX_TITLE {
            return Err(DraftError::Title);
        }
        let criteria: Vec<_> =
            criteria.iter().map(|line| one_line(line)).filter(|line| !line.is_empty()).collect();
        if criteria.is_empty() {
            return Err(DraftError::NoCriteria(title));
        }
        if criteria.join("\n").chars().count() > MAX_WORDS || notes.chars().count() > MAX_WORDS {
            return Err(DraftError::TooLong(title));
        }
        let waits = if depends_on.is_empty() { "—".to_owned() } else { depends_on.join(", ") };
        let criteria = match criteria.as_slice() {
            [one] => format!(" {one}"),
            all => format!("\n  - {}", all.join("\n  - ")),
        };
        let mut text = format!(
            "## {id}. {title}\n- {}: pending\n- {}: {waits}\n- {}:{criteria}\n",
            ItemField::Status.as_str(),
            ItemField::DependsOn.as_str(),
            ItemField::Criteria.as_str(),
        );
        if !notes.trim().is_empty() {
            text = format!("{text}\n{}\n", tame_notes(notes));
        }
        Ok(text)
    }
}

/// Joins a text to one line, with every run of blanks as one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Notes in which nothing begins another item.
fn tame_notes(notes: &str) -> String {
    let line = |line: &str| match line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")) {
        Some(heading) => format!("### {heading}"),
        None => line.to_owned(),
    };
    notes.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}
