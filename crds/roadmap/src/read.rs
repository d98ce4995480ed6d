//! Reading the file: every item with what is wrong with it.

use std::collections::HashMap;

use crate::graph;
use crate::item::{ItemField, ItemStatus, RoadmapFault, RoadmapItem, is_item_id};
use crate::line::{RoadmapLine, field_of, read_lines};

/// Largest file that is read, in bytes.
pub const MAX_FILE: usize = 256 * 1024;
/// Most items that one file can have.
pub const MAX_ITEMS: usize = 500;
/// Longest title, in characters.
pub(crate) const MAX_TITLE: usize = 120;
/// Longest criteria and longest notes, in characters: with both a request is still one message.
pub(crate) const MAX_WORDS: usize = 5000;
/// Most items that one item can wait for.
const MAX_DEPENDENCIES: usize = 32;
/// Most faults that are reported of one file.
const MAX_FAULTS: usize = 50;

/// A roadmap as its file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoadmapFile {
    /// Title of the roadmap.
    pub title: String,
    /// Items in the file's order.
    pub items: Vec<RoadmapItem>,
    /// Faults of the file, by line.
    pub faults: Vec<RoadmapFault>,
}

impl RoadmapFile {
    /// Reads a file, its faults included.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut reader = RoadmapReader::default();
        if text.len() > MAX_FILE {
            let message = format!(
                "the file has more than {} KiB: nothing of it is read. Move what is done elsewhere",
                MAX_FILE / 1024
            );
            reader.roadmap.faults.push(RoadmapFault { line: 1, message });
            return reader.roadmap;
        }
        for (number, (_, line)) in (1..).zip(read_lines(text)) {
            reader.take(number, line);
        }
        reader.end()
    }

    /// The item with an id. None if two have it.
    #[must_use]
    pub fn item(&self, id: &str) -> Option<&RoadmapItem> {
        let mut all = self.items.iter().filter(|item| item.id == id);
        all.next().filter(|_| all.next().is_none())
    }

    /// Items in an order in which each one comes after those that it waits for; of equals in the file's
    /// order. What waits for itself is left out.
    #[must_use]
    pub fn order(&self) -> Vec<&RoadmapItem> {
        graph::sort_items(&self.items).into_iter().map(|at| &self.items[at]).collect()
    }

    /// Dependencies of an item that are not done yet.
    #[must_use]
    pub fn waits_for<'a>(
        &'a self,
        item: &'a RoadmapItem,
        is_done: impl Fn(&str) -> bool,
    ) -> Vec<&'a str> {
        item.depends_on.iter().map(String::as_str).filter(|id| !is_done(id)).collect()
    }
}

/// The value of a field can't be read.
#[derive(Debug, thiserror::Error)]
enum FieldError {
    #[error("`{}: {value}` is no number, such as #12", .field.as_str())]
    Number { field: ItemField, value: String },
    #[error("`{0}` is no status: there are {known}", known = ItemStatus::ALL.map(ItemStatus::as_str).join(", "))]
    Status(String),
    #[error("`{0}` is no branch")]
    Branch(String),
    #[error("`{0}` is no item's id: write `Depends on: 1, 2` or `—`")]
    Dependency(String),
    #[error("more than {MAX_DEPENDENCIES} items to wait for")]
    TooManyDependencies,
}

#[derive(Default)]
struct RoadmapReader {
    roadmap: RoadmapFile,
    /// True where fields may come: behind a heading, or behind another field.
    in_head: bool,
    last: Option<ItemField>,
    seen: Vec<ItemField>,
    /// True once the file has as many items as are taken in.
    is_full: bool,
}

impl RoadmapReader {
    fn take(&mut self, number: usize, line: RoadmapLine<'_>) {
        if self.is_full {
            return;
        }
        let text = match line {
            RoadmapLine::Blank => "",
            RoadmapLine::Title(text)
            | RoadmapLine::Heading(text)
            | RoadmapLine::Indented(text)
            | RoadmapLine::Text(text)
            | RoadmapLine::Entry { value: text, .. } => text,
        };
        if text.chars().any(hides_text) {
            self.fault(number, "has a character that can't be seen: type the line anew".to_owned());
        }
        match line {
            RoadmapLine::Title(title) if self.roadmap.items.is_empty() => {
                title.clone_into(&mut self.roadmap.title);
            }
            RoadmapLine::Heading(heading) => self.heading(number, heading),
            _ if self.roadmap.items.is_empty() => {}
            RoadmapLine::Blank => self.word(""),
            RoadmapLine::Entry { key, value, .. } if self.in_head => self.entry(number, key, value),
            RoadmapLine::Entry { key, .. } if field_of(key).is_some() => {
                let message =
                    format!("`{key}` stands below the item's text: move it up to the heading");
                self.fault(number, message);
            }
            RoadmapLine::Indented(text) if self.in_head && self.last.is_some() => {
                self.goes_on(number, text);
            }
            RoadmapLine::Entry { .. }
            | RoadmapLine::Indented(_)
            | RoadmapLine::Text(_)
            | RoadmapLine::Title(_) => {
                self.in_head = false;
                let text = match line {
                    RoadmapLine::Entry { key, value, .. } => format!("- {key}: {value}"),
                    _ => text.to_owned(),
                };
                self.word(&text);
            }
        }
    }

    fn heading(&mut self, number: usize, heading: &str) {
        self.finish();
        if self.roadmap.items.len() == MAX_ITEMS {
            self.fault(number, format!("more than {MAX_ITEMS} items: what follows is not read"));
            self.is_full = true;
            return;
        }
        (self.in_head, self.last) = (true, None);
        self.seen.clear();
        let parts = heading.split_once('.').map(|(id, title)| (id.trim(), title.trim()));
        let (id, title) = parts.filter(|(id, _)| is_item_id(id)).unwrap_or(("", heading));
        let (id, title) = (id.to_owned(), title.to_owned());
        let (line, is_sound) = (number, true);
        let length = title.chars().count();
        let message = if id.is_empty() {
            Some(format!(
                "`## {}` is no item: write `## 7. Title` (small letters and digits before the dot), or \
                 use `###` for a heading inside of one",
                clip_quote(heading)
            ))
        } else if title.is_empty() {
            Some(format!("item {id} has no title"))
        } else if length > MAX_TITLE {
            Some(format!("the title of item {id} has {length} characters: {MAX_TITLE} at most"))
        } else {
            None
        };
        self.roadmap.items.push(RoadmapItem {
            id,
            title,
            line,
            is_sound,
            ..RoadmapItem::default()
        });
        if let Some(message) = message {
            self.fault(number, message);
        }
    }

    fn entry(&mut self, number: usize, key: &str, value: &str) {
        let Some(field) = field_of(key) else {
            let known: Vec<_> = ItemField::ALL.iter().map(|field| field.as_str()).collect();
            let message = format!(
                "`{}` is no field: there are {}. Put other words below them, after an empty line and \
                 not as a list with a colon",
                clip_quote(key),
                known.join(", ")
            );
            return self.fault(number, message);
        };
        self.last = Some(field);
        if self.seen.contains(&field) {
            return self.fault(number, format!("`{}` stands here twice", field.as_str()));
        }
        self.seen.push(field);
        if let Err(error) = self.set(field, value) {
            self.fault(number, error.to_string());
        }
    }

    fn set(&mut self, field: ItemField, value: &str) -> Result<(), FieldError> {
        let Some(item) = self.roadmap.items.last_mut() else { return Ok(()) };
        let given = Some(value).filter(|value| !is_nothing(value));
        let number = |value: &str| {
            let digits = value.rsplit('/').next().unwrap_or(value).trim_start_matches('#');
            let found = digits.parse::<u64>().ok().filter(|number| *number > 0);
            found.ok_or_else(|| FieldError::Number { field, value: clip_quote(value) })
        };
        match field {
            ItemField::Status => {
                item.status =
                    ItemStatus::find(value).ok_or_else(|| FieldError::Status(clip_quote(value)))?;
            }
            ItemField::Branch => {
                if given.is_some_and(|branch| branch.contains(char::is_whitespace)) {
                    return Err(FieldError::Branch(clip_quote(value)));
                }
                item.branch = given.map(|branch| branch.trim_matches('`').to_owned());
            }
            ItemField::PullRequest => item.pull_request = given.map(number).transpose()?,
            ItemField::Issue => item.issue = given.map(number).transpose()?,
            ItemField::DependsOn => item.depends_on = read_dependencies(given.unwrap_or_default())?,
            ItemField::Reason => item.reason = given.map(str::to_owned),
            ItemField::Criteria => given.unwrap_or_default().clone_into(&mut item.criteria),
        }
        Ok(())
    }

    fn goes_on(&mut self, number: usize, text: &str) {
        let Some(field) = self.last else { return };
        if !field.is_long() {
            return self
                .fault(number, format!("`{}` is one line: this one is too many", field.as_str()));
        }
        let Some(item) = self.roadmap.items.last_mut() else { return };
        let words = match field {
            ItemField::Reason => item.reason.get_or_insert_default(),
            _ => &mut item.criteria,
        };
        if !words.is_empty() {
            words.push('\n');
        }
        words.push_str(text.trim());
    }

    fn word(&mut self, text: &str) {
        if !self.in_head
            && let Some(item) = self.roadmap.items.last_mut()
        {
            item.notes.push_str(text);
            item.notes.push('\n');
        }
    }

    /// The item that was read last is complete.
    fn finish(&mut self) {
        let Some(item) = self.roadmap.items.last_mut() else { return };
        item.notes = item.notes.trim().to_owned();
        item.criteria = item.criteria.trim().to_owned();
        let (id, line) = (item.id.clone(), item.line);
        let length = item.criteria.chars().count().max(item.notes.chars().count());
        let open = item.status != ItemStatus::Done;
        if open && item.criteria.is_empty() {
            let message = format!(
                "item {id} has no `Acceptance criteria`: nobody could tell when it is done"
            );
            self.fault(line, message);
        } else if length > MAX_WORDS {
            let message =
                format!("item {id} says too much: {MAX_WORDS} characters at most, split it");
            self.fault(line, message);
        }
    }

    /// Records a fault of the item that is being read, or of none before the first.
    fn fault(&mut self, line: usize, message: String) {
        if let Some(item) = self.roadmap.items.last_mut() {
            item.is_sound = false;
        }
        self.roadmap.faults.push(RoadmapFault { line, message });
    }

    fn end(mut self) -> RoadmapFile {
        self.finish();
        let RoadmapFile { title, mut items, mut faults } = self.roadmap;
        refuse_twins(&mut items, &mut faults);
        graph::check_graph(&mut items, &mut faults);
        faults.sort();
        if faults.len() > MAX_FAULTS {
            let message = format!("{} more mistakes follow", faults.len() - MAX_FAULTS);
            faults.truncate(MAX_FAULTS);
            let line = faults.last().map_or(1, |last| last.line);
            faults.push(RoadmapFault { line, message });
        }
        RoadmapFile { title, items, faults }
    }
}

/// Refuses two items with one id: nobody knows which of them is meant.
fn refuse_twins(items: &mut [RoadmapItem], faults: &mut Vec<RoadmapFault>) {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut twins = Vec::new();
    for item in items.iter().filter(|item| !item.id.is_empty()) {
        match first.get(&item.id) {
            None => drop(first.insert(item.id.clone(), item.line)),
            Some(line) => {
                let message = format!(
                    "item {} stands in line {line} already: give this one another id",
                    item.id
                );
                faults.push(RoadmapFault { line: item.line, message });
                twins.push(item.id.clone());
            }
        }
    }
    for item in items.iter_mut().filter(|item| twins.contains(&item.id)) {
        item.is_sound = false;
    }
}

fn read_dependencies(value: &str) -> Result<Vec<String>, FieldError> {
    let mut all: Vec<String> = Vec::new();
    if value.is_empty() {
        return Ok(all);
    }
    for word in value.split(',').map(|word| word.trim().trim_start_matches('#')) {
        if !is_item_id(word) {
            return Err(FieldError::Dependency(clip_quote(word)));
        }
        if !all.iter().any(|known| known == word) {
            all.push(word.to_owned());
        }
    }
    match all.len() {
        0..=MAX_DEPENDENCIES => Ok(all),
        _ => Err(FieldError::TooManyDependencies),
    }
}

fn is_nothing(value: &str) -> bool {
    matches!(value, "" | "-" | "–" | "—" | "none")
}

/// True for characters that make people see other words than a machine reads.
fn hides_text(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Somebody's words, shortened and cleaned so that they can be quoted.
fn clip_quote(text: &str) -> String {
    let clean = text.chars().filter(|c| !hides_text(*c) && *c != '`');
    let short: String = clean.take(60).collect();
    short
}

#[cfg(test)]
mod tests;
