//! Compares trees within a budget. Git's own comparison expands whatever it is given; here a tree that unfolds into
//! more files than anybody has is noticed before it fills the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::budget::{CompareError, PushBudget};
use super::objects::ObjectReader;

/// The tree with nothing in it; it need not be an object.
pub(super) const EMPTY: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// Entries of folders that are kept to be compared again.
const MAX_KEPT: usize = 200_000;
const FOLDER: &[u8] = b"40000";
/// A submodule: its id is no object of this repository.
const SUBMODULE: &[u8] = b"160000";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedEntry {
    /// Path of the file, as far as it is text.
    pub path: String,
    /// Object id before; None if the file did not exist.
    pub old: Option<String>,
    /// Object id after; None if the file is deleted.
    pub new: Option<String>,
}

/// Entries of a tree: mode and id by name.
type Entries = BTreeMap<Vec<u8>, (Vec<u8>, String)>;

/// Differences by pair of trees.
#[derive(Debug, Default)]
pub(super) struct TreeDiffs {
    known: BTreeMap<(String, String), Arc<[ChangedEntry]>>,
    trees: BTreeMap<String, Arc<Entries>>,
    /// Entries of `trees`, all together.
    kept: usize,
}

impl TreeDiffs {
    /// Returns the differences of two trees. They are charged to the budget on every call, because each caller goes
    /// through them.
    ///
    /// # Errors
    /// When the push has no room for it.
    pub(super) async fn between(
        &mut self,
        objects: &mut ObjectReader,
        budget: &mut PushBudget,
        (old, new): (&str, &str),
    ) -> Result<Arc<[ChangedEntry]>, CompareError> {
        if old == new {
            return Ok(Arc::default());
        }
        let pair = (old.to_owned(), new.to_owned());
        if let Some(known) = self.known.get(&pair) {
            budget.add_files(known.len(), known.iter().map(|one| one.path.len()).sum())?;
            return Ok(Arc::clone(known));
        }
        let changed: Arc<[_]> = self.compare(objects, budget, &pair).await?.into();
        self.known.insert(pair, Arc::clone(&changed));
        Ok(changed)
    }

    /// Drops the cached differences.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    async fn compare(
        &mut self,
        objects: &mut ObjectReader,
        budget: &mut PushBudget,
        (old, new): &(String, String),
    ) -> Result<Vec<ChangedEntry>, CompareError> {
        let mut changed = Vec::new();
        let mut folders = vec![(String::new(), Some(old.clone()), Some(new.clone()))];
        while let Some((path, old, new)) = folders.pop() {
            let old = self.tree(objects, budget, old.as_deref()).await?;
            let new = self.tree(objects, budget, new.as_deref()).await?;
            budget.add_entries(old.len() + new.len() + 1)?;
            let (before, waiting) = (changed.len(), folders.len());
            diff_folder(&path, &old, &new, &mut changed, &mut folders);
            let added = changed[before..].iter().map(|one| one.path.len());
            let added: usize = added.chain(folders[waiting..].iter().map(|one| one.0.len())).sum();
            // A folder counts too: one that is empty everywhere would be looked into for nothing.
            budget.add_files(changed.len() - before + folders.len() - waiting, added)?;
            tokio::task::consume_budget().await;
        }
        Ok(changed)
    }

    /// Returns true if a file is the same in two trees: only the folders on its path are read.
    ///
    /// # Errors
    /// When a folder can't be read.
    pub(super) async fn is_same(
        &mut self,
        objects: &mut ObjectReader,
        budget: &mut PushBudget,
        (old, new): (&str, &str),
        path: &str,
    ) -> Result<bool, CompareError> {
        // The name of something else may look the same.
        if path.contains(char::REPLACEMENT_CHARACTER) {
            return Ok(false);
        }
        let (mut old, mut new) = (Some(old.to_owned()), Some(new.to_owned()));
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if old == new {
                return Ok(true);
            }
            let before = self.tree(objects, budget, old.as_deref()).await?;
            let after = self.tree(objects, budget, new.as_deref()).await?;
            budget.add_entries(1)?;
            let (before, after) = (before.get(part.as_bytes()), after.get(part.as_bytes()));
            if parts.peek().is_none() {
                let is_file = file_id(before).is_some() || file_id(after).is_some();
                return Ok(before == after || !is_file);
            }
            (old, new) = (folder_id(before), folder_id(after));
            tokio::task::consume_budget().await;
        }
        Ok(true)
    }

    async fn tree(
        &mut self,
        objects: &mut ObjectReader,
        budget: &mut PushBudget,
        id: Option<&str>,
    ) -> Result<Arc<Entries>, CompareError> {
        let Some(id) = id.filter(|id| *id != EMPTY) else { return Ok(Arc::default()) };
        if let Some(tree) = self.trees.get(id) {
            return Ok(Arc::clone(tree));
        }
        let bytes = objects.read_small(id).await?;
        let tree = read_entries(&bytes);
        budget.add_entries(tree.len())?;
        let tree = Arc::new(tree);
        self.kept += tree.len() + 1;
        if self.kept > MAX_KEPT {
            self.trees.clear();
            self.kept = tree.len() + 1;
        }
        self.trees.insert(id.to_owned(), Arc::clone(&tree));
        Ok(tree)
    }
}

type Folder = (String, Option<String>, Option<String>);

/// Files of one folder that differ, and the folders in it that do.
fn diff_folder(
    path: &str,
    old: &Entries,
    new: &Entries,
    changed: &mut Vec<ChangedEntry>,
    folders: &mut Vec<Folder>,
) {
    let names: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        if before == after {
            continue;
        }
        let name = String::from_utf8_lossy(name);
        let path = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
        let (old_tree, new_tree) = (folder_id(before), folder_id(after));
        if old_tree.is_some() || new_tree.is_some() {
            folders.push((path.clone(), old_tree, new_tree));
        }
        let (old, new) = (file_id(before), file_id(after));
        if old.is_some() || new.is_some() {
            changed.push(ChangedEntry { path, old, new });
        }
    }
}

fn folder_id(entry: Option<&(Vec<u8>, String)>) -> Option<String> {
    entry.filter(|(mode, _)| mode == FOLDER).map(|(_, id)| id.clone())
}

/// A submodule's content is elsewhere: its id stands for itself.
fn file_id(entry: Option<&(Vec<u8>, String)>) -> Option<String> {
    let (mode, id) = entry.filter(|(mode, _)| mode != FOLDER)?;
    Some(if mode == SUBMODULE { format!("submodule {id}") } else { id.clone() })
}

/// Reads a tree object, whose form was checked when it came in. Those of the remote were not: some old ones have zeros
/// before a mode, which mean nothing.
fn read_entries(mut bytes: &[u8]) -> Entries {
    let mut entries = Entries::new();
    while let Some(end) = bytes.iter().position(|b| *b == 0) {
        let Some((id, rest)) = bytes[end + 1..].split_first_chunk::<20>() else { break };
        if let Some(space) = bytes[..end].iter().position(|b| *b == b' ') {
            let zeros = bytes[..space].iter().take_while(|byte| **byte == b'0').count();
            let (mode, name) = (bytes[zeros..space].to_vec(), bytes[space + 1..end].to_vec());
            entries.insert(name, (mode, hex::encode(id)));
        }
        bytes = rest;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(list: &[(&str, &str, u8)]) -> Entries {
        let mut bytes = Vec::new();
        for (mode, name, id) in list {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            bytes.extend([*id; 20]);
        }
        read_entries(&bytes)
    }

    #[test]
    fn a_folder_whose_mode_has_a_zero_before_it_is_the_same_folder() {
        let old = tree(&[("040000", "folder", 5), ("040000", "same", 6)]);
        let new = tree(&[("40000", "folder", 8), ("40000", "same", 6)]);
        let (mut changed, mut folders) = (Vec::new(), Vec::new());
        diff_folder("", &old, &new, &mut changed, &mut folders);
        assert_eq!(changed, []);
        let id = |byte: u8| Some(hex::encode([byte; 20]));
        assert_eq!(folders, [("folder".to_owned(), id(5), id(8))]);
    }

    #[test]
    fn every_kind_of_difference_is_seen() {
        let old = tree(&[
            ("100644", "gone", 1),
            ("100644", "moved", 2),
            ("100644", "same", 3),
            ("100644", "x", 4),
            ("40000", "folder", 5),
            ("40000", "was", 6),
        ]);
        let new = tree(&[
            ("100644", "moved", 7),
            ("100644", "same", 3),
            ("100755", "x", 4),
            ("40000", "folder", 8),
            ("120000", "was", 9),
            ("160000", "sub", 1),
        ]);
        let (mut changed, mut folders) = (Vec::new(), Vec::new());
        diff_folder("src", &old, &new, &mut changed, &mut folders);
        let id = |n: &Option<String>| {
            n.as_ref().map_or("-".to_owned(), |id| id.chars().take(12).collect())
        };
        let shown: Vec<String> =
            changed.iter().map(|c| format!("{} {} {}", c.path, id(&c.old), id(&c.new))).collect();
        assert_eq!(
            shown,
            [
                "src/gone 010101010101 -",
                "src/moved 020202020202 070707070707",
                "src/sub - submodule 01",
                "src/was - 090909090909",
                "src/x 040404040404 040404040404",
            ]
        );
        let shown: Vec<String> =
            folders.iter().map(|(path, a, b)| format!("{path} {} {}", id(a), id(b))).collect();
        assert_eq!(shown, ["src/folder 050505050505 080808080808", "src/was 060606060606 -"]);
    }
}
