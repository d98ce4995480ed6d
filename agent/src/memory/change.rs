//! One change of a memory page: one entry comes, is said anew, or becomes history. Never a rewrite.

use codebutler_roadmap::edit::{EditError, add_items};
use codebutler_roadmap::{DraftItem, RoadmapFile};
use serde::{Deserialize, Serialize};

use super::map::{find_map, replace_map};
use super::workflow::{find_workflow, replace_workflow};
use super::{LearningEntry, MemoryPage, contradicts};

/// Operation on an entry or a part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Add,
    Replace,
    /// The page's map of the project is written anew.
    Map,
    /// The roadmap gets an item.
    Item,
    /// A workflow comes, or is written anew.
    Workflow,
    /// A file that is read as a whole comes, or is written anew: a skill, the policy.
    File,
    /// The entry goes to the section of archived learnings, which no prompt has.
    Archive,
}

/// A proposed change of one entry of one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearningChange {
    /// Path of the page below `.codebutler/`.
    pub file: String,
    pub kind: ChangeKind,
    /// The entry after the change; of an archived one only its id and claim count.
    pub learning: LearningEntry,
    /// Reason of the change, in a sentence.
    pub reason: String,
    /// New text of a part that is replaced [as a whole](Self::is_whole).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub map: String,
}

/// A change can't be done to a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LearningChangeError {
    #[error("`.codebutler/{file}` has no learning `{id}`; it has {}", .known.join(", "))]
    NoLearning { file: String, id: String, known: Vec<String> },
    #[error(
        "`.codebutler/{file}` says that already: “{claim}” (`{id}`). Change that entry if it has to say more"
    )]
    Repeats { file: String, claim: String, id: String },
    #[error(
        "`.codebutler/{file}` says the contrary: “{claim}” (`{id}`). Replace or archive that entry instead"
    )]
    Contradicts { file: String, claim: String, id: String },
    #[error("it is no item of a roadmap")]
    NoItem,
    #[error(transparent)]
    Roadmap(#[from] EditError),
}

impl LearningChange {
    /// True if it replaces a part of a page as a whole, and no entry.
    pub fn is_whole(&self) -> bool {
        use ChangeKind::{File, Item, Map, Workflow};
        matches!(self.kind, Map | Workflow | Item | File)
    }

    /// The page with the change; the same text where it is done already. `page` is nothing where there is no
    /// such file.
    ///
    /// # Errors
    /// When the page has no such entry, or another one says the same or the contrary.
    pub fn apply(&self, page: Option<&str>) -> Result<String, LearningChangeError> {
        if self.kind == ChangeKind::Item {
            return add_item(page.unwrap_or_default(), &self.map);
        }
        if self.kind == ChangeKind::Workflow {
            return Ok(replace_workflow(page, self.workflow_name(), &self.map));
        }
        if self.kind == ChangeKind::File {
            return Ok(format!("{}\n", self.map.trim()));
        }
        let empty;
        let text = if let Some(text) = page {
            text
        } else {
            empty = format!("# {}\n", self.file.trim_end_matches(".md"));
            &empty
        };
        let page = MemoryPage::parse(text);
        let (id, file) = (&self.learning.id, || self.file.clone());
        let missing = || LearningChangeError::NoLearning {
            file: file(),
            id: id.clone(),
            known: page.learnings().map(|one| one.id.clone()).collect(),
        };
        match self.kind {
            ChangeKind::Add if page.find(id).is_some_and(|there| *there == self.learning) => {
                Ok(text.to_owned())
            }
            ChangeKind::Add => match page.learnings().find(|one| one.repeats(&self.learning)) {
                Some(same) => {
                    let (claim, id) = (same.claim.clone(), same.id.clone());
                    Err(LearningChangeError::Repeats { file: file(), claim, id })
                }
                None => match page.learnings().find(|one| contradicts(one, &self.learning)) {
                    Some(other) => {
                        let (claim, id) = (other.claim.clone(), other.id.clone());
                        Err(LearningChangeError::Contradicts { file: file(), claim, id })
                    }
                    None => Ok(page.with_added(id, &self.learning.render())),
                },
            },
            ChangeKind::Map | ChangeKind::Workflow | ChangeKind::Item | ChangeKind::File => {
                Ok(replace_map(text, &self.map))
            }
            ChangeKind::Replace => {
                page.with_replaced(id, &self.learning.render()).ok_or_else(missing)
            }
            ChangeKind::Archive if page.has_archived(id) && page.find(id).is_none() => {
                Ok(text.to_owned())
            }
            ChangeKind::Archive => page.with_archived(id).ok_or_else(missing),
        }
    }

    /// Renders the change for people: the lines that go and come, as in a diff.
    pub fn show_diff(&self, page: Option<&str>) -> String {
        let whole = match self.kind {
            ChangeKind::Item => None,
            ChangeKind::File => page,
            ChangeKind::Map => page.and_then(find_map),
            ChangeKind::Workflow => page.and_then(|page| find_workflow(page, self.workflow_name())),
            _ => return self.show_entry(page),
        };
        show_lines(whole.unwrap_or_default(), &self.map)
    }

    /// Name of the workflow that the change is about.
    fn workflow_name(&self) -> &str {
        self.learning.id.strip_prefix("workflow-").unwrap_or(&self.learning.id)
    }

    fn show_entry(&self, page: Option<&str>) -> String {
        let page = MemoryPage::parse(page.unwrap_or_default());
        let old = page.find(&self.learning.id).map(LearningEntry::render).unwrap_or_default();
        let new = match self.kind {
            ChangeKind::Add | ChangeKind::Replace => self.learning.render(),
            _ => String::new(),
        };
        let mut lines = Vec::new();
        lines.extend(
            old.lines()
                .filter(|line| !new.lines().any(|other| other == *line))
                .map(|line| format!("- {line}")),
        );
        lines.extend(new.lines().map(|line| {
            let mark = if old.lines().any(|other| other == line) { ' ' } else { '+' };
            format!("{mark} {line}")
        }));
        lines.join("\n")
    }
}

/// The roadmap with an item at its end. What it was to wait for and nobody accepted, it does not wait for.
fn add_item(page: &str, written: &str) -> Result<String, LearningChangeError> {
    let known = RoadmapFile::read(page);
    let wanted = RoadmapFile::read(written);
    let [item] = wanted.items.as_slice() else {
        return Err(LearningChangeError::NoItem);
    };
    if known.item(&item.id).is_some_and(|there| there.hash() == item.hash()) {
        return Ok(page.to_owned());
    }
    let mut draft = DraftItem::from(item);
    draft.depends_on.retain(|id| known.item(id).is_some());
    Ok(add_items(page, &[draft])?)
}

/// The lines that go and come; those that stay are not shown.
fn show_lines(old: &str, new: &str) -> String {
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other.trim() == line.trim());
    let gone = old.lines().filter(|line| lacks(new, line)).map(|line| format!("- {line}"));
    let come = new.lines().filter(|line| lacks(old, line)).map(|line| format!("+ {line}"));
    gone.chain(come).collect::<Vec<_>>().join("\n")
}
